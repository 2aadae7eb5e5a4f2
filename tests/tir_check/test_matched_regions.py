"""Buffers that match regions: the extents are proven from the ranges of the iterators, or noted, or refused."""

from __future__ import annotations

import pytest

import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError

HEAD = """@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), n: T.int32):
    for i, j in T.grid(4, 4):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[0:16, 0:16])
            T.writes(A[0:16, 0:16])
"""

PROVEN = {
    "constants": "M = T.match_buffer(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4))",
    "terms that cancel": "M = T.match_buffer(A[vi:vi + (vj + 1), 0:16], (1 + vj, 16))",
    "a last tile that is whole": "M = T.match_buffer(A[vi * 4:vi * 4 + T.min(4, 16 - vi * 4), 0:16], (4, 16))",
    "a quotient that is one": "M = T.match_buffer(A[0:(vi + 4) // 4, 0:16], (16,))",
    "remainders": "M = T.match_buffer(A[0:(vi % 2) * 2 + 1 - vi % 2, 0:16], (vi % 2 + 1, 16))",
    "a size that is bound here": "m = T.int32()\n            M = T.match_buffer(A[0:vi + 1, 0:16], (m, 16))",
    "sizes that are not known": "M = T.match_buffer(A[0:n * 2, 0:16], (n + n, 16))",
}

NOTED = {
    "a last tile that may be cut": (
        "M = T.match_buffer(A[vi * 5:vi * 5 + T.min(5, 16 - vi * 5), 0:16], (5, 16))",
        "extent 0 of 'M' is 5; the region's, T.min(5, 16 - vi * 5), is not proven so.",
    ),
    "a size that wraps around once": (
        "M = T.match_buffer(A[0:T.Cast('int8', vi + 125), 0:16], (vi + 125, 16))",
        "extent 0 of 'M' is vi + 125; the region's, T.Cast(\"int8\", vi + 125), is not proven so.",
    ),
    "a size that nothing bounds": (
        "M = T.match_buffer(A[0:n, 0:16], (4, 16))",
        "extent 0 of 'M' is 4; the region's, n, is not proven so.",
    ),
    "a dimension left out that may be wide": (
        "M = T.match_buffer(A[0:vi + 1, 0:16], (16,))",
        "'M' leaves out a dimension whose extent, vi + 1, is not proven to be 1.",
    ),
}

REFUSED = {
    "an extent that is never the region's": (
        "M = T.match_buffer(A[vi:vi + vj + 2, 0:16], (vi + vj + vi + 7, 16))",
        "TC86",
    ),
    "a remainder that is always less": ("M = T.match_buffer(A[0:vi % 3 + 1, 0:16], (4, 16))", "TC86"),
    "a dimension left out that is never 1": ("M = T.match_buffer(A[0:vi + 2, 0:16], (16,))", "TC85"),
}


def notes(line: str) -> tuple[str, ...]:
    module = tir.parse(f"{HEAD}            {line}\n            A[0, 0] = T.float32(0)\n")
    return tuple(note.message for note in tir.check(module) if note.code in ("TC85", "TC86"))


@pytest.mark.parametrize("name", PROVEN)
def test_an_extent_that_is_always_the_regions_needs_no_note(name: str):
    assert notes(PROVEN[name]) == ()


@pytest.mark.parametrize("name", NOTED)
def test_an_extent_that_may_differ_is_noted(name: str):
    line, sentence = NOTED[name]
    assert notes(line) == (sentence,)


@pytest.mark.parametrize("name", REFUSED)
def test_an_extent_that_always_differs_is_refused(name: str):
    line, code = REFUSED[name]
    with pytest.raises(DiagnosticError) as caught:
        notes(line)
    assert [d.code for d in caught.value.diagnostics if d.severity == "error"] == [code]
