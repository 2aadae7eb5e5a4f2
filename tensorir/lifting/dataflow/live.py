"""Liveness: the reads and writes that something which is asked for in the end needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorir.lifting.dataflow.flow import Source
from tensorir.lifting.dataflow.statements import Statement
from tensorir.lifting.region.nodes import While

__all__ = ["live"]


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
