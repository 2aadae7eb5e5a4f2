"""Names that are not there, or there twice. Every diagnostic with its whole text."""

from __future__ import annotations

import pytest

from tensorir import DiagnosticError
from tensorir.text import parse

FIELD = """\
f(out: tensor<float, I[0:5]>, inp: tensor<float, I[0:5]>) {
  %s
}"""
MESH = """\
f(
  out: tensor<float, V[0:5]>, x: tensor<float, V[0:5]>, e: tensor<float, E[0:9]>,
  V2E: tensor<int, V[0:5], _NB_E[0:3]>
) {
  %s
}"""

CASES = {
    "a variable is misspelled": (
        FIELD % "out ← inpt;",
        """\
p.fencil:2:9: error[N01]: 'inpt' is not known here.
    out ← inpt;
          ^^^^
help: did you mean 'inp'?""",
    ),
    "an output is misspelled": (
        FIELD % "oot ← inp;",
        """\
p.fencil:2:3: error[N01]: 'oot' is not a parameter of this fencil.
    oot ← inp;
    ^^^
help: did you mean 'out'?""",
    ),
    "a builtin is misspelled": (
        FIELD % "out ← expp(inp);",
        """\
p.fencil:2:9: error[N03]: there is no function 'expp'.
    out ← expp(inp);
          ^^^^
help: did you mean 'exp'?""",
    ),
    "a dim stands for its coordinates": (
        FIELD % "out ← I;",
        """\
p.fencil:2:9: error[N01]: 'I' is a dim, not a value.
    out ← I;
          ^
help: its coordinates are pos(I, x).""",
    ),
    "a shift is along an unknown dim": (
        FIELD % "out ← ⟪Ix, 1⟫(inp);",
        """\
p.fencil:2:10: error[N04]: there is no dim or table 'Ix' here.
    out ← ⟪Ix, 1⟫(inp);
           ^^
help: did you mean 'I'?""",
    ),
    "a shift goes through an unknown table": (
        MESH % "out ← ⟪V2C, 0⟫(x);",
        """\
p.fencil:5:10: error[N04]: there is no dim or table 'V2C' here.
    out ← ⟪V2C, 0⟫(x);
           ^^^
help: did you mean 'V2E'?""",
    ),
    "an abstract offset is not declared": (
        FIELD % "out ← ⟪kₒ, 1ₒ⟫(inp);",
        """\
p.fencil:2:10: error[N04]: there is no offset 'kₒ' here.
    out ← ⟪kₒ, 1ₒ⟫(inp);
           ^^
help: known here: 'I'.""",
    ),
    "a long shift is along an unknown dim": (
        FIELD % "out ← cartesian_shift(Q, 1)(inp);",
        """\
p.fencil:2:9: error[N04]: no dim of this program is named 'Q'.
    out ← cartesian_shift(Q, 1)(inp);
          ^^^^^^^^^^^^^^^^^^^^^^^^^^
help: known here: 'I'.""",
    ),
    "a let refers to itself": (
        FIELD % "out ← let a = a + 1.0; a;",
        """\
p.fencil:2:17: error[N06]: 'a' is used in its own definition.
    out ← let a = a + 1.0; a;
                  ^
help: a let cannot refer to itself.""",
    ),
    "a let takes the name of a builtin": (
        FIELD % "out ← let exp = inp; exp;",
        """\
p.fencil:2:13: error[N07]: 'exp' is a builtin, and let cannot give it another meaning.
    out ← let exp = inp; exp;
              ^^^
help: call it exp_.""",
    ),
    "two parameters have one name": (
        "f(out: tensor<float>, out: tensor<float>) { out ← 1.0; }",
        """\
p.fencil:1:23: error[N02]: there are two parameters named 'out'.
  f(out: tensor<float>, out: tensor<float>) { out ← 1.0; }
                        ^^^
help: rename one.""",
    ),
    "two parameters of a function have one name": (
        FIELD % "out ← (λ(x, x) → x)(inp, inp);",
        """\
p.fencil:2:15: error[N02]: two parameters of this function are named 'x'.
    out ← (λ(x, x) → x)(inp, inp);
                ^
help: rename one.""",
    ),
    "a dim is written twice": (
        "f(out: tensor<float, I[0:5], I[0:3]>) { out ← 1.0; }",
        """\
p.fencil:1:30: error[N02]: the dim 'I' is written twice.
  f(out: tensor<float, I[0:5], I[0:3]>) { out ← 1.0; }
                               ^^^^^^
help: write each dim once.""",
    ),
    "an offset is declared twice": (
        """\
offsets { i: I, i: J }
f(out: tensor<float>) { out ← 1.0; }""",
        """\
p.fencil:1:17: error[N02]: the offset 'i' is declared twice.
  offsets { i: I, i: J }
                  ^
help: declare it once.""",
    ),
    "an element type is misspelled": (
        "f(out: tensor<flaot, I[0:5]>) { out ← 1.0; }",
        """\
p.fencil:1:15: error[N09]: there is no element type 'flaot'.
  f(out: tensor<flaot, I[0:5]>) { out ← 1.0; }
                ^^^^^
help: did you mean 'float'?""",
    ),
    "an operator is no builtin": (
        FIELD % "out ← operator(foo, tensor<float>)(inp);",
        """\
p.fencil:2:18: error[N03]: there is no elementwise builtin 'foo'.
    out ← operator(foo, tensor<float>)(inp);
                   ^^^
help: such as +, min or exp.""",
    ),
    "an interval depends on a parameter": (
        "f(out: tensor<float, I[0:n]>, n: tensor<int>) { out ← 1.0; }",
        """\
p.fencil:1:31: error[N10]: 'n' is a parameter, and an interval cannot depend on its value.
  f(out: tensor<float, I[0:n]>, n: tensor<int>) { out ← 1.0; }
                                ^
help: intervals depend on sizes, which are no parameters; rename 'n' or the size.""",
    ),
    "a fencil computes nothing": (
        "f(out: tensor<float>) { }",
        """\
p.fencil:1:1: error[N05]: 'f' computes nothing.
  f(out: tensor<float>) { }
  ^
help: add a closure: out ← e;""",
    ),
    "several fencils and none is named": (
        "f(x: tensor<float>) { x ← 1.0 } g(x: tensor<float>) { x ← 1.0 }",
        """\
p.fencil:1:33: error[N08]: there are 2 fencils here: 'f', 'g'.
  f(x: tensor<float>) { x ← 1.0 } g(x: tensor<float>) { x ← 1.0 }
                                  ^
help: name the one that you want: fencil="f".""",
    ),
    "two fencils have one name": (
        "f(x: tensor<float>) { x ← 1.0 } f(x: tensor<float>) { x ← 2.0 }",
        """\
p.fencil:1:33: error[N12]: there are two fencils named 'f'.
  f(x: tensor<float>) { x ← 1.0 } f(x: tensor<float>) { x ← 2.0 }
                                  ^
help: rename one.""",
    ),
    "a name reads what was stored into since": (
        """\
f(x: tensor<float>, y: tensor<float>) {
  let t = exp(x);
  x ← t;
  y ← t × 2.0;
}""",
        """\
p.fencil:4:7: error[N13]: 't' reads 'x', into which a closure has stored since.
    y ← t × 2.0;
        ^
help: bind it again behind that closure: let t = ...;""",
    ),
    "a function reads what was stored into since": (
        """\
f(x: tensor<float>, y: tensor<float>) {
  let t = λ(a: tensor<float>) → a × x;
  x ← t(1.0);
  y ← t(2.0);
}""",
        """\
p.fencil:4:7: error[N13]: 't' reads 'x', into which a closure has stored since.
    y ← t(2.0);
        ^
help: bind it again behind that closure: let t = ...;""",
    ),
    "a name for closures is that of a parameter": (
        """\
f(x: tensor<float>, y: tensor<float>) {
  let x = 1.0;
  y ← x;
}""",
        """\
p.fencil:2:7: error[N02]: 'x' is a parameter of this fencil.
    let x = 1.0;
        ^
help: bind another name.""",
    ),
    "a name stands behind the last closure": (
        """\
f(x: tensor<float>, y: tensor<float>) {
  y ← x;
  let t = 1.0;
}""",
        """\
p.fencil:3:7: error[S01]: 't' is bound and then used in nothing.
    let t = 1.0;
        ^
help: the result follows: let t = e; t + t""",
    ),
    "a text without a fencil": (
        """\
// nothing yet
""",
        """\
p.fencil:1:1: error[N08]: there is no fencil in this text.
  // nothing yet
  ^
help: write name(out: tensor<float, I[0:5]>, ...) { out ← e; }.""",
    ),
}


@pytest.mark.parametrize(("program", "expected"), CASES.values(), ids=CASES)
def test_the_diagnostic_is(program: str, expected: str):
    with pytest.raises(DiagnosticError) as error:
        parse(program, name="p.fencil")
    assert str(error.value) == expected
