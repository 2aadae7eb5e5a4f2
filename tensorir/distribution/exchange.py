"""The exchange of halos before a step: the points that blocks need along cut dims, and the messages that bring them.

A block is [s:e), whatever s and e are: what is needed of a value are points from s + low up to e + high, as far as they
lie in an interval of the whole. So one analysis, backward from the results, holds for all blocks, at the ends of the
interval as inside of it.

>>> import tensorir as ti
>>> f = ti.parse("f(y: tensor<float, I[0:8]>, x: tensor<float, I[0:9]>) { y ← ⟪I, 1⟫(x); }")
>>> print(*needs(whole_results(f).values(), ["I"])[f["x"]]["I"])
[s + 1 : e + 1) of [1:9]

Messages are exact, and the rounds in which they go are the same on all devices. Dims are exchanged one after the other,
each on what those before it have brought, so corners arrive in two hops. Along a dim there is a round for each
direction and distance: one permute that takes the pieces of all fields together.

>>> from tensorir.distribution.local_program import localised
>>> f = ti.parse("f(y: tensor<float, I[1:8]>, x: tensor<float, I[0:8]>) { y ← ⟪I, -1⟫(x) + x; }")
>>> for message in exchange(localised(f, {"I": Decomposition("I", "px", Interval(0, 8), 4)})).messages:
...     print(message)
px 0 → 1: x at I[1:2]
px 1 → 2: x at I[3:4]
px 2 → 3: x at I[5:6]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tensorir.distribution.local_program import Localised, View
from tensorir.distribution.mesh_exchange import MeshExchange, MeshMessage, mesh_exchange, needed
from tensorir.distribution.partition import Decomposition, blocks_of
from tensorir.distribution.whole_program import whole_results
from tensorir.integers.dims import Interval
from tensorir.ir.access import Access
from tensorir.ir.nodes import Call, Expr, Var
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import DTYPES

__all__ = [
    "Exchange", "Message", "Need", "Phase", "Piece", "Round", "exchange", "needs", "part_of_exchange", "whole_results",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Need:
    """The points from `low` after a block's start up to `high` after its end, of an interval."""

    low: int
    high: int
    inside: Interval

    def moved(self, offset: int) -> Need:
        return Need(self.low + offset, self.high + offset, self.inside.shifted(-offset))

    def within(self, interval: Interval) -> Need:
        return Need(self.low, self.high, self.inside & interval)

    def of(self, block: Interval) -> Interval:
        """The needs of a block."""
        if not block:
            return Interval(block.start, block.start)
        return Interval(block.start + self.low, block.stop + self.high) & self.inside

    def covers(self, other: Need) -> bool:
        return self.low <= other.low and other.high <= self.high and self.inside.covers(other.inside)

    def __str__(self) -> str:
        ends = [
            f"{end} {'-' if by < 0 else '+'} {abs(by)}" if by else end
            for end, by in (("s", self.low), ("e", self.high))
        ]
        return f"[{ends[0]} : {ends[1]}) of {self.inside}"


Along = dict[str, tuple[Need, ...]]
"""By dim that is distributed."""


def needs(results: Iterable[Expr], dims: Iterable[str]) -> dict[Var, Along]:
    """The points of each variable that a block of all results needs, by dim."""
    results, dims = tuple(results), tuple(dims)

    def asked(node: Expr, access: Access | None, call: Call | None, need: Along | None) -> Along:
        """The points needed of a node, within its own intervals; along dims that are folded, its block."""
        have, along = node.tensor.dims, need or {}
        if access is not None:
            along = {d: tuple(n.moved(access.offset(d) or 0) for n in each) for d, each in along.items()}
        named = {d: along.get(d, (Need(0, 0, have[d]),)) for d in dims if d in have}
        return {d: tuple(n.within(have[d]) for n in each) for d, each in named.items()}

    by_node = needed(results, asked, lambda _, a, b: _joined(a or {}, b))
    variables: dict[Var, Along] = {}
    for node in postorder(*results):
        if isinstance(node, Var) and id(node) in by_node:
            variables[node] = _joined(variables.get(node, {}), by_node[id(node)])
    return variables


def _joined(a: Along, b: Along) -> Along:
    """The needs of both by dim, without those that others cover."""
    joined: Along = {}
    for d in {**a, **b}:
        kept: list[Need] = []
        for need in dict.fromkeys(n for n in (*a.get(d, ()), *b.get(d, ())) if n.inside):
            if not any(k.covers(need) for k in kept):
                kept = [k for k in kept if not need.covers(k)] + [need]
        joined[d] = tuple(kept)
    return joined


@dataclass(frozen=True, slots=True)
class Message:
    """Points of a field that one device sends to another along a mesh axis."""

    axis: str
    source: int
    target: int
    view: str
    field: str
    dim: str
    points: Interval
    """In the whole."""
    position: int
    """Where the first of them is put, from the start of the target's block."""
    bytes: int

    def __str__(self) -> str:
        return f"{self.axis} {self.source} → {self.target}: {self.field} at {self.dim}{self.points}"


@dataclass(frozen=True, slots=True)
class Piece:
    """One field's part of a round of messages: as many points on all devices."""

    view: str
    width: int
    send: tuple[int, ...]
    """By device, where its block holds the first point that it sends."""
    receive: tuple[int, ...]
    """By device, where its array gets the first point, counted from the array's start."""
    counts: tuple[int, ...]
    """By device, how many of the points are for it."""
    fixed: bool
    """Whether all devices send from and put at the same place, and what is put beyond the counts harms nobody."""


@dataclass(frozen=True, slots=True)
class Round:
    """Pairs of devices, and the pieces that go together."""

    pairs: tuple[tuple[int, int], ...]
    """Empty where devices copy from themselves."""
    pieces: tuple[Piece, ...]
    permutes: int
    """One for each element type that is sent."""


@dataclass(frozen=True, slots=True)
class Phase:
    """The rounds along one dim."""

    part: Decomposition
    rounds: tuple[Round, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """All that is sent before a step."""

    phases: tuple[Phase, ...]
    messages: tuple[Message | MeshMessage, ...]
    mesh: MeshExchange | None = None
    """What is sent along the dims of an unstructured mesh, after all phases."""
    held: frozenset[str] = frozenset()
    """The fields of a mesh that the devices have with their halos, so that they are not sent."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """Points that a device gets, in coordinates of the whole where they are, and of the block where they go."""

    source: int
    target: int
    points: Interval
    position: int


def exchange(local: Localised, held: frozenset[str] = frozenset()) -> Exchange:
    """Messages before a step, after which each block has the halo that it reads."""
    blocks = blocks_of(local.parts)
    wanted = needs(local.whole.values(), blocks)
    phases: list[Phase] = []
    messages: list[Message | MeshMessage] = []
    for d, part in blocks.items():
        rounds: dict[tuple[int, int], list[tuple[View, list[list[_Sent]]]]] = {}
        for view in local.views:
            if d not in view.param.type.dims:
                continue
            along = wanted.get(view.field, {}).get(d, ())
            sent = list(_sent(view, along, d, part))
            messages += [_message(s, view, d, local) for s in sent if s.source != s.target]
            for key, some in _by_round(sent, part).items():
                rounds.setdefault(key, []).append((view, some))
        taken: dict[str, list[Interval]] = {}
        phases.append(Phase(part, tuple(_round(k, some, d, part, taken) for k, some in sorted(rounds.items()))))
    if local.mesh is None:
        return Exchange(tuple(phases), tuple(messages))
    mesh = mesh_exchange([(v.param, v.field) for v in local.views if v.field.name not in held], local.mesh)
    return Exchange(tuple(phases), (*messages, *mesh.messages), mesh, held)


def _sent(view: View, along: Sequence[Need], dim: str, part: Decomposition) -> Iterator[_Sent]:
    """The points that every device receives of a field from outside of its block."""
    box, have = view.param.type.dims[dim], view.field.type.dims[dim]
    for target, block in enumerate(part.blocks()):
        start = part.start(target)
        for offset in view.offsets[dim]:
            inside = have.shifted(offset) & Interval(start + box.start, start + box.stop)
            for piece in _disjoint([need.of(block).shifted(offset) & inside for need in along]):
                before = Interval(piece.start, min(piece.stop, block.start))
                after = Interval(max(piece.start, block.stop), piece.stop)
                for outside in (before, after) if not offset else (piece,):
                    yield from _from_owners(outside, offset, target, part)


def _disjoint(intervals: Sequence[Interval]) -> list[Interval]:
    """The same points as intervals that do not touch, in order."""
    separate: list[Interval] = []
    for i in sorted((i for i in intervals if i), key=lambda i: i.start):
        if separate and i.start <= separate[-1].stop:
            separate[-1] |= i
        else:
            separate.append(i)
    return separate


def _from_owners(piece: Interval, offset: int, target: int, part: Decomposition) -> Iterator[_Sent]:
    """Positions in the frame of a block as points of the devices that have them."""
    start, block = part.start(target), part.block(target)
    at = piece.start
    while at < piece.stop:
        owner = part.owner(at + offset)
        stop = min(piece.stop, part.block(owner).stop - offset)
        for side in (block.start, block.stop):
            stop = min(stop, side) if at < side else stop
        yield _Sent(owner, target, Interval(at + offset, stop + offset), at - start)
        at = stop


def _by_round(sent: Sequence[_Sent], part: Decomposition) -> dict[tuple[int, int], list[list[_Sent]]]:
    """By direction and distance, what goes in a round: in each list there is at most one for a device."""
    rounds: dict[tuple[int, int], list[list[_Sent]]] = {}
    for s in sent:
        up, down = (s.target - s.source) % part.parts, (s.source - s.target) % part.parts
        after = s.position >= len(part.block(s.target))
        upwards = s.position < 0 or (not after and up <= down)
        key = (1, up) if upwards else (-1, down)
        lists = rounds.setdefault(key if up else (0, 0), [])
        free = next((some for some in lists if all(o.target != s.target for o in some)), None)
        if free is None:
            lists.append([s])
        else:
            free.append(s)
    return rounds


def _round(
    key: tuple[int, int], carried: Sequence[tuple[View, list[list[_Sent]]]], dim: str, part: Decomposition,
    taken: dict[str, list[Interval]],
) -> Round:  # fmt: skip
    every = [s for _, lists in carried for some in lists for s in some]
    pairs = sorted({(s.source, s.target) for s in every}) if key[1] else []
    pieces = [
        _piece(view, some, dim, part, taken.setdefault(view.param.name, []))
        for view, lists in carried
        for some in lists
    ]
    elements = {leaf for view, _ in carried for leaf in view.field.type.leaves}
    return Round(tuple(pairs), tuple(pieces), len(elements) if pairs else 0)


def _piece(view: View, some: Sequence[_Sent], dim: str, part: Decomposition, taken: list[Interval]) -> Piece:
    """One field's part of a round; `taken` has the places of its array that earlier pieces have."""
    first, n = view.param.type.dims[dim].start, part.parts
    sends = {s.target: s.points.start - part.start(s.source) for s in some}
    counts = _row({s.target: len(s.points) for s in some}, n, 0)
    begin, end = min(sends.values()), max(sends[s.target] + len(s.points) for s in some)
    distances = {s.position - sends[s.target] for s in some}
    if len(distances) == 1:
        (distance,) = distances
        place = Interval(begin + distance, end + distance)
        if not any(place & other for other in (Interval(0, part.size), *taken)):
            taken.append(place)
            return Piece(view.param.name, end - begin, (begin,) * n, (place.start - first,) * n, counts, True)
    receive = {s.target: s.position - first for s in some}
    by_source = {s.source: sends[s.target] for s in some}
    begin, first = min(by_source.values()), min(receive.values())
    return Piece(view.param.name, max(counts), _row(by_source, n, begin), _row(receive, n, first), counts, False)


def _row(values: Mapping[int, int], parts: int, other: int) -> tuple[int, ...]:
    """Values by device, and those of the others."""
    return tuple(values.get(k, other) for k in range(parts))


def _message(sent: _Sent, view: View, dim: str, local: Localised) -> Message:
    blocks = blocks_of(local.parts)
    part, order = blocks[dim], list(blocks)
    others = 1
    for d, i in view.param.type.dims.items:
        if d == dim:
            continue
        before = d in blocks and order.index(d) < order.index(dim)
        others *= len(i) if before or d not in local.parts else local.parts[d].size
    size = sum(DTYPES[s].itemsize for s in view.field.type.leaves)
    return Message(
        part.axis, sent.source, sent.target, view.param.name, view.field.name, dim, sent.points, sent.position,
        len(sent.points) * others * size,
    )  # fmt: skip


def part_of_exchange(local: Localised, plan: Exchange, fields: Set[str]) -> tuple[Localised, Exchange]:
    """Reads of some fields, and the messages that bring them; rounds that send nothing are left out.

    >>> import tensorir as ti
    >>> from tensorir.distribution.local_program import localised
    >>> field = "tensor<float, I[0:8]>"
    >>> f = ti.parse(f"f(y: tensor<float, I[1:8]>, x: {field}, c: {field}) {{ y ← ⟪I, -1⟫(x × c) + x; }}")
    >>> local = localised(f, {"I": Decomposition("I", "px", Interval(0, 8), 2)})
    >>> some, plan = part_of_exchange(local, exchange(local), {"c"})
    >>> [v.field.name for v in some.views], [str(m) for m in plan.messages]
    (['c'], ['px 0 → 1: c at I[3:4]'])
    """
    views = tuple(v for v in local.views if v.field.name in fields)
    names = {v.param.name for v in views}
    phases: list[Phase] = []
    for phase in plan.phases:
        rounds = (replace(r, pieces=tuple(p for p in r.pieces if p.view in names)) for r in phase.rounds)
        phases.append(Phase(phase.part, tuple(r for r in rounds if r.pieces)))
    messages = tuple(m for m in plan.messages if m.field in fields)
    return replace(local, views=views), replace(plan, phases=tuple(phases), messages=messages)
