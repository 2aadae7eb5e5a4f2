"""What is computed point by point of a scan's states is computed by its step, where fewer arrays result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorir.analysis.cost import bytes_of
from tensorir.ir.build import call, fresh, function, literal, var
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Literal
from tensorir.ir.rewrite import binders, postorder, rebuild, rewrite, substitute, values, with_values
from tensorir.ir.types import BOOL, Scalar, TensorType, TupleElement
from tensorir.passes.base import Pass, remade
from tensorir.passes.decisions import Decision, Places, Threshold
from tensorir.passes.split_scans import computes_points

__all__ = ["FuseIntoScans"]


@dataclass(frozen=True)
class FuseIntoScans(Pass):
    """What is computed point by point of a scan's states becomes a component of its state, where fewer bytes result.

    Components that nobody reads are not stored, so the states that it was computed of stay within the step.

    >>> from tensorir.passes.show import show
    >>> show(FuseIntoScans(), '''let t = scan(λ(s: tensor<(float, float)>, v: tensor<float>) →
    ...   (s[0] + v, s[1] × v), true, (0.0, 1.0))(x); t[0] / t[1]''', x={"K": (0, 9)})
    scan(
      λ(state: tensor<(float, float, float)>, v: tensor<float>) →
        let t1 = state[0] + v;
        let t2 = state[1] × v;
        (t1, t2, t1 / t2),
      true,
      (0.0, 1.0, 0.0)
    )(x)[2]
    """

    def run(self, fencil: Fencil) -> Fencil:
        roots = values(fencil.closures)
        order = list(postorder(*roots))
        uses = [u for u in _uses(order, roots) if u.saved > 0]
        if not uses:
            return fencil
        taken = {p.name for p in binders(fencil)}
        by_scan = {id(u.scan): u for u in uses}
        results = {id(n): (u, k) for u in uses for k, n in enumerate(u.computed)}
        fused: dict[int, Expr] = {}
        done: dict[int, Expr] = {}
        for n in order:
            if id(n) in results:
                use, k = results[id(n)]
                done[id(n)] = call("tuple_get", fused[id(use.scan)], static=(use.components + k,))
                continue
            new = rebuild(n, tuple(done[id(c)] for c in n.children))
            if id(n) in by_scan:
                assert isinstance(new, Call)
                new = fused[id(n)] = _fused(new, by_scan[id(n)], taken)
            done[id(n)] = new
        return remade(fencil, with_values(fencil.closures, [done[id(r)] for r in roots]))

    def reason(self) -> str:
        return "fewer states of a scan are stored"

    def thresholds(self) -> tuple[Threshold, ...]:
        return (Threshold("saved", 0, "bytes of states that are not stored, more than", "docs/lowering.md, Scans"),)

    def decided(self, before: Fencil, after: Fencil) -> tuple[Decision, ...]:
        roots, places = values(before.closures), Places(before)
        (limit,) = self.thresholds()
        return tuple(
            Decision(
                self.name(), f"{len(u.computed)} results computed by the step", places.of(u.scan), u.saved > 0,
                self.reason(), u.saved, limit, span=u.scan.span,
            )
            for u in _uses(list(postorder(*roots)), roots)
            if u.computed and not u.whole
        )  # fmt: skip


@dataclass(slots=True)
class _Use:
    """What is computed point by point of the components of a scan's state, and nothing else."""

    scan: Call
    inside: list[Call] = field(default_factory=list[Call])
    """Every such node, operands first."""
    read: dict[int, Call] = field(default_factory=dict[int, Call])
    """Those of them that others read."""
    whole: bool = False
    """Whether the state is read otherwise than by component."""

    @property
    def components(self) -> int:
        element = self.scan.tensor.element
        return len(element.members) if isinstance(element, TupleElement) else 0

    @property
    def chosen(self) -> dict[int, Call]:
        """The components that are read, by place."""
        return {n.static[0]: n for n in self.inside if n.args[0] is self.scan}

    @property
    def computed(self) -> list[Call]:
        """What others read and no component is."""
        return [n for n in self.read.values() if n.args[0] is not self.scan]

    @property
    def saved(self) -> int:
        """The bytes that need not be stored where the step computes what is read."""
        if self.whole or not all(isinstance(n.tensor.element, Scalar) for n in self.computed):
            return 0
        return sum(bytes_of(n.tensor) for n in self.chosen.values()) - sum(
            bytes_of(n.tensor) for n in self.read.values()
        )


def _uses(order: Sequence[Expr], roots: Sequence[Expr]) -> list[_Use]:
    """The scans whose state is a tuple, and what is made of their states."""
    found: dict[int, _Use] = {}
    for n in order:
        sources = {id(u): u for c in n.children if (u := found.get(id(c))) is not None}
        own: _Use | None = None
        if isinstance(n, Call):
            if computes_points(n) and len(sources) == 1:
                (use,) = sources.values()
                if all(id(c) in found or isinstance(c, Literal) for c in n.children):
                    own = use
            if own is not None:
                own.inside.append(n)
                own.whole |= n.op != "tuple_get" and any(c is own.scan for c in n.children)
        for c in n.children:
            use = found.get(id(c))
            if use is not None and use is not own:
                _read(use, c)
        if own is not None:
            found[id(n)] = own
        elif isinstance(n, Call) and n.op == "scan" and isinstance(n.args[0], Lambda):
            found[id(n)] = _Use(n)
    for r in roots:
        if id(r) in found:
            _read(found[id(r)], r)
    return list({id(u): u for u in found.values()}.values())


def _read(use: _Use, node: Expr) -> None:
    if node is use.scan:
        use.whole = True
    else:
        assert isinstance(node, Call)
        use.read[id(node)] = node


def _fused(scan: Call, use: _Use, taken: set[str]) -> Call:
    """The scan with what is computed of its states as further components."""
    f, init, *args = scan.args
    assert isinstance(f, Lambda)
    old, *params = f.params
    assert isinstance(old.type.element, TupleElement)
    made = use.computed
    elements = [n.tensor.element for n in made]
    kind = TensorType(TupleElement((*old.type.element.members, *elements)), old.type.dims)
    state = var("state" if "state" not in taken else fresh("state", taken), kind)
    taken.add(state.name)
    count = use.components
    before = call("make_tuple", *(call("tuple_get", state, static=(k,)) for k in range(count)))
    new = _parts(rewrite(substitute(f.body, {old: before}), _part), count)
    inside: dict[int, Expr] = {}
    for n in use.inside:
        if n.args[0] is use.scan:
            inside[id(n)] = new[n.static[0]]
        else:
            inside[id(n)] = rebuild(n, tuple(inside.get(id(c), c) for c in n.children))
    step = function([state, *params], call("make_tuple", *new, *(inside[id(n)] for n in made)))
    zeros = [literal(False if e == BOOL else 0, e) for e in elements if isinstance(e, Scalar)]
    result = call(
        "scan", step, call("make_tuple", *_parts(init, count), *zeros), *args, static=scan.static, span=scan.span
    )
    assert isinstance(result, Call)
    return result


def _parts(e: Expr, count: int) -> list[Expr]:
    """The components of a tuple."""
    match e:
        case Call("make_tuple", args) if len(args) == count:
            return list(args)
        case _:
            return [call("tuple_get", e, static=(k,)) for k in range(count)]


def _part(e: Expr) -> Expr | None:
    """A component of a tuple that is made there."""
    match e:
        case Call("tuple_get", (Call("make_tuple", parts),), (k,)):
            return parts[int(k)]
        case _:
            return None
