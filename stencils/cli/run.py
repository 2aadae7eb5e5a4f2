"""`tensorir run`: a program on the arrays of files, once or many times, resumable, with its results in files."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from lowering.loops.clock import clock_of
from stencils.cli.files import (
    ARRAYS,
    STANDARD,
    Names,
    attributes_of,
    check_source,
    check_target,
    leaving,
    open_arrays,
    opened_or_read,
    read_arrays,
    together,
    write_arrays,
)
from stencils.cli.inputs import arrays_of, file_of, named_by
from stencils.cli.look import text_of
from stencils.cli.options import Devices, feedback, only_known, pairs, stepped
from stencils.cli.resuming import Progress, Steps, Stopped, identity, keep, resumed
from tensorir.binding.arrays import Unread, kind_of, placed
from tensorir.binding.calls import moved_dims, solve_sizes
from tensorir.binding.labels import Place
from tensorir.binding.programs import BoundProgram
from tensorir.fieldview.datasets import auxiliary_names, cut_to
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Fencil, Var
from tensorir.ir.types import DTYPES, SCALARS, Scalar, scalar_of
from tensorir.runtime.errors import DiagnosticError, refuse

# What a run gives: stored as its inputs are, with what was done in its history, and told in a line each.


def attributes(inputs: Sequence[str], command: str) -> dict[str, Any]:
    """The attributes of the first input file that has any, with the time and `command` prepended to its `history`."""
    all_of_them = (attributes_of(file_of(text)) for text in inputs)
    attrs = next((a for a in all_of_them if a), {})
    now = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {command}"
    return {**attrs, "history": f"{now}\n{attrs['history']}" if attrs.get("history") else now}


def with_auxiliary(results: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, Any]:
    """Results and the variables of input files that they name as bounds, errors or grid mapping, cut to their points.

    A variable that lacks some of the points is left out.
    """
    arrays = [v for v in results.values() if kind_of(v) == "xarray"]
    wanted = auxiliary_names(v for a in arrays for v in (a.variable, *a.coords.variables.values())) - set(results)
    variables: dict[str, Any] = {}
    for path in {file_of(text) for text in inputs} if wanted else ():
        for name, array in read_arrays(path).items() if path.suffix != ".npz" and path != STANDARD else ():
            having = [a for a in arrays if set(array.dims) & set(a.dims)]
            if name in wanted and (having or not array.dims):
                try:
                    variables[name] = cut_to(name, array, having[0]) if having else array
                except DiagnosticError:  # not on all of their points
                    continue
    return {**results, **variables}


KEPT = ("zlib", "complevel", "shuffle", "fletcher32", "chunksizes", "original_shape")
"""The items of an input's encoding that a result keeps: its compression. Packing is not among them, which would round
computed numbers again; coordinates, which are not computed, keep their whole encoding."""


def encoded(result: Any, arguments: Mapping[str, Any]) -> Any:
    """Set the encoding of a result (or of each member of a tuple) from the first input on the same dims; return it.

    A fill value is kept if no number equals it. Coordinates that an input has keep its encoding, others get none.
    """
    if isinstance(result, tuple):
        return tuple(encoded(member, arguments) for member in result)
    if not hasattr(result, "encoding"):
        return result
    sources = [v for v in arguments.values() if kind_of(v) == "xarray"]
    model = next((v for v in sources if set(v.dims) == set(result.dims)), None)
    encoding = getattr(model, "encoding", {})
    fill = encoding.get("_FillValue")
    result.encoding = {k: encoding[k] for k in KEPT if k in encoding}
    if isinstance(fill, (float, np.floating)) and result.dtype.kind == "f":
        fill = result.dtype.type(fill)
        if not (result.values == fill).any():  # a number that was computed is not missing
            result.encoding["_FillValue"] = fill
    for name, coordinate in result.coords.items():
        known = (v.coords[name] for v in sources if name in v.coords)
        # points of a file are stored as there, packed or not
        alike = (c for c in known if c.dtype == coordinate.dtype and np.isin(coordinate.values, c.values).all())
        same = next(alike, None)
        coordinate.encoding = {} if same is None else dict(same.encoding)
    return result


def described(value: Any) -> str:
    """The line about a result: dims with extents, dtype, range and units; of tuples for each member."""
    if isinstance(value, tuple):
        return "; ".join(map(described, value))
    array = np.asarray(value)
    dims = getattr(value, "dims", None) or [""] * array.ndim
    names = " × ".join(f"{d} {n}".strip() for d, n in zip(dims, array.shape, strict=True))
    if not array.size or array.dtype.kind not in "fiu":
        return f"{names or 'a number'}, {array.dtype}"
    low, high = np.nanmin(array), np.nanmax(array)
    units = f" {value.attrs['units']}" if getattr(value, "attrs", {}).get("units") else ""
    return f"{names or 'a number'}, {array.dtype}, {low:.6g} to {high:.6g}{units}"


# `tensorir run`: a program on the arrays of files, once or many times, and its results into a file.

MOST_STEPS = 2**31 - 1
"""A loop of XLA counts in 32 bits."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `tensorir run`, as the command line has them."""

    program: Path
    fencil: str | None
    inputs: tuple[str, ...]
    out: Path | None
    settings: tuple[str, ...]
    steps: int | None
    next: tuple[str, ...]
    cast: bool
    plot: Path | None
    backend: str
    every: int | None
    rename: tuple[str, ...] = ()
    resume: Path | None = None
    devices: Devices | None = None
    dt: str | None = None
    start: str | None = None
    chunks: tuple[str, ...] = ()
    forcing: tuple[str, ...] = ()
    forcing_method: str | None = None
    checkpoint: Path | None = None
    checkpoint_every: str | None = None

    @property
    def named(self) -> dict[str, str]:
        """The option that names a parameter, by its name; raises C04 where there are two."""
        return named_by(self.inputs, self.settings, self.forcing)

    @property
    def often(self) -> int | str:
        """The interval between checkpoints: a number of steps, or a text with a unit of time; 5 s by default."""
        every = self.checkpoint_every or "5 s"
        return int(every) if every.isdecimal() else every

    @property
    def command(self) -> str:
        """The command line for the `history` of a file, without the options that do not change results."""
        words = ["tensorir", "run", self.program.name]
        several = {"--input": self.inputs, "--rename": self.rename, "--set": self.settings, "--next": self.next}
        several |= {"--chunks": self.chunks, "--forcing": self.forcing}
        for option, values in several.items():
            words += [word for value in values for word in (option, value)]
        single = {"--fencil": self.fencil, "--steps": self.steps, "--every": self.every, "--dt": self.dt}
        for option, value in {**single, "--start": self.start, "--forcing-method": self.forcing_method}.items():
            words += [] if value is None else [option, str(value)]
        words += ["--cast"] if self.cast else []
        if self.devices is not None:
            words += ["--devices", str(self.devices), "--dims", ",".join(self.devices.along)]
        return shlex.join(words if self.backend == "jax" else [*words, "--backend", self.backend])


def run(request: Request, say: Callable[[str], None], warn: Callable[[str], None]) -> None:
    """Run the program of a request, write and draw its results; nothing is written unless everything worked.

    Where Ctrl-C or SIGTERM stops a loop its last whole state is written, for `--resume`; the exit code is 130 or 143.
    """
    if request.resume is not None and request.resume.is_dir() and not request.chunks:
        request = replace(request, checkpoint=request.resume, resume=None)
    check_target(request.out, ARRAYS)
    check_target(request.plot, (".png", ".svg", ".pdf"))
    check_steps(request)
    if request.chunks:
        _check_chunks(request)
    if request.devices is not None and request.backend != "jax":
        message = f"--devices is for programs that XLA runs, and --backend {request.backend} is given."
        raise refuse("C03", message, "leave one of them out.")
    if request.program == STANDARD and any(file_of(text) == STANDARD for text in request.inputs):
        raise refuse("C03", "the program and an input are both -, and standard input is one.", "give one as a file.")
    text, name = text_of(request.program)
    first = request.devices is None or request.devices.join()
    if not first:
        request, say = replace(request, out=None, plot=None), silent
    from tensorir.text import parse

    program = parse(text, fencil=request.fencil, name=name)
    arguments = _arguments(program, request)
    forcing = forcing_of(request, program.name, [p.name for p in program.params])
    arguments |= {n: v.isel(time=0, drop=True) for n, v in forcing.items()}
    names = Names.of({p.name: _dims_of(p) for p in program.params}, arguments, request.rename)
    for sentence in names.sentences:
        say(sentence)
    begin = time.perf_counter()
    # what a program writes into has no encoding afterwards, and that of the file is asked for
    copies = {n: v.copy(deep=False) if kind_of(v) == "xarray" else v for n, v in arguments.items()}
    inside = {n: names.inside(v) for n, v in copies.items()}
    if "time" in _unknown_dims(program, inside) and (request.dt or request.start):
        message = "--dt and --start make an axis 'time', and the input has one that the program does not know."
        hint = "leave them out, give one of its times, or give it to the steps: --forcing instead of --input."
        raise refuse("C03", message, hint)
    for dim, extent in _unknown_dims(program, inside).items():
        say(f"{dim}, which '{program.name}' does not have: once for each of its {extent} points.")
    if request.chunks:
        _in_blocks(program, inside, names, request, say, warn)
        return
    try:
        results = _mapped(program, inside, {n: names.inside(v) for n, v in forcing.items()}, request)
    except Stopped as stopped:
        if request.checkpoint is not None:
            warn(f"{stopped}; the same command goes on from there.")
            raise SystemExit(128 + stopped.progress.signal) from None
        place = (request.out or Path(program.name)).with_suffix(".resume.npz")
        kept = keep(stopped, place, request.resume)
        warn(f"{stopped}; add --resume {kept} to the same command, and it goes on from there.")
        raise SystemExit(128 + stopped.progress.signal) from None
    whole = results if request.devices is None else on_host(results)
    outcome = {n: encoded(names.outside(v), arguments) for n, v in whole.items()}
    seconds = time.perf_counter() - begin
    dims = {p.name: _dims_of(p) for p in program.params}
    axes = {n: dims.get(n, dims.get(n.rpartition("_")[0], ())) for n in _members_of(outcome)}
    where = request.backend if request.devices is None else f"{request.devices} devices"
    deliver(program.name, arguments, outcome, request, f"{seconds:.2f} s with compilation, on {where}", say, axes)


def deliver(
    owner: str, arguments: Mapping[str, Any], outcome: Mapping[str, Any], request: Request, took: str,
    say: Callable[[str], None], axes: Mapping[str, Sequence[str]] | None = None,
) -> None:  # fmt: skip
    """Write and draw the results `outcome` by name, all or none, and say a line on each and one on the run.

    `owner` is the program, `took` says time and device, `axes` names the dims of bare arrays by result.
    """
    with leaving(request.out or Path(owner)) as place, together() as write:
        if request.out is not None:
            whole = with_auxiliary(outcome, request.inputs)
            write_arrays(place, whole, attributes(request.inputs, request.command), write, axes)
        if request.plot is not None:
            from stencils.cli.plot import plot

            plot(request.plot, owner, arguments, outcome, write)
    for name, value in outcome.items():
        say(f"{name}: {described(value)}")
    say(f"{owner}{f', {request.steps} steps' if request.steps else ''}: {took}")
    if request.out is not None:
        say(f"written to {'standard output' if request.out == STANDARD else request.out}")
    if request.plot is not None:
        say(f"drawn to {request.plot}")


def on_host(results: Any) -> Any:
    """Sharded results as whole arrays in the memory of each process."""
    from lowering.labelled import apart
    from lowering.loops.states import left

    return left(apart(results))


def check_steps(request: Request) -> None:
    """Refuse step counts out of range, options that need --steps without it, and checkpoints without folder or XLA.

    Raises C03, and F01 for a file of --resume that does not exist.
    """
    if request.steps is not None and not 1 <= request.steps <= MOST_STEPS:
        message = f"--steps {request.steps} is no number of steps, which are 1 to {MOST_STEPS:,}."
        raise refuse("C03", message, "write --steps 100.")
    if request.every is not None and request.every < 1:
        raise refuse("C03", f"--every {request.every} is no number of steps.", "write --every 50.")
    about_steps = {
        "--checkpoint": request.checkpoint, "--checkpoint-every": request.checkpoint_every,
        "--resume": None if request.chunks else request.resume, "--every": request.every, "--dt": request.dt,
        "--start": request.start, "--forcing": request.forcing or None, "--forcing-method": request.forcing_method,
    }  # fmt: skip
    for option, value in about_steps.items() if request.steps is None else ():
        if value is not None:
            raise refuse("C03", f"{option} is about steps, and no number of them is given.", "add --steps 100.")
    if request.checkpoint_every is not None and request.checkpoint is None:
        raise refuse("C03", "--checkpoint-every is given, and no folder for them.", "add --checkpoint checkpoints.")
    if request.checkpoint is not None and request.backend != "jax":
        message = f"--checkpoint is for programs that XLA runs, and --backend {request.backend} is given."
        raise refuse("C03", message, "leave one of them out.")
    if request.resume is not None:
        check_source(request.resume)


def forcing_of(request: Request, owner: str, params: Sequence[str]) -> dict[str, Any]:
    """The lazy arrays of --forcing by parameter.

    Raises C03 for one without the dim time, and for other backends than XLA.
    """
    forced = arrays_of(request.forcing, request.named, owner, params, (), open_arrays, "--forcing")
    for name, array in forced.items():
        if "time" not in array.dims:
            raise refuse("C03", f"'{name}' of --forcing has no dim 'time'.", "give it as --input.")
    if forced and request.backend != "jax":
        message = f"--forcing is for programs that XLA runs, and --backend {request.backend} is given."
        raise refuse("C03", message, "leave one of them out.")
    return forced


def _check_chunks(request: Request) -> None:
    """Refuse options that --chunks excludes (C03), and an output that is no Zarr store (F03) or an input (F07)."""
    others = {
        "--steps": request.steps, "--next": request.next, "--cast": request.cast, "--plot": request.plot,
        "--devices": request.devices,
    }  # fmt: skip
    for option, value in others.items():
        if value:
            raise refuse("C03", f"--chunks runs a program once, block by block, without {option}.", "leave one out.")
    if request.out is None or request.out.suffix != ".zarr":
        raise refuse("F03", "--chunks writes a Zarr store block by block.", "add --out result.zarr.")
    for text in request.inputs:
        read, written = Path(os.path.realpath(file_of(text))), Path(os.path.realpath(request.out))
        if read.is_relative_to(written) or written.is_relative_to(read):
            message = f"'{file_of(text)}' is read block by block while '{request.out}' is written"
            raise refuse("F07", f"{message}, and one is in the other.", "name another store for the results.")


def _in_blocks(
    program: Any, arguments: dict[str, Any], names: Names, request: Request, say: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:  # fmt: skip
    """Run the program block by block from Zarr or NetCDF inputs into the Zarr store of the request (`--chunks`).

    Where the user stops it, it says how to resume, and exits with 128 plus the signal.
    """
    from stencils.cli.chunked import Chunked, Halted, lacking, sizes_of

    outer = {n: names.outside(v) for n, v in arguments.items()}
    sizes = sizes_of(request.chunks, outer, names.pairs)
    extra = _unknown_dims(program, arguments)
    once = {n: v.isel(dict.fromkeys(set(extra) & set(v.dims), 0), drop=True) if kind_of(v) == "xarray" else v
            for n, v in arguments.items()}  # fmt: skip
    fencil, _ = _at_sizes(program, once)
    moved = {} if isinstance(program, Fencil) else moved_dims(program, once)
    values = {n: v for n, v in arguments.items() if any(p.name == n for p in fencil.params)}
    explicit = frozenset(names.pairs.get(d, d) for d in (c.partition("=")[0] for c in request.chunks if c != "auto"))
    begin = time.perf_counter()
    assert request.out is not None
    for sentence in lacking(values):
        warn(f"warning: {sentence}")
    run = Chunked.of(fencil, values, moved, sizes, explicit, request.backend)
    try:
        count = run.write(request.out, request.resume, names.outside, attributes(request.inputs, request.command), _bar)
    except Halted as stopped:
        kept = request.resume or request.out.with_suffix(".resume.json")
        warn(f"{stopped}; add --resume {kept} to the same command, and it goes on from there.")
        raise SystemExit(128 + stopped.signal) from None
    say(f"{program.name}, {count} blocks: {time.perf_counter() - begin:.2f} s with compilation, on {request.backend}")
    say(f"written to {request.out}")


def silent(text: str) -> None:
    """The `say` of all processes but the first: it prints nothing."""


# Arguments


def _arguments(program: Any, request: Request) -> dict[str, Any]:
    """The values of parameters and sizes by name, from --input and --set; with --cast in the declared element types."""
    params = {p.name: _element_of(p) for p in program.params}
    sizes = () if isinstance(program, Fencil) else program.sizes
    written = {c.output.name if hasattr(c.output, "name") else str(c.output) for c in program.closures}
    inputs = [n for n in params if n not in written]
    read = open_arrays if request.chunks else read_arrays if request.devices is None else opened_or_read
    values = arrays_of(request.inputs, request.named, program.name, params, inputs, read)
    settings = pairs(request.settings, "value", "dt=0.1")
    only_known(settings, [*params, *sizes], program.name, "parameter")
    for name, value in settings.items():
        values[name] = _number(name, value, SCALARS["int64"] if name in sizes else params[name])
    if request.cast:
        values = {n: _cast(n, v, params.get(n)) for n, v in values.items()}
    return values


def _element_of(param: Any) -> Any:
    """The element type of a parameter of a fencil or a template; None for a template's tuple."""
    if isinstance(param, Var):
        return param.type.element
    return SCALARS.get({"float": "float64", "int": "int32"}.get(str(param.type.element), str(param.type.element)))


def _number(name: str, text: str, element: Any) -> Any:
    """The text of --set as a scalar array of an element type; raises C04 where it is none, or out of range."""
    if not isinstance(element, Scalar):
        raise refuse("C04", f"'{name}' is a tuple, which --set cannot give.", "put it into an npz file.")
    try:
        if element.kind == "bool":
            return np.asarray({"true": True, "false": False}[text.lower()])
        value = int(text, 0) if element.is_integer else float(text)
    except (ValueError, KeyError):
        raise refuse("C04", f"'{text}' is not {element}, which '{name}' is.", f"write --set {name}=1.") from None
    if not element.holds(value):
        raise refuse("C04", f"'{name}' is {element}, which cannot hold {value}.")
    return np.asarray(value, DTYPES[element])


def _cast(name: str, value: Any, element: Any) -> Any:
    """An array in an element type, with its encoding.

    Raises A02 for floats to integers, A07 for integers out of range.
    """
    if not isinstance(element, Scalar) or not hasattr(value, "astype") or scalar_of(value.dtype) == element:
        return value
    if element.is_integer and value.dtype.kind == "f":
        raise refuse("A02", f"--cast makes no integers of floats ({value.dtype} to {element}).", "round them first.")
    if element.is_integer and value.dtype.kind in "iu" and value.size:
        for extreme in (int(np.min(value)), int(np.max(value))):
            if extreme not in element.range:
                raise refuse("A07", f"'{name}' is {element}, which cannot hold {extreme}.", "declare a wider type.")
    cast = value.astype(DTYPES[element])
    if hasattr(value, "encoding"):
        cast.encoding = value.encoding
    return cast


# Running


def _mapped(program: Any, arguments: dict[str, Any], forcing: dict[str, Any], request: Request) -> dict[str, Any]:
    """Run the program once per index of each dim it does not have, such as time, and join the results along it."""
    extra = list(_unknown_dims(program, arguments))
    if not extra:
        return _stepped(program, arguments, forcing, request, show=True)
    import xarray as xr

    dim = extra[0]
    extent = next(v.sizes[dim] for v in arguments.values() if kind_of(v) == "xarray" and dim in v.dims)
    parts: list[dict[str, Any]] = []
    bar = _bar(extent, dim)
    for k in range(extent):
        at, forced = (
            {
                n: v.isel({dim: k}, drop=False) if kind_of(v) == "xarray" and dim in v.dims else v
                for n, v in some.items()
            }
            for some in (arguments, forcing)
        )
        one = request if request.checkpoint is None else replace(request, checkpoint=request.checkpoint / f"{dim}-{k}")
        last = len(extra) == 1
        inner = _stepped(program, at, forced, one, False) if last else _mapped(program, at, forced, one)
        parts.append(inner)
        if bar:
            bar.move(k + 1)
    if bar:
        bar.close()
    coordinate = next((v.coords[dim] for v in arguments.values() if kind_of(v) == "xarray" and dim in v.coords), dim)

    def joined(values: Sequence[Any]) -> Any:
        if isinstance(values[0], tuple):
            return tuple(joined(members) for members in zip(*values, strict=True))
        return xr.concat([v.drop_vars(dim, errors="ignore") for v in values], coordinate)

    return {n: joined([p[n] for p in parts]) for n in parts[0]}


def _unknown_dims(program: Any, arguments: Mapping[str, Any]) -> dict[str, int]:
    """The dims of DataArrays that no parameter of the program has, each with its extent."""
    known = {d for p in program.params for d in _dims_of(p)}
    arrays = [v for v in arguments.values() if kind_of(v) == "xarray"]
    return {str(d): v.sizes[d] for v in arrays for d in v.dims if str(d) not in known}


def _dims_of(param: Any) -> tuple[str, ...]:
    """The names of the dims of a parameter, of a program or of a template."""
    return param.type.dims.names if isinstance(param, Var) else tuple(r.dim for r in param.type.ranges)


def _members_of(results: Mapping[str, Any]) -> Iterator[str]:
    """The names of results in a file, for members of tuples as "x_0"."""
    for name, value in results.items():
        yield from _members_of({f"{name}_{k}": v for k, v in enumerate(value)}) if isinstance(value, tuple) else [name]


def _stepped(
    program: Any, arguments: dict[str, Any], forcing: dict[str, Any], request: Request, show: bool
) -> dict[str, Any]:
    """The results of one call, or after --steps of the program; `show` draws a progress bar of the steps."""
    if request.steps is None:
        if request.next:
            raise refuse("C03", "--next repeats a program, and no number of steps is given.", "add --steps 100.")
        return _ready(program, request)(**arguments)
    fencil, values = _at_sizes(program, arguments)
    pairs = feedback(fencil, request.next)
    step = stepped(fencil, pairs)
    return _repeat(fencil, step, pairs, values, forcing, request, show)


def _ready(program: Any, request: Request) -> Any:
    """The compiled program: on the backend of the request, or distributed over its devices."""
    if request.devices is not None:
        return request.devices.distributed(program)
    return ti.compile(program, backend=request.backend)


def _at_sizes(program: Any, arguments: dict[str, Any]) -> tuple[Fencil, dict[str, Any]]:
    """The fencil at the sizes of the arguments, and the arguments without those that are sizes."""
    bound = BoundProgram.of(program)
    if isinstance(bound.program, Fencil):
        return bound.program, arguments
    sizes = {n: int(v) for n, v in arguments.items() if n in bound.size_names}
    values = {n: v for n, v in arguments.items() if n not in sizes}
    return bound.program.specialise(**solve_sizes(bound.program, values, sizes)), values


def _repeat(
    fencil: Fencil, step: Fencil, pairs: Mapping[str, str], values: dict[str, Any], forcing: dict[str, Any],
    request: Request, show: bool,
) -> dict[str, Any]:  # fmt: skip
    """The results after --steps of `step`, or with --every the snapshots, joined along step or time.

    `step` is `fencil` with its outputs copied to the inputs of the next step, which `pairs` has as input -> output.
    Raises `Stopped` with the progress where the user stops it, KeyboardInterrupt without a progress bar.
    """
    import xarray as xr

    from tensorir.binding.calls import prepare_call

    for name in pairs:
        if name in forcing:
            raise refuse("C03", f"'{name}' is what steps change, and --forcing gives it.", "give it as --input.")
    by_block = request.devices is not None
    ready = prepare_call(step, values, lambda _: True, tuple(pairs) if by_block else (), by_block)
    assert request.steps is not None
    forced = {name: _records(step, values, name, array) for name, array in forcing.items()}
    clock = None
    if forced or request.dt is not None or request.start is not None:
        clock = clock_of(*clock_from(request), dict(values), request.steps)
    # what devices read by block lies in the state, where steps hand it on
    read = {n: _named(step[n], v) for n, v in ready.arrays.items() if n not in forced}
    state = {n: v for n, v in read.items() if n in pairs or v is not ready.arrays[n]}
    steps = Steps(
        step, pairs, state, {n: v for n, v in read.items() if n not in state},
        request.steps, request.every, request.backend, _ready(step, request),
        forced, request.forcing_method or "linear", clock, request.checkpoint, request.often,
    )  # fmt: skip

    @cache
    def run() -> str:
        arrays = {n: tuple(np.asarray(a) for a in v) for n, v in ready.arrays.items()}
        arrays |= {f"{n} at times": (v.values, *(v[c].values for c in v.coords)) for n, v in forced.items()}
        return identity(step, arrays, f"{request.every} {steps.method} {clock}" if forced else request.every)

    if not by_block:
        run()  # before a backend writes into what it got
    begun = resumed(request.resume, run(), steps) if request.resume else Progress(0, steps.state)
    bar = _bar(request.steps, "steps") if show else None
    end = steps.kept(bar) if request.checkpoint else steps.advance(begun, bar)
    if end.done < request.steps:
        if not show:
            raise KeyboardInterrupt
        raise Stopped(end, run(), request.steps)
    shown = {source: target for target, source in pairs.items()}

    def finished(now: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        """The outputs by name, with labels, of a state."""
        # a field that feeds the next step is shown where it is read: with the rows around it
        # results go into the buffers that are passed: each time into new ones
        buffers = {n: v.copy() if hasattr(v, "copy") and not Unread.in_file(v) else v for n, v in values.items()}
        results = prepare_call(step, buffers, lambda _: True, tuple(pairs) if by_block else (), by_block).finish(
            {
                p.name: now.get(p.name) or tuple(np.zeros(p.type.dims.shape, DTYPES[s]) for s in p.type.leaves)
                for p in step.outputs
            }
        )
        return {source: results[shown[source]] for source in shown}

    if not request.every:
        return finished(end.state) if clock is None else clock.dated(finished(end.state), request.steps)
    snapshots = [(k, finished(now)) for k, now in end.snapshots]
    axis = "step" if clock is None else "time"
    index = xr.Variable(axis, [k if clock is None else clock.at(k) for k, _ in snapshots])
    if clock is not None and clock.units is not None:
        index.encoding.update(units=clock.units, dtype="int64")
    result: dict[str, Any] = {}
    for name in snapshots[0][1] if snapshots else ():
        parts = [s[name] for _, s in snapshots]
        if hasattr(parts[0], "dims"):
            result[name] = xr.concat(parts, xr.DataArray(index, dims=axis, name=axis))
        else:
            result[name] = np.stack(parts)
    return result


def _named(param: Var, leaves: tuple[Any, ...]) -> tuple[Any, ...]:
    """The leaves of a parameter as DataArrays on its dims if one of them is lazy; otherwise the same tuple."""
    if not any(isinstance(x, Unread) for x in leaves):
        return leaves
    import xarray as xr

    return tuple(xr.DataArray(x.variable) if isinstance(x, Unread) else xr.DataArray(x, dims=param.type.dims.names)
                 for x in leaves)  # fmt: skip


def _records(step: Fencil, values: Mapping[str, Any], name: str, array: Any) -> Any:
    """A forcing along time as a lazy DataArray, cut to the dims of the parameter `name`, with its coordinate time.

    Raises A05 where it lacks dims of the parameter.
    """
    import xarray as xr

    times, dims = Interval(0, array.sizes["time"]), step[name].type.dims
    have = Place.of(step, {**values, name: array.isel(time=0, drop=True)}, {}).intervals.get(name)
    along = lambda d: Dims((("time", times), *d.items))
    if Unread.in_file(array) is None or have is None:
        raise refuse("A05", f"'{name}' of --forcing lacks {', '.join(dims)}.", "rename or add the dim.")
    part = placed(array, name, along(dims), along(have), Unread.in_file(array))
    return xr.DataArray(part.variable, {c: array[c].variable for c in {"time"} & {*array.coords}})


def clock_from(request: Request) -> tuple[Any, str | None]:
    """--dt (a number, or a text with a unit; 1 by default) and --start, the date of the first state or None."""
    length = request.dt or "1"
    try:
        return float(length), request.start
    except ValueError:
        return length, request.start


def _bar(total: int, label: str) -> Any:
    """A progress bar of `total` steps; None if standard error is no terminal."""
    from lowering.loops.progress import Bar

    return Bar(total, label=label) if sys.stderr.isatty() else None
