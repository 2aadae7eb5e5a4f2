"""What a notebook waits for: `python -m tests.benchmarks.exploring`.

An inspection beside one run that returns every intermediate; exact domains of a program of 500 nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import tensorir as ti
from tensorir.analysis.domains import domains
from tensorir.ir.rewrite import postorder, values
from tests.benchmarks.interleaved import compare, report

I, J, K = ti.dims("I J K")


def laplacian(f):
    return f(I + 1) + f(I - 1) + f(J + 1) + f(J - 1) - 4.0 * f


def diffused(inp, coeff):
    lap = laplacian(inp)
    rise = lap(I + 1) - lap
    flx = ti.where(rise * (inp(I + 1) - inp) > 0.0, 0.0, rise)
    rise = lap(J + 1) - lap
    fly = ti.where(rise * (inp(J + 1) - inp) > 0.0, 0.0, rise)
    return inp - coeff * (flx - flx(I - 1) + fly - fly(J - 1))


def main() -> None:
    x, c = (np.random.default_rng(k).normal(size=(256, 256, 32)) for k in range(2))
    fields = {"inp": ti.as_field([I, J, K], x), "coeff": ti.as_field([I, J, K], c)}
    fencil = ti.field_operator(diffused).fencil(**fields)
    whole = ti.compile(fencil)
    inspected = whole.inspect(inp=x, coeff=c)
    outputs = all_at_once(fencil)
    compiled = ti.compile(outputs)
    ways: dict[str, Callable[[], object]] = {
        "inspect": lambda: whole.inspect(inp=x, coeff=c),
        "every intermediate as an output": lambda: compiled(inp=x, coeff=c),
    }
    print(report(f"{len(list(inspected))} intermediates", compare(ways, rounds=30), "every intermediate as an output"))

    chain = "f(out: tensor<float, I[100:900]>, x: tensor<float, I[0:1000]>) { out ← "
    body = "x"
    for k in range(100):
        chain += f"let t{k} = ⟪I, 1⟫({body}) + ⟪I, -1⟫({body}) × 0.5;\n"
        body = f"t{k}"
    long = ti.parse(f"{chain} {body}; }}")
    count = len(list(postorder(*values(long.closures))))
    print(f"domains of a program of {count} nodes: {1e3 * least(lambda: domains(long)):.1f} ms")


def all_at_once(fencil: ti.Fencil) -> ti.Fencil:
    """The program with its named intermediates as outputs, as somebody would write it who wants them all."""
    from tensorir.ir.build import closure, var
    from tensorir.ir.build import fencil as make
    from tensorir.ir.types import TensorType

    named = {n.label: n for n in postorder(*values(fencil.closures)) if getattr(n, "label", "")}
    outs = {name: var(f"{name}_", TensorType(n.tensor.element, n.tensor.dims)) for name, n in named.items()}
    closures = [closure(outs[name], n) for name, n in named.items()]
    return make(fencil.name, (*fencil.params, *outs.values()), (*closures, *fencil.closures))


def least(function: Callable[[], object], rounds: int = 20) -> float:
    """The least seconds of some calls."""
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - begin)
    return best


if __name__ == "__main__":
    main()
