"""Programs without the names that they give: equal ones are one program, whatever its parameters and dims are called.

What is no such name stays as it is: operations, literals (infinities and NaN among them), rules for indices, texts that
are shown; what an error says is left out.

>>> from tensorir.text import parse
>>> f = parse("f(y: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { y ← x × 2.0; }")
>>> g = parse("g(b: tensor<float, K[0:3]>, a: tensor<float, K[0:3]>) { b ← a × 2.0; }")
>>> h = parse("h(b: tensor<float, K[0:3]>, a: tensor<float, K[0:3]>) { b ← a × inf; }")
>>> nameless(f) == nameless(g), nameless(f) == nameless(h)
(True, False)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from tensorir.ir.build import with_unique_names
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import TensorType
from tensorir.ir.typing_rules import MODES
from tensorir.lifting.rewrites.naming import SLOTS
from tensorir.runtime.errors import Source
from tensorir.text.lexer import KEYWORDS, RESERVED, tokenize

__all__ = ["nameless", "nameless_text"]


def nameless(f: Fencil) -> tuple[object, ...]:
    """A fencil as its inputs, its outputs, and its nodes, operands first; names are numbers in the order of these."""
    names = _Names()
    inputs = [names.declared(p) for p in f.inputs]
    outputs = [names.declared(p) for p in f.outputs]
    roots = with_unique_names(values(f.closures), {p.name for p in f.params})
    places: dict[int, int] = {}
    nodes: dict[tuple[object, ...], int] = {}
    for e in postorder(*roots):
        node = (names.own(e), *(places[id(c)] for c in e.children))
        places[id(e)] = nodes.setdefault(node, len(nodes))
    stores = [
        (names.variable(c.output), places[id(root)], c.region and SLOTS["intervals"][0](c.region, names.dims))
        for c, root in zip(f.closures, roots, strict=True)
    ]
    return tuple(inputs), tuple(outputs), tuple(nodes), tuple(stores)


@dataclass(frozen=True, slots=True)
class _Names:
    """The numbers of variables and of dims."""

    variables: dict[Var, int] = field(default_factory=dict[Var, int])
    dims: dict[str, str] = field(default_factory=dict[str, str])

    def variable(self, v: Var) -> int:
        return self.variables.setdefault(v, len(self.variables))

    def type(self, t: TensorType) -> tuple[object, ...]:
        return t.element, tuple((self._dim(n), i) for n, i in t.dims.items)

    def declared(self, v: Var) -> tuple[object, ...]:
        return self.variable(v), self.type(v.type)

    def own(self, e: Expr) -> tuple[object, ...]:
        """What distinguishes a node besides its operands."""
        match e:
            case Literal() | Apply():
                return e.own()
            case Var():
                return "var", self.variable(e)
            case Lambda(params):
                return "lambda", *(self.declared(p) for p in params)
            case Operator(op, types):
                return "operator", op, *(self.type(t) for t in types)
            case Call("assert_"):
                return ("assert_",)  # what an error says, such as a line of the source, is no result
            case Call(op, _, static):
                return op, *self._static(TABLE[op].static_slots, static)
            case _:
                assert_never(e)

    def _static(self, slots: Sequence[str], static: Sequence[Any]) -> list[object]:
        found: list[object] = list(static)
        for k, (slot, value) in enumerate(zip(slots, static, strict=True)):
            if slot in SLOTS and value is not None:
                under, mentioned = SLOTS[slot]
                for n in mentioned(value):
                    self._dim(n)
                found[k] = under(value, self.dims)
        return found

    def _dim(self, name: str) -> str:
        return self.dims.setdefault(name, f"{len(self.dims)}")


_MEANT = KEYWORDS | RESERVED | {*MODES, "tensor", "over", "none", "None", "offsets"}
"""Words of the notation that no name replaces."""


def nameless_text(text: str) -> tuple[str, ...]:
    """The words and signs of a program as it is written, names as numbers; one without types yet has no nodes."""
    names: dict[str, str] = {}
    return tuple(
        names.setdefault(t.text, f"`{len(names)}`") if t.kind == "name" and t.text not in _MEANT else t.text
        for t in tokenize(Source("program", text)).tokens
    )
