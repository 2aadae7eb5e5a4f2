"""Fields to compute with: analytic ones on the sphere and on a plane, and real terrain.

The analytic fields take longitudes and latitudes in degrees, or x and y in metres, as numbers, NumPy arrays or
DataArrays that broadcast together, and return the same kind; DataArrays come back with a name, units and a long name.

>>> from stencils import data
>>> x, y = data.centres(4, 3, width=4.0, height=3.0)
>>> hill = data.gaussian(x, y, centre=(2.0, 1.5), width=1.0)
>>> hill.dims, hill.shape, hill.attrs["units"]
(('I', 'J'), (4, 3), '1')
>>> data.jacksboro_fault().dims
('J', 'I')
"""

from stencils.data.plane import centres, gaussian, heat_mode, nodes, rotating_wind, seiche
from stencils.data.sphere import (
    angular_distance,
    cosine_bell,
    gaussian_hill,
    geostrophic_height,
    longitudes_latitudes,
    rossby_haurwitz,
    rotated,
    sectoral_harmonic,
    slotted_cylinder,
    solid_body_wind,
)
from stencils.data.terrain import jacksboro_fault, spacing, topobathy

__all__ = [
    "angular_distance",
    "centres",
    "cosine_bell",
    "gaussian",
    "gaussian_hill",
    "geostrophic_height",
    "heat_mode",
    "jacksboro_fault",
    "longitudes_latitudes",
    "nodes",
    "rossby_haurwitz",
    "rotated",
    "rotating_wind",
    "sectoral_harmonic",
    "seiche",
    "slotted_cylinder",
    "solid_body_wind",
    "spacing",
    "topobathy",
]
