"""A backend of GT4Py: its programs run by XLA, `@gtx.program(backend=xla_cpu)`.

This file alone imports GT4Py, whose releases 1.1 have the protocol of backends that it speaks: a workflow makes of a
program in iterator IR an artifact, and the artifact's `load` gives what calls run.
"""

# what GT4Py exports has no types that are known here
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from tensorir.backends import backend
from tensorir.iterator.imports import program_of as imported
from tensorir.iterator.lift.program import Options, options_of
from tensorir.iterator.nodes import Program
from tensorir.iterator.running import Accelerator, Host, Runner, Variant
from tensorir.runtime.errors import refuse

_RELEASES = "1.1"


def _check_release() -> None:
    """Raise TI12 where GT4Py is not there, or is of a release with another protocol."""
    try:
        release = metadata.version("gt4py")
    except metadata.PackageNotFoundError:
        raise refuse("TI12", "GT4Py is not installed.", "pip install 'gt4py>=1.1,<1.2'.") from None
    if not re.match(rf"{re.escape(_RELEASES)}(\.|$)", release):
        message = f"this backend speaks to GT4Py {_RELEASES}, and {release} is installed."
        raise refuse("TI12", message, "pip install 'gt4py>=1.1,<1.2'.")


_check_release()

from gt4py._core import definitions  # noqa: E402
from gt4py.next import backend as next_backend  # noqa: E402
from gt4py.next import config  # noqa: E402
from gt4py.next import custom_layout_allocators as allocators  # noqa: E402
from gt4py.storage import allocators as storage  # noqa: E402


class CPUAllocator(allocators.BaseFieldBufferAllocator):
    """Memory for fields: the levels of each point of a mesh lie together, since tables gather points with all levels.

    Scans turn blocks of columns within the cache. On grids, the first dim is the fastest, as GT4Py has it: a column's
    levels are then far apart, and neighbouring columns are swept together.
    """

    def __init__(self) -> None:
        super().__init__(
            device_type=definitions.DeviceType.CPU,
            array_utils=storage.numpy_array_utils,
            layout_mapper=_layout,
            byte_alignment=64,
        )


def _layout(dims: Sequence[Any]) -> Any:
    """The places of dims from the slowest to the fastest."""
    kinds = [str(getattr(d.kind, "value", d.kind)) for d in dims]
    if kinds.count("horizontal") == 1:
        return tuple(range(len(dims)))
    return allocators.horizontal_first_layout_mapper(dims)


@dataclass(frozen=True)
class Artifact:
    """A program that is read, and not yet specialised: sizes come with a call."""

    program: Program
    column: str | None
    options: Options
    device: str

    def load(self) -> Runner:
        """The program as a callable on fields; compilations are kept where GT4Py keeps its own."""
        # not where the program is read, which may be a process of its own
        compiling = backend("jax")
        if config.BUILD_CACHE_LIFETIME is config.BuildCacheLifetime.PERSISTENT and compiling.kept_in() is None:
            compiling.keep_compilations(config.BUILD_CACHE_DIR / "xla")
        memory = Host() if self.device == "cpu" else Accelerator(importlib.import_module("cupy"))
        return Runner(self.program, self.options, self.column, memory)


@dataclass(frozen=True)
class Executor:
    """GT4Py's program to an artifact."""

    options: Options
    device: str

    def __call__(self, inp: Any) -> Artifact:
        column = inp.args.column_axis
        return Artifact(imported(inp.data), None if column is None else str(column.value), self.options, self.device)


def make_backend(device: str = "cpu", *, name: str = "", **options: Any) -> Any:
    """A backend for a device, "cpu" or "gpu"; options are those of the lift (`tensorir.iterator.lift.program.Options`).

    >>> make_backend(name="checked", out_of_range="checked").name
    'checked'
    """
    kinds = {"cpu": CPUAllocator, "gpu": allocators.StandardGPUFieldBufferAllocator}
    if device not in kinds:
        raise refuse("TI12", f"there is no device '{device}'.", "use 'cpu' or 'gpu'.")
    if device == "gpu" and definitions.CUPY_DEVICE_TYPE is None:
        raise refuse("TI12", "there is no GPU that CuPy knows, whose arrays fields are there.", "use xla_cpu.")
    return next_backend.Backend(
        name=name or f"xla_{device}",
        executor=Executor(options_of(options), device),
        allocator=kinds[device](),
        transforms=next_backend.DEFAULT_TRANSFORMS,
    )


def variants(program: Any) -> tuple[Variant, ...]:
    """Executables of a program, or an operator, of this backend, each with the difference that it was compiled for.

    Those of all offset providers and static arguments, in the order of GT4Py's own variants. The logger
    `tensorir.iterator` says the same at the level INFO when one comes.
    """
    compiled = program._compiled_programs.compiled_programs.values()
    return tuple(v for runner in compiled if isinstance(runner, Runner) for v in runner.variants)


xla_cpu: Any = make_backend("cpu")


def __getattr__(name: str) -> Any:
    if name == "xla_gpu":
        return make_backend("gpu")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
