"""Scans, and what is computed point by point around them, run on blocks of columns that fit the cache."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from tensorir import nodes
from tensorir.analysis.cost import bytes_of
from tensorir.analysis.uses import independent, surface
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, cut, fresh, function, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Closure, Expr, Fencil, Literal, Var
from tensorir.ir.rewrite import binders, rebuild, runs, use_counts, values, with_values
from tensorir.ir.types import FunctionType, TensorType
from tensorir.passes.base import Pass, remade
from tensorir.passes.decisions import Decision, Threshold
from tensorir.passes.scans import computes_points
from tensorir.runtime.errors import counted


@dataclass(frozen=True)
class BlockScans(Pass):
    """Scans of many columns become `blocked`, with what is computed around them of the same columns alone.

    Cache blocking (strip mining) of the outermost dims, those that are not scanned: sweeps up and down a column then
    find what was stored in the cache, and a transposition that brings the scanned dim outermost stays within it.
    `block` is the bytes of a block, `least` those from which on a program is blocked.

    >>> from tensorir.passes.base import show
    >>> show(BlockScans(block=720, least=1000), '''
    ...   scan(λ(s: tensor<float, I[0:50]>, a: tensor<float, I[0:50]>) → a + s, true, 0.0)(x) × 2.0''',
    ...   x={"I": (0, 50), "K": (0, 9)})
    blocked(0, 5, I)(
      λ(x_1: tensor<float, I[0:50], K[0:9]>) →
        scan(λ(s: tensor<float, I[0:50]>, a: tensor<float, I[0:50]>) → a + s, true, 0.0)(x_1) × 2.0,
      x
    )
    """

    block: int = 1 << 20
    least: int = 1 << 22

    def run(self, fencil: Fencil) -> Fencil:
        taken = {p.name for p in binders(fencil)}
        new: list[Expr] = []
        for run in runs(fencil.closures):
            by_place = dict(enumerate(values(run)))
            for group in _groups(run):
                by_place.update(self._blocked(group, by_place, taken))
            new += by_place.values()
        return remade(fencil, with_values(fencil.closures, new))

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
        return tuple(self._row(group, limit) for run in runs(before.closures) for group in _groups(run) if group.scans)

    def _row(self, group: _Group, limit: Threshold) -> Decision:
        """The decision on the scans of some closures, with the reason."""
        dims, regions = self._regions(group, group.values)
        whole = max((self._stored(r, dims) for r in regions), default=None)
        sizes = [size for r in regions if (size := self._size(r, dims)) is not None]
        what = f"blocks of {min(sizes):,} points of {', '.join(dims.names)}" if sizes else "all columns at once"
        why = self.reason() if sizes else _why_not(whole, dims, self.least)
        where = f"{counted(len(group.scans), 'scan')} of {', '.join(group.names)}"
        return Decision(self.name(), what, where, bool(sizes), why, whole, limit, span=group.scans[0].span)

    def reason(self) -> str:
        return "sweeps along a column find in the cache what was stored"

    def _regions(self, group: _Group, roots: Sequence[Expr]) -> tuple[Dims, list[_Region]]:
        """The regions that pay when computed block by block, along the most dims that allow it; and the dims.

        Where it pays along none, what could be computed so along the most dims.
        """
        first: tuple[Dims, list[_Region]] = Dims(), []
        dims = group.columns
        while dims:
            regions = _regions(_on_intervals(roots, dims), dims)
            if any(self._size(r, dims) is not None for r in regions):
                return dims, regions
            if regions and not first[1]:
                first = dims, regions
            dims = Dims(dims.items[:-1])
        return first

    def _blocked(self, group: _Group, by_place: Mapping[int, Expr], taken: set[str]) -> dict[int, Expr]:
        """The values of the closures of a group, by their places."""
        dims, regions = self._regions(group, [by_place[k] for k in group.places])
        sized = [(r, size) for r in regions if (size := self._size(r, dims)) is not None]
        if not sized:
            return {}
        by_root = {id(root): (r, size) for r, size in sized for root in r.roots}
        done: dict[int, Expr] = {}
        stack = [(root, False) for root in regions[0].values]
        while stack:
            n, ready = stack.pop()
            if id(n) in done:
                continue
            region, size = by_root.get(id(n), (None, 0))
            before = n.children if region is None else region.reads
            if not ready:
                stack.append((n, True))
                stack.extend((c, False) for c in before if id(c) not in done)
            elif region is None:
                done[id(n)] = rebuild(n, tuple(done[id(c)] for c in before))
            else:
                done.update(_outlined(region, [done[id(c)] for c in before], dims, size, taken))
        return dict(zip(group.places, (done[id(r)] for r in regions[0].values), strict=True))

    def _size(self, region: _Region, dims: Dims) -> int | None:
        """The points of a block; None where all of them are few, or one of them is more than a block may be."""
        whole = self._stored(region, dims)
        size = self.block * dims.size // max(1, whole)
        if whole < self.least or not 0 < size < dims.size:
            return None
        # as many in each block, unless it would be less than half of what one may be
        divisor = next(n for n in range(size, 0, -1) if dims.size % n == 0)
        return divisor if 2 * divisor > size else size

    def _stored(self, region: _Region, dims: Dims) -> int:
        """The bytes of operands and states of all points."""
        stored = [a for a in region.reads if any(d in a.tensor.dims for d in dims)]
        stored += [n for n in region.nodes if isinstance(n, Call) and n.op == "scan"]
        return sum(bytes_of(n.tensor) for n in stored)


def _why_not(whole: int | None, dims: Dims, least: int) -> str:
    if whole is None:
        return "no outer dims along which the points of all scans and of what is between them are independent"
    return "the caches hold it whole" if whole < least else f"a block would hold no point, or all, of {dims}"


@dataclass(frozen=True, slots=True)
class _Group:
    """Closures, by their places among those that read the same, whose scans have the same columns."""

    columns: Dims
    places: tuple[int, ...]
    names: tuple[str, ...]
    values: tuple[Expr, ...]
    scans: tuple[Call, ...]


def _groups(closures: Sequence[Closure]) -> list[_Group]:
    by_columns: dict[Dims, list[int]] = {}
    for k, c in enumerate(closures):
        scans = _scans(c.value)
        if scans:
            by_columns.setdefault(_columns(c.output.type.dims, scans), []).append(k)
    groups: list[_Group] = []
    for columns, places in by_columns.items():
        names = tuple(closures[k].output.name for k in places)
        roots = tuple(closures[k].value for k in places)
        groups.append(_Group(columns, tuple(places), names, roots, tuple(_scans(*roots))))
    return groups


def _scans(*roots: Expr) -> list[Call]:
    return [n for n in surface(*roots) if isinstance(n, Call) and n.op == "scan"]


def _columns(dims: Dims, scans: Sequence[Call]) -> Dims:
    """The outermost dims of an output that all scans have on one interval and none walks; none without scans."""
    columns: list[tuple[str, Interval]] = []
    for dim in dims if scans else ():
        intervals = {s.tensor.dims.get(dim) if s.static.dim != dim else None for s in scans}
        (interval, *others) = intervals
        if interval is None or others:
            break
        columns.append((dim, interval))
    return Dims(tuple(columns))


def _on_intervals(roots: Sequence[Expr], dims: Dims) -> list[Expr]:
    """The roots, in which what has a dim on its interval reads it on that alone.

    An operand of a scan whose function takes it on a wider interval stays as it is.
    """
    done: dict[int, Expr] = {}
    for n in surface(*roots):
        children = [done.get(id(c), c) for c in n.children]
        if isinstance(n, Call) and (TABLE[n.op].elementwise or n.op in ("scan", "make_tuple")):
            f = n.args[0].type
            wanted = [f, *f.params] if isinstance(f, FunctionType) else [n.type] * len(children)
            for i, (c, kind) in enumerate(zip(children, wanted, strict=True)):
                if isinstance(c.type, TensorType) and isinstance(kind, TensorType):
                    on = [(d, k) for d, k in dims.items if n.tensor.dims.get(d) == k and kind.dims.get(d) in (None, k)]
                    children[i] = cut(c, Dims(tuple(on)))
        done[id(n)] = rebuild(n, tuple(children))
    return [done[id(r)] for r in roots]


@dataclass(frozen=True, slots=True)
class _Region:
    """A region that is computed block by block: its nodes, operands first, its results, and its reads from outside."""

    nodes: tuple[Expr, ...]
    roots: tuple[Expr, ...]
    reads: tuple[Expr, ...]
    values: tuple[Expr, ...]
    """The values of the closures that it is of."""


def _regions(values: Sequence[Expr], dims: Dims) -> list[_Region]:
    """The expressions around the scans whose points along dims are independent, those first that others read.

    What is read across the columns of what a region gives, and then computed along them with it, is another region.
    Scans are computed in their region alone; what is computed point by point may be computed outside of it too. What is
    computed of shifts and parts of arrays is stored in their place, since they would be copied.
    """
    order = surface(*values)
    readers = use_counts(*values)
    inside, scanned = set[int](), set[int]()
    place: dict[int, int] = {}
    """Of what is inside, the region in which it can be computed."""
    behind: dict[int, int] = {}
    """The last region that a node is computed of, -1 for none."""
    for n in order:
        children = [c for c in n.children if id(c) in behind]
        behind[id(n)] = max((behind[id(c)] for c in children), default=-1)
        if not isinstance(n, Call) or not _fits(n, dims):
            continue
        if computes_points(n) and _copied(n, inside, readers):
            continue
        inside.add(id(n))
        place[id(n)] = max((place[id(c)] if id(c) in inside else behind[id(c)] + 1 for c in children), default=0)
        if n.op == "scan" or any(id(c) in scanned for c in children):
            scanned.add(id(n))
            behind[id(n)] = place[id(n)]
    regions: list[_Region] = []
    for k in sorted({place[n] for n in scanned}):
        members = {n for n in scanned if place[n] == k}
        roots = {id(c): c for n in order if id(n) not in members for c in n.children if id(c) in members}
        roots.update((id(r), r) for r in values if id(r) in members)
        nodes, reads = _walked([n for n in order if id(n) in roots], members | (inside - scanned))
        if any(isinstance(n, Call) and n.op == "scan" for n in nodes):
            regions.append(_Region(nodes, tuple(n for n in order if id(n) in roots), reads, tuple(values)))
    return regions


def _walked(roots: Sequence[Expr], members: Container[int]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The nodes of a region, operands first, among those that may be its own, and its reads."""
    inside = tuple(nodes.postorder(roots, lambda n: [c for c in n.children if id(c) in members]))
    outside = dict.fromkeys(c for n in inside for c in n.children if id(c) not in members)
    return inside, tuple(c for c in outside if isinstance(c.type, TensorType) and not isinstance(c, Literal))


def _copied(n: Call, inside: Container[int], readers: Mapping[int, int]) -> bool:
    """True if all that a call reads besides constants would be copied for it alone."""
    read = [c for c in n.children if not isinstance(c, Literal) and (c.free or id(c) not in inside)]
    return bool(read) and all(id(c) not in inside and isinstance(c, Call) and readers[id(c)] == 1 for c in read)


def _fits(n: Call, dims: Dims) -> bool:
    """True if a call has dims, or is a constant, leaves their points apart, and has functions of its operands alone."""
    if not any(d in n.tensor.dims for d in dims) and n.free:
        return False
    functions = [f for f in n.args if not isinstance(f.type, TensorType)]
    return independent(n, dims) and all(d not in v.type.dims for f in functions for v in f.free for d in dims)


def _outlined(region: _Region, reads: Sequence[Expr], dims: Dims, size: int, taken: set[str]) -> dict[int, Expr]:
    """The results of a region, by identity: those of one function of what it reads, applied block by block."""
    args = [cut(a, dims) for a in reads]
    names = [a.name if isinstance(a, Var) else "x" for a in region.reads]
    params = [var(fresh(name, taken), x.tensor) for name, x in zip(names, args, strict=True)]
    stands: dict[Expr, Expr] = dict(zip(region.reads, params, strict=True))
    done: dict[int, Expr] = {}
    for n in region.nodes:
        done[id(n)] = rebuild(n, tuple(done.get(id(c)) or stands.get(c, c) for c in n.children))
    body = function(params, *(done[id(r)] for r in region.roots))
    return {
        id(r): call("blocked", body, *args, static=(k, size, dims.names), span=r.span)
        for k, r in enumerate(region.roots)
    }
