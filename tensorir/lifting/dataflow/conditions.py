"""Load forwarding under conditions: what a write under a condition left is known where that condition holds again.

`if c: s = x`, then `if c: B[i] = s + 1`: as a value, s is x or what was there before; under c it is x, and no iteration
finds anything of another one.

>>> from tensorir.lifting.region import parse_region
>>> from tensorir.lifting.dataflow.flow import flow_of
>>> from tensorir.lifting.dataflow.statements import statements_of
>>> region = parse_region('''
... region r {
...   argument A: int32[n=8];
...   storage s: int32[];
...   for i in 0:8 {
...     a: int ← A[i];
...     let c: bool = a > 0;
...     if c { s[] ← 2*a; }
...     if c { b: int ← s[]; A[i] ← b + 1; }
...   }
... }''')
>>> statements = statements_of(region)
>>> print(forwarded(statements, flow_of(statements))[-2].value)
if a > 0 then 2 × a + 1 else A_old
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorir.integers.affine import variable
from tensorir.ir.nodes import Call, Expr, Literal, Var
from tensorir.ir.rewrite import rebuild, substitute
from tensorir.lifting.dataflow.flow import Source
from tensorir.lifting.dataflow.statements import Statement

__all__ = ["forwarded"]

MOST_LOOKED_AT = 256
"""How many operations of a value are looked at: under each condition they are others."""

Facts = Mapping[Expr, bool]
"""What conditions are, in terms of one read of all that find the same."""


def forwarded(
    statements: Sequence[Statement], flow: Mapping[int, Sequence[Source]], masked: bool = True
) -> list[Statement]:
    """The statements, whose values read no write of which conditions tell what it left.

    Without `masked` nothing is asked of a read where its mask does not hold.
    """
    found = _Forwarding(list(statements), flow, masked)
    for s in statements if found.chosen else ():
        if not s.is_read and s.value is not None and s.opaque is None and s.scatter is None:
            found.left = MOST_LOOKED_AT
            new = found.value(s.value, {}, s)
            found.statements[s.number] = s if new is s.value else replace(s, value=new)
    return found.statements


@dataclass(slots=True)
class _Forwarding:
    statements: list[Statement]
    flow: Mapping[int, Sequence[Source]]
    masked: bool
    chosen: dict[Var, Statement] = field(init=False)
    """By read, the write of one of two values in the same iteration that it reads."""
    same: dict[Var, Expr] = field(init=False)
    """By read, the first one that finds the same."""
    left: int = 0
    """How many operations more are looked at."""

    def __post_init__(self) -> None:
        reads = {s.result: s for s in self.statements if s.result is not None and not s.own}
        self.chosen, self.same = {}, {}
        for v, s in reads.items():
            sources = self.flow.get(s.number, ())
            w = sources[0].writer if len(sources) == 1 and (not self.masked or s.unmasked is None) else None
            writer = None if w is None else self.statements[w]
            if writer is None or not _is_choice(writer) or writer.loops != s.loops:
                continue
            if sources[0].at == tuple(variable(n) for n in s.names):
                self.chosen[v] = writer
        first: dict[object, Var] = {}
        for v, s in reads.items() if self.chosen else ():
            parts = [(x.writer, x.buffer, x.at, str(x.domain).partition("[")[2]) for x in self.flow.get(s.number, ())]
            self.same[v] = first.setdefault((s.buffer.name, s.at, s.loops, s.unmasked, *parts), v)

    def value(self, e: Expr, facts: Facts, s: Statement) -> Expr:
        """An expression for the iterations of a statement in which conditions are what they are known to be."""
        self.left -= 1
        if self.left < 0 or e.free.isdisjoint(self.chosen):
            return e
        match e:
            case Var() if self.chosen[e].loops == s.loops:
                return self.left_by(self.statements[self.chosen[e].number].value, e, facts, s)
            case Call("if", (c, x, y)):
                holds, fails = ({**facts, **dict(self.told(c, truth))} for truth in (True, False))
                return rebuild(e, (self.value(c, facts, s), self.value(x, holds, s), self.value(y, fails, s)))
            case Call() if all(isinstance(a, Call | Var | Literal) for a in e.args):
                return rebuild(e, tuple(self.value(a, facts, s) for a in e.args))
            case _:
                return e

    def left_by(self, written: Expr | None, read: Expr, facts: Facts, s: Statement) -> Expr:
        """What a read finds of a choice that was written."""
        match written:
            case Call("if", (c, x, y)) if (known := facts.get(self.plain(c))) is not None:
                found = x if known else y
                inner = self.left_by(found, read, facts, s)
                return self.value(found, facts, s) if inner is read else inner
            case _:
                return read

    def plain(self, c: Expr) -> Expr:
        """A condition in terms of the first of all reads that find the same."""
        return substitute(c, {v: self.same[v] for v in c.free if v in self.same})

    def told(self, c: Expr, truth: bool) -> Iterator[tuple[Expr, bool]]:
        """What is known where a condition holds, or does not."""
        yield self.plain(c), truth
        match c:
            case Call("not", (x,)):
                yield from self.told(x, not truth)
            case Call("and", (x, y)) | Call("if", (x, y, Literal(False))) if truth:
                yield from (*self.told(x, True), *self.told(y, True))
            case Call("or", (x, y)) | Call("if", (x, Literal(True), y)) if not truth:
                yield from (*self.told(x, False), *self.told(y, False))
            case _:
                pass


def _is_choice(s: Statement) -> bool:
    return isinstance(s.value, Call) and s.value.op == "if" and s.scatter is None and s.opaque is None
