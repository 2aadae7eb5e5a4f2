"""True if a persistent kernel computes what its grid does: shown by running both, bit for bit.

Every block runs alone, with its accesses checked, and so does every tile of the persistent kernel: what they read of
their own, they have written. Every tile alone is compared with its block; then the ranges of all cores run one after
the other in several orders, and are compared with the interpreter's result of the grid kernel itself, as it was given.
Of a large grid tiles of each kind run, where the text says what the others do: that each is its block, and that no two
meet in memory. What differs is told by its smallest witness: a tile that no core has, one that two have, a block that
another one takes the place of, two cores whose order matters, or an element.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorir.runtime.errors import DiagnosticError, refuse
from tensorir.runtime.randomness import generator
from tensorir.tenstorrent.grid import (
    AXES,
    DEFAULTS,
    binding,
    chosen,
    grid_of,
    is_persistent,
    pad_arrays,
    padded,
    padded_shape,
)
from tensorir.tenstorrent.in_place import blocks_of_tiles, kinds_of_tiles, meet_nowhere
from tensorir.tenstorrent.schedule import RUNTIME_ARGS, agreeing_grid, partition, shares_of, uncovered
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import INT32
from tensorir.tir.interpret import interpret
from tensorir.tir.interpret.machine import held_type
from tensorir.tir.trees import transform

ALL_RUN = 64
"""The tiles of grids of which all are run."""
Ranges = Sequence[tuple[int, int]]
Arrays = list[np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict: the number of tiles on which numbers of cores in how many orders; or the fault, with its place.

    `tried` is the number of tiles that were run where the text says that the others are as they are, and else 0.
    `fault` is "left out", "twice", "outside", "another block", "order", "padding", "values" or "unwritten", where a
    block, or a tile alone, reads what it has not written; `witness` says it in words.
    """

    tiles: int
    cores: tuple[int, ...]
    runs: int
    fault: str = ""
    witness: str = ""
    tried: int = 0

    def __bool__(self) -> bool:
        return not self.fault

    def __str__(self) -> str:
        if self.fault:
            return f"different: {self.witness}"
        told = ", ".join(map(str, self.cores))
        if self.tried:
            kinds = f"each is its block by the text, no two meet, and {self.tried} of all kinds were run"
            return f"equal bit for bit: {self.tiles} tiles on {told} cores: {kinds}"
        return f"equal bit for bit: {self.tiles} tiles on {told} cores, {self.runs} runs in several orders of the cores"


def verify(
    before: n.PrimFunc,
    after: n.PrimFunc,
    *arrays: Any,
    cores: int | Iterable[int] | None = None,
    orders: int = 3,
    seed: int = 0,
) -> Verdict:
    """True if the persistent kernel `after` computes bit for bit what the grid kernel `before` does.

    Without arrays, arguments are generated from `seed`, integers from 0 to 7: a kernel whose integers are indices needs
    arrays. `cores` are the numbers of cores to share the tiles; None takes
    the ranges that `after` has as an attribute. The cores run in their order, in the reverse, and in random ones,
    `orders` in all. Buffers whose extents are no multiples of the tile are also compared with padded ones, on the part
    that is there. The shares that `after` states itself must have every tile once in any case. Raises TN01 and TN02 for
    what has no grid of numbers, TN03 where `after` is no persistent kernel, TN04 for less than one core, TN14 where the
    attributes of `after` state another grid, and what the interpreter raises.

    >>> from tensorir.tir import parse
    >>> from tensorir.tenstorrent import persistent, schedule
    >>> before = parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((64,)), B: T.Buffer((64,))):
    ...     for bx in T.thread_binding(8, thread="blockIdx.x"):
    ...         for i in range(8):
    ...             B[bx * 8 + i] = A[bx * 8 + i] + 1.0
    ... ''')["main"]
    >>> print(verify(before, persistent(schedule(before)), cores=(1, 5)))
    equal bit for bit: 8 tiles on 1, 5 cores, 13 runs in several orders of the cores
    """
    extents = grid_of(before).extents
    if not is_persistent(after) or [p.name for p in after.params[-4:]] != list(RUNTIME_ARGS):
        message = f"{after.name!r} is no loop over the tiles of a core."
        raise refuse("TN03", message, "run ti.tt.persistent on it.", at=after.span)
    tiles = extents[0] * extents[1] * extents[2]
    asked = () if cores is None else (cores,) if isinstance(cores, int) else tuple(cores)
    chosen(after)
    agreeing_grid(after, extents)
    stated: list[Ranges] = [shares_of(after)] if cores is None or "tt_tiles_per_core" in after.attrs else []
    shares = stated if cores is None else [partition(tiles, c) for c in asked]
    given = list(arrays) if arrays else arguments(before, seed)
    try:
        return _compared(_Check(before, after, extents, given), shares, stated, orders, seed)
    except DiagnosticError as caught:
        if arrays:
            raise
        names = [before.buffer_map[p].name if p in before.buffer_map else p.name for p in before.params]
        help = f"the arguments are generated; give arrays: ti.tt.verify(before, after, {', '.join(names)})."
        raise DiagnosticError([replace(d, help=d.help or help) for d in caught.diagnostics]) from None


def _compared(check: _Check, shares: Sequence[Ranges], stated: Sequence[Ranges], orders: int, seed: int) -> Verdict:
    x, y, z = check.extents
    before, after, tiles = check.before, check.after, x * y * z
    counts = tuple(len(share) for share in shares)
    for share in stated:
        if found := uncovered(share, tiles):
            return Verdict(tiles, counts, check.runs, *found)
    if tiles > ALL_RUN:
        by_text = blocks_of_tiles(before, after, check.blocks)
        if by_text is not None and (wrong := by_text.wrong) is not None and (found := check.tiles([wrong])):
            return Verdict(tiles, counts, check.runs, *found)
        kinds = None if by_text is None or by_text.wrong is not None else kinds_of_tiles(before, check.blocks)
        if kinds is not None and len(kinds) < tiles and meet_nowhere(after):
            found = check.tiles(kinds) or check.empty() or check.padding(kinds) or ("", "")
            return Verdict(tiles, counts, check.runs, *found, len(kinds))
    if found := check.tiles(range(tiles)) or check.empty():
        return Verdict(tiles, counts, check.runs, *found)
    rng = generator(seed)
    for share in shares:
        if found := check.orders(share, orders, rng):
            return Verdict(tiles, counts, check.runs, *found)
    found = check.padding(None) or ("", "")
    return Verdict(tiles, counts, check.runs, *found)


def arguments(func: n.PrimFunc, seed: int = 0) -> list[Any]:
    """Arguments for a kernel: random numbers of the type of each buffer, small integers, and 1 for scalars."""
    rng = generator(seed)
    found: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            found.append(param.dtype.numpy.type(1))
            continue
        shape = tuple(int(e.value) if isinstance(e, n.IntImm) else 1 for e in buffer.shape)
        dtype = held_type(buffer.dtype, buffer.span)
        if buffer.dtype.is_bool:
            made: Any = rng.integers(0, 2, shape)
        elif buffer.dtype.is_float:
            made = rng.normal(size=shape)
        else:
            made = rng.integers(0, 8, shape)
        found.append(made.astype(dtype))
    return found


@dataclass(slots=True)
class _Check:
    """Both kernels on the same arguments; counts the runs."""

    before: n.PrimFunc
    after: n.PrimFunc
    extents: tuple[int, int, int]
    given: list[Any]
    runs: int = 0

    def _alone(self, first: int, count: int, arrays: list[Any], checked: bool = False) -> list[Any]:
        after = interpret(self.after, *arrays, first, count, self.extents[0], self.extents[1], checked=checked)
        return list(after[: len(self.given)])

    def _unwritten(self, tile: int) -> str:
        """The first read, in a tile alone, of what the persistent kernel has not written itself, in words."""
        try:
            self._alone(tile, 1, self.given, checked=True)
        except DiagnosticError as caught:
            first = next((d for d in caught.diagnostics if d.code == "TR02"), None)
            return "" if first is None else f"line {first.span.line} of {self.after.name!r}: {first.message}"
        return ""

    @property
    def blocks(self) -> tuple[Any, Any, Any]:
        """The indices of the blocks along x, y and z of all tiles."""
        x, y, z = self.extents
        tile = np.arange(x * y * z)
        order = self.after.attrs.get("tt_schedule_order", DEFAULTS["tt_schedule_order"])
        column, row = (tile // y % x, tile % y) if order == "column_major" else (tile % x, tile // x % y)
        return column, row, tile // (x * y)

    def _block(self, tile: int) -> tuple[int, int, int]:
        x, y, z = (int(of_all[tile]) for of_all in self.blocks)
        return x, y, z

    def tiles(self, which: Sequence[int]) -> tuple[str, str] | None:
        """Each of some tiles alone against its block."""
        alone = _one_block(self.before)
        wanted: list[list[Any]] = []
        for tile in which:
            try:
                after = interpret(alone, *self.given, *self._block(tile), checked=True)
            except DiagnosticError as caught:
                found = next((d for d in caught.diagnostics if d.code == "TR02"), None)
                if found is None:
                    raise
                return "unwritten", f"block {self._block(tile)}, line {found.span.line}: {found.message}"
            wanted.append(list(after[: len(self.given)]))
        known = {_bits(arrays): self._block(tile) for tile, arrays in zip(which, wanted, strict=True)}
        untouched = _bits([np.asarray(a) for a in self.given])
        for tile, want in zip(which, wanted, strict=True):
            if read := self._unwritten(tile):
                # memory that nobody wrote holds zeros here, and anything on a card
                return "unwritten", f"tile {tile}, block {self._block(tile)}, {read}"
            got = self._alone(tile, 1, self.given)
            self.runs += 1
            if (place := self._difference(want, got)) is None:
                continue
            block = f"tile {tile}, block {self._block(tile)},"
            if (bits := _bits(got)) == untouched:
                return "left out", f"{block} is computed by no core: nothing changes."
            if bits in known:
                return "another block", f"{block} is computed as block {known[bits]}: {place}."
            return "values", f"{block} differs: {place}."
        return None

    def empty(self) -> tuple[str, str] | None:
        """A core without tiles changes nothing."""
        self.runs += 1
        place = self._difference([np.asarray(a) for a in self.given], self._alone(0, 0, self.given))
        return None if place is None else ("values", f"a core without tiles changes something: {place}.")

    def orders(self, share: Ranges, orders: int, rng: np.random.Generator) -> tuple[str, str] | None:
        """All cores in several orders against the whole grid, and against each other."""
        want = list(interpret(self.before, *self.given))
        busy = [core for core, (_, count) in enumerate(share) if count]
        tried = [busy, busy[::-1]][: orders if len(busy) > 1 else 1]
        if len(busy) > 1:
            tried += [[int(c) for c in rng.permutation(busy)] for _ in range(orders - len(tried))]
        first: list[Any] | None = None
        for order in tried:
            got = self._in_order(share, order)
            if first is None:
                first = got
            elif self._difference(first, got) is not None:
                return "order", self._ordered_pair(share, busy, order, first)
        assert first is not None
        place = self._difference(want, first)
        return None if place is None else ("values", f"all tiles in order differ from the grid: {place}.")

    def _in_order(self, share: Ranges, order: Sequence[int]) -> list[Any]:
        self.runs += 1
        arrays = self.given
        for core in order:
            arrays = self._alone(*share[core], arrays)
        return arrays

    def _ordered_pair(self, share: Ranges, one: Sequence[int], other: Sequence[int], first: list[Any]) -> str:
        """Two cores that stand beside each other, and whose order alone makes a difference."""
        path = _exchanges(one, other)
        low, high = 0, len(path) - 1
        while high - low > 1:
            middle = (low + high) // 2
            same = self._difference(first, self._in_order(share, path[middle])) is None
            low, high = (middle, high) if same else (low, middle)
        a, b = next((p, q) for p, q in zip(path[low], path[high], strict=True) if p != q)
        place = self._difference(self._in_order(share, path[low]), self._in_order(share, path[high]))
        return f"the order of cores {a} and {b} matters: {place}."

    def padding(self, which: Sequence[int] | None) -> tuple[str, str] | None:
        """The persistent kernel on padded buffers, on the part that is there; all tiles, or some."""
        buffers = self.before.buffer_map.values()
        fixed = all(isinstance(e, n.IntImm) for b in buffers for e in b.shape)
        if not fixed or all(
            padded_shape(self.after, b) == tuple(e.value for e in b.shape if isinstance(e, n.IntImm)) for b in buffers
        ):
            return None
        wide, total = padded(self.after), self.extents[0] * self.extents[1] * self.extents[2]
        shares = [(0, total)] if which is None else [(tile, 1) for tile in which]
        given, whole = self.given, pad_arrays(self.before, self.given)
        for share in shares:
            given = self._alone(*share, given)
            whole = list(interpret(wide, *whole, *share, *self.extents[:2]))[: len(given)]
            self.runs += 1
        valid = [
            w[tuple(slice(e) for e in np.shape(g))] if np.ndim(g) else w
            for w, g in zip(whole, self.given, strict=False)
        ]
        place = self._difference(given, valid)
        return None if place is None else ("padding", f"on padded buffers a value that is there differs: {place}.")

    def _difference(self, want: list[Any], got: list[Any]) -> str | None:
        """The first element whose bits differ, in words."""
        for param, a, b in zip(self.before.params, want, got, strict=False):
            a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
            if a.tobytes() == b.tobytes():
                continue
            name = self.before.buffer_map[param].name if param in self.before.buffer_map else param.name
            apart = (a.view(np.uint8).reshape(*a.shape, -1) != b.view(np.uint8).reshape(*b.shape, -1)).any(-1)
            at = tuple(int(k) for k in np.argwhere(apart)[0])
            return f"{name}[{', '.join(map(str, at))}] is {a[at]} and {b[at]}"
        return None


def _bits(arrays: Sequence[Any]) -> bytes:
    return b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)


def _exchanges(one: Sequence[int], other: Sequence[int]) -> list[list[int]]:
    """The orders from one to the other, each of which exchanges two neighbours of the one before it."""
    rank = {core: place for place, core in enumerate(other)}
    now = list(one)
    path = [list(now)]
    for _ in range(len(now)):
        for k in range(len(now) - 1):
            if rank[now[k]] > rank[now[k + 1]]:
                now[k], now[k + 1] = now[k + 1], now[k]
                path.append(list(now))
    return path


def _one_block(func: n.PrimFunc) -> n.PrimFunc:
    """The kernel as a function of the indices of its block, x, y and z behind its other parameters."""
    grid = grid_of(func)
    ids = {axis: n.Var(f"block_{axis}", n.PrimType(INT32)) for axis in AXES}

    def rule(node: n.Node) -> n.Node | None:
        axis = binding(node)
        if axis is None:
            return None
        value: n.Expr = ids[axis.tag[-1]]
        if isinstance(axis.node, n.For):
            value = n.Add(value, axis.node.min)
        bound = n.LetStmt(axis.var, value if axis.var.dtype == INT32 else n.Cast(value, axis.var.dtype))
        return n.SeqStmt((bound, axis.node.body))

    assert grid.axes
    return replace(func, params=(*func.params, *ids.values()), body=transform(func.body, rule))
