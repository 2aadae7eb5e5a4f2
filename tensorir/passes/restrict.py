"""A program for fewer points: outputs on what is asked, everything else on the hull of what that needs.

>>> import tensorir as ti
>>> f = ti.parse('''f(out: tensor<float, I[1:99]>, inp: tensor<float, I[0:100]>, tmp: tensor<float, I[0:100]>) {
...   tmp ← cos(inp); out ← ⟪I, 1⟫(tmp) + ⟪I, -1⟫(tmp); }''')
>>> print(restrict(f, out={"out": {"I": (4, 9)}}))
f(out: tensor<float, I[4:9]>, inp: tensor<float, I[3:10]>, tmp: tensor<float, I[3:10]>) {
  tmp ← cos(inp);
  out ← ⟪I, 1⟫(tmp) + ⟪I, -1⟫(tmp);
}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorir.analysis.access_functions import image
from tensorir.analysis.domains import Domains, domains
from tensorir.binding.programs import BoundProgram
from tensorir.integers.dims import Dims
from tensorir.integers.sets import IntegerSet
from tensorir.ir.build import call, closure, cut, literal, operator, placed
from tensorir.ir.build import fencil as make_fencil
from tensorir.ir.builtins import TABLE, Control
from tensorir.ir.nodes import Apply, Call, Closure, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild
from tensorir.ir.types import TensorType
from tensorir.passes.base import Pass, with_fencil


def restrict(program: Any, out: Mapping[Any, Any]) -> Any:
    """The program that computes only some points of its outputs: `out` maps dims (or outputs, then dims) to intervals.

    Outputs that are named get the requested intervals; if only dims are named, all outputs that have them do. Other
    outputs, inputs and bound constants shrink to the hull of the points that are needed, and disappear if there are
    none. An output whose old contents are read keeps those points as well.
    """
    bound = BoundProgram.of(program)
    results = bound.program.results if isinstance(bound.program, Fencil) else ()
    named_outputs = {str(k) for k in out} & {p.name for p in results}
    if named_outputs:
        empty_regions = {p.name: {d: (i.start, i.start) for d, i in p.type.dims.items} for p in results}
        out = {**{n: v for n, v in empty_regions.items() if n not in named_outputs and v}, **out}
    needed_domains, kept = _settled(program, out)
    result = with_fencil(program, lambda _: _Smaller(needed_domains, kept).fencil())
    if not isinstance(result, BoundProgram):
        return result
    return dataclasses.replace(result, constants={n: _cut(bound, n, c, kept[n]) for n, c in result.constants.items()})


def with_small_buffers(fencil: Fencil) -> Fencil:
    """The program with each buffer shrunk to the hull of the points that are read of it; other parameters are
    unchanged.
    """
    if not fencil.buffers:
        return fencil
    needed_domains, _ = _settled(fencil, {})
    kept_dims = {p.name: p.type.dims for p in fencil.params}
    for p in fencil.params:
        if p.name in fencil.buffers and needed_domains.written[p.name]:
            kept_dims[p.name] = _ordered(needed_domains.written[p.name].hull, p.type.dims)
    if all(kept_dims[p.name].items == p.type.dims.items for p in fencil.params):
        return fencil
    return _Smaller(needed_domains, kept_dims).fencil()


def on_needed_points(fencil: Fencil) -> Fencil:
    """The program with operands of elementwise operations cut to the hull of the points that are read; parameters are
    unchanged.
    """
    needed_domains, _ = _settled(fencil, {})
    return _Smaller(needed_domains, {p.name: p.type.dims for p in fencil.params}, cuts=True).fencil()


def _cut(bound: BoundProgram, name: str, arrays: Any, dims: Dims) -> Any:
    """The arrays of a constant (one per tuple member), cut to the given intervals."""
    assert isinstance(bound.program, Fencil)
    whole = bound.program[name].type.dims
    slices = tuple(slice(dims[n].start - i.start, dims[n].stop - i.start) for n, i in whole.items)
    return tuple(a[slices] for a in arrays)


def _settled(program: Any, out: Mapping[Any, Any]) -> tuple[Domains, dict[str, Dims]]:
    """The points that are needed, and the kept intervals of each parameter, as a fixed point.

    Each closure must store all points that are kept of its output, so the kept intervals enlarge the needed ones until
    they agree.
    """
    kept_dims: dict[str, Dims] = {}
    while True:
        needed_domains = domains(program, out, boxes=True, stays=kept_dims)
        earlier, kept_dims = kept_dims, _kept(needed_domains)
        if kept_dims == earlier:
            return needed_domains, kept_dims


def _kept(needed_domains: Domains) -> dict[str, Dims]:
    """The hull of the points read and written of every parameter; parameters without such points are left out."""
    kept_dims: dict[str, Dims] = {}
    for p in needed_domains.fencil.params:
        points = needed_domains.params[p.name]
        if p.name in needed_domains.written:
            points |= needed_domains.written[p.name]
        if points:
            kept_dims[p.name] = _ordered(points.hull, p.type.dims)
    return kept_dims


def _ordered(dims: Dims, like: Dims) -> Dims:
    return Dims(tuple((n, dims[n]) for n in like.names))


class _Smaller:
    """Rebuilds a program on the needed intervals, bottom-up from smaller operands.

    With `cuts`, operands of elementwise operations that are still larger than needed are cut.
    """

    def __init__(self, needed: Domains, kept: Mapping[str, Dims], cuts: bool = False) -> None:
        """`needed` are the points needed of every node, `kept` the new intervals of the parameters that stay."""
        self.needed, self.cuts = needed, cuts
        self.params = {
            p: dataclasses.replace(p, type=p.type.on(kept[p.name])) for p in needed.fencil.params if p.name in kept
        }
        self.done: dict[int, Expr] = {}
        self.variables: dict[Var, Var] = dict(self.params)

    def fencil(self) -> Fencil:
        """The restricted fencil; a result of which no closure stores a point any more is copied from its old
        contents.
        """
        closures: list[Closure] = []
        for old_closure, stored in zip(self.needed.fencil.closures, self.needed.stored, strict=True):
            new_closure = self.closure(old_closure, stored)
            if new_closure is not None:
                closures.append(new_closure)
        fencil = self.needed.fencil
        written = {c.output.name for c in closures}
        for p in fencil.results:
            if p in self.params and p.name not in written:
                # no closure stores these points: they are what was passed
                closures.append(closure(self.params[p], self.params[p]))
        params = tuple(self.params.values())
        return make_fencil(fencil.name, params, closures, fencil.span, fencil.buffers & {p.name for p in params})

    def closure(self, old_closure: Closure, stored: IntegerSet) -> Closure | None:
        """A closure on the intervals of its new output; None if none of the points it stores is needed."""
        if not stored:
            return None
        output = self.params[old_closure.output]
        region = old_closure.region
        if region is not None:
            region = Dims(tuple((n, i & output.type.dims[n]) for n, i in region.items))
        return dataclasses.replace(old_closure, output=output, value=self.expression(old_closure.value), region=region)

    def expression(self, root: Expr) -> Expr:
        """The restricted expression; nodes of which no point is needed are not built."""
        order = list(postorder(root))
        # parameters of loops, branches and blocks keep their types
        unchanged_functions = {
            id(f)
            for node in order
            if isinstance(node, Call) and TABLE[node.op].control in (Control.LOOP, Control.BRANCHES, Control.BLOCKS)
            for f in node.args
        }
        for node in order:  # functions are met after their bodies: their parameters first
            if isinstance(node, Lambda) and id(node) not in unchanged_functions:
                self.variables.update((p, self._param(p)) for p in node.params)
        for node in order:
            if id(node) not in self.done and self._is_needed(node):
                self.done[id(node)] = self._smaller(node)
        return self.done[id(root)]

    def _is_needed(self, node: Expr) -> bool:
        """True if some point of a node is needed; functions are if all their results were built."""
        match node:
            case Lambda(_, results):
                return all(id(r) in self.done for r in results)
            case Operator():
                return True
            case _:
                return bool(self.needed.of(node))

    def _param(self, p: Var) -> Var:
        """A function's parameter on the hull of the points that are needed of it; unchanged if there are none."""
        points = self.needed.by_variable(p) or self.needed.of(p)
        if not points:
            return p
        return dataclasses.replace(p, type=p.type.on(_ordered(points.hull, p.type.dims)))

    def _smaller(self, node: Expr) -> Expr:
        """A node on its restricted operands, by kind."""
        new_nodes = self.done
        match node:
            case Var():
                return self.variables.get(node, node)
            case Literal() | Operator():
                return node
            case Lambda(params):
                smaller = tuple(self.variables.get(p, p) for p in params)
                return dataclasses.replace(node, params=smaller, results=tuple(new_nodes[id(r)] for r in node.results))
            case Apply():
                return rebuild(node, tuple(new_nodes[id(c)] for c in node.children))
            case Call(op):
                return self._call(node, op)

    def _call(self, node: Call, op: str) -> Expr:
        """A call on its restricted operands, by cases.

        - `pos` is built anew on the needed interval,
        - builtins that move points (concat, shifts, add_dim) read the image of the needed points, and drop others,
        - folds keep all slots of the folded dim, and their function gets restricted types,
        - elementwise operations have their operands cut, if `cuts`,
        - all others are rebuilt as they are.
        """
        need, done = self.needed.of(node).hull, self.done
        match op:
            case "pos":
                dim = node.static.dim
                interval = need[dim]
                x = call("add_dim", literal(0), static=(dim, interval.start, interval.stop))
                return call("pos", x, static=(dim,), span=node.span)
            case _ if TABLE[op].relocates:
                needed_box, accesses = IntegerSet.box(need), node.accesses or ()
                read = [(a, image(m, node, a, needed_box, True)) for a, m in zip(node.args, accesses, strict=True) if m]
                if len(node.args) == 1 and not any(m.uncut for m in accesses if m):
                    return placed(node, [done[id(node.args[0])]], need)
                pieces = [cut(done[id(a)], points.hull) for a, points in read if points]
                if len(pieces) < len(node.args) and len(pieces) == 1:
                    return _spread(pieces[0], node, need)
                return placed(node, pieces, need)
            case _ if (fold := node.fold) is not None:
                function = fold.function
                operands = [self._column(a, fold.dim) if fold.row.skips else done[id(a)] for a in fold.operands]
                if isinstance(function, Operator):
                    state, *places = function.params
                    pieces = [_common(p.dims, a.tensor.dims) for p, a in zip(places, operands, strict=True)]
                    small = [
                        p.on(p.dims if d == p.dims else _within(p.dims, d)) for p, d in zip(places, pieces, strict=True)
                    ]
                    function = operator(function.op, state.on(_within(state.dims, need)), *small)
                else:
                    function = _fitting(done[id(function)], need, operands)
                return rebuild(node, (function, done[id(fold.init)], *operands))
            case _ if self.cuts and TABLE[op].elementwise:
                return rebuild(node, tuple(cut(done[id(a)], _common(need, a.tensor.dims)) for a in node.args))
            case _:
                # a function of scalars that nothing from outside reaches is as it was
                return rebuild(node, tuple(done.get(id(a), a) for a in node.args))

    def _column(self, arg: Expr, dim: str) -> Expr:
        """An operand of a fold over neighbours, cut to its original interval along the folded dim, so that no slot is
        missing.
        """
        new_operand = self.done[id(arg)]
        if not isinstance(arg.type, TensorType) or dim not in arg.type.dims:
            return new_operand
        return cut(new_operand, Dims(((dim, arg.type.dims[dim]),)))


def _fitting(function: Expr, needed_dims: Dims, args: Sequence[Expr]) -> Expr:
    """The function of a fold; parameters that its body does not read get the intervals of their arguments."""
    assert isinstance(function, Lambda)
    params = list(function.params)
    for k, dims in enumerate((needed_dims, *(a.tensor.dims for a in args))):
        if params[k] not in function.body.free:
            param_type = params[k].tensor
            params[k] = dataclasses.replace(params[k], type=param_type.on(_within(param_type.dims, dims)))
    return dataclasses.replace(function, params=tuple(params))


def _common(a: Dims, b: Dims) -> Dims:
    return Dims(tuple((n, i & b[n]) for n, i in a.items if n in b))


def _within(dims: Dims, part: Dims) -> Dims:
    return Dims(tuple((n, part.get(n) or i) for n, i in dims.items))


def _spread(value: Expr, node: Call, needed_dims: Dims) -> Expr:
    """The value broadcast along every dim of `node` that it does not have."""
    for dim in node.tensor.dims:
        if dim not in value.tensor.dims:
            value = call("add_dim", value, static=(dim, needed_dims[dim].start, needed_dims[dim].stop), span=node.span)
    return value


# Every expression on the points that are read of it, and no more: halo inference, as a pass.


@dataclass(frozen=True)
class NeededPoints(Pass):
    """Halo inference as a pass: operands are cut to the points that are read of their results.

    A backend that stores shared intermediates then stores one array, and not the parts that each reader takes. XLA's
    compilers for TPUs and GPUs do; on CPUs, where everything is fused into one loop, it changes nothing.

    >>> from tensorir.passes.base import show
    >>> show(NeededPoints(), "let y = x + ⟪I, 1⟫(x); subset(⟪I, 1⟫(y) - y, I[3:5])", x={"I": (0, 9)})
    let y = subset(x, I[3:6]) + subset(⟪I, 1⟫(x), I[3:6]);
    subset(⟪I, 1⟫(y), I[3:5]) - subset(y, I[3:5])
    """

    def run(self, fencil: Fencil) -> Fencil:
        return on_needed_points(fencil)

    def on(self, platform: str) -> Pass | None:
        return None if platform == "cpu" else self

    def reason(self) -> str:
        return "what several readers share is stored once"
