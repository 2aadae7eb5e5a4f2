"""The text of TIR and its pages: modules, functions, and any node in a message.

The text of TIR: `print_module`, `print_function`, and `show` for any node in a message.

>>> from tensorir.tir import parse
>>> module = parse('''
... @T.prim_func(s_tir=True)
... def main(A: T.Buffer((8,), "float32")):
...     for i in range(8):
...         A[i] = A[i] + 1.0
... ''')
>>> print(print_function(module.functions["main"]))
# from tvm.script import tirx as T
<BLANKLINE>
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        A[i] = A[i] + T.float32(1.0)
<BLANKLINE>

Functions and modules as pages: the printed text, folded at its suites, the kinds of loops in colour.

The page is made of the text's lines, so it shows what the printer writes and nothing else. Blocks of long functions
are folded; their line then says what they write and what they read.

>>> from tensorir.tir import parse
>>> module = parse('''
... @T.prim_func
... def main(A: T.Buffer((8,), "float32")):
...     for i in T.parallel(8):
...         A[i] = T.float32(0)
... ''')
>>> 'class="loop" style="--hue:25"' in page_of(module) and "<script" not in page_of(module)
True
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tensorir.inspect.pages import Fold, Markup, markup, page
from tensorir.nodes import folded
from tensorir.runtime.assembly import ExtensionPoint
from tensorir.tir import nodes as n
from tensorir.tir.nodes import Node
from tensorir.tir.printing.expressions import ExpressionPrinter, Names
from tensorir.tir.printing.statements import StatementPrinter, module_text, prim_func_text, print_graph_function

print_graph_node = ExtensionPoint("the text of any node of Relax", "tensorir.relax.printing", "show")

Dialect = Literal["new", "old"]


def print_module(module: n.IRModule, dialect: Dialect = "new") -> str:
    """The module as TVM 0.27 writes it, or ("old") as earlier versions read it."""
    return module_text(module, dialect == "old")


def print_function(function: n.Node, dialect: Dialect = "new") -> str:
    """One function alone."""
    if isinstance(function, n.PrimFunc):
        return prim_func_text(function, dialect == "old")
    return "\n".join([*print_graph_function("", function, dialect == "old"), ""])


def show(node: n.Node) -> str:
    """Any node as text, for messages and representations; names that nothing binds stand as they are."""
    match node:
        case n.IRModule():
            return print_module(node)
        case n.PrimFunc() | n.GraphFunction():
            return print_function(node)
        case n.GraphNode():
            return print_graph_node(node)
        case n.Stmt():
            writer = StatementPrinter(ExpressionPrinter(Names()), set())
            writer.suite(node)
            return "\n".join(writer.lines)
        case n.MatchBufferRegion(buffer, source):
            return f"{buffer.name} = T.match_buffer({show(source)})"
        case _:
            return ExpressionPrinter(Names()).attribute(node)


LONG = 40
"""Lines from which on blocks are folded."""

_HUES = {
    "serial": 210,
    "grid": 210,
    "range": 210,
    "parallel": 25,
    "vectorized": 140,
    "unroll": 60,
    "thread_binding": 285,
    "launch_thread": 285,
}
_LOOP = re.compile(r"(for .+? in )((?:T\.)?\w+)(\(.*)|()(while)( .*)|(with |\w+ = )(T\.launch_thread)(\(.*)", re.DOTALL)
_BLOCK = re.compile(r"with (?:T\.s?block|R\.dataflow)\(")
_STYLE = """<style>
.tensorir .tir{font-family:monospace;white-space:pre-wrap}
.tensorir .loop{color:hsl(var(--hue) 75% var(--light));font-weight:600}
.tensorir .comment{color:var(--pale)}
</style>"""


def page_of(node: Node) -> str:
    """A function or a module as a piece of HTML; everything in it is escaped, and nothing is loaded from elsewhere."""
    lines = show(node).splitlines()
    long = sum(bool(line.strip()) for line in lines) >= LONG
    return page(Markup(_STYLE), *(_fold(line, long) for line in _tree(lines)))


@dataclass(slots=True)
class _Line:
    """A line of text, and the deeper ones that follow it."""

    text: str
    below: list[_Line] = field(default_factory=list["_Line"])


def _tree(lines: Sequence[str]) -> list[_Line]:
    roots: list[_Line] = []
    open_suites: list[tuple[int, list[_Line]]] = [(-1, roots)]
    for text in filter(str.strip, lines):
        depth = len(text) - len(text.lstrip())
        while open_suites[-1][0] >= depth:
            open_suites.pop()
        line = _Line(text.strip())
        open_suites[-1][1].append(line)
        open_suites.append((depth, line.below))
    return roots


def _fold(root: _Line, long: bool) -> Fold:
    """The tree of a line, without recursion: text may nest deeply."""

    def rule(line: _Line, below: Sequence[Fold]) -> Fold:
        closed = long and _BLOCK.match(line.text) is not None
        head = markup('<span class="tir">{}{}</span>', _coloured(line.text), _digest(line) if closed else Markup(""))
        return Fold(head, tuple(below), not closed)

    return folded([root], lambda line: line.below, rule)[id(root)]


def _coloured(text: str) -> Markup:
    if text.startswith("#"):
        return markup('<span class="comment">{}</span>', text)
    found = _LOOP.fullmatch(text)
    if found is None:
        return markup("{}", text)
    before, kind, after = (part for part in found.groups() if part is not None)
    hue = _HUES.get(kind.removeprefix("T."), 210)
    return markup('{}<span class="loop" style="--hue:{}">{}</span>{}', before, hue, kind, after)


def _digest(line: _Line) -> Markup:
    """The writes of a folded block, and its reads."""
    said = dict.fromkeys(("T.writes(", "T.reads("), "")
    for below in line.below:
        for word in said:
            if below.text.startswith(word):
                said[word] = below.text.removeprefix(word).removesuffix(")")
    writes, reads = said.values()
    return markup(' <span class="comment"># {} ← {}</span>', writes, reads) if writes or reads else Markup("")
