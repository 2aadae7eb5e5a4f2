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
from tensorir.runtime.errors import DiagnosticError, counted

# Scans along one dim in one direction become one, with a tuple as its state.


@dataclass(frozen=True)
class FuseScans(Pass):
    """Fuses two scans over the same levels in the same direction, independent or one feeding the other, into one.

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
        """Fuses pairs of scans in each expression until no pair is left."""
        used_names = {p.name for p in fencil.params}
        used_names |= {p.name for n in postorder(*values(fencil.closures)) if isinstance(n, Lambda) for p in n.params}
        new_values: list[Expr] = []
        for value in values(fencil.closures):
            while (fused := _once(value, used_names)) is not None:
                value = fused
            new_values.append(value)
        return remade(fencil, with_values(fencil.closures, new_values))


def _once(root: Expr, used_names: set[str]) -> Expr | None:
    """The expression with one pair of scans fused; None if no pair can be.

    A pair can be fused if the second scan depends on the first at most by reading it directly, level by level.
    """
    # bit k: the k-th scan is among what the node depends on
    scans_below: dict[int, int] = {}
    scans: list[Call] = []
    lambda_params = {p for n in postorder(root) if isinstance(n, Lambda) for p in n.params}
    for node in postorder(root):
        scans_below_node = _below(node, scans_below)
        if isinstance(node, Call) and node.op == "scan" and node.free.isdisjoint(lambda_params):
            for number, earlier in enumerate(scans):
                feeds_directly = any(a is earlier for a in node.args[2:])
                scans_below_operands = 0
                for a in node.args:
                    scans_below_operands |= scans_below[id(a)] if a is not earlier else _below(earlier, scans_below)
                if scans_below_operands >> number & 1 or not _alike(earlier, node):
                    continue
                fused = _scans_fused(earlier, node, feeds_directly, used_names)
                if fused is not None:
                    return _with_components(root, earlier, node, fused)
            scans_below_node |= 1 << len(scans)
            scans.append(node)
        scans_below[id(node)] = scans_below_node
    return None


def _with_components(root: Expr, a: Call, b: Call, fused: Call) -> Expr:
    """The expression with the two scans replaced by the members of the fused one."""
    # of two that are equal, both read the first component
    # if both scans are equal, the later entry wins: both read component 0
    components = {scan: call("tuple_get", fused, static=(k,)) for k, scan in ((1, b), (0, a))}
    return rewrite(root, lambda e: components.get(e) if isinstance(e, Call) else None)


def _below(node: Expr, scans_below: dict[int, int]) -> int:
    """The union of the bit masks of a node's operands."""
    mask = 0
    for child in node.children:
        mask |= scans_below[id(child)]
    return mask


def _alike(a: Call, b: Call) -> bool:
    """The same levels in the same direction, states on the same dims, and functions of parameters."""
    return (
        a.static == b.static and a.tensor.dims == b.tensor.dims and all(isinstance(c.args[0], Lambda) for c in (a, b))
    )


def _scans_fused(a: Call, b: Call, feeding: bool, used_names: set[str]) -> Call | None:
    """One scan whose state is the pair of both states; None if the result would be on other dims or ill-typed.

    If `feeding`, the second reads the new state of the first at the same level in place of its argument `a`.
    """
    f, init_a, *args_a = a.args
    g, init_b, *args_b = b.args
    assert isinstance(f, Lambda) and isinstance(g, Lambda)
    (state_a, *params_a), (state_b, *params_b) = f.params, g.params
    if state_a.type.dims != state_b.type.dims:
        return None
    name = state_a.name + state_b.name if state_a.name + state_b.name not in used_names else fresh("state", used_names)
    used_names.add(name)
    state = var(name, TensorType(TupleElement((state_a.type.element, state_b.type.element)), state_a.type.dims))
    first_state, second_state = (call("tuple_get", state, static=(k,)) for k in (0, 1))
    new_a = coerced(substitute(f.body, {state_a: first_state}), state_a.type)
    arguments: dict[Var, Expr] = {state_b: second_state}
    other_args: list[tuple[Var, Expr]] = []
    for p, arg in zip(params_b, args_b, strict=True):
        if feeding and arg is a:
            arguments[p] = coerced(new_a, p.type)
        else:
            other_args.append((p, arg))
    try:
        new_b = coerced(substitute(g.body, arguments), state_b.type)
        body = function([state, *params_a, *(p for p, _ in other_args)], call("make_tuple", new_a, new_b))
        init = call("make_tuple", init_a, init_b)
        fused = call("scan", body, init, *args_a, *(value for _, value in other_args), static=a.static, span=b.span)
    except DiagnosticError:
        return None
    assert isinstance(fused, Call)
    return fused if fused.tensor.dims == a.tensor.dims else None


# What a scan's step computes of its operands alone is computed before it, where fewer arrays result.


@dataclass(frozen=True)
class SplitScans(Pass):
    """Hoists parts of a scan's step that read its operands only, where this moves fewer bytes.

    A backend lays the scanned dim outermost, and copies each operand that is laid out otherwise or is a part of an
    array. Operands used only together are replaced by their combination, which is computed while it is copied.

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
    """True for elementwise operations and tuples without checks or effects: each point from the operands at that
    point.
    """
    if not isinstance(node, Call):
        return False
    builtin = TABLE[node.op]
    return (builtin.elementwise or node.op in ("tuple_get", "make_tuple")) and not builtin.effect and not builtin.checks


@dataclass(slots=True)
class _Group:
    """Operands of a scan that are copied and used together, and the results that the rest of the step reads of them."""

    operands: list[Var] = field(default_factory=list[Var])
    read: list[Expr] = field(default_factory=list[Expr])

    @property
    def saved(self) -> int:
        """The bytes per level that need not be copied where the calls among what is read are computed before."""
        return sum(bytes_of(p.type) for p in self.operands) - sum(bytes_of(n.tensor) for n in self.read)


def _split(node: Expr, used_names: set[str]) -> Expr | None:
    """A scan with parts of its step hoisted, for each group of operands where that saves bytes; None for other nodes or
    if nothing is saved.
    """
    match node:
        case Call("scan", (Lambda((state, *params), (body,)), init, *args), (_, dim)):
            pass
        case _:
            return None
    arguments = dict(zip(params, args, strict=True))
    levels = ((dim, node.tensor.dims[dim]),)
    body_nodes = surface(body)
    groups = _groups(body_nodes, state, [p for p, a in arguments.items() if _copied(a, dim)])
    stands_for: dict[int, Expr] = {}
    hoisted: list[tuple[Var, Expr]] = []
    for part in (part for group in groups if group.saved > 0 for part in group.read if isinstance(part, Call)):
        new_param = var(free_name("of", used_names), part.tensor)
        columns = {p: cut(a, Dims((*p.type.dims.items, *levels))) for p, a in arguments.items() if p in part.free}
        stands_for[id(part)] = new_param
        hoisted.append((new_param, substitute(part, columns)))
    if not hoisted:
        return None
    done: dict[int, Expr] = {}
    for part in body_nodes:
        done[id(part)] = stands_for.get(id(part)) or rebuild(part, tuple(done.get(id(c), c) for c in part.children))
    new_body = done[id(body)]
    kept_params = [p for p in params if p in new_body.free]
    f = function([state, *kept_params, *(v for v, _ in hoisted)], new_body)
    new_args = [*(arguments[p] for p in kept_params), *(x for _, x in hoisted)]
    split = call("scan", f, init, *new_args, static=node.static, span=node.span)
    return split if split.type == node.type else None


def _copied(arg: Expr, dim: str) -> bool:
    """True if a scan's operand must be copied, because its levels along `dim` are not contiguous outermost slices."""
    while isinstance(arg, Call) and arg.op in ("cartesian_shift", "tuple_get"):
        (arg,) = arg.args
    match arg:
        case Var():
            return dim in arg.tensor.dims and arg.tensor.dims.names[0] != dim
        case Call("scan", _, (_, scanned)):
            return scanned != dim
        case _:
            return dim in arg.tensor.dims


def _groups(body_nodes: Sequence[Expr], state: Var, copied: Sequence[Var]) -> list[_Group]:
    """Parts of a step that depend on operands only, in groups: parts that share a copied operand belong together.

    The nodes of a group that the rest of the step reads are its `read`.
    """
    copied_set = set(copied)
    operand_only: set[int] = set()
    keys: dict[Expr, int] = {}
    # union-find over nodes; equal variables have one key
    union_find: dict[int, int] = {}

    def top(node: Expr) -> int:
        """The representative of a node in the union-find, with path halving."""
        root = keys.setdefault(node, id(node)) if isinstance(node, Var) else id(node)
        while union_find.setdefault(root, root) != root:
            union_find[root] = union_find[union_find[root]]
            root = union_find[root]
        return root

    read_parts: dict[int, Expr] = {}

    def reads(x: Expr) -> None:
        """Records that the rest of the step reads an operand (all copied variables that a function captures)."""
        if isinstance(x, Lambda):
            for v in x.free & copied_set:
                read_parts[keys.setdefault(v, id(v))] = v
        elif id(x) in operand_only and (isinstance(x, Call) or x in copied_set):
            read_parts[keys.setdefault(x, id(x)) if isinstance(x, Var) else id(x)] = x

    for n in body_nodes:
        if isinstance(n, (Literal, Var)):
            operand_only |= {id(n)} if n != state else set()
        elif computes_points(n) and all(id(c) in operand_only for c in n.children):
            operand_only.add(id(n))
            for c in n.children:
                if isinstance(c, Call) or c in copied_set:
                    union_find[top(c)] = top(n)
        else:
            for c in n.children:
                reads(c)
    reads(body_nodes[-1])
    groups: dict[int, _Group] = {}
    for p in copied:
        groups.setdefault(top(p), _Group()).operands.append(p)
    for n in read_parts.values():
        groups.setdefault(top(n), _Group()).read.append(n)
    return list(groups.values())


# What is computed point by point of a scan's states is computed by its step, where fewer arrays result.


@dataclass(frozen=True)
class FuseIntoScans(Pass):
    """Moves pointwise uses of a scan's state into its step, as further components of the state, where fewer bytes
    result.

    Components that nobody reads are not stored, so the states that the results depend on need not be.

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
        """Rewrites each scan with a worthwhile use, and the results computed from it, as members of the new scan."""
        roots = values(fencil.closures)
        uses = [u for u in _uses(list(postorder(*roots)), roots) if u.saved > 0]
        if not uses:
            return fencil
        used_names = {p.name for p in binders(fencil)}
        by_scan = {id(u.scan): u for u in uses}
        results = {id(n): (u, position) for u in uses for position, n in enumerate(u.computed)}
        fused: dict[int, Expr] = {}

        def fused_node(node: Expr, new_node: Expr) -> Expr:
            """A scan with more components, a result as a member of it, or the node unchanged."""
            if id(node) in results:
                use, position = results[id(node)]
                return call("tuple_get", fused[id(use.scan)], static=(use.components + position,))
            if id(node) in by_scan:
                assert isinstance(new_node, Call)
                new_node = fused[id(node)] = _fused(new_node, by_scan[id(node)], used_names)
            return new_node

        return remade(fencil, with_values(fencil.closures, rewrite_nodes(roots, fused_node)))

    def reason(self) -> str:
        return "fewer states of a scan are stored"

    def thresholds(self) -> tuple[Threshold, ...]:
        return (Threshold("saved", 0, "bytes of states that are not stored, more than", "docs/lowering.md, Scans"),)

    def decided(self, before: Fencil, after: Fencil) -> tuple[Decision, ...]:
        """A decision for each scan whose results could be computed in its step."""
        roots, places = values(before.closures), Places(before)
        (limit,) = self.thresholds()
        return tuple(
            Decision(
                self.name(), f"{counted(len(u.computed), 'result')} computed by the step", places.of(u.scan),
                u.saved > 0, self.reason(), u.saved, limit, span=u.scan.span,
            )
            for u in _uses(list(postorder(*roots)), roots)
            if u.computed and not u.whole
        )  # fmt: skip


@dataclass(slots=True)
class _Use:
    """A scan with a tuple as its state, and the nodes computed pointwise from its state alone."""

    scan: Call
    inside: list[Call] = field(default_factory=list[Call])
    """The nodes computed pointwise from the state, operands first."""
    read: dict[int, Call] = field(default_factory=dict[int, Call])
    """The nodes of `inside` that other nodes read, by identity."""
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
        """The bytes not stored if the step computes the results; 0 if the state is also read whole or a result is a
        tuple.
        """
        if self.whole or not all(isinstance(n.tensor.element, Scalar) for n in self.computed):
            return 0
        return sum(bytes_of(n.tensor) for n in self.chosen.values()) - sum(
            bytes_of(n.tensor) for n in self.read.values()
        )


def _uses(all_nodes: Sequence[Expr], roots: Sequence[Expr]) -> list[_Use]:
    """The scans and the pointwise nodes that depend on each alone, found in one pass with operands before users.

    Nodes of several scans, or of other inputs, are readers from outside.
    """
    uses: dict[int, _Use] = {}
    for n in all_nodes:
        sources = {id(u): u for c in n.children if (u := uses.get(id(c))) is not None}
        extended_use: _Use | None = None
        if isinstance(n, Call):
            if computes_points(n) and len(sources) == 1:
                (use,) = sources.values()
                if all(id(c) in uses or isinstance(c, Literal) for c in n.children):
                    extended_use = use
            if extended_use is not None:
                extended_use.inside.append(n)
                extended_use.whole |= n.op != "tuple_get" and any(c is extended_use.scan for c in n.children)
        for c in n.children:
            use = uses.get(id(c))
            if use is not None and use is not extended_use:
                _read(use, c)
        if extended_use is not None:
            uses[id(n)] = extended_use
        elif isinstance(n, Call) and n.op == "scan" and isinstance(n.args[0], Lambda):
            uses[id(n)] = _Use(n)
    for r in roots:
        if id(r) in uses:
            _read(uses[id(r)], r)
    return list({id(u): u for u in uses.values()}.values())


def _read(use: _Use, node: Expr) -> None:
    """Records that a node outside of the use reads `node`: the whole state, or one of its results."""
    if node is use.scan:
        use.whole = True
    else:
        assert isinstance(node, Call)
        use.read[id(node)] = node


def _fused(scan: Call, use: _Use, used_names: set[str]) -> Call:
    """The scan with the computed results of its use as further components of the state, initially zero."""
    f, init, *args = scan.args
    assert isinstance(f, Lambda)
    old_state, *params = f.params
    assert isinstance(old_state.type.element, TupleElement)
    computed = use.computed
    elements = [n.tensor.element for n in computed]
    state_type = TensorType(TupleElement((*old_state.type.element.members, *elements)), old_state.type.dims)
    state = var(free_name("state", used_names), state_type)
    count = use.components
    old_components = call("make_tuple", *(call("tuple_get", state, static=(k,)) for k in range(count)))
    new_components = _parts(rewrite(substitute(f.body, {old_state: old_components}), _part), count)
    new_nodes: dict[int, Expr] = {}
    for n in use.inside:
        if n.args[0] is use.scan:
            new_nodes[id(n)] = new_components[n.static[0]]
        else:
            new_nodes[id(n)] = rebuild(n, tuple(new_nodes.get(id(c), c) for c in n.children))
    step = function([state, *params], call("make_tuple", *new_components, *(new_nodes[id(n)] for n in computed)))
    zeros = [literal(False if e == BOOL else 0, e) for e in elements if isinstance(e, Scalar)]
    fused = call(
        "scan", step, call("make_tuple", *_parts(init, count), *zeros), *args, static=scan.static, span=scan.span
    )
    assert isinstance(fused, Call)
    return fused


def _parts(tuple_value: Expr, count: int) -> list[Expr]:
    """The components of a tuple: those it is made of, or `tuple_get` of each."""
    match tuple_value:
        case Call("make_tuple", args) if len(args) == count:
            return list(args)
        case _:
            return [call("tuple_get", tuple_value, static=(k,)) for k in range(count)]


def _part(node: Expr) -> Expr | None:
    """The component that `tuple_get` takes of a `make_tuple`, None for other nodes; a rewrite rule."""
    match node:
        case Call("tuple_get", (Call("make_tuple", parts),), (k,)):
            return parts[int(k)]
        case _:
            return None
