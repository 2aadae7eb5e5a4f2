"""What is refused of a text, and where its limits are."""

import itertools
import tracemalloc
from pathlib import Path
from random import Random

import pytest

import tensorir as ti
from tensorir import DiagnosticError
from tensorir.ir.types import tensor
from tensorir.runtime.errors import Source
from tensorir.text import parse, parse_all, parse_expr, read
from tensorir.text.lexer import MAX_TEXT, tokenize
from tests.corpus import corpus
from tests.effort import count_calls

# Texts that are no programs, for their syntax, names or types


CASES = corpus(Path(__file__).with_name("diagnostics.txt"))


@pytest.mark.parametrize(("program", "expected"), CASES.values(), ids=CASES)
def test_the_diagnostic_is(program: str, expected: str):
    with pytest.raises(DiagnosticError) as error:
        parse(program, name="p.fencil")
    assert str(error.value) == expected


# What the rules of types accept, at each side of what they ask for


@pytest.mark.parametrize("n", [-2, -1, 0, 1, 2, 3, 4, 6])
@pytest.mark.parametrize("start", range(-4, 3))
@pytest.mark.parametrize("stop", range(3, 9))
def test_a_dim_is_split_where_both_its_ends_are_multiples(start: int, stop: int, n: int):
    text = f"f(y: tensor<float>, x: tensor<float, I[{start}:{stop}]>) {{ y ← reduce(+, 0.0, A)(reduce(+, 0.0, B)("
    text += f"split_dim(I, A, B, {n})(x))); }}"
    if n > 0 and start % n == 0 and stop % n == 0:
        assert ti.parse(text).name == "f"
    else:
        with pytest.raises(ti.DiagnosticError, match=rf"I\[{start}:{stop}\] cannot be split by {n}: both ends"):
            ti.parse(text)


def test_the_outer_dim_of_a_split_counts_blocks():
    program = ti.parse(
        "f(y: tensor<float, A[-1:2], B[0:3]>, x: tensor<float, I[-3:6]>) { y ← split_dim(I, A, B, 3)(x); }"
    )
    assert str(program.closures[0].value.type) == "tensor<float, A[-1:2], B[0:3]>"


# Brackets, beside a stack of them

CLOSERS = dict(zip("([{⟪", ")]}⟫", strict=True))
CHANCE = Random(7)
BRACKETS = [
    *map("".join, itertools.product("([)],", repeat=4)),
    *("".join(CHANCE.choices("([{⟪)]}⟫,", k=CHANCE.randrange(5, 9))) for _ in range(2000)),
]


def matched(text: str) -> tuple[list[tuple[int, str]], dict[int, int], dict[int, int]]:
    """The brackets that match none, by place, what closes each, and the commas right inside of each."""
    wrong: list[tuple[int, str]] = []
    stack: list[int] = []
    closing: dict[int, int] = {}
    commas: dict[int, int] = {}
    for place, sign in enumerate(text):
        if sign in CLOSERS:
            stack.append(place)
        elif sign == ",":
            if stack:
                commas[stack[-1]] = commas.get(stack[-1], 0) + 1
        elif all(CLOSERS[text[k]] != sign for k in stack):
            wrong.append((place, f"this '{sign}' closes nothing."))
        else:
            while CLOSERS[text[stack[-1]]] != sign:
                wrong.append((k := stack.pop(), f"this '{text[k]}' is never closed."))
            closing[stack.pop()] = place
    return [*wrong, *((k, f"this '{text[k]}' is never closed.") for k in stack)], closing, commas


def test_brackets_match_as_a_stack_of_them_does():
    for text in BRACKETS:
        wrong, closing, commas = matched(text)
        if wrong:
            with pytest.raises(DiagnosticError) as refused:
                tokenize(Source("p", text))
            said = [(d.span.start, d.message) for d in refused.value.diagnostics]
            assert sorted(said) == sorted(wrong), text
        else:
            tokens = tokenize(Source("p", text))
            assert (tokens.closing, tokens.commas) == (closing, commas), text


# Bad input of every size is refused with a located diagnostic, quickly and in little memory

HEAD = "f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) { out ← "
K = 100_000

BAD = {
    "parentheses": ("(" * K, "S05"),
    "parentheses around a name": (HEAD + "(" * K + "x" + ")" * K + "}", "S05"),
    "brackets that do not match": ("([{⟪" * 4000 + ")" * 4000, "S04"),
    "closing brackets": (")" * K, "S04"),
    "signs": (HEAD + "-" * K + "x }", "S05"),
    "functions": (HEAD + "λ(a) → " * 50_000 + "x }", "S05"),
    "bindings": (HEAD + "let a = " * K + "x }", "S05"),
    "choices": (HEAD + "if " * K + "x }", "S05"),
    "NUL bytes": ("\0" * K, "S02"),
    "a huge interval": ("f(out: tensor<float, I[0:1000000000000000]>) { out ← 1.0 }", "T40"),
    "a huge interval of a function": (HEAD + "(λ(a: tensor<float, I[0:1000000000000000]>) → a)(x) }", "T40"),
    "a bound beyond 64 bits": ("f(out: tensor<float, I[0:" + "9" * 40 + "]>) { out ← 1.0 }", "S10"),
    "a sum of bounds beyond 64 bits": (
        "f(o: tensor<float, I[0:" + "+4611686018427387904" * 2 + "]>) { o ← 1.0 }",
        "S10",
    ),
    "a shift beyond 64 bits": (HEAD + "⟪I, 99999999999999999999⟫(x) }", "S10"),
    "a long literal": (HEAD + "1" * K + " }", "S07"),
    "a long fraction": (HEAD + "0." + "1" * K + " }", "S07"),
    "recursion in let": (HEAD + "let a = a + 1.0; a }", "N06"),
    "duplicate names": ("f(a: tensor<float>, a: tensor<float>) { a ← 1.0 }", "N02"),
    "a comment without an end": ("/*" * K, "S03"),
    "quotes": ('"' * (K + 1), "S03"),
    "backticks": ("`" * (K + 1), "S03"),
    "many errors of syntax": ("f(out: tensor<float>) {" + "out ← + ;" * 30_000 + "}", "S01"),
    "many errors of names": ("f(out: tensor<float>) {" + "out ← q ;" * 30_000 + "}", "N01"),
    "many errors of types": ("f(out: tensor<float>) {" + "out ← 1.0 + 1 ;" * 30_000 + "}", "T01"),
    "words": ("a " * 300_000, "S01"),
    "too many words": ("a " * 500_001, "S08"),
    "deep element types": ("f(x: tensor<" + "(" * 10_000 + "float" + ",)" * 10_000 + ">) {}", "S05"),
    "deep tuples": (HEAD + "(" * 10_000 + "1.0" + ",)" * 10_000 + "}", "S05"),
    "a surrogate": ("f(\ud800)", "S02"),
}


@pytest.mark.parametrize(("text", "code"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_at_a_place(text: str, code: str):
    with pytest.raises(DiagnosticError) as error:
        parse(text)
    first = error.value.diagnostics[0]
    assert first.code == code
    assert first.span.source.text == text
    assert len(error.value.diagnostics) <= 20
    assert len(str(error.value)) < 20_000


@pytest.mark.parametrize("name", ["parentheses around a name", "signs"])
def test_bad_input_takes_little_memory(name: str):
    text = BAD[name][0]
    tracemalloc.start()
    with pytest.raises(DiagnosticError):
        parse(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 256 * 2**20


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "large.fencil"
    with path.open("wb") as file:
        file.truncate(300 * 10**6)
    with pytest.raises(
        DiagnosticError, match=rf"error\[S08\]: the file has 300000000 bytes, and {MAX_TEXT} is the limit"
    ):
        read(path)


def test_a_large_text_is_refused():
    with pytest.raises(DiagnosticError, match=r"error\[S08\]"):
        parse(" " * (MAX_TEXT + 1))


def test_broken_programs_give_diagnostics_and_nothing_else():
    good = "f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { out ← reduce(λ(a, b) → a + ⟪I, -1⟫(b), 0.0, I)"
    good += '(x) × let t = (x, 2)[0]; assert_(t[I[0:2]], x < 1.0 ∧ ¬true, "no") ; offsets { } /* c */ } // end'
    for seed in range(1500):
        r = Random(seed)
        text = list(good)
        for _ in range(r.randrange(1, 6)):
            place = r.randrange(len(text))
            text[place : place + r.randrange(3)] = r.choice(
                ["", "(", ")", ";", "`", '"', "let", "1", "⟪", "}", "λ", "\0", good[place:]]
            )
        try:
            parse("".join(text))
        except DiagnosticError as error:
            assert str(error)


def test_5_000_nodes_are_read_and_typed_in_linear_time():
    def read(count: int) -> None:
        terms = " + ".join(f"⟪I, {k % 3 - 1}⟫(x) × {k}.0" for k in range(count))
        parse_expr(terms, {"x": tensor("float", I=(0, 100))})

    assert count_calls(lambda: read(1250)) < 15 * count_calls(lambda: read(125))


@pytest.mark.parametrize("given", [3, None, b"f(out: tensor<float>) { out <- 1.0 }", Path("f.fencil")])
@pytest.mark.parametrize("reads", [parse, parse_all])
def test_what_is_no_text_is_refused(reads, given):
    with pytest.raises(DiagnosticError) as refused:
        reads(given)
    assert str(refused.value).startswith("error[S15]: a program is a text, and this is of type ")


LONG = {
    "a string": HEAD + 'print("TEXT", x) }',
    "a string of escapes": HEAD + 'print("TEXT", x) }',
    "a comment": "// TEXT\n" + HEAD + "x }",
    "a comment over lines": "/* TEXT */" + HEAD + "x }",
    "short comments": "TEXT" + HEAD + "x }",
    "short comments over lines": "TEXT" + HEAD + "x }",
    "a name": HEAD + "x } TEXT",
    "a name in backticks": HEAD + "x } `TEXT`",
    "characters that mean nothing": HEAD + "x } TEXT",
    "one character that means nothing": HEAD + "x } TEXT",
}
PIECES = {"a string of escapes": "\\\\", "short comments": "//\n", "short comments over lines": "/**/"}
PIECES |= {"characters that mean nothing": "§ ", "one character that means nothing": "§"}


@pytest.mark.parametrize("name", LONG)
def test_long_pieces_take_little_memory_and_few_steps(name: str):
    def read(length: int) -> None:
        piece = PIECES.get(name, "a")
        try:
            parse(LONG[name].replace("TEXT", piece * (length // len(piece))))
        except DiagnosticError as error:
            assert error.diagnostics

    read(10)
    tracemalloc.start()
    read(1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 10**6
    assert count_calls(lambda: read(1_000_000)) < 2 * count_calls(lambda: read(1_000))


def test_sums_of_sizes_are_read_in_linear_time():
    def work(sizes: int) -> int:
        total = "+".join(f"n{k}" for k in range(sizes))
        return count_calls(lambda: parse(f"f(x: tensor<float, I[0:{total}]>) {{ x ← 1.0; }}"))

    assert work(2000) < 5 * work(500)


def test_comments_that_overlap_are_read_as_they_stand():
    assert str(parse("/*/ a **/ f(x: tensor<float>) { x ← 1.0 /* / * */ + /**/ 2.0; } // */")) == str(
        parse("f(x: tensor<float>) { x ← 1.0 + 2.0; }")
    )
