"""TIR written as calls of its constructors, read: `PrimFunc(params=[...], body=AttrStmt(attr_key=...))`.

The grammar of constructors: calls with named arguments, lists, mappings, numbers, names, and what is left out.

Statements of a body follow each other without commas. A comment that counts entries stands for these.

>>> from tensorir.runtime.errors import Source
>>> parse_terms(Source("t", "For(min=0, body=A(1) B(...))"))[0].arguments["body"]
(Term(name='A', ...), Term(name='B', ...))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from tensorir.runtime.errors import Source, Span, did_you_mean, refuse
from tensorir.tir import nodes as n
from tensorir.tir.build import const, nothing, seq, true
from tensorir.tir.dtypes import BOOL, HANDLE, INT32, VOID, DataType

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 200
MAX_COMMENTS = 10_000
"""Characters of comments that a text may begin with, to be known as one in constructors."""

_BEGIN = re.compile(r"(?:\s++|#[^\n]*+\n)*+PrimFunc\s*\(")
_TOKEN = re.compile(
    r"\s+|(?P<more>\#[^\n]*?\.\.\.\s*\d+\s+more\b[^\n]*)|\#[^\n]*"
    r"|(?P<dots>\.\.\.)|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_]\w*)*)"
    r"|(?P<string>\"[^\"\n]*\")|(?P<mark>//|[()\[\]{},:=*+\-])|(?P<other>.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Elided:
    """A field that the text leaves out."""

    span: Span


@dataclass(frozen=True, slots=True, repr=False)
class Term:
    """A name, or a call of it: arguments by position and by name. Operators are calls by their signs."""

    name: str
    span: Span
    given: tuple[Tree, ...] = ()
    arguments: dict[str, Tree] = field(default_factory=dict[str, "Tree"])
    called: bool = False

    def __repr__(self) -> str:
        return f"Term(name={self.name!r}, ...)"


Tree: TypeAlias = "Term | Elided | int | float | str | list[Tree] | dict[str, Tree] | tuple[Tree, ...]"
"""A list is one in brackets, a tuple statements in a row."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    span: Span


def is_constructed(text: str) -> bool:
    """True if a text is written in constructors: what it begins with, comments aside, is `PrimFunc(`."""
    return _BEGIN.match(text, 0, MAX_COMMENTS) is not None


def parse_terms(source: Source) -> list[Term]:
    """The calls that a text consists of; raises TS50 at what is none."""
    if len(source.text) > MAX_CHARACTERS:
        raise refuse("TS50", f"the text has more than {MAX_CHARACTERS:,} characters.", at=Span(source, 0, 1))
    reader = _Reader(source)
    found: list[Term] = []
    while reader.peek().kind != "end":
        made = reader.value(0)
        if not isinstance(made, Term) or not made.called:
            raise refuse("TS50", "a function is written here, PrimFunc(params=[...], body=...).", at=reader.last)
        found.append(made)
    return found


class _Reader:
    """The tokens of a text."""

    def __init__(self, source: Source) -> None:
        self.tokens: list[_Token] = []
        for m in _TOKEN.finditer(source.text):
            kind = m.lastgroup
            if kind is not None:
                self.tokens.append(_Token(kind, m[0], Span(source, m.start(), m.end())))
        end = len(source.text)
        self.tokens.append(_Token("end", "", Span(source, end, end)))
        self.at = 0

    @property
    def last(self) -> Span:
        return self.tokens[max(0, self.at - 1)].span

    def peek(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def accept(self, text: str) -> bool:
        if self.peek().kind == "mark" and self.peek().text == text:
            self.take()
            return True
        return False

    def expect(self, text: str) -> Span:
        if not self.accept(text):
            found = self.peek().text or "the end"
            raise refuse("TS50", f"{text!r} is needed here, and this is {found!r}.", at=self.peek().span)
        return self.last

    def value(self, depth: int) -> Tree:
        """A sum of products."""
        if depth > MAX_DEPTH:
            raise refuse("TS50", f"calls are nested more than {MAX_DEPTH} deep here.", at=self.peek().span)
        left = self.product(depth)
        while self.peek().text in ("+", "-") and self.peek().kind == "mark":
            sign = self.take()
            left = Term(sign.text, sign.span, (left, self.product(depth)), called=True)
        return left

    def product(self, depth: int) -> Tree:
        left = self.atom(depth)
        while self.peek().text in ("*", "//") and self.peek().kind == "mark":
            sign = self.take()
            left = Term(sign.text, sign.span, (left, self.atom(depth)), called=True)
        return left

    def atom(self, depth: int) -> Tree:
        token = self.take()
        match token.kind, token.text:
            case "number", text:
                return int(text) if text.isdecimal() else float(text)
            case "string", text:
                return text[1:-1]
            case "dots", _:
                return Elided(token.span)
            case "mark", "-":
                inner = self.atom(depth)
                return -inner if isinstance(inner, int | float) else Term("-", token.span, (0, inner), called=True)
            case "mark", "(":
                inner = self.value(depth + 1)
                self.expect(")")
                return inner
            case "mark", "[":
                return self.listed(depth)
            case "mark", "{":
                return self.mapping(depth)
            case "name", name:
                return self.call(name, token.span, depth) if self.accept("(") else Term(name, token.span)
            case _:
                raise refuse("TS50", f"a value is needed here, and this is {token.text or 'the end'!r}.", at=token.span)

    def listed(self, depth: int) -> list[Tree]:
        found: list[Tree] = []
        while not self.accept("]"):
            if self.peek().kind == "more":
                found.append(Elided(self.take().span))
                continue
            found.append(self.value(depth + 1))
            if not self.accept(",") and self.peek().text != "]" and self.peek().kind != "more":
                self.expect("]")
        return found

    def mapping(self, depth: int) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        while not self.accept("}"):
            key = self.take()
            if key.kind in ("dots", "more"):
                found["..."] = Elided(key.span)
            elif key.kind in ("string", "name"):
                self.expect(":")
                found[key.text.strip('"')] = self.value(depth + 1)
            else:
                raise refuse("TS50", f"a key is needed here, and this is {key.text or 'the end'!r}.", at=key.span)
            self.accept(",")
        return found

    def call(self, name: str, span: Span, depth: int) -> Term:
        given: list[Tree] = []
        arguments: dict[str, Tree] = {}
        while not self.accept(")"):
            if self.peek().kind == "end":
                self.expect(")")
            ahead = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
            if self.peek().kind == "name" and ahead.kind == "mark" and ahead.text == "=":
                key = self.take().text
                self.take()
                if self.peek().kind == "mark" and self.peek().text in (",", ")"):
                    arguments[key] = Elided(self.last)  # a comment says what would be here
                    self.accept(",")
                    continue
                parts = [self.value(depth + 1)]
                while self.peek().kind in ("name", "dots") and not self._names_argument():
                    parts.append(self.value(depth + 1))
                arguments[key] = parts[0] if len(parts) == 1 else tuple(parts)
            else:
                given.append(self.value(depth + 1))
            self.accept(",")
        return Term(name, span.to(self.last), tuple(given), arguments, True)

    def _names_argument(self) -> bool:
        ahead = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        return ahead.kind == "mark" and ahead.text == "="


# Constructors as nodes of TIR, one rule for each.


def read_constructors(source: Source, names: Mapping[str, object] | None = None) -> n.IRModule:
    """The module of a text in constructors; its functions are `main`, `main_1`, ... in order.

    `names` are what the text has from around it: numbers, names of data types, and tuples of them.
    """
    functions: dict[str, n.PrimFunc] = {}
    for k, term in enumerate(parse_terms(source)):
        name = "main" if not k else f"main_{k}"
        functions[name] = _Function(dict(names or {})).function(term, name)
    return n.IRModule(functions)


def _elided(span: Span, what: str) -> n.Stmt:
    """A statement that the text leaves out."""
    return n.Evaluate(n.Call(VOID, "elided", (n.StringImm(what, span),), span=span), span)


@dataclass
class _Function:
    """The names that are known where a term stands."""

    names: dict[str, Any] = field(default_factory=dict[str, Any])
    buffers: dict[str, n.Buffer] = field(default_factory=dict[str, n.Buffer])

    def function(self, term: Term, name: str) -> n.PrimFunc:
        if term.name != "PrimFunc":
            message = f"a function is written here, and this is {term.name}."
            raise refuse("TS50", message, "write PrimFunc(params=[...], ...).", at=term.span)
        params: list[n.Var] = []
        buffer_map: dict[n.Var, n.Buffer] = {}
        for given in self._list(term.arguments.get("params", [])):
            if isinstance(given, Elided):
                continue
            param, buffer = self.param(given)
            params.append(param)
            if buffer is not None:
                buffer_map[param] = buffer
        attrs = self.attributes(term.arguments.get("attrs", {}))  # outside of what the body binds
        body = self.statement(term.arguments.get("body", ()), term.span)
        return n.PrimFunc(name, tuple(params), buffer_map, body, None, {"global_symbol": name, **attrs}, span=term.span)

    def param(self, given: Tree) -> tuple[n.Var, n.Buffer | None]:
        match given:
            case Term("Buffer"):
                buffer = self.buffer(given)
                return n.Var(f"{buffer.name}_handle", n.PrimType(HANDLE), given.span), buffer
            case Term("Var"):
                return self.declared(given), None
            case Term(name, span, called=False):
                var = self.names[name] = n.Var(name, n.PrimType(HANDLE), span)
                return var, None
            case _:
                message = "a parameter is written here, Buffer(var=A, shape=[...], dtype=...) or Var(name=n)."
                raise refuse("TS50", message, at=_span(given))

    def buffer(self, term: Term) -> n.Buffer:
        name = self.word(term, "var", 0)
        dtype = self.dtype(self.argument(term, "dtype", 2))
        shape = tuple(self.expr(e) for e in self._list(self.argument(term, "shape", 1)))
        data = n.Var(name, n.PointerType(n.PrimType(dtype), "global"), term.span)
        made = self.buffers[name] = n.Buffer(data, dtype, shape, name=name, span=term.span)
        return made

    # Statements

    def statement(self, tree: Tree, span: Span) -> n.Stmt:
        parts: Sequence[Tree] = tree if isinstance(tree, tuple) else (tree,)
        return seq([self._statement(part, span) for part in parts], span)

    def _statement(self, tree: Tree, span: Span) -> n.Stmt:
        match tree:
            case Elided(where):
                return _elided(where, "...")
            case Term(name) if name in _STATEMENTS:
                return _STATEMENTS[name](self, tree)
            case Term(name, where):
                raise refuse("TS50", f"there is no statement {name!r}.", did_you_mean(name, _STATEMENTS), at=where)
            case _:
                raise refuse("TS50", "a statement is written here.", at=span)

    def body(self, term: Term) -> n.Stmt:
        return self.statement(term.arguments["body"], term.span) if "body" in term.arguments else nothing(term.span)

    def attr(self, term: Term) -> n.Stmt:
        key = self.argument(term, "attr_key", 0)
        if not isinstance(key, str):
            raise refuse("TS50", "an attribute has a key in quotes.", at=term.span)
        about = term.arguments.get("node")
        if key == "tl.gemm":
            return self.gemm(term)
        if not isinstance(about, Term) or about.name != "IterVar":
            value = term.arguments.get("value")
            kept = None if value is None or isinstance(value, Elided) else self.attribute(value)
            return n.AttrStmt(0, key, kept, self.body(term), term.span)
        var = self.declared(about.arguments.get("var"))
        tag, dom = about.arguments.get("thread_tag", ""), about.arguments.get("dom")
        extent = self.expr(self.argument(term, "value", 2))
        low = self.expr(self.argument(dom, "min", 0)) if isinstance(dom, Term) else const(0, INT32)
        size = self.expr(self.argument(dom, "extent", 1)) if isinstance(dom, Term) else extent
        axis = n.IterVar(n.Range(low, size), var, n.IterKind.THREAD_INDEX, str(tag), about.span)
        return n.AttrStmt(axis, key, extent, self.body(term), term.span)

    def gemm(self, term: Term) -> n.Stmt:
        """A product of tiles, `value={"A": a, "B": b, "C": c}`; where it does not say which, it is left out."""
        value = term.arguments.get("value")
        if not isinstance(value, dict) or "..." in value:
            return _elided(term.span, "tl.gemm")
        a, b, c = (self.stored(value.get(name), term.span) for name in "ABC")
        if not all(len(x.shape) == 2 for x in (a, b, c)):
            raise refuse("TS50", "tl.gemm multiplies tiles of two dims.", at=term.span)
        turned = [n.IntImm(int(value.get(f"transpose_{name}") in (1, "True")), BOOL) for name in "AB"]
        inner = a.shape[0] if turned[0].value else a.shape[1]
        boxes = [_region(x, None, mode, x.shape) for x, mode in ((a, 1), (b, 1), (c, 3))]
        zero, no = const(0, INT32), n.IntImm(0, BOOL)
        args = (*boxes, *turned, *c.shape, inner, zero, no, zero, zero, zero)
        return n.Evaluate(n.Call(HANDLE, "gemm", args, span=term.span), term.span)

    def allocate(self, term: Term) -> n.Stmt:
        name = self.word(term, "buffer_var", 0)
        dtype = self.dtype(self.argument(term, "dtype", 1))
        extents = tuple(self.expr(e) for e in self._list(self.argument(term, "extents", 2)))
        var = n.Var(name, n.PointerType(n.PrimType(dtype), "global"), term.span)
        buffer = self.buffers[name] = n.Buffer(var, dtype, extents, name=name, span=term.span)
        made = n.Allocate(var, dtype, extents, true(term.span), span=term.span)
        return seq([made, n.DeclBuffer(buffer, var, term.span), self.body(term)], term.span)

    def store(self, term: Term) -> n.Stmt:
        """A store of an element; without indices, which the text leaves out, one of a whole tile."""
        if "buffer" not in term.arguments:
            return _elided(term.span, "BufferStore(...)")
        buffer = self.stored(term.arguments["buffer"], term.span)
        value = term.arguments.get("value")
        indices = term.arguments.get("indices")
        whole = indices is None or (isinstance(value, Term) and "indices" not in value.arguments)
        if whole and isinstance(value, Term) and value.name == "BufferLoad":
            source = self.stored(value.arguments.get("buffer"), value.span)
            return self._copied(source, value.arguments.get("indices"), buffer, indices, term.span)
        made = self.expr(value, buffer.dtype)
        if indices is not None:
            return n.BufferStore(buffer, made, tuple(self.expr(i) for i in self._list(indices)), None, term.span)
        return n.Evaluate(
            n.Call(HANDLE, "fill", (_region(buffer, None, 2, buffer.shape), made), span=term.span), term.span
        )

    def _copied(self, source: n.Buffer, at: Tree | None, buffer: n.Buffer, to: Tree | None, span: Span) -> n.Stmt:
        places = [None if tree is None else tuple(self.expr(i) for i in self._list(tree)) for tree in (at, to)]
        tile = buffer.shape if places[1] is None else source.shape
        boxes = _region(source, places[0], 1, tile), _region(buffer, places[1], 2, tile)
        return n.Evaluate(n.Call(HANDLE, "copy", boxes, span=span), span)

    def stored(self, tree: Tree | None, span: Span) -> n.Buffer:
        name = tree.name if isinstance(tree, Term) else ""
        if name not in self.buffers:
            raise refuse("TS50", f"there is no buffer {name!r} here.", did_you_mean(name, self.buffers), at=span)
        return self.buffers[name]

    def loop(self, term: Term) -> n.Stmt:
        low, extent = (self.expr(self.argument(term, key, k)) for k, key in ((1, "min"), (2, "extent")))
        var = self.declared(self.argument(term, "loop_var", 0))
        kind = term.arguments.get("kind")
        word = kind.name.rpartition("::")[2].removeprefix("k").lower() if isinstance(kind, Term) else "serial"
        kinds = {k.name.lower().replace("_", ""): k for k in n.ForKind}
        if word not in kinds:
            raise refuse("TS50", f"there is no kind of loop {word!r}.", did_you_mean(word, kinds), at=term.span)
        return n.For(var, low, extent, kinds[word], self.body(term), span=term.span)

    def let(self, term: Term) -> n.Stmt:
        value = self.expr(self.argument(term, "value", 1))
        var = self.declared(self.argument(term, "var", 0))
        return seq([n.LetStmt(var, value, term.span), self.body(term)], term.span)

    def evaluate(self, term: Term) -> n.Stmt:
        return n.Evaluate(self.expr(term.given[0]) if term.given else const(0, INT32), term.span)

    # Expressions

    def expr(self, tree: Tree | None, dtype: DataType = INT32) -> n.Expr:
        match tree:
            case int() | float():
                return const(tree, dtype if dtype.is_float or isinstance(tree, int) else DataType("float", 32))
            case Term("IntImm" | "FloatImm", span):
                value = tree.arguments.get("value", tree.given[0] if tree.given else 0)
                kind = tree.arguments.get("dtype")
                if not isinstance(value, int | float):
                    raise refuse("TS50", "a constant is a number.", at=span)
                default = DataType("float", 32) if tree.name == "FloatImm" else INT32
                return const(value, self.dtype(kind) if kind is not None else default, span)
            case Term("StringImm", span):
                return n.StringImm(str(tree.given[0] if tree.given else ""), span)
            case Term("Var", span):
                return self.known(self.word(tree, "name", 0), span)
            case Term("BufferLoad", span):
                buffer = self.stored(tree.arguments.get("buffer"), span)
                indices = self._list(tree.arguments.get("indices", []))
                return n.BufferLoad(buffer, tuple(self.expr(i) for i in indices), span=span)
            case Term(name, span, (a, b)) if name in _OPERATORS:
                return _OPERATORS[name](self.expr(a), self.expr(b), span)
            case Term(name, span, called=False):
                given = self.names.get(name)
                return self.expr(given, dtype) if isinstance(given, int | float) else self.known(name, span)
            case Term(name, span):
                message = f"there is no expression {name!r}."
                raise refuse("TS50", message, did_you_mean(name, [*_OPERATORS, "Var", "IntImm"]), at=span)
            case _:
                raise refuse("TS50", "an expression is written here.", at=_span(tree))

    def known(self, name: str, span: Span) -> n.Expr:
        found = self.names.get(name)
        if not isinstance(found, n.Expr):
            help = did_you_mean(name, self.names)
            if not help.startswith("did you mean"):
                around = f"parse(text, names={{{name!r}: ...}}) gives what stood around the text."
                help = f"{help.removesuffix('.')}; {around}" if help else around
            raise refuse("TS50", f"{name!r} is not defined here.", help, at=span)
        return found

    def declared(self, tree: Tree | None) -> n.Var:
        """A variable that is bound here: `Var(name=i, dtype=int32)`, or its name alone."""
        if not isinstance(tree, Term):
            raise refuse("TS50", "a variable is written here, Var(name=i, dtype=int32).", at=_span(tree))
        if tree.name == "Var" and tree.called:
            dtype = self.dtype(tree.arguments["dtype"]) if "dtype" in tree.arguments else INT32
            name = self.word(tree, "name", 0)
        else:
            name, dtype = tree.name, INT32
        var = self.names[name] = n.Var(name, n.PrimType(dtype), tree.span)
        return var

    def dtype(self, tree: Tree) -> DataType:
        """`float16`, or `DataType::Float(16)`, or a name for one."""
        if isinstance(tree, Term):
            given = None if tree.called else self.names.get(tree.name)
            name = given if isinstance(given, str) else tree.name
            word = name.rpartition("::")[2].lower()
            bits = tree.given[0] if tree.given else ""
            try:
                return DataType.parse(f"{word}{bits}")
            except ValueError:
                message = f"there is no data type {name!r}."
                raise refuse("TS50", message, "write float16, or DataType::Float(16).", at=tree.span) from None
        raise refuse("TS50", "a data type is written here, such as float16.", at=_span(tree))

    def argument(self, term: Term, name: str, place: int) -> Tree:
        if name in term.arguments:
            return term.arguments[name]
        if place < len(term.given):
            return term.given[place]
        raise refuse("TS50", f"{term.name} needs {name!r}.", at=term.span)

    def word(self, term: Term, name: str, place: int) -> str:
        found = self.argument(term, name, place)
        if isinstance(found, Term):
            return found.name
        if isinstance(found, str):
            return found
        raise refuse("TS50", f"{name!r} of {term.name} is a name.", at=term.span)

    def _list(self, tree: Tree) -> list[Tree]:
        if isinstance(tree, list):
            return tree
        if isinstance(tree, Term) and not tree.called and isinstance(given := self.names.get(tree.name), tuple):
            return list(cast("tuple[Tree, ...]", given))
        raise refuse("TS50", "a list is written here, [...].", at=_span(tree))

    # Attributes

    def attributes(self, tree: Tree) -> dict[str, n.Attribute]:
        if not isinstance(tree, dict):
            raise refuse("TS50", "attributes are a mapping, {...}.", at=_span(tree))
        return {key: self.attribute(value) for key, value in tree.items() if key != "..."}

    def attribute(self, tree: Tree) -> n.Attribute:
        match tree:
            case int() | float() | str():
                return tree
            case Term("StringImm" | "IntImm" | "FloatImm"):
                value = tree.arguments.get("value", tree.given[0] if tree.given else 0)
                assert isinstance(value, int | float | str)
                return value
            case Term("Array", given=(list() as items,)):
                return self.attribute(items)
            case list():
                return tuple(_filled([e if isinstance(e, Elided) else self.attribute(e) for e in tree]))
            case dict():
                return self.attributes(tree)
            case Term(name, called=False) if isinstance(given := self.names.get(name), int | float | str | tuple):
                return cast("n.Attribute", given)
            case Term(name, span):
                raise refuse("TS50", f"no attribute can hold {name}.", at=span)
            case _:
                raise refuse("TS50", "an attribute holds a number, a text, a list or a mapping.", at=_span(tree))


def _filled(items: Sequence[n.Attribute | Elided]) -> list[n.Attribute]:
    """The entries of a list; those that are left out go on as the ones before do, one by one after a single one."""
    found: list[n.Attribute] = []
    for k, item in enumerate(items):
        if isinstance(item, Elided):
            found += _between(found[-2:], items[k + 1 : k + 2], item)
        else:
            found.append(item)
    return found


def _between(before: Sequence[n.Attribute], after: Sequence[n.Attribute | Elided], gap: Elided) -> list[n.Attribute]:
    """The entries between those before and the one after, which are whole numbers or lists of as many."""
    rows = [_whole(entry) for entry in (*before, *after)]
    if not before or not after or None in rows or len({len(row) for row in rows if row}) != 1:
        message = "what is left out here cannot be told from what stands around it."
        raise refuse("TS50", message, "write all entries.", at=gap.span)
    first, last, stop = [row for row in (rows[0], *rows) if row is not None][-3:]
    steps = [b - a for a, b in zip(first, last, strict=True)]
    if not any(steps):
        steps = [(b > a) - (b < a) for a, b in zip(last, stop, strict=True)]
    counts = {(b - a) // s if (b - a) % s == 0 else 0 for a, b, s in zip(last, stop, steps, strict=True) if s}
    even = all(a == b for a, b, s in zip(last, stop, steps, strict=True) if not s)
    if not even or len(counts) != 1 or (count := counts.pop()) < 1:
        message = f"what is left out here does not lead from {list(last)} to {list(stop)} in even steps."
        raise refuse("TS50", message, "write all entries.", at=gap.span)
    made = [tuple(a + s * k for a, s in zip(last, steps, strict=True)) for k in range(1, count)]
    return list(made) if isinstance(before[-1], tuple) else [row[0] for row in made]


def _whole(entry: n.Attribute | Elided) -> tuple[int, ...] | None:
    """An entry as whole numbers, None for any other."""
    row = entry if isinstance(entry, tuple) else (entry,)
    numbers = tuple(x for x in row if isinstance(x, int))
    return numbers if len(numbers) == len(row) else None


def _span(tree: object) -> Span:
    from tensorir.runtime.errors import NOWHERE

    return tree.span if isinstance(tree, Term | Elided) else NOWHERE


def _region(buffer: n.Buffer, starts: tuple[n.Expr, ...] | None, mode: int, extents: tuple[n.Expr, ...]) -> n.Call:
    """A tile of a buffer."""
    places = tuple(const(0, INT32) for _ in buffer.shape) if starts is None else starts
    return n.Call(HANDLE, "region", (n.BufferLoad(buffer, places), const(mode, INT32), *extents))


_OPERATORS: dict[str, Callable[[n.Expr, n.Expr, Span], n.Expr]] = {
    "+": n.Add, "-": n.Sub, "*": n.Mul, "//": n.FloorDiv, "Add": n.Add, "Sub": n.Sub, "Mul": n.Mul,
    "FloorDiv": n.FloorDiv, "FloorMod": n.FloorMod, "Min": n.Min, "Max": n.Max,
}  # fmt: skip
_STATEMENTS: dict[str, Callable[[_Function, Term], n.Stmt]] = {
    "AttrStmt": _Function.attr,
    "Allocate": _Function.allocate,
    "BufferStore": _Function.store,
    "For": _Function.loop,
    "LetStmt": _Function.let,
    "Evaluate": _Function.evaluate,
}
