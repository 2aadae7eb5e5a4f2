"""Text to regions. Expressions and types are those of the tensor IR's notation.

>>> region = parse_region("region r { argument A: float[n=4]; for i in 0:4 { a: float ← A[i]; A[i] ← a + 1.0; } }")
>>> [type(node).__name__ for node in region.body]
['For']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tensorir.integers.affine import Affine, number, quotient, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import INT32, Scalar, TensorType
from tensorir.lifting.region.nodes import (
    Atomic,
    Bound,
    Buffer,
    Carried,
    Check,
    Condition,
    External,
    For,
    If,
    Index,
    Joined,
    Let,
    Node,
    Order,
    Read,
    Region,
    Rule,
    While,
    Write,
    check_region,
)
from tensorir.nodes import run
from tensorir.runtime.errors import Source, did_you_mean
from tensorir.text.cursor import Cursor, element, tensor_type
from tensorir.text.elaborate import elaborate_expression
from tensorir.text.lexer import tokenize
from tensorir.text.parser import expression


def print_region(region: Region) -> str:
    """The region as text, which `parse_region` reads back."""
    lines = [f"region {region.name} {{", *(f"  {_buffer(b)}" for b in region.buffers)]
    return "\n".join([*lines, *_indented(_lines(region.body)), "}"])


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _buffer(b: Buffer) -> str:
    kind = "argument" if b.argument else "storage"
    return f"{kind} {b.name}: {b.element}[{', '.join(f'{n}={e}' for n, e in b.dims)}];"


def _lines(nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        yield from _node(node)


def _node(node: Node) -> Iterator[str]:
    match node:
        case Read(result, buffer, at, where, otherwise):
            rest = "" if otherwise is None else f" otherwise {otherwise}"
            yield f"{_typed(result)} ← {shown_access(buffer, at)}{shown_conditions(where)}{rest};"
        case Write(buffer, at, value, where):
            yield f"{shown_access(buffer, at)} ← {_inline(value)}{shown_conditions(where)};"
        case Atomic(result, buffer, at, op, value, where):
            head = "" if result is None else f"{_typed(result)} ← "
            yield f"{head}atomic {op} {shown_access(buffer, at)} ← {_inline(value)}{shown_conditions(where)};"
        case Let(result, value):
            yield f"let {_typed(result)} = {_inline(value)};"
        case For(dim, start, stop, body, rule, carried):
            word = "" if rule is Rule.IN_ORDER else f" {rule.value}"
            yield f"for {dim} in {_index(start)}:{_index(stop)}{word}{_carried(carried)} {{"
            yield from _indented(_lines(body))
            yield "}"
        case If(conditions, body, otherwise, joined):
            yield f"if {', '.join(map(_condition, conditions))} {{"
            yield from _indented(_lines(body))
            if otherwise:
                yield "} else {"
                yield from _indented(_lines(otherwise))
            parts = (f"{_typed(j.result)} = {_inline(j.value)} else {_inline(j.otherwise)}" for j in joined)
            yield f"}} giving ({'; '.join(parts)})" if joined else "}"
        case While(before, condition, body, carried):
            yield f"while{_carried(carried)} {{"
            yield from _indented(_lines(before))
            yield f"}} do {_inline(condition)} {{"
            yield from _indented(_lines(body))
            yield "}"
        case Check(condition, message):
            yield f'check {_inline(condition)} "{message}";'
        case Order():
            yield "order;"
        case External(name, reads, writes):
            yield f'external "{name}" {", ".join(b.name for b in reads)} → {", ".join(b.name for b in writes)};'


def _carried(carried: Sequence[Carried]) -> str:
    if not carried:
        return ""
    parts = (f"{_typed(c.inside)} = {_inline(c.first)} next {_inline(c.next)} as {c.result.name}" for c in carried)
    return f" carrying ({'; '.join(parts)})"


def _typed(v: Var) -> str:
    return f"{v.name}: {v.type}"


def _inline(e: Expr) -> str:
    return " ".join(str(e).split())


def _index(i: Index) -> str:
    return shown_sum(i) if isinstance(i, Affine) else i.name


def shown_sum(a: Affine) -> str:
    """A sum of indices, as the text writes it.

    >>> shown_sum(quotient(variable("i").plus(number(1)), 4, {}).times(-3))
    '-3*floordiv(i + 1, 4)'
    """
    parts: list[str] = []
    for atom, c in a.terms:
        name = atom if isinstance(atom, str) else f"floordiv({shown_sum(atom.inner)}, {atom.by})"
        parts.append(f"{'- ' if c < 0 else '+ '}{name if abs(c) == 1 else f'{abs(c)}*{name}'}")
    if a.constant or not parts:
        parts.append(f"{'- ' if a.constant < 0 else '+ '}{abs(a.constant)}")
    text = " ".join(parts)
    return text[2:] if text.startswith("+ ") else f"-{text[2:]}"


def shown_access(buffer: Buffer, at: Sequence[Index]) -> str:
    """Elements of a buffer, as the text names them."""
    return f"{buffer.name}[{', '.join(map(_index, at))}]"


def shown_conditions(where: Sequence[Condition]) -> str:
    """Conditions, as the text has them."""
    return f" where {', '.join(map(_condition, where))}" if where else ""


def _condition(c: Condition) -> str:
    match c:
        case Bound(affine, equal):
            return f"{shown_sum(affine)} {'=' if equal else '≥'} 0"
        case Var(name):
            return name


def parse_region(text: str, name: str = "<region>") -> Region:
    """The region of a text, checked.

    Raises S and N codes for what is spelled wrongly, and TL20 to TL23 for what the checker finds.
    """
    c = Cursor(tokenize(Source(name, text)))
    c.expect("region", help="a region is written region name { ... }.")
    title, _ = c.word("the name of the region")
    c.expect("{")
    reader = _Reader(c)
    while c.at("argument", "storage"):
        reader.buffer()
    body = reader.body()
    c.expect("}")
    if c.token.kind != "end":
        c.missing("the end of the text")
    region = Region(title, tuple(reader.buffers.values()), body)
    check_region(region)
    return region


@dataclass(slots=True)
class _Reader:
    """A place in the text, and the names that are known there."""

    c: Cursor
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    values: dict[str, Var] = field(default_factory=dict[str, Var])
    loops: dict[str, Var] = field(default_factory=dict[str, Var])

    def buffer(self) -> None:
        c = self.c
        argument = c.advance().text == "argument"
        name, span = c.word("the name of a buffer")
        if name in self.buffers:
            c.fail("N02", f"the buffer '{name}' is declared twice.", span, "rename one.")
        c.expect(":", help=f"give its type: {name}: float32[i=8].")
        kind = element(c)
        if not isinstance(kind, Scalar):
            c.fail("S01", "a buffer holds scalars.", span)
        c.expect("[", help=f"give its dims: {name}: {kind}[i=8].")
        dims: list[tuple[str, int]] = []
        while not c.at("]"):
            dim, _ = c.word("the name of a dim")
            c.expect("=", help=f"give its extent: {dim}=8.")
            dims.append((dim, self.whole()))
            if not c.accept(","):
                break
        c.expect("]")
        c.expect(";")
        self.buffers[name] = Buffer(name, kind, tuple(dims), argument)

    def whole(self) -> int:
        token = self.c.advance()
        if not token.text.isdecimal():
            self.c.fail("S09", f"{token.text} is not a whole number.", token)
        return int(token.text)

    def body(self) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self.c.at("}") and self.c.token.kind != "end":
            found.append(self.node())
        return tuple(found)

    def block(self) -> tuple[tuple[Node, ...], dict[str, Var]]:
        """A body in braces, and the values that are known at its end."""
        self.c.expect("{")
        known = dict(self.values)
        body = self.body()
        inner, self.values = self.values, known
        self.c.expect("}")
        return body, inner

    def node(self) -> Node:
        c, first = self.c, self.c.position
        word = c.token.text
        match word:
            case "for":
                return self.loop(first)
            case "if":
                c.advance()
                return self.choice(first)
            case "while":
                return self.rounds(first)
            case "let":
                c.advance()
                name, kind = self.typed()
                c.expect("=")
                value = self.expression()
                node = Let(self.define(name, kind), value, c.since(first))
            case "check":
                c.advance()
                condition = self.expression()
                node = Check(condition, self.string(), c.since(first))
            case "order":
                c.advance()
                node = Order(c.since(first))
            case "external":
                c.advance()
                name = self.string()
                reads = self.named_buffers("→")
                c.expect("→", "->")
                node = External(name, reads, self.named_buffers(";"), c.since(first))
            case _:
                node = self.access(first)
        c.expect(";", help="what is done ends with ';'.")
        return node

    def choice(self, first: int) -> Node:
        c, where = self.c, self.conditions()
        span = c.since(first)
        body, inner = self.block()
        otherwise, other = self.block() if c.accept("else") else ((), dict(self.values))
        joined: list[Joined] = []
        if c.accept("giving"):
            outer = dict(self.values)
            c.expect("(")
            while not c.at(")"):
                self.values = dict(outer)
                name, kind = self.typed()
                c.expect("=")
                self.values = inner
                value = self.expression()
                c.expect("else", help="a value that leaves a choice is written giving (x: float = a else b).")
                self.values = other
                joined.append(Joined(Var(name, kind), value, self.expression()))
                if not c.accept(";"):
                    break
            c.expect(")")
            self.values = {**outer, **{j.result.name: j.result for j in joined}}
        return If(where, body, otherwise, tuple(joined), span)

    def access(self, first: int) -> Node:
        c = self.c
        result: tuple[str, TensorType] | None = None
        if c.ahead().text == ":":
            result = self.typed()
            c.expect("←", "<-")
        atomic = c.accept("atomic") is not None
        op = c.word("a builtin")[0] if atomic else ""
        name, span = c.word("the name of a buffer")
        buffer = self.buffers.get(name)
        if buffer is None:
            c.fail("N01", f"there is no buffer '{name}'.", span, did_you_mean(name, self.buffers))
        own = result[1].dims.names if result is not None and not atomic else None
        c.expect("[", help=f"say which elements: {name}[...].")
        at: list[Index] = []
        while not c.at("]"):
            at.append(self.index())
            if not c.accept(","):
                break
        c.expect("]")
        if result is not None and not atomic:
            where = self.conditions() if c.accept("where") else ()
            otherwise = self.expression() if c.accept("otherwise") else None
            assert own is not None
            return Read(self.define(*result), buffer, tuple(at), where, otherwise, c.since(first))
        c.expect("←", "<-", help=f"say what {name} becomes.")
        value = self.expression()
        where = self.conditions() if c.accept("where") else ()
        span = c.since(first)
        if atomic:
            made = None if result is None else self.define(*result)
            return Atomic(made, buffer, tuple(at), op, value, where, span)
        return Write(buffer, tuple(at), value, where, span)

    def loop(self, first: int) -> Node:
        c = self.c
        c.advance()
        dim, span = c.word("the name of a loop")
        if dim in self.loops or dim in self.values:
            c.fail("N02", f"'{dim}' is the name of something else.", span, "rename one.")
        c.expect("in")
        start = self.index()
        c.expect(":", help="a loop is written for i in 0:8 { ... }.")
        stop = self.index()
        rule = next((r for r in Rule if c.at(r.value.split()[0])), Rule.IN_ORDER)
        if c.at(rule.value.split()[0]):
            for _ in rule.value.split():
                c.advance()
        known = dict(self.values)
        self.loops[dim] = Var(dim, TensorType(INT32))
        heads, ends = self.carried()
        span = c.since(first)
        c.expect("{")
        body = self.body()
        carried = self.close(heads, ends)
        c.expect("}")
        del self.loops[dim]
        self.values = {**known, **{r.result.name: r.result for r in carried}}
        return For(dim, start, stop, body, rule, carried, "", span)

    def rounds(self, first: int) -> Node:
        c = self.c
        c.advance()
        known = dict(self.values)
        heads, ends = self.carried()
        span = c.since(first)
        c.expect("{")
        before = self.body()
        c.expect("}")
        c.expect("do", help="a while is written while { what the condition needs } do condition { ... }.")
        condition = self.expression()
        c.expect("{")
        body = self.body()
        carried = self.close(heads, ends)
        c.expect("}")
        self.values = {**known, **{r.result.name: r.result for r in carried}}
        return While(before, condition, body, carried, span)

    def carried(self) -> tuple[list[tuple[Var, Expr, str]], list[int]]:
        """Loop-carried values, and the places of their next values in the text, read once the body is known."""
        c, heads, ends = self.c, list[tuple[Var, Expr, str]](), list[int]()
        if not c.accept("carrying"):
            return heads, ends
        opening = c.position
        c.expect("(")
        inside: list[Var] = []
        while not c.at(")"):
            name, kind = self.typed()
            c.expect("=")
            first = self.expression()
            c.expect("next")
            ends.append(c.position)
            while not (c.at("as") and c.ahead(2).text in (";", ")")):
                if c.token.kind == "end" or c.position >= c.tokens.closing[opening]:
                    c.missing("'as' and the name of the result")
                c.advance()
            c.advance()
            inside.append(Var(name, kind))
            heads.append((inside[-1], first, c.word("the name of the result")[0]))
            if not c.accept(";"):
                break
        c.expect(")")
        self.values.update({v.name: v for v in inside})
        return heads, ends

    def close(self, heads: list[tuple[Var, Expr, str]], ends: list[int]) -> tuple[Carried, ...]:
        c, here = self.c, self.c.position
        found: list[Carried] = []
        for (inside, first, name), place in zip(heads, ends, strict=True):
            c.position = place
            found.append(Carried(inside, first, self.expression(), Var(name, inside.type)))
        c.position = here
        return tuple(found)

    # Parts

    def typed(self) -> tuple[str, TensorType]:
        name, span = self.c.word("the name of a value")
        if name in self.loops or name in self.values:
            self.c.fail("N02", f"'{name}' is the name of something else.", span, "rename one.")
        self.c.expect(":", help=f"give its type: {name}: tensor<float32>.")
        kind = tensor_type(self.c)
        dims = [(r.dim, Interval(r.start.constant, r.stop.constant)) for r in kind.ranges]
        return name, TensorType(kind.element, Dims(tuple(dims)))

    def define(self, name: str, kind: TensorType) -> Var:
        self.values[name] = Var(name, kind)
        return self.values[name]

    def expression(self) -> Expr:
        syntax = run(expression(self.c))
        return elaborate_expression(syntax, [*self.values.values(), *self.loops.values()], ())

    def string(self) -> str:
        token = self.c.advance()
        if token.kind != "string":
            self.c.fail("S01", "a text in double quotes is needed here.", token)
        return token.text[1:-1]

    def named_buffers(self, end: str) -> tuple[Buffer, ...]:
        found: list[Buffer] = []
        while not self.c.at(end, "->"):
            name, span = self.c.word("the name of a buffer")
            if name not in self.buffers:
                self.c.fail("N01", f"there is no buffer '{name}'.", span, did_you_mean(name, self.buffers))
            found.append(self.buffers[name])
            if not self.c.accept(","):
                break
        return tuple(found)

    def conditions(self) -> tuple[Condition, ...]:
        found = [self.condition()]
        while self.c.accept(","):
            found.append(self.condition())
        return tuple(found)

    def condition(self) -> Condition:
        left = self.index()
        if isinstance(left, Var):
            return left
        sign = self.c.advance()
        if sign.text not in _SIGNS:
            self.c.fail("S01", "a comparison of indices, or a bool value, is needed here.", sign)
        right = self.sum()
        exchanged, more, equal = _SIGNS[sign.text]
        a, b = (right, left) if exchanged else (left, right)
        return Bound(a.minus(b).plus(number(-more)), equal)

    def index(self) -> Index:
        name = self.c.token.text
        if name in self.values and self.c.token.kind in ("name", "quoted"):
            self.c.advance()
            return self.values[name]
        return self.sum()

    def sum(self) -> Affine:
        c, total, sign = self.c, number(0), 1
        while True:
            while c.at("-", "+"):
                sign = -sign if c.advance().text == "-" else sign
            total = total.plus(self.product().times(sign))
            sign = 1
            if not c.at("+", "-"):
                return total

    def product(self) -> Affine:
        value = self.factor()
        while self.c.accept("*", "×"):
            other = self.factor()
            a, b = (value, other) if other.is_number else (other, value)
            if not b.is_number:
                self.c.fail("S09", "this is not affine.", self.c.token, "an index is multiplied by numbers only.")
            value = a.times(b.constant)
        return value

    def factor(self) -> Affine:
        c = self.c
        if c.token.kind == "number":
            return number(self.whole())
        if c.accept("("):
            inner = self.sum()
            c.expect(")")
            return inner
        if c.accept("floordiv"):
            c.expect("(")
            inner = self.sum()
            c.expect(",")
            by = self.whole()
            c.expect(")")
            return quotient(inner, by, {})
        return variable(c.word("an index")[0])


_SIGNS: dict[str, tuple[bool, int, bool]] = {
    ">=": (False, 0, False), "≥": (False, 0, False), "<=": (True, 0, False), "≤": (True, 0, False),
    ">": (False, 1, False), "<": (True, 1, False), "=": (False, 0, True), "==": (False, 0, True),
}  # fmt: skip
"""Whether the sides are exchanged, by how much the first is more than the second, and whether they are the same."""
