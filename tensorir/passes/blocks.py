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
    """The program with a parameter in place of the positions along each of the dims; the dims by these parameters."""
    used = {d: [n for n in postorder(*values(fencil.closures)) if isinstance(n, Call) and n.op == "pos"
                and n.static.dim == d] for d in dims}  # fmt: skip
    taken = {p.name for p in fencil.params}
    positions = {
        d: var(free_name(f"{d}_at", taken), TensorType(INT32, Dims(((d, hull([n.tensor.dims[d] for n in nodes])),))))
        for d, nodes in used.items()
        if nodes
    }

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Call) and node.op == "pos" and node.static.dim in positions:
            return cut(positions[node.static.dim], node.tensor.dims)
        return None

    with_params = dataclasses.replace(fencil, params=(*fencil.params, *positions.values()))
    return rewrite_fencil(with_params, rule), {p.name: d for d, p in positions.items()}


def free_of_coordinates(fencil: Fencil, dims: Iterable[str]) -> frozenset[str]:
    """Those of the dims whose coordinates are in types alone: no table, index or operation names a point of them."""
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
    """The program whose point p is the given one's p + origin, along dims that are `free_of_coordinates`."""

    def dims(whole: Dims) -> Dims:
        return Dims(tuple((d, i.shifted(origin.get(d, 0))) for d, i in whole.items))

    def kind(tensor: TensorType) -> TensorType:
        return tensor.on(dims(tensor.dims))

    def variable(v: Var) -> Var:
        return dataclasses.replace(v, type=kind(v.type))

    done: dict[int, Expr] = {}
    for node in postorder(*values(fencil.closures)):
        children = tuple(done[id(c)] for c in node.children)
        match node:
            case Var():
                new: Expr = variable(node)
            case Operator():
                new = dataclasses.replace(node, params=tuple(map(kind, node.params)))
            case Lambda():
                new = dataclasses.replace(node, params=tuple(map(variable, node.params)), results=children)
            case Call():
                new = placed(node, children, dims(node.type.dims))
            case _:
                new = rebuild(node, children)
        done[id(node)] = new
    closures = [
        dataclasses.replace(c, output=variable(c.output), value=done[id(c.value)],
                            region=None if c.region is None else dims(c.region))
        for c in fencil.closures
    ]  # fmt: skip
    return make_fencil(fencil.name, tuple(map(variable, fencil.params)), closures, fencil.span, fencil.buffers)


@dataclass(frozen=True, slots=True)
class BlockProgram:
    """The program of a block, and where its coordinates count from."""

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
        """The program of these regions of some results, which have the same dims."""
        first = next(iter(regions.values()))
        origin = {d: i.start for d, i in first.items if d in self.halos}
        block = {d: hull([r[d] for r in regions.values()]) for d in origin}
        windows = {d: Interval(block[d].start + halo[0], block[d].stop + halo[1])
                   for d in origin if (halo := self.halos[d]) is not None}  # fmt: skip
        near = tuple([self._ends_within(d, w, origin[d]) for d, w in windows.items()])
        like = tuple([(n, _shifted(r, origin).items) for n, r in regions.items()]), near
        exact = tuple([k for d, k in origin.items() if d not in windows])
        known = self.by_place.get((like, exact)) or self.by_place.get((like, tuple(origin.items())))
        if known is None:
            known = self._restricted(regions, origin)
            needed = [i for p in known.params for i in BlockProgram(known, origin).needed(p.name).items]
            # a buffer that is written again may need more at each closure than the halo of the results
            within = all(windows[d].covers(i) for d, i in needed if d in windows)
            self.by_place.put((like, exact if within else tuple(origin.items())), known)
        return BlockProgram(known, origin)

    def _ends_within(self, dim: str, window: Interval, origin: int) -> tuple[int, tuple[int, ...]]:
        """The number of ends before a window, and those in it."""
        ends = self.ends[dim]
        first = bisect_left(ends, window.start)
        return first, tuple([e - origin for e in ends[first : bisect_right(ends, window.stop)]])

    def _restricted(self, regions: Mapping[str, Dims], origin: Mapping[str, int]) -> Fencil:
        asked = {n: {d: (i.start, i.stop) for d, i in r.items} for n, r in regions.items()}
        others = [p for p in self.fencil.results if p.name not in regions]
        nothing = {p.name: {d: (i.start, i.start) for d, i in p.type.dims.items} for p in others}
        parts = {n: part for n, part in {**nothing, **asked}.items() if part}
        local = translated(restrict(self.fencil, parts) if parts else self.fencil, origin)
        return self.distinct.of(local, lambda: local)

    def whole(
        self, regions: Iterable[Mapping[str, Dims]], blocks: Mapping[str, Mapping[str, int]]
    ) -> tuple[str, str] | None:
        """A parameter in several `blocks` along a dim of which some region needs all, and the dim.

        The halo of a stencil may reach as far; one as wide as all there is goes around a periodic dim. Of regions of
        the same dims the first and the last are looked at.
        """
        for _, alike in itertools.groupby(regions, lambda r: frozenset(next(iter(r.values())).names)):
            first, *others = alike
            for region in (first, *others[-1:]):
                block = self.at(region)
                for p in block.fencil.inputs:
                    several = blocks.get(p.name, {})
                    for d, i in block.needed(p.name).items:
                        if several.get(d, 1) == 1 or i != self.fencil[p.name].type.dims[d]:
                            continue
                        halo = self.halos.get(d)
                        if halo is None or halo[1] - halo[0] >= len(i):
                            return p.name, d
        return None


_Halos = Mapping[str, tuple[int, int]]


def _halos(fencil: Fencil, dims: frozenset[str]) -> dict[str, tuple[int, int] | None]:
    """The halo of the results along each of the dims, a sum of offsets along the way from parameters."""
    closures = with_values(fencil.closures, inlined(values(fencil.closures)))
    bodies = {id(n) for f in postorder(*values(closures)) if isinstance(f, Lambda) for n in postorder(*f.results)}
    unbounded: set[str] = set()
    halos: dict[int, _Halos] = {}
    stored: dict[str, _Halos] = {}

    def joined(several: Iterable[_Halos]) -> _Halos:
        every = [dict.fromkeys(dims, (0, 0)), *several]
        return {d: (min(h[d][0] for h in every), max(h[d][1] for h in every)) for d in dims}

    for together in runs(closures):
        for node in postorder(*values(together)):
            match node:
                case Call():
                    maps = node.accesses
                    unbounded |= dims if maps is None else frozenset()
                    operands: list[_Halos] = []
                    for a, m in zip(node.args, maps or [None] * len(node.args), strict=True):
                        access = m or EVERYWHERE
                        # a recurrence goes the way of its body again and again
                        again = access.offsets.keys() if id(node) in bodies else frozenset[str]()
                        unbounded |= dims & (access.far | access.uncut | again)
                        shift = access.offsets.get
                        operands.append({d: (x + shift(d, 0), y + shift(d, 0)) for d, (x, y) in halos[id(a)].items()})
                    halos[id(node)] = joined(operands)
                case Var():
                    halos[id(node)] = stored.get(node.name, joined([]))
                case _:
                    halos[id(node)] = joined(halos[id(c)] for c in node.children)
        for c in together:
            stored[c.output.name] = joined([halos[id(c.value)], stored.get(c.output.name, halos[id(c.value)])])
    widest = joined(stored.values())
    return {d: None if d in unbounded else widest[d] for d in sorted(dims)}


def _ends(fencil: Fencil, dims: Iterable[str]) -> dict[str, list[int]]:
    """The ends of all intervals of a program along dims, ascending."""
    nodes = list(postorder(*inlined(values(fencil.closures))))
    boxes = [p.type.dims for p in fencil.params] + [c.region for c in fencil.closures if c.region is not None]
    boxes += [n.type.dims for n in nodes if isinstance(n.type, TensorType)]
    boxes += [b for n in nodes if isinstance(n, Call) for m in n.accesses or () if m
              for b in (m.inside, m.outside) if b is not None]  # fmt: skip
    return {d: sorted({e for b in boxes if d in b for e in (b[d].start, b[d].stop)}) for d in dims}


def _shifted(dims: Dims, origin: Mapping[str, int]) -> Dims:
    return Dims(tuple([(d, i.shifted(origin.get(d, 0))) for d, i in dims.items]))


def regions_of(results: Sequence[Var], ends: Mapping[str, Sequence[int]]) -> Iterator[dict[str, Dims]]:
    """The blocks of some results: each is cut at its own start plus the `ends`, and those that meet go together.

    Results of other dims are in blocks of their own. Zarr takes equal blocks alone, so each result counts from where it
    begins.

    >>> from tensorir.ir.types import tensor
    >>> x, y = Var("x", tensor("float", I=(0, 10))), Var("y", tensor("float", I=(1, 9)))
    >>> for blocks in regions_of([x, y], {"I": [4, 8]}):
    ...     print(blocks["x"], blocks.get("y"))
    I[0:4] I[1:5]
    I[4:8] I[5:9]
    I[8:10] None
    """
    alike: dict[frozenset[str], list[Var]] = {}
    for p in results:
        alike.setdefault(frozenset(p.type.dims.names), []).append(p)
    for together in alike.values():
        dims = together[0].type.dims.names
        begin = {d: min(p.type.dims[d].start for p in together) for d in dims}
        parts = {p.name: {d: parts_of(p.type.dims[d], begin[d], ends.get(d, ())) for d in dims} for p in together}
        for at in itertools.product(*(sorted({k for by_dim in parts.values() for k in by_dim[d]}) for d in dims)):
            here = dict(zip(dims, at, strict=True))
            having = [p for p in together if all(k in parts[p.name][d] for d, k in here.items())]
            if having:
                yield {p.name: Dims(tuple([(d, parts[p.name][d][here[d]]) for d in p.type.dims])) for p in having}


def parts_of(interval: Interval, begin: int, ends: Sequence[int]) -> dict[int, Interval]:
    """The parts of an interval by their numbers, in blocks that begin at `begin` and have these ends behind it.

    >>> parts_of(Interval(5, 12), 0, [4, 8])
    {1: Interval(5, 9), 2: Interval(9, 12)}
    """
    before = bisect_right(ends, interval.start - begin)
    start = interval.start - (ends[before - 1] if before else 0)
    cuts = [c for e in ends[before:] if (c := start + e) < interval.stop]
    parts = itertools.pairwise([interval.start, *cuts, interval.stop])
    return dict(enumerate(itertools.starmap(Interval, parts), before))


def slices(part: Dims, whole: Dims) -> tuple[slice, ...]:
    """The slices of a part in an array, whose axes are in the order of `whole`."""
    return tuple([slice(part[d].start - i.start, part[d].stop - i.start) for d, i in whole.items])
