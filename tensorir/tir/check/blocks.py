"""The rules of blocks: what they declare against what they do, and buffers that match regions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.check.expressions import Finding
from tensorir.tir.check.proofs import Equality, compare
from tensorir.tir.ranges import Bounds
from tensorir.tir.walk import walk

__all__ = ["declared_rule", "match_rule"]


def declared_rule(block: n.Block) -> Iterator[tuple[Finding, Span]]:
    """A block that declares regions declares every buffer that it reads or writes and that is not its own."""
    if not (block.reads or block.writes):
        return
    writes = {region.buffer for region in block.writes}
    reads = {region.buffer for region in block.reads} | writes
    memory_read = {buffer.data for buffer in reads}
    memory_written = {buffer.data for buffer in writes}
    own = set(block.alloc_buffers) | {match.buffer for match in block.match_buffers}
    owned = {buffer.data for buffer in own}
    told: set[tuple[n.Buffer, str]] = set()
    for part in (block.init, block.body):
        for node in walk(part) if part is not None else ():
            match node:
                case n.Block(alloc_buffers=inner, match_buffers=matches):
                    own |= {*inner, *(match.buffer for match in matches)}
                    owned |= {buffer.data for buffer in own}
                    continue
                case n.AllocBuffer(buffer) | n.DeclBuffer(buffer):
                    own.add(buffer)
                    owned.add(buffer.data)
                    continue
                case n.BufferLoad(buffer):
                    verb, known, memory = "read", reads, memory_read
                case n.BufferStore(buffer):
                    verb, known, memory = "written", writes, memory_written
                case _:
                    continue
            if buffer in known or buffer in own or buffer.data in memory or buffer.data in owned:
                continue
            if (buffer, verb) not in told:
                told.add((buffer, verb))
                form = "T.reads" if verb == "read" else "T.writes"
                message = f"{buffer.name!r} is {verb} in the block {block.name!r}, but {form} does not name it."
                yield ("TC78", message, "error"), node.span


def match_rule(match: n.MatchBufferRegion, bounds: Mapping[n.Var, Bounds]) -> Iterator[Finding]:
    """Type, alignment, scope, offset and shape of a buffer that names a region.

    A shape that differs from the region's for every value of the variables around is an error; one that is not proven
    to be the region's is a note, since TVM leaves it to the run.
    """
    buffer, source, region = match.buffer, match.source.buffer, match.source.region
    if buffer.dtype != source.dtype:
        yield "TC80", f"{buffer.name!r} is {buffer.dtype}, but {source.name!r} is {source.dtype}.", "error"
    if buffer.data_alignment and source.data_alignment % buffer.data_alignment:
        message = (
            f"{buffer.name!r} is aligned to {buffer.data_alignment}, but {source.name!r} to {source.data_alignment}."
        )
        yield "TC81", message, "error"
    if buffer.scope != source.scope:
        yield "TC82", f"{buffer.name!r} is in {buffer.scope!r}, but {source.name!r} in {source.scope!r}.", "error"
    if n.BufferType.AUTO_BROADCAST in (buffer.buffer_type, source.buffer_type):
        yield "TC83", f"{buffer.name!r} matches a region, so neither may broadcast by itself.", "error"
    left_out = len(region) - len(buffer.shape)
    if left_out < 0:
        message = f"{buffer.name!r} has {len(buffer.shape)} dimensions, but the region has {len(region)}."
        yield "TC84", message, "error"
        return
    one = n.IntImm(1, n.DataType("int", 32))
    for part in region[:left_out]:
        found = compare(part.extent, one, bounds)
        if found is not Equality.ALWAYS:
            message = f"{buffer.name!r} leaves out a dimension of the region whose extent is not 1."
            if found is not Equality.NEVER:
                message = f"{buffer.name!r} leaves out a dimension whose extent, {part.extent}, is not proven to be 1."
            yield "TC85", message, "error" if found is Equality.NEVER else "warning"
    for place, (extent, part) in enumerate(zip(buffer.shape, region[left_out:], strict=True)):
        if isinstance(extent, n.Var):
            continue
        found = compare(extent, part.extent, bounds)
        if found is not Equality.ALWAYS:
            message = f"extent {place} of {buffer.name!r} is {extent}, but the region has {part.extent}."
            if found is not Equality.NEVER:
                message = (
                    f"extent {place} of {buffer.name!r} is {extent}; the region's, {part.extent}, is not proven so."
                )
            yield "TC86", message, "error" if found is Equality.NEVER else "warning"
