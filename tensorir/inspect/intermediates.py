"""Every named or let-bound intermediate of a program, computed in one run and handed out as DataArrays.

The program is rewritten so that each intermediate is an output of its own, computed once, and run as any other. Scans
show their states per level. What may be absent is NaN, or, where the element has no NaN, comes with a mask.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tensorir.analysis.absence import analyse_absence
from tensorir.binding.calls import at_sizes
from tensorir.binding.labels import Place, brought
from tensorir.binding.programs import BoundProgram
from tensorir.binding.quantities import units_of
from tensorir.binding.results import Labels
from tensorir.integers.dims import size_of
from tensorir.ir import build
from tensorir.ir.nodes import Call, Closure, Expr, Fencil, Lambda, Var
from tensorir.ir.rewrite import postorder, rebuild
from tensorir.ir.types import BOOL, Scalar, TensorType, TupleElement
from tensorir.passes.closures import Inline
from tensorir.runtime.errors import NOWHERE, Displayed, Span, did_you_mean, refuse
from tensorir.runtime.memory import WeakCache


@dataclass(frozen=True, slots=True)
class Intermediate:
    """One intermediate: its name, its type, where it stands, and what it is."""

    name: str
    type: TensorType
    span: Span
    text: str
    members: tuple[str, ...]
    """The outputs that hold its leaves; those of absence end in `present`."""
    label: str = ""
    """What the program calls it; several of one label have names with numbers."""
    place: Span = NOWHERE
    """Where it was assigned, if elsewhere: to a variable of the operator that called the one that computed it."""

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of a node of the tree."""
        return {"type": str(self.type), "line": self.line, "expression": self.text}

    @property
    def line(self) -> int:
        place = self.span if self.place is NOWHERE else self.place
        return 0 if place is NOWHERE else place.line


@dataclass(frozen=True, slots=True)
class Inspection(Mapping[str, Any], Displayed):
    """The intermediates of one run by name, each a DataArray on its own interval."""

    _drawn_by: ClassVar[str] = "tensorir.inspect.pages:inspection_page"

    intermediates: tuple[Intermediate, ...]
    arrays: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        if name not in self.arrays:
            raise refuse("I01", f"nothing here is named '{name}'.", did_you_mean(name, self.arrays))
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def at(self, line: int) -> dict[str, Any]:
        """The intermediates of a line of the source."""
        return {m: self.arrays[m] for i in self.intermediates if i.line == line for m in i.members}

    def find(self, text: str) -> dict[str, Any]:
        """The intermediates whose expression, in the notation or the source, contains a text; blanks are ignored."""
        query = "".join(text.split())
        return {
            m: self.arrays[m]
            for i in self.intermediates
            if any(query in "".join(t.split()) for t in (i.text, i.span.text, i.place.text))
            for m in i.members
        }

    def placed(self, places: Mapping[tuple[str, Span], Span]) -> Inspection:
        """A copy with places of assignment: `places` maps (label, span of computation) to the span of the
        assignment.
        """
        intermediates = [
            dataclasses.replace(i, place=places.get((i.label, i.span), NOWHERE)) for i in self.intermediates
        ]
        return Inspection(tuple(intermediates), self.arrays)

    def with_units(self, **units: str) -> Inspection:
        """A copy with units for some intermediates; raises I01 for an unknown name."""
        attrs = {name: {**self[name].attrs, "units": unit} for name, unit in units.items()}
        arrays = {n: a.assign_attrs(attrs[n]) if n in attrs else a for n, a in self.arrays.items()}
        return Inspection(self.intermediates, arrays)

    def tree(self) -> Any:
        """A `DataTree` with one node per intermediate, since intervals differ."""
        import xarray as xr

        nodes = {
            f"/{i.name}": xr.Dataset({m: self.arrays[m] for m in i.members}, attrs=i.attrs) for i in self.intermediates
        }
        tree: Any = xr.DataTree
        return tree.from_dict(nodes)

    def __repr__(self) -> str:
        return "\n".join(f"{i.name}: {i.type}" for i in self.intermediates) or "no named intermediates"


OBSERVED: WeakCache[tuple[Fencil, tuple[Intermediate, ...]]] = WeakCache("programs that show intermediates")
"""The rewritten program of each that was looked into, and its intermediates."""


def inspect(
    program: Any, arguments: Mapping[str, Any], run: Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]
) -> Inspection:
    """The named intermediates of a program on arguments, as DataArrays.

    `run(program, arguments)` computes the results by name. Coordinates come from DataArrays among the arguments, and
    are integers otherwise; units are propagated from the arguments.
    """
    bound = BoundProgram.of(program)
    offsets: Mapping[str, int] = {}
    if not isinstance(bound.program, Fencil):
        sizes = {n: size_of(v, n) for n, v in arguments.items() if n in bound.size_names}
        arguments = {n: v for n, v in arguments.items() if n not in sizes}
        bound, offsets = at_sizes(bound, arguments, sizes)
    assert isinstance(bound.program, Fencil)
    fencil, intermediates = OBSERVED.of(bound.program, observed)
    labels = Labels.of(fencil, arguments, Place.of(fencil, arguments, offsets))
    attrs: Any = {n: getattr(value, "attrs", None) for n, value in arguments.items()}
    given_units = {n: a["units"] for n, a in attrs.items() if hasattr(a, "get") and isinstance(a.get("units"), str)}
    units = units_of(fencil, given_units)
    if offsets:
        arguments = {n: brought(v, offsets) for n, v in arguments.items()}
    results = run(BoundProgram(fencil, bound.constants, bound.holes, {}, {}), arguments)
    values: dict[str, Any] = {}
    for intermediate in intermediates:
        for member in intermediate.members:
            param = fencil[member]
            array: Any = labels.attach(param, getattr(results[member], "data", results[member]))
            dims = labels.place.outside(param.type.dims)
            default_coords = {n: (n, list(i)) for n, i in dims.items if n not in array.coords}
            array = array.assign_coords(default_coords).rename(member)
            array.attrs.clear()
            if member in units:
                array.attrs["units"] = units[member]
            values[member] = array
    return Inspection(intermediates, values)


def observed(fencil: Fencil) -> tuple[Fencil, tuple[Intermediate, ...]]:
    """The program with an output for every leaf of every intermediate, in order of computation, and the intermediates.

    Later expressions read these outputs, so that nothing is computed twice, except with neighbour tables: an absent
    value is stored as NaN or zero, and would be present when read again.
    """
    inlined_program = Inline(named=True).run(fencil)
    used_names = {p.name for p in inlined_program.params}
    tables = bool(analyse_absence(inlined_program, {}).accesses)
    params = list(inlined_program.params)
    closures: list[Closure] = []
    intermediates: list[Intermediate] = []
    shown: dict[int, tuple[Expr, Expr]] = {}
    """By identity, the intermediates of earlier closures that are unchanged, and what later closures read for each."""
    for closure in inlined_program.closures:
        named_nodes = {id(n) for n in _find_named(closure.value)}
        param_names = {p.name for f in postorder(closure.value) if isinstance(f, Lambda) for p in f.params}
        with_names: dict[int, Expr] = {}
        """Every node with the names of intermediates in their place."""
        for node in postorder(closure.value):
            new_node = rebuild(node, tuple(with_names[id(c)] for c in node.children))
            with_names[id(node)] = new_node
            if id(node) not in named_nodes:
                continue
            if id(node) in shown:
                known_value = shown[id(node)][1]
                if param_names.isdisjoint(v.name for v in known_value.free):
                    with_names[id(node)] = known_value
                continue
            assert isinstance(new_node, Call)
            new_node = dataclasses.replace(new_node, label="")
            name = build.free_name(node.label or "states", used_names)
            members: list[Var] = []
            for suffix, leaf in _leaves(node if tables else new_node):
                for ending, value in _mark_absent(leaf, tables):
                    member = f"{name}{suffix}{ending}" if suffix or ending else name
                    if member != name:
                        member = build.free_name(member, used_names)
                    variable = build.var(member, value.tensor)
                    params.append(variable)
                    closures.append(build.closure(variable, value))
                    members.append(variable)
            names = tuple(m.name for m in members)
            intermediates.append(Intermediate(name, node.tensor, node.span, str(new_node), names, node.label))
            shown[id(node)] = node, new_node
            if name in param_names:
                continue  # a function has a parameter of this name
            if isinstance(node.tensor.element, Scalar):
                with_names[id(node)] = build.var(name, node.tensor)
            elif not tables and all(isinstance(m, Scalar) for m in node.tensor.element.members):
                with_names[id(node)] = build.call("make_tuple", *members)
            shown[id(node)] = node, with_names[id(node)]
        shown = {key: pair for key, pair in shown.items() if closure.output not in pair[0].free}
        closures.append(closure if tables else dataclasses.replace(closure, value=with_names[id(closure.value)]))
    return build.fencil(inlined_program.name, params, closures, inlined_program.span), tuple(intermediates)


def _find_named(root: Expr) -> Iterator[Call]:
    """The labelled nodes and scans outside of functions' bodies, operands first."""
    body_nodes = {id(n) for f in postorder(root) if isinstance(f, Lambda) for n in postorder(*f.results)}
    for node in postorder(root):
        if id(node) in body_nodes or not isinstance(node, Call):
            continue
        if node.label or node.op == "scan":
            yield node


def _leaves(node: Expr) -> Iterator[tuple[str, Expr]]:
    """The scalar leaves of a node, each with a suffix for its name such as "_0_1"."""
    element = node.tensor.element
    if isinstance(element, Scalar):
        yield "", node
        return
    for index in range(len(element.members)):
        for suffix, leaf in _leaves(build.call("tuple_get", node, static=(index,))):
            yield f"_{index}{suffix}", leaf


def _mark_absent(leaf: Expr, tables: bool) -> list[tuple[str, Expr]]:
    """The outputs for a leaf, with suffixes: itself, or with `tables` NaN where it is absent, for integers 0 and a mask
    "_present".
    """
    element = leaf.tensor.element
    assert not isinstance(element, TupleElement)
    if not tables:
        return [("", leaf)]
    present = build.call("can_deref", leaf)
    filler = build.literal(math.nan if element.is_float else False if element == BOOL else 0, element)
    value = build.call("if", present, leaf, filler)
    return [("", value)] if element.is_float else [("", value), ("_present", present)]
