"""Wrong programs that no text can write, or that reading would mend: built of nodes, each with its sentence."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import BOOL, FLOAT32, FLOAT64, INT8, INT32, INT64, DataType


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
    "a let expression of another type": (
        func(run(n.Let(i, ONE, i))),
        "TC18 'i' is int32, but its value is float32.",
    ),
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
    "a buffer of no parameter": (
        n.PrimFunc("main", (), {i: A}, NOTHING),
        "TC45 'A' belongs to no parameter.",
    ),
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
