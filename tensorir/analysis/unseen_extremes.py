"""Extremes that pass NaNs over, of which nobody sees what they come to in a row that holds one.

A kernel's `max` drops NaN, and XLA's does not say what it does with one. But in a softmax a row with a NaN is NaN all
over, whatever its largest element was taken for: there any extreme will do. A proof follows two programs that differ
in the extreme of such rows alone, from it to the results: which values may differ, and which are NaN in both.

    m = max over j of (x, or -∞ for NaN)    differs in rows with a NaN
    e = exp(x - m)                          differs there, NaN somewhere along j
    e / (sum over j of e)                   the sum is NaN in both, so is the quotient

Of what a loop carries, that stays NaN which is NaN once a row had one: in a round in which the row is NaN already, and
in the round in which it becomes so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorir import nodes
from tensorir.analysis.uses import literal_of
from tensorir.ir.builtins import TABLE, Control
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Operator, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import TensorType

MOST = 16
"""Extremes of a program that are looked at, each of which takes a walk through it."""


def unseen_extremes(fencil: Fencil) -> frozenset[int]:
    """The folds by max or min, by identity, that may come to anything in rows that hold a NaN.

    >>> from tensorir.text import parse
    >>> text = '''f(y: tensor<float32, I[0:3], J[0:64]>, x: tensor<float32, I[0:3], J[0:64]>) {
    ...   let e = exp(x - reduce(max, float32(-inf), J)(if isnan(x) then float32(-inf) else x));
    ...   y ← %s; }'''
    >>> [len(unseen_extremes(parse(text % y))) for y in ("e / reduce(+, 0.0f, J)(e)", "e")]
    [1, 0]
    """
    roots = values(fencil.closures)
    candidates = [e for e in postorder(*roots) if isinstance(e, Call) and _source(e) is not None]
    if len(candidates) > MOST:
        return frozenset()
    return frozenset(id(e) for e in candidates if _is_unseen(e, fencil))


def _source(e: Call) -> Expr | None:
    """The operand of an extreme that drops NaN, on the dims of its rows and one more; None of other nodes."""
    match e:
        case Call("reduce", (Operator("max" | "min"), _, Call("if", (Call("isnan", (x,)), instead, y)) as chosen)) if (
            x == y and literal_of(instead) is not None and x.tensor.dims.items == chosen.tensor.dims.items
        ):
            return x if {*e.tensor.dims.names, e.static.dim} == set(x.tensor.dims.names) else None
        case _:
            return None


def takes_nan_along(op: str, operand: int) -> bool:
    """True if an elementwise operation on floats gives NaN wherever one of its operands is NaN.

    >>> takes_nan_along("exp", 0), takes_nan_along("divides", 1), takes_nan_along("max", 0)
    (True, True, False)
    """
    row = TABLE[op]
    if not row.elementwise or row.chooses:
        return False
    alone = len(row.form[0]) == 1 and row.slope != "zero"
    return alone or op in ("cast", "divides") or any(operand in group for group in row.linear)


EVERYWHERE = ""


@dataclass(frozen=True, slots=True)
class _Facts:
    """Facts of a value in a row that holds a NaN."""

    differs: bool = False
    """Whether it may be another one if the extreme is."""
    nan: str | None = None
    """Whether it is NaN: everywhere in the row, somewhere along a dim, or not that anybody knows."""
    rows: tuple[str, ...] = ()
    """The dims that tell the rows, in the order of those of the extreme."""


SAME = _Facts()


class _Unproven(Exception):
    pass


def _is_unseen(extreme: Call, fencil: Fencil) -> bool:
    x = _source(extreme)
    assert x is not None
    around = {id(extreme)}
    for e in postorder(*values(fencil.closures)):
        if not around.isdisjoint(map(id, e.children)):
            around.add(id(e))
    proof = _Proof(extreme, x, extreme.static.dim, extreme.tensor.dims.names, around)
    try:
        return not any(v.differs for v in proof.all(values(fencil.closures), {}, True))
    except _Unproven:
        return False


@dataclass(slots=True)
class _Proof:
    extreme: Call
    x: Expr
    dim: str
    row: tuple[str, ...]
    around: set[int]
    """The nodes that contain the extreme."""
    within: bool = False
    """Whether this is a loop's body."""
    loops: dict[tuple[int, ...], list[_Facts]] = field(default_factory=dict[tuple[int, ...], list[_Facts]])

    def all(self, roots: Sequence[Expr], env: Mapping[Var, _Facts], here: bool) -> list[_Facts]:
        """Facts of expressions; `here` says that the NaN is in this round, and not in one before."""
        facts: dict[int, _Facts] = {}
        for e in _outside_of_functions(roots):
            known = self._node_facts(e, env, facts)
            if here and (e is self.x or (isinstance(e, Var) and e == self.x)):
                if known.differs and known.rows != self.row:
                    raise _Unproven
                known = replace(known, nan=self.dim, rows=self.row)
            # what is NaN in both programs is the same in both
            facts[id(e)] = replace(known, differs=False) if known.nan == EVERYWHERE else known
        return [facts[id(e)] for e in roots]

    def _node_facts(self, e: Expr, env: Mapping[Var, _Facts], facts: Mapping[int, _Facts]) -> _Facts:
        if e is self.extreme:
            return _Facts(True, None, self.row)
        if isinstance(e, Var):
            return env.get(e, SAME)
        if not isinstance(e, Call):
            return _Facts(id(e) in self.around)
        args = [facts[id(a)] for a in e.args]
        match e:
            case Call(op) if TABLE[op].control is Control.LOOP and id(e.args[1]) in self.around:
                return self._loop(e, args)
            case Call(op, (Operator(by), _, *xs)) if TABLE[op].skips:
                v, dims = self._alone(args), (e.static.dim,)
                if TABLE[by].linear and all(map(_is_float, xs)):
                    return _summed(v, dims)
                return _summed(replace(v, nan=None), dims) if v.differs else SAME
            case Call("contract", operands) if e.static.element.is_float:
                return _summed(_met(e, args, [_is_float(a) for a in operands]), e.static.dims)
            case Call(op, (x,)) if TABLE[op].relocates:
                return _relocated(e, x, args[0])
            case Call(op) if TABLE[op].elementwise:
                strict = [
                    takes_nan_along(op, k) and _is_float(a) and _is_float(e) and _covers(e, a, v)
                    for k, (a, v) in enumerate(zip(e.args, args, strict=True))
                ]
                return _met(e, args, strict)
            case _:
                if any(v.differs for v in args):
                    raise _Unproven
                return SAME

    def _alone(self, args: Sequence[_Facts]) -> _Facts:
        """Facts of the one operand of a fold."""
        _, init, *rest = args
        if len(rest) != 1 or init.differs:
            raise _Unproven
        return rest[0]

    # Loops

    def _loop(self, e: Call, args: Sequence[_Facts]) -> _Facts:
        condition, step, *starts = e.args
        if self.within or any(id(a) in self.around for a in starts) or any(v.differs for v in args[2:]):
            raise _Unproven
        assert isinstance(condition, Lambda) and isinstance(step, Lambda)
        key = tuple(map(id, e.args))
        if key not in self.loops:
            self.loops[key] = self._carried(condition, step)
        which: int = e.static.carried
        return self.loops[key][which]

    def _carried(self, condition: Lambda, step: Lambda) -> list[_Facts]:
        """Facts of the carry of a loop, in a row that has held a NaN: as much as rounds keep."""
        nan, open = _Facts(False, EVERYWHERE, self.row), _Facts(True, None, self.row)
        states = [SAME] * len(step.results)
        inner = replace(self, within=True)
        while True:
            after = list(states)
            for here in (False, True):
                # before the round with the NaN nothing differs
                known = [SAME] * len(states) if here else states
                env = dict(zip(step.params[1:], known, strict=True))
                for k, v in enumerate(inner.all(step.results, env, here)):
                    if v.differs and v.rows != self.row:
                        raise _Unproven
                    if states[k] == SAME and v.differs:
                        after[k] = nan
                    elif states[k] == nan and not (v.nan == EVERYWHERE and v.rows == self.row):
                        after[k] = open
                outer = dict(zip(condition.params[1:], known, strict=True))
                if any(v.differs for v in inner.all(condition.results, outer, here)):
                    raise _Unproven
            if after == states:
                return states
            states = after


def _outside_of_functions(roots: Iterable[Expr]) -> Iterator[Expr]:
    """Every node below the roots, children first, functions without their bodies."""
    return nodes.postorder(roots, lambda node: node.args if isinstance(node, Call) else ())


def _is_float(e: Expr) -> bool:
    return isinstance(e.type, TensorType) and all(s.is_float for s in e.type.leaves)


def _covers(e: Expr, a: Expr, v: _Facts) -> bool:
    """True if a result goes as far as an operand along the dim in which that is NaN somewhere."""
    return not v.nan or e.tensor.dims[v.nan] == a.tensor.dims[v.nan]


def _met(e: Call, args: Sequence[_Facts], strict: Sequence[bool]) -> _Facts:
    """Facts of an elementwise operation, of which some operands pass their NaN on."""
    differs = any(v.differs for v in args)
    rows = {v.rows for v in args if v.differs or v.nan is not None}
    if len(rows) > 1:
        if differs:
            raise _Unproven
        return SAME
    if not rows:
        return SAME
    nans = [v.nan for v, s in zip(args, strict, strict=True) if s and v.nan is not None]
    nan = EVERYWHERE if EVERYWHERE in nans else nans[0] if nans else None
    if e.op == "if" and args[1].nan == args[2].nan == EVERYWHERE:
        nan = EVERYWHERE
    return _Facts(differs, nan, rows.pop()) if differs or nan is not None else SAME


def _summed(v: _Facts, dims: Sequence[str]) -> _Facts:
    """Facts of a fold over dims: a sum with a NaN in it is NaN."""
    if not v.differs and v.nan is None:
        return SAME
    if not set(dims).isdisjoint(v.rows):
        if v.differs:
            raise _Unproven
        return SAME
    return replace(v, nan=EVERYWHERE) if v.nan in dims else v


def _relocated(e: Call, x: Expr, v: _Facts) -> _Facts:
    """Facts of the elements of an operand elsewhere, of which some dims are others."""
    (access,) = e.accesses or (None,)
    assert access is not None
    names = {d: access.renamed.get(d, "" if d in access.at else d) for d in x.tensor.dims}
    if any(not names.get(d, d) for d in v.rows):
        if v.differs:
            raise _Unproven
        return SAME
    nan = names[v.nan] if v.nan else v.nan
    kept = not v.nan or (bool(nan) and e.tensor.dims[nan or ""] == x.tensor.dims[v.nan])
    return replace(v, nan=nan if kept else None, rows=tuple(names.get(d, d) for d in v.rows))
