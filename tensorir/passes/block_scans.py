"""Scans, and what is computed point by point around them, run on blocks of columns that fit the cache."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorir.analysis.cost import bytes_of
from tensorir.analysis.independence import independent
from tensorir.analysis.uses import surface
from tensorir.build import call, fresh, function, var
from tensorir.builtins import TABLE
from tensorir.coercion import cut
from tensorir.ir import Call, Closure, Expr, Fencil, Literal, Var
from tensorir.passes.base import Pass, remade
from tensorir.passes.decisions import Decision, Threshold
from tensorir.passes.split_scans import computes_points
from tensorir.types import Dims, FunctionType, Interval, TensorType
from tensorir.walk import binders, rebuild, use_counts

__all__ = ["BlockScans"]


@dataclass(frozen=True)
class BlockScans(Pass):
    """Scans of many columns become `blocked`, with what is computed around them of the same columns alone.

    Cache blocking (strip mining) of the outermost dims, those that are not scanned: sweeps up and down a column then
    find what was stored in the cache, and a transposition that brings the scanned dim outermost stays within it.
    `block` is the bytes of a block, `least` those from which on a program is blocked.

    >>> from tensorir.passes.show import show
    >>> show(BlockScans(block=720, least=1000), '''
    ...   scan(λ(s: tensor<float, I[0:50]>, a: tensor<float, I[0:50]>) → a + s, true, 0.0)(x) × 2.0''',
    ...   x={"I": (0, 50), "K": (0, 9)})
    blocked(
      λ(x_1: tensor<float, I[0:50], K[0:9]>) →
        scan(λ(s: tensor<float, I[0:50]>, a: tensor<float, I[0:50]>) → a + s, true, 0.0)(x_1) × 2.0,
      5,
      I
    )(x)
    """

    block: int = 1 << 21
    least: int = 1 << 22

    def run(self, fencil: Fencil) -> Fencil:
        taken = {p.name for p in binders(fencil)}
        return remade(fencil, tuple(self._closure(c, taken) for c in fencil.closures))

    def on(self, platform: str) -> Pass | None:
        return self if platform == "cpu" else None

    def thresholds(self) -> tuple[Threshold, ...]:
        where = "docs/lowering.md, Scans; python -m tests.benchmarks tridiagonal"
        return (
            Threshold("least", self.least, "bytes of operands and states", where),
            Threshold("block", self.block, "bytes of a block", where),
        )

    def decided(self, before: Fencil, after: Fencil) -> tuple[Decision, ...]:
        limit, _ = self.thresholds()
        rows: list[Decision] = []
        for old, new in zip(before.closures, after.closures, strict=True):
            scans = [n for n in surface(old.value) if isinstance(n, Call) and n.op == "scan"]
            if not scans:
                continue
            whole, dims = self._largest(old, scans)
            blocks = [n for n in surface(new.value) if isinstance(n, Call) and n.op == "blocked"]
            taken = bool(blocks) and old is not new
            (size, names) = blocks[0].static if taken else (0, ())
            what = f"blocks of {size:,} points of {', '.join(names)}" if taken else "all columns at once"
            why = self.reason() if taken else _why_not(whole, dims, self.least)
            where = f"{len(scans)} scan{'s' * (len(scans) > 1)} of {old.output.name}"
            rows.append(Decision(self.name(), what, where, taken, why, whole, limit, span=scans[0].span))
        return tuple(rows)

    def _largest(self, closure: Closure, scans: Sequence[Call]) -> tuple[int | None, Dims]:
        """The bytes of what would be computed by blocks of the most dims, and the dims; None where nothing can be."""
        dims = _columns(closure.output.type.dims, scans)
        while dims:
            region = _region(_on_intervals(closure.value, dims), dims)
            if region is not None:
                return self._stored(region, dims), dims
            dims = Dims(dims.items[:-1])
        return None, dims

    def reason(self) -> str:
        return "sweeps along a column find in the cache what was stored"

    def _closure(self, closure: Closure, taken: set[str]) -> Closure:
        scans = [n for n in surface(closure.value) if isinstance(n, Call) and n.op == "scan"]
        dims = _columns(closure.output.type.dims, scans)
        while dims:
            order = _on_intervals(closure.value, dims)
            region = _region(order, dims)
            size = self._size(region, dims) if region is not None else None
            if region is not None and size is not None:
                done: dict[int, Expr] = {id(region.root): _outlined(region, dims, size, taken)}
                for n in order:
                    if id(n) not in done:
                        done[id(n)] = rebuild(n, tuple(done.get(id(c), c) for c in n.children))
                return replace(closure, value=done[id(order[-1])])
            dims = Dims(dims.items[:-1])
        return closure

    def _size(self, region: _Region, dims: Dims) -> int | None:
        """The points of a block; None where all of them are few, or one of them is more than a block may be."""
        whole = self._stored(region, dims)
        size = self.block * dims.size // max(1, whole)
        if whole < self.least or not 0 < size < dims.size:
            return None
        return _divisor(dims.size, size)

    def _stored(self, region: _Region, dims: Dims) -> int:
        """The bytes of operands and states of all points."""
        stored = [a for a in region.reads if any(d in a.tensor.dims for d in dims)]
        stored += [n for n in region.nodes if isinstance(n, Call) and n.op == "scan"]
        return sum(bytes_of(n.tensor) for n in stored)


def _why_not(whole: int | None, dims: Dims, least: int) -> str:
    if whole is None:
        return "no outer dims along which the points of all scans and of what is between them are independent"
    return "the caches hold it whole" if whole < least else f"a block would hold no point, or all, of {dims}"


def _divisor(extent: int, most: int) -> int:
    """The largest divisor of an extent up to `most`, or `most` where that is less than half of it."""
    found = next(n for n in range(most, 0, -1) if extent % n == 0)
    return found if 2 * found > most else most


def _columns(dims: Dims, scans: Sequence[Call]) -> Dims:
    """The outermost dims of an output that all scans have on one interval and none walks; none without scans."""
    found: list[tuple[str, Interval]] = []
    for dim in dims if scans else ():
        intervals = {s.tensor.dims.get(dim) if s.static.dim != dim else None for s in scans}
        (interval, *others) = intervals
        if interval is None or others:
            break
        found.append((dim, interval))
    return Dims(tuple(found))


def _on_intervals(root: Expr, dims: Dims) -> list[Expr]:
    """The nodes that no function is around, operands first; what has a dim on its interval reads it on that alone.

    An operand of a scan whose function takes it on a wider interval stays as it is.
    """
    done: dict[int, Expr] = {}
    for n in surface(root):
        children = [done.get(id(c), c) for c in n.children]
        if isinstance(n, Call) and (TABLE[n.op].elementwise or n.op in ("scan", "make_tuple")):
            f = n.args[0].type
            wanted = [f, *f.params] if isinstance(f, FunctionType) else [n.type] * len(children)
            for i, (c, kind) in enumerate(zip(children, wanted, strict=True)):
                if isinstance(c.type, TensorType) and isinstance(kind, TensorType):
                    on = [(d, k) for d, k in dims.items if n.tensor.dims.get(d) == k and kind.dims.get(d) in (None, k)]
                    children[i] = cut(c, Dims(tuple(on)))
        done[id(n)] = rebuild(n, tuple(children))
    return surface(done[id(root)])


@dataclass(frozen=True, slots=True)
class _Region:
    """What is computed block by block: its nodes, operands first, the result last, and what they read from outside."""

    nodes: tuple[Expr, ...]
    reads: tuple[Expr, ...]

    @property
    def root(self) -> Expr:
        return self.nodes[-1]


def _region(order: Sequence[Expr], dims: Dims) -> _Region | None:
    """The expressions around the scans whose points along dims are independent; None where they have several results.

    Scans are computed in the region alone; what is computed point by point may be computed outside of it too. What is
    computed of shifts and parts of arrays is stored in their place, since they would be copied.
    """
    inside, scanned = set[int](), set[int]()
    readers = use_counts(order[-1])
    for n in order:
        if not isinstance(n, Call) or not _fits(n, dims):
            continue
        if computes_points(n) and _copied(n, inside, readers):
            continue
        inside.add(id(n))
        if n.op == "scan" or any(id(c) in scanned for c in n.children):
            scanned.add(id(n))
    roots = {id(c): c for n in order if id(n) not in inside for c in n.children if id(c) in scanned}
    if id(order[-1]) in scanned:
        roots[id(order[-1])] = order[-1]
    if len(roots) != 1:
        return None
    (root,) = roots.values()
    nodes: list[Expr] = []
    reads: dict[Expr, None] = {}
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        n, ready = stack.pop()
        if ready:
            nodes.append(n)
        elif id(n) not in seen:
            seen.add(id(n))
            stack.append((n, True))
            for c in reversed(n.children):
                if id(c) in inside:
                    stack.append((c, False))
                elif isinstance(c.type, TensorType) and not isinstance(c, Literal):
                    reads[c] = None
    return _Region(tuple(nodes), tuple(reads))


def _copied(n: Call, inside: Container[int], readers: Mapping[int, int]) -> bool:
    """Whether all that a call reads besides constants would be copied for it alone."""
    read = [c for c in n.children if not isinstance(c, Literal) and (c.free or id(c) not in inside)]
    return bool(read) and all(id(c) not in inside and isinstance(c, Call) and readers[id(c)] == 1 for c in read)


def _fits(n: Call, dims: Dims) -> bool:
    """Whether a call has dims, or is a constant, leaves their points apart, and has functions of its operands alone."""
    if not any(d in n.tensor.dims for d in dims) and n.free:
        return False
    functions = [f for f in n.args if not isinstance(f.type, TensorType)]
    return independent(n, dims) and all(d not in v.type.dims for f in functions for v in f.free for d in dims)


def _outlined(region: _Region, dims: Dims, size: int, taken: set[str]) -> Expr:
    """The region as a function of what it reads, applied block by block."""
    args = [cut(a, dims) for a in region.reads]
    names = [a.name if isinstance(a, Var) else "x" for a in region.reads]
    params = [var(fresh(name, taken), x.tensor) for name, x in zip(names, args, strict=True)]
    stands: dict[Expr, Expr] = dict(zip(region.reads, params, strict=True))
    done: dict[int, Expr] = {}
    for n in region.nodes:
        done[id(n)] = rebuild(n, tuple(done.get(id(c)) or stands.get(c, c) for c in n.children))
    body = function(params, done[id(region.root)])
    return call("blocked", body, *args, static=(size, dims.names), span=region.root.span)
