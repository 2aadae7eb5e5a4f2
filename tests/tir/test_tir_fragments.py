"""Statements without a function around them, and imports alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import nodes as n
from tensorir.tir import parse, parse_fragment

VECTOR = {"A": 'T.Buffer((4,), "float32")', "B": 'T.Buffer((4,), "float32")'}
TENSORS = {"x": 'R.Tensor((4,), "float32")', "y": 'R.Tensor((4,), "float32")'}

FRAGMENTS: dict[str, tuple[str, Mapping[str, str]]] = {
    "loops": ("for i, j in T.grid(4, 4):\n    A[i] = A[i] + B[j]\n", VECTOR),
    "a block": (
        'for i in range(4):\n    with T.sblock("b"):\n        vi = T.axis.spatial(4, i)\n        A[vi] = B[vi]\n',
        VECTOR,
    ),
    "a block of earlier versions": ('with T.block("b"):\n    vi = T.axis.S(4, 0)\n    A[vi] = B[vi]\n', VECTOR),
    "buffer operations": (
        'C = T.alloc_buffer((4,), "float32")\nval = A[i]\nB[i] = val + 1.0\n',
        VECTOR | {"i": "T.int32"},
    ),
    "a dataflow block": ("with R.dataflow():\n    z = R.add(x, y)\n    R.output(z)\n", TENSORS),
    "a dataflow block behind imports": ("from tvm.script import relax as R\nz = R.add(x, y)\n", TENSORS),
}


@pytest.mark.parametrize("name", FRAGMENTS)
def test_a_fragment_is_the_body_of_a_function(name: str):
    text, around = FRAGMENTS[name]
    lines = text.splitlines()
    imports = [line for line in lines if "import" in line]
    relax = "R." in text
    mark = "@R.function(private=True)" if relax else "@T.prim_func(private=True, s_tir=True)"
    params = ", ".join(f"{known}: {kind}" for known, kind in around.items())
    written = [*imports, mark, f"def main({params}):", *(f"    {line}" for line in lines if line not in imports)]
    assert parse_fragment(text, around) == parse("\n".join(written))


def test_imports_alone_are_an_empty_module():
    assert parse_fragment("from tvm.script import tir as T\nimport tvm\n").functions == {}


def test_statements_of_a_fragment_know_their_place():
    body = parse_fragment("for i in range(4):\n    A[i] = 1.0\n", VECTOR)["main"].body
    assert isinstance(body, n.For) and body.body.span.text == "A[i] = 1.0"


def said(text: str, around: Mapping[str, str] | None = None) -> str:
    with pytest.raises(DiagnosticError) as caught:
        parse_fragment(text, around)
    return str(caught.value)


def test_what_a_fragment_does_not_bind_is_to_be_stated():
    assert said("A[0] = 1.0") == (
        "<tir>:1:1: error[TS10]: 'A' is not defined here.\n"
        "  A[0] = 1.0\n"
        "  ^\n"
        "help: state what it is: parse_fragment(text, {'A': 'T.Buffer((8,), \"float32\")'})."
    )


def test_what_stands_around_is_a_type_for_a_name():
    for around in ({"A b": "T.int32"}, {"A": 3}, {"if": "T.int32"}):
        assert said("A[0] = 1.0", around).endswith("is none.")  # type: ignore[arg-type]
    assert said("A[0] = 1.0", {"A": "T.Bufer((8,))"}) == (
        "<tir>:1:1: error[TS12]: T.Bufer is not known.\n  A[0] = 1.0\n  ^^^^^^^^^^\nhelp: did you mean 'T.Buffer'?"
    )


def test_parse_says_who_reads_fragments():
    for text in ("import tvm", "for i in range(4):\n    A[i] = 1.0\n"):
        with pytest.raises(DiagnosticError, match=r"ti\.tir\.parse_fragment"):
            parse(text)
