"""`tensorir check`, `print`, `run` and `lift` on TVMScript: kernels in `.py` files, read and never executed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from stencils.cli.files import check_source, check_target, together, write_arrays
from stencils.cli.inputs import Parameters, arguments, differ
from stencils.cli.modules import operators_in
from stencils.cli.options import constants, sizes
from tensorir.runtime.errors import refuse


def is_kernel(path: Path) -> bool:
    """True if a file is TVMScript."""
    return path.suffix == ".py"


def _read_module(path: Path, names: tuple[str, ...] = ()) -> Any:
    """The functions of a file of TVMScript, `names` given as `name=value`; raises C09 for other files, F02 for other
    encodings.
    """
    check_source(path)
    if path.suffix == ".fencil":
        raise refuse("C09", f"'{path}' is a program, and this command takes a kernel (.py).", "see tensorir --help.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise refuse("F02", f"'{path}' is not UTF-8.", "save the file as UTF-8.") from None
    if operators := operators_in(text):
        message = f"'{path}' has field operators ({', '.join(operators)}), and no kernel of TVMScript."
        raise refuse("C09", message, f"run one on arrays: tensorir run {path}:{operators[0]} --input arrays.nc.")
    return ti.tir.parse(text, name=str(path), names=constants(names))


def check(path: Path, names: tuple[str, ...], say: Callable[[str], None]) -> None:
    """Parse and check every function of a kernel file; notes are told, errors raised together."""
    module = _read_module(path, names)
    for note in ti.tir.check(module, hazards=True):
        say(str(note))
    for name in module.functions:
        say(f"{name}: well-formed")


def show(path: Path, names: tuple[str, ...], say: Callable[[str], None]) -> None:
    """Print a kernel file in canonical form."""
    say(str(_read_module(path, names)))


def run(
    path: Path, function: str | None, inputs: tuple[str, ...], out: Path | None, settings: tuple[str, ...],
    names: tuple[str, ...], random: bool, checked: bool, say: Callable[[str], None],
) -> None:  # fmt: skip
    """Interpret a function on arrays from files, or on random ones, and say what changed."""
    chosen = function_of(path, function, names)
    check_target(out, (".npz",))
    params = Parameters.of(chosen)
    passed = arguments(params, inputs, settings, random)
    results = ti.tir.interpret(chosen, *passed, checked=checked)
    # a PrimFunc gives its parameters back, a function of Relax its results
    parameters = list(params.order) if hasattr(chosen, "buffer_map") else []
    labelled = parameters or [f"result{k}" for k in range(len(results))]
    changed: dict[str, Any] = {}
    for k, (label, value) in enumerate(zip(labelled, results, strict=True)):
        before = passed[k] if labelled is parameters else None
        if before is None or differ(before, value):
            array = np.asarray(value)
            low_high = f", {array.min()} to {array.max()}" if array.size and array.dtype.kind in "iufb" else ""
            say(f"{label}: {' × '.join(map(str, array.shape)) or 'a number'}, {array.dtype}{low_high}")
            changed[label] = array
    if out is not None:
        with together() as write:
            write_arrays(out, changed, {}, write)
        say(f"written to {out}")


def lift(
    path: Path, function: str | None, settings: tuple[str, ...], names: tuple[str, ...], on_hazard: str, report: bool,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    """Print a function as a pure tensor program, and how each of its loops was lifted."""
    chosen = function_of(path, function, names)
    program = ti.lift(chosen, on_hazard=on_hazard)
    if program.static is None and program.key_at is None:
        # it takes numbers that are no sizes, and what is known of them a call tells
        program.at(program.sizes_of(arguments(Parameters.of(chosen), (), settings, True)))
    else:
        known = sizes(settings, program.sizes, chosen.name)
        missing = [n for n in program.sizes if n not in known]
        if missing:
            raise refuse("C08", f"the size '{missing[0]}' is not known.", f"say it: --set {missing[0]}=8.")
        if program.key_at is not None:
            program.at(program.key_at(known))
    say(str(program))
    if report:
        say(f"\n{program.report}")


def function_of(path: Path, function: str | None, names: tuple[str, ...] = ()) -> Any:
    """The function that is asked for, or the only one."""
    module = _read_module(path, names)
    if function is None and len(module.functions) > 1 and "main" not in module.functions:
        message = f"'{path}' has several functions: {', '.join(module.functions)}."
        raise refuse("C07", message, f"say which: --func {next(iter(module.functions))}.")
    return module[function or ("main" if "main" in module.functions else next(iter(module.functions)))]
