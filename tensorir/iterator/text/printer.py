"""Iterator IR as text, in GT4Py's notation: `·x` for deref, `⇑f` for as_fieldop, `⟪Ioffₒ, 1ₒ⟫(x)` for a shift.

>>> from tensorir.iterator.nodes import Call, Lambda, Offset, Ref
>>> show(Lambda(("x",), Call(Ref("deref"), (Call(Call(Ref("shift"), (Offset("I"), Offset(-1))), (Ref("x"),)),))))
'λ(x) → ·⟪Iₒ, -1ₒ⟫(x)'
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from tensorir.iterator.nodes import (
    ARITHMETIC,
    Axis,
    Call,
    CartesianOffset,
    Expr,
    If,
    Infinity,
    Lambda,
    Literal,
    NoValue,
    Offset,
    Program,
    Ref,
    SetAt,
    Statement,
    run,
)

KINDS = {"horizontal": "ₕ", "vertical": "ᵥ", "local": "ₗ"}
PRECEDENCE = {
    **dict.fromkeys(["or_"], 2), **dict.fromkeys(["and_"], 3),
    **dict.fromkeys(["eq", "not_eq", "less", "less_equal", "greater", "greater_equal"], 4),
    **dict.fromkeys(["plus", "minus"], 5), **dict.fromkeys(["multiplies", "divides", "mod", "floordiv"], 6),
}  # fmt: skip
"""How tightly infix builtins bind."""
_OPEN, _PREFIX, _POSTFIX, _ATOM = 0, 7, 8, 9

Pieces = Generator[Any, Any, tuple[str, int]]


def show(node: Program | Statement | Expr) -> str:
    """A program, statement or expression as text."""
    match node:
        case Program():
            return _program(node)
        case SetAt() | If():
            return "\n".join(_statement(node, ""))
        case _:
            return run(_expression(node))[0]


def _program(p: Program) -> str:
    """A program, one line for each function, temporary and statement."""
    lines = [f"{p.name}({', '.join(one.name for one in p.params)}) {{"]
    lines += [f"  {f.name} = λ({', '.join(f.params)}) → {show(f.body)};" for f in p.functions]
    for t in p.temporaries:
        domain = "None" if t.domain is None else show(t.domain)
        lines.append(f"  {t.name} = temporary(domain={domain}, dtype={getattr(t.type, 'element', None)});")
    lines += [line for s in p.body for line in _statement(s, "  ")]
    return "\n".join([*lines, "}"])


def _statement(s: Statement, indent: str) -> Iterable[str]:
    """The lines of a statement, behind an indent."""
    match s:
        case SetAt(value, domain, target):
            yield f"{indent}{show(target)} @ {show(domain)} ← {show(value)};"
        case If(condition, then, otherwise):
            yield f"{indent}if ({show(condition)}) {{"
            for inner in then:
                yield from _statement(inner, indent + "  ")
            yield f"{indent}}} else {{"
            for inner in otherwise:
                yield from _statement(inner, indent + "  ")
            yield f"{indent}}}"


def _around(e: Expr, least: int) -> Generator[Any, Any, str]:
    """The text of an expression, in parentheses if it binds less than the precedence `least`."""
    text, level = yield _expression(e)
    return text if level >= least else f"({text})"


def _listed(args: Iterable[Expr]) -> Generator[Any, Any, str]:
    """The texts of expressions between commas."""
    texts: list[str] = []
    for a in args:
        texts.append((yield _expression(a))[0])
    return ", ".join(texts)


def _expression(e: Expr) -> Pieces:
    """The text of an expression and the precedence of what stands outermost in it."""
    match e:
        case Ref(name):
            return name, _ATOM
        case Literal(value):
            return value, _ATOM if not value.startswith("-") else _PREFIX
        case NoValue():
            return "None", _ATOM
        case Infinity(positive):
            return "∞" if positive else "-∞", _ATOM
        case Offset(value):
            return f"{value}ₒ", _ATOM
        case Axis(name, kind):
            return f"{name}{KINDS[kind]}", _ATOM
        case CartesianOffset(a, b):
            return f"{a.name}{KINDS[a.kind]}→{b.name}{KINDS[b.kind]}", _ATOM
        case Lambda(params, body):
            return f"λ({', '.join(params)}) → {(yield _expression(body))[0]}", _OPEN
        case Call(Ref(name), (a, b)) if name in PRECEDENCE:
            level = PRECEDENCE[name]
            first = yield _around(a, level)
            return f"{first} {ARITHMETIC[name].glyph} {(yield _around(b, level + 1))}", level
        case Call(Ref("not_"), (x,)):
            return f"¬{(yield _around(x, _PREFIX))}", _PREFIX
        case Call(Ref("deref"), (x,)):
            return f"·{(yield _around(x, _PREFIX))}", _PREFIX
        case Call(Ref("as_fieldop"), (x,)):
            return f"⇑{(yield _around(x, _PREFIX))}", _PREFIX
        case Call(Ref("lift"), (x,)):
            return f"↑{(yield _around(x, _PREFIX))}", _PREFIX
        case Call(Ref("if_"), (c, a, b)):
            condition, first = (yield _around(c, 1)), (yield _around(a, 1))
            return f"if {condition} then {first} else {(yield _around(b, 1))}", _OPEN
        case Call(Ref("shift"), offsets):
            return f"⟪{(yield _listed(offsets))}⟫", _ATOM
        case Call(Ref("make_tuple"), members):
            return f"{{{(yield _listed(members))}}}", _ATOM
        case Call(Ref("tuple_get"), (Literal(k), x)):
            return f"{(yield _around(x, _POSTFIX))}[{k}]", _POSTFIX
        case Call(Ref("cartesian_domain" | "unstructured_domain" as name), ranges):
            return f"{name[0]}⟨ {(yield _listed(ranges))} ⟩", _ATOM
        case Call(Ref("named_range"), (axis, start, stop)):
            name, first = (yield _around(axis, 1)), (yield _around(start, 1))
            return f"{name}: [{first}, {(yield _around(stop, 1))}[", _ATOM
        case Call(f, args):
            function = yield _around(f, _POSTFIX)
            return f"{function}({(yield _listed(args))})", _POSTFIX
