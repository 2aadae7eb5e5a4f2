"""Programs to text that parses back to the same program.

>>> from tensorir.text import parse_expr
>>> from tensorir.ir.types import tensor
>>> e = parse_expr("shift(I, 1)(x) * 2.0 <= cast(n, float)", {"x": tensor("float", I=(0, 5)), "n": tensor("int")})
>>> print(print_expr(e))
⟪I, 1⟫(x) × 2.0 ≤ cast(n, float)
>>> print(print_expr(e, ascii=True))
shift(I, 1)(x) * 2.0 <= cast(n, float)
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.ir import nodes as ir
from tensorir.ir.builtins import BY_GLYPH, COMPARE, POWER, TABLE, UNARY, Builtin
from tensorir.text import syntax
from tensorir.text.layout import EMPTY, LINE, SPACE, Document, group, joined, nested, render, together
from tensorir.text.slots import SLOTS, spell_affine, spell_element, spell_ranges
from tensorir.text.spelling import KEYWORDS, RESERVED, glyph, number, quoted_name
from tensorir.text.template import Template
from tensorir.text.trampoline import Rule, run
from tensorir.text.unparse import unparse, unparse_expr

__all__ = ["print_expr", "print_fencil", "print_param"]

_POSTFIX, _ATOM = POWER + 1, POWER + 2


def print_fencil(fencil: ir.Fencil | Template, *, ascii: bool = False, width: int = 100) -> str:
    """The text of a fencil or template, wrapped at a width, in Unicode or in ASCII."""
    program = fencil.program if isinstance(fencil, Template) else unparse(fencil)
    return render(_program(program, _Style(ascii)), width)


def print_expr(expr: ir.Expr, *, ascii: bool = False, width: int = 100) -> str:
    """The text of an expression."""
    return render(group(run(_expression(unparse_expr(expr), _Style(ascii)))), width)


def print_param(param: syntax.Param, *, ascii: bool = False) -> str:
    """A parameter of a program with sizes, as `inp: tensor<float, I[0:n]>`."""
    return _param(param, _Style(ascii))


@dataclass(frozen=True, slots=True)
class _Style:
    ascii: bool

    def name(self, name: str) -> str:
        return quoted_name(name, self.ascii)

    def sign(self, unicode: str, ascii: str) -> str:
        return ascii if self.ascii else unicode


def _program(program: syntax.Program, style: _Style) -> Document:
    parts: list[Document] = []
    if program.offsets:
        entries = ", ".join(f"{style.name(name)}: {style.name(target)}" for name, target in program.offsets)
        parts += [f"offsets {{ {entries} }}", LINE]
    params = [together(_param(p, style)) for p in program.params]
    parts += [_list(f"{style.name(program.name)}(", list(params), ") {")]
    lines: list[Document] = []
    for c in program.closures:
        lines += [run(_binding(b.name, b.value, style)) for b in c.before]
        lines.append(run(_closure(c, style)))
    parts += [nested(*(part for line in lines for part in (LINE, line))), LINE, "}"]
    return together(*parts)


def _list(opening: str, items: list[Document], closing: str) -> Document:
    """Items between brackets, on one line or each on its own."""
    if not items:
        return opening + closing
    return group(opening, nested(EMPTY, *joined(items, ",", SPACE)), EMPTY, closing)


def _param(p: syntax.Param, style: _Style) -> str:
    return style.name(p.name) if p.type is None else f"{style.name(p.name)}: {_type(p.type, style)}"


def _type(kind: syntax.TensorType, style: _Style) -> str:
    inner = spell_element(kind.element, style.ascii)
    return f"tensor<{inner}{', ' if kind.ranges else ''}{spell_ranges(kind.ranges, style.ascii)}>"


def _closure(closure: syntax.Closure, style: _Style) -> Rule[Document]:
    head = style.name(closure.output)
    if closure.region is not None:
        head += f"[{spell_ranges(closure.region, style.ascii)}]"
    value: Document = yield _expression(closure.value, style)
    if isinstance(closure.value, syntax.Apply) and isinstance(closure.value.function, syntax.Lambda):
        return together(f"{head} {style.sign('←', '<-')} ", value, ";")
    return group(f"{head} {style.sign('←', '<-')}", nested(SPACE, value), ";")


def _expression(node: syntax.Expression, style: _Style, least: int = 0) -> Rule[Document]:
    """An expression where operators of the precedence `least` may stand; others are put between parentheses."""
    precedence = _precedence(node)
    match node:
        case syntax.Number(value, element):
            result: Document = number(value, element)
        case syntax.Name(name):
            result = style.name(name)
        case syntax.Operator():
            result = _operator(node, style)
        case syntax.Lambda():
            result = yield _lambda(node, style)
        case syntax.Apply():
            result = yield _apply(node, style)
        case syntax.Shift():
            result = yield _shift(node, style)
        case syntax.Let():
            result = yield _let(node, style)
        case syntax.Results(values):
            results: list[Document] = yield _each(values, style)
            result = _list("{", results, "}")
        case syntax.Call("if") if precedence == 0:
            result = yield _conditional(node, style)
        case syntax.Call("make_tuple") if node.args:
            members: list[Document] = yield _each(node.args, style)
            result = _list("(", members, ",)" if len(members) == 1 else ")")
        case syntax.Call("tuple_get"):
            operand: Document = yield _expression(node.args[0], style, _POSTFIX)
            result = together(operand, f"[{spell_affine(node.static[0], style.ascii)}]")
        case syntax.Call(op) if precedence < _POSTFIX:
            row = TABLE[op]
            if row.is_prefix:
                operand = yield _expression(node.args[0], style, precedence)
                mark = glyph(row, style.ascii)
                result = together(mark + " " * mark.isalpha(), operand)
            else:
                result = yield _infix(node, row, style)
        case syntax.Call():
            result = yield _call(node, style)
    return group("(", nested(EMPTY, result), EMPTY, ")") if precedence < least else result


def _precedence(node: syntax.Expression) -> int:
    match node:
        case syntax.Lambda() | syntax.Let():
            return 0
        case syntax.Number(value, element):
            return UNARY if number(value, element).startswith("-") else _ATOM
        case syntax.Call("if", args):
            return 0 if len(args) == 3 else _ATOM
        case syntax.Call("neg", (syntax.Number(),)):  # -1.0 is a literal
            return _ATOM
        case syntax.Call(op, args) if TABLE[op].glyphs and len(args) == len(TABLE[op].form[0]):
            return TABLE[op].precedence
        case syntax.Operator(_, types):
            return _ATOM if types is not None else 0
        case _:
            return _ATOM


def _each(nodes: tuple[syntax.Expression, ...], style: _Style) -> Rule[list[Document]]:
    found: list[Document] = []
    for node in nodes:
        found.append((yield _argument(node, style)))
    return found


def _argument(node: syntax.Expression, style: _Style) -> Rule[Document]:
    """What stands between commas."""
    if isinstance(node, syntax.Operator):
        return _operator(node, style)
    return group((yield _expression(node, style)))


def _operator(node: syntax.Operator, style: _Style) -> Document:
    row = TABLE[node.op]
    name = f"__{node.op}" if node.op in KEYWORDS else node.op
    if row.glyphs:
        mark = glyph(row, style.ascii)
        if (BY_GLYPH.get((mark, 2)) or BY_GLYPH.get((mark, 1))) is row:
            name = mark
    if node.types is None:
        return name
    return _list("operator(", [name, *(_type(t, style) for t in node.types)], ")")


def _infix(node: syntax.Call, row: Builtin, style: _Style) -> Rule[Document]:
    """Operators of one precedence in a row, `a + b - c`, with a break before each."""
    precedence = row.precedence
    left_least = precedence + (precedence in (COMPARE, POWER))
    right_least = precedence + (precedence != POWER)
    spine: list[tuple[str, syntax.Expression]] = []
    inner: syntax.Expression = node
    while isinstance(inner, syntax.Call) and _precedence(inner) == precedence and not TABLE[inner.op].is_prefix:
        spine.append((glyph(TABLE[inner.op], style.ascii), inner.args[1]))
        inner = inner.args[0]
        if left_least > precedence:
            break
    first: Document = yield _expression(inner, style, left_least)
    parts: list[Document] = [first]
    for mark, operand in reversed(spine):
        right: Document = yield _expression(operand, style, right_least)
        parts += [SPACE, together(f"{mark} ", right)]
    return group(parts[0], nested(*parts[1:]))


def _lambda(node: syntax.Lambda, style: _Style) -> Rule[Document]:
    body: Document = yield _expression(node.body, style)
    return together(_head(node, style), group(nested(SPACE, body)))


def _head(node: syntax.Lambda, style: _Style) -> Document:
    params: list[Document] = [_param(p, style) for p in node.params]
    return _list(style.sign("λ(", "\\("), params, f") {style.sign('→', '->')}")


def _apply(node: syntax.Apply, style: _Style) -> Rule[Document]:
    function: Document
    if isinstance(node.function, syntax.Lambda):
        body: Document = yield _expression(node.function.body, style)
        function = together("(", _head(node.function, style), group(nested(SPACE, body), EMPTY, ")"))
    else:
        function = yield _expression(node.function, style, _ATOM)
    if isinstance(node.function, syntax.Name) and node.function.name in RESERVED:
        function = together("(", function, ")")
    args: list[Document] = yield _each(node.args, style)
    return together(function, _list("(", args, ")"))


def _shift(node: syntax.Shift, style: _Style) -> Rule[Document]:
    items: list[Document] = []
    for offset in node.offsets:
        distance = "" if offset.distance is None else f", {spell_affine(offset.distance, style.ascii)}"
        items.append(style.name(offset.name) + distance)
    head = _list(style.sign("⟪", "shift("), items, style.sign("⟫", ")"))
    operand: Document = yield _argument(node.operand, style)
    return together(head, _list("(", [operand], ")"))


def _let(node: syntax.Let, style: _Style) -> Rule[Document]:
    parts: list[Document] = []
    inner: syntax.Expression = node
    while isinstance(inner, syntax.Let):
        binding: Document = yield _binding(inner.name, inner.value, style)
        parts += [binding, SPACE]
        inner = inner.body
    body: Document = yield _expression(inner, style)
    return group(*parts, body)


def _binding(name: str, bound: syntax.Expression, style: _Style) -> Rule[Document]:
    value: Document
    if isinstance(bound, syntax.Operator):
        value = _operator(bound, style)
    else:
        value = yield _expression(bound, style, 1 if isinstance(bound, syntax.Let) else 0)
    return group(f"let {style.name(name)} =", nested(SPACE, value), ";")


def _conditional(node: syntax.Call, style: _Style) -> Rule[Document]:
    """Choices in a row: `if c then a else if d then b else e`."""
    parts: list[Document] = []
    inner: syntax.Expression = node
    while isinstance(inner, syntax.Call) and inner.op == "if" and len(inner.args) == 3:
        condition: Document = yield _expression(inner.args[0], style, 1)
        if _starts_with_tuple(inner.args[0]):  # `if (a, b` would be read as a call
            condition = group("(", nested(EMPTY, condition), EMPTY, ")")
        yes: Document = yield _expression(inner.args[1], style, 1)
        parts += [together("if ", condition), nested(SPACE, together("then ", yes)), SPACE, "else "]
        inner = inner.args[2]
    no: Document = yield _expression(inner, style)
    return group(*parts, no)


def _starts_with_tuple(node: syntax.Expression) -> bool:
    while isinstance(node, syntax.Call) and node.op != "make_tuple" and node.args:
        if node.op != "tuple_get" and not (TABLE[node.op].is_infix and len(node.args) > 1):
            return False
        node = node.args[0]
    return isinstance(node, syntax.Call) and node.op == "make_tuple"


def _call(node: syntax.Call, style: _Style) -> Rule[Document]:
    """A builtin as its form says."""
    row = TABLE[node.op]
    args, static = list(node.args), list(node.static)
    # the operands of xs are what the slots with one operand leave
    groups: list[Document] = [node.op]
    for slots in row.form:
        items: list[Document] = []
        for slot in slots:
            if slot in SLOTS:
                value = static.pop(0)
                if not slot.endswith("?") or value != SLOTS[slot].default:
                    items.append(SLOTS[slot].spell(value, style.ascii))
                continue
            count = len(args) if slot == "xs" or (slots == row.form[-1] and set(slots) == {"x"}) else 1
            for _ in range(min(count, len(args))):
                items.append((yield _argument(args.pop(0), style)))
        groups.append(_list("(", items, ")"))
    return together(*groups)
