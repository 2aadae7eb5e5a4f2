"""Overlaps told digit by digit, against exact sets."""

from __future__ import annotations

import random

import pytest

from tensorir.lift.accesses.overlap import overlap
from tensorir.lift.accesses.sets import integer_set, text
from tensorir.lift.nests.affine import Affine, number, variable


def an_index(r: random.Random, names: list[str]) -> Affine:
    total = number(r.choice([0, 0, 0, 1, 2, 8]))
    for name in r.sample(names, r.randint(0, min(3, len(names)))):
        total = total.plus(variable(name).times(r.choice([1, 1, 2, 4, 8, 16, -1])))
    return total


@pytest.mark.parametrize("seed", range(300))
def test_what_digits_tell_of_two_accesses_is_what_exact_sets_tell(seed: int):
    r = random.Random(seed)
    shared = ["i", "j", "k"][: r.randint(1, 3)]
    own = {"a": [*shared, "p", "q"][: len(shared) + r.randint(0, 2)], "b": [*shared, "p", "r"][: len(shared) + 2]}
    box = {s: {n: (low := r.choice([0, 0, 1]), low + r.choice([0, 1, 3, 7])) for n in own[s]} for s in own}
    count = r.randint(1, 2)
    x = [an_index(r, own["a"]) for _ in range(count)]
    y = [i if r.random() < 0.5 and i.names <= set(own["b"]) else an_index(r, own["b"]) for i in x]
    found = overlap(x, y, box["a"], box["b"], shared)
    if found is None:
        return
    named = {s: {n: f"{n}_{s}" for n in own[s]} for s in own}
    variables = [*named["a"].values(), *named["b"].values()]
    base = [f"{low} <= {n}_{s} <= {high}" for s in own for n, (low, high) in box[s].items()]
    base += [f"{text(i, named['a'])} = {text(j, named['b'])}" for i, j in zip(x, y, strict=True)]
    equal = [f"{n}_a = {n}_b" for n in shared]

    def some(*more: str) -> bool:
        return not integer_set(variables, [*base, *more]).is_empty()

    assert found.inside == some(*equal)
    for k, n in enumerate(shared):
        assert (k in found.forward) == some(*equal[:k], f"{n}_a < {n}_b")
        assert (k in found.backward) == some(*equal[:k], f"{n}_a > {n}_b")
