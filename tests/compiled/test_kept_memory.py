"""Pages that a call with large results touches for the first time, counted by the system in processes of their own."""

import platform
import subprocess
import sys

import pytest

from tensorir.runtime.memory import BY_GLIBC, KeptMemory

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the thresholds are those of glibc")

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


@pytest.mark.parametrize("mib", [40, 100])
def test_memory_of_freed_results_is_kept_for_the_next(mib: int):
    assert _touched(mib) < 0.5


def test_a_limit_of_zero_keeps_nothing():
    assert _touched(40, before="ti.config.kept_memory.limit = 0", warm=3) > 0.9


def test_what_is_above_the_limit_is_not_kept():
    assert _touched(100, before="ti.config.kept_memory.limit = 150 << 20", warm=3) > 0.9


def test_what_was_kept_is_given_back():
    resident = "int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize()"
    after = f"held = {resident}; ti.config.kept_memory.limit = 0; assert held - {resident} > x.nbytes"
    _touched(40, before="ti.config.kept_memory.limit = 1 << 30", after=after, warm=5)


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
