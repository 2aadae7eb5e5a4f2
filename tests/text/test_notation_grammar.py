"""The grammar page holds for the parser: every sentence made from it is read, and nothing of the table is missing."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tensorir.text
from tensorir.ir.builtins import TABLE
from tensorir.ir.typing_rules import MODES
from tensorir.runtime.errors import Source
from tensorir.text.cursor import SLOTS
from tensorir.text.lexer import ELEMENTS, GLYPHS, KEYWORDS, usage
from tensorir.text.parser import parse_programs

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
