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

from tensorir.integers.affine import Affine
from tensorir.ir.nodes import Var
from tensorir.lifting.accesses.sets import decided, text
from tensorir.lifting.dataflow.flow import PARTS, Source, box_of, domain_of, isl, sources_of
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
    """What a copy of one thing was made of, as a sum of what the reader says; None where isl has to tell."""
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
