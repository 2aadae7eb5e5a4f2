"""The gallery: each program of the library with its equations, a run of a second, and what comes of it.

The equations are derived from the program.

The runs below are shown beside their pictures; what they call `before` and `after` is drawn when the site is built.

>>> before, after = run("laplacian")
>>> before.shape, after.shape
((48, 48), (46, 46))
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from stencils import library, meshes

__all__ = ["PRELUDE", "RUNS", "gallery", "run"]

PRELUDE = """
import numpy as np

import tensorir as ti
from stencils import data, library, meshes

x, y = data.centres(48, 48, width=48.0, height=48.0)
hill = data.gaussian(x, y, centre=(16.0, 24.0), width=4.0)
sphere = meshes.icosahedral(4)
tables = {name: sphere.tables[name] for name in ("V2E", "E2V")}
wave = data.sectoral_harmonic(sphere.geometry.vertex_lon, sphere.geometry.vertex_lat)
"""

RUNS = {
    "laplacian": """
        before = hill
        after = program(inp=hill)["out"]
    """,
    "biharmonic": """
        before = hill
        after = program(inp=hill)["out"]
    """,
    "heat": """
        before = hill
        step = lambda u: program(u=u, diffusivity=1.0, dt=0.2, dx=1.0, dy=1.0)["u"]
        after = ti.iterate(step, hill, 200)
    """,
    "advection_upwind": """
        before = hill
        u, v = data.rotating_wind(x, y, centre=(24.0, 24.0), angular_velocity=0.02)
        step = lambda q: program(inp=q, u=u, v=v, dt=0.5, dx=1.0, dy=1.0)["out"]
        after = ti.iterate(step, hill, 157)  # a quarter of a turn
    """,
    "advection_third_order": """
        before = hill
        u, v = data.rotating_wind(x, y, centre=(24.0, 24.0), angular_velocity=0.02)
        step = lambda q: program(inp=q, u=u, v=v, dt=0.5, dx=1.0, dy=1.0)["out"]
        after = ti.iterate(step, hill, 157)  # a quarter of a turn
    """,
    "hdiff": """
        noise, strength = np.random.default_rng(0).normal(size=(48, 48, 1)), np.full((48, 48, 1), 1 / 64)
        before = hill.values[:, :, None] + 0.1 * noise
        after = ti.iterate(lambda f: program(inp=f, coeff=strength)["out"], before, 20)
    """,
    "terrain_filter": """
        before = data.jacksboro_fault().astype("float64").isel(I=slice(120), J=slice(100))
        after = ti.iterate(lambda f: program(inp=f, strength=1 / 64)["out"], before, 50)
    """,
    "shallow_water": """
        before = hill
        calm = {"u": np.zeros((49, 48)), "v": np.zeros((48, 49))}
        basin = {"depth": np.full((48, 48), 10.0), "coriolis": 0.0, "gravity": 9.81, "dt": 0.05, "dx": 1.0, "dy": 1.0}
        after = ti.iterate(lambda s: program(**s, **basin), {"eta": hill.values, **calm}, 30)["eta"]
    """,
    "tridiagonal": """
        before = hill.values[:, None, :]
        side = np.full_like(before, -8.0)  # an implicit step of diffusion along K
        after = program(a=side, b=1.0 - 2.0 * side, c=side, d=before)["x"]
    """,
    "vertical_advection": """
        before = hill.values[:, None, :]
        none, tendency, up = np.zeros_like(before), np.zeros_like(before), np.full((49, 1, 49), 0.2)
        wind = {"u_stage": before, "u_pos": before, "utens": none, "wcon": up}
        after = program(utens_stage=tendency, **wind, dtr_stage=0.5)["utens_stage"]
    """,
    "mesh_laplacian": """
        before = wave
        measures = {n: getattr(sphere.geometry, n) for n in ("edge_length", "dual_edge_length", "vertex_area")}
        after = program(inp=wave[:, None], sign=sphere.signs["V2E"], **measures, **tables)["out"][:, 0]
    """,
    "nabla": """
        before = wave
        faces = {"S_MXX": sphere.geometry.median_face_east, "S_MYY": sphere.geometry.median_face_north}
        gradient = program(pp=wave, sign=sphere.signs["V2E"], vol=sphere.geometry.median_area, **faces, **tables)["out"]
        after = np.hypot(*gradient)
    """,
    "neighbour_max": """
        before = wave
        after = ti.iterate(lambda f: program(inp=f, V2V=sphere.tables["V2V"])["out"], wave, 3)
    """,
}
"""By the name of a program, lines that run it, from `before` to `after`."""


def run(name: str) -> tuple[Any, Any]:
    """What is before and after a run of a program."""
    names: dict[str, Any] = {}
    exec(PRELUDE, names)
    names["program"] = library.load(name)
    exec(textwrap.dedent(RUNS[name]), names)
    return names["before"], names["after"]


def gallery(folder: Path) -> None:
    """The page of the gallery, and a picture for each program in the folder of pictures."""
    pictures = folder / "docs" / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    page = [
        "# Gallery\n",
        "The programs that come with the package: `stencils.library.load(name)` in Python, `tensorir run NAME.fencil`"
        " from the command line. Each picture is of the lines below it, which begin with\n",
        f"```python\n{PRELUDE.strip()}\n```\n",
    ]
    for name in library.names():
        _draw(name, pictures / f"gallery_{name}.png")
        title, _, text = library.documentation(name).partition("\n")
        about = text.partition("\nEquation\n")[0].strip()
        code = f'program = library.load("{name}")\n{textwrap.dedent(RUNS[name]).strip()}'
        program = library.text(name).split("\n\n", 1)[1].strip()
        page += [
            f"## {title}\n",
            f"{about}\n",
            f"$$\n{ti.inspect.latex(library.load(name))}\n$$\n",
            f"![{title}: before and after](docs/pictures/gallery_{name}.png)\n",
            f"```python\n{code}\n```\n",
            f"``` {{ .text title='{name}.fencil' }}\n{program}\n```\n",
        ]
    (folder / "gallery.md").write_text("\n".join(page), encoding="utf-8")


INK = "#808080"
"""Of titles and axes: it stands out from light and from dark paper."""


def _draw(name: str, path: Path) -> None:
    """Before and after, as maps; points of a mesh at their longitudes and latitudes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    for axis, title, values in zip(figure.subplots(1, 2), ("before", "after"), map(np.squeeze, run(name)), strict=True):
        signed = float(np.min(values)) < -0.05 * float(np.max(values))
        limit = float(np.max(np.abs(values)))
        colours = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit} if signed else {"cmap": "viridis"}
        if values.ndim == 1:
            sphere = meshes.icosahedral(4).geometry
            image = axis.tripcolor(sphere.vertex_lon, sphere.vertex_lat, values, shading="gouraud", **colours)
        else:
            image = axis.pcolormesh(np.asarray(values).T, **colours)
        axis.set_title(title, color=INK)
        axis.tick_params(colors=INK)
        figure.colorbar(image, ax=axis).ax.tick_params(colors=INK)
    figure.savefig(path, dpi=90, transparent=True)
