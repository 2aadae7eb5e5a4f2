"""The context of lowering rules: applying functions, proven facts, run-time checks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import lax

from lowering.rules.neighbours import Prepared
from lowering.values import ArrayProvenance, Leaf, Value, aligned, dense, elementwise, presence
from tensorir.analysis.absence import IndirectAccess
from tensorir.analysis.annotations import Annotations
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Call, Expr
from tensorir.ir.rewrite import Applier, Bound
from tensorir.runtime.errors import Diagnostic, DiagnosticError

# What a lowering rule may ask: how to apply a function, what is proven, and where to put a run-time check.


@dataclass(frozen=True, slots=True)
class Chosen:
    """A choice of `lowering.calls.plan` at one node, and what was compared with its threshold."""

    name: str
    node: Expr
    taken: bool
    value: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Check:
    """A run-time check: where it stands, what it says, and the dims along which it looks."""

    diagnostic: Diagnostic
    dims: Dims


@dataclass(slots=True)
class Context:
    """One trace of one fencil."""

    known: Annotations
    """What analyses say of the nodes."""
    exact: bool = False
    """Keep the order of every fold: op-by-op execution, and programs compiled with `numerics="exact"`."""
    loose: bool = False
    """`numerics="loose"`: extremes of many elements may drop a NaN."""
    raising: frozenset[str] = frozenset()
    """The rules of the table that may be used."""
    ordered: bool = True
    """Whether lines that are printed come in the order of the program."""
    platform: str = "cpu"
    """The platform of JAX that is compiled for."""
    without: frozenset[str] = frozenset()
    """The choices that are switched off."""
    checks: list[Check] = field(default_factory=list[Check])
    failures: list[jax.Array] = field(default_factory=list[jax.Array])
    """Per check, an int64 or int32 pair: the first failing position (-1 for none), and the value there."""
    before: Sequence[jax.Array] = ()
    """What checks outside of this body, and in its rounds before, have found."""
    gathered: dict[tuple[Any, ...], Any] = field(default_factory=dict[tuple[Any, ...], Any])
    """Neighbours that were read already, by table, operand and the operand's dims."""
    loops: dict[tuple[int, ...], tuple[Any, Any]] = field(default_factory=dict[tuple[int, ...], tuple[Any, Any]])
    """Loops and conditionals that ran already, by identity of their operands: each of their results is asked for by a
    node of its own."""
    provenance: ArrayProvenance = field(default_factory=ArrayProvenance)
    """What is known of arrays that were multiplied, or read by windows."""
    fired: dict[int, tuple[str, Call]] = field(default_factory=dict[int, tuple[str, Call]])
    """The rules that were used, and for which node, by its identity."""
    chosen: dict[tuple[str, int], Chosen] = field(default_factory=dict[tuple[str, int], Chosen])
    """What was chosen at which node, by its identity."""
    prepared: dict[int, Prepared] = field(default_factory=dict[int, Prepared])
    """Tables that were bound, by identity of their leaf."""
    applying: Callable[[Context], Applier[Value]] = field(init=False)

    @property
    def in_place(self) -> bool:
        """True if a part of an array is written by an update of it, and not by a loop over the whole."""
        return self.platform == "tpu"

    def chooses(self, name: str, node: Expr, fits: bool, value: float, size: int = 0) -> bool:
        """True if a choice is made at a node: it fits, and is not switched off; records it for the plan.

        `value`: the figure that was compared with the choice's threshold. `size`: the bytes of memory that the choice
        takes.
        """
        is_taken = fits and name not in self.without
        self.chosen[name, id(node)] = Chosen(name, node, is_taken, value, size)
        return is_taken

    def apply(self, function: Bound[Value], *values: Value) -> Value:
        """The value of a function operand applied to values."""
        return self.applying(self)(function, *values)

    def apply_each(self, function: Bound[Value], *values: Value) -> list[Value]:
        """The values of all results of a function operand applied to values."""
        return self.applying(self).each(function, *values)

    def access(self, node: Expr) -> IndirectAccess:
        return self.known.absence.accesses[id(node)]

    def check(self, node: Call, bad: Leaf, culprit: Leaf, diagnostic: Diagnostic) -> None:
        """Record a run-time check that fails where `bad` is true; `culprit` has the values to show, if they are
        integers or bools.

        Its failure is a pair: the first failing position in `bad`, -1 if none, and the value there.
        """
        bad, culprit = dense(bad), dense(culprit)
        dims = bad.dims
        if not dims:
            # one look, as in a loop that runs step by step: nothing to search
            position = lax.select(bad.data, lax.full((), 0, "int32"), lax.full((), -1, "int32"))
            shown = lax.full((), 0, "int32")
            if culprit.data.dtype.kind in "iub" and not culprit.dims:
                shown = _as_int32(culprit.data)
            self.checks.append(Check(diagnostic, dims))
            self.failures.append(lax.concatenate([lax.reshape(position, (1,)), lax.reshape(shown, (1,))], 0))
            return
        flat = lax.reshape(bad.data, (dims.size,))
        index = lax.argmax(flat, 0, "int32") if dims.size else lax.full((), 0, "int32")
        failed = lax.reduce(flat, False, lax.bitwise_or, (0,))
        position = lax.select(failed, index, lax.full((), -1, "int32"))
        shown = lax.full((), 0, "int32")
        if dims.size and culprit.data.dtype.kind in "iub":
            values = lax.reshape(aligned(culprit, dims), (dims.size,))
            shown = _as_int32(lax.dynamic_index_in_dim(values, index, keepdims=False))
        self.checks.append(Check(diagnostic, dims))
        self.failures.append(lax.concatenate([lax.reshape(position, (1,)), lax.reshape(shown, (1,))], 0))

    def failures_of(self, checks: Sequence[Check]) -> list[jax.Array]:
        """The failure of each of `checks`; op by op, checks in branches that are not taken are missing, and count as
        passed.
        """
        remaining = list(zip(self.checks, self.failures, strict=True))
        result: list[jax.Array] = []
        for check in checks:
            k = next((k for k, (c, _) in enumerate(remaining) if c == check), None)
            result += no_failures([check]) if k is None else [remaining.pop(k)[1]]
        return result

    def absorbed(self, nodes: Sequence[int]) -> None:
        """Forget the rules used for nodes, by identity, whose values another rule has replaced."""
        for node in nodes:
            self.fired.pop(node, None)

    def inner(self) -> Context:
        """A context for the body of a loop: it collects checks of its own, and shares rules, choices and tables with
        this one.
        """
        context = Context(
            self.known, self.exact, self.loose, self.raising, self.ordered, self.platform, self.without,
            fired=self.fired, chosen=self.chosen, prepared=self.prepared,
        )  # fmt: skip
        context.applying = self.applying
        context.before = (*self.before, *self.failures)
        return context


def _as_int32(x: jax.Array) -> jax.Array:
    """A whole number clamped to int32, to be shown."""
    if np.can_cast(x.dtype, np.int32):
        return lax.convert_element_type(x, "int32")
    limits = np.iinfo(np.int32)
    low = max(limits.min, int(np.iinfo(x.dtype).min))
    return lax.convert_element_type(lax.clamp(x.dtype.type(low), x, x.dtype.type(limits.max)), "int32")


def no_failures(checks: Sequence[object]) -> list[jax.Array]:
    """A passed result for each check, as loops carry it before their first round."""
    return [lax.concatenate([lax.full((1,), -1, "int32"), lax.full((1,), 0, "int32")], 0) for _ in checks]


def first_failures(earlier: Sequence[jax.Array], current: Sequence[jax.Array]) -> list[jax.Array]:
    """Per check, the failure of an earlier round, or else that of this one."""

    def first(old: jax.Array, new: jax.Array) -> jax.Array:
        """The old failure, or the new one if the old check passed."""
        return lax.select(passed(old), new, old)

    return [first(old, new) for old, new in zip(earlier, current, strict=True)]


def passed(failure: jax.Array) -> jax.Array:
    """True if a check has not failed."""
    return lax.lt(lax.index_in_dim(failure, 0, keepdims=False), lax.full((), 0, failure.dtype))


def any_of(failures: Sequence[jax.Array], before: jax.Array | None = None) -> jax.Array:
    """The first failed result among `before` and `failures`; a passed one if none has failed."""
    if before is None:
        (before,) = no_failures([None])
    return functools.reduce(lambda first, f: lax.select(passed(first), f, first), failures, before)


def first_of(failures: jax.Array) -> jax.Array:
    """The first failed result of one check over all levels (axis 0); a passed one if none has failed."""
    first_level = lax.argmax(lax.ge(lax.index_in_dim(failures, 0, 1, keepdims=False), np.int32(0)), 0, "int32")
    return lax.dynamic_index_in_dim(failures, first_level, keepdims=False)


def in_range(index: Leaf, interval: Interval, dims: Dims) -> Leaf:
    """A mask of indices that are in an interval; bounds that the index type cannot hold are met, or not, by all."""

    def inside(i: jax.Array) -> jax.Array:
        """The comparison of an array of indices with the bounds."""
        return lax.bitwise_and(
            lax.ge(i, lax.full_like(i, max(interval.start, 0 if i.dtype.kind == "u" else ~_greatest(i)))),
            lax.lt(i, lax.full_like(i, min(interval.stop, _greatest(i)))) if interval.stop <= _greatest(i)
            else lax.full_like(i, True, dtype=bool),
        )  # fmt: skip

    return elementwise(inside, [index], dims)


def _greatest(i: jax.Array) -> int:
    return (1 << (8 * i.dtype.itemsize - (i.dtype.kind == "i"))) - 1


def masks_of(value: Value) -> list[Leaf]:
    """The masks of the leaves that may be absent."""
    return [m for leaf in value if (m := presence(leaf)) is not None]


def conjunction(masks: list[Leaf], dims: Dims) -> Leaf | None:
    """The conjunction of masks; None without masks."""
    result: Leaf | None = None
    for mask in masks:
        result = mask if result is None else elementwise(lax.bitwise_and, [result, mask], dims)
    return result


# What run-time checks found: per check a position and a value, the position -1 where all is well.


def raise_failures(failures: Sequence[Any], checks: Sequence[Check]) -> None:
    """Raise the diagnostics of the failed checks, each with the point at which it failed; `failures` has one for
    each check.
    """
    pairs = ((check, *np.asarray(failure).tolist()) for failure, check in zip(failures, checks, strict=True))
    if diagnostics := [
        _diagnostic_with_point(check, position, value) for check, position, value in pairs if position >= 0
    ]:
        raise DiagnosticError(diagnostics)


def checked(outputs: Any, failures: Sequence[Any], checks: Sequence[Check]) -> Any:
    """The outputs, which raise within compiled code if a check failed (`equinox.error_if`), since a trace cannot
    raise.
    """
    for failure, check in zip(failures, checks, strict=True):
        outputs = eqx.error_if(outputs, failure[0] >= 0, str(check.diagnostic))
    return outputs


def _diagnostic_with_point(check: Check, position: int, value: int) -> Diagnostic:
    """The check's diagnostic with the point at which it failed, and the value there for indices."""
    point = np.unravel_index(position, check.dims.shape) if check.dims.shape else ()
    at = ", ".join(f"{n} = {int(k) + i.start}" for k, (n, i) in zip(point, check.dims.items, strict=True))
    d = check.diagnostic
    note = f"at {at}" if at else "here"
    # a check hands on what int32 holds
    limits = {2**31 - 1: f"{value} or more", -(2**31): f"{value} or less"}
    shown = f"{note} it is {limits.get(value, value)}." if d.code == "R01" else f"it fails first {note}."
    return Diagnostic(d.code, d.message, d.span, (*d.notes, shown), d.help)
