"""Propagation of values: copies, choices whose condition is known, equal reads as one; and liveness.

Copy propagation: what reads a copy reads what was copied.

>>> from tensorir.lifting.region import parse_region
>>> from tensorir.lifting.dataflow.flow import flow_of
>>> from tensorir.lifting.dataflow.statements import statements_of
>>> region = parse_region('''
... region twice {
...   argument A: int32[n=8];
...   storage t: int32[n=8];
...   for i in 0:8 { a: int ← A[i]; t[i] ← a; }
...   for j in 0:8 { b: int ← t[7 - j]; A[j] ← b + b; }
... }''')
>>> statements = statements_of(region)
>>> for source in through_copies(statements, flow_of(statements))[2]:
...     print(source.writer, source.buffer, [str(i) for i in source.at])
None A ['-j + 7']

Load forwarding under conditions: what a write under a condition left is known where that condition holds again.

`if c: s = x`, then `if c: B[i] = s + 1`: as a value, s is x or what was there before; under c it is x, and no iteration
finds anything of another one.

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

Reads of a write that find the same are one read: the old value that a guarded update keeps is what it combines.

>>> region = parse_region('''
... region sums {
...   argument A: int32[n=8];
...   storage s: int32[];
...   for i in 0:8 {
...     a: int ← A[i];
...     b: int ← s[];
...     let c: bool = a > 0;
...     if c { s[] ← a + b; }
...   }
...   d: int ← s[];
...   A[0] ← d;
... }''')
>>> statements = statements_of(region)
>>> for s in with_reads_once(statements, flow_of(statements)):
...     if not s.is_read:
...         print(s.value)
if a > 0 then a + b else b
d
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tensorir.integers.affine import Affine, variable
from tensorir.integers.sets import isl
from tensorir.ir.nodes import Call, Expr, Literal, Var
from tensorir.ir.rewrite import rebuild, substitute
from tensorir.lifting.accesses.sets import decided, text
from tensorir.lifting.dataflow.flow import PARTS, Source, box_of, domain_of, sources_of
from tensorir.lifting.dataflow.statements import Statement
from tensorir.lifting.region.nodes import For, While

# Liveness: the reads and writes that something which is asked for in the end needs.


def live(statements: Sequence[Statement], flow: Mapping[int, Sequence[Source]], checked: bool = False) -> list[int]:
    """The numbers of the statements that the reads of whole arguments in the end need, in order.

    If it is `checked`, what must hold needs some, too.

    >>> live([], {})
    []
    """
    reads = {s.result: s.number for s in statements if s.result is not None}
    pending = [s.number for s in statements if s.is_end or (checked and s.message is not None)]
    if checked:
        # what leaves a buffer inside of a while has to be said, whoever sees what it writes
        pending += [s.number for s in statements if s.opaque is not None and isinstance(s.opaque.node, While)]
    found: set[int] = set()
    while pending:
        k = pending.pop()
        if k in found:
            continue
        found.add(k)
        s = statements[k]
        if s.is_read:
            pending += [source.writer for source in flow[k] if source.writer is not None]
        else:
            pending += [reads[v] for v in s.uses if v in reads]
    return sorted(found)


MOST_SOURCES = 8
"""How many sources a read may have after copies are seen through; those of more stay."""


def through_copies(
    statements: Sequence[Statement], flow: Mapping[int, list[Source]], masked: bool = True
) -> dict[int, list[Source]]:  # fmt: skip
    """The flow with every copy of another read's value replaced by the sources of that.

    Without `masked` nothing is asked of a read where its mask does not hold.
    """
    found = {r: list(sources) for r, sources in flow.items()}
    reads = {s.result: s for s in statements if s.result is not None}
    readers: dict[int, set[int]] = {}
    for r, sources in found.items():
        for source in sources:
            if source.writer is not None:
                readers.setdefault(source.writer, set()).add(r)
    for w in statements:
        copied = reads.get(w.value) if isinstance(w.value, Var) and w.scatter is None else None
        if copied is None or (masked and copied.unmasked is not None) or copied.loops != w.loops or copied.own != w.own:
            continue
        origins = found[copied.number]
        if any(o.writer == w.number for o in origins):
            continue
        for r in sorted(readers.get(w.number, ())):
            new = decided(lambda r=r, w=w, o=origins: _composed(statements, r, found[r], w, o), PARTS)
            if new is None or len(new) > MOST_SOURCES:
                continue
            found[r] = new
            for source in new:
                if source.writer is not None:
                    readers.setdefault(source.writer, set()).add(r)
    return found


def _composed(
    statements: Sequence[Statement], read: int, sources: Sequence[Source], copy: Statement, origins: Sequence[Source]
) -> list[Source]:
    names = statements[read].names
    found: list[Source] = []
    for source in sources:
        if source.writer != copy.number:
            found.append(source)
            continue
        if (only := _seen_through(statements, read, source, copy, origins)) is not None:
            found.append(only)
            continue
        for origin in origins:
            start = origin.relation.set_tuple_name(isl().dim_type.in_, source.relation.range().get_tuple_name())
            relation = source.relation.apply_range(start)
            if not relation.is_empty():
                loops = () if origin.writer is None else statements[origin.writer].names
                found += sources_of(relation, names, origin.writer, origin.buffer, loops)
    return found


def _seen_through(
    statements: Sequence[Statement], read: int, source: Source, copy: Statement, origins: Sequence[Source]
) -> Source | None:
    """The source of a copy of one value, as a sum over the reader's terms; None where isl has to decide."""
    reader = statements[read]
    if len(origins) != 1 or not domain_of(copy).set_tuple_name("R").is_subset(origins[0].domain.set_tuple_name("R")):
        return None
    (origin,) = origins
    values = dict(zip(copy.names, source.at, strict=True))
    ranges = {n: (i.start, i.stop - 1) for n, i in box_of(domain_of(reader), reader.names).items()}
    at: list[Affine] = []
    for a in origin.at:
        places = zip(copy.at, reader.at, strict=True) if reader.buffer is copy.buffer else ()
        same = next((r for w, r in places if w == a), None)
        at.append(same if same is not None else a.replaced(values, ranges))
    name = origin.relation.get_tuple_name(isl().dim_type.out)
    names = {n: f"i{k}" for k, n in enumerate(reader.names)}
    place = ", ".join(text(a, names) for a in at)
    here = f"R{read}[{', '.join(names.values())}]"
    relation = isl().Map(f"{{ {here} -> {name}[{place}] }}").intersect_domain(source.domain)
    return Source(origin.writer, tuple(at), source.domain, relation, origin.buffer)


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
        if not s.is_read and s.value is not None and s.opaque is None:
            found.left = MOST_LOOKED_AT
            found.statements[s.number] = found.statement(s)
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
            self.same[v] = first.setdefault((s.buffer.name, s.at, s.loops, s.unmasked, s.fill, *parts), v)

    def statement(self, s: Statement) -> Statement:
        """A write of forwarded values: a scatter is asked for its places, too, where its guards hold."""
        assert s.value is not None
        facts: dict[Expr, bool] = {}
        if s.scatter is None:
            new = self.value(s.value, facts, s.loops)
            return s if new is s.value else replace(s, value=new)
        loops, guards = s.scatter.loops, list[Expr]()
        for guard in s.scatter.guards:
            guards.append(self.value(guard, facts, loops))
            facts |= self.implied(guard, True)
        at = tuple(self.value(i, facts, loops) for i in s.scatter.at)
        scatter = replace(s.scatter, at=at, guards=tuple(guards))
        return replace(s, value=self.value(s.value, facts, loops), scatter=scatter)

    def value(self, e: Expr, facts: Facts, loops: tuple[For, ...]) -> Expr:
        """An expression for the iterations of loops in which conditions are what they are known to be."""
        self.left -= 1
        if self.left < 0 or e.free.isdisjoint(self.chosen):
            return e
        match e:
            case Var() if self.chosen[e].loops == loops:
                return self.left_by(self.statements[self.chosen[e].number].value, e, facts, loops)
            case Call("if", (c, x, y)):
                holds, fails = ({**facts, **self.implied(c, truth)} for truth in (True, False))
                parts = self.value(c, facts, loops), self.value(x, holds, loops), self.value(y, fails, loops)
                return rebuild(e, parts)
            case Call() if all(isinstance(a, Call | Var | Literal) for a in e.args):
                return rebuild(e, tuple(self.value(a, facts, loops) for a in e.args))
            case _:
                return e

    def left_by(self, written: Expr | None, read: Expr, facts: Facts, loops: tuple[For, ...]) -> Expr:
        """The branch of a choice that a read of it gets."""
        match written:
            case Call("if", (c, x, y)) if (known := facts.get(self.plain(c))) is not None:
                branch = x if known else y
                inner = self.left_by(branch, read, facts, loops)
                return self.value(branch, facts, loops) if inner is read else inner
            case _:
                return read

    def plain(self, c: Expr) -> Expr:
        """A condition in terms of the first of all reads that find the same."""
        return substitute(c, {v: self.same[v] for v in c.free if v in self.same})

    def implied(self, c: Expr, truth: bool) -> dict[Expr, bool]:
        """The conditions that are known where one holds, or does not, itself among them."""
        known = {self.plain(c): truth}
        match c:
            case Call("not", (x,)):
                return known | self.implied(x, not truth)
            case Call("and", (x, y)) | Call("if", (x, y, Literal(False))) if truth:
                return known | self.implied(x, True) | self.implied(y, True)
            case Call("or", (x, y)) | Call("if", (x, Literal(True), y)) if not truth:
                return known | self.implied(x, False) | self.implied(y, False)
            case _:
                return known


def _is_choice(s: Statement) -> bool:
    return isinstance(s.value, Call) and s.value.op == "if" and s.scatter is None and s.opaque is None


def with_reads_once(
    statements: Sequence[Statement], flow: Mapping[int, Sequence[Source]], masked: bool = True
) -> list[Statement]:
    """The statements, of which each write uses one read of what several find alike.

    Without `masked` nothing is asked of a read where its mask does not hold.
    """
    reads = {s.result: s for s in statements if s.result is not None}
    return [_once(s, [reads[v] for v in s.uses if v in reads], flow, masked) for s in statements]


def _once(write: Statement, used: list[Statement], flow: Mapping[int, Sequence[Source]], masked: bool) -> Statement:
    if write.value is None or write.opaque is not None or write.scatter is not None:
        return write
    new: dict[Var, Expr] = {}
    kept: list[Statement] = []
    # those of the fewest demands are asked for in the most iterations
    for r in sorted(used, key=lambda s: (len(s.constraints), s.number)):
        assert r.result is not None
        same = next((k for k in kept if _finds_the_same(k, r, flow, masked)), None)
        if same is None or same.result is None:
            kept.append(r)
        else:
            new[r.result] = same.result
    return replace(write, value=substitute(write.value, new)) if new else write


def _finds_the_same(a: Statement, b: Statement, flow: Mapping[int, Sequence[Source]], masked: bool) -> bool:
    """True if a read finds all that another one does, which is asked for in no more iterations."""
    if a.buffer is not b.buffer or a.at != b.at or a.loops != b.loops or a.own or b.own:
        return False
    if masked and (a.unmasked, a.fill) != (b.unmasked, b.fill):
        return False

    def asked() -> bool:
        inside = domain_of(b)
        name = inside.get_tuple_name()
        here, there = _by_origin(flow[b.number], name), _by_origin(flow[a.number], name)
        if not here.keys() <= there.keys() or not inside.is_subset(domain_of(a).set_tuple_name(name)):
            return False
        found = {o: relation.intersect_domain(inside) for o, relation in there.items()}
        return all(here[o].is_equal(m) if o in here else m.is_empty() for o, m in found.items())

    return bool(decided(asked, PARTS))


def _by_origin(sources: Sequence[Source], reader: str) -> dict[tuple[int | None, str], Any]:
    """Origins of values, by writer and buffer, in terms of the iterations of one reader."""
    found: dict[tuple[int | None, str], Any] = {}
    for s in sources:
        part, key = s.relation.set_tuple_name(isl().dim_type.in_, reader), (s.writer, s.buffer)
        found[key] = found[key].union(part) if key in found else part
    return found
