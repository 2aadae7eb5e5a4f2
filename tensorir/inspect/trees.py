"""Programs as foldable trees: every node with its type, what is shared shown once.

>>> import tensorir as ti
>>> f = ti.parse("f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:5]>) { out ← ⟪I, 1⟫(x) - x; }")
>>> "⟪I, 1⟫" in f._repr_html_()
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorir.inspect.page import MAX_DEPTH, MAX_NODES, Fold, Markup, coloured, joined, markup
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Closure, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import use_counts
from tensorir.runtime.errors import NOWHERE, Span

if TYPE_CHECKING:
    from tensorir.binding.bound import BoundProgram

__all__ = ["bound_values", "closure_tree", "expression_tree", "fencil_tree"]


def fencil_tree(fencil: Fencil) -> Fold:
    """Parameters with their roles and closures with their expressions, folded: the text stands before it."""
    outputs, inputs = {p.name for p in fencil.outputs}, {p.name for p in fencil.inputs}

    def role(p: Var) -> str:
        return "in and out" if p.name in outputs & inputs else "out" if p.name in outputs else "in"

    params = tuple(
        Fold(markup('<span class="name">{}</span>{} <span class="where">{}</span>', p.name, coloured(p.type), role(p)))
        for p in fencil.params
    )
    seen: dict[int, str] = {}
    uses = use_counts(*(c.value for c in fencil.closures))
    return Fold(
        markup('the tree of <span class="name">{}</span>, {} nodes', fencil.name, f"{len(uses):,}"),
        (
            Fold(markup("{} parameters", len(params)), params),
            *(_closure(c, uses, seen) for c in fencil.closures[:MAX_NODES]),
        ),
        open=False,
    )


def bound_values(bound: BoundProgram) -> Fold:
    """What is bound of a program."""
    fixed = [
        *(markup('<span class="name">{}</span>{}', n, _shape(v[0])) for n, v in bound.constants.items()),
        *(markup('<span class="name">{}</span> waits for sizes', n) for n in bound.pending),
        *(markup('<span class="name">{}</span> = {}', n, s) for n, s in bound.sizes.items()),
    ]
    return Fold(markup("{} bound", len(fixed)), tuple(map(Fold, fixed)))


def _shape(array: Any) -> Markup:
    return markup(" {} {}", array.dtype, " × ".join(map(str, array.shape)) or "number")


def closure_tree(closure: Closure) -> Fold:
    """What is stored where."""
    return _closure(closure, use_counts(closure.value), {})


def _closure(closure: Closure, uses: dict[int, int], seen: dict[int, str]) -> Fold:
    head = markup('<span class="name">{}</span>{} ←', closure.output.name, coloured(closure.target))
    return Fold(head, (_expression(closure.value, uses, seen),))


def expression_tree(root: Expr) -> Fold:
    """An expression: each node with its operands below it."""
    return _expression(root, use_counts(root), {})


def _expression(root: Expr, uses: dict[int, int], seen: dict[int, str]) -> Fold:
    """The part of a tree that a page shows: depth first, shared nodes unfolded where they are met first."""
    made: dict[tuple[int, int], Fold] = {}
    children: dict[tuple[int, int], list[tuple[int, int]]] = {}
    # a place is a node and how many were met before it: what is shared stands in several places
    order: list[tuple[tuple[int, int], Expr, bool]] = []
    stack: list[tuple[Expr, int, list[tuple[int, int]]]] = [(root, 0, [])]
    while stack and len(order) <= 2 * MAX_NODES:
        node, depth, siblings = stack.pop()
        place = (id(node), len(order))
        siblings.append(place)
        again = id(node) in seen and bool(node.children)
        order.append((place, node, again))
        own = children[place] = []
        if again or depth > MAX_DEPTH or len(order) > MAX_NODES:
            continue
        if node.children and uses.get(id(node), 0) > 1:
            seen[id(node)] = node.label or f"#{len(seen) + 1}"
        stack.extend((child, depth + 1, own) for child in reversed(node.children))
    for place, node, again in reversed(order):
        below = tuple(made[c] for c in children[place])
        if node.children and not below and not again:
            below = (Fold(markup('<span class="more">{}</span>', "… more is not shown")),)
        made[place] = Fold(_head(node, seen.get(id(node), ""), again), below, open=len(order) <= 60)
    return made[order[0][0]]


def _head(node: Expr, name: str, again: bool) -> Markup:
    named = node.label or name
    label = markup('<span class="name">{}</span> = ', named) if named else Markup("")
    if again:
        return markup('<span class="name">{}</span>{} <span class="where">as above</span>', named, coloured(node.type))
    # a variable's span is where it was declared
    where = Markup("") if isinstance(node, (Var, Literal)) else _where(node.span)
    return joined([label, markup('<span class="op">{}</span>{}', spelled(node), coloured(node.type)), where])


def _where(span: Span) -> Markup:
    return Markup("") if span is NOWHERE else markup(' <span class="where">line {}</span>', span.line)


def spelled(node: Expr) -> str:
    """What a node is, without its operands.

    >>> from tensorir.ir.build import call, literal
    >>> spelled(call("plus", literal(1.0), literal(2.0)))
    '· + ·'
    """
    match node:
        case Literal(value):
            return str(value).lower() if isinstance(value, bool) else repr(value)
        case Var(name):
            return name
        case Operator(op):
            return TABLE[op].glyphs[0] if TABLE[op].glyphs else op
        case Lambda(params):
            return f"λ({', '.join(p.name for p in params)})"
        case Apply():
            return "apply"
        case Call("cartesian_shift", _, (dim, distance)):
            return f"⟪{dim}, {distance}⟫"
        case Call("unstructured_shift", (table, *_), (slot,)):
            return f"⟪{_table(table)}, {slot}⟫"
        case Call("shift_init", (table, *_)):
            return f"⟪{_table(table)}⟫"
        case Call("if"):
            return "if · then · else ·"
        case Call("tuple_get", _, (k,)):
            return f"·[{k}]"
        case Call(op, _, static) if TABLE[op].glyphs and not static:
            glyph = TABLE[op].glyphs[0]
            return f"· {glyph} ·" if TABLE[op].is_infix else f"{glyph}·"
        case Call(op, _, static):
            return f"{op}({', '.join(map(str, static))})" if static else op


def _table(node: Expr) -> str:
    return node.name if isinstance(node, Var) else node.label or "table"
