"""Pages of types, programs, fields and diagnostics: foldable trees, listings, one style for light and dark.

`Markup` is HTML that is safe to put on a page; everything else is escaped on its way there. Nothing is loaded from
elsewhere and nothing runs: folding is HTML's own `<details>`. In the text of a program what each name and each piece is
appears on hover, and dims have their colour; in its tree every node has its type, and what is shared is shown once.

>>> markup("<b>{}</b>{}", "<script>", Markup("<i>kept</i>"))
'<b>&lt;script&gt;</b><i>kept</i>'
>>> "<summary>f</summary>" in page(Fold(markup("f"), (Fold(markup("x")),)))
True
>>> import tensorir as ti
>>> f = ti.parse("f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:5]>) { out ← ⟪I, 1⟫(x) - x; }")
>>> '<span title="tensor&lt;float, I[-1:4]&gt;">⟪' in listing(f)
True
>>> "⟪I, 1⟫" in f._repr_html_()
True
"""

from __future__ import annotations

import html
import linecache
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tensorir.binding.arrays import Array, is_array
from tensorir.binding.programs import BoundProgram
from tensorir.inspect.picture import hue, themed
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Closure, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, use_counts
from tensorir.ir.types import FunctionType, TensorType, Type
from tensorir.runtime.errors import NOWHERE, Source
from tensorir.runtime.locations import OURS
from tensorir.text import parse
from tensorir.text.lexer import tokenize

if TYPE_CHECKING:
    from tensorir.analysis.cost import Worth
    from tensorir.inspect.intermediates import Inspection
    from tensorir.passes.decisions import Plan
    from tensorir.passes.explain import Explanation
    from tensorir.passes.pipeline import Pipeline
    from tensorir.runtime.errors import Diagnostic, DiagnosticError

MAX_DEPTH = 32
"""Levels of a tree that are shown."""
MAX_NODES = 400
"""Nodes of a tree that are shown."""
MAX_TEXT = 400
"""Characters of a name, a unit or a label that are shown."""


class Markup(str):
    """HTML that was made here, of text that was escaped."""

    __slots__ = ()


def markup(template: str, *parts: object) -> Markup:
    """A template of HTML with `parts` in its places; parts that are no `Markup` are escaped."""
    return Markup(template.format(*map(_escape, parts)))


def _escape(part: object) -> str:
    """A part as HTML: escaped, shortened to `MAX_TEXT` characters, without unprintable characters."""
    if isinstance(part, Markup):
        return part
    text = str(part)
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}… ({len(text):,} characters)"
    # a character that no page can hold is shown as its replacement
    return html.escape("".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text))


def joined(parts: Iterable[Markup], between: str = "") -> Markup:
    """Pieces one after the other; `between` is HTML."""
    return Markup(between.join(parts))


def pre(text: str) -> Markup:
    """A text as it is, however long."""
    return Markup(f"<pre>{html.escape(text)}</pre>")


@dataclass(frozen=True, slots=True)
class Fold:
    """One node of a foldable tree: a line, and what unfolds under it."""

    head: Markup
    children: tuple[Fold, ...] = ()
    open: bool = True


def page(*roots: Fold | Markup) -> str:
    """Foldable trees and other pieces in one HTML element with its style; nodes beyond the limits are not shown."""
    return f'<div class="tensorir"><style>{STYLE}</style>{"".join(map(_render, roots))}</div>'


def _render(root: Fold | Markup) -> str:
    """The HTML of a tree as nested `<details>`, at most `MAX_NODES` nodes and `MAX_DEPTH` levels; iterative."""
    if isinstance(root, Markup):
        return root
    parts: list[str] = []
    shown = 0
    stack: list[tuple[Fold, int] | str] = [(root, 0)]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        node, depth = item
        if shown >= MAX_NODES:
            stack = [s for s in stack if isinstance(s, str)]
            parts.append('<div class="more">… more is not shown</div>')
            continue
        shown += 1
        if not node.children:
            parts.append(f'<div class="leaf">{node.head}</div>')
        elif depth >= MAX_DEPTH:
            parts.append(f'<div class="leaf">{node.head} <span class="more">… more below is not shown</span></div>')
        else:
            parts.append(f"<details{' open' if node.open else ''}><summary>{node.head}</summary>")
            stack.append("</details>")
            stack.extend((child, depth + 1) for child in reversed(node.children))
    return "".join(parts)


def range_of(values: Array) -> Markup:
    """The smallest and largest finite number of an array, and how many are not finite; empty for other element
    types.
    """
    if not values.size or values.dtype.kind not in "iuf":
        return Markup("")
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    if not finite.size:
        return markup(' <span class="where">{}</span>', "no finite number")
    missing = values.size - finite.size
    lost = f", {missing:,} not finite" if missing else ""
    return markup(' <span class="where">{:} to {:}{}</span>', f"{finite.min():.6g}", f"{finite.max():.6g}", lost)


def coloured(shown_type: Dims | Interval | Type) -> Markup:
    """The HTML of a type, dims or interval, with each dim in its colour."""
    match shown_type:
        case Interval():
            return markup('<code class="interval">{}</code>', shown_type)
        case Dims():
            dims = [markup('<span class="dim" style="--hue:{}">{}{}</span>', hue(n), n, i) for n, i in shown_type.items]
            return joined(dims, " ") if dims else markup('<span class="none">{}</span>', "no dims")
        case TensorType():
            element = str(TensorType(shown_type.element)).removeprefix("tensor<").removesuffix(">")
            inner = markup(" {}", coloured(shown_type.dims)) if shown_type.dims.items else Markup("")
            return markup('<code class="type"><span class="element">{}</span>{}</code>', element, inner)
        case FunctionType():
            results = joined((coloured(r) for r in shown_type.results), ", ")
            shown = results if len(shown_type.results) == 1 else markup("{{{}}}", results)
            return markup("({}) → {}", joined((coloured(p) for p in shown_type.params), ", "), shown)


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> Markup:
    """A table; cells that are no Markup are escaped."""
    titles = joined(markup("<th>{}</th>", h) for h in head)
    body = joined(markup("<tr>{}</tr>", joined(markup("<td>{}</td>", c) for c in row)) for row in rows)
    return markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>", titles, body)


LIGHT = "--ink:#222;--pale:#777;--line:#ccc;--light:34%;--error:#b00020;--old:#fbe3e3;--new:#ddf3e1;--mark:#e3eafc"
DARK = "--ink:#ddd;--pale:#999;--line:#555;--light:74%;--error:#ff8a80;--old:#5a2a2a;--new:#22482c;--mark:#2f3f63"
STYLE = f"""
.tensorir{{{LIGHT};color:var(--ink);font-size:13px;line-height:1.5}}
{themed({".tensorir": LIGHT}, {".tensorir": DARK})}
.tensorir details>details,.tensorir details>.leaf,.tensorir details>.more{{margin-left:1.2em}}
.tensorir .leaf{{padding-left:1em}}
.tensorir summary{{cursor:pointer}}
.tensorir code,.tensorir pre{{font-family:monospace;background:none;color:inherit;margin:0}}
.tensorir .dim{{color:hsl(var(--hue) 75% var(--light));font-weight:600}}
.tensorir .element,.tensorir .none,.tensorir .more,.tensorir .where{{color:var(--pale)}}
.tensorir .name{{font-weight:700}}
.tensorir .op{{font-family:monospace}}
.tensorir .type{{margin-left:.7em}}
.tensorir .error{{color:var(--error);font-weight:700}}
.tensorir .old{{background:var(--old)}}
.tensorir .new{{background:var(--new)}}
.tensorir pre{{white-space:pre-wrap}}
.tensorir .text [title]:hover:not(:has([title]:hover)){{background:var(--mark)}}
.tensorir table{{border-collapse:collapse;margin:.4em 0;font-size:inherit;color:inherit}}
.tensorir th,.tensorir td{{text-align:left;padding:.1em .8em .1em 0;border-bottom:1px solid var(--line)}}
.tensorir svg{{max-width:100%;height:auto}}
"""

MAX_CHARACTERS = 20_000
"""Of a program's text on a page."""
MAX_MARKS = 4 * MAX_NODES
"""Pieces of a text that say on hover what they are."""


class _Mark(NamedTuple):
    """A piece of the text, and the tag that it is put into."""

    start: int
    stop: int
    tag: Markup


def listing(fencil: Fencil) -> Markup:
    """The text of a program as HTML: hovering over a name or expression shows its type.

    The text is parsed again, so that the spans of nodes are places in it; a long text is shown plainly.
    """
    text = str(fencil)
    if len(text) > MAX_CHARACTERS:
        return plain_listing(text)
    # the text parses back to the same program, whose spans are places of this text
    reparsed: Fencil = parse(text)
    marks = {(m.start, m.stop): m for m in (*_mark_expressions(reparsed), *_mark_names(reparsed, text))}
    ordered = sorted(marks.values(), key=lambda m: (m.start, -m.stop))
    return Markup(f'<pre class="text">{"".join(_nest(text, ordered[:MAX_MARKS]))}</pre>')


def plain_listing(text: str) -> Markup:
    """A text without its types, of which what is beyond the limit is counted."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}\n… {len(text) - MAX_CHARACTERS:,} more characters are not shown"
    return pre(text)


def _mark_expressions(fencil: Fencil) -> Iterator[_Mark]:
    """Marks for the texts of calls and functions with their types; of several nodes with one text the last one
    counts.
    """
    for node in postorder(*(c.value for c in fencil.closures)):
        # a variable's span is where it was declared
        if not isinstance(node, (Var, Literal)) and node.span.source is fencil.span.source:
            yield _Mark(node.span.start, node.span.stop, markup('<span title="{}">', node.type))


def _mark_names(fencil: Fencil, text: str) -> Iterator[_Mark]:
    """Marks for names in a text: dims in their colours, variables with their types, bold where they get a value.

    A name bound several times has the type of the latest binding before it.
    """
    nodes = [*fencil.params, *postorder(*(c.value for c in fencil.closures))]
    # closures may give one name to several things: it is what was declared last
    types_of: dict[str, dict[int, Any]] = defaultdict(dict)
    for node in nodes:
        if isinstance(node, Var) or node.label:
            types_of[node.name if isinstance(node, Var) else node.label][node.span.start] = node.type
    dims = {name for node in nodes if isinstance(node.type, TensorType) for name in node.type.dims.names}
    targets = {c.span.start: c.target for c in fencil.closures}
    tokens = tokenize(Source("", text)).tokens
    for (before, token), (_, after) in pairwise(pairwise(tokens)):
        name = token.text.strip("`")
        if token.kind not in ("name", "quoted"):
            continue
        if name in dims and (before.text in ("⟪", ",") or after.text == "["):
            yield _Mark(token.start, token.stop, markup('<span class="dim" style="--hue:{}">', hue(name)))
        elif token.start in targets:
            yield _Mark(token.start, token.stop, markup('<span class="name" title="{}">', targets[token.start]))
        elif places := types_of.get(name):
            # the value of a let stands after its name
            is_binding = before.text == "let"
            candidates = [place for place in places if (place > token.start) == is_binding]
            css_class = Markup(' class="name"' if is_binding or after.text == ":" else "")
            if candidates:
                kind = places[min(candidates) if is_binding else max(candidates)]
                yield _Mark(token.start, token.stop, markup('<span{} title="{}">', css_class, kind))


def _nest(text: str, marks: list[_Mark]) -> Iterator[str]:
    """The text with nested tags; a mark that overlaps another one without being inside of it is left out."""
    position, open_ends = 0, list[int]()
    for mark in marks:
        while open_ends and open_ends[-1] <= mark.start:
            yield html.escape(text[position : open_ends[-1]]) + "</span>"
            position = open_ends.pop()
        if open_ends and mark.stop > open_ends[-1]:
            continue
        yield html.escape(text[position : mark.start]) + mark.tag
        position = mark.start
        open_ends.append(mark.stop)
    for stop in reversed(open_ends):
        yield html.escape(text[position:stop]) + "</span>"
        position = stop
    yield html.escape(text[position:])


def fencil_tree(fencil: Fencil) -> Fold:
    """The foldable tree of a program: parameters with types and roles, and closures with their expressions."""
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
    """The foldable list of constants and sizes bound to a program."""
    fixed = [
        *(
            markup('<span class="name">{}</span> {} {}', n, a.dtype, " × ".join(map(str, a.shape)) or "number")
            for n, (a, *_) in bound.constants.items()
        ),
        *(markup('<span class="name">{}</span> waits for sizes', n) for n in bound.pending),
        *(markup('<span class="name">{}</span> = {}', n, s) for n, s in bound.sizes.items()),
    ]
    return Fold(markup("{} bound", len(fixed)), tuple(map(Fold, fixed)))


def closure_tree(closure: Closure) -> Fold:
    """The tree of closures: outputs, domains and values."""
    return _closure(closure, use_counts(closure.value), {})


def _closure(closure: Closure, uses: dict[int, int], seen: dict[int, str]) -> Fold:
    head = markup('<span class="name">{}</span>{} ←', closure.output.name, coloured(closure.target))
    return Fold(head, (_expression(closure.value, uses, seen),))


def expression_tree(root: Expr) -> Fold:
    """An expression: each node with its operands below it."""
    return _expression(root, use_counts(root), {})


def _expression(root: Expr, uses: dict[int, int], seen: dict[int, str]) -> Fold:
    """The foldable tree of an expression, depth first; a shared node is unfolded at its first occurrence only.

    `uses` counts the readers of nodes; `seen` has names of shared nodes already shown, and is extended. An occurrence
    is a node with its number, since shared nodes occur several times.
    """
    folds: dict[tuple[int, int], Fold] = {}
    children: dict[tuple[int, int], list[tuple[int, int]]] = {}
    # a place is a node and how many were met before it: what is shared stands in several places
    order: list[tuple[tuple[int, int], Expr, bool]] = []
    stack: list[tuple[Expr, int, list[tuple[int, int]]]] = [(root, 0, [])]
    while stack and len(order) <= 2 * MAX_NODES:
        node, depth, siblings = stack.pop()
        occurrence = (id(node), len(order))
        siblings.append(occurrence)
        again = id(node) in seen and bool(node.children)
        order.append((occurrence, node, again))
        operands = children[occurrence] = []
        if again or depth > MAX_DEPTH or len(order) > MAX_NODES:
            continue
        if node.children and uses.get(id(node), 0) > 1:
            seen[id(node)] = node.label or f"#{len(seen) + 1}"
        stack.extend((child, depth + 1, operands) for child in reversed(node.children))
    for occurrence, node, again in reversed(order):
        below = tuple(folds[c] for c in children[occurrence])
        if node.children and not below and not again:
            below = (Fold(markup('<span class="more">{}</span>', "… more is not shown")),)
        folds[occurrence] = Fold(_render_head(node, seen.get(id(node), ""), again), below, open=len(order) <= 60)
    return folds[order[0][0]]


def _render_head(node: Expr, name: str, is_repeated: bool) -> Markup:
    """The line of a node: name, operation, type and line of its text; for repeated nodes "as above"."""
    named = node.label or name
    label = markup('<span class="name">{}</span> = ', named) if named else Markup("")
    if is_repeated:
        return markup('<span class="name">{}</span>{} <span class="where">as above</span>', named, coloured(node.type))
    shown = joined([label, markup('<span class="op">{}</span>{}', spelled(node), coloured(node.type))])
    if node.span is NOWHERE or isinstance(node, (Var, Literal)):  # a variable's span is where it was declared
        return shown
    return joined([shown, markup(' <span class="where">line {}</span>', node.span.line)])


def spelled(node: Expr) -> str:
    """A node's operation with dots for its operands.

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


def diagnostic_page(diagnostic: Diagnostic) -> str:
    """One diagnostic."""
    return diagnostics_page([diagnostic])


def error_page(error: DiagnosticError) -> str:
    """All diagnostics of an error."""
    return diagnostics_page(error.diagnostics)


def diagnostics_page(diagnostics: Iterable[Diagnostic]) -> str:
    """Every diagnostic: its sentence, the line with its mark, notes and help."""
    return page(*map(_render_diagnostic, diagnostics))


def _render_diagnostic(d: Diagnostic) -> Fold:
    """A diagnostic as a foldable: its sentence, and under it the excerpt, notes and help."""
    first, *details = str(d).split("\n")
    sentence = first.rpartition(f"{d.severity}[{d.code}]: ")[2] if d.severity in first else first
    where = "" if not (place := first.partition(f"{d.severity}[")[0]) else f" {place.rstrip(': ')}"
    head = markup(
        '<span class="error">{} {}</span> {} <span class="where">{}</span>', d.severity, d.code, sentence, where
    )
    return Fold(head, (Fold(pre("\n".join(details))),) if details else ())


def traceback_of(error: DiagnosticError, trace: TracebackType | None) -> list[str]:
    """The traceback for a notebook: at most three lines of the user's code, and the diagnostics."""
    lines: list[str] = []
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        text = linecache.getline(name, trace.tb_lineno, trace.tb_frame.f_globals).strip()
        if text and "site-packages" not in name and not name.startswith(OURS):
            lines.append(f"  line {trace.tb_lineno}: {text}")
        trace = trace.tb_next
    return [*(["called in", *lines[-3:], ""] if lines else []), *str(error).split("\n")]


def explanation_page(explanation: Explanation) -> str:
    """The page of an `explain`: a table of needed points, the picture of domains, and the text."""
    from tensorir.inspect.needed_points import domains_of

    rows = [(markup("<code>{}</code>", n), str(p), f"{len(p):,}") for n, p in explanation.needs.items()]
    picture = Markup(domains_of(explanation.domains).svg) if explanation.needs else Markup("")
    return page(table(("of", "needed", "points"), rows), picture, pre(str(explanation)))


def inspection_page(inspection: Inspection) -> str:
    """The page of an inspection: a foldable per intermediate with its type, line, range and numbers."""
    folds: list[Fold] = []
    for intermediate in inspection.intermediates:
        head = markup('<span class="name">{}</span>{} ', intermediate.name, coloured(intermediate.type))
        details: list[Fold] = [Fold(markup("<code>{}</code>", intermediate.text))]
        for member in intermediate.members:
            array = inspection.arrays[member]
            unit = array.attrs.get("units", "")
            member_line = joined([markup("<code>{}</code> ", member), range_of(array.values), markup(" {}", unit)])
            numbers = pre(np.array2string(array.values, threshold=60, edgeitems=3))
            details.append(Fold(member_line, (Fold(numbers),), open=False))
        where = markup('<span class="where">line {}</span>', intermediate.line) if intermediate.line else Markup("")
        folds.append(Fold(joined([head, where]), tuple(details), open=False))
    return page(Fold(markup("{} intermediates", len(folds)), tuple(folds)))


def worth_page(*figures: Worth) -> str:
    """The page of buffers: a table with the figures of each."""
    rows = [
        (markup("<code>{}</code>", w.name), w.uses, f"{w.work:g}", f"{w.saved:,}", f"{w.added:,}", f"{w.per_byte:.2f}")
        for w in figures
    ]
    head = ("buffer", "places", "operations per point", "operations saved", "bytes added", "saved per byte")
    return page(table(head, rows))


def plan_page(plan: Plan) -> str:
    """The page of a compilation plan: its head, the table of decisions, and the notes on them."""
    from tensorir.passes.decisions import HEAD

    head, *more = plan.head()
    folds = [Fold(markup("{}", line)) for line in plan.notes()]
    return page(
        Fold(markup('<span class="name">{}</span>', head), tuple(Fold(markup("{}", line)) for line in more)),
        table(HEAD, [(markup("<code>{}</code>", name), *rest) for name, *rest in plan.rows()]),
        Fold(markup("{}", "why, and what switches it off"), tuple(folds), open=False),
    )


def pipeline_page(pipeline: Pipeline) -> str:
    """The page of a pipeline: a table of its passes with options."""
    rows = [
        (markup("<code>{}</code>", one.name()), repr(one), (type(one).__doc__ or "").strip().partition("\n")[0])
        for one in pipeline.passes
    ]
    return page(joined([table(("pass", "options", "what it does"), rows)]))


def page_of(shown: Any) -> str:
    """The page of an object of the IR: type, dims, closure, program or expression."""
    match shown:
        case Interval() | Dims() | TensorType() | FunctionType():
            return page(coloured(shown))
        case Closure():
            return page(closure_tree(shown))
        case BoundProgram():
            text, *tree = _program(shown.program)
            return page(text, bound_values(shown), *tree)
        case _ if isinstance(shown, Fencil) or hasattr(shown, "specialise"):
            return page(*_program(shown))
        case _:
            return page(expression_tree(shown))


def _program(program: Any) -> tuple[Markup | Fold, ...]:
    """The pieces of a program's page: its text, and its tree if its types are known (no `Template`)."""
    if isinstance(program, Fencil):
        return listing(program), fencil_tree(program)
    sizes = markup('<div class="where">for sizes <code>{}</code></div>', ", ".join(program.sizes))
    return (joined([plain_listing(str(program)), sizes]),)


def field_page(field: Any) -> str:
    """The page of a field: type, range and abbreviated numbers, if its data can be read."""
    from tensorir.ir.types import scalar_of

    data = field.data
    dtype = getattr(data, "dtype", None)
    element = None if dtype is None else scalar_of(dtype)
    if element is None:
        return page(markup("Field {} {}", type(data).__name__, coloured(field.dims)))
    head = markup('<span class="name">Field</span>{}', coloured(TensorType(element, field.dims)))
    values = _read_numbers(data)
    if values is None:
        return page(joined([head, markup(' <span class="where">{}</span>', "its numbers are not to be had here")]))
    return page(joined([head, range_of(values), pre(np.array2string(values, threshold=60, edgeitems=3))]))


def _read_numbers(data: Any) -> Array | None:
    """The numbers of an array; None if it is traced or its memory was donated."""
    if not is_array(data) and not hasattr(data, "is_deleted"):
        return None
    try:
        return np.asarray(data)
    except Exception:  # a traced or deleted array raises errors of the library that it is of
        return None


def operator_page(operator: Any) -> str:
    """The page of an operator: its signature, and the programs of its latest four specialisations."""
    head = markup('<span class="name">{}</span><code>{}</code>', operator.name, operator.signature)
    latest = [plan.fencil for plan in dict.fromkeys(operator.plans.values()[-4:])][::-1]
    if not latest:
        return page(head)
    earlier = [Fold(markup("{}", repr(f)), (Fold(listing(f)), fencil_tree(f)), open=False) for f in latest[1:]]
    return page(head, *_program(latest[0]), *earlier)
