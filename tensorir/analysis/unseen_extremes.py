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
    """The folds by max or min, by identity, whose value does not matter in rows that hold a NaN, because all results
    are NaN there with any value (as in a softmax).

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
    """The tensor x of `reduce(max, ..)(if isnan(x) then c else x)`, whose dims are those of the result and the folded
    one; None for other nodes.
    """
    match e:
        case Call(
            "reduce", (Operator("max" | "min"), _, Call("if", (Call("isnan", (x,)), replacement, y)) as chosen)
        ) if x == y and literal_of(replacement) is not None and x.tensor.dims.items == chosen.tensor.dims.items:
            return x if {*e.tensor.dims.names, e.static.dim} == set(x.tensor.dims.names) else None
        case _:
            return None


def takes_nan_along(op: str, operand: int) -> bool:
    """True if an elementwise float operation gives NaN wherever its operand number `operand` is NaN.

    >>> takes_nan_along("exp", 0), takes_nan_along("divides", 1), takes_nan_along("max", 0)
    (True, True, False)
    """
    builtin = TABLE[op]
    if not builtin.elementwise or builtin.chooses:
        return False
    is_unary = len(builtin.form[0]) == 1 and builtin.slope != "zero"
    return is_unary or op in ("cast", "divides") or any(operand in group for group in builtin.linear)


EVERYWHERE = ""


@dataclass(frozen=True, slots=True)
class _Facts:
    """The abstract value of an expression in a row that holds a NaN, in two programs that differ in the extreme there.

    A NaN that is known is one in both.
    """

    differs: bool = False
    """True if the value may depend on the extreme."""
    nan: str | None = None
    """EVERYWHERE: NaN in the whole row; a dim: NaN at some point along it; None: not known."""
    rows: tuple[str, ...] = ()
    """The dims that number the rows, in the order of the extreme's dims."""


SAME = _Facts()


class _Unproven(Exception):
    pass


def _is_unseen(extreme: Call, fencil: Fencil) -> bool:
    """True if the proof succeeds that no result depends on the extreme in rows with a NaN."""
    source = _source(extreme)
    assert source is not None
    dependents = {id(extreme)}
    for e in postorder(*values(fencil.closures)):
        if not dependents.isdisjoint(map(id, e.children)):
            dependents.add(id(e))
    proof = _Proof(extreme, source, extreme.static.dim, extreme.tensor.dims.names, dependents)
    try:
        return not any(v.differs for v in proof.all(values(fencil.closures), {}, True))
    except _Unproven:
        return False


@dataclass(slots=True)
class _Proof:
    """Abstract interpretation in a row with a NaN: `extreme` folds `x` along `dim`; `row` are its other dims. Raises
    `_Unproven` where nothing can be shown.
    """

    extreme: Call
    x: Expr
    dim: str
    row: tuple[str, ...]
    dependents: set[int]
    """The nodes that depend on the extreme, by identity."""
    in_loop: bool = False
    """True in the body of a loop."""
    loops: dict[tuple[int, ...], list[_Facts]] = field(default_factory=dict[tuple[int, ...], list[_Facts]])

    def all(self, roots: Sequence[Expr], env: Mapping[Var, _Facts], nan_in_this_round: bool) -> list[_Facts]:
        """Facts of expressions; the NaN in x is assumed if `nan_in_this_round`, otherwise a loop met it in an earlier
        round.
        """
        facts: dict[int, _Facts] = {}
        for e in _outside_of_functions(roots):
            value = self._node_facts(e, env, facts)
            if nan_in_this_round and (e is self.x or (isinstance(e, Var) and e == self.x)):
                if value.differs and value.rows != self.row:
                    raise _Unproven
                value = replace(value, nan=self.dim, rows=self.row)
            # what is NaN in both programs is the same in both
            facts[id(e)] = replace(value, differs=False) if value.nan == EVERYWHERE else value
        return [facts[id(e)] for e in roots]

    def _node_facts(self, e: Expr, env: Mapping[Var, _Facts], facts: Mapping[int, _Facts]) -> _Facts:
        """Facts of one node from those of its operands; raises `_Unproven` if a dependent operand goes into an unknown
        builtin.
        """
        if e is self.extreme:
            return _Facts(True, None, self.row)
        if isinstance(e, Var):
            return env.get(e, SAME)
        if not isinstance(e, Call):
            return _Facts(id(e) in self.dependents)
        operand_facts = [facts[id(a)] for a in e.args]
        match e:
            case Call(op) if TABLE[op].control is Control.LOOP and id(e.args[1]) in self.dependents:
                return self._loop(e, operand_facts)
            case Call(op, (Operator(inner_op), _, *operands_of_fold)) if TABLE[op].skips:
                folded, dims = self._alone(operand_facts), (e.static.dim,)
                if TABLE[inner_op].linear and all(map(_is_float, operands_of_fold)):
                    return _summed(folded, dims)
                return _summed(replace(folded, nan=None), dims) if folded.differs else SAME
            case Call("contract", operands) if e.static.element.is_float:
                passes_nan = [
                    _is_float(a) and _covers(e, a, fact) for a, fact in zip(operands, operand_facts, strict=True)
                ]
                return _summed(_met(e, operand_facts, passes_nan), e.static.dims)
            case Call(op, (x,)) if TABLE[op].relocates:
                return _relocated(e, x, operand_facts[0])
            case Call(op) if TABLE[op].elementwise:
                passes_nan = [
                    takes_nan_along(op, k) and _is_float(a) and _is_float(e) and _covers(e, a, fact)
                    for k, (a, fact) in enumerate(zip(e.args, operand_facts, strict=True))
                ]
                return _met(e, operand_facts, passes_nan)
            case _:
                if any(fact.differs for fact in operand_facts):
                    raise _Unproven
                return SAME

    def _alone(self, operand_facts: Sequence[_Facts]) -> _Facts:
        """Facts of the only operand of a fold whose start does not depend on the extreme."""
        _, init, *operands = operand_facts
        if len(operands) != 1 or init.differs:
            raise _Unproven
        return operands[0]

    # Loops

    def _loop(self, e: Call, operand_facts: Sequence[_Facts]) -> _Facts:
        """Facts of one carry of a loop, cached; loops within loops, and dependent initial values, are unproven."""
        condition, step, *starts = e.args
        if self.in_loop or any(id(a) in self.dependents for a in starts) or any(v.differs for v in operand_facts[2:]):
            raise _Unproven
        assert isinstance(condition, Lambda) and isinstance(step, Lambda)
        key = tuple(map(id, e.args))
        if key not in self.loops:
            self.loops[key] = self._carried(condition, step)
        position: int = e.static.carried
        return self.loops[key][position]

    def _carried(self, condition: Lambda, step: Lambda) -> list[_Facts]:
        """Facts of the carries after any number of rounds, as a fixed point: unaffected, NaN in the whole row, or
        dependent.

        Each round is analysed with the NaN in it (and nothing affected before), and after it.
        """
        poisoned, unknown = _Facts(False, EVERYWHERE, self.row), _Facts(True, None, self.row)
        states = [SAME] * len(step.results)
        inner = replace(self, in_loop=True)
        while True:
            states_after = list(states)
            for here in (False, True):
                # before the round with the NaN nothing differs
                before = [SAME] * len(states) if here else states
                env = dict(zip(step.params[1:], before, strict=True))
                for position, fact in enumerate(inner.all(step.results, env, here)):
                    if fact.differs and fact.rows != self.row:
                        raise _Unproven
                    if states[position] == SAME and fact.differs:
                        states_after[position] = poisoned
                    elif states[position] == poisoned and not (fact.nan == EVERYWHERE and fact.rows == self.row):
                        states_after[position] = unknown
                outer = dict(zip(condition.params[1:], before, strict=True))
                if any(fact.differs for fact in inner.all(condition.results, outer, here)):
                    raise _Unproven
            if states_after == states:
                return states
            states = states_after


def _outside_of_functions(roots: Iterable[Expr]) -> Iterator[Expr]:
    """Every node below the roots, children first, functions without their bodies."""
    return nodes.postorder(roots, lambda node: node.args if isinstance(node, Call) else ())


def _is_float(e: Expr) -> bool:
    return isinstance(e.type, TensorType) and all(s.is_float for s in e.type.leaves)


def _covers(e: Call, operand: Expr, fact: _Facts) -> bool:
    """True if no other operand is without a point of the dim along which this one is NaN somewhere."""
    if not fact.nan:
        return True
    whole = operand.tensor.dims[fact.nan]
    return all(fact.nan not in a.tensor.dims or a.tensor.dims[fact.nan].covers(whole) for a in e.args)


def _met(e: Call, operand_facts: Sequence[_Facts], passes_nan: Sequence[bool]) -> _Facts:
    """Facts of an elementwise operation; `passes_nan` has for each operand if its NaN makes the result NaN.

    Raises `_Unproven` if dependent operands number their rows by different dims.
    """
    differs = any(fact.differs for fact in operand_facts)
    rows = {fact.rows for fact in operand_facts if fact.differs or fact.nan is not None}
    if len(rows) > 1:
        if differs:
            raise _Unproven
        return SAME
    if not rows:
        return SAME
    nans = [fact.nan for fact, passes in zip(operand_facts, passes_nan, strict=True) if passes and fact.nan is not None]
    nan = EVERYWHERE if EVERYWHERE in nans else nans[0] if nans else None
    if e.op == "if" and operand_facts[1].nan == operand_facts[2].nan == EVERYWHERE:
        nan = EVERYWHERE
    return _Facts(differs, nan, rows.pop()) if differs or nan is not None else SAME


def _summed(fact: _Facts, dims: Sequence[str]) -> _Facts:
    """Facts of a sum over dims: NaN in the whole row if the operand has a NaN along one of them."""
    if not fact.differs and fact.nan is None:
        return SAME
    if not set(dims).isdisjoint(fact.rows):
        if fact.differs:
            raise _Unproven
        return SAME
    return replace(fact, nan=EVERYWHERE) if fact.nan in dims else fact


def _relocated(e: Call, x: Expr, fact: _Facts) -> _Facts:
    """Facts of an operand read at other positions, whose dims may be renamed or read at computed coordinates."""
    (access,) = e.accesses or (None,)
    assert access is not None
    new_dims = {d: access.renamed.get(d, "" if d in access.at else d) for d in x.tensor.dims}
    if any(not new_dims.get(d, d) for d in fact.rows):
        if fact.differs:
            raise _Unproven
        return SAME
    nan = new_dims[fact.nan] if fact.nan else fact.nan
    keeps_nan = not fact.nan or (bool(nan) and e.tensor.dims[nan or ""] == x.tensor.dims[fact.nan])
    return replace(fact, nan=nan if keeps_nan else None, rows=tuple(new_dims.get(d, d) for d in fact.rows))
