"""Text that is not of the grammar. Every diagnostic with its whole text."""

from __future__ import annotations

import pytest

from tensorir import DiagnosticError
from tensorir.text import parse

FIELD = """\
f(out: tensor<float, I[0:5]>, inp: tensor<float, I[0:5]>) {
  %s
}"""

CASES = {
    "a function has no results": (
        FIELD % "out ← loop(0, 3)(λ(i, a) → i < 2, λ(i, a) → {}, inp);",
        """\
p.fencil:2:47: error[S01]: this function returns nothing.
    out ← loop(0, 3)(λ(i, a) → i < 2, λ(i, a) → {}, inp);
                                                ^^
help: its results are written {a + 1, b}.""",
    ),
    "results are not closed": (
        FIELD % "out ← loop(0, 3)(λ(i, a, b) → i < 2, λ(i, a, b) → {a b}, inp, inp);",
        """\
p.fencil:2:56: error[S01]: '}' is needed here, and this is 'b'.
    out ← loop(0, 3)(λ(i, a, b) → i < 2, λ(i, a, b) → {a b}, inp, inp);
                                                         ^
help: a product needs its sign: 2.0 × x.""",
    ),
    "an operand is missing": (
        FIELD % "out ← inp +;",
        """\
p.fencil:2:14: error[S01]: an expression is needed here, and this is ';'.
    out ← inp +;
               ^
help: write a name, a number, or something between parentheses.""",
    ),
    "an operator is missing": (
        FIELD % "out ← 2.0 inp;",
        """\
p.fencil:2:13: error[S01]: an operator or ';' is needed here, and this is 'inp'.
    out ← 2.0 inp;
              ^^^
help: a product needs its sign: 2.0 × x.""",
    ),
    "an equals sign stands for an arrow": (
        FIELD % "out = inp;",
        """\
p.fencil:2:7: error[S01]: '←' is needed here, and this is '='.
    out = inp;
        ^
help: a closure stores with ← or <-.""",
    ),
    "two arrows in one closure": (
        FIELD % "out ← inp ← inp;",
        """\
p.fencil:2:13: error[S01]: an operator or ';' is needed here, and this is '←'.
    out ← inp ← inp;
              ^
help: one closure stores into one parameter; comparisons are written =.""",
    ),
    "a parenthesis is never closed": (
        FIELD % "out ← (inp;",
        """\
p.fencil:2:9: error[S04]: this '(' is never closed.
    out ← (inp;
          ^
help: add ')'.""",
    ),
    "a parenthesis closes nothing": (
        FIELD % "out ← inp);",
        """\
p.fencil:2:12: error[S04]: this ')' closes nothing.
    out ← inp);
             ^
help: remove it.""",
    ),
    "a brace is never closed": (
        "f(out: tensor<float>) { out ← 1.0;",
        """\
p.fencil:1:23: error[S04]: this '{' is never closed.
  f(out: tensor<float>) { out ← 1.0;
                        ^
help: add '}'.""",
    ),
    "a strange character": (
        FIELD % "out ← inp @ 2.0;",
        """\
p.fencil:2:13: error[S02]: the character '@' means nothing here.
    out ← inp @ 2.0;
              ^
help: remove it; a name with such characters stands between backticks.""",
    ),
    "a NUL byte": (
        "f(out: tensor<float>) { out ← 1.0;\x00 }",
        """\
p.fencil:1:35: error[S02]: the character U+0000 means nothing here.
  f(out: tensor<float>) { out ← 1.0;� }
                                    ^
help: this is no text file, or it is damaged.""",
    ),
    "a comment never ends": (
        "f(out: tensor<float>) { out ← 1.0; } /* and so on",
        """\
p.fencil:1:38: error[S03]: this comment never ends.
  f(out: tensor<float>) { out ← 1.0; } /* and so on
                                       ^^
help: end it with */.""",
    ),
    "a text never ends": (
        FIELD % """out ← print("a)(inp);""",
        """\
p.fencil:2:15: error[S03]: this text never ends.
    out ← print("a)(inp);
                ^^^^^^^^^
help: end it with " on the same line.""",
    ),
    "a name never ends": (
        FIELD % "out ← `inp;",
        """\
p.fencil:2:9: error[S03]: this name never ends.
    out ← `inp;
          ^^^^^
help: end it with ` on the same line.""",
    ),
    "a wrong escape in a text": (
        FIELD % """out ← print("\\q")(inp);""",
        """\
p.fencil:2:15: error[S03]: there is a wrong escape in this text.
    out ← print("\\q")(inp);
                ^^^^
help: escapes are those of JSON: \\n, \\u00e9.""",
    ),
    "a wrong escape in a name": (
        FIELD % "out ← `\\q`;",
        """\
p.fencil:2:9: error[S03]: there is a wrong escape in this name.
    out ← `\\q`;
          ^^^^
help: escapes are those of JSON: \\u00e9.""",
    ),
    "a text stands for a value": (
        FIELD % """out ← "a";""",
        """\
p.fencil:2:9: error[S01]: a text stands only in assert_ and print.
    out ← "a";
          ^^^
help: write assert_(x, c, "text").""",
    ),
    "a name stands for a text": (
        FIELD % "out ← assert_(inp, inp > 0.0, x);",
        """\
p.fencil:2:33: error[S01]: a text is needed here, and this is 'x'.
    out ← assert_(inp, inp > 0.0, x);
                                  ^
help: texts stand between double quotes: "text".""",
    ),
    "a shift of nothing": (
        FIELD % "out ← ⟪⟫(inp);",
        """\
p.fencil:2:9: error[S14]: this shift names no dim and no table.
    out ← ⟪⟫(inp);
          ^^
help: a shift is written ⟪I, 1⟫(x), ⟪V2E, 0⟫(x) or ⟪V2E⟫(x).""",
    ),
    "a distance without a dim": (
        FIELD % "out ← ⟪1⟫(inp);",
        """\
p.fencil:2:10: error[S14]: this distance has no dim or table before it.
    out ← ⟪1⟫(inp);
           ^
help: a shift is written ⟪I, 1⟫(x), ⟪V2E, 0⟫(x) or ⟪V2E⟫(x).""",
    ),
    "a dim without a distance": (
        FIELD % "out ← ⟪I⟫(inp);",
        """\
p.fencil:2:10: error[S14]: how far along I?
    out ← ⟪I⟫(inp);
           ^
help: write ⟪I, 1⟫; tables may stand alone.""",
    ),
    "a shift without an operand": (
        FIELD % "out ← ⟪I, 1⟫;",
        """\
p.fencil:2:15: error[S01]: '(' is needed here, and this is ';'.
    out ← ⟪I, 1⟫;
                ^
help: a shift needs its operand: ⟪I, 1⟫(x).""",
    ),
    "a shift of two operands": (
        FIELD % "out ← ⟪I, 1⟫(inp, inp);",
        """\
p.fencil:2:9: error[S14]: a shift has one operand, and here are 2.
    out ← ⟪I, 1⟫(inp, inp);
          ^^^^^^^^^^^^^^^^
help: a shift is written ⟪I, 1⟫(x), ⟪V2E, 0⟫(x) or ⟪V2E⟫(x).""",
    ),
    "an offset stands outside of a shift": (
        FIELD % "out ← inp + 1ₒ;",
        """\
p.fencil:2:15: error[S11]: '1ₒ' is an offset, and stands between ⟪ and ⟫ only.
    out ← inp + 1ₒ;
                ^^
help: drop the ₒ.""",
    ),
    "a number with letters": (
        FIELD % "out ← 1x;",
        """\
p.fencil:2:9: error[S06]: '1x' is not a number.
    out ← 1x;
          ^^
help: numbers are written 1, 1.0, 1.0e-3, 1.0f; names begin with a letter.""",
    ),
    "a number with too many digits": (
        FIELD % ("out ← 0." + "1" * 1000 + ";"),
        """\
p.fencil:2:9: error[S07]: this number has 1002 characters, and 1000 is the limit.
    out ← 0.1111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111…
          ^^^^^^^^^^^^^^^^^^^^
help: no element type holds so many digits.""",
    ),
    "an integer that is too large": (
        FIELD % "out ← 3000000000;",
        """\
p.fencil:2:9: error[S12]: 3000000000 is not an int32.
    out ← 3000000000;
          ^^^^^^^^^^
help: int32 holds -2147483648 to 2147483647; write int64(...) for a wider one.""",
    ),
    "a negative unsigned integer": (
        FIELD % "out ← uint8(-1);",
        """\
p.fencil:2:9: error[S12]: -1 is not a uint8.
    out ← uint8(-1);
          ^^^^^^^^^
help: uint8 holds 0 to 255; write int64(...) for a wider one.""",
    ),
    "an integer with a point": (
        FIELD % "out ← int8(1.5);",
        """\
p.fencil:2:9: error[S12]: 1.5 is not an int8.
    out ← int8(1.5);
          ^^^^^^^^^
help: write it without a point, or cast(1.5, int8).""",
    ),
    "a float that is too large": (
        FIELD % "out ← 1e400;",
        """\
p.fencil:2:9: error[S12]: 1e400 is larger than every float64.
    out ← 1e400;
          ^^^^^
help: write inf if that is meant.""",
    ),
    "a half that is too large": (
        FIELD % "out ← float16(1e6);",
        """\
p.fencil:2:9: error[S12]: 1000000.0 is larger than every float16.
    out ← float16(1e6);
          ^^^^^^^^^^^^
help: use a wider type, such as float64.""",
    ),
    "comparisons in a row": (
        FIELD % "out ← inp < 1.0 < 2.0;",
        """\
p.fencil:2:19: error[S13]: comparisons do not chain.
    out ← inp < 1.0 < 2.0;
                    ^
help: write a < b ∧ b < c, or put one between parentheses.""",
    ),
    "a builtin without its operands": (
        FIELD % "out ← reduce(+)(inp);",
        """\
p.fencil:2:17: error[S01]: ',' is needed here, and this is ')'.
    out ← reduce(+)(inp);
                  ^
help: it is written reduce(f, x[, dim])(x, ...).""",
    ),
    "a conversion of two values": (
        FIELD % "out ← int(inp, inp);",
        """\
p.fencil:2:9: error[S01]: int32(...) converts one value.
    out ← int(inp, inp);
          ^^^^^^^^^^^^^
help: it is written int32(x).""",
    ),
    "a keyword is bound": (
        FIELD % "out ← let if = inp; inp;",
        """\
p.fencil:2:13: error[S01]: a name is needed here, and this is 'if'.
    out ← let if = inp; inp;
              ^^
help: 'if' means something else; write `if` to use it as a name.""",
    ),
    "a choice without then": (
        FIELD % "out ← if inp > 0.0 inp else inp;",
        """\
p.fencil:2:22: error[S01]: 'then' is needed here, and this is 'inp'.
    out ← if inp > 0.0 inp else inp;
                       ^^^
help: a choice is written if c then a else b, or if(c, a, b).""",
    ),
    "a binding that is never used in anything": (
        FIELD % "out ← let t = inp;",
        """\
p.fencil:2:13: error[S01]: 't' is bound and then used in nothing.
    out ← let t = inp;
              ^
help: the result follows: let t = e; t + t""",
    ),
    "a parameter without a type": (
        "f(out, inp: tensor<float>) { out ← inp; }",
        """\
p.fencil:1:6: error[S01]: ':' is needed here, and this is ','.
  f(out, inp: tensor<float>) { out ← inp; }
       ^
help: a parameter has a type: out: tensor<float, I[0:5]>.""",
    ),
    "an interval without brackets": (
        "f(out: tensor<float, I 0:5>) { out ← 1.0; }",
        """\
p.fencil:1:24: error[S01]: '[' is needed here, and this is '0'.
  f(out: tensor<float, I 0:5>) { out ← 1.0; }
                         ^
help: give its interval: I[0:5].""",
    ),
    "an interval without a colon": (
        "f(out: tensor<float, I[5]>) { out ← 1.0; }",
        """\
p.fencil:1:25: error[S01]: ':' is needed here, and this is ']'.
  f(out: tensor<float, I[5]>) { out ← 1.0; }
                          ^
help: an interval has a start and a stop: I[0:5].""",
    ),
    "a bound with a point": (
        "f(out: tensor<float, I[0.5:5]>) { out ← 1.0; }",
        """\
p.fencil:1:24: error[S09]: 0.5 is not a whole number.
  f(out: tensor<float, I[0.5:5]>) { out ← 1.0; }
                         ^^^
help: write it without point, exponent and suffix.""",
    ),
    "a product of two sizes": (
        "f(out: tensor<float, I[0:n*m]>) { out ← 1.0; }",
        """\
p.fencil:1:27: error[S09]: this is not affine in the sizes.
  f(out: tensor<float, I[0:n*m]>) { out ← 1.0; }
                            ^
help: a bound is made of terms such as n, 2*n and 3.""",
    ),
    "a bound that is too large": (
        "f(out: tensor<float, I[0:99999999999999999999]>) { out ← 1.0; }",
        """\
p.fencil:1:26: error[S10]: this number is too large for a bound.
  f(out: tensor<float, I[0:99999999999999999999]>) { out ← 1.0; }
                           ^^^^^^^^^^^^^^^^^^^^
help: bounds lie between -2^62 and 2^62.""",
    ),
    "a tuple that is too deep": (
        "f(out: tensor<" + "(" * 101 + "float" + ",)" * 101 + ">) { out ← 1.0; }",
        """\
p.fencil:1:115: error[S05]: tuples are nested more than 100 deep, which is the limit.
  …(((((((((((((((((((((((((((((((((((((float,),),),),),),),),),),),),),),),),),),),),),),),),),),),),),),),),),)…
                                       ^
help: use fewer levels.""",
    ),
    "a fencil without closures": (
        "f(out: tensor<float>)",
        """\
p.fencil:1:22: error[S01]: '{' is needed here, and this is the end of the text.
  f(out: tensor<float>)
                       ^
help: the closures of a fencil stand between { and }.""",
    ),
    "errors in two closures and a third one between them": (
        FIELD
        % """\
out ← inp +;
  out ← inp;
  out ← (inp inp);""",
        """\
p.fencil:2:14: error[S01]: an expression is needed here, and this is ';'.
    out ← inp +;
               ^
help: write a name, a number, or something between parentheses.

p.fencil:4:14: error[S01]: ')' is needed here, and this is 'inp'.
    out ← (inp inp);
               ^^^
help: a product needs its sign: 2.0 × x.""",
    ),
}


@pytest.mark.parametrize(("program", "expected"), CASES.values(), ids=CASES)
def test_the_diagnostic_is(program: str, expected: str):
    with pytest.raises(DiagnosticError) as error:
        parse(program, name="p.fencil")
    assert str(error.value) == expected
