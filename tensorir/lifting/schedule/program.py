"""A region as a fencil: parameters for its arguments, one closure per argument that is written.

>>> from tensorir.lifting.region import parse_region
>>> region = parse_region('''
... region sums {
...   argument A: float32[n=8];
...   argument B: float32[n=8];
...   storage s: float32[];
...   for i in 0:8 {
...     a: float32 ← A[i];
...     b: float32 ← s[];
...     s[] ← a + b;
...     c: float32 ← s[];
...     B[i] ← c;
...   }
... }''')
>>> [(d.dim, d.strategy) for d in lifted(region).decided]
[('i', 'scan'), ('i', 'parallel')]
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from tensorir.ir.build import fencil
from tensorir.ir.nodes import Expr, Fencil
from tensorir.lifting.dataflow.flow import flow_of
from tensorir.lifting.dataflow.propagation import forwarded, live, through_copies, with_reads_once
from tensorir.lifting.dataflow.statements import Uncovered, statements_of
from tensorir.lifting.emission.closures import ordered_closures
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.nests.terms import Buffer
from tensorir.lifting.region.nodes import For, Region, Rule
from tensorir.lifting.schedule.placed import names_along
from tensorir.lifting.schedule.run import Run
from tensorir.lifting.schedule.stepping import Decided


@dataclass(frozen=True, slots=True)
class Lifted:
    """The program of a region, and how each loop runs."""

    fencil: Fencil
    decided: tuple[Decided, ...]


def values_of(
    region: Region, emitter: Emitter, arguments: dict[str, Buffer], exact: bool = False, masked: bool = True,
    asked: Collection[str] | None = None,
) -> tuple[dict[str, Expr], list[Decided]]:  # fmt: skip
    """What the arguments that a region writes hold in the end, and how each loop runs.

    Without `masked` nothing is asked of a read where its mask does not hold. Of a part of a program it may be `asked`
    what other buffers hold. Copies are seen through, or made where that covers more; what neither covers runs step by
    step along its outermost loops. Raises Uncovered for the rest.
    """
    outermost = any(isinstance(node, For) and node.rule is not Rule.LOCKSTEP for node in region.body)
    reasons: list[Uncovered] = []
    for copies, in_steps in ((True, False), (False, False), *([(True, True)] if outermost else [])):
        asserted = len(emitter.asserted)
        try:
            return _values_of(region, emitter, arguments, exact, masked, asked, copies, in_steps)
        except Uncovered as reason:
            reasons.append(reason)
            del emitter.asserted[asserted:]
    raise reasons[0]


def _values_of(
    region: Region, emitter: Emitter, arguments: dict[str, Buffer], exact: bool, masked: bool,
    asked: Collection[str] | None, copies: bool, in_steps: bool,
) -> tuple[dict[str, Expr], list[Decided]]:  # fmt: skip
    statements = statements_of(region, asked, in_steps)
    direct = flow_of(statements)
    flow = through_copies(statements, direct) if copies else direct
    statements = with_reads_once(forwarded(statements, flow, masked), flow, masked)
    needed = live(statements, flow, emitter.checked)
    emitter.taken |= {loop.dim for s in statements for loop in s.loops}
    known = {k: flow[k] for k in needed if k in flow}
    run = Run(statements, known, emitter, arguments, values_of, exact, masked, needed)
    run.schedule(needed)
    for s in statements:
        if not s.is_read and s.message is None and s.number not in needed:
            run.decide(s)
    found: dict[str, Expr] = {}
    for s in statements:
        if s.is_end:
            writers = [x.writer for x in direct[s.number] if x.writer is not None]
            wanted = names_along(statements[writers[-1]]) if writers else []
            found[s.buffer.name] = run.end(s, emitter.dims_of(arguments[s.buffer.name], wanted))
    return found, run.decided


def lifted(region: Region, exact: bool = False) -> Lifted:
    """The tensor program of a region. Raises Uncovered for what is not covered."""
    from tensorir.lifting.rewrites.tidy import tidied

    arguments = {b.name: Buffer(b.name, b.element, b.shape, True) for b in region.buffers if b.argument}

    emitter = Emitter(taken=set(arguments))
    values, decided = values_of(region, emitter, arguments, exact)
    params = [emitter.param(b) for b in arguments.values()]
    if not values:
        raise Uncovered("a program that writes no argument")
    stores, buffers = ordered_closures([(arguments[name], x) for name, x in values.items()], params, emitter)
    made = tidied(fencil(region.name, [*params, *buffers], stores), exact)
    return Lifted(replace(made, buffers=frozenset(b.name for b in buffers)), tuple(decided))
