"""What one of two processes with a device each finds, as lines of `name: result`; `test_processes.py` runs both."""

from __future__ import annotations

import sys
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tensorir as ti
from stencils import library, meshes


def said(name: str, result: object) -> None:
    print(f"{name}: {result}", flush=True)


def unstructured(mesh: Mesh) -> None:
    net = meshes.rectangle(7, 4)
    program: Any = library.load("mesh_laplacian")
    tables = {name: net.tables[name] for name in ("V2E", "E2V")}
    lengths = {name: np.linspace(1, 2, net.sizes["Edge"]) for name in ("edge_length", "dual_edge_length")}
    program = program.bind(**tables, **lengths, sign=net.signs["V2E"], vertex_area=np.ones(40))
    d = ti.distribute(program, mesh, {"Vertex": "px", "Edge": "px"}, partition=ti.partition(net, 2), numerics="exact")
    one, x = ti.compile(program, numerics="exact"), np.random.default_rng(1).random((40, 2))
    on = d.dealt(inp=x)
    last, want = (ti.iterate(lambda u, r=r: u - 0.01 * r(inp=u)["out"], u, 4) for r, u in ((on, on["inp"]), (one, x)))
    same = np.array_equal(d(inp=x)["out"], one(inp=x)["out"])
    said("an unstructured mesh", same and np.allclose(on.whole(inp=last)["inp"], want, 1e-14, 1e-14))


def main() -> None:
    """All cases."""
    place, port = int(sys.argv[1]), sys.argv[2]
    jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=place)

    mesh = jax.make_mesh((2,), ("px",))
    d = ti.distribute(library.load("hdiff"), mesh, {"I": "px"}, numerics="exact")
    one = ti.compile(library.load("hdiff"), numerics="exact")
    u, k = np.random.default_rng(0).random((17, 8, 2)), np.full((17, 8, 2), 0.02)
    want = one(inp=u, coeff=k)["out"]
    got = d(inp=u, coeff=k)["out"]
    said("arrays of NumPy", type(got) is np.ndarray and np.array_equal(got, want))

    both, step = [], one
    for step in (one, d):
        seen: list[float] = []
        last = ti.iterate(
            lambda u, step=step: step(inp=u, coeff=k)["out"], u, 6, every=3,
            callback=lambda n, now, seen=seen: seen.append(float(np.asarray(now).sum())),
        )  # fmt: skip
        both.append((last, seen))
    said("steps and what callbacks see", np.array_equal(both[0][0], both[1][0]) and both[0][1] == both[1][1])

    along = NamedSharding(mesh, PartitionSpec("px"))
    with jax.enable_x64(True):
        parts = {
            name: jax.make_array_from_callback((16, 8, 2), along, lambda at, a=a: a[:16][at])
            for name, a in {"inp": u, "coeff": k}.items()
        }
    out = d(**parts)["out"]
    (part,) = out.addressable_shards
    said(
        "arrays of JAX stay in blocks",
        part.index[0] == slice(8 * place, 8 * place + 8) and not out.is_fully_addressable,
    )

    unstructured(mesh)

    try:
        alone = Mesh(np.array(jax.devices()[:1]), ("px",))
        mine = ti.distribute(library.load("hdiff"), alone, {"I": "px"}, numerics="exact")
        said("a mesh of one process", np.array_equal(mine(inp=u, coeff=k)["out"], want))
    except ti.DiagnosticError as found:
        said("a mesh of one process", str(found).replace("\n", " "))

    try:
        d(inp=np.zeros((16 + place, 9, 2)), coeff=np.zeros((16 + place, 9, 2)))
    except ti.DiagnosticError as found:
        said("another size", str(found).replace("\n", " "))


if __name__ == "__main__":
    main()
