"""Programs of blocks: a program restricted to a block of its results, in coordinates that count from the block.

Blocks that lie alike to the ends of intervals are one program: along a dim the first block, those within, and the last,
so that d dims take 3^d compilations at most. Where what is special to a boundary reaches further than a block, each
block that it reaches is one more. Dims that tables or indices name keep their coordinates: each block is compiled.

>>> import tensorir as ti
>>> f = ti.parse('''f(out: tensor<float, I[1:99]>, x: tensor<float, I[0:100]>) {
...   out ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); }''')
>>> programs = BlockPrograms.cut(f, frozenset("I"))
>>> block = programs.at({"out": Dims((("I", Interval(41, 51)),))})
>>> print(block.needed("x"))
I[40:52]
>>> print(block.fencil)
f(out: tensor<float, I[0:10]>, x: tensor<float, I[-1:11]>) {
  out ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x);
}
>>> programs.at({"out": Dims((("I", Interval(51, 61)),))}).fencil is block.fencil
True

Translated programs of blocks that are alike are equal. What a program computes from coordinates themselves moves out
first: `with_positions` makes positions parameters.

>>> f = ti.parse('''f(out: tensor<int, I[4:7]>, x: tensor<int, I[3:7]>) {
...   out ← ⟪I, -1⟫(x) + pos(I, subset(x, I[4:7])); }''')
>>> g, positions = with_positions(f, ["I"])
>>> positions
{'I_at': 'I'}
>>> print(translated(g, {"I": 4}))
f(out: tensor<int, I[0:3]>, x: tensor<int, I[-1:3]>, I_at: tensor<int, I[0:3]>) {
  out ← ⟪I, -1⟫(x) + I_at;
}
"""

from __future__ import annotations

import dataclasses
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tensorir.analysis.uses import names_in
from tensorir.integers.dims import Dims, Interval, hull
from tensorir.ir.access import EVERYWHERE
from tensorir.ir.build import cut, free_name, placed, var
from tensorir.ir.build import fencil as make_fencil
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild, rewrite_fencil, runs, values, with_values
from tensorir.ir.substitution import inlined
from tensorir.ir.types import INT32, TensorType
from tensorir.passes.restrict import restrict
from tensorir.runtime.memory import RecentCache


def with_positions(fencil: Fencil, dims: Iterable[str]) -> tuple[Fencil, dict[str, str]]:
    """Replaces `pos` along each of the dims by a parameter (`I_at`) that is passed the coordinates; also maps each such
    parameter to its dim. Dims whose positions are not read get none.
    """
    pos_calls = {d: [n for n in postorder(*values(fencil.closures)) if isinstance(n, Call) and n.op == "pos"
                and n.static.dim == d] for d in dims}  # fmt: skip
    names = {p.name for p in fencil.params}
    positions = {
        d: var(free_name(f"{d}_at", names), TensorType(INT32, Dims(((d, hull([n.tensor.dims[d] for n in nodes])),))))
        for d, nodes in pos_calls.items()
        if nodes
    }

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Call) and node.op == "pos" and node.static.dim in positions:
            return cut(positions[node.static.dim], node.tensor.dims)
        return None

    with_params = dataclasses.replace(fencil, params=(*fencil.params, *positions.values()))
    return rewrite_fencil(with_params, rule), {p.name: d for d, p in positions.items()}


def free_of_coordinates(fencil: Fencil, dims: Iterable[str]) -> frozenset[str]:
    """The dims along which a program is translation-invariant: coordinates appear in types only, and no table, index or
    static parameter names a point.
    """
    nodes = list(postorder(*values(fencil.closures)))
    types = [p.type for p in fencil.params] + [n.type for n in nodes if isinstance(n.type, TensorType)]
    tables = {d for t in types for d in t.dims if d.startswith("_NB_")}
    named = tables | {d.removeprefix("_NB_") for d in tables}
    for node in nodes:
        if isinstance(node, Call):
            maps, every = node.accesses, node.type.dims
            named |= names_in(node.static) if maps is None else {d for a in maps for d in (a.absolute if a else every)}
    return frozenset(dims) - named


def translated(fencil: Fencil, origin: Mapping[str, int]) -> Fencil:
    """The program in coordinates that count from `origin`, along dims that are `free_of_coordinates`: its point p is
    the point p + origin of the original.
    """

    def shifted_dims(whole: Dims) -> Dims:
        return Dims(tuple((d, i.shifted(origin.get(d, 0))) for d, i in whole.items))

    def shifted_type(tensor: TensorType) -> TensorType:
        return tensor.on(shifted_dims(tensor.dims))

    def shifted_variable(v: Var) -> Var:
        return dataclasses.replace(v, type=shifted_type(v.type))

    new_nodes: dict[int, Expr] = {}
    for node in postorder(*values(fencil.closures)):
        children = tuple(new_nodes[id(c)] for c in node.children)
        match node:
            case Var():
                new_node: Expr = shifted_variable(node)
            case Operator():
                new_node = dataclasses.replace(node, params=tuple(map(shifted_type, node.params)))
            case Lambda():
                new_node = dataclasses.replace(node, params=tuple(map(shifted_variable, node.params)), results=children)
            case Call():
                new_node = placed(node, children, shifted_dims(node.type.dims))
            case _:
                new_node = rebuild(node, children)
        new_nodes[id(node)] = new_node
    closures = [
        dataclasses.replace(c, output=shifted_variable(c.output), value=new_nodes[id(c.value)],
                            region=None if c.region is None else shifted_dims(c.region))
        for c in fencil.closures
    ]  # fmt: skip
    return make_fencil(fencil.name, tuple(map(shifted_variable, fencil.params)), closures, fencil.span, fencil.buffers)


@dataclass(frozen=True, slots=True)
class BlockProgram:
    """The program of one block in local coordinates; its point p is the point p + origin of the whole."""

    fencil: Fencil
    origin: Mapping[str, int]

    @property
    def taken(self) -> frozenset[str]:
        """The parameters that it reads."""
        return frozenset(p.name for p in self.fencil.params) - {p.name for p in self.fencil.outputs}

    def local(self, dims: Dims) -> Dims:
        """Intervals of the whole in the coordinates of the block."""
        return _shifted(dims, self.origin)

    def needed(self, name: str) -> Dims:
        """The part of a parameter that the block reads or writes, in the coordinates of the whole."""
        return _shifted(self.fencil[name].type.dims, {d: -k for d, k in self.origin.items()})


@dataclass(frozen=True)
class BlockPrograms:
    """A program of which blocks along some dims are computed."""

    fencil: Fencil
    """With a parameter in place of the positions along dims that are cut."""
    positions: Mapping[str, str]
    """The dims, by these parameters."""
    halos: Mapping[str, tuple[int, int] | None]
    """The halo along each dim whose coordinates are in types alone; None where none of a fixed width holds all."""
    ends: Mapping[str, Sequence[int]]
    """The ends of all intervals along these dims."""
    by_place: RecentCache[object, Fencil] = field(default_factory=lambda: RecentCache("programs by place", 1024))
    """By a block's shape and the ends of intervals within its halo."""
    distinct: RecentCache[Fencil, Fencil] = field(default_factory=lambda: RecentCache("programs of blocks", 1024))

    @staticmethod
    def cut(fencil: Fencil, dims: frozenset[str]) -> BlockPrograms:
        """The programs of blocks along these dims."""
        whole, positions = with_positions(fencil, dims)
        halos = _halos(whole, free_of_coordinates(whole, dims))
        return BlockPrograms(whole, positions, halos, _ends(whole, halos))

    def at(self, regions: Mapping[str, Dims]) -> BlockProgram:
        """The program that computes these regions of some results, which have the same dims.

        Programs are cached by the regions' shape and the ends of intervals within their halo: blocks that agree in
        these have the same program up to translation. Where it reads beyond the halo, the key has the block's origin as
        well.
        """
        any_region = next(iter(regions.values()))
        origin = {d: i.start for d, i in any_region.items if d in self.halos}
        block = {d: hull([r[d] for r in regions.values()]) for d in origin}
        windows = {d: Interval(block[d].start + halo[0], block[d].stop + halo[1])
                   for d in origin if (halo := self.halos[d]) is not None}  # fmt: skip
        nearby_ends = tuple([self._ends_within(d, w, origin[d]) for d, w in windows.items()])
        relative = tuple([(n, _shifted(r, origin).items) for n, r in regions.items()]), nearby_ends
        absolute = tuple([k for d, k in origin.items() if d not in windows])
        known = self.by_place.get((relative, absolute)) or self.by_place.get((relative, tuple(origin.items())))
        if known is None:
            known = self._restricted(regions, origin)
            read = [i for p in known.params for i in BlockProgram(known, origin).needed(p.name).items]
            # a buffer that is written again may need more at each closure than the halo of the results
            in_halo = all(windows[d].covers(i) for d, i in read if d in windows)
            self.by_place.put((relative, absolute if in_halo else tuple(origin.items())), known)
        return BlockProgram(known, origin)

    def _ends_within(self, dim: str, window: Interval, origin: int) -> tuple[int, tuple[int, ...]]:
        """The number of interval ends before a window, and the ends in it relative to `origin`."""
        ends = self.ends[dim]
        position = bisect_left(ends, window.start)
        return position, tuple([e - origin for e in ends[position : bisect_right(ends, window.stop)]])

    def _restricted(self, regions: Mapping[str, Dims], origin: Mapping[str, int]) -> Fencil:
        """The program restricted to the regions and translated to `origin`; equal programs are one object.

        Results without a region are left out. One without dims has no points to choose, and is computed with others.
        """
        requested = {n: {d: (i.start, i.stop) for d, i in r.items} for n, r in regions.items()}
        other_results = [p for p in self.fencil.results if p.name not in regions]
        empty_regions = {p.name: {d: (i.start, i.start) for d, i in p.type.dims.items} for p in other_results}
        regions_by_result = {n: part for n, part in {**empty_regions, **requested}.items() if part}
        local = translated(restrict(self.fencil, regions_by_result) if regions_by_result else self.fencil, origin)
        return self.distinct.of(local, lambda: local)

    def whole(
        self, regions: Iterable[Mapping[str, Dims]], blocks: Mapping[str, Mapping[str, int]]
    ) -> tuple[str, str] | None:
        """A parameter and a dim that a region of the results needs whole, though it has several blocks; else None.

        `regions`: the blocks of the results; `blocks`: the number of blocks along each dim of each parameter. Needed
        whole by a fold, a periodic boundary, or a stencil whose halo is at least as wide as the dim; a block that a
        narrower halo extends to the whole dim does not count. Of consecutive regions with the same dims only the first
        and last are checked.
        """
        for _, alike in itertools.groupby(regions, lambda r: frozenset(next(iter(r.values())).names)):
            first_region, *other_regions = alike
            for region in (first_region, *other_regions[-1:]):
                block = self.at(region)
                for p in block.fencil.inputs:
                    block_counts = blocks.get(p.name, {})
                    for d, i in block.needed(p.name).items:
                        if block_counts.get(d, 1) == 1 or i != self.fencil[p.name].type.dims[d]:
                            continue
                        halo = self.halos.get(d)
                        if halo is None or halo[1] - halo[0] >= len(i):
                            return p.name, d
        return None


_Halos = Mapping[str, tuple[int, int]]


def _halos(fencil: Fencil, dims: frozenset[str]) -> dict[str, tuple[int, int] | None]:
    """The halo (low, high) of the results along each dim: the hull of the sums of offsets on all paths to parameters.

    None if it is unbounded: reads at computed positions, whole axes, or offsets inside of a recurrence or fold.
    """
    closures = with_values(fencil.closures, inlined(values(fencil.closures)))
    bodies = {id(n) for f in postorder(*values(closures)) if isinstance(f, Lambda) for n in postorder(*f.results)}
    unbounded: set[str] = set()
    halos: dict[int, _Halos] = {}
    stored: dict[str, _Halos] = {}

    def union(halos_of_operands: Iterable[_Halos]) -> _Halos:
        all_halos = [dict.fromkeys(dims, (0, 0)), *halos_of_operands]
        return {d: (min(h[d][0] for h in all_halos), max(h[d][1] for h in all_halos)) for d in dims}

    for run in runs(closures):
        for node in postorder(*values(run)):
            match node:
                case Call():
                    maps = node.accesses
                    unbounded |= dims if maps is None else frozenset()
                    operands: list[_Halos] = []
                    for a, access_map in zip(node.args, maps or [None] * len(node.args), strict=True):
                        access = access_map or EVERYWHERE
                        # a recurrence goes the way of its body again and again
                        repeated_dims = access.offsets.keys() if id(node) in bodies else frozenset[str]()
                        unbounded |= dims & (access.far | access.uncut | repeated_dims)
                        by = access.offsets.get
                        operands.append({d: (x + by(d, 0), y + by(d, 0)) for d, (x, y) in halos[id(a)].items()})
                    halos[id(node)] = union(operands)
                case Var():
                    halos[id(node)] = stored.get(node.name, union([]))
                case _:
                    halos[id(node)] = union(halos[id(c)] for c in node.children)
        for c in run:
            stored[c.output.name] = union([halos[id(c.value)], stored.get(c.output.name, halos[id(c.value)])])
    widest = union(stored.values())
    return {d: None if d in unbounded else widest[d] for d in sorted(dims)}


def _ends(fencil: Fencil, dims: Iterable[str]) -> dict[str, list[int]]:
    """The starts and stops of all intervals in a program along each dim, in ascending order."""
    nodes = list(postorder(*inlined(values(fencil.closures))))
    domains = [p.type.dims for p in fencil.params] + [c.region for c in fencil.closures if c.region is not None]
    domains += [n.type.dims for n in nodes if isinstance(n.type, TensorType)]
    domains += [b for n in nodes if isinstance(n, Call) for m in n.accesses or () if m
              for b in (m.inside, m.outside) if b is not None]  # fmt: skip
    return {d: sorted({e for b in domains if d in b for e in (b[d].start, b[d].stop)}) for d in dims}


def _shifted(dims: Dims, origin: Mapping[str, int]) -> Dims:
    return Dims(tuple([(d, i.shifted(origin.get(d, 0))) for d, i in dims.items]))


def regions_of(results: Sequence[Var], ends: Mapping[str, Sequence[int]]) -> Iterator[dict[str, Dims]]:
    """The blocks of some results: each is cut at its own start plus the `ends`, and blocks at the same place are one
    item.

    Results with other dims are in items of their own. Zarr takes equal blocks alone, so each result counts from its
    start.

    >>> from tensorir.ir.types import tensor
    >>> x, y = Var("x", tensor("float", I=(0, 10))), Var("y", tensor("float", I=(1, 9)))
    >>> for blocks in regions_of([x, y], {"I": [4, 8]}):
    ...     print(blocks["x"], blocks.get("y"))
    I[0:4] I[1:5]
    I[4:8] I[5:9]
    I[8:10] None
    """
    by_dims: dict[frozenset[str], list[Var]] = {}
    for p in results:
        by_dims.setdefault(frozenset(p.type.dims.names), []).append(p)
    for alike in by_dims.values():
        dims = alike[0].type.dims.names
        begin = {d: min(p.type.dims[d].start for p in alike) for d in dims}
        parts = {p.name: {d: parts_of(p.type.dims[d], begin[d], ends.get(d, ())) for d in dims} for p in alike}
        for at in itertools.product(*(sorted({k for by_dim in parts.values() for k in by_dim[d]}) for d in dims)):
            numbers = dict(zip(dims, at, strict=True))
            having = [p for p in alike if all(k in parts[p.name][d] for d, k in numbers.items())]
            if having:
                yield {p.name: Dims(tuple([(d, parts[p.name][d][numbers[d]]) for d in p.type.dims])) for p in having}


def parts_of(interval: Interval, origin: int, ends: Sequence[int]) -> dict[int, Interval]:
    """Cuts an interval into blocks, by block number: block k ends at `origin` + ends[k].

    >>> parts_of(Interval(5, 12), 0, [4, 8])
    {1: Interval(5, 9), 2: Interval(9, 12)}
    """
    number = bisect_right(ends, interval.start - origin)
    start = interval.start - (ends[number - 1] if number else 0)
    inner_ends = [c for e in ends[number:] if (c := start + e) < interval.stop]
    parts = itertools.pairwise([interval.start, *inner_ends, interval.stop])
    return dict(enumerate(itertools.starmap(Interval, parts), number))


def slices(part: Dims, whole: Dims) -> tuple[slice, ...]:
    """The slices of a part in an array, whose axes are in the order of `whole`."""
    return tuple([slice(part[d].start - i.start, part[d].stop - i.start) for d, i in whole.items])
