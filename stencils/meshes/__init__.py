"""Triangular meshes with their neighbour tables and their geometry.

A mesh is made by a generator, `icosahedral` for the sphere or `rectangle` for a plane or a torus, or from triangles of
one's own with `Mesh.of_triangles`, or is read from a file of UGRID, ICON or MPAS with `read`. Tables are int32 arrays
in which -1 marks a neighbour that is missing; numbering is deterministic, and neighbours stand in counterclockwise
order. Nothing but NumPy is needed; xarray is imported when a DataArray or a Dataset is asked for.

>>> from stencils import meshes
>>> sphere = meshes.icosahedral(2)
>>> sphere.sizes
{'Vertex': 162, 'Edge': 480, 'Cell': 320}
>>> sphere.tables["V2E"].shape, int((sphere.tables["V2E"] == -1).sum())
((162, 6), 12)
"""

from stencils.meshes.files import read
from stencils.meshes.geometry import QUANTITIES, Geometry, Quantity
from stencils.meshes.mesh import Mesh
from stencils.meshes.surfaces import Plane, Sphere
from stencils.meshes.triangulations import EARTH_RADIUS, icosahedral, rectangle

__all__ = [
    "EARTH_RADIUS",
    "QUANTITIES",
    "Geometry",
    "Mesh",
    "Plane",
    "Quantity",
    "Sphere",
    "icosahedral",
    "read",
    "rectangle",
]
