"""Scans: fused with each other, with what is computed of their states, and split from what is not carried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorir.analysis.cost import bytes_of
from tensorir.analysis.uses import surface
from tensorir.integers.dims import Dims
from tensorir.ir.build import call, coerced, cut, free_name, fresh, function, literal, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Literal, Var
from tensorir.ir.rewrite import binders, postorder, rebuild, rewrite, rewrite_nodes, substitute, values, with_values
from tensorir.ir.types import BOOL, Scalar, TensorType, TupleElement
from tensorir.passes.base import Pass, remade, rewritten
from tensorir.passes.decisions import Decision, Places, Threshold
from tensorir.runtime.errors import DiagnosticError

# Scans along one dim in one direction become one, with a tuple as its state.


@dataclass(frozen=True)
class FuseScans(Pass):
    """Two scans over the same levels in the same direction, side by side or one feeding the other, become one.

    >>> from tensorir.passes.base import show
    >>> show(FuseScans(), '''scan(λ(s: tensor<float>, v: tensor<float>) → s + v, true, 0.0)(x)
    ...   × scan(λ(t: tensor<float>, w: tensor<float>) → t × w, true, 1.0)(x)''', x={"K": (0, 9)})
    let t1 =
      scan(
        λ(st: tensor<(float, float)>, v: tensor<float>, w: tensor<float>) → (st[0] + v, st[1] × w),
        true,
        (0.0, 1.0)
      )(x, x);
    t1[0] × t1[1]
    """

    def run(self, fencil: Fencil) -> Fencil:
        taken = {p.name for p in fencil.params}
        taken |= {p.name for n in postorder(*values(fencil.closures)) if isinstance(n, Lambda) for p in n.params}
        new: list[Expr] = []
        for value in values(fencil.closures):
            while (fused := _once(value, taken)) is not None:
                value = fused
            new.append(value)
        return remade(fencil, with_values(fencil.closures, new))


def _once(root: Expr, taken: set[str]) -> Expr | None:
    """The expression with one pair of scans fused."""
    before: dict[int, int] = {}
    scans: list[Call] = []
    inner = {p for n in postorder(root) if isinstance(n, Lambda) for p in n.params}
    for node in postorder(root):
        mask = _below(node, before)
        if isinstance(node, Call) and node.op == "scan" and node.free.isdisjoint(inner):
            for k, other in enumerate(scans):
                direct = any(a is other for a in node.args[2:])
                rest = 0
                for a in node.args:
                    rest |= before[id(a)] if a is not other else _below(other, before)
                if rest >> k & 1 or not _alike(other, node):
                    continue
                fused = _scans_fused(other, node, direct, taken)
                if fused is not None:
                    return _with_components(root, other, node, fused)
            mask |= 1 << len(scans)
            scans.append(node)
        before[id(node)] = mask
    return None


def _with_components(root: Expr, a: Call, b: Call, fused: Call) -> Expr:
    # of two that are equal, both read the first component
    components = {scan: call("tuple_get", fused, static=(k,)) for k, scan in ((1, b), (0, a))}
    return rewrite(root, lambda e: components.get(e) if isinstance(e, Call) else None)


def _below(node: Expr, before: dict[int, int]) -> int:
    mask = 0
    for child in node.children:
        mask |= before[id(child)]
    return mask


def _alike(a: Call, b: Call) -> bool:
    """The same levels in the same direction, states on the same dims, and functions of parameters."""
    return (
        a.static == b.static and a.tensor.dims == b.tensor.dims and all(isinstance(c.args[0], Lambda) for c in (a, b))
    )


def _scans_fused(a: Call, b: Call, feeding: bool, taken: set[str]) -> Call | None:
    f, init_a, *args_a = a.args
    g, init_b, *args_b = b.args
    assert isinstance(f, Lambda) and isinstance(g, Lambda)
    (s, *of_a), (t, *of_b) = f.params, g.params
    if s.type.dims != t.type.dims:
        return None
    name = s.name + t.name if s.name + t.name not in taken else fresh("state", taken)
    taken.add(name)
    state = var(name, TensorType(TupleElement((s.type.element, t.type.element)), s.type.dims))
    first, second = (call("tuple_get", state, static=(k,)) for k in (0, 1))
    new_a = coerced(substitute(f.body, {s: first}), s.type)
    arguments: dict[Var, Expr] = {t: second}
    kept: list[tuple[Var, Expr]] = []
    for p, arg in zip(of_b, args_b, strict=True):
        if feeding and arg is a:
            arguments[p] = coerced(new_a, p.type)
        else:
            kept.append((p, arg))
    try:
        new_b = coerced(substitute(g.body, arguments), t.type)
        body = function([state, *of_a, *(p for p, _ in kept)], call("make_tuple", new_a, new_b))
        init = call("make_tuple", init_a, init_b)
        fused = call("scan", body, init, *args_a, *(x for _, x in kept), static=a.static, span=b.span)
    except DiagnosticError:
        return None
    assert isinstance(fused, Call)
    return fused if fused.tensor.dims == a.tensor.dims else None


# What a scan's step computes of its operands alone is computed before it, where fewer arrays result.


@dataclass(frozen=True)
class SplitScans(Pass):
    """Loop-invariant parts of a scan's step, which read its operands alone, are computed before it where fewer bytes
    are moved so.

    A backend lays the scanned dim outermost: operands that lie otherwise, or are parts of arrays, are copied, each
    one. Operands that are used only together become their results, which are computed while they are copied.

    >>> from tensorir.passes.base import show
    >>> show(SplitScans(), '''scan(λ(s: tensor<float, I[0:5]>, a: tensor<float, I[0:5]>, b: tensor<float, I[0:5]>) →
    ...   a × b + s, true, 0.0)(x, y)''', x={"I": (0, 5), "K": (0, 9)}, y={"I": (0, 5), "K": (0, 9)})
    scan(λ(s: tensor<float, I[0:5]>, of: tensor<float, I[0:5]>) → of + s, true, 0.0)(x × y)
    """

    def run(self, fencil: Fencil) -> Fencil:
        taken = {p.name for p in binders(fencil)}
        return rewritten(fencil, lambda e: _split(e, taken))

    makes = "scan"

    def reason(self) -> str:
        return "operands of a scan that are copied anyway are combined on the way"

    def thresholds(self) -> tuple[Threshold, ...]:
        return (Threshold("copied", 0, "bytes of operands copied in vain, more than", "docs/lowering.md, Scans"),)


def computes_points(node: Expr) -> bool:
    """True if a node computes each point from its operands at that point, and does nothing else."""
    if not isinstance(node, Call):
        return False
    row = TABLE[node.op]
    return (row.elementwise or node.op in ("tuple_get", "make_tuple")) and not row.effect and not row.checks


@dataclass(slots=True)
class _Group:
    """Operands that are copied and used together: what the rest of the step reads of them."""

    operands: list[Var] = field(default_factory=list[Var])
    read: list[Expr] = field(default_factory=list[Expr])

    @property
    def saved(self) -> int:
        """The bytes per level that need not be copied where the calls among what is read are computed before."""
        return sum(bytes_of(p.type) for p in self.operands) - sum(bytes_of(n.tensor) for n in self.read)


def _split(node: Expr, taken: set[str]) -> Expr | None:
    match node:
        case Call("scan", (Lambda((state, *params), (body,)), init, *args), (_, dim)):
            pass
        case _:
            return None
    arguments = dict(zip(params, args, strict=True))
    levels = ((dim, node.tensor.dims[dim]),)
    order = surface(body)
    groups = _groups(order, state, [p for p, a in arguments.items() if _copied(a, dim)])
    stands: dict[int, Expr] = {}
    values: list[tuple[Var, Expr]] = []
    for n in (n for g in groups if g.saved > 0 for n in g.read if isinstance(n, Call)):
        new = var(free_name("of", taken), n.tensor)
        whole = {p: cut(a, Dims((*p.type.dims.items, *levels))) for p, a in arguments.items() if p in n.free}
        stands[id(n)] = new
        values.append((new, substitute(n, whole)))
    if not values:
        return None
    done: dict[int, Expr] = {}
    for n in order:
        done[id(n)] = stands.get(id(n)) or rebuild(n, tuple(done.get(id(c), c) for c in n.children))
    smaller = done[id(body)]
    kept = [p for p in params if p in smaller.free]
    f = function([state, *kept, *(v for v, _ in values)], smaller)
    new_args = [*(arguments[p] for p in kept), *(x for _, x in values)]
    split = call("scan", f, init, *new_args, static=node.static, span=node.span)
    return split if split.type == node.type else None


def _copied(arg: Expr, dim: str) -> bool:
    """True if an operand is copied to have its levels one after the other in memory of its own."""
    while isinstance(arg, Call) and arg.op in ("cartesian_shift", "tuple_get"):
        (arg,) = arg.args
    match arg:
        case Var():
            return dim in arg.tensor.dims and arg.tensor.dims.names[0] != dim
        case Call("scan", _, (_, scanned)):
            return scanned != dim
        case _:
            return dim in arg.tensor.dims


def _groups(order: Sequence[Expr], state: Var, copied: Sequence[Var]) -> list[_Group]:
    """Parts of a step that read its operands alone, those that share a copied operand in one group."""
    linked = set(copied)
    alone: set[int] = set()
    keys: dict[Expr, int] = {}
    above: dict[int, int] = {}

    def top(n: Expr) -> int:
        k = keys.setdefault(n, id(n)) if isinstance(n, Var) else id(n)
        while above.setdefault(k, k) != k:
            above[k] = above[above[k]]
            k = above[k]
        return k

    read: dict[int, Expr] = {}

    def reads(x: Expr) -> None:
        if isinstance(x, Lambda):
            for v in x.free & linked:
                read[keys.setdefault(v, id(v))] = v
        elif id(x) in alone and (isinstance(x, Call) or x in linked):
            read[keys.setdefault(x, id(x)) if isinstance(x, Var) else id(x)] = x

    for n in order:
        if isinstance(n, (Literal, Var)):
            alone |= {id(n)} if n != state else set()
        elif computes_points(n) and all(id(c) in alone for c in n.children):
            alone.add(id(n))
            for c in n.children:
                if isinstance(c, Call) or c in linked:
                    above[top(c)] = top(n)
        else:
            for c in n.children:
                reads(c)
    reads(order[-1])
    groups: dict[int, _Group] = {}
    for p in copied:
        groups.setdefault(top(p), _Group()).operands.append(p)
    for n in read.values():
        groups.setdefault(top(n), _Group()).read.append(n)
    return list(groups.values())


# What is computed point by point of a scan's states is computed by its step, where fewer arrays result.


@dataclass(frozen=True)
class FuseIntoScans(Pass):
    """Pointwise uses of a scan's states become components of its state, where fewer bytes result.

    Components that nobody reads are not stored, so the states that it was computed of stay within the step.

    >>> from tensorir.passes.base import show
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
        uses = [u for u in _uses(list(postorder(*roots)), roots) if u.saved > 0]
        if not uses:
            return fencil
        taken = {p.name for p in binders(fencil)}
        by_scan = {id(u.scan): u for u in uses}
        results = {id(n): (u, k) for u in uses for k, n in enumerate(u.computed)}
        fused: dict[int, Expr] = {}

        def fuse(node: Expr, new: Expr) -> Expr:
            if id(node) in results:
                use, k = results[id(node)]
                return call("tuple_get", fused[id(use.scan)], static=(use.components + k,))
            if id(node) in by_scan:
                assert isinstance(new, Call)
                new = fused[id(node)] = _fused(new, by_scan[id(node)], taken)
            return new

        return remade(fencil, with_values(fencil.closures, rewrite_nodes(roots, fuse)))

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
    """A pointwise use of the components of a scan's state, and of nothing else."""

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
        """Nodes that others read and that are no component."""
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
    uses: dict[int, _Use] = {}
    for n in order:
        sources = {id(u): u for c in n.children if (u := uses.get(id(c))) is not None}
        joined: _Use | None = None
        if isinstance(n, Call):
            if computes_points(n) and len(sources) == 1:
                (use,) = sources.values()
                if all(id(c) in uses or isinstance(c, Literal) for c in n.children):
                    joined = use
            if joined is not None:
                joined.inside.append(n)
                joined.whole |= n.op != "tuple_get" and any(c is joined.scan for c in n.children)
        for c in n.children:
            use = uses.get(id(c))
            if use is not None and use is not joined:
                _read(use, c)
        if joined is not None:
            uses[id(n)] = joined
        elif isinstance(n, Call) and n.op == "scan" and isinstance(n.args[0], Lambda):
            uses[id(n)] = _Use(n)
    for r in roots:
        if id(r) in uses:
            _read(uses[id(r)], r)
    return list({id(u): u for u in uses.values()}.values())


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
    computed = use.computed
    elements = [n.tensor.element for n in computed]
    kind = TensorType(TupleElement((*old.type.element.members, *elements)), old.type.dims)
    state = var(free_name("state", taken), kind)
    count = use.components
    before = call("make_tuple", *(call("tuple_get", state, static=(k,)) for k in range(count)))
    new = _parts(rewrite(substitute(f.body, {old: before}), _part), count)
    inside: dict[int, Expr] = {}
    for n in use.inside:
        if n.args[0] is use.scan:
            inside[id(n)] = new[n.static[0]]
        else:
            inside[id(n)] = rebuild(n, tuple(inside.get(id(c), c) for c in n.children))
    step = function([state, *params], call("make_tuple", *new, *(inside[id(n)] for n in computed)))
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
