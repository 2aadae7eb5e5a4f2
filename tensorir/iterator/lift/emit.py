"""The graph as tensor IR: every node on the interval that is needed of it, or on more where that costs nothing."""

# What programs evaluate to is of many kinds, which only running tells.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorir import nodes
from tensorir.integers.dims import Dims, Interval
from tensorir.integers.sets import Box, Cut, intersection
from tensorir.ir import build
from tensorir.ir.build import displaced
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Expr, Lambda, Var
from tensorir.ir.rewrite import with_label
from tensorir.ir.types import BOOL, INT32, NEIGHBOUR, TensorType, TupleElement
from tensorir.iterator.lift.graph import Fold, Node, Table, postorder
from tensorir.iterator.lift.needs import region_left, why
from tensorir.runtime.errors import refuse


@dataclass(eq=False)
class Emission:
    """Emits nodes, each once; `params` and `tables` are what the expressions read."""

    needed: Mapping[Node, Box]
    firm: Mapping[Node, Box]
    domains: Mapping[str, Dims]
    slots: Mapping[str, int]
    """The number of slots along each local dim."""
    mode: str
    """What is read where a dynamic offset leaves its field."""
    layouts: Mapping[str, Dims]
    """How inputs lie in memory, where that is known."""
    program: str = ""
    stored: Sequence[tuple[str, Node, Box]] = ()
    """What is stored: the name of a leaf, a root, and where."""
    columns: Mapping[Node, tuple[int, int]] = field(default_factory=dict[Node, "tuple[int, int]"])
    """The levels of scans that run over fewer than are needed."""
    params: dict[str, Var] = field(default_factory=dict[str, Var])
    tables: dict[str, tuple[Var, Any]] = field(default_factory=dict[str, "tuple[Var, Any]"])
    done: dict[Node, Expr] = field(default_factory=dict[Node, Expr])
    locals: dict[str, str] = field(default_factory=dict[str, str])
    several: bool = False
    report: list[str] = field(default_factory=list[str])

    def emit(self, roots: Sequence[Node]) -> list[Expr]:
        """The tensor expressions of the roots; every node that is needed is emitted once, operands first."""
        order = [n for n in postorder(roots) if n in self.needed]
        self.several = any(sum(d in self.slots for d in n.dims) > 1 for n in order)
        for node in order:
            if node not in self.done:
                expr = self._node(node)
                self.done[node] = with_label(expr, node.label) if node.label else expr
        return [self.done[r] for r in roots]

    def local(self, dim: str) -> str:
        """The neighbour dim that stands for a local dim; one for all where no tensor has two."""
        return self.locals.setdefault(dim, f"{NEIGHBOUR}{len(self.locals) if self.several else 0}")

    def box(self, node: Node) -> dict[str, tuple[int, int]]:
        """The box of a node without its local dims, which are never cut."""
        return {d: self.needed[node][d] for d in node.dims if d not in self.slots}

    def on(self, x: Expr, box: Box) -> Expr:
        """A tensor cut to the intervals of a box, along those of its dims that the tensor has; the box must lie in the
        tensor's intervals.
        """
        have = x.tensor.dims
        cut = {d: Interval(*e) for d, e in box.items() if d in have and have[d] != Interval(*e)}
        return build.call("subset", x, static=(Dims(tuple(cut.items())),)) if cut else x

    def wide(self, x: Expr, box: Box) -> Expr:
        """A tensor broadcast to all dims of a box."""
        for d, (start, stop) in box.items():
            if d not in x.tensor.dims:
                x = build.call("add_dim", x, static=(d, start, stop))
        return x

    def position(self, dim: str, ends: tuple[int, int]) -> Expr:
        """The positions along a dim, on the interval `ends`."""
        return build.call("pos", self.wide(build.literal(False), {dim: ends}), static=(dim,))

    def _node(self, node: Node) -> Expr:
        """The tensor expression of a node, whose operands are in `done`."""
        args = [self.done.get(a) for a in node.args]
        match node.op, node.static:
            case "input", (name,):
                return self._input(node, name)
            case "constant", (_, value):
                return build.literal(value, node.element)
            case "index", (dim,):
                return self.position(dim, self.needed[node][dim])
            case "cast", (element,):
                return build.call("cast", args[0], static=(element,))  # type: ignore[arg-type]
            case "shift", (dim, by):
                return build.cartesian_shift(args[0], dim, by)  # type: ignore[arg-type]
            case "restagger", (old, new, by):
                if old in self.slots:
                    old, new = self.local(old), self.local(new)
                if old == new:
                    return args[0]  # type: ignore[return-value]
                renamed = build.call("rename", args[0], static=(((old, new),),))  # type: ignore[arg-type]
                return build.cartesian_shift(renamed, new, by)
            case "neighbour" | "neighbours", _:
                return self._neighbours(node)
            case "slot", (local, k):
                return self._slot(args[0], self.local(local), k)  # type: ignore[arg-type]
            case "gather", (dim,):
                return self._gather(node, dim)
            case "concat_where", (region,):
                box = self.box(node)
                return self._concat(region.split(box), node, box)
            case "update", (stored,):
                return self._update(node, dict(stored))
            case "broadcast", _:
                return args[0]  # type: ignore[return-value]
            case "can_deref", _:
                return build.call("can_deref", args[0])  # type: ignore[arg-type]
            case "reduce", (fold,):
                return self._reduce(node, fold)
            case "scan", (fold,):
                return self._scan(node, fold)
            case "scanned", (k,):
                several = len(node.args[0].static[0].carried) > 1
                return build.call("tuple_get", args[0], static=(k,)) if several else args[0]  # type: ignore
            case op, _:
                return build.call(op, *args)  # type: ignore[arg-type]

    # Leaves

    def _input(self, node: Node, name: str) -> Expr:
        """An input as a parameter, cut to the slots and points that are read.

        Raises TI10 for points that it lacks; in the mode "lenient" they are those of the nearest point.
        """
        dims = self.domains.get(name, Dims())
        firm = {d: e for d, e in self.firm.get(node, {}).items() if d not in self.slots}
        layout = self.layouts.get(name, dims)
        renamed = tuple((self.local(d) if d in self.slots else d, i) for d, i in layout.items)
        if name not in self.params:
            self.params[name] = build.var(name, TensorType(node.element, Dims(renamed)))
        slots = {self.local(d): (i.start, i.stop) for d, i in dims.items if d in self.slots}
        x = self.on(self.params[name], slots)
        for d, (start, stop) in firm.items():
            have = dims[d]
            if start < have.start or have.stop < stop:
                if self.mode != "lenient" or have.stop == have.start:
                    message = f"'{name}' of '{self.program}' has {d}{have}, and {d}[{start}:{stop}] of it is read."
                    help = f"give it more points of {d}, or store on a smaller domain; "
                    help += 'out_of_range="lenient" reads the nearest.'
                    raise refuse("TI10", message, help, notes=why(node, d, have, self.firm, self.stored))
                self.report.append(f"{name}: the nearest of {d}{have} on {d}[{start}:{stop}]")
                x = _extend_to_nearest(self.on(x, {d: (have.start, have.stop)}), d, have, Interval(start, stop))
                dims = dims.with_interval(d, x.tensor.dims[d])
        return self._pad(name, x, self.box(node), dims)

    def _pad(self, name: str, x: Expr, box: Box, dims: Dims) -> Expr:
        """An input with zeros around it where only branches that are not taken read."""
        outside = [d for d, (a, b) in box.items() if a < dims[d].start or dims[d].stop < b]
        if outside:
            x = self.on(x, {d: (dims[d].start, dims[d].stop) for d in outside})
        for d in outside:
            start, stop = box[d]
            have = x.tensor.dims[d]
            if start < have.start or have.stop < stop:
                self.report.append(
                    f"{name}: zero on {d}[{start}:{stop}] outside of {d}{have}, where a condition guards it"
                )
                (element,) = x.tensor.leaves
                zero = build.literal(0 if element != BOOL else False, element)
                parts = [x]
                for low, high in ((start, have.start), (have.stop, stop)):
                    if low < high:
                        around = {n: (i.start, i.stop) for n, i in x.tensor.dims.items}
                        parts.append(self.wide(zero, {**around, d: (low, high)}))
                x = build.call("concat", *parts)
        return x

    # Access

    def _table(self, table: Table, box: Box) -> Var:
        """The parameter that holds the rows of a table that a box needs."""
        rows = table.rows(box)
        for var, (known, have) in ((v, k) for v, k in self.tables.values()):
            if known is table and have == rows:
                return var
        used = sum(known is table for _, (known, _) in self.tables.values())
        name = table.name if not used else f"{table.name}_{used + 1}"
        dims = [*zip(table.domain, (Interval(*r) for r in rows), strict=True)]
        kind = TensorType(INT32, Dims((*dims, (NEIGHBOUR + table.codomain, Interval(0, table.slots)))))
        var = build.var(name, kind)
        self.tables[name] = (var, (table, rows))
        return var

    def _neighbours(self, node: Node) -> Expr:
        """The neighbours of a node's operand through a table, all along a local dim or those of one slot.

        Raises TI10 for rows that the table lacks.
        """
        table = node.static[0]
        box = self.needed[node]
        for d, (start, stop), (first, last) in zip(
            table.domain, (box[d] for d in table.domain), table.rows(box), strict=True
        ):
            if start < first or last < stop:
                message = f"'{table.name}' has no rows of {d}[{start}:{stop}], which '{self.program}' reads."
                raise refuse("TI10", message, "store on a smaller domain, or give the table more rows.")
        var = self._table(table, box)
        ends = table.targets(box) or (0, 1)
        source = node.args[0]
        x = self.wide(self.done[source], {table.codomain: self.needed[source].get(table.codomain, ends)})
        if -1 in x.tensor.dims[table.codomain]:
            x = self.on(x, {table.codomain: ends})
        if node.op == "neighbour":
            return build.call("unstructured_shift", var, x, static=(node.static[1],))
        gathered = build.call("shift_init", var, x)
        added = next(d for d in reversed(gathered.tensor.dims.names) if d.startswith(NEIGHBOUR))
        wanted = self.local(node.static[1])
        return gathered if added == wanted else build.call("rename", gathered, static=(((added, wanted),),))

    def _slot(self, x: Expr, dim: str, k: int) -> Expr:
        """Slot `k` of a tensor along a neighbour dim; a tensor without the dim is returned itself."""
        if dim not in x.tensor.dims:
            return x
        highest = max(d for d in x.tensor.dims.names if d.startswith(NEIGHBOUR))
        if highest != dim:
            x = build.call("rename", x, static=(((dim, highest), (highest, dim)),))
        return build.call("shift_apply", x, static=(k,))

    def _gather(self, node: Node, dim: str) -> Expr:
        """x[p + by[p]] along a dim; a tensor without the dim is returned itself."""
        x, by = (self.done[a] for a in node.args)
        if dim not in x.tensor.dims:
            return x
        here = self.position(dim, self.needed[node][dim])
        return build.call(
            "gather", x, displaced(here, by), static=((dim,), "clamp" if self.mode == "lenient" else self.mode)
        )

    # Domains

    def _concat(self, cut: Cut | bool, node: Node, box: dict[str, tuple[int, int]]) -> Expr:
        """The `concat` of the parts of a region's cut along its dims.

        A bool for `cut` selects the first or second operand.
        """
        if not isinstance(cut, Cut):
            return self.wide(self.on(self.done[node.args[0 if cut else 1]], box), box)
        parts = [self._concat(part, node, {**box, cut.dim: ends}) for ends, part in cut.parts]
        locals_ = dict(i for p in parts for i in p.tensor.dims.items if i[0].startswith(NEIGHBOUR))
        parts = [self.wide(p, {d: (i.start, i.stop) for d, i in locals_.items()}) for p in parts]
        return build.call("concat", *parts)

    def _update(self, node: Node, stored: Box) -> Expr:
        """The old value with the new one on the box `stored`, both cut to the points that are needed."""
        box = self.needed[node]
        old, new = (self.done.get(a) for a in node.args)
        part = intersection(stored, box)
        if old is None or not region_left(box, stored):
            assert new is not None
            return self.wide(self.on(new, part), box)
        old = self.wide(self.on(old, box), box)
        return old if new is None else build.call("update", old, self.on(new, part))

    # Folds

    def _body(self, fold: Fold, carried: Mapping[Node, Expr], taken: Mapping[Node, Expr]) -> list[Expr]:
        """The results of a body, with variables in the place of its carry and its free variables."""
        done: dict[Node, Expr] = {**carried, **taken}
        for node in nodes.postorder(fold.results, lambda node: () if node in done else node.args):
            if node in done:
                continue
            if node.op == "constant":
                done[node] = build.literal(node.static[1], node.element)
            elif node.op == "cast":
                done[node] = build.call("cast", done[node.args[0]], static=node.static)
            else:
                assert node.op in TABLE, node
                done[node] = build.call(node.op, *(done[a] for a in node.args))
        return [done[r] for r in fold.results]

    def _reduce(self, node: Node, fold: Fold) -> Expr:
        """The `reduce` of a fold over neighbours: with a builtin where its body is one, otherwise with a lambda."""
        dim = self.local(fold.dim)
        init, *free = node.args
        box = self.box(node)
        lists = [n for n in free if fold.dim in n.dims]
        if not lists:
            raise refuse("TI09", "there is no list to reduce: no argument has neighbours.")
        (result,), (carried,) = fold.results, fold.carried
        x = [self.on(self.done[n], box) for n in free]
        if result.args and result.op in TABLE and len(free) == 1:
            first, *rest = result.args
            if first is carried and rest == [free[0]]:
                kind = TensorType(node.element)
                operand = x[0].tensor.on(x[0].tensor.dims.without(dim))
                f = build.operator(result.op, kind.on(operand.dims), operand)
                return build.call("reduce", f, self._start(init, operand.dims), x[0], static=(dim,))
        params = [build.var(f"x{k}", e.tensor.on(e.tensor.dims.without(dim))) for k, e in enumerate(x)]
        state = TensorType(node.element, _bcast([p.type.dims for p in params]))
        acc = build.var("acc", state)
        (body,) = self._body(fold, {carried: acc}, dict(zip(free, params, strict=True)))
        f = build.function([acc, *params], body)
        return build.call("reduce", f, self._start(init, state.dims), *x, static=(dim,))

    def _start(self, init: Node, dims: Dims) -> Expr:
        """The initial value of a fold, cut to dims."""
        return self.on(self.done[init], {d: (i.start, i.stop) for d, i in dims.items})

    def _scan(self, node: Node, fold: Fold) -> Expr:
        """The states of a scan, a tuple if several are carried, on the levels that are needed or on its whole column.

        The column is the levels that operands have, where a limit was found for the scan (`columns`), else the one that
        its column axis fixes (`fold.column`), else the levels that are needed. Where `columns` limits it, needed levels
        outside get the state of the nearest level, which the report says. An operand without the dim of the column is
        the same at all levels; if all are such, the positions are passed along, so that the scan has a column.
        """
        count = len(fold.carried)
        inits, free = node.args[:count], node.args[count:]
        box = self.box(node)
        column = self.columns.get(node) or fold.column or box[fold.dim]
        whole = {**box, fold.dim: column}
        x = [self.on(self.done[n], whole) for n in free]
        if not any(fold.dim in e.tensor.dims for e in x):
            x.append(self.position(fold.dim, column))
        params = [build.var(f"x{k}", e.tensor.on(e.tensor.dims.without(fold.dim))) for k, e in enumerate(x)]
        starts = [self.on(self.done[i], whole) for i in inits]
        dims = _bcast([p.type.dims for p in params] + [s.tensor.dims for s in starts])
        elements = tuple(c.element for c in fold.carried)
        element = elements[0] if count == 1 else TupleElement(elements)
        state = build.var("state", TensorType(element, dims))
        carried = {
            c: build.call("tuple_get", state, static=(k,)) if count > 1 else state for k, c in enumerate(fold.carried)
        }
        results = self._body(fold, carried, dict(zip(free, params, strict=False)))
        body = build.call("make_tuple", *results) if count > 1 else results[0]
        start = build.call("make_tuple", *starts) if count > 1 else starts[0]
        f: Lambda = build.function([state, *params], body)
        states = build.call("scan", f, start, *x, static=(fold.forward, fold.dim))
        if node not in self.columns:
            return states
        have, wanted = Interval(*column), Interval(*box[fold.dim]) | Interval(*column)
        self.report.append(f"scan: the nearest of {fold.dim}{have} on {fold.dim}{wanted}")
        return _extend_to_nearest(states, fold.dim, have, wanted)


def _extend_to_nearest(x: Expr, dim: str, have: Interval, wanted: Interval) -> Expr:
    """A tensor on more points of a dim: outside of those that it has it is as at the nearest one."""
    parts: list[Expr] = []
    for start, stop, edge in ((wanted.start, have.start, have.start), (have.stop, wanted.stop, have.stop - 1)):
        if start < stop:
            whole = build.call("add_dim", build.literal(edge), static=(dim, start, stop))
            parts.append(build.call("gather", x, whole, static=((dim,), "clamp")))
    return build.call("concat", x, *parts)


def _bcast(parts: Sequence[Dims]) -> Dims:
    """The dims of all parts, each on the intersection of its intervals."""
    intervals: dict[str, Interval] = {}
    for dims in parts:
        for d, i in dims.items:
            intervals[d] = i if d not in intervals else intervals[d] & i
    return Dims(tuple(intervals.items()))
