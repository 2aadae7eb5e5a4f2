"""Tags: the names of the indices of the hardware that loops are bound to."""

from __future__ import annotations

__all__ = ["is_block", "is_hardware"]


def is_hardware(tag: str) -> bool:
    """Whether a tag names a hardware index; virtual threads are loops."""
    return not tag.startswith(("vthread", "cthread"))


def is_block(tag: str) -> bool:
    """Whether a tag names an index of blocks, not one of the threads in them."""
    return tag.startswith(("blockIdx", "clusterIdx"))
