"""Reads of all neighbours through prepared tables, whose transposes are gathers, once for each loop that reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from lowering.gradients.in_place_adjoints import still
from lowering.tracing import with_batch
from tensorir.analysis.uses import MOST, surface
from tensorir.integers.dims import Interval
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Var
from tensorir.ir.types import NEIGHBOUR, TensorType

# Reading all neighbours through a prepared table: a primitive whose transpose is gathers again.
#
# The transpose of a gather is a scatter-add, several times slower than gathers (`docs/lowering.md`, "Neighbour
# tables"). With the inverse table, which lists for each source the places that read it, the transpose is one gather
# per reader. `_read` and `_collect` are a pair of primitives, each the transpose of the other, with differentiation,
# batching and lowering rules, so that forward and reverse mode, `vmap` and `hessian` all keep the inverse table.

MOST_READERS = 64
"""A source with more readers than this makes the inverse table too large; such a table keeps the scatter-add."""

MOST_PADDED = 2.5
"""So many gathers for each reader, all sources having as many as that with the most, and scattering is as fast."""

MOST_BY_SLOT = 2
"""So many times the gathers are cheaper than to join the cotangents of all slots in memory."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["columns", "masks", "readers", "destinations", "readers_by_slot"],
    meta_fields=["inside", "least"],
)
@dataclass(frozen=True, slots=True)
class Prepared:
    """A table ready to be read.

    `inside`: the coordinates that every operand of the table has; rows are counted from its start.
    `columns`: per slot, zero-based positions of the source (0 where absent), flat over the destinations.
    `masks`: per slot, bools of presence, or None where every entry is present.
    `readers`: per rank, for each source the flat position slot × destinations + destination of a reader, -1 for none;
    empty where nothing is differentiated.
    `destinations`: the destinations of `readers`, -1 for none: remainders of division are slow in the loop of a
    gradient.
    `readers_by_slot`: the same per slot, as destinations; empty where that is many more gathers.
    `least`: readers that every source has: so many of the first ranks hold no -1.
    """

    columns: tuple[Any, ...]
    masks: tuple[Any, ...]
    readers: tuple[Any, ...]
    destinations: tuple[Any, ...]
    readers_by_slot: tuple[tuple[Any, ...], ...]
    inside: Interval
    least: int = 0


def prepare(table: np.ndarray, inside: Interval, inverted: bool = True) -> Prepared:
    """A validated table, prepared for `read`; its last axis is the slots, its entries are coordinates in `inside`,
    or -1.

    `inverted`: list the readers of each source, too, for reverse mode; they are left out where gathers would not pay
    (`MOST_PADDED`, `MOST_BY_SLOT`).

    >>> p = prepare(np.array([[0, 1], [1, -1]]), Interval(0, 2))
    >>> p.columns[1].tolist(), p.masks[1].tolist(), [r.tolist() for r in p.readers], p.least
    ([1, 0], [True, False], [[0, 1], [-1, 2]], 1)
    >>> [d.tolist() for d in p.destinations]
    [[0, 1], [-1, 0]]
    """
    slots = table.shape[-1]
    flat = table.reshape(int(np.prod(table.shape[:-1])), slots)
    present = flat != -1
    zero_based = np.where(present, flat - inside.start, 0).astype(np.int32)
    columns = tuple(np.ascontiguousarray(zero_based[:, j]) for j in range(slots))
    masks = tuple(None if present[:, j].all() else np.ascontiguousarray(present[:, j]) for j in range(slots))
    without_readers = Prepared(columns, masks, (), (), ((),) * slots, inside)
    if not inverted or padding_of(without_readers) > MOST_PADDED:
        return without_readers
    readers = _readers(zero_based.T.reshape(-1), present.T.reshape(-1), len(inside))
    by_slot = tuple(_readers(zero_based[:, j], present[:, j], len(inside)) for j in range(slots))
    if sum(map(len, by_slot)) > MOST_BY_SLOT * len(readers):
        by_slot = ((),) * slots
    least = next((k for k, r in enumerate(readers) if (r < 0).any()), len(readers))
    destinations = tuple(np.where(r < 0, r, r % len(flat)) for r in readers)
    return Prepared(columns, masks, readers, destinations, by_slot, inside, least)


def padding_of(table: Prepared) -> float:
    """Gathers of the transpose for each reader: all sources are padded to as many readers as the one with the most.

    >>> round(padding_of(prepare(np.array([[0, 1], [1, -1], [1, 0]]), Interval(0, 3))), 3)
    1.8
    """
    pairs = zip(table.columns, table.masks, strict=True)
    read = np.concatenate([np.asarray(c) if m is None else np.asarray(c)[np.asarray(m)] for c, m in pairs] or [[]])
    if not read.size:
        return 0.0
    return int(np.bincount(read).max()) * len(table.inside) / read.size


def _readers(source: np.ndarray, present: np.ndarray, extent: int) -> tuple[np.ndarray, ...]:
    """For each rank, the flat position of a reader of each source, -1 for none; empty if a source has more than
    `MOST_READERS`.

    `source`: for each position, the source that it reads. `present`: False where nothing is read.
    """
    position = np.flatnonzero(present).astype(np.int32)
    source = source[position]
    order = np.argsort(source, kind="stable")
    source, position = source[order], position[order]
    counts = np.bincount(source, minlength=extent)
    most = int(counts.max(initial=0))
    if most > MOST_READERS:
        return ()
    rank = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
    readers = np.full((most, extent), -1, np.int32)
    readers[rank, source] = position
    return tuple(readers)


def read(x: jax.Array, table: Prepared) -> list[jax.Array]:
    """The rows of x (source axis first) at the table's entries, one array per slot; absent entries read row 0."""
    if not table.readers:
        return [_rows(x, column) for column in table.columns]
    ranks = tuple(map(len, table.readers_by_slot))
    by_slot = [reader for readers in table.readers_by_slot for reader in readers]
    return _read.bind(
        x, *table.columns, *table.readers, *table.destinations, *by_slot,
        slots=len(table.columns), ranks=ranks, least=table.least,
    )  # fmt: skip


def _rows(x: jax.Array, indices: jax.Array) -> jax.Array:
    """The rows of x at indices, which are in bounds; zeros if x has no rows."""
    if not x.shape[0]:
        # all entries are absent
        return lax.full((*indices.shape, *x.shape[1:]), 0, x.dtype)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(1, x.ndim)), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    return lax.gather(
        x, lax.expand_dims(indices, (1,)), numbers, (1, *x.shape[1:]), mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS
    )


def _read_rows(x: jax.Array, *tables: jax.Array, slots: int, ranks: tuple[int, ...], least: int) -> list[jax.Array]:
    return [_rows(x, column) for column in tables[:slots]]


def _collect_rows(
    *operands: jax.Array, slots: int, ranks: tuple[int, ...], least: int, groups: tuple[int, ...]
) -> list[jax.Array]:
    """The sum, for each source, over the rows of cotangents that its readers have: the transpose of `_read_rows`.

    Operands: the arrays of cotangents, the columns, the readers, their destinations, the readers by slot. `groups`: per
    slot, the number of its array. One array for all slots (of a sum over neighbours) is read at the destination; with
    several, each is read through the readers of its slot, which XLA fuses with its computation, or all are joined
    first. `ranks`: the number of readers by slot, per slot. `least`: so many ranks have no -1.
    """
    array_count = max(groups) + 1
    arrays, tables = operands[:array_count], operands[array_count + slots :]
    most = (len(tables) - sum(ranks)) // 2
    readers, destinations, by_slot = tables[:most], tables[most : 2 * most], iter(tables[2 * most :])
    masked: Any = [False] * least + [True] * (most - least)
    if array_count == 1:
        reads = [(arrays[0], r) for r in destinations]
    elif sum(ranks):
        reads = [(arrays[group], next(by_slot)) for group, rank in zip(groups, ranks, strict=True) for _ in range(rank)]
        masked = [True] * len(reads)
    else:
        joined = lax.concatenate([arrays[g] for g in groups], 0)
        reads = [(joined, r) for r in readers]
    total = None
    for (values, reader), some_absent in zip(reads, masked, strict=True):
        if some_absent:
            rows = _rows(values, lax.max(reader, lax.full_like(reader, 0)))
            mask = lax.broadcast_in_dim(lax.ge(reader, lax.full_like(reader, 0)), rows.shape, (0,))
            rows = lax.select(mask, rows, lax.full_like(rows, 0))
        else:
            rows = _rows(values, reader)
        total = rows if total is None else lax.add(total, rows)
    assert total is not None
    return [total]


def _read_shapes(x: Any, *tables: Any, slots: int, ranks: tuple[int, ...], least: int) -> list[Any]:
    return [x.update(shape=(c.shape[0], *x.shape[1:])) for c in tables[:slots]]


def _collect_shapes(
    *operands: Any, slots: int, ranks: tuple[int, ...], least: int, groups: tuple[int, ...]
) -> list[Any]:
    """The abstract result of `collect_neighbours`: a row for each source."""
    array_count = max(groups) + 1
    array, reader = operands[0], operands[array_count + slots]
    return [array.update(shape=(reader.shape[0], *array.shape[1:]))]


_read = Primitive("read_neighbours")
_read.multiple_results = True
_read.def_impl(lambda *operands, **params: _read_jit(*operands, **params))
_read.def_abstract_eval(_read_shapes)
mlir.register_lowering(_read, mlir.lower_fun(_read_rows, multiple_results=True))
_read_jit = jax.jit(_read_rows, static_argnames=("slots", "ranks", "least"))

_collect = Primitive("collect_neighbours")
_collect.multiple_results = True
_collect.def_impl(lambda *operands, **params: _collect_jit(*operands, **params))
_collect.def_abstract_eval(_collect_shapes)
mlir.register_lowering(_collect, mlir.lower_fun(_collect_rows, multiple_results=True))
_collect_jit = jax.jit(_collect_rows, static_argnames=("slots", "ranks", "least", "groups"))


def _read_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, slots: int, ranks: tuple[int, ...], least: int
) -> tuple[Any, Any]:
    """JVP of `read_neighbours`: it is linear in x."""
    x, *tables = primals
    out = _read.bind(x, *tables, slots=slots, ranks=ranks, least=least)
    if isinstance(tangents[0], ad.Zero):
        return out, [still(o) for o in out]
    return out, _read.bind(tangents[0], *tables, slots=slots, ranks=ranks, least=least)


def _read_transpose(
    cotangents: Sequence[Any], x: Any, *tables: Any, slots: int, ranks: tuple[int, ...], least: int
) -> list[Any]:
    """Transpose of `read_neighbours`: `collect_neighbours`; slots with the same cotangent array share a group."""
    if all(isinstance(c, ad.Zero) for c in cotangents):
        return [ad.Zero(x.aval), *(None for _ in tables)]
    arrays: list[Any] = []
    groups: list[int] = []
    for c in map(ad.instantiate_zeros, cotangents):
        group = next((k for k, a in enumerate(arrays) if a is c), len(arrays))
        if group == len(arrays):
            arrays.append(c)
        groups.append(group)
    (result,) = _collect.bind(*arrays, *tables, slots=slots, ranks=ranks, least=least, groups=tuple(groups))
    return [result, *(None for _ in tables)]


def _collect_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, slots: int, ranks: tuple[int, ...], least: int,
    groups: tuple[int, ...],
) -> tuple[Any, Any]:  # fmt: skip
    """JVP of `collect_neighbours`: it is linear in its arrays."""
    array_count = max(groups) + 1
    tables = primals[array_count:]
    out = _collect.bind(*primals, slots=slots, ranks=ranks, least=least, groups=groups)
    if all(isinstance(t, ad.Zero) for t in tangents[:array_count]):
        return out, [still(o) for o in out]
    array_tangents = [ad.instantiate_zeros(t) for t in tangents[:array_count]]
    return out, _collect.bind(*array_tangents, *tables, slots=slots, ranks=ranks, least=least, groups=groups)


def _collect_transpose(
    cotangents: Sequence[Any], *operands: Any, slots: int, ranks: tuple[int, ...], least: int, groups: tuple[int, ...]
) -> list[Any]:
    """Transpose of `collect_neighbours`: `read_neighbours`; the rows of the slots of a group are added up."""
    array_count = max(groups) + 1
    arrays, tables = operands[:array_count], operands[array_count:]
    if isinstance(cotangents[0], ad.Zero):
        return [*(ad.Zero(a.aval) for a in arrays), *(None for _ in tables)]
    # at absent entries this reads row 0; what stood there was masked before, so what comes back is masked again
    rows = _read.bind(cotangents[0], *tables, slots=slots, ranks=ranks, least=least)
    sums: list[Any] = [None] * array_count
    for slot, group in enumerate(groups):
        sums[group] = rows[slot] if sums[group] is None else lax.add(sums[group], rows[slot])
    return [
        *(s if ad.is_undefined_primal(a) else None for s, a in zip(sums, arrays, strict=True)),
        *(None for _ in tables),
    ]


def _read_batched(
    args: Sequence[Any], axes: Sequence[Any], *, slots: int, ranks: tuple[int, ...], least: int
) -> tuple[Any, Any]:
    """Batching of `read_neighbours`: the batch is the last axis of x; batched tables are mapped instead."""
    x, *tables = args
    if any(a is not None for a in axes[1:]):
        return jax.vmap(partial(_read_rows, slots=slots, ranks=ranks, least=least), axes)(*args), [0] * slots
    # the batch last, behind the levels
    out = _read.bind(with_batch(x, axes[0], -1, x.shape[axes[0]]), *tables, slots=slots, ranks=ranks, least=least)
    return out, [o.ndim - 1 for o in out]


def _collect_batched(
    args: Sequence[Any], axes: Sequence[Any], *, slots: int, ranks: tuple[int, ...], least: int, groups: tuple[int, ...]
) -> tuple[Any, Any]:
    """Batching of `collect_neighbours`: the batch is the last axis of each array; batched tables are mapped instead."""
    array_count = max(groups) + 1
    if any(a is not None for a in axes[array_count:]):
        return jax.vmap(partial(_collect_rows, slots=slots, ranks=ranks, least=least, groups=groups), axes)(*args), [0]
    size = next(a.shape[x] for a, x in zip(args[:array_count], axes[:array_count], strict=True) if x is not None)
    arrays = [with_batch(a, x, -1, size) for a, x in zip(args[:array_count], axes[:array_count], strict=True)]
    out = _collect.bind(*arrays, *args[array_count:], slots=slots, ranks=ranks, least=least, groups=groups)
    return out, [o.ndim - 1 for o in out]


ad.primitive_jvps[_read] = _read_jvp
ad.primitive_transposes[_read] = _read_transpose
batching.primitive_batchers[_read] = _read_batched
ad.primitive_jvps[_collect] = _collect_jvp
ad.primitive_transposes[_collect] = _collect_transpose
batching.primitive_batchers[_collect] = _collect_batched

# Loops that read through neighbour tables: each reads for itself, since XLA fuses a gather only into a single reader.
#
# A gather that two loops read is stored, with all levels and for each neighbour; fused into both, it is two reads of
# memory that the caches hold. So what is computed of reads through tables, and of nothing that is stored, is
# evaluated anew for each loop, from tables behind a barrier, which keeps XLA from joining them again
# (`docs/lowering.md`, "Neighbour tables"). Where that takes more gathers than storing takes passes over memory, the
# value is stored.

MOST_REPEATED = 1.0
"""So many gathers are done again for each pass over memory that storing what they give takes."""
NEW_MEMORY = 2
"""How many passes of reading it takes to write what is new in memory."""

MOVES = frozenset(["concat", "update", "rename", "cartesian_shift", "subset", "shift_apply", "add_dim", "can_deref"])
OF_TUPLES = frozenset(["make_tuple", "tuple_get", "if", "cast", "bitcast"])


@dataclass(frozen=True, slots=True)
class ReadsPerLoop:
    """Reads through tables that loops compute for themselves, of the values of some closures, by identity."""

    anew: frozenset[int] = frozenset()
    """What is computed in each loop that reads it, tables included."""
    materialised: frozenset[int] = frozenset()
    """What goes through tables and has a loop of its own."""
    kept: frozenset[int] = frozenset()
    """Of that, what is stored for several loops."""

    def loops(self, root: Expr) -> Iterator[Expr]:
        """The materialised expressions below a root, operands first, and then the root: each is a loop of its own."""
        if self.materialised:
            yield from (n for n in surface(root) if id(n) in self.materialised and n is not root)
        yield root


Chooses = Callable[[Expr, float], bool]
"""Whether a node that several loops read is read again in each, by how many gathers are done again for each pass."""


def reads_per_loop(
    roots: Sequence[Expr], results: Container[int], tables: Container[Var], chooses: Chooses
) -> ReadsPerLoop:
    """For the reads through prepared `tables` below `roots`, whether each loop repeats them or they are stored.

    `results`: identities of roots that are stored anyway. `chooses`: True if an expression that several loops read is
    to be computed in each of them. First collects, per expression through a table, the gathers in it; then goes from
    the roots to the operands with the set of loops that read each.
    """
    order = surface(*roots)
    through, read = set[int](), dict[int, frozenset[tuple[int, int]]]()
    checked = set[int]()
    for n in order:
        if any(id(c) in checked for c in n.children) or (
            isinstance(n, Call) and (TABLE[n.op].effect or TABLE[n.op].checks)
        ):
            checked.add(id(n))  # what is checked is checked once
        elif isinstance(n, Var) and n in tables:
            through.add(id(n))
        elif isinstance(n, Call) and _is_fused(n) and any(id(c) in through for c in n.children):
            through.add(id(n))
            gathers = _gathers(n).union(*(read.get(id(c), ()) for c in n.children))
            read[id(n)] = gathers if len(gathers) <= MOST else frozenset(sorted(gathers)[:MOST])
    if not read:
        return ReadsPerLoop()
    ends = {id(r) for r in roots}
    readers: dict[int, set[int]] = {}
    for r in roots:
        readers.setdefault(id(r), set()).add(id(r))
    materialised = set[int]()
    consumers: dict[int, list[set[int]]] = {}
    for n in reversed(order):
        reading_loops = readers.setdefault(id(n), set())
        if isinstance(n, Call) and id(n) in through:
            sets_of_consumers = consumers.get(id(n), [])
            if (id(n) in results and sets_of_consumers) or any(
                len(reading_loops) > 1 and c != reading_loops for c in sets_of_consumers
            ):
                # what is a result is stored in any case
                passes = (1 if id(n) in results else len(reading_loops) + NEW_MEMORY) * _arrays(n.tensor)
                repeated_gathers = len(read[id(n)]) * (len(reading_loops) - 1) / passes
                if not chooses(n, repeated_gathers):
                    materialised.add(id(n))
            if id(n) in materialised:
                reading_loops = {id(n)}
        elif id(n) not in ends:
            reading_loops = {id(n)}
        for c in n.children:
            if id(c) in read:
                # what is no loop's own reads its operands from memory
                if id(n) not in through:
                    materialised.add(id(c))
                readers.setdefault(id(c), set()).update(reading_loops)
                consumers.setdefault(id(c), []).append(reading_loops)
    kept = {n for n in materialised if len(readers[n]) > 1}
    return ReadsPerLoop(frozenset(through - materialised), frozenset(materialised), frozenset(kept))


def _gathers(node: Call) -> frozenset[tuple[int, int]]:
    """The gathers of a node itself, as (identity, slot) pairs: one for each neighbour; none for other nodes."""
    match node.op:
        case "unstructured_shift":
            return frozenset([(id(node), 0)])
        case "shift_init":
            (new,) = set(node.tensor.dims.names).difference(*(a.tensor.dims.names for a in node.args))
            return frozenset((id(node), k) for k in range(len(node.tensor.dims[new])))
        case _:
            return frozenset()


def _arrays(kind: TensorType) -> int:
    """The number of arrays in memory that a value is: one for each leaf and neighbour."""
    return math.prod([len(i) for d, i in kind.dims.items if d.startswith(NEIGHBOUR)]) * len(kind.leaves)


def _is_fused(node: Call) -> bool:
    """True if a node that reads through a table can be computed in the loop that reads it."""
    if node.op in ("shift_init", "unstructured_shift"):
        return isinstance(node.args[0], Var)
    if node.op == "reduce":
        return node.static.dim.startswith(NEIGHBOUR)
    row = TABLE[node.op]
    return (row.elementwise or node.op in MOVES | OF_TUPLES) and all(isinstance(a.type, TensorType) for a in node.args)


def apart(table: Prepared) -> Prepared:
    """A table that reads the same, and whose reads XLA does not take for those of this one.

    XLA joins barriers of the same operands, so each is one of the table before it.
    """
    return replace(table, columns=tuple(lax.optimization_barrier(table.columns)))
