"""TIR written as calls of its constructors: `PrimFunc(params=[...], body=AttrStmt(attr_key="thread_extent", ...))`.

That is how documents show what passes do. What such a text leaves out, `...`, is kept as left out: it reads, prints and
reads again, and is refused by name where it would have to run.
"""

from __future__ import annotations

from tensorir.tir.constructors.reader import read_constructors
from tensorir.tir.constructors.syntax import is_constructed

__all__ = ["is_constructed", "read_constructors"]
