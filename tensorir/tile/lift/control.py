"""Branches and loops: a region ends in ways that conditions tell apart, and what follows runs where it is reached.

`continue`, `break` and `return` inside of an `if` end the regions around it, up to the loop or the kernel. So a region
gives its exits: for each kind the condition under which it is taken, and the values that it hands on. What stands
behind an `if` that may have left runs under the condition that it has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorir.integers.affine import number, quotient, variable
from tensorir.ir.build import call, literal, var
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, INT32, SCALARS, TensorType
from tensorir.lifting.emission.tensors import converted, spread
from tensorir.lifting.region.nodes import Carried, Condition, For, If, Index, Joined, Node, Rule, While
from tensorir.runtime.errors import Span, refuse
from tensorir.tile.lift.arithmetic import same_bits, unsigned
from tensorir.tile.lift.values import (
    Context,
    Exit,
    Exits,
    Number,
    Pointers,
    Token,
    Translate,
    Value,
    boolean,
    fitting,
    opposite,
    truth,
)
from tensorir.tile.nodes import Operation, Region
from tensorir.tile.types import ELEMENTS

I1, I64 = ELEMENTS["i1"], ELEMENTS["i64"]
MOST_ROUNDS = (1 << 31) - 1


def control(translate: Translate) -> Translate:
    """The body of a kernel, with the translation of the operations that have no regions of their own."""
    return lambda t, op: (_run(t, op.regions[0].operations, translate), None)[1]


def _run(t: Context, operations: Sequence[Operation], translate: Translate) -> Exits:
    for k, op in enumerate(operations):
        if op.row.ends:
            return {op.name: Exit(None, tuple(t.values[v] for v in op.values))}
        match op.name:
            case "if":
                exits = _choice(t, op, translate)
                through = exits.pop("yield", None)
                if through is None:
                    return exits
                t.define(op, *through.values)
                if exits:
                    assert through.when is not None
                    with t.body() as nodes:
                        rest = _run(t, operations[k + 1 :], translate)
                    return _merged(t, through.when, (rest, nodes), (exits, []), op.span)
            case "for":
                _for(t, op, translate)
            case "loop":
                _loop(t, op, translate)
            case _:
                translate(t, op)
    return {"yield": Exit(None, ())}


def _branch(t: Context, op: Operation, k: int, translate: Translate) -> Exits:
    if k >= len(op.regions):
        return {"yield": Exit(None, ())}
    return _run(t, op.regions[k].operations, translate)


def _choice(t: Context, op: Operation, translate: Translate) -> Exits:
    c = t.number(op.operand("condition"))
    known = truth(c, t.ranges)
    if known is not None:
        return _branch(t, op, 0 if known else 1, translate)
    c = replace(c, written=t.named(c.expr, op.span))
    with t.body() as yes:
        taken = _branch(t, op, 0, translate)
    with t.body() as no:
        other = _branch(t, op, 1, translate)
    return _merged(t, c, (taken, yes), (other, no), op.span)


def conditions_of(t: Context, c: Number, span: Span) -> tuple[Condition, ...]:
    """A truth value as conditions of a node."""
    return c.bounds if c.bounds is not None else (t.variable(c.expr, span),)


def negated(t: Context, c: Number, span: Span) -> Number:
    """That a truth value is not so."""
    return replace(
        c, written=t.named(call("not", c.expr), span), bounds=None if c.bounds is None else opposite(c.bounds)
    )  # fmt: skip


Side = tuple[Exits, list[Node]]


def _merged(t: Context, c: Number, yes: Side, no: Side, span: Span) -> Exits:
    """The exits of a choice, whose nodes are made here."""
    joined: list[Joined] = []
    found: Exits = {}
    (a, body), (b, other) = yes, no
    where = conditions_of(t, c, span)
    for kind in {**a, **b}:
        x, y = a.get(kind), b.get(kind)
        when: Number | None = None
        if x is None or y is None:
            one = x or y
            assert one is not None
            if one.when is None:
                when = c if y is None else negated(t, c, span)
            else:
                holds, never = one.when.expr, literal(False)
                when = _join(t, joined, holds if y is None else never, never if y is None else holds)
            values = tuple(
                _with(t, joined, v, v if x is not None else None, v if y is not None else None, span)
                for v in one.values
            )
        else:
            if x.when is not None or y.when is not None:
                holds, also = (literal(True) if e.when is None else e.when.expr for e in (x, y))
                when = _join(t, joined, holds, also)
            values = tuple(_with(t, joined, v, v, w, span) for v, w in zip(x.values, y.values, strict=True))
        found[kind] = Exit(when, values)
    if body or other or joined:
        t.nodes.append(If(where, tuple(body), tuple(other), tuple(joined), span))
    return found


def _join(t: Context, joined: list[Joined], value: Expr, otherwise: Expr) -> Number:
    result = Var(t.fresh("b"), TensorType(BOOL))
    joined.append(Joined(result, value, otherwise))
    return boolean(result, (), I1)


def _with(t: Context, joined: list[Joined], like: Value, a: Value | None, b: Value | None, span: Span) -> Value:
    """A value that leaves a choice; where one side has none, nobody asks for it."""
    if a is b or isinstance(like, Token):
        return like
    if isinstance(like, Pointers):
        if isinstance(a, Pointers) and isinstance(b, Pointers) and a.memory != b.memory:
            raise _two_memories(span)
        parts = [x.offset if isinstance(x, Pointers) else None for x in (a, b)]
        offset = _with(t, joined, like.offset, parts[0], parts[1], span)
        assert isinstance(offset, Number)
        return replace(like, offset=offset)
    if not isinstance(like, Number):
        raise refuse("TL40", "a view leaves a choice.", at=span)
    if isinstance(a, Number) and isinstance(b, Number) and a.sum is not None and a.sum == b.sum:
        return a
    result = t.inside(like.axes, like.element, span, "j")
    value, otherwise = (spread(x.expr if isinstance(x, Number) else t.zero(like), like.dims) for x in (a, b))
    joined.append(Joined(result, value, otherwise))
    return Number(like.axes, like.element, like.scalar, result)


def _two_memories(span: Span) -> Exception:
    help = "choose between the values that they point to."
    return refuse("TL40", "a pointer points into one argument or another, as data or the block tell.", help, at=span)


# Loops


class _State:
    """Loop-carried values: variables for them, and nodes for their next values."""

    def __init__(self, t: Context, first: Sequence[Value], span: Span) -> None:
        self.t, self.first, self.span = t, first, span
        self.insides: list[Value] = [self._variable(v) for v in first]

    def _variable(self, v: Value) -> Value:
        match v:
            case Pointers():
                return replace(v, offset=self._number(v.offset))
            case Number():
                return self._number(v)
            case Token():
                return v
            case _:
                raise refuse("TL40", "a loop carries a view.", at=self.span)

    def _number(self, n: Number) -> Number:
        return Number(n.axes, n.element, n.scalar, self.t.inside(n.axes, n.element, self.span))

    def carried(self, following: Sequence[Value]) -> tuple[list[Carried], list[Value]]:
        """The nodes, and what is there behind the loop."""
        found: list[Carried] = []
        results: list[Value] = []
        for first, inside, after in zip(self.first, self.insides, following, strict=True):
            if isinstance(inside, Token):
                results.append(inside)
                continue
            if isinstance(inside, Pointers) and isinstance(after, Pointers) and after.memory != inside.memory:
                raise _two_memories(self.span)
            a, b, c = (v.offset if isinstance(v, Pointers) else v for v in (first, inside, after))
            assert isinstance(a, Number) and isinstance(b, Number) and isinstance(c, Number)
            assert isinstance(b.written, Var)
            result = self.t.inside(b.axes, b.element, self.span, "r")
            found.append(Carried(b.written, a.whole, c.whole, result))
            made = Number(b.axes, b.element, b.scalar, result)
            results.append(replace(inside, offset=made) if isinstance(inside, Pointers) else made)
        return found, results


def _for(t: Context, op: Operation, translate: Translate) -> None:
    lower, upper, step = t.numbers([op.operand(n) for n in ("lowerBound", "upperBound", "step")])
    first = [t.values[v] for v in op.operand("initValues")]
    dim, span = t.fresh("i"), op.span
    stop, most = _rounds(t, op, lower, upper, step)
    if most <= 0:
        t.define(op, *first)
        return
    t.ranges[dim] = (0, most - 1)
    region = op.regions[0]
    index, *names = region.arguments
    t.values[index] = _index(t, lower, step, dim, span)
    state = _State(t, first, span)
    t.values.update(zip(names, state.insides, strict=True))
    with t.body() as nodes:
        if isinstance(t.values[index], Number) and t.number(index).sum is None:
            t.values[index] = replace(t.number(index), written=t.named(t.number(index).expr, span))
        exits = _run(t, region.operations, translate)
    carried, results = state.carried(exits["continue"].values if "continue" in exits else ())
    t.nodes.append(For(dim, number(0), stop, tuple(nodes), Rule.IN_ORDER, tuple(carried), f"for {dim}", span))
    t.define(op, *results)


def _rounds(t: Context, op: Operation, lower: Number, upper: Number, step: Number) -> tuple[Index, int]:
    """The trip count of a loop, and its upper bound."""
    is_unsigned = bool(op.attribute("unsignedCmp"))
    by = step.known
    if by is not None and is_unsigned:
        by %= 1 << step.element.bits
    if by is not None and by <= 0:
        return number(0), 0
    if by is not None and lower.sum is not None and upper.sum is not None:
        spans = [n.sum.range(t.ranges) for n in (lower, upper) if n.sum is not None]
        if not is_unsigned or all(s is not None and s[0] >= 0 for s in spans):
            rounds = quotient(upper.sum.minus(lower.sum).plus(number(by - 1)), by, t.ranges)
            found = rounds.range(t.ranges)
            if found is not None:
                return rounds, min(found[1], MOST_ROUNDS)
    bits = lower.element.bits
    if bits < 32:
        parts = [converted(unsigned(n.expr, n.element) if is_unsigned else n.expr, INT32) for n in (lower, upper, step)]
        bits, is_unsigned = 32, False
    else:
        parts = [n.expr for n in (lower, upper, step)]
    kind = SCALARS[f"uint{bits}"]
    low, high, width = (same_bits(e, kind) for e in parts)
    before = call("less", low, high) if is_unsigned else call("less", parts[0], parts[1])
    one = literal(1, kind)
    # a distance that is positive is one without a sign, too
    rest = call("minus", call("minus", high, low), one) if lower.known != 0 else call("minus", high, one)
    if by != 1:
        rest = call("divides", rest, call("max", width, one))
        if by is None:
            zero = literal(0, parts[2].tensor.leaves[0])
            positive = call("greater", width, literal(0, kind)) if is_unsigned else call("greater", parts[2], zero)
            before = call("and", before, positive)
    count = call("min", call("plus", rest, one), literal(MOST_ROUNDS, kind))
    count = call("if", before, converted(count, INT32), literal(0, INT32))
    return t.variable(count, op.span), MOST_ROUNDS


def _index(t: Context, lower: Number, step: Number, dim: str, span: Span) -> Number:
    """The induction variable in a round."""
    if lower.sum is not None and step.known is not None:
        total = lower.sum.plus(variable(dim).times(step.known))
        if fitting(total, lower.element, t.ranges) is not None:
            return replace(lower, written=None, sum=total)
    counter = converted(var(dim, TensorType(INT32)), lower.scalar)
    return Number((), lower.element, lower.scalar, call("plus", lower.expr, call("multiplies", counter, step.expr)))


def _loop(t: Context, op: Operation, translate: Translate) -> None:
    """Rounds until one breaks: whether to go on is carried, and so is what the break hands on."""
    span = op.span
    first = [t.values[v] for v in op.operand("initValues")]
    going = Var(t.fresh("g"), TensorType(BOOL))
    state = _State(t, first, span)
    region: Region = op.regions[0]
    t.values.update(zip(region.arguments, state.insides, strict=True))
    with t.body() as nodes:
        exits = _run(t, region.operations, translate)
        left, on = exits.get("break"), exits.get("continue")
        # where the loop breaks nobody asks for what it would carry on
        following = state.insides if on is None else on.values
        more: Expr = literal(False) if on is None else literal(True) if on.when is None else on.when.expr
    if left is None:
        raise refuse("TL40", "this loop never breaks.", "break out of it under a condition.", at=span)
    carried, _ = state.carried(following)
    results: list[Value] = []
    for v in left.values:
        n = v.offset if isinstance(v, Pointers) else v
        if isinstance(n, Token):
            results.append(n)
            continue
        assert isinstance(n, Number)
        inside, result = t.inside(n.axes, n.element, span, "l"), t.inside(n.axes, n.element, span, "r")
        carried.append(Carried(inside, spread(t.zero(n), n.dims), n.whole, result))
        made = Number(n.axes, n.element, n.scalar, result)
        results.append(replace(v, offset=made) if isinstance(v, Pointers) else made)
    last = Var(t.fresh("r"), TensorType(BOOL))
    carried.append(Carried(going, literal(True), more, last))
    t.nodes.append(While((), going, tuple(nodes), tuple(carried), span))
    t.define(op, *results)
