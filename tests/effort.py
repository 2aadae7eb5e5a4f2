"""How much work a call does, counted and not timed: a busy machine does not change it."""

from __future__ import annotations

import gc
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax


def count_calls(run: Callable[[], object]) -> int:
    """
    The functions that ``run`` calls, those of Python and those of C.

    >>> count_calls(lambda: [abs(k) for k in range(100)]) >= 100
    True
    """
    return _count_events(run, ("call", "c_call"))


def count_calls_of_python(run: Callable[[], object]) -> int:
    """
    The functions of Python that ``run`` calls, those of C left out.

    >>> count_calls_of_python(lambda: abs(abs(1)))
    1
    """
    return _count_events(run, ("call",))


def _count_events(run: Callable[[], object], events: tuple[str, ...]) -> int:
    count = 0

    def see(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in events

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


def count_lines(run: Callable[[], object]) -> int:
    """
    The lines of Python that run, a line of a loop or of a comprehension as often as it runs.

    >>> count_lines(lambda: [k for k in range(100)]) >= 100
    True
    """
    count = 0

    def see(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return see

    before = sys.gettrace()
    sys.settrace(see)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


@dataclass(frozen=True)
class DeviceWork:
    """What JAX did during a call, from the events of its own profiler."""

    executed: int
    """Executables that ran."""
    compiled: int
    """Programs that XLA compiled, or found in a cache of compilations that an earlier process left."""
    held_bytes: int
    """Bytes of arrays that are alive after the call, less those before it."""


def device_work(run: Callable[[], object]) -> DeviceWork:
    """
    What ``run`` makes the device do, its result included.

    >>> import jax
    >>> x = jax.numpy.ones(4, "float32")
    >>> device_work(lambda: (x + 1.0) * 3.0)
    DeviceWork(executed=2, compiled=2, held_bytes=16)
    >>> device_work(lambda: (x + 1.0) * 3.0)
    DeviceWork(executed=2, compiled=0, held_bytes=16)
    """
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    found: list[str] = []

    def see(event: str, **_: object) -> None:
        if event == "/jax/compilation_cache/cache_hits":
            found.append(event)

    gc.collect()
    before = _live_bytes()
    jax.monitoring.register_event_listener(see)
    with tempfile.TemporaryDirectory() as folder:
        try:
            with jax.profiler.trace(folder, profiler_options=options):
                result = jax.block_until_ready(run())
        finally:
            jax.monitoring.unregister_event_listener(see)
        (path,) = Path(folder).rglob("*.xplane.pb")
        profile = jax.profiler.ProfileData.from_file(str(path))
    events = Counter(e.name for plane in profile.planes for line in plane.lines for e in line.events)
    held = _live_bytes() - before
    del result
    return DeviceWork(
        events["CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice"],
        events["backend_compile_and_load"] + len(found),
        held,
    )


def _live_bytes() -> int:
    return sum(a.nbytes for a in jax.live_arrays())
