"""A grid file as ICON has it is the mesh that it was written from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stencils import meshes
from tests.peers.icon4py.grid_file import write


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    mesh = meshes.icosahedral(1, 2)
    write(mesh, tmp_path / "grid.nc", 1, 2)
    found = meshes.read(tmp_path / "grid.nc")
    np.testing.assert_allclose(found.points / found.surface.radius, mesh.points / mesh.surface.radius, atol=1e-12)
    for name in ("C2V", "E2V", "C2E"):
        np.testing.assert_array_equal(np.sort(found.tables[name]), np.sort(mesh.tables[name]))
    np.testing.assert_allclose(found.geometry.cell_area, mesh.geometry.cell_area, rtol=1e-9)
