"""What is proven wrong is said before anything runs, with a witness and the lines."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.lifting.accesses import sets
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import steps_of

RACE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.parallel(8):
        B[i // 2] = A[i]
"""
OUTSIDE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i + 1]
"""
NOBODY = """
@T.prim_func
def main(B: T.Buffer((8,), "float32")):
    t = T.alloc_buffer((8,), "float32")
    for i in range(7):
        t[i] = T.float32(1)
    for i in range(8):
        B[i] = t[i]
"""
ALONE = """
@T.prim_func
def main(B: T.Buffer((2,), "float32")):
    t = T.alloc_buffer((2,), "float32")
    t[0] = T.float32(1)
    B[0] = t[0]
    B[1] = t[1]
"""

PINNED = {
    "race": (
        RACE,
        """<tir>:4:5: error[TL12]: two iterations of the parallel loop over i touch B[0].
      for i in T.parallel(8):
      ^^^^^^^^^^^^^^^^^^^^^^^
note: written in the iteration i = 0.
  at <tir>:5:9:
          B[i // 2] = A[i]
          ^^^^^^^^^^^^^^^^
note: written in the iteration i = 1.
  at <tir>:5:9:
          B[i // 2] = A[i]
          ^^^^^^^^^^^^^^^^
help: make the loop serial, or give each iteration elements of its own.""",
    ),
    "outside": (
        OUTSIDE,
        """<tir>:5:16: error[TL10]: A[8] is read, and 'A' has 8 elements.
          B[i] = A[i + 1]
                 ^^^^^^^^
note: in the iteration i = 7.
help: guard the access, or correct the loop's bounds.""",
    ),
    "nobody": (
        NOBODY,
        """<tir>:8:16: error[TL11]: t[7] is read, and nothing has written it.
          B[i] = t[i]
                 ^^^^
note: in the iteration i = 7.
help: give 't' a value first.""",
    ),
    "nobody, outside of loops": (
        ALONE,
        """<tir>:7:12: error[TL11]: t[1] is read, and nothing has written it.
      B[1] = t[1]
             ^^^^
note: in the only iteration.
help: give 't' a value first.""",
    ),
}


@pytest.mark.parametrize("name", PINNED)
def test_a_hazard_is_told_with_its_witness(name: str):
    text, wanted = PINNED[name]
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(ti.tir.parse(text)["main"])
    assert str(caught.value) == wanted


SCRATCH = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
    S = T.{allocate}((2,), "float32")
    for i in T.{kind}(4):
        for k in range({filled}):
            S[k] = A[2 * i + k]
        B[i] = S[0] - S[1]
{after}
"""


@pytest.mark.parametrize("kind", ["parallel", "vectorized"])
def test_iterations_at_once_have_storage_of_their_own_where_they_alone_use_it(kind: str):
    text = SCRATCH.format(allocate="sblock_alloc_buffer", kind=kind, filled="2", after="")
    function = ti.tir.parse(text)["main"]
    a = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.float32)
    wanted = a[::2] - a[1::2]
    np.testing.assert_array_equal(ti.tir.interpret(function, a, np.zeros(4, np.float32), checked=True)[1], wanted)
    program = ti.lift(function)
    np.testing.assert_array_equal(program(a, None)[0], wanted)
    assert steps_of(program) == 0


@pytest.mark.parametrize(
    ("change", "lifted", "run"),
    [
        ({"allocate": "alloc_buffer"}, "two iterations of the parallel loop over i touch S", "race"),
        ({"after": "    B[0] = S[0]"}, "two iterations of the parallel loop over i touch S", "race"),
        ({"filled": "2 - i // 2"}, "is read, and nothing has written it", "nobody has written it"),
    ],
    ids=["a statement that allocates", "a use behind the loop", "what other iterations wrote"],
)
def test_storage_that_iterations_share_is_told(change: dict[str, str], lifted: str, run: str):
    words = {"allocate": "sblock_alloc_buffer", "kind": "parallel", "filled": "2", "after": "", **change}
    function = ti.tir.parse(SCRATCH.format(**words))["main"]
    with pytest.raises(DiagnosticError, match=lifted):
        ti.lift(function)
    with pytest.raises(DiagnosticError, match=run):
        ti.tir.interpret(function, np.ones(8, np.float32), np.zeros(4, np.float32), checked=True)


def test_hazards_may_be_run_in_the_order_of_the_text():
    function = ti.tir.parse(RACE)["main"]
    program = ti.lift(function, on_hazard="sequential")
    a = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(program(a, None)[0], [1, 3, 5, 7])
    assert "note: two iterations of the parallel loop" in str(program.report)
    np.testing.assert_array_equal(ti.lift(function, on_hazard="ignore")(a, None)[0], [1, 3, 5, 7])


def test_an_index_from_data_is_checked_when_the_program_runs():
    function = ti.tir.parse(
        """
@T.prim_func
def main(I: T.Buffer((3,), "int32"), A: T.Buffer((5,), "float32"), B: T.Buffer((3,), "float32")):
    for i in range(3):
        B[i] = A[I[i]]
"""
    )["main"]
    program = ti.lift(function)
    a = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(program(np.array([4, 0, 2], np.int32), a, None)[0], [4, 0, 2])
    bad = np.array([4, 9, 2], np.int32)
    with pytest.raises(DiagnosticError, match="an index leaves"):
        program(bad, a, None)
    error, (values,) = program.checked(bad, a, np.zeros(3, np.float32))
    assert "an index leaves" in str(error)
    np.testing.assert_array_equal(values, [4, 0, 2])


def test_an_assertion_is_checked_when_the_program_runs():
    function = ti.tir.parse(
        """
@T.prim_func
def main(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float32"), k: T.int32):
    assert k > 0, "k is positive"
    for i in range(3):
        B[i] = A[i]
"""
    )["main"]
    program = ti.lift(function)
    a = np.ones(3, np.float32)
    np.testing.assert_array_equal(program(a, None, 1)[0], a)
    with pytest.raises(DiagnosticError, match="k is positive"):
        program(a, None, 0)


def test_what_no_pure_program_says_is_named():
    function = ti.tir.parse(
        """
@T.prim_func
def main(A: T.Buffer((3,), "float32")):
    T.evaluate(T.call_packed("my.function", A.data))
"""
    )["main"]
    with pytest.raises(DiagnosticError, match=r"the external function 'my\.function' is not known"):
        ti.lift(function)


POINTED = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), I: T.Buffer((3,), "int32"), M: T.Buffer((3,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(3):
        {}
"""  # noqa: E501
STATEMENTS = {
    "store": "B[I[i]] = A[i]",
    "guarded store": "if M[i] > T.float32(0):\n            B[I[i]] = A[i]",
    "guarded sum": "if M[i] > T.float32(0):\n            B[I[i]] = B[I[i]] + A[i]",
    "guarded minimum": "if M[i] > T.float32(0):\n            B[I[i]] = T.min(B[I[i]], A[i])",
    "load": "B[i] = A[I[i]]",
    "guarded load": "if M[i] > T.float32(0):\n            B[i] = A[I[i]]",
    "step by step": "B[I[i]] = B[0] + A[i]",
    "guarded step by step": "if M[i] > T.float32(0):\n            B[I[i]] = B[0] + A[i]",
}


@pytest.mark.parametrize("indices", [[0, 9, 1], [0, -1, 1], [0, 1, 2], [0, 1, 9]])
@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_an_index_that_data_tell_is_checked_as_by_the_interpreter(statement: str, indices: list[int]):
    func = ti.tir.parse(POINTED.format(statement))["main"]
    arrays = [
        np.arange(4, dtype="float32"), np.array(indices, "int32"), np.array([1, 1, 0], "float32"), np.ones(4, "float32")
    ]  # fmt: skip
    try:
        wanted = ti.tir.interpret(func, *arrays, checked=True)
    except DiagnosticError as error:
        (told,) = error.diagnostics
        with pytest.raises(DiagnosticError) as found:
            ti.lift(func)(*arrays)
        assert found.value.diagnostics[0].span.line == told.span.line
    else:
        np.testing.assert_allclose(ti.lift(func)(*arrays)[0], wanted[3])


THREADS = (
    '@T.prim_func\ndef main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):\n    for t in {}:\n        {}\n'
)
THREADED = {
    "threads": 'T.thread_binding(8, thread="threadIdx.x")',
    "blocks": 'T.thread_binding(8, thread="blockIdx.x")',
    "lanes": "T.vectorized(8)",
    "tasks": "T.parallel(8)",
}
RACES = {
    "values of its own": ("B[0] = A[t]", THREADED),
    "sums": ("B[0] = B[0] + A[t]", THREADED),
    "guarded sums": ("if t < 3:\n            B[0] = B[0] + 1", THREADED),
    "a guard": ("if t < 4:\n            B[0] = A[3]", THREADED),
    "halves": ("B[t // 2] = A[t // 2]", THREADED),
    "one of them": ("if t == 4:\n            B[0] = A[t]", ()),
    "all alike": ("B[0] = A[3]", ()),
    "all alike, in a loop": ("for i in range(8):\n            B[i] = B[i] + A[i]", THREADED),
    "all alike, step by step": ("for i in range(7):\n            B[i + 1] = B[i] + A[i]", ("lanes", "tasks")),
    "own elements, in a loop": ("for i in range(8):\n            if i == t:\n                B[i] = A[i]", ()),
    "atomic sums": ('T.evaluate(T.atomic_add(B.access_ptr("rw"), A[t]))', ()),
}


@pytest.mark.parametrize("threads", THREADED)
@pytest.mark.parametrize("body, racing", RACES.values(), ids=RACES)
def test_iterations_that_meet_race_in_the_lift_where_they_do_in_the_interpreter(
    body: str, racing: tuple[str, ...], threads: str
):
    func = ti.tir.parse(THREADS.format(THREADED[threads], body))["main"]
    a, b = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    if threads not in racing:
        if "atomic" not in body or threads in ("threads", "blocks"):
            np.testing.assert_array_equal(ti.lift(func)(a, b)[0], ti.tir.interpret(func, a, b, checked=True)[1])
        return
    for run, code in ((lambda: ti.tir.interpret(func, a, b, checked=True), "TR03"), (lambda: ti.lift(func), "TL12")):
        with pytest.raises(DiagnosticError) as caught:
            run()
        assert caught.value.diagnostics[0].code == code


def test_a_sum_of_threads_that_nobody_made_one_of_is_a_race_with_both_lines():
    text = """
@T.prim_func
def main(A: T.Buffer((8, 64), "float32"), C: T.Buffer((8,), "float32")):
    with T.launch_thread("blockIdx.x", 8) as bx:
        tx = T.launch_thread("threadIdx.x", 64)
        if tx == 0:
            C[bx] = T.float32(0.0)
        C[bx] = C[bx] + A[bx, tx]
"""
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(ti.tir.parse(text)["main"])
    assert (
        str(caught.value)
        == """<tir>:8:9: error[TL12]: two iterations of the parallel loop over threadIdx_x touch C[0].
          C[bx] = C[bx] + A[bx, tx]
          ^^^^^^^^^^^^^^^^^^^^^^^^^
note: written in the iteration blockIdx_x = 0, threadIdx_x = 0.
  at <tir>:8:9:
          C[bx] = C[bx] + A[bx, tx]
          ^^^^^^^^^^^^^^^^^^^^^^^^^
note: written in the iteration blockIdx_x = 0, threadIdx_x = 1.
  at <tir>:8:9:
          C[bx] = C[bx] + A[bx, tx]
          ^^^^^^^^^^^^^^^^^^^^^^^^^
help: make the loop serial, or give each iteration elements of its own."""
    )


@pytest.mark.parametrize(
    ("statement", "name", "place"),
    [("B[i + 2] = A[i]", "B", 4), ("B[i] = T.if_then_else(i > 0, A[i - 3], T.float32(0))", "A", 1)],
)
def test_an_index_that_only_data_keep_inside_is_checked_when_the_program_runs(statement: str, name: str, place: int):
    function = ti.tir.parse(f"""
@T.prim_func
def main(N: T.Buffer((1,), "int32"), A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32")):
    for i in range(6):
        if i < N[0]:
            {statement}
""")["main"]
    program = ti.lift(function)
    a, b = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    inside, outside = np.array([place], np.int32), np.array([place + 1], np.int32)
    np.testing.assert_array_equal(program(inside, a, b)[0], ti.tir.interpret(function, inside, a, b)[2])
    with pytest.raises(DiagnosticError) as caught:
        program(outside, a, b)
    (found,) = caught.value.diagnostics
    assert found.message == f"an index leaves the 6 elements of '{name}'."
    assert found.notes == (f"it fails first at i = {place}.",)
    ignoring = ti.lift(function, on_hazard="ignore")
    assert ignoring(outside, a, b)[0].shape == (6,)


def test_indices_beyond_the_end_of_a_loop_are_not_looked_at():
    function = ti.tir.parse("""
@T.prim_func
def main(I: T.Buffer((6,), "int32"), X: T.Buffer((6,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = X[I[i] + 1]
""")["main"]
    program = ti.lift(function)
    x = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(program(np.array([4, 3, 2, 1, 5, -9], np.int32), x, None)[0], [5, 4, 3, 2])
    with pytest.raises(DiagnosticError, match="an index leaves 'X', which has 6 elements"):
        program(np.array([4, 3, 2, 5, 0, 0], np.int32), x, None)


def test_what_the_state_of_a_fold_decides_to_read_is_checked_where_it_is_read():
    program = ti.lift(
        ti.tir.parse("""
@T.prim_func
def main(X: T.Buffer((6,), "float32"), V: T.Buffer((6,), "float32"), I: T.Buffer((6,), "int32"),
         best: T.Buffer((1,), "float32"), tag: T.Buffer((1,), "float32")):
    best[0] = T.float32(0)
    tag[0] = T.float32(-1)
    for k in range(6):
        if X[k] > best[0]:
            best[0] = X[k]
            tag[0] = V[I[k]]
""")["main"]
    )
    x, v = np.array([1, 0.5, 3, 2, 5, 4], np.float32), np.arange(6, dtype=np.float32)
    found = program(x, v, np.array([0, -1, 2, 9, 4, -1], np.int32), None, None)
    np.testing.assert_array_equal(np.concatenate(found), [5, 4])
    with pytest.raises(DiagnosticError, match="an index leaves 'V'"):
        program(x, v, np.array([0, 1, 7, 3, 4, 5], np.int32), None, None)


MANY_STEPS = """
@T.prim_func
def main(A: T.Buffer((7,), "float32"), B: T.Buffer((5,), "float32")):
    t = T.alloc_buffer((5,), "float32")
    for i in range(5):
        for j in range((3 * i + 7) // 5 - 3 * i // 5):
            t[i] = T.max(A[3 * i // 5 + j], A[6 - i])
    for i in range(5):
        B[i] = t[i]
"""


def test_what_would_take_too_many_steps_to_prove_is_no_hazard(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sets, "EFFORT", 10)
    few, others = (sets.integer_set(["i", "j"], ["0 <= i < 9", f"{k} * j = i"]) for k in (3, 2))
    assert sets.decided(lambda: few.subtract(others).lexmin()) is None
    with pytest.raises(DiagnosticError) as found:
        ti.lift(ti.tir.parse(NOBODY)["main"])
    assert str(found.value) == (
        "<tir>:6:9: error[TL06]: this has no tensor program: the dataflow of 't', which takes too long.\n"
        "          t[i] = T.float32(1)\n"
        "          ^^^^^^^^^^^^^^^^^^^\n"
        "help: let loops run in order (T.serial), and make indices of sums of their variables."
    )
    monkeypatch.setattr(sets, "EFFORT", 1000)
    function = ti.tir.parse(MANY_STEPS)["main"]
    data = np.arange(7, dtype=np.float32)
    (maxima,) = ti.lift(function)(data, None)
    np.testing.assert_array_equal(maxima, ti.tir.interpret(function, data, np.zeros(5, np.float32))[1])
    monkeypatch.undo()
    with pytest.raises(DiagnosticError, match="nothing has written it"):
        ti.lift(ti.tir.parse(NOBODY)["main"])


ALLOCATED = """
@T.prim_func
def main(A: T.Buffer((3, 4), "float32"), B: T.Buffer((3,), "float32")):
    for i in range(3):
        s = T.alloc_buffer((1,), "float32")
        if {first}:
            s[0] = T.float32(0)
        for k in range(4):
            s[0] = s[0] + A[i, k]
        B[i] = s[0]
"""


def test_what_a_loop_allocates_anew_holds_nothing_of_the_iteration_before():
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros(3, np.float32)
    function = ti.tir.parse(ALLOCATED.format(first="i == 0"))["main"]
    with pytest.raises(DiagnosticError, match="nobody has written it"):
        ti.tir.interpret(function, a, b, checked=True)
    with pytest.raises(DiagnosticError, match=r"s\[0\] is read, and nothing has written it") as caught:
        ti.lift(function)
    assert caught.value.diagnostics[0].notes == ("in the iteration i = 1, k = 0.",)
    function = ti.tir.parse(ALLOCATED.format(first="i >= 0"))["main"]
    np.testing.assert_array_equal(ti.lift(function)(a, b)[0], a.sum(1))
