"""Texts of TIR, of whole programs and of fragments, by decorator and as pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html.parser import HTMLParser

import jax.numpy as jnp
import numpy as np
import pytest
from tir_samples import conformance, kernels

import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import T, check, parse, parse_fragment, prim_func, print_function, print_module
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import BOOL, FLOAT32, INT32, INT64
from tensorir.tir.trees import walk
from tests.effort import count_calls

# Text to modules and back, in both dialects


EVERYTHING = [*kernels("new", "old", "printing", "relax"), *conformance()]


@pytest.mark.parametrize("text", EVERYTHING)
def test_what_is_printed_reads_as_the_same_module(text: str):
    module = parse(text)
    for dialect in ("new", "old"):
        printed = print_module(module, dialect)
        again = parse(printed)
        assert again == module
        assert hash(again) == hash(module)
        assert print_module(again, dialect) == printed


@pytest.mark.parametrize("text", kernels("new", "old", "printing"))
def test_a_function_alone_reads_as_the_module_around_it(text: str):
    module = parse(text)
    if len(module.functions) == 1:
        assert parse(print_function(next(iter(module.functions.values())))) == module


@pytest.mark.parametrize("text", EVERYTHING)
def test_every_node_of_a_text_knows_its_place(text: str):
    for node in walk(parse(text)):
        if isinstance(node, n.Stmt) and not isinstance(node, n.SeqStmt):
            assert 0 <= node.span.start < node.span.stop <= len(text)


def main(text: str) -> n.PrimFunc:
    function = parse(text)["main"]
    assert isinstance(function, n.PrimFunc)
    return function


def statements(text: str) -> tuple[n.Stmt, ...]:
    head = '@T.prim_func(s_tir=True)\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32"), n: T.int32):\n'
    body = main(head + "".join(f"    {line}\n" for line in text.splitlines())).body
    return body.seq if isinstance(body, n.SeqStmt) else (body,)


def test_a_loop_that_starts_elsewhere_has_an_extent():
    (loop,) = statements("for i in range(n, n + 4):\n    A[i] = 1.0")
    assert isinstance(loop, n.For) and loop.extent == n.IntImm(4, INT32) and isinstance(loop.min, n.Var)


def test_a_number_takes_the_type_of_what_it_meets():
    (store,) = statements("A[0] = A[1] + 1")
    assert isinstance(store, n.BufferStore) and store.value.b == n.FloatImm(1.0, FLOAT32)  # type: ignore[attr-defined]


def test_narrower_integers_become_wider_ones():
    (store,) = statements("B[0] = T.Cast('int32', n + T.int64(1))")
    value = store.value.value  # type: ignore[attr-defined]
    assert value == n.Add(n.Cast(value.a.value, INT64), n.IntImm(1, INT64))


def test_neutral_elements_vanish_and_the_functions_of_operators_keep_them():
    plain, kept = statements("B[0] = n + 0\nB[0] = T.Add(n, 0)")
    assert isinstance(plain.value, n.Var) and isinstance(kept.value, n.Add)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("symbols", "neutral", "result"), [
    ("+ -", "0", "n"), ("* //", "1", "n"), ("*", "0", "0"), ("%", "1", "0"), ("%", "2", None), ("* //", "2", None),
])  # fmt: skip
def test_operators_with_neutral_elements_are_one_of_their_operands(symbols: str, neutral: str, result: str | None):
    for symbol in symbols.split():
        (store,) = statements(f"B[0] = n {symbol} {neutral}")
        value = store.value  # type: ignore[attr-defined]
        read = "n" if isinstance(value, n.Var) else str(value.value) if isinstance(value, n.IntImm) else None
        assert read == result, symbol


def test_and_is_a_connective_of_scalars_and_bitwise_of_vectors():
    scalar, vector = statements(
        "T.evaluate(n > 0 and n < 8)\n"
        "T.evaluate((A[T.Ramp(0, 1, 4)] > T.float32(0)) and (A[T.Ramp(0, 1, 4)] < T.float32(1)))"
    )
    assert isinstance(scalar.value, n.And) and scalar.value.dtype == BOOL  # type: ignore[attr-defined]
    assert vector.value.op == "bitwise_and" and vector.value.dtype == BOOL.with_lanes(4)  # type: ignore[attr-defined]


def test_a_let_is_in_scope_for_the_rest_of_its_sequence():
    let, store = statements("x: T.let[T.int32] = n + 1\nB[x] = x")
    assert isinstance(let, n.LetStmt) and isinstance(store, n.BufferStore)
    assert store.value is let.var and store.indices == (let.var,)


def test_an_assignment_in_new_text_is_a_scalar_that_can_change():
    alloc, first, second = statements("x = n + 1\nx = x * 2")
    assert isinstance(alloc, n.AllocBuffer) and alloc.buffer.scope == "local"
    assert isinstance(first, n.BufferStore) and isinstance(second, n.BufferStore)
    assert first.buffer is second.buffer is alloc.buffer


def test_a_block_without_regions_gets_those_of_its_accesses():
    text = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16,), "float32")):
    for i in range(4):
        with T.sblock("tile"):
            vi = T.axis.spatial(4, i)
            for j in range(4):
                C[vi * 4 + j] = A[vi * 4 + j, 0] + A[vi * 4 + j, 2]
"""
    written = text.replace(
        "            for j",
        "            T.reads(A[vi * 4:vi * 4 + 4, 0:3])\n            T.writes(C[vi * 4:vi * 4 + 4])\n            for j",
    )
    assert parse(text) == parse(written)


def test_both_generations_of_a_text_are_one_module():
    new = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((16,), "float32")):
    T.func_attr({"tirx.noalias": True})
    for i in range(16):
        with T.sblock("b"):
            vi = T.axis.spatial(16, i)
            T.reads()
            T.writes(A[vi])
            A[vi] = T.float32(0.0)
"""
    old = """
from tvm.script import tir as T
@T.prim_func
def main(a: T.handle):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    X = T.match_buffer(a, [16])
    for k in T.serial(0, 16):
        with T.block("b"):
            v = T.axis.S(16, k)
            T.reads([])
            T.writes([X[v]])
            X[v] = 0.0
"""
    assert parse(new) == parse(old)


def test_equality_sees_attributes_names_of_blocks_and_types():
    head = '@T.prim_func(s_tir=True)\ndef main(A: T.Buffer((8,), "float32")):\n'
    text = head + '    with T.sblock("b"):\n        A[0] = 1.0\n'
    assert parse(text) == parse(text.replace("A", "X"))
    assert parse(text) != parse(text.replace('"b"', '"c"'))
    assert parse(text) != parse(text.replace("float32", "float64"))
    assert parse(text) != parse(text.replace("s_tir=True", "private=True, s_tir=True"))
    assert parse(text) != parse(text.replace("1.0", "2.0"))


def test_a_signature_declares_what_the_body_cannot_and_no_more():
    """A size of type int32 has no text in a signature that TVM reads again."""
    head = "@T.prim_func(s_tir=True)\ndef main(a: T.handle, b: T.handle):\n    n = T.{}()\n"
    body = "    A = T.match_buffer(a, (n, n))\n    B = T.match_buffer(b, (n,))\n    B[0] = A[0, 0]\n"
    assert "def main(A: T.Buffer((n, n)" in str(parse(head.format("int64") + body))
    assert str(parse(head.format("int32") + body)).splitlines()[6:10] == [
        "    def main(a: T.handle, b: T.handle):",
        "        n = T.int32()",
        "        A = T.match_buffer(a, (n, n))",
        "        B = T.match_buffer(b, (n,))",
    ]


def test_the_order_in_which_buffers_are_matched_says_nothing():
    head = "@T.prim_func(s_tir=True)\ndef main(a: T.handle, b: T.handle):\n"
    first, second = "    A = T.match_buffer(a, (4,))\n", "    B = T.match_buffer(b, (4,))\n"
    body = "    B[0] = A[0]\n"
    assert parse(head + first + second + body) == parse(head + second + first + body)
    assert parse(head + first + second + body) != parse(head + first + second + "    A[0] = B[0]\n")


def test_the_order_of_attributes_says_nothing():
    text = (
        "@I.ir_module\nclass Module:\n    I.module_attrs({'x': 1, 'y': 2})\n"
        "    I.module_global_infos({'x': [I.dummy()], 'y': []})\n"
        "    @T.prim_func(s_tir=True)\n    def main(A: T.Buffer((8,), 'float32')):\n"
        "        T.func_attr({'x': 1, 'y': {'u': 1, 'v': 2}})\n        T.attr({'x': 1, 'y': 2})\n        A[0] = 1.0\n"
    )
    other = (
        text.replace("'x': 1, 'y': 2", "'y': 2, 'x': 1")
        .replace("'x': [I.dummy()], 'y': []", "'y': [], 'x': [I.dummy()]")
        .replace("'x': 1, 'y': {'u': 1, 'v': 2}", "'y': {'v': 2, 'u': 1}, 'x': 1")
    )
    assert parse(text) == parse(other)
    assert parse(text) != parse(text.replace("T.attr({'x': 1", "T.attr({'x': 3"))
    assert parse(text) != parse(text.replace("T.attr({'x': 1, 'y': 2})", "T.attr({'x': 1})"))


def test_a_function_knows_its_module():
    module = parse("@I.ir_module\nclass M:\n    @T.prim_func\n    def f(n: T.int32) -> T.int32:\n        return n\n")
    function = module["f"]
    assert function.module is module and function == module.functions["f"]


def test_a_long_chain_of_operators_is_no_deep_recursion():
    terms = " + ".join(f"A[{k % 8}]" for k in range(900))
    text = f'@T.prim_func(s_tir=True)\ndef main(A: T.Buffer((8,), "float32")):\n    A[0] = {terms}\n'
    assert parse(str(parse(text))) == parse(text)


def test_a_deep_tree_that_a_program_made_prints_and_compares():
    var = n.Var("x", n.PrimType(INT32))
    deep, same = (_sum(var, 10_000) for _ in range(2))
    assert deep == same and hash(deep) == hash(same)
    assert repr(deep).count("+") == 10_000


def _sum(var: n.Var, count: int) -> n.Expr:
    total: n.Expr = var
    for _ in range(count):
        total = n.Add(total, n.IntImm(1, INT32))
    return total


def test_reading_and_printing_are_linear_in_the_length_of_the_text():
    function = """    @T.prim_func(s_tir=True)
    def f{}(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
        for i, j, k in T.grid(64, 64, 64):
            with T.sblock("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                T.reads(A[v_i, v_k], B[v_k, v_j])
                T.writes(C[v_i, v_j])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
"""
    short, long = (
        "@I.ir_module\nclass Module:\n" + "".join(function.format(k) for k in range(count)) for count in (64, 512)
    )
    assert long.count("\n") > 5000
    _is_linear(lambda: str(parse(short)), lambda: str(parse(long)))


def test_checking_is_linear_in_the_length_of_the_text():
    statement = "    for i in range(8):\n        if i > 2:\n            A[i] = A[i - 1] * T.float32(2)\n"
    head = '@T.prim_func\ndef main(A: T.Buffer((8,), "float32")):\n'
    short, long = (parse(head + statement * count) for count in (400, 3200))
    _is_linear(lambda: check(short), lambda: check(long))


def _is_linear(short: Callable[[], object], long: Callable[[], object]) -> None:
    """That ``long``, whose text is 8 times that of ``short``, does 8 times its work; 64 times would be quadratic."""
    assert count_calls(long) < 12 * count_calls(short)


def test_metadata_of_a_text_is_kept_with_the_module():
    text = '@R.function\ndef main(x: R.Tensor((1,), "float32")):\n    y = R.add(x, metadata["k"][0])\n    return y\n'
    assert parse(text, metadata={"k": [1.0]}).metadata == {"k": [1.0]}


class Live:
    """Stands for an object of TVM, which prints itself."""

    def script(self) -> str:
        return '@T.prim_func(s_tir=True)\ndef main(A: T.Buffer((8,), "float32")):\n    A[0] = T.float32(1.0)\n'


def test_a_live_object_is_read_through_its_script():
    assert parse(Live()) == parse(Live().script())


def test_a_byte_order_mark_is_skipped():
    text = "@T.prim_func\ndef main(A: T.Buffer((4,), 'float32')):\n    A[0] = T.float32(1)\n"
    assert parse("\ufeff" + text) == parse(text)


def test_regions_of_matched_buffers_that_are_matched_again_are_those_of_the_first():
    # as TVM 0.27 completes them
    text = """@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i in range(4):
        with T.sblock("rows"):
            vi = T.axis.spatial(4, i)
            {rows}
            A0 = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:16], (4, 16), offset_factor=1)
            B0 = T.match_buffer(B[vi * 4:vi * 4 + 4, 0:16], (4, 16), offset_factor=1)
            for j in range(16):
                with T.sblock("column"):
                    vj = T.axis.spatial(16, j)
                    {column}
                    A1 = T.match_buffer(A0[0:4, vj], (4, 1), offset_factor=1)
                    B1 = T.match_buffer(B0[0:4, vj], (4, 1), offset_factor=1)
                    for k in range(4):
                        B1[k, 0] = A1[k, 0]
"""
    rows = "T.reads(A[vi * 4:vi * 4 + 4, 0:16])\n            T.writes(B[vi * 4:vi * 4 + 4, 0:16])"
    column = "T.reads(A0[0:4, vj])\n                    T.writes(B0[0:4, vj])"
    module = parse(text.format(rows="", column=""))
    assert module == parse(text.format(rows=rows, column=column))
    check(module)


def test_names_that_a_text_had_from_around_it_are_given():
    text = "@T.prim_func\ndef main(A: T.Buffer(shape, dtype)):\n    A[N - 1, 0] = A[0, 0] * factor\n"
    names = {"shape": (np.int64(4), 2), "N": np.int32(4), "dtype": np.dtype("float32"), "factor": 0.5}
    written = '@T.prim_func\ndef main(A: T.Buffer((4, 2), "float32")):\n    A[3, 0] = A[0, 0] * 0.5\n'
    assert parse(text, names=names) == parse(text, names={**names, "dtype": FLOAT32}) == parse(written)
    for dtype in (np.float32, jnp.float32):
        assert parse(text, names={**names, "dtype": dtype}) == parse(written)
    with pytest.raises(DiagnosticError) as caught:
        parse(text, "k.py", names={key: value for key, value in names.items() if key != "factor"})
    assert str(caught.value) == (
        "k.py:3:29: error[TS10]: 'factor' is not defined here.\n"
        "      A[N - 1, 0] = A[0, 0] * factor\n"
        "                              ^^^^^^\n"
        "help: known here: 'main', 'A', 'shape', 'N', 'dtype'; parse(text, names={'factor': ...}) gives what stood "
        "around the text."
    )
    with pytest.raises(DiagnosticError) as caught:
        parse(text, names={**names, "factor": object()})
    assert str(caught.value) == (
        "error[TS34]: 'factor' is given as object, and names stand for numbers, strings, data types."
    )


# Statements without a function around them, and imports alone

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
    assert parse_fragment("import tvm.testing\nfrom tvm.topi import nn\nimport numpy as np\n").functions == {}


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


# Functions of Python as TIR

SIZE = 8


@prim_func
def double(A: T.Buffer((SIZE,), "float32")):
    for i in T.serial(SIZE):
        A[i] = A[i] * 2.0


@T.prim_func(private=True)
def halve(A: T.Buffer((SIZE,), "float32")):
    for i in T.serial(SIZE):
        A[i] = A[i] * 0.5


def test_a_decorated_function_is_what_its_text_says():
    head = '@T.prim_func\ndef double(A: T.Buffer((8,), "float32")):\n'
    text = head + "    for i in T.serial(8):\n        A[i] = A[i] * 2.0\n"
    assert parse(str(double)) == parse(text)


def test_keywords_of_the_decorator_count():
    assert "global_symbol" not in halve.attrs and "global_symbol" in double.attrs


def test_spans_are_lines_of_the_file():
    assert double.body.span.line == double.span.line + 1
    with open(__file__) as file:
        assert "def double" in file.read().splitlines()[double.span.line - 1]


def test_nothing_of_the_function_runs():
    @prim_func
    def raising(A: T.Buffer((8,), "float32")):
        A[0] = 1.0

    assert raising.name == "raising"


def test_only_functions_can_be_decorated():
    with pytest.raises(DiagnosticError) as caught:
        prim_func(3)  # type: ignore[arg-type]
    assert caught.value.diagnostics[0].message == "@prim_func stands above a function, not above a int."


# What a notebook shows of functions and modules


class Page(HTMLParser):
    """The tags of a page, nested as they have to be, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.open, self.tags = "", list[str](), list[tuple[str, dict[str, str | None]]]()
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] != "style":
            self.text += data


@pytest.mark.parametrize("text", kernels("new", "relax"))
def test_a_page_holds_the_whole_text_and_nothing_else(text: str):
    module = tir.parse(text)
    page = Page(module._repr_html_())
    if all(len(line) < 400 for line in str(module).splitlines()):  # longer ones are cut, and say so
        assert "".join(page.text.split()) == "".join(str(module).split())
    assert {tag for tag, _ in page.tags} <= {"div", "style", "details", "summary", "span"}
    for _, attrs in page.tags:
        assert not attrs.keys() & {"src", "href", "onclick", "onload"}


def test_a_name_cannot_leave_its_place():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    T.func_attr({"note": "<script>alert(1)</script>&amp;\\"><b>"})
    with T.sblock("<img src=x>"):
        T.reads()
        T.writes(A[0])
        A[0] = T.float32(0)
"""
    html = tir.parse(text)["main"]._repr_html_()
    assert "<script" not in html and "<img" not in html and "<b>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;" in html


def test_loops_have_the_colour_of_their_kind():
    text = """
@T.prim_func
def main(A: T.Buffer((4, 4, 4), "int32")):
    for i in T.parallel(4):
        for j in T.vectorized(4):
            for k in range(4):
                A[i, j, k] = 0
    for t in T.thread_binding(4, thread="threadIdx.x"):
        A[t, 0, 0] = 1
    while A[0, 0, 0] < 5:
        A[0, 0, 0] = A[0, 0, 0] + 1
"""
    tags = Page(tir.parse(text)._repr_html_()).tags
    hues = [attrs["style"] for tag, attrs in tags if attrs.get("class") == "loop"]
    assert hues == ["--hue:25", "--hue:140", "--hue:210", "--hue:285", "--hue:210"]


def test_blocks_of_long_functions_are_folded_and_say_what_they_do():
    block = """    for i in range(8):
        with T.sblock("b"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(A[vi])
            A[vi] = A[vi] + 1
"""
    head = '@T.prim_func\ndef main(A: T.Buffer((8,), "int32")):\n'
    short, long = (Page(tir.parse(head + block * times)["main"]._repr_html_()) for times in (1, 9))
    closed = [sum(tag == "details" and "open" not in attrs for tag, attrs in page.tags) for page in (short, long)]
    assert closed == [0, 9]
    assert "# A[vi] ← A[vi]" in long.text and "←" not in short.text


def test_a_page_is_readable_on_light_and_on_dark_paper():
    html = tir.parse('@T.prim_func\ndef main(A: T.Buffer((8,), "int32")):\n    A[0] = 1\n')._repr_html_()
    assert "@media (prefers-color-scheme: dark)" in html
