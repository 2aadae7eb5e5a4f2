"""Trip counts of loops whose bounds depend on data: bounded by an access that stays inside in every round.

In `for j in range(n[i]): y[i] = y[i] + x[start[i] + j]` every turn reads another element of x: there are no more turns
than x has elements, or one of them leaves x, which is an error in any case. A loop of `(n + 3) // 4` turns, whose turn
t does something where `4 * t + r < n`, does it in each of them for r = 0. Of a loop of any number of turns, which do
something only where that holds, the turn behind those that stay inside does nothing, or leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tensorir.ir.types import INT32
from tensorir.lifting.nests.bounded import extremes
from tensorir.lifting.nests.terms import Buffer, Number, Op, Term
from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.lift.intrinsics import cast
from tensorir.tir.lift.reader import Reader, returns
from tensorir.tir.trees import children, walk


@dataclass(frozen=True, slots=True)
class Turns:
    """The most turns of a loop, and the buffer of so many elements along a dim that more of them would leave."""

    most: int
    elements: int
    name: str
    span: Span
    sure: bool
    """Whether each turn makes the access; one that does not does nothing."""
    over: bool
    """Whether turns do nothing where there are no more of them, so that nobody need count them."""


def turns(reader: Reader, var: n.Var, by: int, body: n.Stmt, extent: Term | None = None) -> Turns | None:
    """The most turns that accesses leave a loop that nothing breaks, where they leave it any limit.

    `extent` is how many turns there are of a loop that counts from 0.
    """
    if returns(body):
        return None
    starts = {} if extent is None else {var: 0}
    always = _Always(reader, frozenset(reader.stored(body)), {var: by}, _parts_of(extent), starts, {var})
    always.statement(body, True)
    found = min(always.found, key=lambda t: t.most, default=None)
    return found and replace(found, over=always.over)


@dataclass(slots=True)
class _Always:
    """Expressions that every round evaluates, with the step of each value from one round to the next."""

    reader: Reader
    stored: frozenset[Buffer]
    steps: dict[n.Var, int | None]
    parts: tuple[Term, int, int] | None
    """What the number of turns is a quotient of: a number that data tell, what is added to it, and the divisor."""
    starts: dict[n.Var, int]
    """Values in the first turn, and there in the first turns of the loops inside."""
    rises: set[n.Var]
    """Values that get no smaller from turn to turn, and from turn to turn of the loops inside."""
    found: list[Turns] = field(default_factory=list[Turns])
    sure: bool = True
    over: bool = False
    """Whether a condition around all that turns do, or look at, fails behind the last of them."""
    looked: bool = False
    """Whether turns have looked at any buffer so far."""

    def statement(self, node: n.Stmt, alone: bool = False) -> bool:
        """Look at a statement; whether every turn comes to what follows it. `alone`: turns do nothing else."""
        match node:
            case n.SeqStmt(parts):
                return all(self.statement(part, alone and len(parts) == 1) for part in parts)
            case n.LetStmt(var, value):
                self.let(var, value)
                return True
            case n.BufferStore(buffer, value, indices, predicate):
                self.evaluated(value)
                if predicate is None:
                    self.access(buffer, indices, node.span)
                return True
            case n.For(var, low, extent):
                self.evaluated(extent)
                block = self.launched("" if node.thread_binding is None else node.thread_binding.thread_tag, extent)
                self.follow(var, low if block is None else n.Add(low, block))
                if block is not None or self.positive(extent):
                    self.statement(node.body, alone)
                elif alone and self.step(extent) == 0 and self.steps[var] == 0:
                    # as many turns inside of every turn, perhaps none
                    self.sure = False
                    self.statement(node.body, alone)
                return True
            case n.BlockRealize(values, predicate, block):
                for iterator, value in zip(block.iter_vars, values, strict=True):
                    self.let(iterator.var, value)
                alone = alone and block.init is None
                self.over = self.over or (alone and not self.looked and self.ends(predicate))
                self.evaluated(predicate)
                if self.holds(predicate):
                    return self.statement(block.body, alone)
                self.perhaps(predicate, block.body, alone)
                return not _leaves(block.body)
            case n.AttrStmt(n.IterVar(_, var, _, tag), "thread_extent", n.Expr() as extent, inner):
                self.evaluated(extent)
                block = self.launched(tag, extent)
                self.follow(var, block or n.IntImm(0, var.dtype))
                return (block is not None or self.positive(extent)) and self.statement(inner, alone)
            case n.AttrStmt(body=inner):
                return self.statement(inner, alone)
            case n.IfThenElse(condition, then, otherwise):
                alone = alone and otherwise is None
                self.over = self.over or (alone and not self.looked and self.ends(condition))
                self.evaluated(condition)
                if self.holds(condition):
                    self.statement(then, alone)
                else:
                    self.perhaps(condition, then, alone)
                return not _leaves(node)
            case n.Evaluate(value):
                self.evaluated(value)
                return not _leaves(node)
            case _:
                return not _leaves(node)

    def perhaps(self, condition: n.Expr, body: n.Stmt, alone: bool) -> None:
        """Look at what turns do up to some turn, and no turn does behind that, where they do nothing else."""
        if alone and self.falls(condition):
            self.sure = False
            self.statement(body, alone)

    def launched(self, tag: str, extent: n.Expr) -> n.Var | None:
        """The variable that counts all blocks along an index of the hardware, where there are `extent` of them."""
        among, most = self.reader.launched.get(tag, (None, None))
        return among if most is not None and cast(self.reader.term(extent), INT32) == most else None

    def let(self, var: n.Var, value: n.Expr) -> None:
        """Look at a value that gets a name."""
        self.evaluated(value)
        self.follow(var, value)

    def follow(self, var: n.Var, value: n.Expr) -> None:
        """Facts about a value hold for its name."""
        step, start, grows = self.step(value), self.start(value), self.grows(value)
        self.steps[var] = step
        self.starts.pop(var, None)
        if start is not None:
            self.starts[var] = start
        if grows:
            self.rises.add(var)

    def holds(self, condition: n.Expr) -> bool:
        """True if a condition holds in every turn, in the first turns of the loops inside."""
        match condition:
            case n.IntImm(value):
                return bool(value)
            case n.Call(op="likely", args=(n.Expr() as inner, *_)):
                return self.holds(inner)
            case n.LT(a, b) | n.GT(b, a):
                # the last turn is (whole + more) // by - 1
                ahead = self.ahead(a, b, self.start(a))
                return ahead is not None and ahead < 0
            case n.EQ(a, b):
                start = self.start(a)
                return start is not None and start == self.start(b) and self.step(a) == self.step(b) == 0
            case _:
                return False

    def ends(self, condition: n.Expr) -> bool:
        """True if a condition fails in all turns behind the last one, were there any."""
        match condition:
            case n.Call(op="likely", args=(n.Expr() as inner, *_)):
                return self.ends(inner)
            case n.And(a, b):
                return self.ends(a) or (self.ends(b) and not any(isinstance(p, n.BufferLoad) for p in walk(a)))
            case n.LT(a, b) | n.GT(b, a):
                # the first turn behind it is (whole + more) // by
                ahead = self.ahead(a, b, self.least(a))
                return ahead is not None and ahead >= -1 and self.grows(a)
            case _:
                return False

    def ahead(self, a: n.Expr, b: n.Expr, start: int | None) -> int | None:
        """By how much a value `a` that keeps step with the quotient of `b` from a start on is ahead of it."""
        if self.parts is None:
            return None
        whole, more, by = self.parts
        if start is None or self.step(a) != by or not self.fixed(b) or self.reader.term(b) != whole:
            return None
        return start + more - by

    def falls(self, condition: n.Expr) -> bool:
        """True if a condition that fails in a turn fails in all that follow, and in those of the loops inside."""
        match condition:
            case n.Call(op="likely", args=(n.Expr() as inner, *_)):
                return self.falls(inner)
            case n.And(a, b):
                return self.falls(a) and self.falls(b)
            case n.LT(a, b) | n.GT(b, a) | n.LE(a, b) | n.GE(b, a):
                return self.grows(a) and self.fixed(b)
            case _:
                return self.holds(condition)

    def grows(self, value: n.Expr) -> bool:
        """True if a value gets no smaller from turn to turn, and from turn to turn of the loops inside."""
        match value:
            case n.Var() if value in self.rises:
                return True
            case n.Add(a, b):
                return self.grows(a) and self.grows(b)
            case n.Mul(a, n.IntImm(by)) | n.Mul(n.IntImm(by), a):
                return by >= 0 and self.grows(a)
            case n.Cast(inner) if _widens(inner.dtype, value.dtype):
                return self.grows(inner)
            case _:
                return self.fixed(value)

    def fixed(self, value: n.Expr) -> bool:
        """True if a value is the same in every turn, of the loops inside, too."""
        return self.step(value) == 0 and not any(isinstance(part, n.Var) and part in self.steps for part in walk(value))

    def positive(self, extent: n.Expr) -> bool:
        """True if a loop inside has a turn in every turn, in the first turns of the loops around it."""
        match extent:
            case n.IntImm(value):
                return value > 0
            case n.Min(a, b):
                return self.positive(a) and self.positive(b)
            case n.Sub(a, b):
                return self.holds(n.LT(b, a))
            case _:
                return False

    def start(self, value: n.Expr) -> int | None:
        """A value in the first turn, None where nobody knows."""
        match value:
            case n.IntImm(number):
                return number
            case n.Var():
                return self.starts.get(value)
            case n.Add(a, b) | n.Sub(a, b) | n.Mul(a, b):
                x, y = self.start(a), self.start(b)
                if x is None or y is None:
                    return None
                return x * y if isinstance(value, n.Mul) else x + y if isinstance(value, n.Add) else x - y
            case n.Cast(inner) if _widens(inner.dtype, value.dtype):
                return self.start(inner)
            case _:
                return None

    def least(self, value: n.Expr) -> int | None:
        """The least value in the first turn, whatever loops and threads around it are at; None where nobody knows."""
        match value:
            case n.Add(a, b):
                x, y = self.least(a), self.least(b)
                return None if x is None or y is None else x + y
            case n.Mul(a, n.IntImm(by)) | n.Mul(n.IntImm(by), a) if by >= 0:
                x = self.least(a)
                return None if x is None else x * by
            case n.Cast(inner) if _widens(inner.dtype, value.dtype):
                return self.least(inner)
            case n.Var() if value not in self.steps:
                found = extremes(self.reader.term(value), self.reader.known)
                return None if found is None else found[0]
            case _:
                return self.start(value)

    def evaluated(self, expression: n.Expr) -> None:
        """Look at an expression, without the parts that may be left out."""
        pending: list[n.Node] = [expression]
        while pending:
            match pending.pop():
                case n.And(a, _) | n.Or(a, _):
                    pending.append(a)
                case n.Select(condition):
                    pending.append(condition)
                case n.Call(op="if_then_else", args=args):
                    pending += [a for a in args[:1] if isinstance(a, n.Expr)]
                case n.Let(var, value, body):
                    self.let(var, value)
                    pending.append(body)
                case n.BufferLoad(buffer, indices, predicate) as load:
                    if predicate is None:
                        self.access(buffer, indices, load.span)
                case n.Call(op="address_of" | "tvm_access_ptr"):
                    pass
                case n.Expr() as other:
                    pending += [c for c in children(other) if isinstance(c, n.Expr)]
                case _:
                    pass

    def access(self, buffer: n.Buffer, indices: Sequence[n.Expr], span: Span) -> None:
        """An access that every turn makes."""
        self.looked = True
        for index in indices:
            self.evaluated(index)
        view = self.reader.scope.views.get(buffer)
        if view is None or any(index.dtype.lanes != 1 for index in indices):
            return
        for index, size in zip(indices, view.shape, strict=False):
            step = self.step(index)
            if step and isinstance(size, Number):
                elements = int(size.value)
                self.found.append(Turns((elements - 1) // abs(step) + 1, elements, buffer.name, span, self.sure, False))

    def step(self, value: n.Expr) -> int | None:
        """By how much a value grows from turn to turn; None where nobody knows."""
        match value:
            case n.IntImm():
                return 0
            case n.Var():
                return self.steps.get(value, 0)
            case n.Add(a, b) | n.Sub(a, b):
                x, y = self.step(a), self.step(b)
                if x is None or y is None:
                    return None
                return x + y if isinstance(value, n.Add) else x - y
            case n.Mul(a, b):
                x, y = self.step(a), self.step(b)
                if x == 0 and y == 0:
                    return 0
                if isinstance(a, n.IntImm) and y is not None:
                    return a.value * y
                if isinstance(b, n.IntImm) and x is not None:
                    return x * b.value
                return None
            case n.Cast(inner) if _widens(inner.dtype, value.dtype):
                return self.step(inner)
            case n.BufferLoad(buffer):
                view = self.reader.scope.views.get(buffer)
                if view is None or view.buffer.root in self.stored:
                    return None
            case n.Call() | n.Let():
                return None
            case _:
                pass
        parts = [c for c in children(value) if isinstance(c, n.Expr)]
        return 0 if all(self.step(part) == 0 for part in parts) else None


def _parts_of(extent: Term | None) -> tuple[Term, int, int] | None:
    """The parts of a quotient by a number."""
    match extent:
        case Op("floordiv" | "divides", (Op("plus", (whole, Number(more)) | (Number(more), whole)), Number(by))) if (
            by > 0
        ):
            return whole, int(more), int(by)
        case Op("floordiv" | "divides", (whole, Number(by))) if by > 0:
            return whole, 0, int(by)
        case _:
            return None


def _widens(old: n.DataType, new: n.DataType) -> bool:
    """True if a cast keeps all values of a type of integers."""
    return old.code == new.code == "int" and old.lanes == new.lanes == 1 and old.bits <= new.bits


def _leaves(node: n.Node) -> bool:
    """True if a statement may go on with another turn, of this loop or of one inside."""
    return any(
        isinstance(part, n.Break | n.Continue)
        or (isinstance(part, n.Call) and part.op in ("break_loop", "continue_loop"))
        for part in walk(node)
    )
