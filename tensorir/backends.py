"""Backends execute programs: they register in the entry-point group `tensorir.backends` (`docs/architecture.md`).

A backend is an object with `compile(program, **options)`, which gives a callable with the parameters as keywords.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorir.runtime.errors import did_you_mean, refuse
from tensorir.runtime.memory import WeakCache

if TYPE_CHECKING:
    from importlib import metadata

GROUP = "tensorir.backends"


def backend(name: str = "jax") -> Any:
    """The backend of a name; raises A14 for one that is not installed."""
    points = _installed()
    if name not in points:
        points = {**_beside(), **points}
    if name not in points:
        raise refuse(
            "A14", f"there is no backend '{name}'.", did_you_mean(name, points) or "install tensorir: pip install ."
        )
    return _loaded(points[name])


@cache
def _loaded(point: metadata.EntryPoint) -> Any:
    return point.load()


@cache
def _installed() -> dict[str, metadata.EntryPoint]:
    from importlib import metadata  # 40 ms, which only a program that is compiled needs

    # 4 ms, which is longer than a lift
    return {p.name: p for p in metadata.entry_points(group=GROUP)}


@cache
def _beside() -> dict[str, metadata.EntryPoint]:
    """The backends of a checkout that is not installed, and only lies on the path of imports."""
    import tomllib
    from importlib import metadata

    written = Path(__file__).parents[1] / "pyproject.toml"
    project = tomllib.loads(written.read_text(encoding="utf-8")) if written.exists() else {}
    rows = project.get("project", {}).get("entry-points", {}).get(GROUP, {})
    return {name: metadata.EntryPoint(name, value, GROUP) for name, value in rows.items()}


def compile(program: Any, /, *, backend: str = "jax", **options: Any) -> Any:
    """A program as a callable of its backend.

    It takes arrays by the names of parameters, of their element types, and gives a dict of outputs. DataArrays and
    Fields match a parameter by the names of their dims, other arrays by their axes: in the order of its dims, of its
    extents.

    With the backend "jax" it is an `equinox.Module` and a plain JAX callable: `c(inp=x)["out"]` under `jit`, `grad`,
    `vmap` and the rest, `c.stablehlo()`, `c.export()`, `c.cost()`. Options of "jax": `full`, names of traced tables
    that hold no -1; `donate`, names of outputs whose buffers are passed and may be used up; `numerics`, "fast",
    "loose" (extremes of many elements may drop a NaN) or "exact" (folds keep their order, every operation rounds);
    `passes`, what the program goes through before it is emitted (`c.pipeline()` shows the program after each; a
    pipeline, its text, or passes in a row, `ti.passes.DEFAULT_PASSES` where it is not given); `raising`, the names of
    the rules that may turn steps into operations of XLA, `()` for none (`lowering.raising` has the table, `c.raised()`
    says which were used); `without`, names of passes, rules and choices of the lowering that are switched off
    (`c.plan()` says what was chosen, why, and what each is worth). `at_most={"n": 1024}` compiles a template once for
    all sizes up to a bound (`docs/language.md`, "One compilation for all sizes"); it raises B05 for a name that is no
    size, B13 for what depends on a size in another way than masks can say, and calls B12 for larger arrays.
    """
    return _backend(backend).compile(program, **options)


_backend = backend


COMPILED: WeakCache[Any] = WeakCache("compiled programs")
"""What `f(...)` compiled."""


def compiled(program: Any) -> Any:
    """A program on the default backend, compiled once for as long as it lives."""
    return COMPILED.of(program, compile)


def field_type() -> Any:
    """The class `ti.Field`, which the jax backend provides."""
    return backend("jax").field_type()


def device_array(value: Any) -> Any:
    """An array of another library that lies on a device, as the default backend's array of the same memory."""
    return backend().view(value)
