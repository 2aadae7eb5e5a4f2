"""Typed programs to text that parses back to the same program, with a `let` for what is used more than once.

What has a label gets a `let`, too. It stands at the beginning of the innermost function, or of the closure, that binds
all variables in its value; what several closures use, and none of them has stored into since, before the first of them.
The tree is linear in the distinct nodes.

>>> from tensorir.text import parse_expr
>>> from tensorir.ir.types import tensor
>>> variables = {"x": tensor("float", I=(0, 5)), "n": tensor("int")}
>>> e = parse_expr("shift(I, 1)(x) * 2.0 <= cast(n, float)", variables)
>>> print(print_expr(e))
⟪I, 1⟫(x) × 2.0 ≤ cast(n, float)
>>> print(print_expr(e, ascii=True))
shift(I, 1)(x) * 2.0 <= cast(n, float)
>>> x = parse_expr("x × x", variables)
>>> print(print_expr(ir.Call("plus", (x, x))))
let t1 = x × x; t1 + t1
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorir.integers.affine import number as whole
from tensorir.integers.dims import Dims
from tensorir.ir import build
from tensorir.ir import nodes as ir
from tensorir.ir.builtins import BY_GLYPH, COMPARE, POWER, TABLE, UNARY, Builtin
from tensorir.ir.rewrite import postorder, runs, use_counts, values, with_values
from tensorir.ir.static_parameters import Fold, Scan, Shift, Slot
from tensorir.ir.types import TensorType
from tensorir.ir.typing_of_elements import highest_neighbour
from tensorir.ir.typing_rules import scanned_dim
from tensorir.nodes import Rule, each, run
from tensorir.runtime.errors import DiagnosticError
from tensorir.text import syntax
from tensorir.text.cursor import SLOTS, lift, spell_affine, spell_element, spell_ranges
from tensorir.text.elaborate import function_count, parameter_types
from tensorir.text.layout import EMPTY, LINE, SPACE, Document, group, joined, nested, render, together
from tensorir.text.lexer import KEYWORDS, RESERVED, glyph, number, quoted_name
from tensorir.text.sizes import Template


def unparse(fencil: ir.Fencil) -> syntax.Program:
    """The syntax tree of a fencil; nodes used several times become `let`s."""
    closures = _rename_apart(fencil)
    names = _Names.of([c.value for c in closures], fencil.params)
    written = [one for run in runs(closures) for one in _run(run, names)]
    return syntax.Program(fencil.name, tuple(_param(p) for p in fencil.params), tuple(written))


def unparse_expr(expr: ir.Expr) -> syntax.Expression:
    """The syntax tree of an expression; nodes used several times become `let`s."""
    if _repeats(expr):
        (expr,) = build.with_unique_names([expr], {v.name for v in expr.free})
    units = _split_units([expr])
    return _write(units.of[~0], expr, _name_shared(units, _Names.of([expr], expr.free)), units.uses)


def _rename_apart(fencil: ir.Fencil) -> tuple[ir.Closure, ...]:
    """The closures with unique parameter names, where a pass left functions whose parameters share a name."""
    if not any(_repeats(c.value) for c in fencil.closures):
        return fencil.closures
    return with_values(
        fencil.closures, build.with_unique_names(values(fencil.closures), {p.name for p in fencil.params})
    )


def _repeats(root: ir.Expr) -> bool:
    parameters = [p for n in postorder(root) if isinstance(n, ir.Lambda) for p in n.params]
    return len({p.name for p in parameters}) < len(parameters)


def _run(closures: Sequence[ir.Closure], names: _Names) -> Iterator[syntax.Closure]:
    """The syntax of closures that read the same values, each with `let`s in front for nodes that later ones share."""
    units = _split_units(values(closures))
    shared = _name_shared(units, names)
    for k, c in enumerate(closures):
        bindings = tuple(
            syntax.Binding(shared.label[id(n)], _write(units.of[id(n)], n, shared, units.uses, bound=True))
            for n in units.before[k]
        )
        region = None if c.region is None else _ranges(c.region)
        yield syntax.Closure(c.output.name, region, _write(units.of[~k], c.value, shared, units.uses), before=bindings)


def unparse_type(kind: TensorType) -> syntax.TensorType:
    return syntax.TensorType(kind.element, _ranges(kind.dims))


def _ranges(dims: Dims) -> tuple[syntax.Range, ...]:
    return tuple(syntax.Range(name, whole(i.start), whole(i.stop)) for name, i in dims.items)


def _param(p: ir.Var) -> syntax.Param:
    return syntax.Param(p.name, unparse_type(p.type))


@dataclass(frozen=True, slots=True)
class _Names:
    """Names that a `let` must not take: variables, dims, and words that mean something."""

    variables: frozenset[str]
    dims: frozenset[str]

    @staticmethod
    def of(roots: Sequence[ir.Expr], params: Iterable[ir.Var]) -> _Names:
        """The names that appear in expressions and parameters."""
        variables = {p.name for p in params}
        dims = {d for p in params for d in p.type.dims}
        for node in postorder(*roots):
            match node:
                case ir.Lambda(inner):
                    variables.update(p.name for p in inner)
                case ir.Var(name):
                    variables.add(name)
                case _:
                    pass
            if isinstance(node.type, TensorType):
                dims.update(node.type.dims.names)
        return _Names(frozenset(variables), frozenset(dims))


@dataclass(slots=True)
class _Units:
    """The units that closures are written in: their values, and nodes that several of them share, bound in front."""

    of: dict[int, list[ir.Expr]]
    """The nodes of each unit, operands first: the key of closure k is ~k, of a shared node its identity."""
    before: list[list[ir.Expr]]
    """By closure, the shared nodes that are bound in front of it."""
    uses: dict[int, int]


def _split_units(roots: Sequence[ir.Expr]) -> _Units:
    """Assigns each node to the closures (~k) and shared nodes (identity) that contain it, readers before operands.

    A node in several units becomes a unit of its own, bound before the first closure that reads it, unless it uses a
    function's parameter.
    """
    order = list(postorder(*roots))
    bound = {p for n in order if isinstance(n, ir.Lambda) for p in n.params}
    readers: defaultdict[int, set[int]] = defaultdict(set)
    first_reader: dict[int, int] = {}
    for k, root in reversed(list(enumerate(roots))):
        readers[id(root)].add(~k)
        first_reader[id(root)] = k
    before: list[list[ir.Expr]] = [[] for _ in roots]
    uses = use_counts(*roots)
    for node in reversed(order):
        has_name = node.label or uses[id(node)] > 1
        # what a value in front of closures begins with stands in front of them, too
        is_shared = len(readers[id(node)]) > 1 or (has_name and min(readers[id(node)]) >= 0)
        if is_shared and not isinstance(node, _UNNAMED) and node.free.isdisjoint(bound):
            before[first_reader[id(node)]].append(node)
            readers[id(node)] = {id(node)}
        for child in node.children:
            readers[id(child)] |= readers[id(node)]
            first_reader[id(child)] = min(first_reader.get(id(child), len(roots)), first_reader[id(node)])
    of: defaultdict[int, list[ir.Expr]] = defaultdict(list)
    for node in order:
        for unit in readers[id(node)]:
            of[unit].append(node)
    return _Units(of, [nodes[::-1] for nodes in before], uses)


_UNNAMED = (ir.Var, ir.Literal, ir.Operator)
"""What is written again and again."""


def _name_shared(units: _Units, names: _Names) -> _Scopes:
    """Names for the nodes that are bound in front of closures."""
    scopes = _Scopes(names)
    scopes.name([n for nodes in units.before for n in nodes])
    return scopes


@dataclass(slots=True)
class _Scopes:
    """The names of `let`s: `label` by node, and `members` the nodes bound at the top (None) or in a function's body."""

    names: _Names
    label: dict[int, str] = field(default_factory=dict[int, str])
    members: dict[int | None, list[ir.Expr]] = field(default_factory=dict[int | None, list[ir.Expr]])

    @property
    def used(self) -> frozenset[str]:
        """The names that stand for values."""
        return self.names.variables.union(self.label.values())

    def name(self, nodes: Sequence[ir.Expr]) -> None:
        """Gives each node a unique name: its label, with a number if needed, or t1, t2, ..."""
        used_names, suffixes = set(self.used | self.names.dims | RESERVED), dict[str, int]()
        for node in nodes:
            if node.label:
                self.label[id(node)] = _fresh(node.label, node.label, "_", used_names, suffixes)
        for node in nodes:
            if not node.label:
                self.label[id(node)] = _fresh("", "t", "", used_names, suffixes)


def _open_scopes(order: Sequence[ir.Expr], outer: _Scopes, uses: Mapping[int, int]) -> _Scopes:
    """The names for a unit's nodes (with those bound outside), each in the scope of the innermost function whose
    parameter it uses.
    """
    result = _Scopes(outer.names, dict(outer.label))
    named_nodes = [
        n for n in order if id(n) not in outer.label and (n.label or (uses[id(n)] > 1 and not isinstance(n, _UNNAMED)))
    ]
    result.name(named_nodes)
    functions = [n for n in order if isinstance(n, ir.Lambda)] if named_nodes else []
    function_of = {p: id(f) for f in functions for p in f.params}
    depth: dict[int, int] = {}  # how many functions stand around one at least
    for f in reversed(functions):  # what a function is in comes after it
        depth[id(f)] = 1 + max((depth.get(function_of[v], 0) for v in f.free if v in function_of), default=0)
    for node in named_nodes:
        owner = max((function_of[v] for v in node.free if v in function_of), key=lambda f: depth[f], default=None)
        result.members.setdefault(owner, []).append(node)
    return result


def _fresh(name: str, stem: str, separator: str, used_names: set[str], counters: dict[str, int]) -> str:
    """A free name: `name` itself if possible, otherwise `stem` and a number; it is added to `used_names`."""
    while not name or name in used_names:
        counters[stem] = counters.get(stem, 0) + 1
        name = f"{stem}{separator}{counters[stem]}"
    used_names.add(name)
    return name


def _write(
    order: Sequence[ir.Expr], root: ir.Expr, outer: _Scopes, uses: Mapping[int, int], bound: bool = False
) -> syntax.Expression:
    """The syntax tree of a unit whose nodes are in `order`, operands first; `outer` are the names bound outside.

    With `bound` the tree of the root itself, although it has a name. Nested shifts are written as one.
    """
    scopes = _open_scopes(order, outer, uses)
    used_names = scopes.used
    tree_of: dict[int, syntax.Expression] = {}
    # shifts that are written as part of the shift that they are operands of
    outer_shifts = (n for n in order if isinstance(n, ir.Call) and _is_shift(n, scopes, used_names))
    operands = (n.args[-1] for n in outer_shifts if id(n.args[-1]) not in scopes.label)
    merged_shifts = {id(x) for x in operands if _is_shift(x, scopes, used_names)}

    def use(node: ir.Expr) -> syntax.Expression:
        """The name of a node, or its tree if it has none."""
        name = scopes.label.get(id(node))
        return tree_of[id(node)] if name is None else syntax.Name(name)

    def opened(owner: int | None, body: syntax.Expression) -> syntax.Expression:
        """The body inside of the `let`s that belong to a function (None: to the unit)."""
        for node in reversed(scopes.members.get(owner, ())):
            body = syntax.Let(scopes.label[id(node)], tree_of[id(node)], body)
        return body

    for node in order:
        match node:
            case ir.Literal(value, element):
                new_tree: syntax.Expression = syntax.Number(value, element)
            case ir.Var(name):
                new_tree = syntax.Name(name)
            case ir.Operator(op, types):
                new_tree = syntax.Operator(op, tuple(unparse_type(t) for t in types))
            case ir.Lambda(params, results):
                values = tuple(use(r) for r in results)
                body = values[0] if len(values) == 1 else syntax.Results(values)
                new_tree = syntax.Lambda(tuple(_param(p) for p in params), opened(id(node), body))
            case ir.Apply(function, args):
                inferred = tuple(a.type for a in args)
                new_tree = syntax.Apply(_function(use(function), function, inferred), tuple(use(a) for a in args))
            case ir.Call():
                if id(node) in merged_shifts:
                    continue
                new_tree = _shift(node, scopes, use, used_names) or _call(node, [use(a) for a in node.args])
        tree_of[id(node)] = new_tree
    return opened(None, tree_of[id(root)] if bound else use(root))


def _function(tree: syntax.Expression, function: ir.Expr, inferred: Any) -> syntax.Expression:
    """The tree of a function operand; an operator loses its types if they equal the inferred ones."""
    if isinstance(tree, syntax.Operator) and isinstance(function, ir.Operator) and function.params == inferred:
        return syntax.Operator(tree.op)
    return tree


# Shifts: one in front of another is written as one, `⟪I, 1, J, 1⟫(x)`


def _is_shift(node: ir.Expr, scopes: _Scopes, used_names: frozenset[str]) -> bool:
    """True if a call can be written with ⟪⟫: its table is a name, or no value is named like its dim."""
    match node:
        case ir.Call("cartesian_shift", _, (dim, _)):
            return dim not in used_names
        case ir.Call("unstructured_shift" | "shift_init", (table, _)):
            return isinstance(table, ir.Var) or id(table) in scopes.label
        case _:
            return False


def _shift(
    node: ir.Call, scopes: _Scopes, use: Callable[[ir.Expr], syntax.Expression], used: frozenset[str]
) -> syntax.Expression | None:
    """A chain of shifts without names in between as one shift; None for other calls."""
    offsets: list[syntax.Offset] = []
    inner: ir.Expr = node
    while (
        isinstance(inner, ir.Call) and _is_shift(inner, scopes, used) and (not offsets or id(inner) not in scopes.label)
    ):
        match inner.static:
            case Shift(name, offset):
                distance = whole(offset)
            case Slot(neighbour):
                name, distance = _name(use(inner.args[0])), whole(neighbour)
            case _:
                name, distance = _name(use(inner.args[0])), None
        offsets.append(syntax.Offset(name, distance))
        inner = inner.args[-1]
    return syntax.Shift(tuple(offsets), use(inner)) if offsets else None


def _name(tree: syntax.Expression) -> str:
    assert isinstance(tree, syntax.Name)
    return tree.name


# Other builtins


def _call(node: ir.Call, args: list[syntax.Expression]) -> syntax.Expression:
    """The syntax of a call; static parameters and operator types that can be inferred again are left out."""
    builtin, count = TABLE[node.op], function_count(node.op, len(args))
    types = [a.type for a in node.args[count:] if isinstance(a.type, TensorType)]
    static = _without_inferable(node)
    if count and static != node.static and isinstance(args[0], syntax.Operator):
        args[0] = _function(args[0], node.args[0], _parameter_types(node.op, static, types))
        static = static if isinstance(args[0], syntax.Operator) and args[0].types is None else node.static
    for index in range(count):
        args[index] = _function(args[index], node.args[index], _parameter_types(node.op, static, types))
    return syntax.Call(node.op, tuple(args), lift(builtin, static))


def _parameter_types(op: str, static: tuple[Any, ...], types: Sequence[TensorType]) -> tuple[TensorType, ...] | None:
    """`parameter_types` of the elaborator, None also where it raises."""
    try:
        return parameter_types(op, static, types, ())
    except DiagnosticError:
        return None


def _without_inferable(node: ir.Call) -> tuple[Any, ...]:
    """The static parameters, with None for a folded dim that the elaborator would choose itself."""
    types = [a.type for a in node.args[2:] if isinstance(a.type, TensorType)]
    match node.op, node.static:
        case "reduce", Fold(dim) if highest_neighbour(d for t in types for d in t.dims) == dim:
            return (None,)
        case "scan", Scan(forward, dim):
            function = node.args[0].type
            assert not isinstance(function, TensorType)
            try:
                return (forward, None) if scanned_dim(function, types) == dim else node.static
            except DiagnosticError:
                return node.static
        case _:
            return node.static


_POSTFIX, _ATOM = POWER + 1, POWER + 2


def print_fencil(fencil: ir.Fencil | Template, *, ascii: bool = False, width: int = 100) -> str:
    """The text of a fencil or template, with lines of at most `width` characters; `ascii` avoids Unicode signs."""
    program = fencil.program if isinstance(fencil, Template) else unparse(fencil)
    return render(_program(program, _Style(ascii)), width)


def print_expr(expr: ir.Expr, *, ascii: bool = False, width: int = 100) -> str:
    """The text of an expression."""
    return render(group(run(_expression(unparse_expr(expr), _Style(ascii)))), width)


def print_param(param: syntax.Param, *, ascii: bool = False) -> str:
    """A parameter of a program with sizes, as `inp: tensor<float, I[0:n]>`."""
    return _printed_param(param, _Style(ascii))


@dataclass(frozen=True, slots=True)
class _Style:
    ascii: bool

    def name(self, name: str) -> str:
        return quoted_name(name, self.ascii)

    def sign(self, unicode: str, ascii: str) -> str:
        return ascii if self.ascii else unicode


def _program(program: syntax.Program, style: _Style) -> Document:
    """The layout of a program: offsets, head, and a line per closure and binding."""
    parts: list[Document] = []
    if program.offsets:
        entries = ", ".join(f"{style.name(name)}: {style.name(target)}" for name, target in program.offsets)
        parts += [f"offsets {{ {entries} }}", LINE]
    params = [together(_printed_param(p, style)) for p in program.params]
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


def _printed_param(p: syntax.Param, style: _Style) -> str:
    return style.name(p.name) if p.type is None else f"{style.name(p.name)}: {_type(p.type, style)}"


def _type(kind: syntax.TensorType, style: _Style) -> str:
    inner = spell_element(kind.element, style.ascii)
    return f"tensor<{inner}{', ' if kind.ranges else ''}{spell_ranges(kind.ranges, style.ascii)}>"


def _closure(closure: syntax.Closure, style: _Style) -> Rule[Document]:
    """The layout of `out[...] ← e;`; an applied λ begins on the same line."""
    head = style.name(closure.output)
    if closure.region is not None:
        head += f"[{spell_ranges(closure.region, style.ascii)}]"
    value: Document = yield _expression(closure.value, style)
    if isinstance(closure.value, syntax.Apply) and isinstance(closure.value.function, syntax.Lambda):
        return together(f"{head} {style.sign('←', '<-')} ", value, ";")
    return group(f"{head} {style.sign('←', '<-')}", nested(SPACE, value), ";")


def _expression(node: syntax.Expression, style: _Style, min_precedence: int = 0) -> Rule[Document]:
    """The layout of an expression, between parentheses if it binds less tightly than `min_precedence`."""
    precedence = _precedence(node)
    match node:
        case syntax.Number(value, element):
            result: Document = number(value, element)
        case syntax.Name(name):
            result = style.name(name)
        case syntax.Operator():
            result = _operator(node, style)
        case syntax.Lambda():
            body: Document = yield _expression(node.body, style)
            result = together(_head(node, style), group(nested(SPACE, body)))
        case syntax.Apply():
            result = yield _apply(node, style)
        case syntax.Shift():
            result = yield _printed_shift(node, style)
        case syntax.Let():
            result = yield _let(node, style)
        case syntax.Results(values):
            result = _list("{", (yield from each(_argument(a, style) for a in values)), "}")
        case syntax.Call("if") if precedence == 0:
            result = yield _conditional(node, style)
        case syntax.Call("make_tuple") if node.args:
            members = yield from each(_argument(a, style) for a in node.args)
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
            result = yield _printed_call(node, style)
    return group("(", nested(EMPTY, result), EMPTY, ")") if precedence < min_precedence else result


def _precedence(node: syntax.Expression) -> int:
    """The precedence of an expression's text: 0 for λ, let and if, `_ATOM` for names and calls."""
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


def _argument(node: syntax.Expression, style: _Style) -> Rule[Document]:
    """An argument between commas."""
    if isinstance(node, syntax.Operator):
        return _operator(node, style)
    return group((yield _expression(node, style)))


def _operator(node: syntax.Operator, style: _Style) -> Document:
    """The layout of a builtin as a function: its sign or name, with `operator(...)` if it has types."""
    row = TABLE[node.op]
    name = f"__{node.op}" if node.op in KEYWORDS else node.op
    if row.glyphs:
        sign = glyph(row, style.ascii)
        if (BY_GLYPH.get((sign, 2)) or BY_GLYPH.get((sign, 1))) is row:
            name = sign
    if node.types is None:
        return name
    return _list("operator(", [name, *(_type(t, style) for t in node.types)], ")")


def _infix(node: syntax.Call, row: Builtin, style: _Style) -> Rule[Document]:
    """A chain of infix operators of one precedence, `a + b - c`, with a possible line break before each."""
    precedence = row.precedence
    left_least = precedence + (precedence in (COMPARE, POWER))
    right_least = precedence + (precedence != POWER)
    spine: list[tuple[str, syntax.Expression]] = []
    left: syntax.Expression = node
    while isinstance(left, syntax.Call) and _precedence(left) == precedence and not TABLE[left.op].is_prefix:
        spine.append((glyph(TABLE[left.op], style.ascii), left.args[1]))
        left = left.args[0]
        if left_least > precedence:
            break
    first: Document = yield _expression(left, style, left_least)
    parts: list[Document] = [first]
    for sign, operand in reversed(spine):
        right: Document = yield _expression(operand, style, right_least)
        parts += [SPACE, together(f"{sign} ", right)]
    return group(parts[0], nested(*parts[1:]))


def _head(node: syntax.Lambda, style: _Style) -> Document:
    params: list[Document] = [_printed_param(p, style) for p in node.params]
    return _list(style.sign("λ(", "\\("), params, f") {style.sign('→', '->')}")


def _apply(node: syntax.Apply, style: _Style) -> Rule[Document]:
    """The layout of `f(x)`, with parentheses around a λ, and around a name that is reserved."""
    function: Document
    if isinstance(node.function, syntax.Lambda):
        body: Document = yield _expression(node.function.body, style)
        function = together("(", _head(node.function, style), group(nested(SPACE, body), EMPTY, ")"))
    else:
        function = yield _expression(node.function, style, _ATOM)
    if isinstance(node.function, syntax.Name) and node.function.name in RESERVED:
        function = together("(", function, ")")
    return together(function, _list("(", (yield from each(_argument(a, style) for a in node.args)), ")"))


def _printed_shift(node: syntax.Shift, style: _Style) -> Rule[Document]:
    """The layout of `⟪I, 1⟫(x)`, in ASCII `shift(I, 1)(x)`."""
    items: list[Document] = []
    for offset in node.offsets:
        distance = "" if offset.distance is None else f", {spell_affine(offset.distance, style.ascii)}"
        items.append(style.name(offset.name) + distance)
    head = _list(style.sign("⟪", "shift("), items, style.sign("⟫", ")"))
    operand: Document = yield _argument(node.operand, style)
    return together(head, _list("(", [operand], ")"))


def _let(node: syntax.Let, style: _Style) -> Rule[Document]:
    """The layout of a chain of bindings and the expression after it."""
    parts: list[Document] = []
    rest: syntax.Expression = node
    while isinstance(rest, syntax.Let):
        binding: Document = yield _binding(rest.name, rest.value, style)
        parts += [binding, SPACE]
        rest = rest.body
    body: Document = yield _expression(rest, style)
    return group(*parts, body)


def _binding(name: str, bound: syntax.Expression, style: _Style) -> Rule[Document]:
    """The layout of `let name = value;`."""
    value: Document
    if isinstance(bound, syntax.Operator):
        value = _operator(bound, style)
    else:
        value = yield _expression(bound, style, 1 if isinstance(bound, syntax.Let) else 0)
    return group(f"let {style.name(name)} =", nested(SPACE, value), ";")


def _conditional(node: syntax.Call, style: _Style) -> Rule[Document]:
    """The layout of `if c then a else if d then b else e`, the chain in one group."""
    parts: list[Document] = []
    rest: syntax.Expression = node
    while isinstance(rest, syntax.Call) and rest.op == "if" and len(rest.args) == 3:
        condition: Document = yield _expression(rest.args[0], style, 1)
        if _starts_with_tuple(rest.args[0]):  # `if (a, b` would be read as a call
            condition = group("(", nested(EMPTY, condition), EMPTY, ")")
        then_value: Document = yield _expression(rest.args[1], style, 1)
        parts += [together("if ", condition), nested(SPACE, together("then ", then_value)), SPACE, "else "]
        rest = rest.args[2]
    else_value: Document = yield _expression(rest, style)
    return group(*parts, else_value)


def _starts_with_tuple(node: syntax.Expression) -> bool:
    """True if the text of an expression begins with a tuple's parenthesis, which after `if` would read as a call."""
    while isinstance(node, syntax.Call) and node.op != "make_tuple" and node.args:
        if node.op != "tuple_get" and not (TABLE[node.op].is_infix and len(node.args) > 1):
            return False
        node = node.args[0]
    return isinstance(node, syntax.Call) and node.op == "make_tuple"


def _printed_call(node: syntax.Call, style: _Style) -> Rule[Document]:
    """The layout of a call by the form of its builtin; optional static parameters with their default are left out."""
    builtin = TABLE[node.op]
    args, static = list(node.args), list(node.static)
    # the operands of xs are what the slots with one operand leave
    groups: list[Document] = [node.op]
    for slot_group in builtin.form:
        items: list[Document] = []
        for slot in slot_group:
            if slot in SLOTS:
                value = static.pop(0)
                if not slot.endswith("?") or value != SLOTS[slot].default:
                    items.append(SLOTS[slot].spell(value, style.ascii))
                continue
            count = len(args) if slot == "xs" or (slot_group == builtin.form[-1] and set(slot_group) == {"x"}) else 1
            for _ in range(min(count, len(args))):
                items.append((yield _argument(args.pop(0), style)))
        groups.append(_list("(", items, ")"))
    return together(*groups)
