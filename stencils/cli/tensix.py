"""`tensorir tt`: a kernel of tiles as programs for a grid of Tensix cores, checked, written to files and simulated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from stencils.cli.files import together
from stencils.cli.inputs import Parameters, arguments, differ, numbers_set
from stencils.cli.kernels import function_of, is_kernel
from tensorir.runtime.errors import Diagnostic, DiagnosticError, refuse
from tensorir.tenstorrent.grid import sizes_of
from tensorir.tenstorrent.kernels.protocol import tiles
from tensorir.tenstorrent.kernels.simulate import order_of
from tensorir.tenstorrent.schedule import schedule_of

FILES = ("compute.cpp", "reader.cpp", "writer.cpp", "main.cpp", "tiles.h", "tt.plan.json")
"""What is written to the folder."""
OF_CARD = ("compute.cpp", "reader.cpp", "writer.cpp", "host.cpp", "metal.plan.json")
"""What is written for a card."""


def files_for(card: str | None) -> tuple[str, ...]:
    """The names of the files that are written, for a card or for none."""
    return FILES if card is None else OF_CARD


def program(
    path: Path, function: str | None, cores: int | None, capacity: int | None, out: Path | None,
    inputs: tuple[str, ...], settings: tuple[str, ...], names: tuple[str, ...], random: bool, order: str,
    seed: int, passes: bool, card: str | None, mcast: bool, say: Callable[[str], None],
) -> None:  # fmt: skip
    """Split a kernel, check the protocol, write its files; run it where arrays are given or random ones asked for."""
    if not is_kernel(path):
        raise refuse("C09", f"'{path}' is no kernel of tiles (.py).", "see tensorir tt --help.")
    if out is not None and out.exists() and not out.is_dir():
        raise refuse("F03", f"'{out}' is a file, and programs are written to a folder.", "name a folder.")
    order_of(order)
    kernel = function_of(path, function, names)
    kernel, settings = _bind_sizes(kernel, settings)
    stages = ti.tt.pipeline(kernel, cores)
    shared = stages.result
    if passes:
        say(str(stages))
    split = ti.tt.split(shared, capacity)
    plan = schedule_of(shared)
    busy = sum(count > 0 for _, count in plan.shares)
    say(f"{kernel.name}: {tiles(plan.tiles)} on {busy} of {len(plan.shares)} cores")
    for queue in split.buffers:
        say(f"  {queue.name}: {tiles(queue.capacity)}, blocks of {queue.pages}")
    if faults := ti.tt.check(split):
        raise DiagnosticError(tuple(Diagnostic("TN11", str(fault)) for fault in faults))
    say("protocol: no fault in the text, and every core comes to its end")
    if inputs or random:
        params = Parameters.of(kernel)
        arrays = arguments(params, inputs, settings, random)
        run = ti.tt.simulate(split, arrays, order=order, seed=seed, mcast=mcast)
        say(f"simulated: {run}")
        for name, before, after in zip(params.order, arrays, run.arrays, strict=True):
            if differ(before, after):
                array: Any = np.asarray(after)
                say(f"{name}: {' × '.join(map(str, array.shape))}, {array.dtype}, {array.min()} to {array.max()}")
    files = split.files if card is None else ti.tt.emit(split, card, mcast=mcast).files
    if card is not None:
        say(str(split.estimate(card, mcast=mcast)))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        with together() as write:
            for name, text in files.items():
                write(out / name, lambda place, text=text: Path(place).write_text(text, encoding="utf-8"))
        say(f"written to {out}: {', '.join(files)}")


def _bind_sizes(kernel: Any, settings: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    """The kernel with the sizes that are set as numbers, and the settings that are none."""
    params = Parameters.of(kernel)
    known = sizes_of(kernel)
    numbers = {name: value for name, value in numbers_set(params, settings).items() if name in known}
    rest = tuple(text for text in settings if text.partition("=")[0].strip() not in known)
    return (ti.tt.sized(kernel, **numbers) if numbers else kernel), rest
