"""Wrong types: elements, intervals, tables, functions and folds. Every diagnostic with its whole text."""

from __future__ import annotations

import pytest

from tensorir import DiagnosticError
from tensorir.text import parse

COLUMN = """\
f(out: tensor<float, I[0:3], K[0:5]>, x: tensor<float, I[0:3], K[0:5]>) {
  %s
}"""
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
    "a shift inside of a function is to blame for a missing point": (
        FIELD % "out ← (λ(x: tensor<float, I[0:5]>) → ⟪I, 1⟫(x))(inp);",
        """\
p.fencil:2:40: error[T07]: 'out' needs I[0:5], but this provides I[-1:4].
    out ← (λ(x: tensor<float, I[0:5]>) → ⟪I, 1⟫(x))(inp);
                                         ^^^^^^^^^
note: ⟪I, 1⟫ reads one point after, so 1 point is missing there: I[4:5].
help: declare out: tensor<float, I[0:4]>, or give 'inp' more points: I[0:6].""",
    ),
    "a shift to the left is to blame for two missing points": (
        FIELD % "out ← ⟪I, -2⟫(inp) + inp;",
        """\
p.fencil:2:9: error[T07]: 'out' needs I[0:5], but this provides I[2:5].
    out ← ⟪I, -2⟫(inp) + inp;
          ^^^^^^^^^^^^
note: ⟪I, -2⟫ reads 2 points before, so 2 points are missing there: I[0:2].
help: declare out: tensor<float, I[2:5]>, or give 'inp' more points: I[-2:5].""",
    ),
    "of several shifts the one that reads furthest is to blame": (
        FIELD % "out ← ⟪I, -1⟫(⟪I, 2⟫(inp)) + ⟪I, 3⟫(inp);",
        """\
p.fencil:2:32: error[T07]: 'out' needs I[0:5], but this provides I[-1:2].
    out ← ⟪I, -1⟫(⟪I, 2⟫(inp)) + ⟪I, 3⟫(inp);
                                 ^^^^^^^^^^^
note: ⟪I, 3⟫ reads 3 points after, so 3 points are missing there: I[2:5].
help: declare out: tensor<float, I[0:2]>, or give 'inp' more points: I[0:8].""",
    ),
    "shifts of shifts are to blame together": (
        FIELD % "out ← let a = ⟪I, 1⟫(inp); ⟪I, 1⟫(a) + a;",
        """\
p.fencil:2:17: error[T07]: 'out' needs I[0:5], but this provides I[-1:3].
    out ← let a = ⟪I, 1⟫(inp); ⟪I, 1⟫(a) + a;
                  ^^^^^^^^^^^
note: ⟪I, 1⟫ of ⟪I, 1⟫ reads 2 points after, so 2 points are missing there: I[3:5].
help: declare out: tensor<float, I[0:3]>, or give 'inp' more points: I[0:7].""",
    ),
    "a shift that reads the other way is not to blame": (
        "f(out: tensor<float, I[0:5]>, inp: tensor<float, I[2:6]>) { out ← ⟪I, 1⟫(inp); }",
        """\
p.fencil:1:67: error[T07]: 'out' needs I[0:5], but this provides I[1:5].
  f(out: tensor<float, I[0:5]>, inp: tensor<float, I[2:6]>) { out ← ⟪I, 1⟫(inp); }
                                                                    ^^^^^^^^^^^
note: 'inp' is I[2:6], so 1 point is missing there: I[0:1].
help: declare out: tensor<float, I[1:5]>, or give 'inp' more points: I[1:6].""",
    ),
    "a shift is to blame for a part of what is missing": (
        "f(out: tensor<float, I[0:5]>, inp: tensor<float, I[0:3]>) { out ← ⟪I, 1⟫(inp); }",
        """\
p.fencil:1:67: error[T07]: 'out' needs I[0:5], but this provides I[-1:2].
  f(out: tensor<float, I[0:5]>, inp: tensor<float, I[0:3]>) { out ← ⟪I, 1⟫(inp); }
                                                                    ^^^^^^^^^^^
note: ⟪I, 1⟫ reads one point after, and 'inp' is I[0:3], so 3 points are missing there: I[2:5].
help: declare out: tensor<float, I[0:2]>, or give 'inp' more points: I[0:6].""",
    ),
    "an output is larger than its expression without any shift": (
        "f(out: tensor<float, I[0:8]>, inp: tensor<float, I[0:5]>) { out ← inp; }",
        """\
p.fencil:1:67: error[T07]: 'out' needs I[0:8], but this provides I[0:5].
  f(out: tensor<float, I[0:8]>, inp: tensor<float, I[0:5]>) { out ← inp; }
                                                                    ^^^
help: declare out: tensor<float, I[0:5]>, or give 'inp' more points: I[0:8].""",
    ),
    "a part of an output is larger than its expression": (
        FIELD % "out[I[1:5]] ← ⟪I, 1⟫(inp);",
        """\
p.fencil:2:17: error[T07]: 'out' needs I[1:5], but this provides I[-1:4].
    out[I[1:5]] ← ⟪I, 1⟫(inp);
                  ^^^^^^^^^^^
note: ⟪I, 1⟫ reads one point after, so 1 point is missing there: I[4:5].
help: declare out: tensor<float, I[1:4]>, or give 'inp' more points: I[0:6].""",
    ),
    "an intersection is empty": (
        FIELD % "out ← inp[I[0:2]] + inp[I[3:5]];",
        """\
p.fencil:2:23: error[T02]: the operands have no point of I in common: I[0:2] and I[3:5].
    out ← inp[I[0:2]] + inp[I[3:5]];
                        ^^^^^^^^^^^
help: shift or subset one of them so that their intervals of I overlap.""",
    ),
    "elements are mixed": (
        FIELD % "out ← inp + 1;",
        """\
p.fencil:2:15: error[T01]: the operands have different element types: float64 and int32.
    out ← inp + 1;
                ^
help: nothing is converted silently; write cast(x, float64) or cast(x, int32).""",
    ),
    "branches have different elements": (
        FIELD % "out ← if inp > 0.0 then 1.0 else 2;",
        """\
p.fencil:2:36: error[T01]: the branches have different element types: float64 and int32.
    out ← if inp > 0.0 then 1.0 else 2;
                                     ^
help: cast one of them.""",
    ),
    "a condition is a number": (
        FIELD % "out ← if inp then 1.0 else 2.0;",
        """\
p.fencil:2:12: error[T04]: the condition is float64, not bool.
    out ← if inp then 1.0 else 2.0;
             ^^^
help: compare it: x > 0.0.""",
    ),
    "a number stands for a truth": (
        FIELD % "out ← inp ∧ true;",
        """\
p.fencil:2:9: error[T04]: float64 stands where a bool is needed.
    out ← inp ∧ true;
          ^^^
help: compare it with 0: x ≠ 0.""",
    ),
    "a float has no bits": (
        FIELD % "out ← inp & inp;",
        """\
p.fencil:2:9: error[T04]: float64 stands where an integer is needed.
    out ← inp & inp;
          ^^^
help: convert it: cast(x, int32).""",
    ),
    "an integer has no root": (
        FIELD % "out ← sqrt(1);",
        """\
p.fencil:2:14: error[T04]: int32 stands where a float is needed.
    out ← sqrt(1);
               ^
help: convert it: cast(x, float64).""",
    ),
    "a tuple is used as a number": (
        FIELD % "out ← (inp, inp) + 1.0;",
        """\
p.fencil:2:9: error[T05]: a tuple, (float64, float64), stands where one number is needed.
    out ← (inp, inp) + 1.0;
          ^^^^^^^^^^
help: take a member: x[0].""",
    ),
    "an output holds another element": (
        FIELD % "out ← (inp, inp);",
        """\
p.fencil:2:9: error[T37]: 'out' holds float64, but this is (float64, float64).
    out ← (inp, inp);
          ^^^^^^^^^^
help: declare out: tensor<(float, float), I[0:5]>, or cast the expression.""",
    ),
    "a tuple has no such member": (
        FIELD % "out ← (inp, inp)[2];",
        """\
p.fencil:2:9: error[T29]: there is no member 2 in (float64, float64).
    out ← (inp, inp)[2];
          ^^^^^^^^^^
help: members count from 0 to 1.""",
    ),
    "a number has no members": (
        FIELD % "out ← inp[0];",
        """\
p.fencil:2:9: error[T30]: float64 is not a tuple, so it has no member 0.
    out ← inp[0];
          ^^^
help: leave out the index.""",
    ),
    "a tuple is cast as a whole": (
        FIELD % "out ← cast((inp, inp), int);",
        """\
p.fencil:2:14: error[T27]: a tuple cannot be cast as a whole.
    out ← cast((inp, inp), int);
               ^^^^^^^^^^
help: cast its members.""",
    ),
    "bits do not fit": (
        FIELD % "out ← bitcast(inp, int);",
        """\
p.fencil:2:17: error[T28]: float64 has 64 bits and int32 has 32.
    out ← bitcast(inp, int);
                  ^^^
help: bitcast keeps the bits; write cast(x, int32) to convert the value.""",
    ),
    "an expression varies along a dim that the output lacks": (
        "f(out: tensor<float>, inp: tensor<float, I[0:5]>) { out ← inp; }",
        """\
p.fencil:1:59: error[T08]: the expression varies along I, and 'out' has no dim I.
  f(out: tensor<float>, inp: tensor<float, I[0:5]>) { out ← inp; }
                                                            ^^^
help: add I[0:5] to the type of 'out', or reduce over I.""",
    ),
    "a neighbour dim is left over": (
        MESH % "out ← ⟪V2E⟫(e);",
        """\
p.fencil:5:9: error[T08]: the expression varies along _NB_0, and 'out' has no dim _NB_0.
    out ← ⟪V2E⟫(e);
          ^^^^^^^^
help: add _NB_0[0:3] to the type of 'out', or reduce over _NB_0.""",
    ),
    "a table leads to a dim that the operand lacks": (
        MESH % "out ← ⟪V2E, 0⟫(x);",
        """\
p.fencil:5:18: error[T11]: the table leads to E, and the operand has no dim E, only V[0:5].
    out ← ⟪V2E, 0⟫(x);
                   ^
help: shift a tensor on E, or use a table of another dim.""",
    ),
    "a table holds floats": (
        "f(out: tensor<float, V[0:5]>, t: tensor<float, V[0:5], _NB_V[0:3]>) { out ← ⟪t, 0⟫(out); }",
        """\
p.fencil:1:78: error[T10]: a table holds integers, and this holds float64.
  f(out: tensor<float, V[0:5]>, t: tensor<float, V[0:5], _NB_V[0:3]>) { out ← ⟪t, 0⟫(out); }
                                                                               ^
help: shift with a tensor<int, ...> whose entries are coordinates.""",
    ),
    "a tensor that is no table shifts": (
        MESH % "out ← ⟪e, 0⟫(x);",
        """\
p.fencil:5:10: error[T10]: a table holds integers, and this holds float64.
    out ← ⟪e, 0⟫(x);
           ^
help: shift with a tensor<int, ...> whose entries are coordinates.""",
    ),
    "a slot is not in the table": (
        MESH % "out ← ⟪V2E, 3⟫(e);",
        """\
p.fencil:5:9: error[T13]: there is no neighbour 3: the table has the neighbours [0:3].
    out ← ⟪V2E, 3⟫(e);
          ^^^^^^^^^^^
help: use 0 to 2.""",
    ),
    "a shifted interval holds -1": (
        """\
f(out: tensor<float, V[0:5]>, e: tensor<float, E[-1:9]>, V2E: tensor<int, V[0:5], _NB_E[0:3]>) {
  out ← ⟪V2E, 0⟫(e); }""",
        """\
p.fencil:2:18: error[T12]: in a table -1 means absent, and E[-1:9] holds the coordinate -1.
    out ← ⟪V2E, 0⟫(e); }
                   ^
help: write gather(E)(x, indices), where -1 is a coordinate like any other.""",
    ),
    "a reduction has no neighbour dim": (
        MESH % "out ← reduce(+, 0.0)(x);",
        """\
p.fencil:5:9: error[T09]: there is no neighbour dim to reduce over.
    out ← reduce(+, 0.0)(x);
          ^^^^^^^^^^^^^^^^^
help: shift with a table first, ⟪V2E⟫(x), or name a dim: reduce(f, init, I)(x).""",
    ),
    "a selection has no neighbour dim": (
        MESH % "out ← shift_apply(0)(x);",
        """\
p.fencil:5:24: error[T09]: there is no neighbour dim to select from, only V[0:5].
    out ← shift_apply(0)(x);
                         ^
help: shift with a table first: ⟪V2E⟫(x).""",
    ),
    "neighbour dims have different extents": (
        """\
f(
  out: tensor<float, V[0:5]>, e: tensor<float, E[0:9]>, V2E: tensor<int, V[0:5], _NB_E[0:3]>,
  s: tensor<float, _NB_0[0:2]>) {
  out ← reduce(+, 0.0)(s × ⟪V2E⟫(e)); }""",
        """\
p.fencil:4:28: error[T03]: the operands have different numbers of neighbours along _NB_0: [0:2] and [0:3].
    out ← reduce(+, 0.0)(s × ⟪V2E⟫(e)); }
                             ^^^^^^^^
help: neighbours correspond slot by slot; use tables with the same number of neighbours.""",
    ),
    "a reduced dim is nowhere": (
        MESH % "out ← reduce(+, 0.0, Q)(⟪V2E⟫(e));",
        """\
p.fencil:5:27: error[T17]: no argument has the dim Q.
    out ← reduce(+, 0.0, Q)(⟪V2E⟫(e));
                            ^^^^^^^^
help: reduce over a dim that an argument has.""",
    ),
    "a sum starts from an integer": (
        MESH % "out ← reduce(+, 0)(⟪V2E⟫(e));",
        """\
p.fencil:5:16: error[T01]: the operands have different element types: int32 and float64.
    out ← reduce(+, 0)(⟪V2E⟫(e));
                 ^
note: '+' is applied to tensor<int, V[0:5]> and tensor<float, V[0:5]>.
help: nothing is converted silently; write cast(x, int32) or cast(x, float64).""",
    ),
    "an operator gets too many arguments": (
        MESH % "out ← reduce(+, 0.0)(⟪V2E⟫(e), ⟪V2E⟫(e));",
        """\
p.fencil:5:16: error[T15]: '+' takes 2 operands, and here it gets 3.
    out ← reduce(+, 0.0)(⟪V2E⟫(e), ⟪V2E⟫(e));
                 ^
help: write a function that says what happens to all 3: λ(a, b, c) → a + b × c.""",
    ),
    "a captured tensor has the scanned dim": (
        COLUMN
        % """\
out ← scan(
    λ(s: tensor<float, I[0:3]>, a: tensor<float, I[0:3]>) → s + a + x, true, 0.0)(x);""",
        """\
p.fencil:3:69: error[T18]: the function uses 'x' from outside, which has the scanned dim K.
      λ(s: tensor<float, I[0:3]>, a: tensor<float, I[0:3]>) → s + a + x, true, 0.0)(x);
                                                                      ^
help: pass 'x' as an argument of the scan.""",
    ),
    "a scan returns a tuple for a number": (
        COLUMN % "out ← scan(λ(s: tensor<float, I[0:3]>, a: tensor<float, I[0:3]>) → (s, a), true, 0.0)(x);",
        """\
p.fencil:2:14: error[T19]: the function returns tensor<(float, float), I[0:3]>, and the state is tensor<float, I[0:3]>.
    out ← scan(λ(s: tensor<float, I[0:3]>, a: tensor<float, I[0:3]>) → (s, a), true, 0.0)(x);
               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: float64 is needed, and this is (float64, float64).""",
    ),
    "a scan starts from an integer": (
        COLUMN
        % """\
out ← scan(
    λ(s: tensor<float, I[0:3]>, a: tensor<float, I[0:3]>) → s, true, 0)(x);""",
        """\
p.fencil:3:70: error[T19]: init is tensor<int>, and the state is tensor<float, I[0:3]>.
      λ(s: tensor<float, I[0:3]>, a: tensor<float, I[0:3]>) → s, true, 0)(x);
                                                                       ^
help: float64 is needed, and this is int32.""",
    ),
    "the scanned dim is not clear": (
        COLUMN % "out ← scan(λ(s, a) → s + a, true, 0.0)(x);",
        """\
p.fencil:2:9: error[T20]: the scanned dim is not clear: the arguments have I, K.
    out ← scan(λ(s, a) → s + a, true, 0.0)(x);
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: name it: scan(f, true, init, K)(x).""",
    ),
    "a scanned dim is nowhere": (
        COLUMN % "out ← scan(+, true, 0.0, L)(x);",
        """\
p.fencil:2:31: error[T20]: no argument has the dim L to scan over.
    out ← scan(+, true, 0.0, L)(x);
                                ^
help: scan over a dim of an argument.""",
    ),
    "a function gets too few arguments": (
        FIELD % "out ← (λ(x: tensor<float, I[0:5]>, y: tensor<float>) → x + y)(inp);",
        """\
p.fencil:2:10: error[T15]: this function takes 2 arguments, and here it gets 1.
    out ← (λ(x: tensor<float, I[0:5]>, y: tensor<float>) → x + y)(inp);
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: give it as many arguments as parameters.""",
    ),
    "an argument is too small": (
        FIELD % "out ← (λ(x: tensor<float, I[0:9]>) → x)(inp);",
        """\
p.fencil:2:43: error[T16]: I[0:9] is needed, and this provides I[0:5].
    out ← (λ(x: tensor<float, I[0:9]>) → x)(inp);
                                            ^^^
help: the parameter may have the type tensor<float, I[0:5]>, or a part of it.""",
    ),
    "an argument has another element": (
        FIELD % "out ← (λ(x: tensor<float32, I[0:5]>) → x)(inp);",
        """\
p.fencil:2:45: error[T16]: float32 is needed, and this is float64.
    out ← (λ(x: tensor<float32, I[0:5]>) → x)(inp);
                                              ^^^
help: convert it with cast, or change the type of the parameter.""",
    ),
    "an argument varies along a dim too many": (
        COLUMN % "out ← (λ(y: tensor<float, I[0:3]>) → y)(x);",
        """\
p.fencil:2:43: error[T16]: tensor<float, I[0:3]> is needed, and this varies along K.
    out ← (λ(y: tensor<float, I[0:3]>) → y)(x);
                                            ^
help: add K[0:5] to the type.""",
    ),
    "a tensor stands for a function": (
        MESH % "out ← reduce(1.0, 0.0)(⟪V2E⟫(e));",
        """\
p.fencil:5:16: error[T14]: a tensor stands where a function is needed.
    out ← reduce(1.0, 0.0)(⟪V2E⟫(e));
                 ^^^
help: functions are written λ(x) → e.""",
    ),
    "a tensor is applied": (
        FIELD % "out ← inp(inp);",
        """\
p.fencil:2:9: error[T14]: 'inp' is a tensor, and a function is needed here.
    out ← inp(inp);
          ^^^
help: write λ(x) → e.""",
    ),
    "a function stands for a tensor": (
        FIELD % "out ← inp + exp;",
        """\
p.fencil:2:15: error[T14]: 'exp' is a function, and a tensor is needed here.
    out ← inp + exp;
                ^^^
help: apply it: exp(x).""",
    ),
    "a function is stored": (
        FIELD % "out ← λ(x: tensor<float>) → x;",
        """\
p.fencil:2:9: error[T14]: a function cannot be stored.
    out ← λ(x: tensor<float>) → x;
          ^^^^^^^^^^^^^^^^^^^^^^^
help: apply it: f(x).""",
    ),
    "the type of a parameter does not follow": (
        FIELD % "out ← let f = λ(x) → x; f(inp);",
        """\
p.fencil:2:19: error[T38]: the type of 'x' does not follow from anything here.
    out ← let f = λ(x) → x; f(inp);
                    ^
help: write it: x: tensor<float, I[0:5]>.""",
    ),
    "the types of an operator do not follow": (
        FIELD % "out ← let f = (+); inp;",
        """\
p.fencil:2:18: error[T39]: it is not clear what '+' is applied to.
    out ← let f = (+); inp;
                   ^
help: give its types: operator(+, tensor<float>, tensor<float>).""",
    ),
    "pieces leave a gap": (
        FIELD % "out ← concat(inp[I[0:2]], inp[I[3:5]]);",
        """\
p.fencil:2:29: error[T22]: I[0:2] and I[3:5] leave a gap, so they cannot be joined.
    out ← concat(inp[I[0:2]], inp[I[3:5]]);
                              ^^^^^^^^^^^
help: intervals must follow one another: I[0:3], I[3:5].""",
    ),
    "pieces have different dims": (
        FIELD % "out ← concat(inp, 1.0);",
        """\
p.fencil:2:21: error[T23]: the operands have different dims: I[0:5] and no dims.
    out ← concat(inp, 1.0);
                      ^^^
help: add_dim gives a tensor a dim that it lacks.""",
    ),
    "one piece is no concatenation": (
        FIELD % "out ← concat(inp);",
        """\
p.fencil:2:9: error[T06]: concat needs at least two operands.
    out ← concat(inp);
          ^^^^^^^^^^^
help: write concat(a, b).""",
    ),
    "a subset is larger than the whole": (
        FIELD % "out ← inp[I[0:9]];",
        """\
p.fencil:2:13: error[T21]: I[0:9] is not inside of I[0:5].
    out ← inp[I[0:9]];
              ^^^^^^
help: subset to a part of I[0:5].""",
    ),
    "a position along a dim that is not there": (
        FIELD % "out ← pos(J, inp);",
        """\
p.fencil:2:16: error[T25]: there is no dim J here, only I[0:5].
    out ← pos(J, inp);
                 ^^^
help: known here: 'I'.""",
    ),
    "a new dim is there already": (
        FIELD % "out ← add_dim(I, 0, 3, inp);",
        """\
p.fencil:2:26: error[T24]: there is a dim I already: I[0:5].
    out ← add_dim(I, 0, 3, inp);
                           ^^^
help: choose another name.""",
    ),
    "two dims get one name": (
        COLUMN % "out ← rename(I → K)(x);",
        """\
p.fencil:2:23: error[T26]: two dims would be named K.
    out ← rename(I → K)(x);
                        ^
help: choose other names.""",
    ),
    "a split does not come out even": (
        FIELD % "out ← split_dim(I, A, B, 2)(inp);",
        """\
p.fencil:2:31: error[T32]: I[0:5] cannot be split by 2: both ends must be multiples of it.
    out ← split_dim(I, A, B, 2)(inp);
                                ^^^
help: subset it, or choose another size.""",
    ),
    "an index is a float": (
        FIELD % "out ← gather(I)(inp, inp);",
        """\
p.fencil:2:19: error[T33]: the index of I is float64, not an integer.
    out ← gather(I)(inp, inp);
                    ^^^
help: convert it: cast(i, int32).""",
    ),
    "an index is missing": (
        COLUMN % "out ← gather(I, K)(x, 1);",
        """\
p.fencil:2:9: error[T33]: 2 dims cannot be indexed by 1 index.
    out ← gather(I, K)(x, 1);
          ^^^^^^^^^^^^^^^^^^
help: give one index per dim, in their order.""",
    ),
    "a rule for indices is misspelled": (
        FIELD % "out ← gather(I, clmp)(inp, 1);",
        """\
p.fencil:2:25: error[T25]: there is no dim clmp here, only I[0:5].
    out ← gather(I, clmp)(inp, 1);
                          ^^^
help: did you mean 'clamp'?""",
    ),
    "a scatter does not say what it runs over": (
        FIELD % "out ← scatter(+, I)(inp, pos(I, inp), 1.0);",
        """\
p.fencil:2:21: error[S01]: ',' is needed here, and this is ')'.
    out ← scatter(+, I)(inp, pos(I, inp), 1.0);
                      ^
help: it is written scatter(f, dim, ..., over: (dim, ...)[, mode])(x, x, ...).""",
    ),
    "a scatter names the wrong dims": (
        FIELD % "out ← scatter(+, I, over: (J))(inp, 1, 1.0);",
        """\
p.fencil:2:9: error[T34]: the updates run over (), and over names (J).
    out ← scatter(+, I, over: (J))(inp, 1, 1.0);
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: name every dim of indices and updates that is not an unindexed dim of the base, slowest first.""",
    ),
    "the condition of a loop is a tensor": (
        FIELD % "out ← loop(0, none)(λ(i, a) → a > 0.0, λ(i, a) → a, inp);",
        """\
p.fencil:2:23: error[T35]: the condition is tensor<bool, I[0:5]>, and tensor<bool> is needed.
    out ← loop(0, none)(λ(i, a) → a > 0.0, λ(i, a) → a, inp);
                        ^^^^^^^^^^^^^^^^^
help: it decides for the whole loop; compare single values.""",
    ),
    "a loop carries more than its function returns": (
        FIELD % "out ← loop(0, 3)(λ(i, a, b) → i < 2, λ(i, a, b) → a, inp, inp);",
        """\
p.fencil:2:40: error[T15]: the function returns 1 value, and 2 values are needed.
    out ← loop(0, 3)(λ(i, a, b) → i < 2, λ(i, a, b) → a, inp, inp);
                                         ^^^^^^^^^^^^^^
help: several are written λ(x: T, y: T) → {x + y, x - y}.""",
    ),
    "a result of a loop does not fit what is carried": (
        FIELD % "out ← loop(0, 3)(λ(i, a, b) → i < 2, λ(i, a, b) → {a, i}, inp, inp);",
        """\
p.fencil:2:40: error[T19]: result 1 of the function is tensor<int>, and tensor<float, I[0:5]> is carried.
    out ← loop(0, 3)(λ(i, a, b) → i < 2, λ(i, a, b) → {a, i}, inp, inp);
                                         ^^^^^^^^^^^^^^^^^^^
help: float64 is needed, and this is int32.""",
    ),
    "several results stand where one value is needed": (
        FIELD % "out ← 1.0 + {inp, inp};",
        """\
p.fencil:2:15: error[T14]: several results stand where one value is needed.
    out ← 1.0 + {inp, inp};
                ^^^^^^^^^^
help: they end a function that a loop repeats, λ(i, a, b) → {a + 1, b}; a tuple is written (a, b).""",
    ),
    "a function of several results is applied": (
        FIELD % "out ← (λ(a) → {a, a})(inp);",
        """\
p.fencil:2:9: error[T14]: a function of several results is repeated by loop, and not applied.
    out ← (λ(a) → {a, a})(inp);
          ^^^^^^^^^^^^^^^^^^^^
help: write a function for each of them.""",
    ),
    "a fold takes a function of several results": (
        FIELD % "out ← reduce(λ(s: tensor<float>, a: tensor<float>) → {s, a}, 0.0, I)(inp);",
        """\
p.fencil:2:16: error[T15]: the function returns 2 values, and 1 value is needed.
    out ← reduce(λ(s: tensor<float>, a: tensor<float>) → {s, a}, 0.0, I)(inp);
                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: one value may be a tuple, λ(x: T, y: T) → (x, y).""",
    ),
    "more keys than operands": (
        FIELD % "out ← sort(I, 2)(inp);",
        """\
p.fencil:2:9: error[T36]: 2 keys cannot sort 1 operand.
    out ← sort(I, 2)(inp);
          ^^^^^^^^^^^^^^^
help: the first operands are the keys; there is at least one.""",
    ),
    "an update has another element": (
        FIELD % "out ← update(inp, pos(I, inp));",
        """\
p.fencil:2:21: error[T01]: the operands have different element types: float64 and int32.
    out ← update(inp, pos(I, inp));
                      ^^^^^^^^^^^
help: cast one of them.""",
    ),
    "a builtin gets too many operands": (
        FIELD % "out ← exp(inp, inp);",
        """\
p.fencil:2:9: error[T06]: 'exp' takes 1 operand, and there are 2.
    out ← exp(inp, inp);
          ^^^^^^^^^^^^^
help: e to the x.""",
    ),
    "an interval stops before it starts": (
        "f(out: tensor<float, I[5:0]>) { out ← 1.0; }",
        """\
p.fencil:1:22: error[T31]: I[5:0] stops before it starts.
  f(out: tensor<float, I[5:0]>) { out ← 1.0; }
                       ^^^^^^
help: the smaller bound comes first.""",
    ),
    "a part of an output is not inside of it": (
        FIELD % "out[I[0:9]] ← inp;",
        """\
p.fencil:2:3: error[T21]: I[0:9] is not inside of I[0:5], all of 'out'.
    out[I[0:9]] ← inp;
    ^^^^^^^^^^^
help: write to a part of I[0:5].""",
    ),
    "a part of an output is along a dim that it lacks": (
        FIELD % "out[J[0:2]] ← inp;",
        """\
p.fencil:2:3: error[T25]: there is no dim J in 'out', only I[0:5].
    out[J[0:2]] ← inp;
    ^^^^^^^^^^^
help: known here: 'I'.""",
    ),
    "a tensor has too many points": (
        "f(out: tensor<float, I[0:1000000000000000]>) { out ← 1.0; }",
        """\
p.fencil:1:8: error[T40]: this tensor has 1000000000000000 points, and 1099511627776 is the limit.
  f(out: tensor<float, I[0:1000000000000000]>) { out ← 1.0; }
         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: make its intervals smaller.""",
    ),
    "several things are wrong, and what follows from them is not said": (
        COLUMN
        % """\
out ← ⟪Q, 1⟫(x) + q × (λ(y: tensor<int>) → y + 1.0)(true);
  out ← ⟪K, 1⟫(x) + z;""",
        """\
p.fencil:2:10: error[N04]: there is no dim or table 'Q' here.
    out ← ⟪Q, 1⟫(x) + q × (λ(y: tensor<int>) → y + 1.0)(true);
           ^
help: known here: 'I', 'K'.

p.fencil:2:21: error[N01]: 'q' is not known here.
    out ← ⟪Q, 1⟫(x) + q × (λ(y: tensor<int>) → y + 1.0)(true);
                      ^
help: known here: 'out', 'x'.

p.fencil:2:50: error[T01]: the operands have different element types: int32 and float64.
    out ← ⟪Q, 1⟫(x) + q × (λ(y: tensor<int>) → y + 1.0)(true);
                                                   ^^^
help: nothing is converted silently; write cast(x, int32) or cast(x, float64).

p.fencil:3:21: error[N01]: 'z' is not known here.
    out ← ⟪K, 1⟫(x) + z;
                      ^
help: known here: 'out', 'x'.""",
    ),
}


@pytest.mark.parametrize(("program", "expected"), CASES.values(), ids=CASES)
def test_the_diagnostic_is(program: str, expected: str):
    with pytest.raises(DiagnosticError) as error:
        parse(program, name="p.fencil")
    assert str(error.value) == expected
