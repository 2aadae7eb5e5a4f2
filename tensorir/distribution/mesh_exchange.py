"""Who sends which points of a mesh to whom before a step, in rounds that are the same on all devices.

All dims of the mesh go together. A round is a permutation of devices, and all fields of one element type go in one
permute; where nearly all pairs of devices speak, one `all_to_all` takes the place of the rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tensorir.distribution.local_numbers import LocalMesh
from tensorir.distribution.subdomains import Keys, mesh_dim
from tensorir.ir.nodes import Var
from tensorir.ir.types import DTYPES

__all__ = ["Layer", "MeshExchange", "MeshMessage", "edge_coloured", "mesh_exchange"]

NEARLY_ALL = 0.75
"""The share of all pairs of devices from which on one `all_to_all` takes fewer steps than rounds of permutes."""

Pair = tuple[int, int]
Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class MeshMessage:
    """Points of a field that one device sends to another."""

    axis: str
    source: int
    target: int
    view: str
    field: str
    dim: str
    points: tuple[int, ...]
    """In the whole."""
    bytes: int

    def __str__(self) -> str:
        count = f"{len(self.points)} point{'s' * (len(self.points) != 1)}"
        return f"{self.axis} {self.source} → {self.target}: {self.field} at {count} of {self.dim}"


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The same points of some fields: what each device sends of its own points, and where it finds its halo."""

    dim: str
    views: tuple[str, ...]
    send: tuple[Numbers, ...]
    """By round, devices by the places that are sent; for `all_to_all` one row of places, target by target."""
    receive: Numbers
    """Devices by the places of the halo: which of all points that came stands there."""


@dataclass(frozen=True, slots=True)
class MeshExchange:
    """All that is sent of a mesh before a step."""

    axis: str
    parts: int
    rounds: tuple[tuple[Pair, ...], ...]
    """Pairs of devices; none where `all_to_all` takes all."""
    layers: tuple[Layer, ...]
    messages: tuple[MeshMessage, ...]
    elements: int
    """Element types that are sent."""

    @property
    def all_to_all(self) -> bool:
        return bool(self.layers) and not self.rounds

    @property
    def collectives(self) -> int:
        """One for each round and element type."""
        return self.elements * (len(self.rounds) or 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """Points of a layer that one device sends to another: where they stand there and here."""

    pair: Pair
    points: NDArray[np.int64]
    send: NDArray[np.int64]
    receive: NDArray[np.int64]


def mesh_exchange(views: Sequence[tuple[Var, Var]], mesh: LocalMesh) -> MeshExchange:
    """What is sent for the parameters of a local program and the fields of the whole one that they are."""
    parts = {d: n.part for d, n in mesh.numbers.items()}
    grouped: dict[tuple[str, int], tuple[Keys, list[tuple[Var, Var]]]] = {}
    for view, field in views:
        dim = mesh_dim(field.type, parts)
        if dim is None or len(view.type.dims[dim]) <= parts[dim].size:
            continue
        keys = mesh.read(field, dim)
        grouped.setdefault((dim, id(keys)), (keys, []))[1].append((view, field))
    sent = {(dim, k): _sent(mesh, dim, keys) for (dim, k), (keys, _) in grouped.items()}
    weights: Counter[Pair] = Counter()
    messages: list[MeshMessage] = []
    for (dim, k), (_, some) in grouped.items():
        for view, field in some:
            size = _bytes_of_point(view, dim)
            for s in sent[dim, k]:
                weights[s.pair] += len(s.points) * size
                told = tuple((s.points + parts[dim].interval.start).tolist())
                messages.append(MeshMessage(
                    mesh.axis, *s.pair, view.name, field.name, dim, told, len(told) * size,
                ))  # fmt: skip
    rounds = _rounds(weights, mesh.parts)
    layers = [
        _layer(mesh, dim, tuple(v.name for v, _ in some), sent[dim, k], rounds)
        for (dim, k), (_, some) in grouped.items()
    ]
    elements = {leaf for _, some in grouped.values() for _, field in some for leaf in field.type.leaves}
    return MeshExchange(mesh.axis, mesh.parts, rounds, tuple(layers), tuple(messages), len(elements))


def _bytes_of_point(view: Var, dim: str) -> int:
    return view.type.dims.without(dim).size * sum(DTYPES[s].itemsize for s in view.type.leaves)


def _sent(mesh: LocalMesh, dim: str, keys: Keys) -> list[_Sent]:
    """By pair of devices, what of some points goes from the one that has them to the one that needs them."""
    numbers = mesh.numbers[dim]
    halo = numbers.halo(keys)
    target, point = np.divmod(halo, numbers.part.extent)
    source = numbers.part.owners[point].astype(np.int64)
    order = np.lexsort((point, target, source))
    source, target, point = source[order], target[order], point[order]
    send = numbers.places(source * numbers.part.extent + point)
    receive = numbers.places(halo[order])
    found: list[_Sent] = []
    for pair, some in groupby(range(len(order)), lambda k: (int(source[k]), int(target[k]))):
        at = list(some)
        found.append(_Sent(pair, point[at], send[at], receive[at]))
    return found


def _rounds(weights: Mapping[Pair, int], parts: int) -> tuple[tuple[Pair, ...], ...]:
    """Pairs in permutations; none where `all_to_all` takes fewer steps."""
    rounds = edge_coloured(sorted(weights, key=lambda p: (-weights[p], p)))
    dense = len(rounds) > 2 and len(weights) >= NEARLY_ALL * parts * (parts - 1)
    return () if dense else rounds


def edge_coloured(pairs: Sequence[Pair]) -> tuple[tuple[Pair, ...], ...]:
    """Pairs of senders and receivers in as few rounds as the one with the most partners has, each once in a round.

    A pair goes to the first round in which both are free. Where there is none, a round a is free at its sender and
    another b at its receiver, and the pairs of these rounds that hang together from the receiver on change places.

    >>> edge_coloured([(0, 1), (1, 0), (0, 2), (2, 1)])
    (((0, 1), (1, 0)), ((0, 2), (2, 1)))
    """
    sends: dict[int, dict[int, int]] = {source: {} for source, _ in pairs}
    gets: dict[int, dict[int, int]] = {target: {} for _, target in pairs}
    partners = Counter[tuple[str, int]](end for s, t in pairs for end in (("from", s), ("to", t)))
    count = max(partners.values(), default=0)
    for source, target in pairs:
        here, there = sends[source], gets[target]
        both = next((k for k in range(count) if k not in here and k not in there), None)
        if both is None:
            both = next(k for k in range(count) if k not in here)
            _exchange_rounds(sends, gets, target, both, next(k for k in range(count) if k not in there))
        here[both], there[both] = target, source
    return tuple(tuple(sorted((s, to[k]) for s, to in sends.items() if k in to)) for k in range(count))


def _exchange_rounds(
    sends: dict[int, dict[int, int]], gets: dict[int, dict[int, int]], target: int, a: int, b: int
) -> None:  # fmt: skip
    """Give the pairs on the path of rounds a, b, a, ... from a receiver on the other of the two."""
    path: list[tuple[int, int, int]] = []
    while a in gets[target]:
        source = gets[target][a]
        path.append((source, target, a))
        if b not in sends[source]:
            break
        target = sends[source][b]
        path.append((source, target, b))
    for source, target, k in path:
        del sends[source][k], gets[target][k]
    for source, target, k in path:
        other = b if k == a else a
        sends[source][other], gets[target][other] = target, source


def _layer(
    mesh: LocalMesh, dim: str, views: tuple[str, ...], sent: Sequence[_Sent], rounds: Sequence[Sequence[Pair]]
) -> Layer:
    numbers = mesh.numbers[dim]
    parts, first = numbers.part.parts, numbers.part.size
    receive = np.zeros((parts, max(int(s.receive.max()) for s in sent) + 1 - first), np.int32)
    by_pair = {s.pair: s for s in sent}
    if not rounds:
        width = max(len(s.points) for s in sent)
        table = np.zeros((parts, parts * width), np.int32)
        for (source, target), s in by_pair.items():
            table[source, target * width : target * width + len(s.send)] = s.send
            receive[target, s.receive - first] = source * width + np.arange(len(s.send))
        return Layer(dim, views, (table,), receive)
    send: list[Numbers] = []
    begin = 0
    for pairs in rounds:
        some = [by_pair[p] for p in pairs if p in by_pair]
        width = max((len(s.points) for s in some), default=0)
        table = np.zeros((parts, width), np.int32)
        for s in some:
            source, target = s.pair
            table[source, : len(s.send)] = s.send
            receive[target, s.receive - first] = begin + np.arange(len(s.send))
        send.append(table)
        begin += width
    return Layer(dim, views, tuple(send), receive)
