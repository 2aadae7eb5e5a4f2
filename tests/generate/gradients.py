"""What holds of the derivatives of every generated program whose data may move a little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tensorir as ti
from tensorir import reference
from tensorir.analysis.domains import domains
from tensorir.ir.rewrite import postorder, values

from .bounds import flat
from .data import copied
from .programs import Case

__all__ = ["check_adjoint", "check_differences", "check_tables", "check_unneeded"]

Arrays = list[jax.Array]


class Linearised:
    """A case as a function of its float arguments, one list of arrays in and one out."""

    def __init__(self, case: Case, traced: bool = False) -> None:
        self.case = case
        given = copied(case.arguments)
        self.leaves, self.tree = jax.tree_util.tree_flatten(given)
        self.moving = [k for k, a in enumerate(self.leaves) if a.dtype.kind == "f"]
        tables = {n: given[n] for n in case.entries if n in given}
        self.full = tuple(n for n in tables if not case.entries[n].holes) if traced else ()
        self.tables = tables if traced else {}
        self.compiled = ti.compile(case.fencil, full=self.full)

    @property
    def point(self) -> Arrays:
        return [jnp.asarray(self.leaves[k]) for k in self.moving]

    def direction(self, seed: int) -> Arrays:
        rng = np.random.default_rng(seed)
        return [jnp.asarray(rng.normal(size=self.leaves[k].shape)) for k in self.moving]

    def __call__(self, moved: Arrays, tables: dict[str, Any] | None = None) -> Arrays:
        leaves = list(self.leaves)
        for k, array in zip(self.moving, moved, strict=True):
            leaves[k] = array
        out = self.compiled(**{**jax.tree_util.tree_unflatten(self.tree, leaves), **(tables or {})})
        # by name and not as a tree, whose leaves are sorted by name
        leaves = [a for p in self.case.fencil.outputs for a in jax.tree_util.tree_leaves(out[p.name])]
        return [a for a in leaves if a.dtype.kind == "f"]

    def function(self) -> Callable[[Arrays], Arrays]:
        """With tables as arguments of a jitted function, where they are to be traced."""
        if not self.tables:
            return self
        jitted = jax.jit(lambda moved, tables: self(moved, tables))
        return lambda moved: jitted(moved, self.tables)


def inner(a: Arrays, b: Arrays) -> tuple[float, float]:
    """The inner product, and the sum of the magnitudes of its terms."""
    terms = [np.asarray(x, np.float64) * np.asarray(y, np.float64) for x, y in zip(a, b, strict=True)]
    return float(sum(t.sum() for t in terms)), float(sum(np.abs(t).sum() for t in terms))


def operations(case: Case) -> set[str]:
    """The builtins that a program uses."""
    return {getattr(node, "op", "") for node in postorder(*values(case.fencil.closures))}


def check_adjoint(case: Case, traced: bool = False) -> None:
    """Forward and reverse mode are adjoint: ⟨w, J v⟩ = ⟨Jᵀ w, v⟩."""
    f = Linearised(case, traced)
    with jax.enable_x64(True):
        v, function = f.direction(1), f.function()
        out, moved = jax.jvp(function, (f.point,), (v,))
        rng = np.random.default_rng(2)
        w = [jnp.asarray(rng.normal(size=a.shape)) for a in out]
        (back,) = jax.vjp(function, f.point)[1](w)
        forward, size = inner(w, moved)
        reverse, other = inner(back, v)
    assert abs(forward - reverse) <= 1e-12 * max(size, other), (forward, reverse, case)


def check_tables(case: Case) -> None:
    """Gradients through the inverse tables of bound ones are those through traced ones, which scatter."""
    f = Linearised(case, traced=True)
    if not f.tables:
        return
    bound = case.fencil.bind(**f.tables)
    rest = {n: v for n, v in copied(case.arguments).items() if n not in f.tables}
    leaves, tree = jax.tree_util.tree_flatten(rest)
    moving = [k for k, a in enumerate(leaves) if a.dtype.kind == "f"]
    compiled = ti.compile(bound)

    def through_bound(moved: Arrays) -> Arrays:
        new = list(leaves)
        for k, array in zip(moving, moved, strict=True):
            new[k] = array
        out = compiled(**jax.tree_util.tree_unflatten(tree, new))
        found = [a for p in case.fencil.outputs for a in jax.tree_util.tree_leaves(out[p.name])]
        return [a for a in found if a.dtype.kind == "f"]

    with jax.enable_x64(True):
        out, back = jax.vjp(through_bound, f.point)
        rng = np.random.default_rng(3)
        w = [jnp.asarray(rng.normal(size=a.shape)) for a in out]
        (through_inverse,) = back(w)
        (through_scatter,) = jax.vjp(f.function(), f.point)[1](w)
    scale = max([1.0, *(float(np.abs(a).max(initial=0.0)) for a in through_scatter)])
    for a, b in zip(through_inverse, through_scatter, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * scale, err_msg=repr(case))


def check_differences(case: Case) -> None:
    """Forward mode is the slope of the oracle's results, where they have one."""
    if operations(case) & {"min", "max", "abs", "sort"}:
        return
    f = Linearised(case)
    with jax.enable_x64(True):
        v = f.direction(1)
        _, moved = jax.jvp(f.function(), (f.point,), (v,))
    step = 1e-6
    start = [f.leaves[k] for k in f.moving]
    ahead, behind = (_oracle(f, [a + s * np.asarray(d) for a, d in zip(start, v, strict=True)]) for s in (step, -step))
    for a, b, slope in zip(ahead, behind, moved, strict=True):
        scale = 1.0 + np.abs(np.asarray(slope)) + np.abs(a)
        assert (np.abs((a - b) / (2 * step) - np.asarray(slope)) <= 1e-5 * scale).all(), case


def check_unneeded(case: Case, values: tuple[float, ...] = (0.0, np.inf, np.nan, -1.0)) -> None:
    """What stands at points that no result needs has no part in a gradient, and theirs is 0."""
    f = Linearised(case)
    results = {p.name: {n: (i.start, i.stop) for n, i in p.type.dims.items} for p in case.fencil.results}
    found = domains(case.fencil, results)
    of = {p.name: found.params[p.name].mask(p.type.dims) for p in case.fencil.params}
    masks = jax.tree_util.tree_leaves(
        {n: jax.tree_util.tree_map(lambda _, m=of[n]: m, value) for n, value in copied(case.arguments).items()}
    )
    needed = [masks[k] for k in f.moving]
    with jax.enable_x64(True):
        rng = np.random.default_rng(4)
        strange = [jnp.where(m, a, rng.choice(values, m.shape)) for a, m in zip(f.point, needed, strict=True)]
        out, back = jax.vjp(f.function(), f.point)
        w = [jnp.asarray(rng.normal(size=a.shape)) for a in out]
        (plain,) = back(w)
        (other,) = jax.vjp(f.function(), strange)[1](w)
    for a, b, mask in zip(plain, other, needed, strict=True):
        np.testing.assert_array_equal(np.asarray(b)[~mask], 0.0, err_msg=repr(case))
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=repr(case))


def _oracle(f: Linearised, moved: list[np.ndarray]) -> list[np.ndarray]:
    leaves = list(f.leaves)
    for k, array in zip(f.moving, moved, strict=True):
        leaves[k] = np.array(array)
    out = reference.run(f.case.fencil, **jax.tree_util.tree_unflatten(f.tree, leaves))
    return [a for p in f.case.fencil.outputs for a in flat(out[p.name]) if a.dtype.kind == "f"]
