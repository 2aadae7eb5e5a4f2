"""How tests find packages, and how Hypothesis draws: the same programs in every ordinary run."""

import contextlib
import ctypes
import gc
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import psutil
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from jax._src import compiler

# folders of tests have the names of the packages that they test, which come first
sys.path.insert(0, str(Path(__file__).parents[1]))

from lowering.calls import executable
from tensorir.config import caches, kept_memory
from tests.durations import TABLE, nightly

# what is collected stays: garbage is looked for in what tests make alone
gc.disable()
# thousands of programs of all sizes run in one process, which holds 0.7 GB less so
kept_memory.limit = 0

settings.register_profile("ordinary", derandomize=True, database=None, deadline=None, suppress_health_check=HealthCheck)
settings.load_profile("ordinary")
# numbers in the source of the modules that are loaded would be drawn, too: other programs in each test process
with contextlib.suppress(AttributeError):
    _none = providers._local_constants
    providers._get_local_constants = lambda: _none

# GT4Py switches JAX's 64-bit types on for the whole process when it is imported, and our tests count on them off; where
# it compiles is read then, and another process would import everything again; what its dependencies warn of is theirs
os.environ.setdefault("GT4PY_BUILD_JOBS_MODE", "serial")
_before = jax.config.jax_enable_x64
with contextlib.suppress(ImportError), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import gt4py.next  # noqa: F401
jax.config.update("jax_enable_x64", _before)


NIGHTLY = "NIGHTLY" in os.environ
TESTS = Path(__file__).parent
QUICK = (
    "analysis", "calls", "equality", "fieldview", "inspection", "iterator", "lift", "lowering", "padding", "passes",
    "peers", "stencils", "stories", "tenstorrent", "test_properties.py", "test_properties_of_gradients.py", "tile",
    "tile_numerics", "tilelang", "tir", "tir_interpret",
)  # fmt: skip
AS_USERS = {"test_casts.py", "test_estimate.py", "test_exact_rounding.py"}
"""Tests of what programs compute: in places of the first row, but for files of the second, XLA compiles without fusion
emitters and most optimisations, in half the time. All others, and in `make nightly` these too, are compiled as programs
of users are."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests with the mark `nightly`, and those that `nightly.txt` has for their time, run in `make nightly` alone.

    A test that is named on the command line runs.
    """
    if NIGHTLY:
        return
    listed = nightly((item.nodeid for item in items), TABLE.read_text(encoding="utf-8")) - set(config.args)
    left = [item for item in items if item.get_closest_marker("nightly") or item.nodeid in listed]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in set(left)]


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seconds", metavar="FILE", help="write the processor's seconds of each test, as JSON")
    parser.addoption("--small-kernels", action="store_true", help="small stencils are kernels, as large ones are")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    begin = time.process_time()
    try:
        return (yield)
    finally:
        item.user_properties.append(("seconds", time.process_time() - begin))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    begin = time.process_time()
    try:
        return (yield)
    finally:
        item.user_properties.append(("seconds", time.process_time() - begin))


class _Seconds:
    """Seconds of each test, collected from all test processes."""

    def __init__(self, path: Path) -> None:
        self.path, self.taken = path, dict[str, float]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self.taken[report.nodeid] = sum(float(s) for name, s in report.user_properties if name == "seconds")

    def pytest_sessionfinish(self) -> None:
        self.path.write_text(json.dumps(self.taken, indent=0), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--small-kernels"):
        executable.WORTH_A_GRID = 0
    if (path := config.getoption("--seconds")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Seconds(Path(path)))


@pytest.fixture(autouse=True, scope="module")
def _compiled_quickly(request: pytest.FixtureRequest) -> Iterator[None]:
    places = (request.path, *request.path.parents)
    quick = any(TESTS / place in places for place in QUICK) and request.path.name not in AS_USERS
    with pytest.MonkeyPatch.context() as patch:
        if quick and not NIGHTLY:
            patch.setattr(compiler, "get_compile_options", _quick_options)
        yield


def _quick_options(*args: Any, _made: Callable[..., Any] = compiler.get_compile_options, **named: Any) -> Any:
    options = _made(*args, **named)
    options.executable_build_options.debug_options.xla_backend_optimization_level = 0
    options.executable_build_options.debug_options.xla_llvm_disable_expensive_passes = True
    if jax.__version_info__ < (0, 11):  # later ones have no others
        options.env_option_overrides = [*options.env_option_overrides, ("xla_cpu_use_fusion_emitters", False)]
    return options


MOST_HELD = 3 << 29
"""Bytes that a test process may hold from one file to the next."""


@pytest.fixture(autouse=True, scope="module")
def _memory_given_back():
    """What was compiled for a file, and free memory of the allocator, are given back where they are much."""
    yield
    if psutil.Process().memory_info().rss > MOST_HELD:
        jax.clear_caches()
        caches.clear()
        gc.collect()
        if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)
