"""What is remembered dies with its program, is bounded, and can be listed and emptied."""

import gc
import weakref

import numpy as np
import pytest
from dropped_programs import KINDS, TEMPLATE, alive, drop

import tensorir as ti
from lowering.calls.executable import Executable
from tensorir.runtime.memory import SIZES, RecentCache

TEXT = "f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { out ← 2.0 × x; }"
FIXED = TEXT.replace("n]", "3]")


@pytest.mark.parametrize("text", [TEXT, FIXED])
def test_what_a_program_compiled_dies_with_it(text):
    f = ti.parse(text)
    f(x=np.ones(3))
    program = weakref.ref(f)
    before = ti.caches["compiled programs"]
    del f
    gc.collect()
    assert program() is None
    assert ti.caches["compiled programs"] < before


def test_what_a_bound_program_compiled_dies_with_it():
    table = np.zeros((3, 1), np.int32)
    g = ti.parse(
        "f(out: tensor<float, V[0:3]>, x: tensor<float, V[0:3]>, T: tensor<int, V[0:3], _NB_V[0:1]>)"
        " { out ← ⟪T, 0⟫(x); }"
    ).bind(T=table)
    g(x=np.ones(3))
    program = weakref.ref(g)
    del g
    gc.collect()
    assert program() is None


def test_a_template_keeps_the_sizes_used_last():
    f = ti.parse(TEXT)
    c = ti.compile(f)
    assert c.engine.executables.limit == f.specialisations.limit == SIZES
    c.engine.executables.limit = f.specialisations.limit = 2
    for n in range(1, 5):
        c(x=np.ones(n))
    assert len(c.engine.executables) == len(f.specialisations) == 2
    assert (1,) not in f.specialisations and (4,) in f.specialisations
    np.testing.assert_array_equal(c(x=np.ones(1))["out"], [2.0])


def test_the_entry_used_least_recently_goes_first():
    cache = RecentCache("letters", limit=2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    cache.put("c", 3)
    assert list(cache) == ["a", "c"]


def test_emptied_caches_fill_again():
    f = ti.parse(FIXED)
    f(x=np.ones(3))
    ti.caches.clear()
    assert set(ti.caches.sizes.values()) <= {0}
    np.testing.assert_array_equal(f(x=np.ones(3))["out"], [2.0, 2.0, 2.0])
    assert ti.caches["compiled programs"] == 1
    assert "compiled programs" in repr(ti.caches)


PARTS = {"Call", "Diagnostic", "Executable", "Fencil", "For", "Operator", "Statement", "Store", "Unbounded"}
"""Types of which only programs have objects."""


@pytest.fixture(scope="module")
def collected():
    """What was compiled for a program of each kind, and which parts of programs are left when all are dropped."""
    made, compiled = {}, []
    drop()
    before = alive()
    with pytest.MonkeyPatch.context() as patched:
        plain = Executable.__post_init__
        patched.setattr(Executable, "__post_init__", lambda self: compiled.append(weakref.ref(self)) or plain(self))
        for kind in KINDS:
            KINDS[kind](1)
            made[kind] = compiled.copy()
            compiled.clear()
    drop()
    return made, alive() - before


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_compiled_for_a_dropped_program_is_gone(collected, kind):
    made, _ = collected
    assert made[kind] and not [1 for executable in made[kind] if executable() is not None]


def test_dropped_programs_leave_no_parts(collected):
    _, left = collected
    assert {name: count for name, count in left.items() if name in PARTS} == {}


def test_what_was_compiled_for_sizes_of_long_ago_is_gone(monkeypatch):
    monkeypatch.setattr("lowering.calls.engine.SIZES", 2)
    c = ti.compile(TEMPLATE)
    drop()
    before = alive()["Executable"]
    for n in range(3, 7):
        c(x=np.ones(n))
    gc.collect()
    assert alive()["Executable"] - before == 2
