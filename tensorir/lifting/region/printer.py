"""The text of a region.

>>> from tensorir.lifting.region.parser import parse_region
>>> print(print_region(parse_region("region r { storage s: int32[]; s[] ← 1 where 2 - 1 >= 0; }")))
region r {
  storage s: int32[];
  s[] ← 1 where 1 ≥ 0;
}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorir.integers.affine import Affine
from tensorir.ir.nodes import Expr, Var
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
    Let,
    Node,
    Order,
    Read,
    Region,
    Rule,
    While,
    Write,
)


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

    >>> from tensorir.integers.affine import number, quotient, variable
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
    """What must hold, as the text says it."""
    return f" where {', '.join(map(_condition, where))}" if where else ""


def _condition(c: Condition) -> str:
    match c:
        case Bound(affine, equal):
            return f"{shown_sum(affine)} {'=' if equal else '≥'} 0"
        case Var(name):
            return name
