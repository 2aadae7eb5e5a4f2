"""TIR written as calls of its constructors: read, printed, read again, and run where nothing is left out."""

import numpy as np
import pytest

import tensorir as ti

WHOLE = """
PrimFunc(
  params=[Buffer(var=A, shape=[64, 48], dtype=float32), Buffer(var=B, shape=[48, 32], dtype=DataType::Float(32)),
          Buffer(var=C, shape=[64, 32], dtype=float32)],
  buffer_map={A: ..., B: ...},
  body=
    AttrStmt(attr_key="thread_extent", node=IterVar(var=bx, dom=Range(min=0, extent=2), thread_tag="blockIdx.x"),
      value=2,
      body=AttrStmt(
        attr_key="thread_extent", node=IterVar(var=by, dom=Range(0, 4), thread_tag="blockIdx.y"),
        value=IntImm(dtype=int32, value=4),
        body=
          Allocate(buffer_var=a, dtype=float32, extents=[IntImm(16), IntImm(16)], body=
            Allocate(buffer_var=b, dtype=float32, extents=[16, 16], body=
              Allocate(buffer_var=c, dtype=float32, extents=[16, 16],
                body=
                  # an empty tile
                  BufferStore(buffer=c, value=FloatImm(dtype=float32, value=0.0), ...)

                  For(loop_var=Var(name=k, dtype=int32), min=0, extent=3, kind=ForKind::kSerial,
                    body=
                      BufferStore(buffer=a, value=BufferLoad(buffer=A, indices=[by*16, k*16]), ...)
                      BufferStore(buffer=b, value=BufferLoad(buffer=B, indices=[Mul(k, 16), Mul(bx, 16)]), ...)
                      AttrStmt(attr_key="tl.gemm", value={"A": a, "B": b, "C": c}, body=Evaluate(IntImm(0)))
                  )
                  BufferStore(buffer=C, value=BufferLoad(buffer=c, ...), indices=[by*16, bx*16])
              )
            )
          )
      )
    ),
  ret_type=VoidType(),
  attrs={"grid": Array([IntImm(2), IntImm(4)]), "policy": StringImm("contiguous")},
)
"""
PERSISTENT = """
PrimFunc(
  params=[Buffer(var=A, shape=[32], dtype=int32), Buffer(var=B, shape=[32], dtype=int32),
          Var(name=first, dtype=int32), Var(name=count, dtype=int32)],
  body=For(loop_var=i, min=0, extent=Var(name=count), kind=kSerial, body=
    LetStmt(var=Var(name=tile, dtype=int32), value=Add(first, i), body=
      LetStmt(var=row, value=FloorDiv(Var(name=tile), 8), body=
        BufferStore(buffer=B, value=BufferLoad(buffer=A, indices=[tile]), indices=[FloorMod(tile, 8) + row * 8])))),
)
"""


def test_a_whole_program_runs_and_lifts():
    module = ti.tir.parse(WHOLE)
    ti.tir.check(module)
    a, b = np.random.default_rng(0).normal(size=(2, 64, 48)).astype(np.float32)
    b = b[:48, :32].copy()
    c = np.zeros((64, 32), np.float32)
    np.testing.assert_allclose(ti.tir.interpret(module["main"], a, b, c)[2], a @ b, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ti.lift(module["main"])(a, b, c)[0], a @ b, rtol=1e-4, atol=1e-4)


def test_attributes_are_plain_values():
    assert ti.tir.parse(WHOLE)["main"].attrs == {"global_symbol": "main", "grid": (2, 4), "policy": "contiguous"}


def test_lets_and_arguments_are_those_of_a_persistent_kernel():
    main = ti.tir.parse(PERSISTENT)["main"]
    a = np.arange(32, dtype=np.int32)
    after = ti.tir.interpret(main, a, np.zeros(32, np.int32), 5, 3)[1]
    assert after[:10].tolist() == [0, 0, 0, 0, 0, 5, 6, 7, 0, 0]


@pytest.mark.parametrize("text", [WHOLE, PERSISTENT, 'PrimFunc(params=[...], body=..., attrs={"x": 1, ...})'])
def test_what_is_read_prints_and_reads_back(text):
    module = ti.tir.parse(text)
    assert ti.tir.parse(str(module)) == module


LISTS = {
    "[[0, 1], [1, 1], ..., [5, 1]]": tuple((k, 1) for k in range(6)),
    "[[0, 2], [2, 2], ..., [8, 2]]": ((0, 2), (2, 2), (4, 2), (6, 2), (8, 2)),
    "[[0, 1], ..., [3, 1]]": ((0, 1), (1, 1), (2, 1), (3, 1)),
    "[1, 2,\n # ... 2 more entries ...\n 5]": (1, 2, 3, 4, 5),
}


@pytest.mark.parametrize("written", LISTS)
def test_entries_that_are_left_out_go_on_evenly(written):
    text = f'PrimFunc(params=[], body=..., attrs={{"x": Array({written})}})'
    assert ti.tir.parse(text)["main"].attrs["x"] == LISTS[written]


def said(text, run=None):
    with pytest.raises(ti.DiagnosticError) as caught:
        module = ti.tir.parse(text, "doc")
        if run:
            run(module)
    return str(caught.value).splitlines()


def test_what_is_left_out_is_refused_where_it_would_run():
    text = WHOLE.replace('value={"A": a, "B": b, "C": c}', "value={...}")
    arrays = [np.zeros(s, np.float32) for s in ((64, 48), (48, 32), (64, 32))]
    found = said(text, lambda module: ti.tir.interpret(module["main"], *arrays))
    assert found[0] == (
        "doc:24:23: error[TR20]: T.elided stands for what the text leaves out: it cannot be interpreted."
    )
    assert "elided" in said(text, lambda module: ti.lift(module["main"]))[0]


WRONG = {
    "PrimFunc(params=[A], body=Fro(loop_var=i, min=0, extent=4))": (
        "doc:1:27: error[TS50]: there is no statement 'Fro'.", "help: did you mean 'For'?",
    ),
    "PrimFunc(params=[A], body=BufferStore(buffer=B, value=1.0))": (
        "doc:1:27: error[TS50]: there is no buffer 'B' here.", None,
    ),
    "PrimFunc(params=[A], body=For(loop_var=i, min=0, body=...))": (
        "doc:1:27: error[TS50]: For needs 'extent'.", None,
    ),
    "PrimFunc(params=[A], body=For(loop_var=i, min=0, extent=n, body=...))": (
        "doc:1:57: error[TS50]: 'n' is not defined here.", None,
    ),
    "PrimFunc(params=[Buffer(var=A, shape=[4], dtype=float17)], body=...)": (
        "doc:1:49: error[TS50]: there is no data type 'float17'.", "help: write float16, or DataType::Float(16).",
    ),
    'PrimFunc(params=[], body=..., attrs={"x": [[0, 1], [2, 1], ..., [5, 1]]})': (
        "doc:1:60: error[TS50]: what is left out here does not lead from [2, 1] to [5, 1] in even steps.",
        "help: write all entries.",
    ),
    "PrimFunc(params=[A], body=For(": ("doc:1:31: error[TS50]: ')' is needed here, and this is 'the end'.", None),
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_told_where_it_stands(text):
    message, help = WRONG[text]
    found = said(text)
    assert found[0] == message
    assert help is None or found[-1] == help


def test_names_that_a_text_in_constructors_had_from_around_it_are_given():
    text = """PrimFunc(params=[Buffer(var=A, shape=SHAPE, dtype=dtype), Buffer(var=B, shape=[M, 2], dtype=dtype)],
      body=For(loop_var=i, min=0, extent=M, kind=kSerial,
        body=BufferStore(buffer=B, value=BufferLoad(buffer=A, indices=[i, 0]) * scale, indices=[i, M - 3])),
      attrs={"tt_tile_width": M})"""
    names = {"SHAPE": (4, 2), "M": 4, "dtype": "float32", "scale": 0.5}
    written = text.replace("SHAPE", "[4, 2]").replace("dtype=dtype", "dtype=float32").replace("scale", "0.5")
    assert ti.tir.parse(text, names=names) == ti.tir.parse(written.replace("M", "4"))
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.tir.parse(text, "k", names={key: value for key, value in names.items() if key != "scale"})
    assert str(caught.value).split("\n")[::3] == [
        "k:3:81: error[TS50]: 'scale' is not defined here.",
        "help: known here: 'SHAPE', 'M', 'dtype', 'i'; parse(text, names={'scale': ...}) gives what stood around the "
        "text.",
    ]
    with pytest.raises(ti.DiagnosticError, match="there is no data type 'flat32'"):
        ti.tir.parse(text, names={**names, "dtype": "flat32"})
    shadowed = text.replace("loop_var=i", "loop_var=M").replace("[i, ", "[M, ")  # the loop's own from there on
    found = ti.tir.parse(shadowed, names=names)["main"].body
    assert str(found).startswith("for M in range(4):")
