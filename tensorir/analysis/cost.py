"""The cost model: operations and bytes of a program as it is emitted, and what storing an expression saves.

The unit is one addition. What a backend fuses into its readers is computed at each of the offsets at which they read
it; what is stored is computed once, written, and read. `docs/lowering.md`, "The choices", says how far to trust it.

>>> from tensorir.text import parse
>>> text = '''f(y: tensor<float, I[1:99]>, x: tensor<float, I[0:100]>) {
...   y ← let w = {}; ⟪I, 1⟫(w) - ⟪I, -1⟫(w); }'''
>>> print(predicted(parse(text.replace("{}", "cos(x)"))))
7,191 of cost: 6,498 for operations, 693 for bytes; 0 bytes of temporaries
>>> print(predicted(parse(text.replace("{}", "materialise(cos(x))"))))
4,691 of cost: 3,298 for operations, 1,393 for bytes; 800 bytes of temporaries
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tensorir import nodes
from tensorir.analysis.annotations import in_place_updates
from tensorir.analysis.uses import MOST, Offset, further, reads, surface
from tensorir.integers.dims import Dims
from tensorir.ir.builtins import TABLE, Control
from tensorir.ir.nodes import Apply, Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import Applier, Bound, evaluate, postorder, values
from tensorir.ir.types import FLOAT64, TensorType
from tensorir.runtime.errors import Displayed

# What a program costs, counted exactly from its types: operations, and bytes of its arguments and results.
#
# An operation is one scalar result of an elementwise builtin; shifts, subsets and other moves cost none. A node that
# is used several times counts once, a function once per application, a fold once per point of its dim.

PER_BYTE = 0.875
"""How many additions a byte that is written and read again takes as long as (`tests/benchmarks/stored.py`)."""
CACHE = 16 << 20
BEYOND = 2.0
"""How many times as dear the bytes of a buffer are that a cache of 16 MiB does not hold."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations and bytes of one run; `xla` is what XLA's own analysis says, where it was asked."""

    operations: int
    transcendental: int
    """How many of the operations are exp, sin and the like."""
    bytes_read: int
    bytes_written: int
    xla: Mapping[str, float] = field(default_factory=dict[str, float])

    def beside(self, xla: Mapping[str, float]) -> Cost:
        return replace(self, xla=xla)

    def __str__(self) -> str:
        lines = [
            f"{self.operations:,} operations, {self.transcendental:,} of them transcendental",
            f"{self.bytes_read:,} bytes read, {self.bytes_written:,} written",
        ]
        return "\n".join(lines + [f"XLA: {name} {value:,.0f}" for name, value in self.xla.items()])


def bytes_of(kind: TensorType) -> int:
    """The size of a buffer of a type.

    >>> from tensorir.ir.types import tensor
    >>> bytes_of(tensor("float", I=(0, 10)))
    80
    """
    return sum(max(1, s.bits // 8) for s in kind.leaves) * kind.dims.size


def count(fencil: Fencil) -> Cost:
    """The cost of a fencil, from the types of its nodes."""
    counter = _Counter()
    for closure in fencil.closures:
        evaluate(closure.value, dict.fromkeys(fencil.params, 0), counter)
    read = sum(bytes_of(p.type) for p in fencil.inputs)
    written = sum(bytes_of(p.type) for p in fencil.outputs)
    return Cost(counter.operations, counter.transcendental, read, written)


@dataclass(slots=True)
class _Counter:
    """Counts operations as `evaluate` visits nodes; `times` is the number of runs of the body under evaluation."""

    operations: int = 0
    transcendental: int = 0
    times: int = 1
    blocks: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])

    def __call__(self, node: Expr, args: Sequence[Any], apply: Applier[int]) -> int:
        """Adds the operations of a node; functions are entered with `times` multiplied by their number of
        applications.
        """
        match node:
            case Operator(op) | Call(op) if TABLE[op].elementwise:
                kind = node.type.result if isinstance(node, Operator) else node.tensor
                operations = self.times * kind.dims.size
                self.operations += operations
                self.transcendental += operations if TABLE[op].transcendental else 0
            case Call() if node.definition is not None:
                apply(Bound(node.definition, {}), *args)
            case Call(op):
                match TABLE[op].control:
                    case Control.FOLD:
                        self._body(_levels(node), args[0], len(args) - 1, apply)
                    case Control.LOOP:
                        for f in args[:2]:
                            self._body(1 if node.static.limit is None else node.static.limit, f, len(args) - 1, apply)
                    case Control.BLOCKS:
                        # all results are computed at once, and each is asked for by a node of its own
                        if (key := tuple(map(id, node.args))) not in self.blocks:
                            self.blocks.add(key)
                            self._body(1, args[0], len(args) - 1, apply)
                    case Control.BRANCHES:
                        for f in args[:2]:
                            self._body(1, f, len(args) - 3, apply)
                    case Control.UPDATES:
                        self._body(node.args[-1].tensor.dims.size, args[0], 2, apply)
                    case None:
                        pass
            case _:
                pass
        return 0

    def _body(self, times: int, f: Bound[int], arity: int, apply: Applier[int]) -> None:
        before, self.times = self.times, self.times * times
        apply.each(f, *([0] * arity))
        self.times = before


# What a buffer is worth: operations that are saved against bytes that are moved, with the figures shown.


@dataclass(frozen=True, slots=True)
class Worth(Displayed):
    """The case for storing one expression.

    >>> from tensorir.ir.types import tensor
    >>> print(Worth("tmp", 2, 8.0, tensor("float", I=(0, 100))))
    tmp: read at 2 places; 8 operations per point, 100 points: 800 operations saved, 1,600 bytes added (0.50 per byte)
    """

    _drawn_by: ClassVar[str] = "tensorir.inspect.pages:worth_page"

    name: str
    uses: int
    """At how many offsets, or by how many expressions, it is read."""
    work: float
    """Operations per point; a transcendental one counts 32."""
    buffer: TensorType

    @property
    def saved(self) -> int:
        """Operations that are not done again."""
        return round((self.uses - 1) * self.work * self.buffer.dims.size)

    @property
    def added(self) -> int:
        """Bytes that are written once and read once: further reads, at other offsets, find them in the cache."""
        return 2 * bytes_of(self.buffer)

    @property
    def per_byte(self) -> float:
        return self.saved / max(1, self.added)

    def __str__(self) -> str:
        size = self.buffer.dims.size
        return (
            f"{self.name}: read at {self.uses} places; {self.work:g} operations per point, {size:,} points: "
            f"{self.saved:,} operations saved, {self.added:,} bytes added ({self.per_byte:.2f} per byte)"
        )


def work_of(root: Expr, stored: Mapping[int, str]) -> float:
    """Operations per point of an expression; nodes in `stored` are not counted, folds count their body once per
    level.
    """
    operations = 0.0
    points = max(1, root.tensor.dims.size)
    uses_of: dict[int, int] = {id(root): 1}
    for node in reversed(list(postorder(root))):
        uses = uses_of.get(id(node), 0)
        if not uses or (id(node) in stored and node is not root):
            continue
        child_uses = uses
        match node:
            case Call() if node.fold is not None:
                child_uses = uses * _levels(node)
            case Call() if node.definition is not None:
                operations += uses * work_of(node.definition.body, {}) * node.tensor.dims.size
            case Call(op):
                operations += uses * node.tensor.dims.size * TABLE[op].cost
            case _:
                pass
        for child in node.children:
            inner = child_uses if isinstance(child, Lambda) else uses
            uses_of[id(child)] = max(uses_of.get(id(child), 0), inner)
    return operations / points


PER_PASS = PER_BYTE / 2 * BEYOND
"""What a byte of memory costs that is either written or read."""
IN_CACHE = PER_BYTE / 2
IN_BLOCK = 0.05
"""The same in a cache of a few MiB, and in the memory of a block."""
ACROSS = 3.0
"""How many times as long arrays take whose axes are put in another order, or whose innermost axis is scanned."""
INDEXED = 4.0
"""Additions that an element takes as long as that is read at an index."""
CONTRACTED = 1 / 11
"""The time of a contraction over that of the products and their sum."""
SERIAL = 2.6
"""How many times as long a sum of a stencil takes in XLA's own fusion for sums."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """A cost in additions, and the bytes of memory besides inputs and outputs."""

    operations: float
    moved: float
    """What the bytes that are read and written take as long as."""
    temporaries: int = 0

    @property
    def total(self) -> float:
        return self.operations + self.moved

    def __str__(self) -> str:
        return (
            f"{self.total:,.0f} of cost: {self.operations:,.0f} for operations, {self.moved:,.0f} for bytes; "
            f"{self.temporaries:,} bytes of temporaries"
        )


def predicted(fencil: Fencil, without: Container[str] = ()) -> Predicted:
    """The predicted cost of a fencil as the backend emits it, and its peak of temporaries.

    `without` names the backend's choices that are switched off.
    """
    model = _Model(without)
    in_place = in_place_updates(fencil) if "in_place_updates" not in without else frozenset[int]()
    last = {c.output: k for k, c in enumerate(fencil.closures)}
    for k, closure in enumerate(fencil.closures):
        if not _computes(closure.value) and last[closure.output] != k:
            continue  # an alias: readers read the value itself
        region_type = closure.target
        # an output that a later closure writes again is stored, and so are buffers created by passes
        is_stored = closure.output.name in fencil.buffers or (last[closure.output] != k and k not in in_place)
        buffer = id(closure) if is_stored else 0
        model.compute(closure.value, region_type, buffer)
        if buffer:
            model.steps[-1].bytes = bytes_of(closure.output.type)
            cut_dims = [n for n, i in closure.output.type.dims.items if closure.target.dims[n] != i]
            if k not in in_place and len(cut_dims) > 1:
                model.steps[-1].inside = 2 * bytes_of(region_type)  # the new part, and a copy with what lies beside it
        model.held[closure.output] = buffer
        if closure.region is not None and k not in in_place:
            model.pass_over(bytes_of(closure.output.type) - bytes_of(region_type), 2)
    return Predicted(model.operations, model.moved, model.peak())


def _computes(value: Expr) -> bool:
    return isinstance(value, Call) and not TABLE[value.op].moves


@dataclass(slots=True)
class _Step:
    """One loop or operation: the buffer that it makes, and those that it reads."""

    makes: int
    bytes: int
    reads: set[int] = field(default_factory=set[int])
    inside: int = 0
    """Bytes that it needs while it runs."""


@dataclass(slots=True)
class _Model:
    """The cost model: simulates the loops that a backend emits, and adds up operations and weighted bytes."""

    without: Container[str]
    block: bool = False
    """True inside of `blocked`: buffers stay in the memory of a block of columns."""
    operations: float = 0.0
    moved: float = 0.0
    steps: list[_Step] = field(default_factory=list[_Step])
    steps_of: dict[int, int] = field(default_factory=dict[int, int])
    """The step that made a stored node, by the node's identity."""
    held: dict[Var, int] = field(default_factory=dict[Var, int])
    """The buffer of a parameter that an earlier closure wrote."""
    blocks: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])
    """The blocked calls already counted, by identity of function and operands: all results are computed at once."""
    plain: set[int] = field(default_factory=set[int])
    """Pointwise nodes that are stored, by identity, since they are read at indices or by a separate operation."""

    def pass_over(self, bytes: float, times: float = 1.0, near: bool = False) -> None:
        """Adds the cost of `times` passes over an array; `near` if it stays in the cache of a block."""
        weight = IN_BLOCK if near else PER_PASS if bytes > CACHE else IN_CACHE
        self.moved += weight * times * bytes

    def peak(self) -> int:
        """The largest number of bytes of temporaries alive at once, from the last step that reads each buffer."""
        last_use = {b: number for number, step in enumerate(self.steps) for b in (step.makes, *step.reads)}
        live: dict[int, int] = {}
        peak = 0
        for number, step in enumerate(self.steps):
            if step.makes:
                live[step.makes] = step.bytes
            peak = max(peak, sum(live.values()) + step.inside)
            live = {b: n for b, n in live.items() if last_use[b] > number}
        return peak

    def compute(self, root: Expr, result_type: TensorType, buffer: int = 0) -> None:
        """Counts an expression: its stored intermediates, operands first, then the loop that writes it with type
        `result_type`.

        `buffer` is the identity of the temporary that it is stored in, 0 for an output.
        """
        order = surface(root)
        for node in order:
            if isinstance(node, Call) and (TABLE[node.op].indirect or TABLE[node.op].apart):
                self.plain.update(id(a) for a in node.args if _computes(a))
        for node in order:
            if self._is_stored(node) and id(node) not in self.steps_of:
                assert isinstance(node, Call)
                self._store(node)
                self.steps_of[id(node)] = len(self.steps) - 1
        if self._is_stored(root) and not self._across(root, result_type):
            self.steps[self.steps_of[id(root)]].makes = buffer  # it is made where it is wanted
        else:
            self._loop(root, result_type, buffer)

    def _loop(self, root: Expr, result_type: TensorType, buffer: int) -> None:
        """Counts one fused loop that computes `root` and writes it; a node is computed once per offset at which it is
        read.
        """
        reads: set[int] = set()
        offsets: dict[int, set[Offset]] = {id(root): {()}}
        for node in reversed(self._fused(root)):
            read_at = offsets[id(node)]
            if self._is_leaf(node, root):
                reads.add(id(node))
                self._read(node, result_type)
                continue
            self._count(node, len(read_at))
            if isinstance(node, Var):
                reads.add(self.held.get(node, 0))
                self.pass_over(bytes_of(node.type))
            for child, moved in _operands(node):
                child_offsets = offsets.setdefault(id(child), set())
                for offset in read_at:
                    if len(child_offsets) < MOST:
                        child_offsets.add(further(offset, node) if moved else offset)
        size = bytes_of(result_type)
        self.pass_over(size, near=self.block and bool(buffer))
        self.steps.append(_Step(buffer, size, reads))

    def _fused(self, root: Expr) -> list[Expr]:
        """The nodes of one loop, operands first, down to buffers in memory."""
        return list(nodes.postorder([root], lambda n: () if self._is_leaf(n, root) else [c for c, _ in _operands(n)]))

    def _is_leaf(self, node: Expr, root: Expr) -> bool:
        """True if a loop reads a node from memory: one that makes what is stored in its own loop computes it."""
        return self._is_stored(node) and (node is not root or id(node) in self.steps_of)

    def _is_stored(self, node: Expr) -> bool:
        """True if a node's result is in memory: stored by its builtin, a table read without the by-slot form, or in
        `plain`.
        """
        if not isinstance(node, Call):
            return False
        return (
            TABLE[node.op].stored or (_is_by_slot(node) and "reads_by_slot" in self.without) or id(node) in self.plain
        )

    def _read(self, node: Expr, result_type: TensorType) -> None:
        """Adds a read of a stored node, dearer if its axes are in another order than the loop's."""
        kind = node.type
        assert isinstance(kind, TensorType)
        across = self._across(node, result_type) and not self.block
        self.pass_over(bytes_of(kind), ACROSS if across else 1.0, near=self.block)

    def _across(self, node: Expr, into: TensorType) -> bool:
        """True if something in memory is the states of a scan, and what is made of it has other axes outermost."""
        return isinstance(node, Call) and TABLE[node.op].states and into.dims.names[:1] != (node.static.dim,)

    def _count(self, node: Expr, offsets: int) -> None:
        """Adds the operations of a node in a loop that computes it at so many offsets."""
        match node:
            case Call() if node.fold is not None:
                levels = _levels(node)
                self.operations += offsets * work_of_fold(node) * self._slowness(node)
                if levels > 1 and "unrolled_folds" in self.without:
                    self.pass_over(2 * levels * bytes_of(node.tensor), near=self.block)
            case Call() if node.definition is not None:
                self.operations += offsets * work_of(node.definition.body, {}) * node.tensor.dims.size
            case Call(op) if TABLE[op].indirect:
                self.operations += offsets * INDEXED * node.tensor.dims.size
            case Call(op):
                self.operations += offsets * TABLE[op].cost * node.tensor.dims.size
            case Apply(Lambda(_, (body,)), _):
                self.operations += offsets * work_of(body, {}) * body.tensor.dims.size
            case _:
                pass

    def _slowness(self, fold: Call) -> float:
        shifted = any(isinstance(n, Call) and any(a.offsets for a in n.accesses or () if a) for n in fold.args[2:])
        return SERIAL if shifted and "sums_as_loops" in self.without else 1.0

    # What has a result in memory

    def _store(self, node: Call) -> None:
        """Counts an operation whose result is in memory, by cases: a materialised operand, a table read by slot, a
        pointwise node, blocks, and library operations (scans, folds, sorts) with copies of operands whose layout does
        not suit.
        """
        match node:
            case Call(op, (operand,)) if TABLE[op].stored and TABLE[op].moves:
                self._loop(operand, operand.tensor, id(node))
                return
            case Call(args=(table, operand)) if _is_by_slot(node) and "reads_by_slot" in self.without:
                self._loop(operand, node.tensor, id(node))
                self.pass_over(bytes_of(table.tensor))
                self.operations += INDEXED * node.tensor.dims.size
                return
            case Call(op) if not TABLE[op].stored:
                self._loop(node, node.tensor, id(node))
                return
            case Call(op, (Lambda() as f, *args), (_, size, names)) if TABLE[op].control is Control.BLOCKS:
                self._blocked(node, f, args, size, names)
                return
            case _:
                pass
        args = [arg for arg in node.args if isinstance(arg.type, TensorType) and not isinstance(arg, Literal)]
        copies = self._copied(node, args)
        copy_bytes = 0
        for arg in args:
            size, is_parameter = bytes_of(arg.tensor), isinstance(arg, Var)
            # laid with the scanned dim outermost, levels are rows; where they lie, they are gathered from all rows
            if arg in copies and is_parameter:
                copy_bytes += size
                self.pass_over(size, 1.0 if self.block else 2 * ACROSS, near=self.block)
            elif arg in copies:
                self.pass_over(size, 0.0 if self.block else ACROSS - 1.0, near=self.block)
            across = TABLE[node.op].states and "scans_outermost" in self.without and arg not in self._states(args, node)
            self.pass_over(size, ACROSS if across else 1.0, near=self.block)
        self.operations += self._work(node)
        self.pass_over(bytes_of(node.tensor), near=self.block)
        reads = {id(arg) for arg in args if not isinstance(arg, Var)}
        self.steps.append(_Step(id(node), bytes_of(node.tensor), reads, copy_bytes))

    def _copied(self, node: Call, args: Sequence[Expr]) -> list[Expr]:
        """The operands of a scan that are transposed so that the scanned dim is outermost."""
        if not TABLE[node.op].states or "scans_outermost" in self.without:
            return []
        dim, states = node.static.dim, self._states(args, node)
        return [a for a in args if a not in states and dim in a.tensor.dims and a.tensor.dims.names[0] != dim]

    def _states(self, args: Sequence[Expr], node: Call) -> list[Expr]:
        """The operands that are results of scans along the same dim, so that it is outermost already."""
        calls = (a for a in args if isinstance(a, Call) and TABLE[a.op].states)
        return [a for a in calls if a.static.dim == node.static.dim]

    def _work(self, node: Call) -> float:
        """Operations of a stored builtin: rounds × body for folds and loops, products for contractions, n log n for
        sorts.
        """
        points = node.tensor.dims.size
        match TABLE[node.op].control or node.op:
            case Control.FOLD:
                return _levels(node) * _applied(node.args[0])
            case Control.LOOP:
                return (node.static.limit or 1) * sum(map(_applied, node.args[:2]))
            case Control.BRANCHES:
                return sum(map(_applied, node.args[:2])) / 2
            case Control.UPDATES:
                return INDEXED * node.args[-1].tensor.dims.size
            case "contract":
                dims = {d: i for a in node.args for d, i in a.tensor.dims.items}
                rate = 1.0 if "contraction" in self.without else CONTRACTED
                return 2 * math.prod(len(i) for i in dims.values()) * rate
            case "argreduce":
                return 2.0 * node.args[2].tensor.dims.size
            case _:
                most_points = max(a.tensor.dims.size for a in node.args)
                return most_points * math.log2(max(2, most_points if node.op == "sort" else points))

    def _blocked(self, node: Call, f: Lambda, args: Sequence[Expr], block_size: int, names: Sequence[str]) -> None:
        """Counts a call of `blocked`: once for all its results, with a model whose buffers are near; operands and
        results go through memory. `block_size` is the points of a block along the dims `names`.
        """
        call_id = id(f), *map(id, args)
        self.pass_over(bytes_of(node.tensor))
        if call_id in self.blocks:
            self.steps.append(_Step(id(node), bytes_of(node.tensor)))
            return
        self.blocks.add(call_id)
        inner = _Model(self.without, block=True)
        for result in f.results:
            inner.compute(result, result.tensor, id(f))
        # blocks of operands come from memory, and those of results go there
        for x in args:
            self.pass_over(bytes_of(x.tensor))
        columns = math.prod(len(node.tensor.dims[n]) for n in names)
        self.operations += inner.operations
        self.moved += inner.moved
        reads = {id(a) for a in args if not isinstance(a, Var)}
        self.steps.append(
            _Step(id(node), bytes_of(node.tensor), reads, round(inner.peak() * block_size / max(1, columns)))
        )


def _operands(node: Expr) -> list[tuple[Expr, bool]]:
    """The operands of a node without functions, each with True if the node reads it at other points."""
    if isinstance(node, Call):
        moved_slice = TABLE[node.op].moved
        places = range(len(node.args))[moved_slice] if moved_slice is not None else ()
        return [(a, k in places) for k, a in enumerate(node.args) if not isinstance(a, (Lambda, Operator))]
    return [(a, False) for a in node.args] if isinstance(node, Apply) else []


def _levels(node: Call) -> int:
    fold = node.fold
    assert fold is not None
    return len(fold.interval)


def _is_by_slot(node: Call) -> bool:
    """True if a call reads all neighbours, along a dim of their own."""
    return TABLE[node.op].table and not node.static


def _applied(f: Expr) -> float:
    """Operations of one application of a function."""
    if isinstance(f, Lambda):
        return sum(work_of(r, {}) * max(1, r.tensor.dims.size) for r in f.results)
    return float(TABLE[f.op].cost * f.type.result.dims.size) if isinstance(f, Operator) else 0.0


def work_of_fold(node: Call) -> float:
    """Operations of a fold at all points of its result."""
    return _levels(node) * max(_applied(node.args[0]), float(node.tensor.dims.size))


MIN_PER_BYTE = PER_BYTE
"""Operations that a byte must save."""
FEWEST_READS = 4
"""Parts that are joined are stored from so many offsets on: XLA stores them for each few readers, or asks at each point
of each reader which part it is in."""


def worth_storing(fencil: Fencil, min_per_byte: float = MIN_PER_BYTE) -> dict[int, Call]:
    """The expressions that are read at several offsets and cost more to compute again than to store, by identity.

    >>> from tensorir.text import parse
    >>> f = parse('''f(out: tensor<float, I[1:8]>, x: tensor<float, I[0:9]>) { out ←
    ...   let wave = cos(x) × exp(x); let double = x + x; ⟪I, 1⟫(wave) + ⟪I, -1⟫(wave) + ⟪I, 1⟫(double) - double; }''')
    >>> [node.label for node in worth_storing(f).values()]
    ['wave']
    """
    return {id(w.node): w.node for w in weighed(fencil, min_per_byte) if w.stored}


@dataclass(frozen=True, slots=True)
class Weighed:
    """An expression that is read at several offsets, and what storing it would save."""

    node: Call
    uses: int
    """At how many offsets it is read."""
    work: float
    """Operations per point, or a part of them from which on it is stored."""
    needed: float
    """Operations per point from which on storing pays."""
    joined: bool = False
    """Whether it is stored since its parts are joined, and read at so many offsets."""

    @property
    def stored(self) -> bool:
        return self.work >= self.needed

    def per_byte(self, min_per_byte: float) -> float:
        """Operations that storing saves for each byte, as they are compared with a limit."""
        return self.work / self.needed * min_per_byte if self.needed else math.inf


def weighed(fencil: Fencil, min_per_byte: float = MIN_PER_BYTE, beyond: float = 1.0) -> Iterator[Weighed]:
    """Weighs each expression that is read at several offsets, yielding a `Weighed` for each.

    Work is counted up to `beyond` times the threshold; nodes found worth storing cost nothing to their later readers.
    """
    stored: dict[int, Call] = {}
    scopes: list[Expr] = list(values(fencil.closures))
    while scopes:
        root = scopes.pop()
        order = surface(root)
        scopes += [n.function.body for n in order if isinstance(n, Apply) and isinstance(n.function, Lambda)]
        readers = reads(root, order)
        kept = {id(n.args[0]) for n in order if isinstance(n, Call) and TABLE[n.op].stored and TABLE[n.op].moves}
        for node in order:
            # equal literals have one key: their readers, as many as there are, are not gone through for each
            if not isinstance(node, Call) or node is root or id(node) in kept:
                continue
            uses = len({offset for _, offset in readers.get(node, ())})
            joined = node.op == "concat" and uses >= FEWEST_READS
            if uses > 1 and (_computes_again(node) or joined):
                needed = _needed(uses, node.tensor, min_per_byte)
                work = _work(node, beyond * needed, stored) if not joined else 0.0 if math.isinf(needed) else needed
                weight = Weighed(node, uses, work, needed, joined)
                if weight.stored:
                    stored[id(node)] = node
                yield weight


def _computes_again(node: Call) -> bool:
    row = TABLE[node.op]
    return bool(node.tensor.dims) and (row.elementwise or row.skips or node.op == "update")


def _needed(uses: int, kind: TensorType, min_per_byte: float) -> float:
    """The operations per point from which on a buffer pays for its bytes, given the number of offsets.

    Elements count as 8 bytes each, since an operation on 4 bytes also takes half as long.
    """
    one = Worth("", uses, 1.0, TensorType(FLOAT64, Dims()))
    return min_per_byte * (BEYOND if bytes_of(kind) > CACHE else 1.0) * one.added / max(1, uses - 1)


def _work(root: Expr, limit: float, stored: Mapping[int, Expr]) -> float:
    """Operations per point of an expression, counted up to `limit`; nodes in `stored` are not counted."""
    operations, points = 0.0, max(1, root.tensor.dims.size)
    seen: set[int] = set()
    stack: list[Expr] = [root]
    while stack and operations < limit:
        node = stack.pop()
        if id(node) in seen or (id(node) in stored and node is not root):
            continue
        seen.add(id(node))
        match node:
            case Call(_, (_, init, *args)) if node.fold is not None and not node.fold.row.states:
                operations += _levels(node) * node.tensor.dims.size / points
                stack += [init, *args]
            case Call(_, args) if node.definition is not None:
                stack += [node.definition.body, *args]
            case Call(op) if TABLE[op].stored and TABLE[op].control is not Control.BLOCKS:
                continue
            case Call(op, args):
                operations += TABLE[op].cost * node.tensor.dims.size / points
                stack += args
            case Apply(Lambda(_, (body,)), args):
                stack += [body, *args]
            case _:
                pass
    return operations
