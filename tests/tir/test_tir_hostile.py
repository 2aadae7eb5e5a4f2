"""Bad texts: each is refused with a located sentence of its own, quickly, and nothing of it happens."""

from __future__ import annotations

import sys
import tracemalloc

import pytest

from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import parse
from tests.effort import count_calls

HEAD = '@T.prim_func(s_tir=True)\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32"), n: T.int32):\n'
RELAX = '@R.function\ndef main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((4,), "int32")):\n'


def body(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines)


def relax(*lines: str) -> str:
    return RELAX + "".join(f"    {line}\n" for line in lines)


CASES: list[tuple[str, object, str]] = [
    ("an empty text", "", "- TS30 the text holds no function and no module."),
    ("a program", "import os\nos.system('true')\n", "2:1 TS10 'os' is not defined here."),
    ("a bare expression", "1 + 1", "1:1 TS07 only functions, modules and constants stand at this level."),
    ("an import of everything", "from tvm.script.tir import *\n", "1:28 TS07 'import *' is no part of TVMScript."),
    (
        "a call of __import__",
        body("A[0] = __import__('os').system('true')"),
        "3:12 TS10 '__import__' is not defined here.",
    ),
    (
        "attributes of types",
        body("A[0] = (1).__class__.__bases__[0]"),
        "3:12 TS07 the attribute '__bases__' is no part of TVMScript.",
    ),
    (
        "a thread without a name",
        body("t = T.int32()", 'T.attr(t, "pragma_unroll_explicit", 1)', "T.launch_thread(t, 8)", "A[t] = A[t]"),
        "5:5 TS21 't' is a plain variable, and the text does not say which thread it is.",
    ),
    (
        "a dunder of a dialect",
        body("T.__init__.__globals__['os']"),
        "3:5 TS07 the attribute '__globals__' is no part of TVMScript.",
    ),
    (
        "a dunder of a buffer",
        body("A[0] = A.__class__"),
        "3:12 TS07 the attribute '__class__' is no part of TVMScript.",
    ),
    ("getattr", body("A[0] = getattr(A, 'data')"), "3:12 TS10 'getattr' is not defined here."),
    ("eval", body("eval('1')"), "3:5 TS10 'eval' is not defined here."),
    ("open", body("A[0] = open('/etc/passwd')"), "3:12 TS10 'open' is not defined here."),
    ("exec as a statement", body("exec('x = 1')"), "3:5 TS10 'exec' is not defined here."),
    (
        "a decorator that calls",
        "@print('x')\n@T.prim_func\ndef main():\n    pass\n",
        "3:1 TS31 the function 'main' has 2 decorators.",
    ),
    ("a foreign decorator", "@functools.cache\ndef main():\n    pass\n", "1:2 TS10 'functools' is not defined here."),
    (
        "a decorator that is an expression",
        "@(lambda f: f)\ndef main():\n    pass\n",
        "1:3 TS31 a decorator is a name such as T.prim_func.",
    ),
    (
        "no decorator",
        "def main(A: T.Buffer((8,), 'float32')):\n    pass\n",
        "1:1 TS31 the function 'main' has no decorators.",
    ),
    (
        "a decorator's wrong keyword",
        "@T.prim_func(privat=True)\ndef main():\n    pass\n",
        "1:2 TS31 T.prim_func has no use for 'privat' here.",
    ),
    ("a class that is no module", "class Module:\n    pass\n", "1:1 TS31 the class 'Module' is no module."),
    ("a module with bases", "@I.ir_module\nclass Module(object):\n    pass\n", "2:1 TS31 a module has no bases."),
    ("an f-string", body("A[0] = f'{n}'"), "3:12 TS07 f-strings are no part of TVMScript."),
    ("bytes", body("A[0] = b'x'"), "3:12 TS07 bytes are no part of TVMScript."),
    ("a walrus", body("A[(k := 3)] = 1.0"), "3:8 TS07 an assignment inside of an expression is no part of TVMScript."),
    ("a lambda that is called", body("A[0] = (lambda: 1)()"), "3:12 TS07 a lambda cannot be called here."),
    ("a comprehension", body("A[[k for k in (1, 2)]] = 1.0"), "3:7 TS07 a comprehension is no part of TVMScript."),
    ("a generator", body("A[0] = sum(k for k in (1, 2))"), "3:12 TS10 'sum' is not defined here."),
    ("await", body("await n"), "3:5 TS07 'await' is no part of TVMScript."),
    ("yield", body("yield n"), "3:5 TS07 'yield' is no part of TVMScript."),
    (
        "try",
        body("try:", "    A[0] = 1.0", "except E:", "    pass"),
        "3:5 TS07 'try' is no part of a function of TVMScript.",
    ),
    ("with open", body("with open('x') as f:", "    A[0] = 1.0"), "3:10 TS10 'open' is not defined here."),
    ("del", body("del A"), "3:5 TS07 'del' is no part of a function of TVMScript."),
    ("global", body("global A"), "3:5 TS07 'global' is no part of a function of TVMScript."),
    ("raise", body("raise ValueError"), "3:5 TS07 'raise' is no part of a function of TVMScript."),
    (
        "match",
        body("match n:", "    case 1:", "        pass"),
        "3:5 TS07 'match' is no part of a function of TVMScript.",
    ),
    ("an import inside", body("import os"), "3:5 TS07 an import is no part of a function of TVMScript."),
    ("a function inside", body("def f():", "    pass"), "3:5 TS07 a function is no part of a function of TVMScript."),
    ("a class inside", body("class C:", "    pass"), "3:5 TS07 a class is no part of a function of TVMScript."),
    (
        "for over a list",
        body("for i in [1, 2]:", "    A[i] = 1.0"),
        "3:14 TS21 a loop runs over T.grid, T.serial, ..., and this is a sequence.",
    ),
    (
        "for with else",
        body("for i in range(8):", "    A[i] = 1.0", "else:", "    pass"),
        "6:9 TS07 loops of TVMScript have no 'else'.",
    ),
    (
        "while with else",
        body("while n > 0:", "    pass", "else:", "    pass"),
        "6:9 TS07 loops of TVMScript have no 'else'.",
    ),
    ("a chain of targets", body("x = y = 3"), "3:5 TS07 an assignment of TVMScript has one target."),
    ("an unknown name", body("A[m] = 1.0"), "3:7 TS10 'm' is not defined here."),
    ("an unknown builtin", body("A[0] = T.exq(A[1])"), "3:12 TS12 T.exq is not known."),
    ("too few arguments", body("A[0] = T.exp()"), "3:12 TS24 T.exp takes 1 argument, and this gives 0."),
    (
        "a wrong keyword",
        body("for i in T.serial(8, annotation={}):", "    pass"),
        "3:14 TS24 T.serial has no parameter 'annotation'.",
    ),
    ("too many indices", body("A[0, 1] = 1.0"), "3:5 TS23 'A' has the shape (8,), and this gives 2 indices."),
    ("an index that is a float", body("A[1.5] = 1.0"), "3:7 TS21 an index is an integer, and this is a float."),
    ("an unknown data type", body('A[0] = T.Cast("float33", n)'), "3:12 TS22 'float33' names no data type."),
    ("a power", body("B[0] = n ** 2"), "3:12 TS20 '**' is no operator of TIR."),
    (
        "a division of integers",
        body("B[0] = n / 2"),
        "3:12 TS20 '/' of integers is ambiguous: write '//' (floor), or T.truncdiv (towards zero).",
    ),
    ("matrix product", body("A[0] = A @ A"), "3:12 TS21 an expression stands here, and this is the buffer 'A'."),
    ("integer by zero in Python", body("B[1 // 0] = 1"), "3:7 TS20 this divides by zero."),
    ("a huge power", body("B[0] = 2 ** 100000"), "3:12 TS20 constants of this size are no part of TVMScript."),
    ("a huge shift", body("B[0] = 1 << 100000"), "3:12 TS20 constants of this size are no part of TVMScript."),
    ("a huge repetition", body("x = [0] * 10 ** 9"), "3:9 TS20 this sequence would have more than 10,000 members."),
    ("is", body("if n is 3:", "    pass"), "3:8 TS07 'is' is no comparison of TVMScript."),
    ("in", body("if n in (1, 2):", "    pass"), "3:8 TS07 'in' is no comparison of TVMScript."),
    ("bits of floats", body("A[0] = A[0] & A[1]"), "3:12 TS20 '&' takes integers, and this is float32."),
    ("a string as a number", body("A[0] = A[0] + 'x'"), "3:12 TS20 '+' takes numbers and expressions."),
    ("a string in a store", body("B[0] = 'x'"), "3:12 TS20 'B' holds int32, and this is a string."),
    (
        "a word as a float",
        body("B[0] = T.float32('abc')"),
        "3:22 TS20 what T.float32 takes is a number, and this is a string.",
    ),
    ("a string as an index", body("B[0] = A['a']"), "3:14 TS21 an index is an integer, and this is a string."),
    ("a float as an index", body("B[0] = A[A[0]]"), "3:14 TS21 an index is an integer, and this is float32."),
    ("a float as a condition", body("if A[0]:", "    pass"), "3:8 TS20 the condition is float32, not bool."),
    (
        "a float under not",
        body("B[0] = T.Select(not A[0], 1.0, 2.0)"),
        "3:25 TS20 the condition is float32, not bool.",
    ),
    (
        "a float that selects",
        body("B[0] = T.if_then_else(A[0], 1, 2)"),
        "3:27 TS20 the condition is float32, not bool.",
    ),
    (
        "a float before if",
        body("B[0] = A[1] if A[0] else A[2]"),
        "3:20 TS20 the condition is float32, not bool.",
    ),
    (
        "a float in a while",
        body("while A[0]:", "    B[0] = A[0]"),
        "3:11 TS20 the condition is float32, not bool.",
    ),
    (
        "other bits of a float",
        body("B[0] = T.reinterpret('int8', A[0])"),
        "3:12 TS20 T.reinterpret keeps the bytes: float32 has 4, and int8 has 1.",
    ),
    (
        "other bits of a float by its intrinsic",
        body("B[0] = T.call_intrin('int64', 'tirx.reinterpret', A[0])"),
        "3:12 TS20 T.reinterpret keeps the bytes: float32 has 4, and int64 has 8.",
    ),
    (
        "bits of a float counted",
        body("B[0] = T.popcount(A[0])"),
        "3:12 TS20 T.popcount takes integers, and this is float32.",
    ),
    (
        "a large int8",
        body("B[0] = T.int8(1000)"),
        "3:19 TS20 the constant 1000 does not fit int8, which holds -128 to 127.",
    ),
    (
        "a negative uint8",
        body("B[0] = T.uint8(-1)"),
        "3:20 TS20 the constant -1 does not fit uint8, which holds 0 to 255.",
    ),
    (
        "a large index",
        body("B[0] = A[9223372036854775808]"),
        "3:14 TS20 the constant 9223372036854775808 does not fit int64, which holds -9223372036854775808 to "
        "9223372036854775807.",
    ),
    ("a loop over floats", body("for i in range(1.5):", "    pass"), "3:14 TS21 the bounds of a loop are integers."),
    ("unequal unpacking", body("for i, j in T.grid(2, 3, 4):", "    pass"), "3:9 TS24 there are 3 values for 2 names."),
    (
        "remap of no loop",
        body("with T.sblock('b'):", "    v = T.axis.remap('S', [n])"),
        "4:13 TS24 T.axis.remap takes variables of the enclosing loops.",
    ),
    (
        "remap of a wrong kind",
        body("for i in range(8):", "    with T.sblock('b'):", "        v, = T.axis.remap('X', [i])"),
        "5:18 TS24 'X' is no kind of axis; 'S' is spatial, 'R' a reduction.",
    ),
    ("an axis outside of a block", body("v = T.axis.spatial(8, 0)"), "3:5 TS26 an axis stands inside of a block."),
    ("init outside of a block", body("with T.init():", "    A[0] = 1.0"), "3:10 TS26 T.init stands inside of a block."),
    ("a buffer that is called", body("A(0)"), "3:5 TS11 the buffer 'A' cannot be called."),
    ("a number that is called", body("3(0)"), "3:5 TS11 the number 3 cannot be called."),
    (
        "match_buffer of no parameter",
        body("C = T.match_buffer(A.data, (8,))"),
        "3:9 TS26 'A' is no parameter of this function.",
    ),
    (
        "a region with steps",
        body("with T.sblock('b'):", "    T.reads(A[0:8:2, 0])"),
        "4:17 TS23 'A' has the shape (8,), and this gives 2 indices.",
    ),
    ("return without a value", body("return"), "3:5 TS24 'return' of TVMScript needs a value."),
    ("no type of a parameter", "@T.prim_func\ndef main(A):\n    pass\n", "2:10 TS32 the parameter 'A' has no type."),
    (
        "a default of a parameter",
        "@T.prim_func\ndef main(n: T.int32 = 3):\n    pass\n",
        "2:23 TS32 parameters of TVMScript have no defaults.",
    ),
    ("star parameters", "@T.prim_func\ndef main(*args):\n    pass\n", "2:11 TS32 parameters of TVMScript are plain."),
    (
        "two parameters of one name",
        "@T.prim_func\ndef main(n: T.int32, n: T.int32):\n    pass\n",
        "2:22 TS32 there are two parameters 'n'.",
    ),
    (
        "two functions of one name",
        "@I.ir_module\nclass M:\n" + 2 * "    @T.prim_func\n    def f():\n        pass\n",
        "7:5 TS31 there are two functions 'f'.",
    ),
    (
        "a handle of a size",
        '@T.prim_func\ndef main(A: T.Buffer((8.5,), "float32")):\n    pass\n',
        "2:13 TS21 a size is an integer, and this is a float.",
    ),
    (
        "a void buffer",
        '@T.prim_func\ndef main(A: T.Buffer((8,), "void")):\n    pass\n',
        "2:13 TS22 a buffer has no elements of type void.",
    ),
    (
        "code in quotes",
        '@T.prim_func\ndef main(A: T.Buffer(("__import__(0)",), "float32")):\n    pass\n',
        "2:23 TS11 an expression of type int32 cannot be called.",
    ),
    (
        "long code in quotes",
        '@T.prim_func\ndef main(A: T.Buffer(("' + "n+" * 200 + 'n",), "float32")):\n    pass\n',
        "2:23 TS04 an expression in quotes may have 200 characters.",
    ),
    ("a static assertion", body("T.static_assert(1 > 2, 'no')"), "3:5 TS25 a static assertion fails: no."),
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
    ("an unterminated string", body("A[0] = 'x"), "3:12 TS05 this string is never closed."),
    ("an unterminated triple string", body('A[0] = """x'), "3:14 TS05 this string is never closed."),
    ("an unclosed bracket", body("A[0 = 1.0"), "3:6 TS05 this '[' is never closed."),
    ("a wrong bracket", body("A[0) = 1.0"), "3:8 TS05 this ')' closes no bracket."),
    ("a closing bracket", body("A[0]] = 1.0"), "3:9 TS05 this ']' closes no bracket."),
    ("a null", body("A[0] = 1.0\0"), "3:15 TS05 the character U+0000 cannot stand in a text."),
    ("a surrogate", body("A[0] = '\udc80'"), "3:13 TS05 the character U+DC80 cannot stand in a text."),
    ("an odd character", body("A[0] = 1.0 $ 2.0"), "3:16 TS05 the character '$' has no meaning here."),
    ("an exotic number", body("A[0] = 1jx"), "3:13 TS05 this is no Python: invalid imaginary literal."),
    (
        "mixed tabs",
        HEAD + "    A[0] = 1.0\n\tA[1] = 1.0\n",
        "4:1 TS05 this is no Python: inconsistent use of tabs and spaces in indentation.",
    ),
    (
        "bad indentation",
        HEAD + "    A[0] = 1.0\n  A[1] = 1.0\n",
        "4:13 TS05 this is no Python: unindent does not match any outer indentation level.",
    ),
    (
        "print of Python 2",
        body("print n"),
        "3:5 TS05 this is no Python: Missing parentheses in call to 'print'. Did you mean print(...)?.",
    ),
    ("a type ignored", body("x: int32 = 3"), "3:8 TS10 'int32' is not defined here."),
    ("a live number", 3, "- TS33 TVMScript is text, or an object of TVM, and this is of type int."),
    ("relax: an unknown operator", relax("z = R.ad(x, x)", "return z"), "3:9 TS12 R.ad is not known."),
    (
        "relax: two types",
        relax("z = R.add(x, y)", "return z"),
        "3:9 TS40 R.add takes operands of one type, and these are float32 and int32.",
    ),
    (
        "relax: shapes that do not meet",
        relax("z = R.add(x, R.const([1.0, 2.0], 'float32'))", "return z"),
        "3:9 TS40 R.add cannot broadcast sizes 3 and 2.",
    ),
    (
        "relax: a stated shape",
        relax("z: R.Tensor((3, 3), 'float32') = R.add(x, x)", "return z"),
        "3:5 TS40 'z' has size 2 along dimension 0, and 3 is stated.",
    ),
    (
        "relax: a matrix product",
        relax("z = R.matmul(x, x)", "return z"),
        "3:9 TS40 R.matmul sums over sizes 3 and 2, which differ.",
    ),
    (
        "relax: a reshape",
        relax("z = R.reshape(x, (4, 2))", "return z"),
        "3:9 TS40 R.reshape keeps the number of elements, and makes 8 of 6.",
    ),
    (
        "relax: an axis",
        relax("z = R.sum(x, axis=[5])", "return z"),
        "3:9 TS40 R.sum has no axis 5 in a tensor of 2 dimensions.",
    ),
    ("relax: no else", relax("if x:", "    z = x", "return z"), "3:5 TS42 'if' of Relax needs an 'else'."),
    ("relax: after return", relax("return x", "z = x"), "4:5 TS42 nothing can follow 'return'."),
    (
        "relax: output outside",
        relax("R.output(x)", "return x"),
        "3:5 TS41 R.output stands inside of R.dataflow() only.",
    ),
    ("relax: code", relax("z = __import__('os')", "return z"), "3:9 TS10 '__import__' is not defined here."),
    (
        "relax: a loop",
        relax("for i in range(3):", "    z = x", "return x"),
        "3:5 TS07 this is no part of a function of Relax.",
    ),
    (
        "relax: an attribute",
        relax("z = x.__class__", "return z"),
        "3:9 TS11 a value of Relax has no attribute '__class__'.",
    ),
    ("relax: a wrong keyword", relax("z = R.sum(x, axes=[0])", "return z"), "3:9 TS24 R.sum has no parameter 'axes'."),
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
