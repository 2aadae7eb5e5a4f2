"""Texts of TIR that are hostile, odd, too long or mutated."""

from __future__ import annotations

import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import parse
from tensorir.tir.interpret import machine, threads
from tensorir.tir.script import syntax
from tensorir.tir.trees import walk
from tests.corpus import corpus
from tests.effort import count_calls
from tests.tir.mutated_texts import mutant, outcome, pool_of, samples

# Texts with one to three tokens changed


TEXTS = samples()
POOL = pool_of(TEXTS)


@pytest.mark.parametrize("seed", range(8))
def test_a_mutant_is_read_or_refused(seed: int):
    for k in range(seed * 60, seed * 60 + 60):
        text = mutant(TEXTS, POOL, k)
        assert outcome(text) is None, text


# Bad texts

HEAD = '@T.prim_func(s_tir=True)\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32"), n: T.int32):\n'
RELAX = '@R.function\ndef main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((4,), "int32")):\n'


def body(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines)


def relax(*lines: str) -> str:
    return RELAX + "".join(f"    {line}\n" for line in lines)


CASES: list[tuple[str, object, str]] = [
    *((title, *case) for title, case in corpus(Path(__file__).with_name("hostile.txt")).items()),
    ("an empty text", "", "- TS30 the text holds no function and no module."),
    (
        "deep brackets",
        body("B[0] = " + "(" * 500 + "1" + ")" * 500),
        "3:92 TS02 brackets are nested more than 80 deep here.",
    ),
    ("deep lists", body("x = " + "[" * 100000), "3:89 TS02 brackets are nested more than 80 deep here."),
    (
        "deep blocks",
        HEAD + "".join("    " * k + "if n > 0:\n" for k in range(1, 120)) + "    " * 120 + "A[0] = 1.0\n",
        "92:361 TS02 statements are nested more than 90 deep here.",
    ),
    (
        "many operators",
        body("B[0] = " + "n + " * 100000 + "n"),
        "3:4010 TS03 more than 1,000 operators are chained here.",
    ),
    ("many minus signs", body("B[0] = " + "-" * 5000 + "n"), "3:12 TS03 more than 1,000 operators are chained here."),
    ("many nots", body("B[0] = " + "not " * 900 + "n"), "3:492 TS03 expressions are nested more than 120 deep here."),
    ("many calls", body("f" + "(0)" * 5000), "3:308 TS03 more than 100 calls or subscripts follow each other here."),
    (
        "many subscripts",
        body("A" + "[0]" * 900),
        "3:308 TS03 more than 100 calls or subscripts follow each other here.",
    ),
    ("many attributes", body("A" + ".data" * 900), "3:5 TS03 expressions are nested more than 120 deep here."),
    (
        "many conditions",
        body("B[0] = " + "1 if n > 0 else " * 400 + "2"),
        "3:2679 TS03 more than 1,000 operators are chained here.",
    ),
    ("many lambdas", body("x = " + "lambda: " * 600 + "1"), "3:1145 TS03 more than 1,000 operators are chained here."),
    (
        "many elifs",
        body("if n > 0:", "    pass", *["elif n > 1:", "    pass"] * 400),
        "3:5 TS03 more than 100 'elif' follow each other here.",
    ),
    (
        "many attributes of statements",
        body(*["T.attr(0, 'k', 1)"] * 200, "A[0] = 1.0"),
        "103:5 TS03 more than 100 attributes are nested here.",
    ),
    ("a long number", body("B[0] = " + "9" * 5000), "3:12 TS04 this number has more than 400 characters."),
    (
        "a long string",
        body("T.evaluate('" + "x" * 200000 + "')"),
        "3:16 TS04 this string has more than 100,000 characters.",
    ),
    ("a null", body("A[0] = 1.0\0"), "3:15 TS05 the character U+0000 cannot stand in a text."),
    ("a surrogate", body("A[0] = '\udc80'"), "3:13 TS05 the character U+DC80 cannot stand in a text."),
    (
        "mixed tabs",
        HEAD + "    A[0] = 1.0\n\tA[1] = 1.0\n",
        "4:1 TS05 this is no Python: inconsistent use of tabs and spaces in indentation.",
    ),
    ("a live number", 3, "- TS33 TVMScript is text, or an object of TVM, and this is of type int."),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_bad_text_is_refused_with_its_own_sentence(text: object, expected: str):
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    first = caught.value.diagnostics[0]
    place = f"{first.span.line}:{first.span.column}" if first.span.source.text else "-"
    assert f"{place} {first.code} {first.message}" == expected


def test_there_are_enough_bad_texts():
    assert len(CASES) >= 100


def test_a_text_that_is_too_long_is_refused_at_once():
    text, caught = "#\n" * 150_000_000, []

    def refuse() -> None:
        with pytest.raises(DiagnosticError) as error:
            parse(text)
        caught.append(error.value)

    assert count_calls(refuse) < 1_000
    assert caught[0].diagnostics[0].message == "the text has more than 8,000,000 characters."


def test_a_bad_text_takes_little_memory_beyond_its_own():
    tracemalloc.start()
    try:
        for name, text, _ in CASES:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            refuse(text)
            assert tracemalloc.get_traced_memory()[1] - before < 256 << 20, name
    finally:
        tracemalloc.stop()


def test_nothing_is_executed_opened_or_imported():
    """An audit hook sees every event while all bad texts are read; only Python's parser may be called."""
    seen: list[tuple[str, object]] = []
    watching = False

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if watching and not event.startswith(("sys.", "object.", "gc.", "time.")):
            seen.append((event, arguments[:1]))

    for _, text, _ in CASES:  # what our own modules import on first use
        refuse(text)
    sys.addaudithook(hook)
    watching = True
    for _, text, _ in CASES:
        refuse(text)
    watching = False
    assert {event for event, _ in seen} <= {"compile"}


def refuse(text: object) -> None:
    try:
        parse(text)
    except DiagnosticError:
        return
    raise AssertionError("accepted")


def test_several_errors_are_reported_together():
    with pytest.raises(DiagnosticError) as caught:
        parse(body("A[q] = 1.0", "x = T.exq(n)", "y = x + 1", "B[0] = n ** 2"))
    assert [d.message for d in caught.value.diagnostics] == [
        "'q' is not defined here.",
        "T.exq is not known.",
        "'**' is no operator of TIR.",
    ]


def test_a_diagnostic_shows_the_line_and_a_hint():
    with pytest.raises(DiagnosticError) as caught:
        parse(body("A[0] = T.exq(A[1])"), name="kernel.py")
    assert str(caught.value) == (
        "kernel.py:3:12: error[TS12]: T.exq is not known.\n"
        "      A[0] = T.exq(A[1])\n"
        "             ^^^^^\n"
        "help: did you mean 'T.exp'?"
    )


@pytest.mark.parametrize(
    ("line", "help"),
    [
        ("A[0] = T.expp(A[1])", "did you mean 'T.exp'?"),
        ("A[0] = T.foo.bar(A[1])", ""),
        ("A[0] = abs(A[1])", "write T.abs(x)."),
        ("A[0] = round(A[1])", "write T.round(x)."),
        ("A[0] = int(A[1])", "write T.Cast('int32', x)."),
        (
            "A[0] = qqq",
            "known here: 'main', 'A', 'B', 'n'; parse(text, names={'qqq': ...}) gives what stood around the text.",
        ),
    ],
)
def test_a_hint_can_be_written_as_it_stands(line: str, help: str):
    with pytest.raises(DiagnosticError) as caught:
        parse(body(line))
    assert caught.value.diagnostics[0].help == help


# Limits of memory, steps and depth that hold for texts and kernels of any size, and for threads that meet

LIMITS_HEAD = '@T.prim_func\ndef main(A: T.Buffer((8,), "int32")):\n'


def peak_of(run: Any) -> int:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_room_for_deep_expressions_stays_until_the_last_thread_is_done():
    before, inside, left, seen = sys.getrecursionlimit(), threading.Event(), threading.Event(), list[int]()

    def wait() -> None:
        inside.set()
        assert left.wait(20)
        seen.append(sys.getrecursionlimit())

    late = threading.Thread(target=lambda: machine.deep(wait))

    def start() -> None:
        late.start()
        assert inside.wait(20)

    machine.deep(start)
    left.set()
    late.join()
    assert seen[0] >= machine.FRAMES
    assert sys.getrecursionlimit() == before


def test_a_long_number_takes_no_memory_of_its_own():
    def refused() -> None:
        with pytest.raises(DiagnosticError, match="this number has more than 400 characters"):
            ti.tir.parse(f"{LIMITS_HEAD}    A[0] = {'1' * 1_000_000}\n")

    assert peak_of(refused) < 20_000_000


def test_the_columns_of_a_line_are_counted_once(monkeypatch: pytest.MonkeyPatch):
    counted: list[str] = []
    count = syntax._columns  # type: ignore[reportPrivateUsage]
    monkeypatch.setattr(syntax, "_columns", lambda line: counted.append(line) or count(line))
    sums = " + ".join(["A[1]"] * 300)
    module = ti.tir.parse(f'{LIMITS_HEAD}    T.func_attr({{"é": "ö"}}); A[0] = {sums}\n')
    assert len(counted) == 1
    store = next(node for node in walk(module["main"].body) if type(node).__name__ == "BufferStore")
    assert store.span.text == f"A[0] = {sums}"


def test_a_kernel_of_too_many_threads_is_refused_with_their_number():
    function = ti.tir.parse(
        f'{LIMITS_HEAD}    for x in T.thread_binding(1000000000, thread="threadIdx.x"):\n        A[x % 8] = x\n'
    )["main"]

    def refused() -> None:
        with pytest.raises(DiagnosticError) as caught:
            ti.tir.interpret(function, np.zeros(8, np.int32))
        assert str(caught.value) == (
            "<tir>:3:5: error[TR06]: 1000000000 threads run side by side here, more than the 4194304 there are.\n"
            '      for x in T.thread_binding(1000000000, thread="threadIdx.x"):\n'
            "      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "help: bind the outer loop to blockIdx: blocks run in portions."
        )

    assert peak_of(refused) < 20_000_000


def test_blocks_of_a_large_kernel_take_memory_in_portions_only():
    function = ti.tir.parse(
        f'{LIMITS_HEAD}    for x in T.thread_binding(20000000, thread="blockIdx.x"):\n'
        "        if x < 8:\n            A[x] = x\n"
    )["main"]
    assert peak_of(lambda: ti.tir.interpret(function, np.zeros(8, np.int32))) < 40_000_000
    assert ti.tir.interpret(function, np.zeros(8, np.int32))[0].tolist() == list(range(8))


UNCOMPACTED = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((N, N), "float32"), B: T.Buffer((N, N), "float32")):
    S = T.sblock_alloc_buffer((N, N), scope="shared")
    L = T.sblock_alloc_buffer((N, N), scope="local")
    for b in T.thread_binding(N, thread="blockIdx.x"):
        for t in T.thread_binding(N, thread="threadIdx.x"):
            S[b, t] = A[b, t]
            L[b, t] = S[b, t] * T.float32(2)
            B[b, t] = L[b, t]
"""
"""What `sch.mod` shows: storage of threads and blocks has its whole extent still."""


def test_blocks_with_much_storage_of_their_own_run_in_portions():
    size = 128
    function = ti.tir.parse(UNCOMPACTED.replace("N", str(size)))["main"]
    a = np.arange(size * size, dtype=np.float32).reshape(size, size)
    everything = size * size * 4 * size * size
    assert everything > threads.PORTION_BYTES
    assert peak_of(lambda: ti.tir.interpret(function, a, 0 * a)) < 2 * threads.PORTION_BYTES + 30_000_000 < everything
    np.testing.assert_array_equal(ti.tir.interpret(function, a, 0 * a)[1], a * 2)


def test_storage_that_cannot_be_is_refused_with_its_size():
    function = ti.tir.parse(UNCOMPACTED.replace("N", "2048"))["main"]

    zeros = np.zeros((2048, 2048), np.float32)

    def refused() -> None:
        with pytest.raises(DiagnosticError) as caught:
            ti.tir.interpret(function, zeros, zeros)
        assert str(caught.value) == (
            "<tir>:6:5: error[TR06]: 'L' needs 34359738368 bytes, more than the 4294967296 there are.\n"
            '      for b in T.thread_binding(2048, thread="blockIdx.x"):\n'
            "      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "help: each of 2048 iterations or threads has 16777216 bytes of its own: allocate of it what one of them"
            " touches, as TVM's CompactBufferAllocation does."
        )

    assert peak_of(refused) < 90_000_000


# Texts that are read although few write so, and texts that are refused with a sentence and not with a traceback

ODD_HEAD = '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
NETWORK = """
@R.function
def main(x: R.Tensor((1, 4, 8, 8), "float32"), w: R.Tensor((2, 4, 3, 3), "float32")):
    return {}
"""

WIDTHS = "R.nn.pad takes whole widths in one list, two of each axis: [before, behind, ...]."
CONTRADICTIONS = {
    "R.nn.pad(x, pad_width=[0, 0, 0, 0, 1.5, 1, 0, 0])": WIDTHS,
    "R.nn.pad(x, pad_width=((0, 0), (0, 0), (1, 1), (0, 2)))": WIDTHS,
    "R.nn.pad(x, pad_width=[0, 0, 0, 0, 0, -1, 0, 0])": WIDTHS,
    "R.nn.pad(x, pad_width=3)": WIDTHS,
    "R.nn.max_pool2d(x, pool_size=[20, 20])": "R.nn.max_pool2d gives a tensor with -11 elements along a dimension.",
    'R.nn.max_pool2d(x, pool_size="a")': "R.nn.max_pool2d takes one number, or 2, for 'pool_size'.",
    "R.nn.max_pool2d(x, pool_size=[2, 2], padding=[1, 2, 3])": (
        "R.nn.max_pool2d takes one number, or 2 or 4, for 'padding'."
    ),
    "R.nn.max_pool2d(x, pool_size=[2, 2, 2])": "R.nn.max_pool2d takes one number, or 2, for 'pool_size'.",
    "R.nn.max_pool2d(x, strides=[0, 0])": "R.nn.max_pool2d takes no 0 for 'strides', but 1 or more.",
    'R.nn.max_pool2d(x, out_layout="NHWD")': (
        "R.nn.max_pool2d gives a layout with the letters N, C, H, W, and not 'NHWD'."
    ),
    'R.nn.max_pool2d(x, layout="NCHWc")': (
        "R.nn.max_pool2d takes a layout such as NCHW or NCHW4c, and this is 'NCHWc'."
    ),
    'R.nn.max_pool2d(x, layout="NCH4w")': "R.nn.max_pool2d takes a layout such as NCHW or NCHW4c, and this is 'NCH4w'.",
    'R.arange(5, step=2, dtype="int64")': "R.arange needs 'end' where 'step' is given.",
    "R.nn.avg_pool2d(x, dilation=[])": "R.nn.avg_pool2d takes one number, or 2, for 'dilation'.",
    "R.nn.adaptive_avg_pool2d(x, output_size=[1, 2, 3])": (
        "R.nn.adaptive_avg_pool2d takes one number, or 2, for 'output_size'."
    ),
    'R.nn.conv2d(x, w, groups="a")': "R.nn.conv2d takes one number for 'groups'.",
    "R.nn.conv2d(x, w, strides=[])": "R.nn.conv2d takes one number, or 2, for 'strides'.",
    "R.nn.conv2d(x, w, padding=[-9])": "R.nn.conv2d gives a tensor with -12 elements along a dimension.",
    'R.nn.conv2d(x, w, data_layout="WXYZ")': "R.nn.conv2d takes a layout with the letters N, C, and this is 'WXYZ'.",
    "R.nn.conv2d(x, 1)": "R.nn.conv2d takes a tensor, and this is a number.",
    "R.nn.conv2d(x, R.const(1.0))": "R.nn.conv2d takes a tensor of the layout OIHW, and this has 0 dimensions.",
    'R.nn.conv2d(x, w, out_dtype="a")': "'a' names no data type.",
    "R.matmul(x, R.str('a'))": "R.matmul takes a tensor, and this is a text.",
    "R.mean(2)": "R.mean takes a tensor, and this is a number.",
    "R.strided_slice(x, axes=1, begin=0, end=2)": "R.strided_slice takes a number for each axis, in brackets.",
    'R.zeros((-2,), "float32")': "R.zeros gives a tensor with -2 elements along a dimension.",
}


def said(run: Any) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        run()
    return [d.message for d in caught.value.diagnostics if d.severity == "error"]


@pytest.mark.parametrize("expression", CONTRADICTIONS)
def test_operands_and_attributes_that_cannot_be_are_named(expression: str):
    assert said(lambda: ti.tir.parse(NETWORK.format(expression))) == [CONTRADICTIONS[expression]]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('R.const([1, 300], "int8")', "the constant 300 does not fit int8."),
        ('R.const(1e400, "int32")', "the constant inf does not fit int32."),
    ],
)
def test_constants_fit_their_type(expression: str, message: str):
    assert said(lambda: ti.tir.parse(NETWORK.format(expression))) == [message]


def test_a_tensor_has_no_negative_extent():
    text = '@R.function\ndef main(x: R.Tensor((3, -14), "float32")):\n    return x\n'
    assert said(lambda: ti.tir.parse(text)) == ["a tensor has no -14 elements along a dimension."]


def test_a_data_type_is_no_result():
    function = ti.tir.parse('@R.function\ndef main():\n    return R.dtype("float32")\n')["main"]
    assert said(lambda: ti.tir.interpret(function)) == ["a data type is no value, so it cannot be returned."]
    assert said(lambda: ti.lift(function)) == ["a result is a tensor or a number, and this is none."]


def test_an_external_function_that_gives_nothing_is_read_checked_and_refused_where_it_runs():
    module = ti.tir.parse(ODD_HEAD + '    T.call_extern("void", "f", A.data)\n')
    assert ti.tir.parse(ti.tir.print_module(module)) == module
    ti.tir.check(module)
    ones = np.ones(8, np.float32)
    unknown = "the external function 'f' is not known"
    assert said(lambda: ti.tir.interpret(module["main"], ones, ones)) == [
        f"{unknown}, so the call cannot be interpreted."
    ]
    assert said(lambda: ti.lift(module["main"])) == [f"{unknown}."]


def test_a_region_has_as_many_dimensions_as_what_is_matched_to_it():
    module = ti.tir.parse(
        ODD_HEAD + '    with T.block("b"):\n        M = T.match_buffer(A[0:4], (2, 2))\n        B[0] = M[0, 0]\n'
    )
    ones = np.ones(8, np.float32)
    more = "'M' has more dimensions than the region that it matches."
    assert said(lambda: ti.tir.check(module)) == ["'M' has 2 dimensions, but the region has 1."]
    assert said(lambda: ti.tir.interpret(module["main"], ones, ones)) == [more]
    assert said(lambda: ti.lift(module["main"])) == [more]


@pytest.mark.parametrize("dtype", ["handle", "int1"])
def test_elements_that_no_array_holds_are_refused_by_name(dtype: str):
    function = ti.tir.parse(ODD_HEAD.replace("float32", dtype) + "    for i in range(8):\n        B[i] = A[i]\n")[
        "main"
    ]
    ones = np.ones(8, np.int8)
    assert said(lambda: ti.tir.interpret(function, ones, ones)) == [
        f"arrays hold no elements of type {dtype}: it cannot be interpreted."
    ]
    assert said(lambda: ti.lift(function)) == [f"the tensor IR has no elements of type {dtype}."]


def test_ldexp_takes_an_exponent_that_is_a_float():
    function = ti.tir.parse(ODD_HEAD + "    for i in range(8):\n        B[i] = T.ldexp(A[i], T.float32(2))\n")["main"]
    ones = np.ones(8, np.float32)
    assert ti.tir.interpret(function, ones, ones)[1].tolist() == [4.0] * 8
    assert ti.lift(function)(ones, ones.copy())[0].tolist() == [4.0] * 8


def test_a_whole_number_beyond_all_integers_is_refused_beside_a_float_as_tvm_refuses_it():
    with pytest.raises(ti.DiagnosticError, match=r"3:12: error\[TS20\]: this constant does not fit int64, which holds"):
        ti.tir.parse(ODD_HEAD + f"    B[0] = A[0] + {10**390}\n")


INTEGERS = '@T.prim_func\ndef main(B: T.Buffer((8,), "int32")):\n'
AXIS = f"""{ODD_HEAD}
    for i in range(8):
        with T.block("b"):
            v = T.axis.{{}}
            B[v] = A[v]
"""
SAME = {
    "a buffer's type with brackets": (
        '@T.prim_func\ndef main(A: T.Buffer[(8,), "float32"], B: T.Buffer[8, "int32"]):\n    B[0] = 1\n',
        '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32")):\n    B[0] = 1\n',
    ),
    "one axis that stands alone": (AXIS.format('remap("S", [i])'), AXIS.format("spatial(8, i)")),
    "a cast whose type has a name": (
        ODD_HEAD + '    B[0] = T.cast(T.Cast(A[0], dtype="int32"), dtype="float32")\n',
        ODD_HEAD + '    B[0] = T.Cast("float32", T.Cast("int32", A[0]))\n',
    ),
    "bits as a type that has a name": (
        ODD_HEAD + '    B[0] = T.reinterpret(T.reinterpret(A[0], dtype="int32"), dtype="float32")\n',
        ODD_HEAD + '    B[0] = T.reinterpret("float32", T.reinterpret("int32", A[0]))\n',
    ),
    "bits whose type is told twice": (
        INTEGERS + '    B[0] = T.shift_left(x=B[1], y=1, dtype="int32") + T.bitwise_not(B[2], dtype="int64")\n',
        INTEGERS + "    B[0] = (B[1] << 1) + ~B[2]\n",
    ),
    "quotients whose type is told twice": (
        INTEGERS + '    B[0] = T.ceildiv(B[1], 3, dtype="int32") + T.floormod(B[2], 5, dtype="int32")\n',
        INTEGERS + "    B[0] = (B[1] + 3 - 1) // 3 + B[2] % 5\n",
    ),
    "a function whose type is told wrongly": (
        ODD_HEAD + '    B[0] = T.exp(A[0], dtype="float64") + T.abs(A[1], dtype="float32")\n',
        ODD_HEAD + "    B[0] = T.exp(A[0]) + T.fabs(A[1])\n",
    ),
    "an arbitrary value, which is an int32": (
        ODD_HEAD + "    B[0] = T.undef() + 1\n",
        ODD_HEAD + '    B[0] = T.Cast("float32", T.undef() + 1)\n',
    ),
    "what a view leaves out": (
        NETWORK.format('R.memory.view(x, dtype="int32")'),
        NETWORK.format('R.memory.view(x, R.tuple(), R.dtype("int32"), R.tuple())'),
    ),
    "an operator in its own home": (NETWORK.format("R.op.nn.relu(x)"), NETWORK.format("R.nn.relu(x)")),
}


@pytest.mark.parametrize("name", SAME)
def test_what_people_have_is_read_as_what_is_printed_today(name: str):
    had, written = SAME[name]
    assert ti.tir.parse(had) == ti.tir.parse(written)


def test_a_truth_value_is_0_or_1():
    text = f"{ODD_HEAD}    B[0] = T.Select(T.bool(2), A[0], A[1])\n"
    assert said(lambda: ti.tir.parse(text)) == ["the constant 2 does not fit bool, which holds 0 to 1."]


PLACES = {"a string": '    T.evaluate(T.call_extern("int32", "a{}b"))\n', "a comment": "    # a{}b\n"}


@pytest.mark.parametrize("character", "\u2028\u2029\u0085\x0b\x1c\x1d\x1e", ids=lambda c: f"U+{ord(c):04X}")
@pytest.mark.parametrize("place", PLACES)
def test_what_ends_no_line_of_python_ends_none_of_a_diagnostic(character: str, place: str):
    with pytest.raises(DiagnosticError) as caught:
        ti.tir.parse(ODD_HEAD + PLACES[place].format(character) + "    B[0] = C[0]\n")
    [found] = caught.value.diagnostics
    assert (found.message, found.span.line, found.span.column) == ("'C' is not defined here.", 4, 12)


def test_sizes_of_a_tuple_are_sizes():
    head = '@R.function\ndef main(x: R.Tensor(("n", "m"), "float32")):\n'
    body = "    y: R.Tensor((n, m), 'float32') = R.add(x, x)\n    return y\n"
    one_by_one = ti.tir.parse(head + "    n = T.int64()\n    m = T.int64()\n" + body)
    assert ti.tir.parse(head + "    n, m = T.int64(), T.int64()\n" + body) == one_by_one


def test_the_type_of_a_value_of_relax_is_written_by_the_value():
    text = """
@R.function
def main(x: R.Tensor((4, 2), "float32"), y: R.Tensor("float32", ndim=1)):
    a: {0} = R.add(x, x)
    b = R.match_cast(a, {0})
    c = R.zeros({1}, {2})
    d = R.sum(c, axis={3})
    return b, d
"""
    short = text.format("x.struct_info", "x.struct_info.shape", "x.struct_info.dtype", "x.struct_info.ndim - 1")
    assert ti.tir.parse(short) == ti.tir.parse(text.format('R.Tensor((4, 2), "float32")', "(4, 2)", '"float32"', "1"))
    assert said(lambda: ti.tir.parse(text.format("x.struct", "(4, 2)", '"float32"', "1"))) == [
        "a value of Relax has no attribute 'struct'."
    ]
    assert said(lambda: ti.tir.parse(text.format("x.struct_info", "y.struct_info.shape", '"float32"', "1"))) == [
        "this type does not say 'shape'."
    ]


def test_a_local_function_of_relax_may_call_itself():
    text = """
@R.function
def main(x: R.Tensor((4,), "float32"), again: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
    @R.function
    def double(y: R.Tensor((4,), "float32"), b: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        if b:
            r = double(R.add(y, y), R.const(False, "bool"))
        else:
            r = y
        return r
    z = double(x, again)
    return z
"""
    module = ti.tir.parse(text)
    assert ti.tir.check(module) == ()
    ones = np.ones(4, np.float32)
    for again, wanted in ((False, 1), (True, 2)):
        (result,) = ti.tir.interpret(module["main"], ones, np.bool_(again))  # type: ignore[misc]
        np.testing.assert_array_equal(result, np.full(4, wanted, np.float32))
    used_before = text.replace("    @R.function\n    def", "    w = double(x, again)\n    @R.function\n    def")
    assert said(lambda: ti.tir.parse(used_before)) == ["'double' is not defined here."]
