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
    """A halo requirement that is the same for every block [s:e): the points [s + low : e + high), cut to `inside`.

    `low` is negative where points before the block are needed; `inside` is the interval of the whole array that exists.
    """

    low: int
    high: int
    inside: Interval

    def moved(self, offset: int) -> Need:
        return Need(self.low + offset, self.high + offset, self.inside.shifted(-offset))

    def within(self, interval: Interval) -> Need:
        return Need(self.low, self.high, self.inside & interval)

    def of(self, block: Interval) -> Interval:
        """Points of the whole array that a block needs; empty for an empty block, whatever `low` and `high` are."""
        if not block:
            return Interval(block.start, block.start)
        return Interval(block.start + self.low, block.stop + self.high) & self.inside

    def covers(self, other: Need) -> bool:
        return self.low <= other.low and other.high <= self.high and self.inside.covers(other.inside)

    def __str__(self) -> str:
        """The need in terms of a block [s:e), such as `[s + 1 : e + 1) of [1:9]`."""
        ends = [
            f"{end} {'-' if by < 0 else '+'} {abs(by)}" if by else end
            for end, by in (("s", self.low), ("e", self.high))
        ]
        return f"[{ends[0]} : {ends[1]}) of {self.inside}"


Along = dict[str, tuple[Need, ...]]
"""By dim that is distributed."""


def needs(results: Iterable[Expr], dims: Iterable[str]) -> dict[Var, Along]:
    """The points of each variable that every block of the results needs, by distributed dim; `dims` are the distributed
    ones.

    Backward pass from the results, of which a block needs its own points: a shift moves a need by its offset, and all
    uses of a variable are joined.
    """
    results, dims = tuple(results), tuple(dims)

    def operand_need(node: Expr, access: Access | None, call: Call | None, need: Along | None) -> Along:
        """The need of `node` that a `call` with this `need` causes through `access`, cut to the node's intervals.

        Without a call `node` is a result, and along dims that `call` folds there is no need yet: both give the block
        itself.
        """
        dims_of_node, by_dim = node.tensor.dims, need or {}
        if access is not None:
            by_dim = {d: tuple(n.moved(access.offset(d) or 0) for n in each) for d, each in by_dim.items()}
        named = {d: by_dim.get(d, (Need(0, 0, dims_of_node[d]),)) for d in dims if d in dims_of_node}
        return {d: tuple(n.within(dims_of_node[d]) for n in each) for d, each in named.items()}

    by_node = needed(results, operand_need, lambda _, a, b: _joined(a or {}, b))
    variables: dict[Var, Along] = {}
    for node in postorder(*results):
        if isinstance(node, Var) and id(node) in by_node:
            variables[node] = _joined(variables.get(node, {}), by_node[id(node)])
    return variables


def _joined(a: Along, b: Along) -> Along:
    """The union of two needs by dim, without empty ones and without those that another one covers."""
    joined: Along = {}
    for d in {**a, **b}:
        uncovered: list[Need] = []
        for need in dict.fromkeys(n for n in (*a.get(d, ()), *b.get(d, ())) if n.inside):
            if not any(k.covers(need) for k in uncovered):
                uncovered = [k for k in uncovered if not need.covers(k)] + [need]
        joined[d] = tuple(uncovered)
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
    """The points of one field in a round of messages: the same number of points (`width`) on all devices, padded."""

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
    """Plans the messages before a step, after which each block has the halo that it reads.

    Dims go one after the other (`Phase`), so corners arrive in two hops; fields on an unstructured mesh follow, except
    those named in `held`, whose halos the devices have already.
    """
    blocks = blocks_of(local.parts)
    needs_of = needs(local.whole.values(), blocks)
    phases: list[Phase] = []
    messages: list[Message | MeshMessage] = []
    for d, part in blocks.items():
        rounds: dict[tuple[int, int], list[tuple[View, list[list[_Sent]]]]] = {}
        for view in local.views:
            if d not in view.param.type.dims:
                continue
            along = needs_of.get(view.field, {}).get(d, ())
            sent = list(_sent(view, along, d, part))
            messages += [_message(s, view, d, local) for s in sent if s.source != s.target]
            for key, batches in _by_round(sent, part).items():
                rounds.setdefault(key, []).append((view, batches))
        filled: dict[str, list[Interval]] = {}
        phases.append(Phase(part, tuple(_round(k, batches, d, part, filled) for k, batches in sorted(rounds.items()))))
    if local.mesh is None:
        return Exchange(tuple(phases), tuple(messages))
    mesh = mesh_exchange([(v.param, v.field) for v in local.views if v.field.name not in held], local.mesh)
    return Exchange(tuple(phases), (*messages, *mesh.messages), mesh, held)


def _sent(view: View, needs_along: Sequence[Need], dim: str, part: Decomposition) -> Iterator[_Sent]:
    """Every message along `dim` that fills the halo of one field: for each device, the points of `needs_along` that lie
    outside of its block, or that it reads across a periodic boundary, in pieces with one owner each.
    """
    local, whole = view.param.type.dims[dim], view.field.type.dims[dim]
    for target, block in enumerate(part.blocks()):
        start = part.start(target)
        for offset in view.offsets[dim]:
            readable = whole.shifted(offset) & Interval(start + local.start, start + local.stop)
            for points in _disjoint([need.of(block).shifted(offset) & readable for need in needs_along]):
                before = Interval(points.start, min(points.stop, block.start))
                after = Interval(max(points.start, block.stop), points.stop)
                for outside in (before, after) if not offset else (points,):
                    yield from _from_owners(outside, offset, target, part)


def _disjoint(intervals: Sequence[Interval]) -> list[Interval]:
    """The union of intervals as disjoint intervals in ascending order; those that touch are joined, empty ones
    dropped.
    """
    separate: list[Interval] = []
    for interval in sorted((interval for interval in intervals if interval), key=lambda interval: interval.start):
        if separate and interval.start <= separate[-1].stop:
            separate[-1] |= interval
        else:
            separate.append(interval)
    return separate


def _from_owners(local_points: Interval, offset: int, target: int, part: Decomposition) -> Iterator[_Sent]:
    """Splits points that a device receives into one message per owner.

    `local_points` are coordinates in the frame of the target's block; the whole's point there is `offset` further. They
    are also split at the ends of the target's block, so that no message is in part halo and in part block.
    """
    start, block = part.start(target), part.block(target)
    position = local_points.start
    while position < local_points.stop:
        owner = part.owner(position + offset)
        stop = min(local_points.stop, part.block(owner).stop - offset)
        for side in (block.start, block.stop):
            stop = min(stop, side) if position < side else stop
        yield _Sent(owner, target, Interval(position + offset, stop + offset), position - start)
        position = stop


def _by_round(sent: Sequence[_Sent], part: Decomposition) -> dict[tuple[int, int], list[list[_Sent]]]:
    """Groups messages by the permute that carries them: (1, distance) upwards, (-1, distance) downwards, (0, 0) for
    copies on the device itself.

    Each group is a list of batches, and in a batch each device receives at most once. Halos below the block come from
    upward permutes and halos above from downward ones; other points take the shorter way around.
    """
    rounds: dict[tuple[int, int], list[list[_Sent]]] = {}
    for message in sent:
        up, down = (message.target - message.source) % part.parts, (message.source - message.target) % part.parts
        after = message.position >= len(part.block(message.target))
        upwards = message.position < 0 or (not after and up <= down)
        key = (1, up) if upwards else (-1, down)
        lists = rounds.setdefault(key if up else (0, 0), [])
        free = next((batch for batch in lists if all(other.target != message.target for other in batch)), None)
        if free is None:
            lists.append([message])
        else:
            free.append(message)
    return rounds


def _round(
    direction_and_distance: tuple[int, int], batches_by_view: Sequence[tuple[View, list[list[_Sent]]]], dim: str,
    part: Decomposition, filled: dict[str, list[Interval]],
) -> Round:  # fmt: skip
    """One round of messages along `dim`: its pairs of devices (none for copies on the device), and one piece per batch.

    `filled` has by view the local intervals that earlier pieces fill, and is extended here.
    """
    messages = [s for _, lists in batches_by_view for batch in lists for s in batch]
    pairs = sorted({(s.source, s.target) for s in messages}) if direction_and_distance[1] else []
    pieces = [
        _piece(view, batch, dim, part, filled.setdefault(view.param.name, []))
        for view, lists in batches_by_view
        for batch in lists
    ]
    elements = {leaf for view, _ in batches_by_view for leaf in view.field.type.leaves}
    return Round(tuple(pairs), tuple(pieces), len(elements) if pairs else 0)


def _piece(view: View, batch: Sequence[_Sent], dim: str, part: Decomposition, filled: list[Interval]) -> Piece:
    """The messages of one field in a round as one piece.

    It is `fixed` where all devices send from and write to the same local interval, which overlaps neither the block nor
    the intervals that earlier pieces `filled`: then devices that need fewer points may get too many. The interval is
    appended to `filled`. Otherwise send and receive positions are listed by device.
    """
    origin, n = view.param.type.dims[dim].start, part.parts
    sends = {s.target: s.points.start - part.start(s.source) for s in batch}
    counts = _row({s.target: len(s.points) for s in batch}, n, 0)
    begin, end = min(sends.values()), max(sends[s.target] + len(s.points) for s in batch)
    distances = {s.position - sends[s.target] for s in batch}
    if len(distances) == 1:
        (distance,) = distances
        place = Interval(begin + distance, end + distance)
        if not any(place & other for other in (Interval(0, part.size), *filled)):
            filled.append(place)
            return Piece(view.param.name, end - begin, (begin,) * n, (place.start - origin,) * n, counts, True)
    receive = {s.target: s.position - origin for s in batch}
    by_source = {s.source: sends[s.target] for s in batch}
    begin, origin = min(by_source.values()), min(receive.values())
    return Piece(view.param.name, max(counts), _row(by_source, n, begin), _row(receive, n, origin), counts, False)


def _row(values: Mapping[int, int], parts: int, default: int) -> tuple[int, ...]:
    """One entry per device: its value, or `default` where it has none."""
    return tuple(values.get(k, default) for k in range(parts))


def _message(sent: _Sent, view: View, dim: str, local: Localised) -> Message:
    """The message with its names and its size in bytes.

    Along dims exchanged before this one halos travel too, along later ones only blocks, and other dims go whole.
    """
    blocks = blocks_of(local.parts)
    part, order = blocks[dim], list(blocks)
    cross_section = 1
    for d, i in view.param.type.dims.items:
        if d == dim:
            continue
        already_exchanged = d in blocks and order.index(d) < order.index(dim)
        cross_section *= len(i) if already_exchanged or d not in local.parts else local.parts[d].size
    bytes_per_point = sum(DTYPES[s].itemsize for s in view.field.type.leaves)
    return Message(
        part.axis, sent.source, sent.target, view.param.name, view.field.name, dim, sent.points, sent.position,
        len(sent.points) * cross_section * bytes_per_point,
    )  # fmt: skip


def part_of_exchange(local: Localised, plan: Exchange, fields: Set[str]) -> tuple[Localised, Exchange]:
    """The exchange restricted to some fields: the program with only their views, and their messages; empty rounds are
    dropped.

    For programs without an unstructured mesh, whose lists of points (`Exchange.mesh`) are of all fields together.

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
