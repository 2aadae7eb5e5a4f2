"""One block of a grid: its operations in order, its values as arrays, and what it prints.

What print_tko prints: the items of C's printf, an array of them for a tile that is no scalar.

>>> import numpy as np
>>> from tensorir.tile.types import ELEMENTS
>>> formatted("%d and %5.2f%%", [(np.array([1, -2], np.int32), ELEMENTS["i32"]), (np.float32(1.5), ELEMENTS["f32"])])
'[1, -2] and  1.50%'
"""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from tensorir.tile.interpret import memory as atomics
from tensorir.tile.interpret.elements import Array, fit, signed, unsigned
from tensorir.tile.interpret.hazards import Access, Watch
from tensorir.tile.interpret.meanings import MEANINGS, element_of, taints_of
from tensorir.tile.interpret.memory import Launch, Tensor, Viewed, check_assumption, lanes_of, padding_of
from tensorir.tile.nodes import Number, Operation, Region, Value
from tensorir.tile.types import Element, TensorView, Tile

ITEM = re.compile(r"%(?:%|([^diuoxXeEfFgGaAcsSpn%]*)([diuoxXeEfFgGaAcsSpn]))")
_FLAGS = re.compile(r"[-+ #0]*\d*(?:\.\d+)?")


def items_of(text: str) -> int | None:
    """The number of values that a format takes; None where an item does not end."""
    found = ITEM.findall(text)
    rest = ITEM.sub("", text)
    return None if "%" in rest else sum(bool(kind) for _, kind in found)


def formatted(text: str, values: Sequence[tuple[Any, Element]]) -> str:
    """The text with a value for each item."""
    given = iter(values)

    def item(found: re.Match[str]) -> str:
        if found[2] is None:
            return "%"
        value, element = next(given)
        return _spelled(np.asarray(value), element, found[1], found[2])

    return ITEM.sub(item, text)


def _spelled(value: Any, element: Element, flags: str, kind: str) -> str:
    if value.ndim:
        return f"[{', '.join(_spelled(v, element, flags, kind) for v in value)}]"
    plain = _FLAGS.match(flags)
    flags = plain[0] if plain else ""
    if kind in "uoxXp" and not element.is_float:
        value = unsigned(value, element)
    number = float(value) if kind in "eEfFgGaA" else int(value)
    if kind in "aA":
        text = number.hex() if isinstance(number, float) else str(number)
        return text.upper() if kind == "A" else text
    if kind in "csSn":
        return chr(int(number) & 0x7F) if kind == "c" else str(number)
    return f"%{flags}{'d' if kind in 'iu' else 'x' if kind == 'p' else kind}" % number


# One block of a grid: its operations in order, its values as arrays, a pause before each touch of memory.
#
# A block is a generator that pauses before each operation on memory: run to its end it is one legal order, and
# several of them may be advanced in turn. A region ends with the name of what ended it and the values that this hands
# on.


End = tuple[str, list[Any]]


class Block:
    """The run of one block; a token is the set of events before it, a bit for each."""

    launch: Launch
    position: tuple[int, int, int]
    watch: Watch | None

    def __init__(self, launch: Launch, position: tuple[int, int, int]) -> None:
        self.launch, self.position, self.watch = launch, position, launch.watch
        self.env: dict[Value, Any] = {}
        self.taints: dict[Value, Any] = {}
        """Of a watched block: which elements of a value are unspecified."""
        self.owned: list[Any] = []

    def run(self, entry: Operation, arguments: Sequence[Any]) -> Generator[None]:
        """All of a block."""
        self.env.update(zip(entry.regions[0].arguments, arguments, strict=True))
        yield from self._region(entry.regions[0])
        for allocation in self.owned:
            self.launch.memory.free(allocation)

    def _region(self, region: Region) -> Generator[None, None, End]:
        env = self.env
        for op in region.operations:
            meaning = MEANINGS.get(op.name)
            if meaning is not None:
                operands = [tuple(env[v] for v in s) if isinstance(s, tuple) else env[s] for s in op.operands]  # type: ignore[index]
                env[op.results[0]] = meaning(op, self.watch, *operands)
                if self.watch is not None:
                    self._follow(op)
                continue
            if op.row.ends:
                return op.name, [(env[v], self.taints.get(v)) for v in op.values]
            touching = _TOUCHING.get(op.name)
            if touching is not None:
                yield
                touching(self, op)
            elif op.name in ("if", "for", "loop"):
                end = yield from (
                    self._if(op) if op.name == "if" else self._for(op) if op.name == "for" else self._loop(op)
                )
                if end is not None:
                    return end
            else:
                _OTHERS[op.name](self, op)
        return "yield", []

    # values

    def _set(self, op: Operation, values: Sequence[Any]) -> None:
        self.env.update(zip(op.results, values, strict=True))

    def _assign(self, names: Sequence[Value], values: Sequence[Any]) -> None:
        """Values with what is unspecified in them."""
        for name, (value, taint) in zip(names, values, strict=True):
            self.env[name] = value
            if taint is not None:
                self.taints[name] = taint
            elif self.watch is not None:
                self.taints.pop(name, None)

    def _follow(self, op: Operation) -> None:
        """Results are unspecified where their operands are."""
        found = taints_of(
            op, [self.taints.get(v) for v in op.values], [self.env[v] for v in op.values], self.env[op.results[0]]
        )
        if found is not None:
            self.taints[op.results[0]] = found
        elif op.results[0] in self.taints:
            del self.taints[op.results[0]]

    def _decides(self, op: Operation, *values: Value) -> None:
        """A value that decides where to go, or which memory is meant, must be known."""
        for value in values:
            taint = self.taints.get(value)
            if self.watch is not None and taint is not None and np.any(taint):
                self.watch.found("TH15", op, f"{op.name} in block {self.position} depends on an unspecified value.")

    # control

    def _if(self, op: Operation) -> Generator[None, None, End | None]:
        condition = op.operand("condition")
        self._decides(op, condition)
        taken = 0 if self.env[condition] else 1
        if taken >= len(op.regions):
            return None
        end = yield from self._region(op.regions[taken])
        if end[0] != "yield":
            return end
        self._assign(op.results, end[1])
        return None

    def _for(self, op: Operation) -> Generator[None, None, End | None]:
        bounds = [op.operand(name) for name in ("lowerBound", "upperBound", "step")]
        self._decides(op, *bounds)
        element = element_of(bounds[0])
        is_unsigned = bool(op.attribute("unsignedCmp"))
        view = (lambda a: unsigned(a, element)) if is_unsigned else signed
        at, stop, step = (int(view(np.asarray(self.env[v]))) for v in bounds)
        carried = [(self.env[v], self.taints.get(v)) for v in op.operand("initValues")]
        index, *names = op.regions[0].arguments
        if step <= 0:
            if self.watch is not None:
                self.watch.undefined(op, np.array(True), f"has the step {step}")
            stop = at
        while at < stop:
            self.env[index] = fit(np.array(at, np.uint64 if is_unsigned else np.int64), element)
            self._assign(names, carried)
            end = yield from self._region(op.regions[0])
            if end[0] == "return":
                return end
            carried = end[1]
            at += step
        self._assign(op.results, carried)
        return None

    def _loop(self, op: Operation) -> Generator[None, None, End | None]:
        carried = [(self.env[v], self.taints.get(v)) for v in op.operand("initValues")]
        while True:
            self._assign(op.regions[0].arguments, carried)
            end = yield from self._region(op.regions[0])
            if end[0] == "return":
                return end
            if end[0] == "break":
                self._assign(op.results, end[1])
                return None
            carried = end[1]

    # memory

    def _access(self, op: Operation, kind: str, shape: tuple[int, ...]) -> Access:
        watch = self.watch
        if watch is None:
            return Access(op, self.position, kind)
        watch.block = self.position
        token = op.operand("token")
        before = self.env[token] if token is not None else 0
        event = watch.begin(op, before, op.attribute("memory_ordering_semantics"))
        tainted = np.zeros(shape, bool) if kind != "write" else None
        return Access(op, self.position, kind, watch, event, tainted)

    def _done(self, access: Access, token: Value) -> None:
        self.env[token] = 0 if access.event is None else access.event.before | 1 << access.event.index

    def _lanes(self, op: Operation) -> tuple[Viewed, Array, Array | None]:
        view: Viewed = self.env[op.operand("view")]
        names = op.operand("index")
        self._decides(op, *names)
        index = [unsigned(np.asarray(self.env[v]), element_of(v)) for v in names]
        if self.watch is not None:
            self.watch.block = self.position
            sparse = getattr(view.type, "sparse_dim", -1)
            outside = any(k != sparse and int(i) >= n for k, (i, n) in enumerate(zip(index, view.space, strict=True)))
            said = [i.tolist() for i in index]
            self.watch.undefined(
                op, np.array(outside), f"takes the index {said} of a view whose index space is {list(view.space)}"
            )
        return view, *lanes_of(view, index)

    def load_view(self, op: Operation) -> None:
        view, addresses, mask = self._lanes(op)
        access = self._access(op, "read", addresses.shape)
        value = self.launch.memory.read(addresses, view.type.tensor.element, mask, access)
        padding = padding_of(view.type)
        unknown = access.tainted
        if mask is not None:
            if padding is not None:
                value = np.where(mask, value, padding)
            elif unknown is not None:
                unknown |= ~mask
        self._assign(op.results[:1], [(value, unknown if unknown is not None and unknown.any() else None)])
        self._done(access, op.results[1])

    def store_view(self, op: Operation) -> None:
        view, addresses, mask = self._lanes(op)
        access = self._access(op, "write", addresses.shape)
        access.tainted = self.taints.get(op.operand("tile"))
        self.launch.memory.write(addresses, self.env[op.operand("tile")], view.type.tensor.element, mask, access)
        self._done(access, op.results[0])

    def _pointed(self, op: Operation, pointers: Value) -> tuple[Array, Array | None, Any]:
        mask = op.operand("mask")
        self._decides(op, pointers, *(() if mask is None else (mask,)))
        return self.env[pointers], None if mask is None else self.env[mask], element_of(pointers).pointee

    def load_ptr(self, op: Operation) -> None:
        addresses, mask, element = self._pointed(op, op.operand("source"))
        access = self._access(op, "read", addresses.shape)
        value = self.launch.memory.read(addresses, element, mask, access)
        padding, unknown = op.operand("paddingValue"), access.tainted
        if mask is not None:
            if padding is not None:
                value = np.where(mask, value, self.env[padding])
            elif unknown is not None:
                unknown |= ~mask
        self._assign(op.results[:1], [(value, unknown if unknown is not None and unknown.any() else None)])
        self._done(access, op.results[1])

    def store_ptr(self, op: Operation) -> None:
        addresses, mask, element = self._pointed(op, op.operand("destination"))
        access = self._access(op, "write", addresses.shape)
        access.tainted = self.taints.get(op.operand("value"))
        self.launch.memory.write(addresses, self.env[op.operand("value")], element, mask, access)
        self._done(access, op.results[0])

    def atomic_rmw(self, op: Operation) -> None:
        addresses, mask, element = self._pointed(op, op.operand("pointers"))
        access = self._access(op, "atomic", addresses.shape)
        change = atomics.CHANGES[op.attribute("mode")]
        value = self.env[op.operand("arg")]
        old = atomics.changed(self.launch.memory, addresses, value, element, mask, access, change)
        self._set(op, [old, 0])
        self._done(access, op.results[1])

    def atomic_cas(self, op: Operation) -> None:
        addresses, mask, element = self._pointed(op, op.operand("pointers"))
        access = self._access(op, "atomic", addresses.shape)
        expected, value = self.env[op.operand("cmp")], self.env[op.operand("val")]
        old = atomics.exchanged(self.launch.memory, addresses, expected, value, element, mask, access)
        self._set(op, [old, 0])
        self._done(access, op.results[1])

    def atomic_red_view(self, op: Operation) -> None:
        view, addresses, mask = self._lanes(op)
        access = self._access(op, "atomic", addresses.shape)
        change = atomics.CHANGES[op.attribute("mode")]
        element, value = view.type.tensor.element, self.env[op.operand("value")]
        atomics.changed(self.launch.memory, addresses, value, element, mask, access, change)
        self._done(access, op.results[0])

    # what speaks

    def print(self, op: Operation) -> None:
        values = [(self.env[v], element_of(v)) for v in op.operand("args")]
        self.launch.say(formatted(op.attribute("str"), values))
        token = op.operand("token")
        self.env[op.results[0]] = 0 if token is None else self.env[token]

    def assert_(self, op: Operation) -> None:
        holds = np.asarray(self.env[op.operand("condition")])
        if not holds.all():
            at = [int(k) for k in np.unravel_index(int(np.argmin(holds)), holds.shape)] if holds.ndim else []
            where = f", at element {at}" if at else ""
            Access(op, self.position, "read").fail(
                "TH05", f"an assertion fails in block {self.position}{where}: {op.attribute('message')}"
            )

    # what describes

    def assume(self, op: Operation) -> None:
        value = op.operand("value")
        self._assign(op.results, [(self.env[value], self.taints.get(value))])
        if self.watch is not None:
            self.watch.block = self.position
            check_assumption(self.watch, op, self.env[value])

    def token(self, op: Operation) -> None:
        total = 0
        for value in op.values:
            total |= self.env[value]
        self.env[op.results[0]] = total

    def launched(self, op: Operation) -> None:
        numbers = self.launch.grid if op.name == "get_num_tile_blocks" else self.position
        self._set(op, [np.array(n, np.int32) for n in numbers])

    def make_tensor_view(self, op: Operation) -> None:
        type = op.results[0].type
        assert isinstance(type, TensorView)
        self._decides(op, *op.values)
        sizes: list[tuple[int, ...]] = []
        for numbers, name in ((type.shape, "dynamicShape"), (type.strides, "dynamicStrides")):
            given = iter(op.operand(name))
            sizes.append(tuple(self._number(next(given)) if n is None else n for n in numbers))
        self.env[op.results[0]] = Tensor(type, int(self.env[op.operand("base")]), *sizes)

    def _number(self, value: Value) -> int:
        return int(unsigned(np.asarray(self.env[value]), element_of(value)))

    def make_view(self, op: Operation) -> None:
        type: Any = op.results[0].type
        self.env[op.results[0]] = Viewed(type, self.env[op.operand("tensor_view")])

    def shape(self, op: Operation) -> None:
        source = self.env[op.operand("src")]
        extents = source.extents if isinstance(source, Tensor) else source.space
        for value, extent in zip(op.results, extents, strict=True):
            element = element_of(value)
            if self.watch is not None and extent >> element.bits:
                self.watch.undefined(op, np.array(True), f"gives {extent}, which {element} does not hold")
            self.env[value] = fit(np.array(extent, np.int64), element)

    def get_global(self, op: Operation) -> None:
        self.env[op.results[0]] = np.array(self.launch.globals[op.attribute("name")].base, np.int64)

    def alloca(self, op: Operation) -> None:
        type: Any = op.results[0].type
        pointee = type.element.pointee
        size = -(-op.attribute("num_elem") * pointee.width // 8)
        allocation = self.launch.memory.allocate(f"alloca of {op.attribute('num_elem')}", size, pointee)
        if self.watch is not None:
            self.watch.shadow(allocation, True)
        self.owned.append(allocation)
        self.env[op.results[0]] = np.array(allocation.base, np.int64)

    def fold(self, op: Operation) -> None:
        operands = [self.env[v] for v in op.operand("operands")]
        self._set(op, reduce(self, op, operands) if op.name == "reduce" else scan(self, op, operands))
        if self.watch is not None:
            taints = [self.taints.get(v) for v in op.operand("operands")]
            known = [t for t in taints if t is not None]
            for value in op.results:
                if known:
                    either = np.logical_or.reduce(known)
                    dim = op.attribute("dim")
                    whole = either.any(axis=dim, keepdims=op.name == "scan")
                    self.taints[value] = np.broadcast_to(whole, np.shape(self.env[value]))
                else:
                    self.taints.pop(value, None)

    def pure(self, op: Operation) -> None:
        """An operation of a fold's body."""
        meaning = MEANINGS.get(op.name)
        if meaning is None:
            _OTHERS[op.name](self, op)
            return
        env = self.env
        operands = [tuple(env[v] for v in s) if isinstance(s, tuple) else env[s] for s in op.operands]  # type: ignore[index]
        env[op.results[0]] = meaning(op, self.watch, *operands)


# reduce and scan: the body on many elements at once where it is made of elementwise operations, else one by one.
#
# A reduction folds neighbours in pairs, keeping their order, since its body is associative; a scan goes element by
# element. Both begin from the identities.

_SCALARS = {"constant", "get_tile_block_id", "get_num_tile_blocks"}
"""Operations without operands whose results, where they are scalars, broadcast."""


def _batched(op: Operation) -> bool:
    """True if the body looks at no shape: elementwise operations on scalars, and constants."""
    return all(
        inner.row.elementwise or inner.row.ends or inner.name in _SCALARS
        for inner in op.regions[0].operations
    ) and all(
        isinstance(v.type, Tile) and not v.type.shape for inner in op.regions[0].operations for v in inner.results
    )  # fmt: skip


def _body(block: Block, op: Operation, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
    """The body on accumulators and elements of one shape."""
    shape = left[0].shape
    arguments = op.regions[0].arguments
    if not shape or _batched(op):
        for k, (a, b) in enumerate(zip(left, right, strict=True)):
            block.env[arguments[2 * k]], block.env[arguments[2 * k + 1]] = a, b
        for inner in op.regions[0].operations[:-1]:
            block.pure(inner)
        results = [block.env[v] for v in op.regions[0].operations[-1].values]
        return [np.broadcast_to(r, shape) for r in results]
    outputs = [np.empty(shape, a.dtype) for a in left]
    for index in np.ndindex(shape):
        found = _body(block, op, [np.asarray(a[index]) for a in left], [np.asarray(b[index]) for b in right])
        for output, value in zip(outputs, found, strict=True):
            output[index] = value
    return outputs


def _identities(op: Operation, operands: Sequence[Array]) -> list[Array]:
    found: list[Array] = []
    for item, array in zip(op.attribute("identities").items, operands, strict=True):
        if isinstance(item, bool):
            found.append(np.array(item))
            continue
        assert isinstance(item, Number)
        element: Element = item.element
        raw = np.frombuffer(item.bits.to_bytes(element.bytes, "little"), element.numpy)[0]
        found.append(np.asarray(raw).astype(array.dtype))
    return found


def reduce(block: Block, op: Operation, operands: Sequence[Array]) -> list[Array]:
    """A dim folded away."""
    parts = [np.moveaxis(a, op.attribute("dim"), 0) for a in operands]
    while parts[0].shape[0] > 1:
        parts = _body(block, op, [a[0::2] for a in parts], [a[1::2] for a in parts])
    first = [np.broadcast_to(i, a.shape[1:]) for i, a in zip(_identities(op, operands), parts, strict=True)]
    return _body(block, op, first, [a[0] for a in parts])


def scan(block: Block, op: Operation, operands: Sequence[Array]) -> list[Array]:
    """The folds up to each element of a dim, from the other end if it is reversed."""
    dim = op.attribute("dim")
    parts = [np.moveaxis(a, dim, 0) for a in operands]
    count = parts[0].shape[0]
    outputs = [np.empty(a.shape, a.dtype) for a in parts]
    state = [np.broadcast_to(i, a.shape[1:]) for i, a in zip(_identities(op, operands), parts, strict=True)]
    for k in reversed(range(count)) if op.attribute("reverse") else range(count):
        state = _body(block, op, state, [a[k] for a in parts])
        for output, value in zip(outputs, state, strict=True):
            output[k] = value
    return [np.moveaxis(a, 0, dim) for a in outputs]


_OTHERS: dict[str, Any] = {
    "assume": Block.assume,
    "make_token": Block.token,
    "join_tokens": Block.token,
    "get_num_tile_blocks": Block.launched,
    "get_tile_block_id": Block.launched,
    "make_tensor_view": Block.make_tensor_view,
    "make_partition_view": Block.make_view,
    "make_strided_view": Block.make_view,
    "make_gather_scatter_view": Block.make_view,
    "get_tensor_shape": Block.shape,
    "get_index_space_shape": Block.shape,
    "get_global": Block.get_global,
    "alloca": Block.alloca,
    "reduce": Block.fold,
    "scan": Block.fold,
}

_TOUCHING: dict[str, Any] = {
    "load_view_tko": Block.load_view,
    "store_view_tko": Block.store_view,
    "load_ptr_tko": Block.load_ptr,
    "store_ptr_tko": Block.store_ptr,
    "atomic_rmw_tko": Block.atomic_rmw,
    "atomic_cas_tko": Block.atomic_cas,
    "atomic_red_view_tko": Block.atomic_red_view,
    "print_tko": Block.print,
    "assert": Block.assert_,
}
"""What touches memory, or speaks: a block pauses before it."""
