"""Copy propagation: what reads a copy reads what was copied.

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
"""

# islpy has no types of its own that say enough.
# pyright: basic, reportAttributeAccessIssue=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorir.ir.nodes import Var
from tensorir.lifting.accesses.sets import decided
from tensorir.lifting.dataflow.flow import PARTS, Source, isl, sources_of
from tensorir.lifting.dataflow.statements import Statement

__all__ = ["through_copies"]

MOST_SOURCES = 8
"""How many sources a read may have after copies are seen through; those of more stay."""


def through_copies(statements: Sequence[Statement], flow: Mapping[int, list[Source]]) -> dict[int, list[Source]]:
    """The flow with every copy of another read's value replaced by the sources of that."""
    found = {r: list(sources) for r, sources in flow.items()}
    reads = {s.result: s for s in statements if s.result is not None}
    readers: dict[int, set[int]] = {}
    for r, sources in found.items():
        for source in sources:
            if source.writer is not None:
                readers.setdefault(source.writer, set()).add(r)
    for w in statements:
        copied = reads.get(w.value) if isinstance(w.value, Var) and w.scatter is None else None
        if copied is None or copied.loops != w.loops or copied.own != w.own:
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
        for origin in origins:
            start = origin.relation.set_tuple_name(isl().dim_type.in_, source.relation.range().get_tuple_name())
            relation = source.relation.apply_range(start)
            if not relation.is_empty():
                loops = () if origin.writer is None else statements[origin.writer].names
                found += sources_of(relation, names, origin.writer, origin.buffer, loops)
    return found
