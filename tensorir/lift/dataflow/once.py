"""Reads of a write that find the same are one read: the old value that a guarded update keeps is what it combines.

>>> from tensorir.lift.region import parse_region
>>> from tensorir.lift.dataflow.flow import flow_of
>>> from tensorir.lift.dataflow.statements import statements_of
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

# islpy has no types of its own that say enough.
# pyright: basic, reportAttributeAccessIssue=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tensorir.ir import Expr, Var
from tensorir.lift.accesses.sets import decided
from tensorir.lift.dataflow.flow import PARTS, Source, domain_of, isl
from tensorir.lift.dataflow.statements import Statement
from tensorir.walk import substitute

__all__ = ["with_reads_once"]


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
    """Whether a read finds all that another one does, which is asked for in no more iterations."""
    if a.buffer is not b.buffer or a.at != b.at or a.loops != b.loops or a.own or b.own:
        return False
    if (masked and a.unmasked != b.unmasked) or not {s.writer for s in flow[b.number]} <= {
        s.writer for s in flow[a.number]
    }:
        return False

    def asked() -> bool:
        inside = domain_of(b)
        name = inside.get_tuple_name()
        here, there = _by_writer(flow[b.number], name), _by_writer(flow[a.number], name)
        if not inside.is_subset(domain_of(a).set_tuple_name(name)):
            return False
        found = {w: relation.intersect_domain(inside) for w, relation in there.items()}
        return all(here[w].is_equal(m) if w in here else m.is_empty() for w, m in found.items())

    return bool(decided(asked, PARTS))


def _by_writer(sources: Sequence[Source], reader: str) -> dict[int | None, Any]:
    """Where each writer made what is found, in terms of the iterations of one reader."""
    found: dict[int | None, Any] = {}
    for s in sources:
        part = s.relation.set_tuple_name(isl().dim_type.in_, reader)
        found[s.writer] = found[s.writer].union(part) if s.writer in found else part
    return found
