"""Several steps of a program as one: what a step gives is what the next one reads, and the types say how wide that is.

>>> import tensorir as ti
>>> f = ti.parse("f(y: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) { y ← x; y[I[1:9]] ← ⟪I, -1⟫(x); }")
>>> print(chained(f, Feedback({"x": 0}, ("y",)), 2).program)
f_2_steps(y: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) {
  y ← let t1 = update(x, subset(⟪I, -1⟫(x), I[1:9])); update(t1, subset(⟪I, -1⟫(t1), I[1:9]));
}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorir.distribution.whole_results import whole_results
from tensorir.ir.build import call, closure, fencil, free_name, var
from tensorir.ir.nodes import Expr, Fencil, Var
from tensorir.ir.rewrite import substitute_all
from tensorir.ir.substitution import inlined
from tensorir.ir.types import TupleElement

__all__ = ["Chained", "Feedback", "chained", "single_results"]


@dataclass(frozen=True, slots=True)
class Feedback:
    """What the arrays of a state are to a program, and where each comes from in the next one."""

    reads: Mapping[str, int]
    """By parameter, which array of the state it is; others are the same in all steps."""
    following: tuple[str | int, ...]
    """Of each array of the next state, the result that it is, or which array of this state."""


@dataclass(frozen=True, slots=True)
class Chained:
    """Several steps: a program, and where each array of the last state comes from."""

    program: Fencil
    reads: Mapping[str, int]
    following: tuple[str | int, ...]


def chained(program: Fencil, feedback: Feedback, steps: int) -> Chained | None:
    """So many steps as one; None where what a step gives is on other intervals than what the next one reads."""
    slots = _slots(program, feedback)
    if slots is None:
        return None
    whole = whole_results(program)
    constant = [p for p in program.inputs if p.name not in feedback.reads]
    now: list[Expr | int] = [slots.get(k, k) for k in range(len(feedback.following))]
    for _ in range(steps):
        given: dict[Var, Expr] = {}
        for name, k in feedback.reads.items():
            value = now[k]
            assert not isinstance(value, int)
            given[program[name]] = value
        results = dict(zip(whole, substitute_all(tuple(whole.values()), given), strict=True))
        now = [results[f] if isinstance(f, str) else now[f] for f in feedback.following]
    taken = {v.name for v in (*slots.values(), *constant)}
    outputs: list[tuple[Var, Expr]] = []
    following: list[str | int] = []
    given_back = {v: k for k, v in slots.items()}
    for value, f in zip(now, feedback.following, strict=True):
        if isinstance(value, int):
            following.append(value)
        elif isinstance(value, Var) and value in given_back:
            following.append(given_back[value])
        else:
            name = _last_result(f, feedback)
            target = var(free_name(name, taken), program[name].type)
            outputs.append((target, value))
            following.append(target.name)
    made = inlined([e for _, e in outputs])
    read = frozenset[Var]().union(*(e.free for e in made))
    inputs = [v for v in (*slots.values(), *constant) if v in read]
    pairs = zip([p for p, _ in outputs], made, strict=True)
    several = fencil(
        f"{program.name}_{steps}_steps", [*(p for p, _ in outputs), *inputs], [closure(p, e) for p, e in pairs],
        program.span,
    )  # fmt: skip
    return Chained(several, {v.name: k for k, v in slots.items() if v in read}, tuple(following))


def single_results(program: Fencil) -> tuple[Fencil, dict[str, tuple[str, ...]]]:
    """The program with a result for each member of a tuple, and by result the names of its members in order.

    >>> import tensorir as ti
    >>> f = ti.parse("f(y: tensor<(float, float), I[0:9]>, x: tensor<float, I[0:9]>) { y ← (x, x × x); }")
    >>> print(single_results(f)[0])
    f(y_0: tensor<float, I[0:9]>, y_1: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) {
      let t1 = (x, x × x);
      y_0 ← t1[0];
      y_1 ← t1[1];
    }
    """
    taken = {p.name for p in program.params}
    outputs: list[tuple[Var, Expr]] = []
    names: dict[str, tuple[str, ...]] = {}
    for name, value in whole_results(program).items():
        members = _members(value)
        single = [name] if len(members) == 1 else [free_name(f"{name}_{k}", taken) for k in range(len(members))]
        outputs += [(var(n, m.tensor.on(program[name].type.dims)), m) for n, m in zip(single, members, strict=True)]
        names[name] = tuple(single)
    read = frozenset[Var]().union(*(e.free for _, e in outputs))
    inputs = [p for p in program.params if p in read]
    params = [*(p for p, _ in outputs), *(p for p in inputs if p.name not in {v.name for v, _ in outputs})]
    return fencil(program.name, params, [closure(p, e) for p, e in outputs], program.span), names


def _members(value: Expr) -> list[Expr]:
    """The scalar members of a value, from the first to the last."""
    if not isinstance(value.tensor.element, TupleElement):
        return [value]
    parts = (call("tuple_get", value, static=(k,)) for k in range(len(value.tensor.element.members)))
    return [m for part in parts for m in _members(part)]


def _slots(program: Fencil, feedback: Feedback) -> dict[int, Var] | None:
    """The parameter that each array of the state is: one that reads it, in this step or in one of those to come."""
    names: dict[int, str] = {}
    for name, k in feedback.reads.items():
        names.setdefault(k, name)
    kinds = {k: program[name].type for k, name in names.items()}
    for _ in feedback.following:
        for after, f in enumerate(feedback.following):
            if isinstance(f, int) and after in kinds:
                kinds.setdefault(f, kinds[after])
                names.setdefault(f, f"{names[after]}_before")
    for name, k in feedback.reads.items():
        if program[name].type.dims.items != kinds[k].dims.items:
            return None
    for after, f in enumerate(feedback.following):
        if after not in kinds:
            continue
        kind = program[f].type if isinstance(f, str) else kinds[f]
        if (kind.element, kind.dims.items) != (kinds[after].element, kinds[after].dims.items):
            return None
    taken = {p.name for p in program.inputs} - set(feedback.reads)
    return {k: var(free_name(names[k], taken), kinds[k]) for k in sorted(kinds)}


def _last_result(f: str | int, feedback: Feedback) -> str:
    """The result that an array of the state was, some steps before."""
    while isinstance(f, int):
        f = feedback.following[f]
    return f
