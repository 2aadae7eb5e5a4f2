"""What a compiled program keeps: memory, caches and allocations."""

import gc
import json
import platform
import subprocess
import sys
import weakref
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dropped_programs import KINDS, TEMPLATE, alive, drop

import tensorir as ti
from lowering.calls.executable import COPIED, Executable, on_host
from lowering.loops.stepping import LOOPS, loop_key
from tensorir.runtime.memory import BY_GLIBC, SIZES, KeptMemory, RecentCache

# What is remembered dies with its program, is bounded, and can be listed and emptied


TEXT = "f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { out ← 2.0 × x; }"
FIXED = TEXT.replace("n]", "3]")


@pytest.mark.parametrize("text", [TEXT, FIXED])
def test_what_a_program_compiled_dies_with_it(text):
    f = ti.parse(text)
    f(x=np.ones(3))
    program = weakref.ref(f)
    before = ti.config.caches["compiled programs"]
    del f
    gc.collect()
    assert program() is None
    assert ti.config.caches["compiled programs"] < before


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
    ti.config.caches.clear()
    assert set(ti.config.caches.sizes.values()) <= {0}
    np.testing.assert_array_equal(f(x=np.ones(3))["out"], [2.0, 2.0, 2.0])
    assert ti.config.caches["compiled programs"] == 1
    assert "compiled programs" in repr(ti.config.caches)


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


# What each kind of call allocates

COUNTED = '''
import ctypes, gc, json, resource
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: pages are counted one by one
import jax, jax.numpy as jnp, numpy as np
import tensorir as ti

jax.config.update("jax_enable_x64", True)
ti.config.kept_memory.limit = 0
SIZE = 40 << 17
BYTES = 8 * SIZE
program = ti.parse("f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { out ← 2.0 × x; }")
moved = ti.parse("f(x: tensor<float, I[0:n]>) { x ← 0.5 × x; }")


def numpy_array(offset):
    raw = np.zeros(BYTES + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    array = raw[start : start + BYTES].view(np.float64)
    array[:] = 1.0
    return array


def touched(call):
    """Arrays' worth of pages that one call touches, its result let go of before the next."""
    call(), call()
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        call()
    pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return pages * resource.getpagesize() / BYTES / 4


x, aligned, apart = jnp.ones(SIZE), numpy_array(0), numpy_array(8)
buffer = numpy_array(8)
plain, donating, stepping = ti.compile(program), ti.compile(program, donate="out"), ti.compile(moved)
within = jax.jit(lambda x: 1.0 + plain(x=x)["out"])
state = {"out": jnp.zeros(SIZE)}
given = {"x": plain(x=apart)["out"]}


def donated():
    state["out"] = donating(x=x, out=state["out"])["out"].block_until_ready()


def fed_back():
    given["x"] = plain(x=given["x"])["out"]


def iterated(n):
    return lambda: ti.iterate(lambda s: stepping(x=s)["x"], x, n, progress=False).block_until_ready()


print(json.dumps({
    "JAX": touched(lambda: plain(x=x)["out"].block_until_ready()),
    "within jit": touched(lambda: within(x).block_until_ready()),
    "NumPy, aligned": touched(lambda: plain(x=aligned)),
    "NumPy": touched(lambda: plain(x=apart)),
    "NumPy, fed back": touched(fed_back),
    "out=, aligned": touched(lambda: plain(x=aligned, out=buffer)),
    "out=": touched(lambda: plain(x=apart, out=buffer)),
    "donated": touched(donated),
    "iterate": touched(iterated(4)),
    "iterate, more steps": touched(iterated(40)),
}))
'''

EXPECTED = {
    "JAX": 1,
    "within jit": 1,
    "NumPy, aligned": 1,
    "NumPy": 2,
    "NumPy, fed back": 1,
    "out=, aligned": 0,
    "out=": 1,
    "donated": 0,
    "iterate": 1,
    "iterate, more steps": 1,
}
"""Arrays of the size of the argument, which is that of the result too."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators keep what is freed as they like")
def test_each_kind_of_call_allocates_what_the_table_says():
    run = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    counted = json.loads(run.stdout)
    assert {kind: round(arrays) for kind, arrays in counted.items()} == EXPECTED, counted


def test_a_result_for_numpy_is_memory_of_its_own():
    with jax.enable_x64(True):
        c = ti.compile(ti.parse("f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { out ← x; }"))
    x = c(x=np.arange(float(COPIED)))["out"]  # aligned, so that JAX takes it as it lies
    result = c(x=x)["out"]
    result[:] = -1.0
    again = c(x=x)["out"]
    np.testing.assert_array_equal(x, np.arange(float(COPIED)))
    np.testing.assert_array_equal(again, x)
    assert not np.shares_memory(result, again) and not np.shares_memory(result, x)


def test_a_view_of_a_result_keeps_its_memory_and_nothing_else_does():
    array = jnp.arange(COPIED, dtype="float32")
    alive = weakref.ref(array)
    result = on_host(array)
    assert result.ctypes.data == array.unsafe_buffer_pointer() and result.flags.writeable
    view = result[3:7]
    del array, result
    gc.collect()
    assert alive() is not None and view.tolist() == [3.0, 4.0, 5.0, 6.0]
    del view
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("extent", [0, 3, COPIED])
def test_results_of_every_element_type_and_size_are_theirs_who_get_them(dtype, extent):
    with jax.enable_x64(True):
        array = jnp.arange(extent).reshape(extent, 1).astype(dtype)
        expected = np.array(array)
        result = on_host(array)
    assert (result.dtype, result.shape, result.flags.writeable) == (array.dtype, array.shape, True)
    np.testing.assert_array_equal(result, expected)


# What `ti.compile` is told, and what it refuses at once

F = "f(out: tensor<float, V[0:3]>, x: tensor<float, V[0:3]>, T: tensor<int, V[0:3], _NB_V[0:1]>) { out ← ⟪T, 0⟫(x); }"


@pytest.mark.parametrize("option", ["full", "donate"])
def test_a_name_that_is_no_parameters_is_refused(option):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.compile(ti.parse(F), **{option: ("S",)})
    assert str(refused.value).startswith("error[A08]: 'f' has no parameter 'S'.")


def test_one_name_need_not_stand_in_a_tuple():
    table = np.array([[2], [0], [1]], np.int32)
    with jax.enable_x64(True):
        moved = jax.jit(lambda x, t: ti.compile(ti.parse(F), full="T")(x=x, T=t)["out"])(np.arange(3.0), table)
    np.testing.assert_array_equal(moved, [2.0, 0.0, 1.0])


@pytest.mark.parametrize("take", [ti.compile, ti.passes.explain, ti.inspect.dataflow, ti.passes.Pipeline("inline")])
def test_what_is_no_program_is_refused(take):
    with pytest.raises(ti.DiagnosticError) as refused:
        take(3)
    assert str(refused.value) == (
        "error[B10]: a program is needed, and this is of type int.\nhelp: ti.parse makes one of a text."
    )


def test_an_interval_of_a_field_that_stops_before_it_starts_is_refused():
    for make in (ti.zeros, ti.ones):
        with pytest.raises(ti.DiagnosticError, match=r"A03\]: I: I?\[3:1\] is no interval"):
            make({"I": (3, 1)})
    with pytest.raises(ti.DiagnosticError, match="A03"):
        ti.as_field({"I": "03"}, np.zeros(3))
    assert ti.zeros({"I": ti.Interval(1, 3)}).data.shape == (2,)
    assert str(ti.as_field(MappingProxyType({"I": (3, 5)}), np.zeros(2)).dims) == "I[3:5]"


def test_the_pictures_are_among_the_names_of_inspect():
    assert {"footprint", "dataflow", "before_after", "table", "domains"} <= set(dir(ti.inspect))


def test_what_the_reference_has_not_is_said():
    interpreted = ti.compile(ti.parse(F), backend="reference")
    with pytest.raises(ti.DiagnosticError) as refused:
        interpreted.stablehlo()
    assert str(refused.value) == (
        "error[A23]: the reference interprets programs, and has no 'stablehlo' of them.\n"
        "help: compile with XLA: ti.compile(f).stablehlo(...)."
    )
    assert not hasattr(interpreted, "cost")
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.compile(ti.parse(F), backend="reference", donate="out")
    assert str(refused.value) == (
        "error[A23]: the reference has no option 'donate': there is nothing to choose.\nhelp: leave it out."
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [(None, "'x' is a NoneType, not an array."), ((1.0, 2.0), "'x' is a tuple, not an array."),
     ([[1.0], [1.0, 2.0]], "'x' is a list whose rows have different lengths.")],
)  # fmt: skip
def test_what_is_no_array_is_named(value, told):
    f = ti.parse("f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { out ← x; }")
    with pytest.raises(ti.DiagnosticError, match=r"A01\]") as refused:
        f(x=value)
    assert told in str(refused.value)


def test_a_program_in_somebodys_jit_says_what_it_would_ask_of_the_compiler() -> None:
    stored = ti.compile(
        ti.parse("""f(y: tensor<float64, I[1:8]>, x: tensor<float64, I[0:9]>) {
      y ← let w = cos(x) × exp(x); ⟪I, 1⟫(w) + ⟪I, -1⟫(w); }""")
    )
    plain = ti.compile(ti.parse("f(y: tensor<float64, I[0:9]>, x: tensor<float64, I[0:9]>) { y ← x + x; }"))
    x = np.linspace(0.0, 1.0, 9)

    def twice(x):
        return stored(x=plain(x=x)["y"])["y"]

    options = ti.config.compiler_options(twice, x)
    assert options == ti.config.compiler_options(twice, x) == {
        "xla_disable_hlo_passes": "cse_barrier_expander,small-while-loop-hoisting"
    }  # fmt: skip
    assert ti.config.compiler_options(lambda x: plain(x=x)["y"], x) == {}
    with jax.enable_x64(True):
        kept, lost = (jax.jit(twice, compiler_options=o).lower(x).compile().as_text() for o in (options, None))
    assert ("opt-barrier" in kept, "opt-barrier" in lost) == (True, False)


def test_a_time_loop_grants_what_its_step_asks_of_the_compiler() -> None:
    stored = ti.compile(
        ti.parse("""f(y: tensor<float64, I[0:9]>, x: tensor<float64, I[0:9]>) {
      y ← let w = cos(x) × exp(x); concat(add_dim(I, 0, 1, 0.0), ⟪I, 1⟫(w) + ⟪I, -1⟫(w), add_dim(I, 8, 9, 0.0)); }""")
    )

    def step(x):
        return stored(x=x)["y"]

    x = np.linspace(0.0, 1.0, 9)
    found = ti.iterate(step, x, 2, progress=False)
    with jax.enable_x64(True):
        loop = LOOPS.of(loop_key(step, (jnp.asarray(x), ())), lambda: None)
    (program,) = loop.programs.values()
    assert "opt-barrier" in program.as_text()
    np.testing.assert_array_equal(found, stored(x=stored(x=x)["y"])["y"])


# Pages that a call with large results touches for the first time, counted by the system in processes of their own.


GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the thresholds are those of glibc")

CALLS = """
import ctypes, resource
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: pages are counted one by one
import jax, jax.numpy as jnp
import tensorir as ti
{before}
jax.config.update("jax_enable_x64", True)
text = "f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) {{ out ← 2.0 × x; }}"
f, x = ti.compile(ti.parse(text)), jnp.ones(({mib} << 20) // 8)
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({warm}):  # small allocations take pieces of the first blocks that are free
    f(x=x)["out"].block_until_ready()
first = faults()
for _ in range(20):  # a call at a busy moment may find its block taken
    f(x=x)["out"].block_until_ready()
pages = 20 * x.nbytes / resource.getpagesize()
{after}
print((faults() - first) / pages)
"""


def _touched(mib: int, before: str = "", after: str = "", warm: int = 25) -> float:
    """The part of the pages of a result that a call touches for the first time."""
    source = CALLS.format(mib=mib, before=before, after=after, warm=warm)
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    return float(run.stdout)


@GLIBC
@pytest.mark.parametrize("mib", [40, 100])
def test_memory_of_freed_results_is_kept_for_the_next(mib: int):
    assert _touched(mib) < 0.5


@GLIBC
def test_a_limit_of_zero_keeps_nothing():
    assert _touched(40, before="ti.config.kept_memory.limit = 0", warm=3) > 0.9


@GLIBC
def test_what_is_above_the_limit_is_not_kept():
    assert _touched(100, before="ti.config.kept_memory.limit = 150 << 20", warm=3) > 0.9


@GLIBC
def test_what_was_kept_is_given_back():
    resident = "int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize()"
    after = f"held = {resident}; ti.config.kept_memory.limit = 0; assert held - {resident} > x.nbytes"
    _touched(40, before="ti.config.kept_memory.limit = 1 << 30", after=after, warm=5)


@GLIBC
def test_thresholds_follow_the_largest_program_and_leave_small_ones_to_glibc(monkeypatch):
    asked = []
    module = sys.modules["tensorir.runtime.memory"]
    monkeypatch.setattr(module, "_of_libc", lambda name, *arguments: asked.append(arguments) or 1)
    memory = KeptMemory(limit=1 << 30)
    memory.expect(BY_GLIBC // 8)
    assert memory.block == 0 and not asked
    memory.expect(40 << 20)
    memory.expect(10 << 20)
    assert memory.block == 320 << 20 and len(asked) == 2
    memory.expect(1 << 30)
    assert memory.block == 512 << 20
