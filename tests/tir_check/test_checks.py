"""What the checker says: of wrong programs, of mutants of sound ones, of nodes and of matched regions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_definition import verdict
from mutations import mutants

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import BOOL, FLOAT32, FLOAT64, INT8, INT32, INT64, DataType

# Buffers that match regions


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


# Wrong programs as text

WRONG_HEAD = """@T.prim_func
def main(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float64"), I: T.Buffer((8,), "int32"), \
L: T.Buffer((8,), "int64"), M: T.Buffer((4, 4), "float32")):
"""


def wrong_programs() -> list[object]:
    cases: list[object] = []
    for case in (Path(__file__).parent / "wrong_programs.txt").read_text().split("#---- ")[1:]:
        title, *lines = case.splitlines()
        pinned = [line[3:] for line in lines if line.startswith("#! ")]
        body = "".join(f"{line}\n" for line in lines if not line.startswith("#! "))
        cases.append(pytest.param(WRONG_HEAD + body, pinned, id=title))
    return cases


@pytest.mark.parametrize(("text", "pinned"), wrong_programs())
def test_a_program_has_its_errors_and_warnings(text: str, pinned: list[str]):
    try:
        said = tir.check(tir.parse(text, "wrong"))
        assert not any(d.severity == "error" for d in said)
    except DiagnosticError as refused:
        said = refused.diagnostics
        assert any(d.severity == "error" for d in said)
    assert [str(d).splitlines()[0].removeprefix("wrong:") for d in said] == pinned


def test_one_of_them_in_full():
    with pytest.raises(DiagnosticError) as caught:
        tir.check(tir.parse(WRONG_HEAD + "    for i in range(4):\n        A[i + 8] = T.float32(0)\n", "wrong.py"))
    assert str(caught.value) == (
        "wrong.py:4:11: error[TC60]: index 0 of 'A' is 8 to 11, outside of its 8 elements.\n"
        "          A[i + 8] = T.float32(0)\n"
        "            ^^^^^"
    )


@pytest.mark.parametrize(
    "body",
    [
        "    B[0] = T.fmod(A[0], T.float32(3))\n",
        "    B[0] = T.truncmod(A[0], T.float32(3))\n",
        '    p: T.let[T.handle] = A.data\n    C = T.decl_buffer((8,), "float32", data=p)\n    B[0] = C[1]\n',
    ],
    ids=[
        "the remainder of floats is C's fmod",
        "which TVM's library calls truncmod",
        "a pointer whose element type nobody says",
    ],
)
def test_what_is_sound_is_accepted(body: str):
    head = '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
    module = tir.parse(head + body)
    assert tir.check(module) == ()
    a, b = np.full(8, -7.5, np.float32), np.zeros(8, np.float32)
    given = tir.interpret(module["main"], a, b, checked=True)  # type: ignore[arg-type]
    assert given[1][0] == (-1.5 if "mod" in body else -7.5)


HAZARDS = {
    "for i in T.parallel(4):\n        A[0] = T.Cast('float32', i)": ["TL12"],
    "for i in range(4):\n        if i * i > 8:\n            A[i + i * i - 8] = T.float32(1)": ["TL10"],
    "for i in range(4):\n        A[T.Cast('int32', A[i])] = T.float32(1)": [],
    "for i in T.parallel(4):\n        A[i] = T.Cast('float32', i)": [],
}


@pytest.mark.parametrize("body", HAZARDS)
def test_what_a_lift_proves_wrong_is_told_where_one_asks(body):
    module = tir.parse(f"@T.prim_func\ndef main(A: T.Buffer((4,), 'float32')):\n    {body}\n")
    found = []
    try:
        tir.check(module, hazards=True)
    except DiagnosticError as caught:
        found = [d.code for d in caught.diagnostics]
    assert found == HAZARDS[body] and tir.check(module) == ()


# Mutants of sound programs

EVERY = 3
"""One mutant in three is run."""

TEXTS = [text.split("\n", 1) for text in (Path(__file__).parent / "sound_programs.txt").read_text().split("#----\n")]
PROGRAMS = {title.strip("# "): text for title, text in TEXTS}


def program(title: str) -> tuple[n.PrimFunc, list[Any]]:
    """A sound program, and arrays for its parameters; `P` is a permutation."""
    func = next(iter(tir.parse("@T.prim_func\n" + PROGRAMS[title]).functions.values()))
    assert isinstance(func, n.PrimFunc)
    random = np.random.default_rng(3)
    arrays: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = tuple(extent.value for extent in buffer.shape if isinstance(extent, n.IntImm))
        values = random.permutation(shape[0]) if buffer.name == "P" else random.integers(0, 9, shape)
        arrays.append(values.astype(buffer.dtype.numpy))
    return func, arrays


def complaint(func: n.PrimFunc, arrays: list[Any]) -> str | None:
    """What the checker, or else the interpreter in checked mode, has to say."""
    try:
        tir.check(func)
        tir.interpret(func, *arrays, checked=True)
    except DiagnosticError as error:
        return str(error)
    return None


@pytest.mark.parametrize("title", PROGRAMS)
def test_a_sound_program_is_sound(title: str):
    func, arrays = program(title)
    assert verdict(func, arrays) is None
    assert complaint(func, arrays) is None


@pytest.mark.parametrize("title", PROGRAMS)
def test_wrong_mutants_are_found_and_sound_ones_pass(title: str):
    func, arrays = program(title)
    found, missed = 0, list[str]()
    for kind, mutant in list(mutants(func))[::EVERY]:
        wrong = verdict(mutant, arrays)
        if wrong == "endless":
            continue
        said = complaint(mutant, arrays)
        if wrong is None:
            assert said is None, f"a false alarm on a mutant ({kind}):\n{said}\n{mutant}"
        elif said is None:
            missed.append(f"{kind}, {wrong}:\n{mutant}")
        else:
            found += 1
    assert len(missed) <= 0.1 * (found + len(missed)), "\n".join(missed)


def test_there_are_mutants_of_every_kind():
    counts: dict[str, int] = {}
    for title in PROGRAMS:
        for kind, _ in list(mutants(program(title)[0]))[::EVERY]:
            counts[kind] = counts.get(kind, 0) + 1
    kinds = "operator constant index type scope loop extent region iterator statement memory match"
    assert set(counts) == set(kinds.split())
    assert sum(counts.values()) >= 1500


# Wrong programs that no text can write, or that reading would mend


def var(name: str, dtype: DataType = INT32) -> n.Var:
    return n.Var(name, n.PrimType(dtype))


def number(value: int, dtype: DataType = INT32) -> n.IntImm:
    return n.IntImm(value, dtype)


def buffer(name: str, *shape: int, dtype: DataType = FLOAT32) -> n.Buffer:
    data = n.Var(name, n.PointerType(n.PrimType(dtype)))
    return n.Buffer(data, dtype, tuple(map(number, shape)), name=name)


def func(body: n.Stmt, *params: n.Var, **buffers: n.Buffer) -> n.PrimFunc:
    handles = {n.Var(name, n.PointerType(n.PrimType(b.dtype))): b for name, b in buffers.items()}
    return n.PrimFunc("main", (*params, *handles), handles, body)


A = buffer("A", 8)
ONE, TWO = n.FloatImm(1.0, FLOAT32), n.FloatImm(2.0, FLOAT64)
NOTHING = n.Evaluate(number(0))
i, j, wide = var("i"), var("j"), var("w", INT64)
B = buffer("B", 8)
VIEW = n.Buffer(A.data, FLOAT32, (number(4),), name="V")


def run(expr: n.Expr) -> n.Stmt:
    return n.Evaluate(expr)


def loop(v: n.Var, body: n.Stmt, extent: n.Expr | None = None) -> n.For:
    return n.For(v, n.IntImm(0, v.dtype), extent or n.IntImm(8, v.dtype), n.ForKind.SERIAL, body)


def block(*iterators: n.IterVar, body: n.Stmt = NOTHING) -> n.Block:
    return n.Block(iterators, (), (), "b", body)


TRUE = number(1, BOOL)
ITER = n.IterVar(n.Range(number(0), number(8)), var("vi"), n.IterKind.DATA_PARALLEL)

CASES: dict[str, tuple[n.PrimFunc, str]] = {
    "an unbound variable": (func(run(i)), "TC40 the variable 'i' is not bound."),
    "a loop variable behind its loop": (
        func(n.SeqStmt((loop(i, NOTHING), run(i)))),
        "TC42 the variable 'i' is used outside of its scope.",
    ),
    "a loop variable bound twice": (
        func(n.SeqStmt((loop(i, NOTHING), loop(i, NOTHING)))),
        "TC41 'i' is bound a second time.",
    ),
    "a view behind the loop that declares it": (
        func(n.SeqStmt((loop(i, n.DeclBuffer(VIEW, A.data)), n.BufferStore(VIEW, ONE, (number(0),)))), A=A),
        "TC42 the buffer 'V' is used outside of its scope.",
    ),
    "a parameter given twice": (func(NOTHING, i, i), "TC41 the parameter 'i' is there twice."),
    "a parameter bound again by a loop": (func(loop(i, NOTHING), i), "TC41 'i' is bound a second time."),
    "a let bound twice": (
        func(n.SeqStmt((n.LetStmt(i, number(1)), n.LetStmt(i, number(2))))),
        "TC41 'i' is bound a second time.",
    ),
    "a let behind its sequence": (
        func(n.SeqStmt((loop(j, n.SeqStmt((n.LetStmt(i, number(1)), run(i)))), run(i)))),
        "TC42 the variable 'i' is used outside of its scope.",
    ),
    "a buffer that nobody declares": (
        func(n.BufferStore(B, ONE, (number(0),)), A=A),
        "TC40 the buffer 'B' is not bound.",
    ),
    "a buffer behind its allocation": (
        func(n.SeqStmt((loop(i, n.SeqStmt((n.AllocBuffer(B), NOTHING))), n.BufferStore(B, ONE, (number(0),))))),
        "TC42 the buffer 'B' is used outside of its scope.",
    ),
    "a buffer declared twice": (
        func(n.SeqStmt((n.AllocBuffer(B), n.AllocBuffer(B)))),
        "TC41 the buffer 'B' is declared a second time.",
    ),
    "other bits of a number": (
        func(run(n.Call(INT64, "reinterpret", (ONE,)))),
        "TC37 T.reinterpret keeps the bytes: float32 has 4, and int64 has 8.",
    ),
    "operands of two types": (
        func(run(n.Add(ONE, TWO))),
        "TC21 both operands of Add have one type, and these are float32 and float64.",
    ),
    "a minimum of two types": (
        func(run(n.Min(number(1), number(1, INT64)))),
        "TC21 both operands of Min have one type, and these are int32 and int64.",
    ),
    "a comparison of two widths": (
        func(run(n.EQ(number(1), number(1, INT64)))),
        "TC25 both operands of EQ have one type, and these are int32 and int64.",
    ),
    "And of several lanes": (
        func(run(n.And(n.Broadcast(TRUE, 4), n.Broadcast(TRUE, 2)))),
        "TC26 both operands of And have as many lanes, and these have 4 and 2.",
    ),
    "a let expression of another type": (func(run(n.Let(i, ONE, i))), "TC18 'i' is int32, but its value is float32."),
    "an integer constant of a float type": (
        func(run(number(1, FLOAT32))),
        "TC01 an integer constant is of a scalar integer type, and not of float32.",
    ),
    "an integer constant of a vector type": (
        func(run(number(1, INT32.with_lanes(4)))),
        "TC01 an integer constant is of a scalar integer type, and not of int32x4.",
    ),
    "a bool of two": (func(run(number(2, BOOL))), "TC02 the constant 2 does not fit bool, which holds 0 to 1."),
    "a float constant of an integer type": (
        func(run(n.FloatImm(1.0, INT32))),
        "TC03 a floating-point constant is of a scalar floating-point type, and not of int32.",
    ),
    "a Ramp of two types": (
        func(run(n.Ramp(number(0), number(1, INT64), 4))),
        "TC16 base and stride of a Ramp have one type, and these are int32 and int64.",
    ),
    "a Shuffle of nothing": (func(run(n.Shuffle((), ()))), "TC19 a Shuffle needs at least one vector."),
    "an index too many": (
        func(n.BufferStore(A, ONE, (number(0), number(0))), A=A),
        "TC10 'A' has 1 dimensions, but 2 indices.",
    ),
    "a loop over a float": (
        func(n.For(var("f", FLOAT32), ONE, ONE, n.ForKind.SERIAL, NOTHING)),
        "TC57 the loop variable 'f' is a scalar integer, and not float32.",
    ),
    "a loop narrower than its extent": (
        func(loop(i, NOTHING, wide), wide),
        "TC58 the loop variable 'i' is int32, but its extent is int64.",
    ),
    "a constant extent wider than the loop": (
        func(loop(i, NOTHING, number(8, INT64))),
        "TC58 the loop variable 'i' is int32, but its extent is int64.",
    ),
    "a block with too few bindings": (
        func(n.BlockRealize((), TRUE, block(ITER))),
        "TC71 the block 'b' has 1 iterators, but 0 bindings.",
    ),
    "an iterator over floats": (
        func(n.BlockRealize((ONE,), TRUE, block(n.IterVar(None, var("f", FLOAT32), n.IterKind.DATA_PARALLEL)))),
        "TC73 the iterator 'f' is a scalar integer, and not float32.",
    ),
    "a block iterator behind its block": (
        func(n.SeqStmt((n.BlockRealize((number(0),), TRUE, block(ITER)), run(ITER.var)))),
        "TC42 the variable 'vi' is used outside of its scope.",
    ),
    "an allocation behind no pointer": (
        func(n.Allocate(i, FLOAT32, (number(8),), TRUE)),
        "TC68 'i' is allocated, but is no pointer.",
    ),
    "an allocation of another type": (
        func(n.Allocate(n.Var("p", n.PointerType(n.PrimType(FLOAT64))), FLOAT32, (number(8),), TRUE)),
        "TC68 'p' points to float64, but holds float32.",
    ),
    "an allocation of a float extent": (
        func(n.Allocate(n.Var("p", n.PointerType(n.PrimType(FLOAT32))), FLOAT32, (ONE,), TRUE)),
        "TC66 an extent of 'p' is a scalar integer, and not float32.",
    ),
    "an allocation on a number": (
        func(n.Allocate(n.Var("p", n.PointerType(n.PrimType(FLOAT32))), FLOAT32, (number(8),), number(1))),
        "TC67 the condition of an allocation is a scalar bool, and not int32.",
    ),
    "a region with too many ranges": (
        func(
            n.BlockRealize(
                (),
                TRUE,
                n.Block((), (n.BufferRegion(A, (ITER.dom, ITER.dom)),), (), "b", NOTHING),  # type: ignore[arg-type]
            ),
            A=A,
        ),
        "TC77 'A' has 1 dimensions, but 2 ranges.",
    ),
    "a buffer with a stride too many": (
        func(NOTHING, A=n.Buffer(A.data, FLOAT32, A.shape, (i, j), name="A"), **{}),
        "TC33 'A' has 1 dimensions, but 2 strides.",
    ),
    "a buffer behind no pointer": (
        func(NOTHING, A=n.Buffer(i, FLOAT32, A.shape, name="A")),
        "TC35 the pointer of 'A' is not of a pointer type.",
    ),
    "an offset that is a float": (
        func(NOTHING, A=n.Buffer(A.data, FLOAT32, A.shape, (), ONE, name="A")),
        "TC34 the offset of 'A' is a scalar integer, and not float32.",
    ),
    "a call of a function that is not there": (
        func(run(n.Call(INT32, n.GlobalVar("f"), ()))),
        "TC43 the module has no function 'f'.",
    ),
    "a call of itself with too few arguments": (
        func(run(n.Call(INT32, n.GlobalVar("main"), ())), i),
        "TC44 'main' takes 1 arguments, but this call gives 0.",
    ),
    "a builtin with too few arguments": (
        func(run(n.Call(FLOAT32, "atan2", (ONE,)))),
        "TC27 T.atan2 takes 2 arguments, and not 1.",
    ),
    "a choice of two types": (
        func(run(n.Call(FLOAT32, "if_then_else", (TRUE, ONE, TWO)))),
        "TC28 both values of T.if_then_else have one type, and these are float32 and float64.",
    ),
    "a return without one": (
        n.PrimFunc("main", (), {}, NOTHING, n.PrimType(INT32)),
        "TC47 'main' returns int32, but has no T.ret.",
    ),
    "a return of another type": (
        n.PrimFunc("main", (), {}, run(n.Call(FLOAT32, "ret", (ONE,))), n.PrimType(INT32)),
        "TC47 'main' returns int32, but its T.ret gives float32.",
    ),
    "a buffer of no parameter": (n.PrimFunc("main", (), {i: A}, NOTHING), "TC45 'A' belongs to no parameter."),
    "a let of another type": (func(n.LetStmt(i, ONE)), "TC54 'i' is int32, but its value is float32."),
    "a pointer bound to a number": (
        func(n.LetStmt(n.Var("p", n.PointerType(n.PrimType(FLOAT32))), number(1))),
        "TC54 'p' is a pointer, but its value is int32.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_nodes_that_break_a_rule_are_refused(name: str):
    wrong, sentence = CASES[name]
    with pytest.raises(DiagnosticError) as caught:
        tir.check(wrong)
    first = next(d for d in caught.value.diagnostics if d.severity == "error")
    assert f"{first.code} {first.message}" == sentence


def test_a_view_that_no_statement_declares_is_known_by_its_pointer():
    right = func(n.BufferStore(VIEW, ONE, (number(2),)), A=A)
    assert tir.check(right) == ()
    for found in (tir.interpret(right, np.zeros(8, np.float32)), ti.lift(right)(np.zeros(8, np.float32))):
        assert found[0].tolist() == [0, 0, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (INT64, "T.reinterpret keeps the bytes: float32 has 4, and int64 has 8."),
        (INT8, "T.reinterpret keeps the bytes: float32 has 4, and int8 has 1."),
    ],
)
def test_bits_of_another_width_are_refused_by_whoever_runs_them(wanted: DataType, sentence: str):
    C = buffer("C", 8, dtype=wanted)
    text = "@T.prim_func\ndef main(A: T.Buffer((8,), 'float32')):\n    A[1] = A[0]\n"
    place = tir.parse(text, "k.py")["main"].body.span
    read = n.Call(wanted, "reinterpret", (n.BufferLoad(A, (number(0),)),), span=place)
    wrong = func(n.BufferStore(C, read, (number(0),)), A=A, C=C)
    arrays = np.ones(8, np.float32), np.zeros(8, wanted.numpy)
    for code, way in (("TR20", lambda: tir.interpret(wrong, *arrays)), ("TL01", lambda: ti.lift(wrong)(*arrays))):
        with pytest.raises(DiagnosticError) as caught:
            way()
        assert str(caught.value).splitlines()[0] == f"k.py:3:5: error[{code}]: {sentence}"
