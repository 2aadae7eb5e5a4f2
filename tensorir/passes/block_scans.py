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
    """Computes scans over many columns in blocks of columns (`blocked`), together with pointwise operations around
    them.

    Cache blocking (strip mining) of the outermost dims that are not scanned: sweeps up and down a column then find
    their operands in the cache, and a transposition that brings the scanned dim outermost stays within it. `block` is
    the bytes of a block, `least` the bytes of operands and states from which on a program is blocked.

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
        """Blocks the scans of each run of closures that read the same values."""
        used_names = {p.name for p in binders(fencil)}
        new_values: list[Expr] = []
        for run in runs(fencil.closures):
            by_place = dict(enumerate(values(run)))
            for group in _groups(run):
                by_place.update(self._blocked(group, by_place, used_names))
            new_values += by_place.values()
        return remade(fencil, with_values(fencil.closures, new_values))

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
        """The decision on the scans of one group: the smallest block, or the reason why they are not blocked."""
        dims, regions = self._regions(group, group.values)
        bytes_stored = max((self._stored(r, dims) for r in regions), default=None)
        sizes = [size for r in regions if (size := self._size(r, dims)) is not None]
        summary = f"blocks of {min(sizes):,} points of {', '.join(dims.names)}" if sizes else "all columns at once"
        why = self.reason() if sizes else _why_not(bytes_stored, dims, self.least)
        where = f"{counted(len(group.scans), 'scan')} of {', '.join(group.names)}"
        return Decision(self.name(), summary, where, bool(sizes), why, bytes_stored, limit, span=group.scans[0].span)

    def reason(self) -> str:
        return "sweeps along a column find in the cache what was stored"

    def _regions(self, group: _Group, roots: Sequence[Expr]) -> tuple[Dims, list[_Region]]:
        """The dims to block along, and the regions to compute block by block.

        All columns of the group are tried first, then without the innermost dim, and so on, until some region is worth
        it. If none is, the first dims that have regions at all, for the explanation.
        """
        fallback: tuple[Dims, list[_Region]] = Dims(), []
        dims = group.columns
        while dims:
            regions = _regions(_on_intervals(roots, dims), dims)
            if any(self._size(r, dims) is not None for r in regions):
                return dims, regions
            if regions and not fallback[1]:
                fallback = dims, regions
            dims = Dims(dims.items[:-1])
        return fallback

    def _blocked(self, group: _Group, by_place: Mapping[int, Expr], used_names: set[str]) -> dict[int, Expr]:
        """The new values of a group's closures by position, with its regions blocked; empty if no region is worth
        it.

        The regions are of rewritten values (`_Region.values`), from which the walk begins.
        """
        dims, regions = self._regions(group, [by_place[k] for k in group.places])
        sized = [(r, size) for r in regions if (size := self._size(r, dims)) is not None]
        if not sized:
            return {}
        by_root = {id(root): (r, size) for r, size in sized for root in r.roots}
        new_nodes: dict[int, Expr] = {}
        stack = [(root, False) for root in regions[0].values]
        while stack:
            node, inputs_done = stack.pop()
            if id(node) in new_nodes:
                continue
            region, size = by_root.get(id(node), (None, 0))
            inputs = node.children if region is None else region.reads
            if not inputs_done:
                stack.append((node, True))
                stack.extend((c, False) for c in inputs if id(c) not in new_nodes)
            elif region is None:
                new_nodes[id(node)] = rebuild(node, tuple(new_nodes[id(c)] for c in inputs))
            else:
                new_nodes.update(_outlined(region, [new_nodes[id(c)] for c in inputs], dims, size, used_names))
        return dict(zip(group.places, (new_nodes[id(r)] for r in regions[0].values), strict=True))

    def _size(self, region: _Region, dims: Dims) -> int | None:
        """The number of points in a block; None if the region is too small to gain, or one point exceeds a block."""
        bytes_stored = self._stored(region, dims)
        size = self.block * dims.size // max(1, bytes_stored)
        if bytes_stored < self.least or not 0 < size < dims.size:
            return None
        # as many in each block, unless it would be less than half of what one may be
        # prefer equal blocks, unless they would be less than half as large as allowed
        divisor = next(n for n in range(size, 0, -1) if dims.size % n == 0)
        return divisor if 2 * divisor > size else size

    def _stored(self, region: _Region, dims: Dims) -> int:
        """The bytes of the operands with blocked dims and of the scan states of a region, over all points."""
        stored = [a for a in region.reads if any(d in a.tensor.dims for d in dims)]
        stored += [n for n in region.nodes if isinstance(n, Call) and n.op == "scan"]
        return sum(bytes_of(n.tensor) for n in stored)


def _why_not(bytes_stored: int | None, dims: Dims, least: int) -> str:
    """The reason why a group is not blocked, for a plan; `bytes_stored` is None if it has no region."""
    if bytes_stored is None:
        return "no outer dims along which the points of all scans and of what is between them are independent"
    return "the caches hold it whole" if bytes_stored < least else f"a block would hold no point, or all, of {dims}"


@dataclass(frozen=True, slots=True)
class _Group:
    """Closures whose scans have the same columns, with their positions in a run of closures that read the same values.

    `columns` are the dims over which all scans are independent.
    """

    columns: Dims
    places: tuple[int, ...]
    names: tuple[str, ...]
    values: tuple[Expr, ...]
    scans: tuple[Call, ...]


def _groups(closures: Sequence[Closure]) -> list[_Group]:
    """Groups the closures that contain scans by the columns of these."""
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
    """The outermost dims of an output that all scans have with one interval and none scans along; empty without
    scans.
    """
    columns: list[tuple[str, Interval]] = []
    for dim in dims if scans else ():
        intervals = {s.tensor.dims.get(dim) if s.static.dim != dim else None for s in scans}
        (interval, *different) = intervals
        if interval is None or different:
            break
        columns.append((dim, interval))
    return Dims(tuple(columns))


def _on_intervals(roots: Sequence[Expr], dims: Dims) -> list[Expr]:
    """The roots with cuts of operands to the intervals of `dims` where a node is on just these, so that regions read
    their own columns.

    Operands that a scan's function takes on a wider interval are not cut.
    """
    new_nodes: dict[int, Expr] = {}
    for n in surface(*roots):
        children = [new_nodes.get(id(operand), operand) for operand in n.children]
        if isinstance(n, Call) and (TABLE[n.op].elementwise or n.op in ("scan", "make_tuple")):
            f = n.args[0].type
            operand_types = [f, *f.params] if isinstance(f, FunctionType) else [n.type] * len(children)
            for position, (operand, kind) in enumerate(zip(children, operand_types, strict=True)):
                if isinstance(operand.type, TensorType) and isinstance(kind, TensorType):
                    on = [(d, i) for d, i in dims.items if n.tensor.dims.get(d) == i and kind.dims.get(d) in (None, i)]
                    children[position] = cut(operand, Dims(tuple(on)))
        new_nodes[id(n)] = rebuild(n, tuple(children))
    return [new_nodes[id(r)] for r in roots]


@dataclass(frozen=True, slots=True)
class _Region:
    """Nodes that are computed block by block, operands first; `roots` are its results, `reads` its inputs."""

    nodes: tuple[Expr, ...]
    roots: tuple[Expr, ...]
    reads: tuple[Expr, ...]
    values: tuple[Expr, ...]
    """The values of all closures of the group, in their order: the same for each of its regions."""


def _regions(values: Sequence[Expr], dims: Dims) -> list[_Region]:
    """The regions around scans whose points along `dims` are independent, in order of dependence.

    A node that reads a region's results across columns (e.g. shifted) belongs to no region, and nodes that depend on it
    belong to a later one. Scans are computed in one region only; pointwise operations may be duplicated outside of it.
    Pointwise operations on shifted or cut arrays stay outside, since those arrays would be copied for the block.
    """
    all_nodes = surface(*values)
    readers = use_counts(*values)
    candidates, region_nodes = set[int](), set[int]()
    stage: dict[int, int] = {}
    """The number of the region in which a candidate can be computed."""
    before: dict[int, int] = {}
    """The last region that a node depends on, -1 for none."""
    for n in all_nodes:
        children = [c for c in n.children if id(c) in before]
        before[id(n)] = max((before[id(c)] for c in children), default=-1)
        if not isinstance(n, Call) or not _fits(n, dims):
            continue
        if computes_points(n) and _copied(n, candidates, readers):
            continue
        candidates.add(id(n))
        stage[id(n)] = max((stage[id(c)] if id(c) in candidates else before[id(c)] + 1 for c in children), default=0)
        if n.op == "scan" or any(id(c) in region_nodes for c in children):
            region_nodes.add(id(n))
            before[id(n)] = stage[id(n)]
    regions: list[_Region] = []
    for k in sorted({stage[n] for n in region_nodes}):
        members = {n for n in region_nodes if stage[n] == k}
        roots = {id(c): c for n in all_nodes if id(n) not in members for c in n.children if id(c) in members}
        roots.update((id(r), r) for r in values if id(r) in members)
        nodes, reads = _walked([n for n in all_nodes if id(n) in roots], members | (candidates - region_nodes))
        if any(isinstance(n, Call) and n.op == "scan" for n in nodes):
            regions.append(_Region(nodes, tuple(n for n in all_nodes if id(n) in roots), reads, tuple(values)))
    return regions


def _walked(roots: Sequence[Expr], members: Container[int]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The nodes that `roots` reach among `members`, operands first, and the tensors that they read from outside."""
    nodes_inside = tuple(nodes.postorder(roots, lambda n: [c for c in n.children if id(c) in members]))
    inputs = dict.fromkeys(c for n in nodes_inside for c in n.children if id(c) not in members)
    return nodes_inside, tuple(c for c in inputs if isinstance(c.type, TensorType) and not isinstance(c, Literal))


def _copied(n: Call, inside: Container[int], readers: Mapping[int, int]) -> bool:
    """True if each operand of a call, constants aside, is a call not `inside` that only this call reads,
    so that blocking would have to store it.
    """
    operands = [c for c in n.children if not isinstance(c, Literal) and (c.free or id(c) not in inside)]
    return bool(operands) and all(id(c) not in inside and isinstance(c, Call) and readers[id(c)] == 1 for c in operands)


def _fits(n: Call, dims: Dims) -> bool:
    """True if a call can be part of a region along `dims`: it has one of them or is constant, keeps their points
    independent, and its functions capture no variable with such a dim.
    """
    if not any(d in n.tensor.dims for d in dims) and n.free:
        return False
    functions = [f for f in n.args if not isinstance(f.type, TensorType)]
    return independent(n, dims) and all(d not in v.type.dims for f in functions for v in f.free for d in dims)


def _outlined(region: _Region, reads: Sequence[Expr], dims: Dims, size: int, used_names: set[str]) -> dict[int, Expr]:
    """The results of a region, by identity of the old nodes: calls of `blocked` with one function of the region's
    inputs.

    `reads` are the inputs already rewritten; `size` is the number of points in a block.
    """
    args = [cut(a, dims) for a in reads]
    names = [a.name if isinstance(a, Var) else "x" for a in region.reads]
    params = [var(fresh(name, used_names), x.tensor) for name, x in zip(names, args, strict=True)]
    params_by_read: dict[Expr, Expr] = dict(zip(region.reads, params, strict=True))
    body_nodes: dict[int, Expr] = {}
    for n in region.nodes:
        body_nodes[id(n)] = rebuild(n, tuple(body_nodes.get(id(c)) or params_by_read.get(c, c) for c in n.children))
    body = function(params, *(body_nodes[id(r)] for r in region.roots))
    return {
        id(r): call("blocked", body, *args, static=(k, size, dims.names), span=r.span)
        for k, r in enumerate(region.roots)
    }
