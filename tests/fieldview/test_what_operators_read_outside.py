"""Cells of a notebook that are run again: an operator has the numbers and the functions of when it is called."""

import functools
import itertools
import math
from array import array
from collections import UserList, deque
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tensorir as ti
from tensorir.fieldview.closure_fingerprint import closure_fingerprint
from tests.effort import count_calls_of_python

(I,) = ti.dims("I")
X = ti.as_field({I: (0, 3)}, np.array([1.0, 2.0, 4.0]))
FIRST = """
step = 0.5

def scaled(x):
    return step * x

@ti.field_operator
def inner(x):
    return scaled(x) + 1.0

@ti.field_operator
def outer(x):
    return 10.0 * inner(x)

@ti.program
def write(x: ti.Field[[I], ti.float64], out: ti.Field[[I], ti.float64]):
    outer(x, out=out)
"""
AGAIN = {
    "a number": ("step = 2.0", 10 * (2.0 * X.data + 1)),
    "a function": ("def scaled(x):\n    return -x", 10 * (-X.data + 1)),
    "an operator": ("@ti.field_operator\ndef inner(x):\n    return x - 3.0", 10 * (X.data - 3)),
}


@pytest.mark.parametrize(("cell", "expected"), AGAIN.values(), ids=AGAIN)
def test_what_a_cell_changes_is_seen_by_operators_of_another(cell, expected):
    scope = {"ti": ti, "I": I}
    exec(FIRST, scope)
    before = 10 * (0.5 * X.data + 1)
    np.testing.assert_array_equal(scope["outer"](X).data, before)
    np.testing.assert_array_equal(scope["write"](X.data, np.zeros(3))["out"], before)
    exec(cell, scope)
    np.testing.assert_array_equal(scope["outer"](X).data, expected)
    np.testing.assert_array_equal(scope["write"](X.data, np.zeros(3))["out"], expected)


def test_a_variable_of_the_function_around_an_operator_may_change():
    factor = 2.0

    @ti.field_operator
    def scaled(x):
        return factor * x

    np.testing.assert_array_equal(scaled(X).data, 2 * X.data)
    factor = 3.0
    np.testing.assert_array_equal(scaled(X).data, 3 * X.data)


class Settings:
    rate = 2.0


def test_a_number_of_an_object_or_of_a_module_may_change(monkeypatch):
    settings = SimpleNamespace(offset=1.0)
    constants = ModuleType("constants")
    monkeypatch.setattr(constants, "scale", 1.0, raising=False)

    @ti.field_operator
    def f(x):
        return constants.scale * (Settings.rate * x + settings.offset)

    np.testing.assert_array_equal(f(X).data, 2 * X.data + 1)
    settings.offset = 5.0
    np.testing.assert_array_equal(f(X).data, 2 * X.data + 5)
    monkeypatch.setattr(Settings, "rate", 3.0)
    np.testing.assert_array_equal(f(X).data, 3 * X.data + 5)
    monkeypatch.setattr(constants, "scale", 10.0)
    np.testing.assert_array_equal(f(X).data, 10 * (3 * X.data + 5))


LIMITS = (math.nan, 1, "text", None)


def test_what_stays_as_it_is_is_traced_once():
    @ti.field_operator
    def limited(x):
        return ti.where(x > LIMITS[1], x, LIMITS[0])

    for _ in range(2):
        limited(X)
    assert len(limited.plans) == 1


class Model:
    """A number of its own, one of its class, one that another object holds, and a property."""

    rate = 2.0

    def __init__(self) -> None:
        self.factor, self.inner = 1.0, SimpleNamespace(table=SimpleNamespace(entry=1.0))

    def flux(self, x):
        return self.rate * self.factor * self.depth * x

    def __call__(self, x):
        return self.flux(x)

    @property
    def depth(self) -> float:
        return self.inner.table.entry

    @ti.field_operator
    def step(self, x):
        return self.flux(x)


MODELS = {
    "a method": lambda model: ti.field_operator(lambda x: model.flux(x)),
    "a call": lambda model: ti.field_operator(lambda x: model(x)),
    "an operator as a method": lambda model: model.step,
    "an argument": lambda model: functools.partial(ti.field_operator(lambda x, m: m.flux(x)), m=model),
    "a method as an argument": lambda model: lambda x: ti.field_operator(lambda x, f: f(x))(x, model.flux),
}


@pytest.mark.parametrize("way", MODELS)
def test_what_methods_read_of_their_object_may_change(way, monkeypatch):
    model = Model()
    f = MODELS[way](model)
    np.testing.assert_array_equal(f(X).data, 2 * X.data)
    model.factor = 3.0
    np.testing.assert_array_equal(f(X).data, 6 * X.data)
    model.inner.table.entry = 5.0
    np.testing.assert_array_equal(f(X).data, 30 * X.data)
    monkeypatch.setattr(Model, "rate", 7.0)
    np.testing.assert_array_equal(f(X).data, 105 * X.data)


class Behind(Model):
    """A model whose methods lead to those of the class behind, which read the object."""

    def flux(self, x):
        return super().flux(x)

    @property
    def depth(self) -> float:
        return Model.depth.fget(self)

    @classmethod
    def scaled(cls, x):
        return cls.rate * x


@pytest.mark.parametrize("run", [lambda f: ti.field_operator(f)(X).data, lambda f: ti.jit(f)(X.data)])
def test_what_methods_of_classes_behind_read_may_change(run, monkeypatch):
    model = Behind()
    np.testing.assert_array_equal(run(model.flux), 2 * X.data)
    model.factor = 3.0
    np.testing.assert_array_equal(run(model.flux), 6 * X.data)
    model.inner.table.entry = 5.0
    np.testing.assert_array_equal(run(model.flux), 30 * X.data)
    model.rate = 1.0
    np.testing.assert_array_equal(run(model.flux), 15 * X.data)
    monkeypatch.setattr(Model, "rate", 7.0)
    np.testing.assert_array_equal(run(model.scaled), 7 * X.data)


@dataclass
class Numbers:
    entries: list = field(default_factory=lambda: [1.0, 1.0])


class Rates(list):
    scale = 1.0


def scale(x):
    return scale.factor * x


scale.factor = 1.0


def put(holder, key, value):
    holder[key] = value


def through(holder):
    return rate(holder)


def rate(holder):
    return holder.rate


HOLDERS = {
    "a dict": ({"a": 1.0}, lambda w: w["a"], lambda w: put(w, "a", 3.0)),
    "a list": ([1.0, "no number"], lambda w: w[0], lambda w: put(w, 0, 3.0)),
    "an array": (np.ones(2), lambda w: w[1], lambda w: put(w, 1, 3.0)),
    "a data class": (Numbers(), lambda w: w.entries[1], lambda w: put(w.entries, 1, 3.0)),
    "a dict of dicts": ({"a": {"b": 1.0}}, lambda w: w["a"]["b"], lambda w: put(w["a"], "b", 3.0)),
    "a set": ({1.0}, min, lambda w: (w.clear(), w.add(3.0))),
    "a deque": (deque([1.0]), lambda w: w[0], lambda w: put(w, 0, 3.0)),
    "a list of a user": (UserList([1.0]), lambda w: w[0], lambda w: put(w, 0, 3.0)),
    "bytes": (bytearray([1]), lambda w: float(w[0]), lambda w: put(w, 0, 3)),
    "an array of Python": (array("d", [1.0]), lambda w: w[0], lambda w: put(w, 0, 3.0)),
    "a mask": (np.ma.masked_array([1.0, 3.0], [False, False]), lambda w: w.min(), lambda w: put(w, 0, np.ma.masked)),
    "a series": (pd.Series({"a": 1.0}), lambda w: w["a"], lambda w: put(w, "a", 3.0)),
    "a table": (pd.DataFrame({"a": [1.0]}), lambda w: w["a"][0], lambda w: put(w, "a", [3.0])),
    "labels": (pd.Series([5.0], [1.0]), lambda w: w.index[0], lambda w: setattr(w, "index", [3.0])),
    "an attribute of a list": (Rates(), lambda w: w.scale, lambda w: setattr(w, "scale", 3.0)),
    "an attribute of a function": (scale, lambda w: w(1.0), lambda w: setattr(w, "factor", 3.0)),
    "an object that goes through functions": (
        SimpleNamespace(rate=1.0),
        lambda w: through(w),
        lambda w: setattr(w, "rate", 3.0),
    ),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_what_holds_numbers_is_looked_into(kind):
    held, number, change = HOLDERS[kind]

    @ti.field_operator
    def outside(x):
        return x * number(held)

    @ti.field_operator
    def given(x, holder):
        return x * number(holder["held"])

    for factor in (1.0, 3.0):
        np.testing.assert_array_equal(outside(X).data, factor * X.data)
        np.testing.assert_array_equal(given(X, {"held": held}).data, factor * X.data)
        change(held)


TRACED = itertools.count()


class Decay:
    rate = 0.5

    def step(self, x):
        next(TRACED)
        return self.rate * x


DECAY = Decay()


def decayed(rate, x):
    next(TRACED)
    return rate * x


STEPS = {
    "a method": lambda rate: setattr(DECAY, "rate", rate) or DECAY.step,
    "a function with some of its arguments": lambda rate: functools.partial(decayed, rate),
    "a function that reads another": lambda rate: (lambda f: lambda x: f(x))(lambda x: decayed(rate, x)),
}


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_that_is_made_anew_for_each_run_is_traced_once(kind):
    for rate in (0.5, 0.25):
        results, begin = [], next(TRACED)
        for _ in range(2):
            results.append((ti.iterate(STEPS[kind](rate), np.ones(2), 2)[0], ti.jit(STEPS[kind](rate))(np.ones(2))[0]))
            traced, begin = next(TRACED) - begin - 1, next(TRACED)
        assert traced == 0 and results == 2 * [(rate**2, rate)]


def test_callable_objects_and_functions_with_some_of_their_arguments_are_operators():
    model = Model()
    called, partial = ti.field_operator(model), ti.field_operator(functools.partial(decayed, 3.0))
    summed = ti.scan_operator(axis=I, init=0.0)(functools.partial(lambda factor, state, x: state + factor * x, 2.0))
    assert (called.name, partial.name, summed.name) == ("Model", "decayed", "<lambda>")
    np.testing.assert_array_equal(called(X).data, 2 * X.data)
    np.testing.assert_array_equal(partial(X).data, 3 * X.data)
    np.testing.assert_array_equal(summed(X).data, np.cumsum(2 * X.data))
    model.factor = 5.0
    np.testing.assert_array_equal(called(X).data, 10 * X.data)


def test_two_dicts_that_come_one_after_the_other_are_told_apart_and_equal_ones_are_not():
    @ti.field_operator
    def scaled(x, settings):
        return settings["rate"] * x

    for rate in (1.0, 2.0, 3.0, 1.0, 2.0):
        np.testing.assert_array_equal(scaled(X, {"rate": rate}).data, rate * X.data)
    assert len(scaled.plans) == 3


def test_the_same_object_twice_is_not_two_objects():
    @ti.field_operator
    def third(x, holder):
        return holder[2].rate * x

    one, two = SimpleNamespace(rate=2.0), SimpleNamespace(rate=3.0)
    np.testing.assert_array_equal(third(X, [one, two, one, ""]).data, 2 * X.data)
    np.testing.assert_array_equal(third(X, [one, two, two, ""]).data, 3 * X.data)


def test_a_function_that_is_given_with_some_of_its_arguments_is_looked_into():
    factor = 2.0

    def limited(x, most=1.0):
        return ti.minimum(factor * x, most)

    @ti.field_operator
    def through(x, f):
        return f(x)

    np.testing.assert_array_equal(through(X, functools.partial(limited, most=5.0)).data, np.minimum(2 * X.data, 5))
    np.testing.assert_array_equal(through(X, functools.partial(limited, most=3.0)).data, np.minimum(2 * X.data, 3))
    factor = 0.5
    np.testing.assert_array_equal(through(X, functools.partial(limited, most=3.0)).data, np.minimum(0.5 * X.data, 3))


def calls_for_a_chain(length: int) -> int:
    """Calls of Python that the first fingerprint of functions takes, each of which calls the next one."""
    names = {"__name__": "chain"}
    lines = [f"def f{k}(x): return f{k + 1}(x) + x.v{k}" for k in range(length)]
    exec("\n".join([*lines, f"def f{length}(x): return x"]), names)
    return count_calls_of_python(lambda: closure_fingerprint(names["f0"]))


def test_functions_that_call_others_are_gone_through_once():
    _, some, twice_as_many = map(calls_for_a_chain, (10, 50, 100))
    assert twice_as_many < 2.2 * some
