"""Whiles that count, as the loops that they are.

    i = b * 4 + t                       for k in range(ceildiv(n, 8)):
    while i < n:                            if b * 4 + t + k * 8 < n:
        B[i] = A[i]                             B[b * 4 + t + k * 8] = A[b * 4 + t + k * 8]
        i = i + 8                       i = b * 4 + t + ...

What counts is one element of storage that only this text names. It has a value before the loop, each round adds a
constant to it, in one place, and the condition compares it with what no round changes. One that takes other values, as
in `while s > 0: ...; s = s // 2`, is followed where they are all known: its rounds are written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tensorir.lifting.nests.linear import settled
from tensorir.lifting.nests.terms import Number
from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import nodes as n
from tensorir.tir.build import seq
from tensorir.tir.builtins import BUILTINS, Effect, is_hardware
from tensorir.tir.dtypes import DataType
from tensorir.tir.lift.expressions import Scope, element_of, term
from tensorir.tir.lift.reader import jumps, returns, waits
from tensorir.tir.ranges import Bounds, interval
from tensorir.tir.trees import children, transform, walk

N = TypeVar("N", bound=n.Node)

MOST_ROUNDS = 64
"""How many rounds of other values than a sum's are written out."""


def counted(body: n.Stmt, sizes: Mapping[n.Var, int]) -> n.Stmt:
    """The body of a function with loops in the place of the whiles that count; `sizes` are the values of its sizes."""
    if not any(isinstance(part, n.While) for part in walk(body)):
        return body
    known: dict[n.Var, Bounds] = {var: (size, size) for var, size in sizes.items()}
    return _Counting(frozenset(_named_otherwise(body)), known).statement(body)


def _named_otherwise(body: n.Stmt) -> Iterator[n.Var]:
    """The memories that more than loads and stores of one buffer name: other buffers, and calls."""
    first: dict[n.Var, n.Buffer] = {}
    for part in walk(body):
        match part:
            case n.MatchBufferRegion(buffer, source):
                yield from (buffer.data, source.buffer.data)
            case n.BufferLoad() | n.BufferStore() | n.AllocBuffer() | n.BufferRegion() | n.Block() | n.BufferRealize():
                pass
            case n.Buffer(data):
                if first.setdefault(data, part) is not part:
                    yield data
            case _:
                for child in children(part):
                    match child:
                        case n.Buffer(data):
                            yield data
                        case n.BufferRegion(buffer):
                            yield buffer.data
                        case n.Var() if child.dtype.code == "handle":
                            yield child
                        case _:
                            pass


@dataclass(frozen=True, slots=True)
class _Rounds:
    """A while whose element counts: what it starts from, and where in a round it changes."""

    counter: n.Buffer
    indices: tuple[n.Expr, ...]
    start: n.Expr
    before: tuple[n.Stmt, ...]
    update: n.Expr
    behind: tuple[n.Stmt, ...]
    node: n.While

    def round(self, value: n.Expr, then: n.Expr) -> n.Stmt:
        """The body of a round whose element has one value before it changes, and another one then."""
        first = (_with(part, self.counter, value) for part in self.before)
        rest = (_with(part, self.counter, then) for part in self.behind)
        return seq((*first, *rest), self.node.span)

    def ends(self, value: n.Expr) -> n.Stmt:
        """The store of the final value of the element."""
        return n.BufferStore(self.counter, value, self.indices, span=self.node.span)

    @property
    def dtype(self) -> DataType:
        return self.counter.dtype


@dataclass(slots=True)
class _Counting:
    """The walk over a function: which memories have several names, and what is known of variables so far."""

    shared: frozenset[n.Var]
    known: dict[n.Var, Bounds]
    told: set[n.Var] = field(default_factory=set[n.Var])
    """Variables that tell threads apart."""

    def statement(self, node: n.Stmt) -> n.Stmt:
        match node:
            case n.SeqStmt(parts):
                return replace(node, seq=tuple(self.sequence(parts)))
            case n.For(var, low, extent, _, body):
                binding = node.thread_binding
                self.bind(var, low, extent, binding is not None and is_hardware(binding.thread_tag))
                return replace(node, body=self.statement(body))
            case n.AttrStmt(n.IterVar(_, var, _, tag), "thread_extent", n.Expr() as extent, body):
                self.bind(var, n.IntImm(0, var.dtype), extent, is_hardware(tag))
                return replace(node, body=self.statement(body))
            case n.AttrStmt() | n.BufferRealize() | n.While():
                return replace(node, body=self.statement(node.body))
            case n.IfThenElse(_, then, otherwise):
                other = None if otherwise is None else self.statement(otherwise)
                return replace(node, then_case=self.statement(then), else_case=other)
            case n.BlockRealize(values, _, block):
                for iterator, value in zip(block.iter_vars, values, strict=True):
                    self.name(iterator.var, value)
                return replace(node, block=replace(block, body=self.statement(block.body)))
            case _:
                return node

    def sequence(self, parts: Sequence[n.Stmt]) -> list[n.Stmt]:
        done: list[n.Stmt] = []
        for part in parts:
            match part:
                case n.While():
                    made = self.loop(done, part)
                    done.append(self.statement(part if made is None else made))
                    continue
                case n.LetStmt(var, value):
                    self.name(var, value)
                case _:
                    pass
            done.append(self.statement(part))
        return done

    def bind(self, var: n.Var, low: n.Expr, extent: n.Expr, thread: bool) -> None:
        first, count = interval(low, self.known), interval(extent, self.known)
        if first is not None and count is not None:
            self.known[var] = first[0], first[1] + count[1] - 1
        if thread or self.tells(low) or self.tells(extent):
            self.told.add(var)

    def name(self, var: n.Var, value: n.Expr) -> None:
        found = interval(value, self.known)
        if found is not None:
            self.known[var] = found
        if self.tells(value):
            self.told.add(var)

    def tells(self, value: n.Expr) -> bool:
        """True if threads may find different values."""
        return any(part in self.told or isinstance(part, n.BufferLoad) for part in walk(value))

    def loop(self, before: Sequence[n.Stmt], node: n.While) -> n.Stmt | None:
        """The counted loop of a while that follows other statements of a sequence; None if it does not count."""
        for load in walk(node.condition):
            if isinstance(load, n.BufferLoad):
                rounds = self.rounds(load, before, node)
                made = None if rounds is None else self.summed(rounds) or self.written_out(rounds)
                if made is not None:
                    return made
        return None

    def rounds(self, load: n.BufferLoad, before: Sequence[n.Stmt], node: n.While) -> _Rounds | None:
        """A while whose condition reads the element that counts."""
        counter, body = load.buffer, node.body
        parts = body.seq if isinstance(body, n.SeqStmt) else (body,)
        places = [k for k, part in enumerate(parts) if counter.data in _stored(part)]
        if len(places) != 1 or not self.alone(counter) or any(jumps(body)) or returns(body):
            return None
        since = [k for k, part in enumerate(before) if counter.data in _stored(part)]
        if not since or not (_at_first(counter, before[since[-1]]) and _at_first(counter, node)):
            return None
        first, update = before[since[-1]], parts[places[0]]
        match first, update:
            case n.BufferStore(b, start, indices, None), n.BufferStore(c, value, _, None) if b is c is counter:
                changed = _stored(body)
                fixed = changed - {counter.data}
                starts = changed.union(*map(_stored, before[since[-1] + 1 :]))
                if self.keeps(start, starts) and self.keeps(value, fixed) and self.keeps(node.condition, fixed):
                    k = places[0]
                    return _Rounds(counter, indices, start, tuple(parts[:k]), value, tuple(parts[k + 1 :]), node)
            case _:
                pass
        return None

    def alone(self, counter: n.Buffer) -> bool:
        """True if a buffer is one whole number that a thread has for itself, under one name."""
        one = all(isinstance(e, n.IntImm) and e.value == 1 for e in counter.shape)
        own = counter.scope == "local" or not self.told
        return one and own and counter.dtype.is_integer and counter.dtype.lanes == 1 and counter.data not in self.shared

    def keeps(self, value: n.Expr, stored: set[n.Var]) -> bool:
        """True if a value is a number that follows from variables, and from what none of the stores may change."""
        for part in walk(value):
            match part:
                case n.BufferLoad(buffer, _, predicate):
                    if predicate is not None or buffer.data in self.shared or buffer.data in stored:
                        return False
                case n.Call(op=str(op)):
                    row = BUILTINS.get(op)
                    if row is None or row.effect is not Effect.PURE:
                        return False
                case n.Call() | n.Let():
                    return False
                case _:
                    pass
        return True

    def summed(self, rounds: _Rounds) -> n.Stmt | None:
        """A loop of rounds whose element grows, or falls, by a constant up to a limit."""
        step, limit = _step(rounds), _limit(rounds)
        if step is None or limit is None or limit[0] * step <= 0 or rounds.dtype.code != "int":
            return None
        up, end, start, by = step > 0, limit[1], rounds.start, abs(step)
        if not self.stays(end, by, up):
            return None
        if waits(rounds.node.body) and (self.tells(start) or self.tells(end)):
            return None  # a barrier for all, in rounds that not all take
        var, span = n.Var(rounds.counter.name, n.PrimType(rounds.dtype)), rounds.node.span
        begins = self.first(start, up)
        begin = start if begins is None else _number(begins, rounds.dtype)
        way, last = self.way(begin, end, by, up), self.last(start, end, by, up)
        if way is None or last is None:
            return None
        if begins is None and up:
            turn = rounds.round(var, _plus(var, step))
            loop = n.For(var, start, way, n.ForKind.SERIAL, turn, span=span)
            loop = loop if by == 1 else replace(loop, step=_number(by, rounds.dtype))
        else:
            gone = n.Mul(var, _number(by, rounds.dtype)) if by != 1 else var
            value = n.Add(start, gone) if up else n.Sub(start, gone)
            turn = rounds.round(value, _plus(value, step))
            if begins is not None:
                turn = n.IfThenElse(_with(rounds.node.condition, rounds.counter, value), turn, span=span)
            loop = n.For(var, _number(0, rounds.dtype), _steps(way, by), n.ForKind.SERIAL, turn, span=span)
        return seq((loop, rounds.ends(last)))

    def stays(self, end: n.Expr, by: int, up: bool) -> bool:
        """True if the value behind the last round is one of its type, and does not begin again at the other end.

        A number of 32 bits or more that nothing is known of lies nowhere near the ends of its type.
        """
        first, last = -1 << (end.dtype.bits - 1), (1 << (end.dtype.bits - 1)) - 1
        found = interval(end, self.known)
        if found is None:
            return end.dtype.bits >= 32 or by == 1
        return found[1] + by - 1 <= last if up else found[0] - by + 1 >= first

    def way(self, start: n.Expr, end: n.Expr, by: int, up: bool) -> n.Expr | None:
        """The distance of the end from the start, 0 or less if behind it; None if it may leave their type.

        A way of more steps of 1 than a type of 32 bits counts nobody goes.
        """
        low, high = (start, end) if up else (end, start)
        least, most = interval(low, self.known), interval(high, self.known)
        limit = 1 << (start.dtype.bits - 1)
        if least is not None and most is not None and -limit < most[0] - least[1] and most[1] - least[0] + by <= limit:
            return _minus(high, low)
        if least == (0, 0):
            return high
        if (by != 1 or start.dtype.bits < 32) and (least is None or least[0] < 0):
            return None
        return _minus(n.Max(high, low), low)

    def last(self, start: n.Expr, end: n.Expr, by: int, up: bool) -> n.Expr | None:
        """The value behind the last round."""
        if by == 1:
            return n.Max(start, end) if up else n.Min(start, end)
        way = self.way(start, end, by, up)
        if way is None:
            return None
        gone = n.Mul(n.Max(_number(0, start.dtype), _steps(way, by)), _number(by, start.dtype))
        return n.Add(start, gone) if up else n.Sub(start, gone)

    def first(self, start: n.Expr, up: bool) -> int | None:
        """The start of the first thread, of threads that begin apart and go on together; None for others."""
        found = interval(start, self.known) if any(part in self.told for part in walk(start)) else None
        return None if found is None else found[0 if up else 1]

    def written_out(self, rounds: _Rounds) -> n.Stmt | None:
        """The rounds one after the other, where all values of their element are known."""
        value = self.number(rounds.start, rounds, None)
        done: list[n.Stmt] = []
        for _ in range(MOST_ROUNDS + 1):
            holds = None if value is None else self.number(rounds.node.condition, rounds, value)
            if value is None or holds is None:
                return None
            if not holds:
                return seq((*done, rounds.ends(_number(value, rounds.dtype))))
            then = self.number(rounds.update, rounds, value)
            if then is None:
                return None
            done.append(rounds.round(_number(value, rounds.dtype), _number(then, rounds.dtype)))
            value = then
        return None

    def number(self, expression: n.Expr, rounds: _Rounds, value: int | None) -> int | None:
        """An expression with the element's value put in; None if it depends on more."""
        if value is not None:
            expression = _with(expression, rounds.counter, _number(value, rounds.dtype))
        scope = Scope()
        for var in walk(expression):
            if isinstance(var, n.Var) and (at := self.known.get(var)) is not None and at[0] == at[1]:
                scope.values[var] = lambda lane, at=at[0], var=var: Number(at, element_of(var.dtype))
        try:
            found = settled(term(scope, expression), {})
        except DiagnosticError:
            return None  # it reads what is in no scope: data, or a variable
        return int(found.value) if isinstance(found, Number) else None


def _stored(node: n.Stmt) -> set[n.Var]:
    """The memories that a statement stores to, of those that calls do not name."""
    return {part.buffer.data for part in walk(node) if isinstance(part, n.BufferStore)}


def _at_first(counter: n.Buffer, node: n.Stmt) -> bool:
    """True if all accesses of a buffer of one element are to that: any other index leaves it."""
    accesses = (p for p in walk(node) if isinstance(p, n.BufferLoad | n.BufferStore) and p.buffer is counter)
    return all(isinstance(i, n.IntImm) and not i.value for access in accesses for i in access.indices)


def _with(node: N, counter: n.Buffer, value: n.Expr) -> N:
    """A tree where the element that counts has a value."""

    def rule(part: n.Node) -> n.Node | None:
        return value if isinstance(part, n.BufferLoad) and part.buffer is counter else None

    return transform(node, rule)


def _step(rounds: _Rounds) -> int | None:
    """The step of an element in each round."""
    match rounds.update:
        case n.Add(n.BufferLoad(b), n.IntImm(step)) | n.Add(n.IntImm(step), n.BufferLoad(b)) if b is rounds.counter:
            return step
        case n.Sub(n.BufferLoad(b), n.IntImm(step)) if b is rounds.counter:
            return -step
        case _:
            return None


def _limit(rounds: _Rounds) -> tuple[int, n.Expr] | None:
    """The first value that ends the rounds of an element that grows (1) or falls (-1)."""
    condition = rounds.node.condition
    while isinstance(condition, n.Call) and condition.op == "likely" and isinstance(condition.args[0], n.Expr):
        condition = condition.args[0]
    if not isinstance(condition, n.LT | n.LE | n.GT | n.GE):
        return None
    a, b = condition.a, condition.b
    rises = 1 if isinstance(condition, n.LT | n.LE) else -1
    if isinstance(b, n.BufferLoad) and b.buffer is rounds.counter:
        a, b, rises = b, a, -rises
    if not (isinstance(a, n.BufferLoad) and a.buffer is rounds.counter) or b.dtype != a.dtype:
        return None
    if any(isinstance(part, n.BufferLoad) and part.buffer is rounds.counter for part in walk(b)):
        return None
    return rises, _plus(b, rises) if isinstance(condition, n.LE | n.GE) else b


def _steps(way: n.Expr, by: int) -> n.Expr:
    """The number of steps of a distance."""
    more = _plus(way, by - 1)
    if by == 1:
        return more
    divisor = _number(by, way.dtype)
    return _number(more.value // by, way.dtype) if isinstance(more, n.IntImm) else n.FloorDiv(more, divisor)


def _number(value: int, dtype: DataType) -> n.IntImm:
    return n.IntImm(value, dtype)


def _plus(a: n.Expr, by: int) -> n.Expr:
    if not by:
        return a
    return _number(a.value + by, a.dtype) if isinstance(a, n.IntImm) else n.Add(a, _number(by, a.dtype))


def _minus(a: n.Expr, b: n.Expr) -> n.Expr:
    return _plus(a, -b.value) if isinstance(b, n.IntImm) else n.Sub(a, b)
