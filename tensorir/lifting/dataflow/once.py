"""Reads of a write that find the same are one read: the old value that a guarded update keeps is what it combines.

>>> from tensorir.lifting.region import parse_region
>>> from tensorir.lifting.dataflow.flow import flow_of
>>> from tensorir.lifting.dataflow.statements import statements_of
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

from tensorir.ir.nodes import Expr, Var
from tensorir.ir.rewrite import substitute
from tensorir.lifting.accesses.sets import decided
from tensorir.lifting.dataflow.flow import PARTS, Source, domain_of, isl
from tensorir.lifting.dataflow.statements import Statement

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
    if masked and a.unmasked != b.unmasked:
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
    """Where what is found was made, by its writer and buffer, in terms of the iterations of one reader."""
    found: dict[tuple[int | None, str], Any] = {}
    for s in sources:
        part, key = s.relation.set_tuple_name(isl().dim_type.in_, reader), (s.writer, s.buffer)
        found[key] = found[key].union(part) if key in found else part
    return found
