"""The grammar of the notation, and texts that come back."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import random_programs
from specification import OFFSETS, PROGRAMS

import tensorir.text
from tensorir.ir import build, nodes
from tensorir.ir.builtins import TABLE
from tensorir.ir.rewrite import postorder, with_label
from tensorir.ir.types import tensor
from tensorir.ir.typing_rules import MODES
from tensorir.runtime.errors import Source
from tensorir.text import parse, parse_expr
from tensorir.text.cursor import SLOTS
from tensorir.text.lexer import ELEMENTS, GLYPHS, KEYWORDS, usage
from tensorir.text.parser import parse_programs
from tensorir.text.printer import print_expr, print_fencil

# The grammar page holds for the parser


PAGE = (Path(tensorir.text.__file__).parent / "grammar.md").read_text("utf-8")

# A rule is a word; what stands for itself is ("text", t); composed ones are ("all", ...), ("one", ...), ("maybe", e),
# ("many", e).
SAMPLES = {
    "word": ["float", "float32", "f16", "bf16", "float64"],
    "whole": ["0", "7", "123"],
    "number": ["1", "1.0", ".5", "1e-3", "2.5f", "3."],
    "mark": ["ₒ"],
}
SLOT_RULES: dict[str, Any] = {
    "x": "expression",
    "f": ("one", ("text", "+"), "function"),
    "xs": "arguments",
    "dim": "name",
    "int": "bound",
    "bool": ("one", ("text", "true"), ("text", "False")),
    "element": "element",
    "dims": ("all", "name", ("many", ("all", ("text", ","), "name"))),
    "over": ("all", *(("text", t) for t in ["over", ":", "("]), ("maybe", "name"), ("text", ")")),
    "intervals": "intervals",
    "pairs": ("all", "name", ("one", ("text", "→"), ("text", "->")), "name"),
    "mode": ("one", *(("text", m) for m in MODES)),
    "string": ("one", ("text", '"a b"'), ("text", r'"\u00e9\n"')),
}


@cache
def rules() -> dict[str, Any]:
    """The rules of the page, by name."""
    text = re.search(r"```ebnf\n(.*?)```", PAGE, re.DOTALL)
    assert text
    tokens = re.findall(r'"[^"]+"|\?[^?]+\?|[A-Za-z]+|[][{}()|=;,]', text[1])
    found: dict[str, Any] = {}
    while tokens:
        name, equals = tokens.pop(0), tokens.pop(0)
        assert equals == "="
        found[name] = _choice(tokens)
        assert tokens.pop(0) == ";"
    return found


def _choice(tokens: list[str]) -> Any:
    options = [_row(tokens)]
    while tokens[0] == "|":
        tokens.pop(0)
        options.append(_row(tokens))
    return ("one", *options)


def _row(tokens: list[str]) -> Any:
    closers = {"[": ("]", "maybe"), "{": ("}", "many"), "(": (")", "one")}
    parts: list[Any] = []
    while tokens[0] not in ("|", ";", "]", "}", ")"):
        token = tokens.pop(0)
        if token in closers:
            closer, kind = closers[token]
            parts.append((kind, _choice(tokens)))
            assert tokens.pop(0) == closer
        else:
            parts.append(("text", token[1:-1]) if token[0] == '"' else token)
    return ("all", *parts)


@cache
def depth(rule: Any) -> int:
    """How many rules lie between a rule and its shortest sentence; far too many while it is being worked out."""
    known = dict.fromkeys(rules(), 1000)
    while True:
        better = {name: 1 + _least(body, known) for name, body in rules().items()}
        if better == known:
            return _least(rule, known)
        known = better


def _least(rule: Any, known: dict[str, int]) -> int:
    match rule:
        case str():
            return known.get(rule, 0)
        case ("all", *parts):
            return max((_least(p, known) for p in parts), default=0)
        case ("one", *options):
            return min(_least(o, known) for o in options)
        case _:
            return 0


class Sentence:
    """A random sentence of a rule; `budget` bounds how deep it goes."""

    def __init__(self, seed: int) -> None:
        self.random, self.words, self.names = Random(seed), list[str](), 0

    def make(self, rule: Any, budget: int) -> None:
        match rule:
            case "name":
                self.names += 1
                self.words.append(self.random.choice([f"n{self.names}", f"n{self.names}", f"`a {self.names}`"]))
            case "builtin":
                self.make_builtin(budget)
            case "condition":
                start = len(self.words)
                self.make("expression", budget)
                if self.words[start] == "(":  # it may be a tuple, and then it is the call `if(c, a, b)`
                    self.words[start:] = ["true"]
            case str() if rule in SAMPLES:
                self.words.append(self.random.choice(SAMPLES[rule]))
            case str():
                self.make(rules()[rule], budget - 1)
            case ("text", text):
                self.words.append(text)
            case ("all", *parts):
                for part in parts:
                    self.make(part, budget)
            case ("one", *options):
                possible = [o for o in options if depth(o) < budget]
                self.make(self.random.choice(possible or [min(options, key=depth)]), budget)
            case ("maybe", part):
                if budget > depth(part) and self.random.random() < 0.5:
                    self.make(part, budget)
            case (_, part):
                while budget > depth(part) and self.random.random() < 0.4:
                    self.make(part, budget)

    def make_builtin(self, budget: int) -> None:
        row = self.random.choice([row for row in TABLE.values() if row.name != "if"])
        self.words.append(self.random.choice(["", "__"]) + row.name)
        for group in row.form:
            self.words.append("(")
            for index, slot in enumerate(group):
                if slot.endswith("?") and self.random.random() < 0.5:
                    continue
                self.words += [","] * (index > 0)
                self.make(SLOT_RULES[slot.rstrip("?")], budget - 2)
            self.words.append(")")


@pytest.mark.parametrize("seed", range(400))
def test_every_sentence_of_the_grammar_is_read(seed: int):
    sentence = Sentence(seed)
    sentence.make("file", 8 + seed % 14)
    text = " ".join(sentence.words).replace(" ₒ", "ₒ")
    parse_programs(Source("sentence.fencil", text))


def test_every_rule_of_the_grammar_is_defined_and_used():
    mentioned = set(re.findall(r"'([A-Za-z]+)'", repr([list(_names(body)) for body in rules().values()])))
    assert mentioned - {"name", *SAMPLES} <= set(rules())
    assert set(rules()) - mentioned == {"file"}


def _names(rule: Any) -> list[str]:
    match rule:
        case str():
            return [rule]
        case ("text", _):
            return []
        case (_, *parts):
            return [name for part in parts for name in _names(part)]
        case _:
            return []


def test_the_page_shows_every_form_and_names_every_builtin_glyph_keyword_and_element():
    forms = re.search(r"```forms\n(.*?)```", PAGE, re.DOTALL)
    assert forms
    plain = [row for row in TABLE.values() if len(row.form) == 1 and not row.static_slots]
    assert forms[1].split("\n") == [*(usage(row) for row in TABLE.values() if row not in plain), ""]
    words = set(re.findall(r"\w+", PAGE))
    assert {row.name for row in plain} | KEYWORDS | set(ELEMENTS) | set(MODES) <= words
    for glyph in GLYPHS:
        assert glyph in PAGE


def test_the_page_lists_operators_in_the_order_of_their_precedence():
    rows = re.findall(r"^\| `.*\| ([a-z_, ]+) \|$", PAGE, re.MULTILINE)
    listed = [[name.strip() for name in row.split(",")] for row in rows]
    precedences = [[TABLE[name].precedence for name in row] for row in listed]
    assert all(len(set(row)) == 1 for row in precedences)
    assert [row[0] for row in precedences] == sorted(row[0] for row in precedences)
    assert {name for row in listed for name in row} == {row.name for row in TABLE.values() if row.glyphs}


def test_every_static_slot_of_the_table_can_be_read_and_written():
    assert {slot for row in TABLE.values() for slot in row.static_slots} <= set(SLOTS)


# Text and programs, there and back


def inner_nodes(f: nodes.Fencil) -> list[int]:
    """How many distinct applications and functions each closure has: what sharing must keep."""
    return [sum(isinstance(n, (nodes.Apply, nodes.Call, nodes.Lambda)) for n in postorder(c.value)) for c in f.closures]


def check(f: nodes.Fencil) -> None:
    text = str(f)
    back = parse(text)
    assert back == f
    assert str(back) == text
    assert inner_nodes(back) == inner_nodes(f)
    ascii = print_fencil(f, ascii=True)
    assert ascii.isascii()
    assert parse(ascii) == f
    assert parse(print_fencil(f, width=30)) == f


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_specification_comes_back(program: str):
    check(parse(program, offset_provider=OFFSETS))


@pytest.mark.parametrize("seed", range(200))
def test_a_random_program_comes_back(seed: int):
    check(random_programs.fencil(seed))


def test_random_programs_hold_every_builtin():
    found = Counter(
        n.op
        for s in range(400)
        for c in random_programs.fencil(s).closures
        for n in postorder(c.value)
        if hasattr(n, "op")
    )
    assert [name for name in TABLE if not found[name]] == []


def test_a_graph_of_2_to_the_60_paths_prints_as_60_lets():
    e = build.var("x", tensor("float"))
    for _ in range(60):
        e = build.call("plus", e, e)
    text = print_expr(e)
    assert text.count("let ") == 59
    assert parse_expr(text, {"x": tensor("float")}) == e


def test_labels_that_mean_something_else_are_changed_and_stay_changed():
    x = build.var("x", tensor("float", I=(0, 3)))
    for label in ["x", "I", "exp", "__exp", "float", "shift", "let", "a b", "t1"]:
        e = with_label(build.call("exp", x), label)
        f = build.fencil("f", [x, out := build.var("out", x.type)], [build.closure(out, build.call("plus", e, e))])
        check(f)


def test_a_shared_function_of_two_closures_keeps_its_names():
    x, out, more = (build.var(name, tensor("float")) for name in ("x", "out", "more"))
    a = build.var("a", tensor("float"))
    double = build.function([a], build.call("plus", a, a))
    closures = [build.closure(o, build.apply(double, x)) for o in (out, more)]
    check(build.fencil("f", [x, out, more], closures))


def test_a_shift_along_a_dim_that_is_named_like_a_variable_is_written_in_words():
    x = build.var("I", tensor("float", I=(0, 5)))
    assert print_expr(build.cartesian_shift(x, "I", 1)) == "cartesian_shift(I, 1)(I)"


def test_an_operator_of_types_that_do_not_follow_is_written_with_them():
    wide = tensor("float", I=(0, 5))
    x = build.var("x", wide)
    e = build.apply(build.operator("plus", tensor("float", I=(0, 3)), wide), x, x)
    text = "operator(+, tensor<float, I[0:3]>, tensor<float, I[0:5]>)(x, x)"
    assert print_expr(e) == text
    assert parse_expr(text, [x]) == e


N = 3_000
"""Three times as deep as Python calls functions within each other."""
DEEP = {
    "parentheses": "(" * N + "x" + ")" * N,
    "opposites": "-" * N + "x",
    "negations": "¬" * N + "b",
    "a chain": " + ".join(["x"] * N),
    "powers": "x ** " * N + "x",
    "shifts": "⟪I, 1⟫(" * N + "z" + ")" * N,
    "calls": "exp(x + " * N + "x" + ")" * N,
    "functions": "(λ(a) → " * N + "a" + ")(x)" * N,
    "bindings": "".join(f"let a{k} = {f'a{k - 1}' if k else 'x'} + x; " for k in range(N)) + f"a{N - 1}",
    "bindings in bindings": "let a = " * N + "x + x" + "; a + x" * N,
    "choices": "if b then x else " * N + "x",
    "choices in choices": "if b then " * N + "x" + " else x" * N,
    "conversions": "cast(" * N + "x" + ", float)" * N,
    "tuples": "(x, " * 90 + "x" + ")" * 90,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_an_expression_3_000_deep_comes_back(text: str):
    variables = {"x": tensor("float"), "b": tensor("bool"), "z": tensor("float", I=(-10_000, 10_000))}
    e = parse_expr(text, variables)
    printed = print_expr(e)
    assert parse_expr(printed, variables) == e
    assert text[0] in "-¬" or max(map(len, printed.splitlines())) <= 100


def test_functions_that_share_a_parameter_are_written_with_names_of_their_own():
    a, x = (build.var(name, tensor("float")) for name in ("a", "x"))
    square = build.call("multiplies", a, a)
    twice = build.call("plus", square, square)
    e = build.call("plus", *(build.apply(build.function([a], body), x) for body in (twice, build.call("neg", twice))))
    back = parse_expr(print_expr(e), [x])
    assert back.type == e.type and back.free == e.free
    assert print_expr(back) == print_expr(e)


def test_results_of_a_function_share_nodes():
    text = """f(x: tensor<float, I[0:5]>, y: tensor<float, J[0:3]>, z: tensor<float, J[0:3]>) {
      z ← loop(1, 4)(
        λ(i, a, b) → true,
        λ(i, a, b) → let t = reduce(+, 0.0, I)(a); let u = gather(J)(b, 1) × t; { a + u, b × t },
        x, y
      );
    }"""
    f = parse(text)
    loop = f.closures[0].value
    step = loop.args[1]
    assert [str(t) for t in step.type.results] == ["tensor<float, I[0:5]>", "tensor<float, J[0:3]>"]
    first, second = step.results
    assert {id(n) for n in postorder(first)} & {id(n) for n in postorder(second) if n.label == "t"}
    assert parse(str(f)) == f and str(parse(str(f))) == str(f)
    assert str(f).count("reduce") == 1


def test_what_closures_share_stands_in_front_of_them():
    text = """f(x: tensor<float, I[0:5]>, a: tensor<float, I[0:5]>, b: tensor<float, I[0:5]>, c: tensor<float>) {
  let t1 = exp(x);
  let square = λ(v: tensor<float, I[0:5]>) → v × v;
  a ← t1 + square(x);
  b ← t1 - square(t1);
  c ← let t2 = reduce(+, 0.0, I)(a); t2 × t2;
}"""
    f = parse(text)
    assert str(f) == text
    first, second, _ = f.closures
    assert {id(n) for n in postorder(first.value) if isinstance(n, nodes.Call) and n.op == "exp"} == {
        id(n) for n in postorder(second.value) if isinstance(n, nodes.Call) and n.op == "exp"
    }
    check(f)


def test_what_is_stored_into_ends_what_was_bound():
    text = """f(x: tensor<float, I[0:5]>, a: tensor<float, I[0:5]>, b: tensor<float, I[0:5]>) {
  let t1 = exp(a);
  let t2 = exp(x);
  a ← t1 + t2;
  let t1 = sin(a);
  b ← t1 × t2;
  x ← t1 - t2;
}"""
    f = parse(text)
    # what the first closure shares with the others would read another `x` behind the last
    assert str(f).count("exp(x)") == 2
    check(f)
