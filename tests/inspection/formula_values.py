r"""Equations in LaTeX evaluated as they read: a parser of what `ti.inspect.latex` writes, which shares nothing with it.

Lines define what they name, in order; letters in the index of a left side run over all points. A line with an arrow, or
with the name of a parameter, stores; other names are computed where they are read.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

Env = dict[str, Any]


class NotEvaluated(Exception):
    """What has no notation of mathematics, or is absent."""


class Neighbour(int):
    """An entry of a table, with the slot that it is in."""

    slot: int

    def __new__(cls, entry: int, slot: int) -> Neighbour:
        made = super().__new__(cls, entry)
        made.slot = slot
        return made


@dataclass
class Tensor:
    """A parameter: the first coordinates, which of its dims are slots, and its elements."""

    starts: tuple[int, ...]
    slots: tuple[bool, ...]
    values: Any
    table: bool = False


@dataclass
class Line:
    """A line: its index as expressions, its right side, and the parameters as they were."""

    index: list[Any]
    right: Any
    where: Any
    state: dict[str, Tensor]


TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|[A-Za-z]'*|\S")
COMPARISONS = {
    "=": operator.eq, r"\ne": operator.ne, "<": operator.lt, r"\le": operator.le, ">": operator.gt,
    r"\ge": operator.ge,
}  # fmt: skip
LEVELS: list[dict[str, Any]] = [
    {r"\lor": operator.or_, r"\oplus": operator.xor},
    {r"\land": operator.and_},
    {"not": None},
    {"compare": None},
    {r"\mathbin{|}": operator.or_},
    {r"\mathbin{\hat{}}": operator.xor},
    {r"\mathbin{\&}": operator.and_},
    {r"\ll": lambda x, n: moved(operator.lshift, x, n), r"\gg": lambda x, n: moved(operator.rshift, x, n)},
]
FUNCTIONS = {
    "min": min, "max": max, "trunc": lambda x: whole(math.trunc, x), "rem": lambda x, y: rest(x, y),
    "sgn": lambda x: (x > 0) - (x < 0),
    "round": lambda x: whole(round, x), "clamp": lambda x, low, high: min(max(x, low), high), "isfinite": math.isfinite,
    "isinf": math.isinf, "isnan": math.isnan, "exp": math.exp, "ln": math.log,
}  # fmt: skip
FOLDS = {
    r"\sum": sum, r"\prod": math.prod, r"\min": lambda x: min(x, default=math.inf),
    r"\max": lambda x: max(x, default=-math.inf), r"\bigwedge": lambda x: all(list(x)),
    r"\bigvee": lambda x: any(list(x)),
}  # fmt: skip


@dataclass
class Formulas:
    """The lines of a program, and what they define of given parameters."""

    params: dict[str, Tensor]
    lines: dict[str, list[Line]] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)
    storing: set[str] = field(default_factory=set)
    state: dict[str, Tensor] = field(default_factory=dict)

    def run(self, text: str) -> dict[str, Any]:
        """The parameters after all lines."""
        self.state = dict(self.params)
        body = text.removeprefix("\\begin{aligned}\n").removesuffix("\n\\end{aligned}")
        for row in body.split(" \\\\[4pt]\n"):
            left, sign, rest = re.fullmatch(r"(.*?) &(=|\\leftarrow) (.*)", row, re.S).groups()  # type: ignore[union-attr]
            right, _, where = rest.partition(" && ")
            parser = Parser(self, left)
            symbol, _, index = parser.reference()
            if parser.tokens[parser.at :] or symbol is None:
                raise NotEvaluated(left)
            line = Line(index, Parser(self, right).whole(), Parser(self, where).conditions(), self.state)
            if symbol not in self.params:
                self.lines.setdefault(symbol, []).append(line)
                continue
            if sign == "=" and index and not where:  # the state in front of a recurrence
                self.lines[symbol] = [line]
                continue
            if sign == "=":
                self.lines.setdefault(symbol, []).append(line)
                self.storing.add(symbol)
            self.store(symbol, line)
            self.storing.discard(symbol)
            self.lines.pop(symbol, None)
        return {name: t.values for name, t in self.state.items()}

    def store(self, symbol: str, line: Line) -> None:
        old = self.state[symbol]
        made = old.values.copy()
        for place in np.ndindex(made.shape):
            env = bound(line.index, [s + k for s, k in zip(old.starts, place, strict=True)])
            if env is not None and line.where(env):
                made[place] = line.right(env)
        self.state = {**self.state, symbol: Tensor(old.starts, old.slots, made, old.table)}

    def read(self, symbol: str, index: list[Any]) -> Any:
        if symbol in self.lines and (symbol not in self.params or symbol in self.storing):
            key = symbol, tuple((int(i), getattr(i, "slot", None)) if isinstance(i, int) else i for i in index)
            if key not in self.known or symbol in self.storing:
                self.known[key] = self.defined(symbol, index)
            return self.known[key]
        if symbol not in self.state:
            raise NotEvaluated(symbol)
        t = self.state[symbol]
        if any(i == -1 and isinstance(i, Neighbour) for i, slot in zip(index, t.slots, strict=True) if not slot):
            raise NotEvaluated("absent")
        at = [getattr(i, "slot", i) if slot else i for i, slot in zip(index, t.slots, strict=True)]
        place = tuple(int(i) - s for i, s in zip(at, t.starts, strict=True))
        if not all(0 <= k < n for k, n in zip(place, t.values.shape, strict=True)):
            raise IndexError(f"{symbol} has no {index}")
        value = t.values[place]
        if t.table:
            return Neighbour(int(value), place[t.slots.index(True)])
        return value.item() if hasattr(value, "item") else value

    def defined(self, symbol: str, index: list[Any]) -> Any:
        for line in self.lines[symbol]:
            env = bound(line.index, index)
            if env is not None and line.where(env):
                now, self.state = self.state, line.state if symbol not in self.storing else self.state
                try:
                    return line.right(env)
                finally:
                    self.state = now
        raise IndexError(f"nothing defines {symbol} at {index}")


def bound(patterns: list[Any], index: list[Any]) -> Env | None:
    """The letters of a left side at a point; None where it is of another point."""
    env: Env = {}
    for pattern, i in zip(patterns, index, strict=True):
        if pattern.letter is None:
            if pattern({}) != i:
                return None
        else:
            start = pattern({pattern.letter: 0})
            env[pattern.letter] = i if start == 0 else i - start
    return env


class Parser:
    """One piece of LaTeX as a function of its letters."""

    def __init__(self, formulas: Formulas, text: str) -> None:
        self.formulas, self.tokens, self.at = formulas, TOKEN.findall(text.replace(r"\;", "")), 0

    # Tokens

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def takes(self, *tokens: str) -> bool:
        if self.tokens[self.at : self.at + len(tokens)] == list(tokens):
            self.at += len(tokens)
            return True
        return False

    def needs(self, *tokens: str) -> None:
        assert self.takes(*tokens), (tokens, self.tokens[self.at : self.at + 8])

    def group(self) -> list[str]:
        """What stands between braces."""
        self.needs("{")
        start, depth = self.at, 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self.next, 0)
            self.at += 1
        return self.tokens[start : self.at - 1]

    def whole(self) -> Any:
        found = self.expression(0)
        assert self.at == len(self.tokens), self.tokens[self.at :]
        return found

    def conditions(self) -> Any:
        """Conditions between commas; none is always true."""
        if not self.tokens:
            return lambda env: True
        parts = [self.expression(0)]
        while self.takes(","):
            parts.append(self.expression(0))
        return lambda env: all(p(env) for p in parts)

    # Expressions, loosest first

    def expression(self, level: int) -> Any:
        if level == len(LEVELS):
            return self.sum()
        if "not" in LEVELS[level]:
            if self.takes(r"\lnot"):
                inner = self.expression(level)
                return lambda env: not inner(env)
            return self.expression(level + 1)
        left = self.expression(level + 1)
        if "compare" in LEVELS[level]:
            chain = [left]
            signs: list[Any] = []
            while self.next in COMPARISONS or self.next == r"\in":
                if self.takes(r"\in"):
                    return self.member(left)
                signs.append(COMPARISONS[self.next])
                self.at += 1
                chain.append(self.expression(level + 1))
            if not signs:
                return left
            return lambda env: all(s(a(env), b(env)) for s, a, b in zip(signs, chain, chain[1:], strict=False))
        while (f := self.binary(LEVELS[level])) is not None:
            left = (lambda f, a, b: lambda env: f(a(env), b(env)))(f, left, self.expression(level + 1))
        return left

    def binary(self, signs: dict[str, Any]) -> Any:
        for sign, f in signs.items():
            if self.takes(*TOKEN.findall(sign)):
                return f
        return None

    def sum(self) -> Any:
        negative = self.takes("-")
        total = self.remainder()
        if negative:
            total = (lambda x: lambda env: -x(env))(total)
        while self.next in ("+", "-"):
            sign = {"+": operator.add, "-": operator.sub}[self.next]
            self.at += 1
            total = (lambda f, a, b: lambda env: f(a(env), b(env)))(sign, total, self.remainder())
        total.letter = getattr(total, "letter", None)
        return total

    def remainder(self) -> Any:
        left = self.product()
        while self.takes(r"\bmod"):
            left = (lambda a, b: lambda env: modulo(a(env), b(env)))(left, self.power())
        return left

    def product(self) -> Any:
        factors = [self.power()]
        while True:
            if self.takes("/"):
                last = factors.pop()
                factors.append((lambda a, b: lambda env: Fraction(a(env)) / b(env))(last, self.power()))
            elif self.takes(r"\cdot") or self.takes(r"\,") or self.beside():
                factors.append(self.power())
            else:
                break
        if len(factors) == 1:
            return factors[0]
        guards = [f for f in factors if getattr(f, "guard", False)]
        return lambda env: math.prod(f(env) for f in factors) if all(g(env) for g in guards) else 0

    def beside(self) -> bool:
        """Whether what stands here is multiplied by the number before it."""
        if not self.at or not re.fullmatch(r"\d.*", self.tokens[self.at - 1]):
            return False
        signs = r"\right \bmod \le \ge \ne \land \lor \oplus \in \rfloor \ll \gg \mathbin \cdot"
        return self.next not in signs.split() and bool(re.fullmatch(r"[A-Za-z]'*|\(|\\[a-z]+", self.next))

    def power(self) -> Any:
        if self.takes("{", r"\sim", "}"):
            inner = self.power()
            return lambda env: ~inner(env)
        base = self.atom()
        if self.takes("^"):
            exponent = self.inner(self.group())
            return lambda env: base(env) ** exponent(env)
        return base

    def inner(self, tokens: list[str]) -> Any:
        return self.part(tokens).whole()

    def part(self, tokens: list[str]) -> Parser:
        parser = Parser(self.formulas, "")
        parser.tokens = tokens
        return parser

    # Atoms

    def atom(self) -> Any:
        token = self.next
        if re.fullmatch(r"\d.*", token):
            self.at += 1
            value: Any = float(token) if "." in token else int(token)
            return lambda env: value
        if token in FOLDS and self.tokens[self.at + 1 : self.at + 2] == ["_"]:
            return self.fold()
        if self.takes(r"\frac") or self.takes(r"\tfrac"):
            exact = token == r"\tfrac"
            above, below = self.inner(self.group()), self.inner(self.group())
            divided = Fraction if exact else quotient
            return lambda env: divided(above(env), below(env))
        if self.takes(r"\left", r"\lfloor") or self.takes(r"\lfloor"):
            inner = self.expression(0)
            self.takes(r"\right")
            self.needs(r"\rfloor")
            return lambda env: whole(math.floor, inner(env))
        if self.takes(r"\left", r"\lceil"):
            inner = self.expression(0)
            self.needs(r"\right", r"\rceil")
            return lambda env: whole(math.ceil, inner(env))
        if self.takes(r"\left", "|"):
            inner = self.expression(0)
            self.needs(r"\right", "|")
            return lambda env: abs(inner(env))
        if self.takes(r"\left", "["):
            parts = self.listed(r"\right", "]")
            guard = lambda env: int(all(p(env) for p in parts))
            guard.guard = True  # type: ignore[attr-defined]
            return guard
        if self.takes(r"\left", "(") or self.takes("("):
            closing = (r"\right", ")") if self.tokens[self.at - 2] == r"\left" else (")",)
            parts = self.listed(*closing)
            several = len(parts) > 1 or self.tokens[self.at - len(closing) - 1] == ","
            return (lambda env: tuple(p(env) for p in parts)) if several else parts[0]
        if self.takes(r"\sqrt"):
            inner = self.inner(self.group())
            return lambda env: math.sqrt(inner(env))
        if self.takes(r"\infty"):
            return lambda env: math.inf
        if self.takes(r"\begin", "{", *"cases", "}"):
            return self.cases()
        if self.takes(r"\text"):
            return self.word("".join(self.group()))
        if self.takes(r"\operatorname"):
            return self.applied("".join(self.group()))
        if token[1:] in FUNCTIONS:
            self.at += 1
            return self.applied(token[1:])
        symbol, members, index = self.reference()
        if symbol is None:
            raise NotEvaluated(" ".join(self.tokens[self.at :]))
        if self.next == r"\left" and self.tokens[self.at + 1] == "(" and symbol not in self.formulas.params:
            raise NotEvaluated("functions")
        if not index and not members and symbol not in self.formulas.params and symbol not in self.formulas.lines:
            letter = lambda env: env[symbol]
            letter.letter = symbol  # type: ignore[attr-defined]
            return letter

        def read(env: Env) -> Any:
            value = self.formulas.read(symbol, [i(env) for i in index])
            for m in members:
                value = value[m] if isinstance(value, tuple) else value  # the 0 of a tuple
            return value

        return read

    def reference(self) -> tuple[str | None, list[int], list[Any]]:
        """A name, the members of a tuple that it has, and its index."""
        start = self.at
        if self.takes(r"\mathit"):
            self.group()
            while self.takes("'"):
                pass
        elif re.fullmatch(r"[A-Za-z]'*|\\[A-Za-z]+", self.next) and self.next not in (r"\left", r"\right"):
            self.at += 1
        else:
            return None, [], []
        symbol = "".join(self.tokens[start : self.at])
        members: list[int] = []
        if self.tokens[self.at : self.at + 3] == ["^", "{", "("]:
            self.at += 1
            members = [int(t) for t in self.group() if t.isdigit()]
        index: list[Any] = []
        if self.takes("_"):
            parser = self.part(self.group())
            index = parser.listed()
            for i, pattern in zip(index, commas(parser.tokens), strict=True):
                found = LETTER.findall(" ".join(pattern))
                i.letter = found[0].replace(" ", "") if len(found) == 1 else None
        return symbol, members, index

    def listed(self, *closing: str) -> list[Any]:
        parts = [wrapped(self.expression(0))]
        while self.takes(",") and not (closing and self.tokens[self.at : self.at + len(closing)] == list(closing)):
            parts.append(wrapped(self.expression(0)))
        self.needs(*closing)
        return parts

    def fold(self) -> Any:
        f = FOLDS[self.next]
        self.at += 2
        under = self.group()
        variable = "".join(itertools.takewhile(lambda t: t not in ("=", r"\in"), under))
        if r"\in" in under:
            points = self.part(under[under.index(r"\in") + 1 :]).neighbours()
        elif r"\le" in under:
            low, high = under.index(r"\le"), under.index("<")
            variable = "".join(under[low + 1 : high])
            first, stop = self.inner(under[:low]), self.inner(under[high + 1 :])
            points = lambda env: range(first(env), stop(env))
        else:
            first = self.inner(under[under.index("=") + 1 :])
            last = first
            if self.takes("^"):
                last = self.inner(self.group())
            points = lambda env: range(first(env), last(env) + 1)
        body = self.product()
        return lambda env: f(body({**env, variable: p}) for p in points(env))

    def neighbours(self) -> Any:
        """The neighbours of a point."""
        symbol, _, _ = self.reference()
        self.needs("(")
        index = self.listed(")")
        table = self.formulas.params.get(symbol or "")
        if table is None:
            raise NotEvaluated("a table that is computed")

        def found(env: Env) -> Any:
            at = iter([i(env) for i in index])
            places = [None if slot else int(next(at)) - s for slot, s in zip(table.slots, table.starts, strict=True)]
            row = table.values[tuple(slice(None) if p is None else p for p in places)]
            return [Neighbour(int(e), k) for k, e in enumerate(row) if e >= 0]

        return found

    def member(self, left: Any) -> Any:
        self.neighbours()
        return lambda env: True

    def cases(self) -> Any:
        start, depth = self.at, 1
        while depth:
            depth += {r"\begin": 1, r"\end": -1}.get(self.next, 0)
            self.at += 1
        rows = split(self.tokens[start : self.at - 1], "\\\\")
        self.group()
        made: list[tuple[Any, Any]] = []
        for row in rows:
            value, condition = split(row, "&")
            parser = self.part(condition)
            parser.needs(r"\text")
            otherwise = "".join(parser.group()) == "otherwise"
            made.append((self.inner(value), (lambda env: True) if otherwise else parser.conditions()))
        return lambda env: next(value(env) for value, condition in made if condition(env))

    def word(self, text: str) -> Any:
        if text in ("true", "false", "NaN"):
            value: Any = {"true": True, "false": False, "NaN": math.nan}[text]
            return lambda env: value
        self.needs(r"\left", "(")
        (inner,) = self.listed(r"\right", ")")
        if text == "present":
            return lambda env: present(inner, env)
        if not hasattr(np, text):
            raise NotEvaluated(text)
        return lambda env: converted(inner(env), np.dtype(text))

    def applied(self, name: str) -> Any:
        if name not in FUNCTIONS or self.next == "_":
            raise NotEvaluated(name)
        plain = self.takes("(")
        if not plain:
            self.needs(r"\left", "(")
        args = self.listed(*([")"] if plain else [r"\right", ")"]))
        return lambda env: FUNCTIONS[name](*(a(env) for a in args))


GREEK = ("alpha", "beta", "gamma", "delta", "eta", "theta", "lambda", "mu", "nu", "rho", "sigma", "tau", "phi", "psi")
LETTER = re.compile(r"\\mathit \{ [^}]* \}(?: ')*|(?<!\\)\b[A-Za-z]\b'*")


def wrapped(f: Any) -> Any:
    """An expression of its own, which can be told its letter."""
    made = lambda env: f(env)
    made.letter = getattr(f, "letter", None)  # type: ignore[attr-defined]
    made.guard = getattr(f, "guard", False)  # type: ignore[attr-defined]
    return made


def split(tokens: list[str], sign: str) -> list[list[str]]:
    """Tokens between signs that stand in no group or environment."""
    parts: list[list[str]] = [[]]
    depth = 0
    for t in tokens:
        depth += {"{": 1, "}": -1, r"\begin": 1, r"\end": -1, "(": 1, ")": -1}.get(t, 0)
        if t == sign and depth == 0:
            parts.append([])
        else:
            parts[-1].append(t)
    return parts


def commas(tokens: list[str]) -> list[list[str]]:
    return split(tokens, ",")


def moved(f: Any, x: Any, n: Any) -> Any:
    if not 0 <= n < 8:
        raise NotEvaluated("a shift of more bits than there are")
    return f(x, n)


def rest(x: Any, y: Any) -> Any:
    if y == 0:
        return math.nan if isinstance(x, float) else x
    return type(x)(math.fmod(x, y))


def modulo(x: Any, y: Any) -> Any:
    if y == 0:
        raise NotEvaluated("a remainder of a division by 0")
    return x % y


def quotient(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return Fraction(a, b) if b else Fraction(-1)  # integers by 0 are -1
    return a / b if b else a * math.inf if a else math.nan


def whole(f: Any, x: Any) -> Any:
    return float(f(x)) if isinstance(x, float) and math.isfinite(x) else f(x) if not isinstance(x, float) else x


def converted(x: Any, dtype: Any) -> Any:
    return dtype.type(x).item() if dtype.kind != "i" or not isinstance(x, float) else int(x)


def present(inner: Any, env: Env) -> bool:
    try:
        inner(env)
    except NotEvaluated:
        return False
    return True
