"""The commands and their options.

What a command needs is imported in it: `--help` needs no NumPy.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from stencils.cli.terminal import aside, ask, coloured, printable, say, takes_colours
from tensorir.runtime.errors import Diagnostic, DiagnosticError, leave

app = typer.Typer(
    name="tensorir",
    help="Check, print, lower and run programs of the tensor IR (.fencil), TVMScript (.py) and Tile IR (.mlir).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Program = Annotated[
    Path,
    typer.Argument(
        help="A program (.fencil; - for standard input), an operator of a module (model.py:step), or a kernel (.py, "
        ".mlir, .tileirbc).",
        show_default=False,
    ),
]
Fencils = Annotated[Path, typer.Argument(help="A program (.fencil; - for standard input).", show_default=False)]
Name = Annotated[str | None, typer.Option("--fencil", help="Which program of the file, if it has several.")]
Sizes = Annotated[list[str] | None, typer.Option("--set", help="A size, as n=100. May be repeated.")]
Programs = Annotated[
    list[Path], typer.Argument(help="Programs (.fencil) or kernels (.py, .mlir, .tileirbc).", show_default=False)
]
Constants = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        help="Of a kernel (.py): what a name stands for that it has from around it, as n=128, causal=true or "
        "dtype=float16. May be repeated.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there already.")]


def _version(wanted: bool) -> None:
    """Print the version and exit, for `--version`."""
    if wanted:
        from tensorir import __version__

        say(f"tensorir {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Check, print, lower and run programs of the tensor IR (.fencil), TVMScript (.py) and Tile IR (.mlir)."""


@app.command()
def run(
    program: Program,
    arrays: Annotated[
        list[str] | None, typer.Argument(help="Files of arrays, as with --input.", show_default=False)
    ] = None,
    input: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            help="A NetCDF, Zarr or npz file whose variables are parameters, or one variable of it: inp=x.nc:height, "
            "which goes before a variable inp of another file, as --set does; - is standard input. May be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where results go: .nc, .zarr or .npz; - is NetCDF to standard output."),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(help="Which dim of files is which of the program, as latitude=J. May be repeated."),
    ] = None,
    overwrite: Overwrite = False,
    fencil: Name = None,
    set: Annotated[list[str] | None, typer.Option("--set", help="A number, as dt=0.1. May be repeated.")] = None,
    steps: Annotated[int | None, typer.Option(help="Run so many times; outputs feed inputs.")] = None,
    next: Annotated[
        list[str] | None,
        typer.Option(
            "--next", help="Which input takes which output for the next step, as inp=out. Default: same name."
        ),
    ] = None,
    cast: Annotated[
        bool, typer.Option("--cast", help="Convert element types; without it a mismatch is an error.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw before, after and difference: .png, .svg or .pdf.")] = None,
    backend: Annotated[
        str | None, typer.Option(help="What runs it: jax (the default), or reference (slow, obvious).")
    ] = None,
    every: Annotated[int | None, typer.Option(help="Keep a snapshot after every so many steps.")] = None,
    dt: Annotated[str | None, typer.Option(help="How long a step is: 0.5, or '90 s'.")] = None,
    start: Annotated[str | None, typer.Option(help="The date of the first state, as 2026-01-01T06:00.")] = None,
    forcing: Annotated[
        list[str] | None,
        typer.Option(
            help="A NetCDF file or Zarr store whose variables along time are parameters, which each step reads at the "
            "time at which it begins; or one variable of it: q=x.nc:height. May be repeated."
        ),
    ] = None,
    forcing_method: Annotated[
        str | None, typer.Option(help="Between times of the forcing: linear (the default), or held.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on from the folder of --checkpoint, or from the state that a run left which Ctrl-C or SIGTERM "
            "stopped; with --chunks after the blocks that are done. Refused for another program, options or version, "
            "and for inputs that have changed since: whose files have other names, sizes or times of change."
        ),
    ] = None,
    chunks: Annotated[
        list[str] | None,
        typer.Option(
            help="Block by block, for stores larger than memory: points of a block, as time=1000, or auto for the "
            "store's own. May be repeated."
        ),
    ] = None,
    devices: Annotated[
        str | None, typer.Option(help="Part the program over so many devices along the dims of --dims, as 2x2.")
    ] = None,
    dims: Annotated[str | None, typer.Option(help="The dims that --devices parts, as I,J or I+IHalf,J.")] = None,
    processes: Annotated[
        str | None,
        typer.Option(
            help="Several processes: 4 on this machine, HOST:PORT,4,0 for the first of 4, or auto where a launcher "
            "says who takes part; under srun and mpirun nothing."
        ),
    ] = None,
    heartbeat: Annotated[
        int | None,
        typer.Option(help="Seconds after which a process that stands still is given up. Default: 10.", min=1),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="A folder for checkpoints of the steps, from which the same command goes on after its processes have "
            "ended, on any number of them."
        ),
    ] = None,
    checkpoint_every: Annotated[
        str | None, typer.Option(help="Steps between two checkpoints, or the time that they take: 1000, or '10 min'.")
    ] = None,
    func: Annotated[str | None, typer.Option(help="Of a kernel (.py): which function.")] = None,
    name: Constants = None,
    checked: Annotated[
        bool, typer.Option("--checked", help="Of a kernel: report races, reads outside and of what nobody wrote.")
    ] = False,
    random: Annotated[bool, typer.Option("--random", help="Of a kernel: random arrays for what is not given.")] = False,
    grid: Annotated[str | None, typer.Option(help="Of Tile IR: the blocks of the grid, as 4,1,1.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of Tile IR: blocks take turns, as this number decides.", min=0)
    ] = None,
) -> None:
    """Run a program on arrays from files.

    Dims that the program does not know, such as time, are mapped over. I, J, K are found by what the attributes of
    coordinates say of axes X, Y, Z. Example:

    tensorir run terrain_filter.fencil --input inp=terrain.nc:elevation --set strength=0.015 --steps 50 --next inp=out
    --out filtered.nc --plot filtered.png
    """
    import tensorir as ti
    from stencils.cli import iterators, kernels, modules, operators, tiles
    from stencils.cli.files import STANDARD, keep_existing
    from stencils.cli.options import Devices, refuse_given
    from stencils.cli.run import Request
    from stencils.cli.run import run as execute
    from tensorir.fieldview.operator import FieldOperator

    keep_existing((None if chunks and resume else out, plot), overwrite, ask)
    inputs = (*(arrays or ()), *(input or ()))
    named = modules.named_object(str(program)) if modules.is_named(program) else None
    if isinstance(named, FieldOperator):
        refuse_given(program, "an operator", {
            "--fencil": fencil, "--cast": cast, "--backend": backend, "--func": func, "--name": name,
            "--checked": checked, "--random": random, "--grid": grid, "--seed": seed, "--resume": resume,
            "--chunks": chunks,
        })  # fmt: skip
        request = Request(
            program, None, inputs, out, tuple(set or ()), steps, tuple(next or ()), False, plot, "jax", every,
            tuple(rename or ()), None, Devices.of(devices, dims, processes, heartbeat), dt, start,
            forcing=tuple(forcing or ()), forcing_method=forcing_method, checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
        )  # fmt: skip
        operators.run(named, request, aside if out == STANDARD else say, aside)
        return
    if named is not None and not isinstance(named, ti.Fencil):
        refuse_given(program, "a program of GT4Py", {
            "--fencil": fencil, "--steps": steps, "--next": next, "--cast": cast, "--plot": plot, "--backend": backend,
            "--every": every, "--dt": dt, "--start": start, "--forcing": forcing, "--forcing-method": forcing_method,
            "--func": func, "--name": name, "--checked": checked, "--random": random, "--grid": grid, "--seed": seed,
            "--rename": rename, "--resume": resume, "--chunks": chunks,
            "--devices": devices, "--dims": dims, "--processes": processes, "--checkpoint": checkpoint,
            "--checkpoint-every": checkpoint_every,
        })  # fmt: skip
        iterators.run(program, inputs, out, tuple(set or ()), say)
        return
    if tiles.is_tile(program):
        refuse_given(program, "Tile IR", {
            "--fencil": fencil, "--steps": steps, "--next": next, "--cast": cast, "--plot": plot, "--backend": backend,
            "--every": every, "--dt": dt, "--start": start, "--forcing": forcing, "--forcing-method": forcing_method,
            "--name": name, "--random": random, "--rename": rename, "--resume": resume, "--chunks": chunks,
            "--devices": devices, "--dims": dims, "--processes": processes, "--checkpoint": checkpoint,
            "--checkpoint-every": checkpoint_every,
        })  # fmt: skip
        tiles.run(program, func, inputs, out, tuple(set or ()), grid, checked, seed, say)
        return
    refuse_given(program, "no Tile IR", {"--grid": grid, "--seed": seed})
    if kernels.is_kernel(program):
        refuse_given(program, "a kernel", {
            "--fencil": fencil, "--steps": steps, "--next": next, "--cast": cast, "--plot": plot, "--backend": backend,
            "--every": every, "--dt": dt, "--start": start, "--forcing": forcing, "--forcing-method": forcing_method,
            "--rename": rename, "--resume": resume, "--chunks": chunks,
            "--devices": devices, "--dims": dims, "--processes": processes, "--checkpoint": checkpoint,
            "--checkpoint-every": checkpoint_every,
        })  # fmt: skip
        kernels.run(program, func, inputs, out, tuple(set or ()), tuple(name or ()), random, checked, say)
        return

    refuse_given(program, "a program", {"--func": func, "--name": name, "--checked": checked, "--random": random})
    execute(
        Request(
            program, fencil, inputs, out, tuple(set or ()), steps, tuple(next or ()), cast, plot,
            backend or "jax", every, tuple(rename or ()), resume, Devices.of(devices, dims, processes, heartbeat),
            dt, start, tuple(chunks or ()), tuple(forcing or ()), forcing_method, checkpoint, checkpoint_every,
        ),
        aside if out == STANDARD else say,
        aside,
    )  # fmt: skip


@app.command()
def check(programs: Programs, fencil: Name = None, name: Constants = None) -> None:
    """Say whether programs are well-formed, with every finding."""
    from stencils.cli import kernels, look, tiles
    from stencils.cli.options import refuse_given

    findings: list[Diagnostic] = []
    for program in programs:
        try:
            if tiles.is_tile(program):
                refuse_given(program, "Tile IR", {"--fencil": fencil, "--name": name})
                tiles.check(program, say)
            elif kernels.is_kernel(program):
                refuse_given(program, "a kernel", {"--fencil": fencil})
                kernels.check(program, tuple(name or ()), say)
            else:
                refuse_given(program, "a program", {"--name": name})
                look.check(program, fencil, say)
        except DiagnosticError as wrong:
            findings += wrong.diagnostics
    if findings:
        raise DiagnosticError(tuple(findings))


@app.command("print")
def show(
    program: Program,
    fencil: Name = None,
    name: Constants = None,
    ascii: Annotated[bool, typer.Option("--ascii", help="Without any character beyond ASCII.")] = False,
) -> None:
    """Print programs in canonical form."""
    from stencils.cli import kernels, look, tiles
    from stencils.cli.options import refuse_given

    if tiles.is_tile(program):
        refuse_given(program, "Tile IR", {"--fencil": fencil, "--name": name, "--ascii": ascii})
        tiles.show(program, say)
        return
    if kernels.is_kernel(program):
        refuse_given(program, "a kernel", {"--fencil": fencil, "--ascii": ascii})
        kernels.show(program, tuple(name or ()), say)
        return
    refuse_given(program, "a program", {"--name": name})
    look.show(program, fencil, ascii, say)


@app.command()
def convert(
    module: Annotated[Path, typer.Argument(help="Tile IR: text (.mlir) or bytecode (.tileirbc).", show_default=False)],
    to: Annotated[Path, typer.Argument(help="Where it is written: .mlir or .tileirbc.", show_default=False)],
    version: Annotated[str, typer.Option(help="Of bytecode: 13.1, 13.2 or 13.3.")] = "13.3",
    overwrite: Overwrite = False,
) -> None:
    """Write Tile IR as text or as bytecode."""
    from stencils.cli import tiles
    from stencils.cli.files import keep_existing

    keep_existing((to,), overwrite, ask)
    tiles.convert(module, to, version, say)


@app.command()
def lift(
    kernel: Annotated[
        Path,
        typer.Argument(
            help="A kernel (TVMScript, .py; Tile IR, .mlir or .tileirbc), or module:program with --from.",
            show_default=False,
        ),
    ],
    func: Annotated[str | None, typer.Option(help="Which function.")] = None,
    name: Constants = None,
    set: Sizes = None,
    origin: Annotated[str, typer.Option("--from", help="Whose program it is: tvm or gt4py.")] = "tvm",
    size: Annotated[list[str] | None, typer.Option(help="Of a program of GT4Py: a dim or number, as K=65.")] = None,
    on_hazard: Annotated[str, typer.Option(help="What is proven wrong: error, sequential or ignore.")] = "error",
    report: Annotated[bool, typer.Option(help="Also how each loop was lifted, and why.")] = True,
    grid: Annotated[str | None, typer.Option(help="Of Tile IR: the blocks of the grid, as 4,1,1.")] = None,
) -> None:
    """Print a kernel as a pure tensor program.

    Of Tile IR --set has the shape of each array, and numbers: --set p=1024x64 --set n=8.
    """
    from stencils.cli.options import refuse_given

    if origin == "gt4py":
        from stencils.cli import iterators

        refuse_given(kernel, "a program of GT4Py", {"--name": name})
        return iterators.lift(str(kernel), tuple(size or ()), report, say)
    from stencils.cli import kernels, tiles

    if tiles.is_tile(kernel):
        refuse_given(kernel, "Tile IR", {"--name": name})
        return tiles.lift(kernel, func, tuple(set or ()), grid, on_hazard, report, say)
    refuse_given(kernel, "no Tile IR", {"--grid": grid})
    kernels.lift(kernel, func, tuple(set or ()), tuple(name or ()), on_hazard, report, say)


@app.command()
def equal(
    one: Annotated[
        str, typer.Argument(help="A program (.fencil), TVMScript (.py) or Tile IR, or FILE:NAME.", show_default=False)
    ],
    other: Annotated[str, typer.Argument(help="Another one, in the same language or not.", show_default=False)],
    size: Annotated[
        list[str] | None,
        typer.Option(help="A size, as n=64; of Tile IR the shape of an array, as p=1024x64. May be repeated."),
    ] = None,
    match: Annotated[
        list[str] | None, typer.Option(help="Which parameter of the first is which of the second, as x=a.")
    ] = None,
    name: Constants = None,
    grid: Annotated[str | None, typer.Option(help="Of Tile IR: the blocks of the grid, as 4,1,1.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where a counterexample goes: .npz or .nc.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Say whether two programs compute the same: how much is proven, or inputs that tell them apart.

    The exit code is 1 where they differ, or nothing is known. Example:

    tensorir equal softmax.py:fused model.fencil:softmax --size n=64
    """
    from stencils.cli.files import keep_existing
    from stencils.cli.look import equal as compare

    keep_existing((out,), overwrite, ask)
    if not compare(one, other, tuple(size or ()), tuple(match or ()), tuple(name or ()), grid, out, say):
        raise typer.Exit(1)


@app.command()
def tt(
    kernel: Annotated[Path, typer.Argument(help="A kernel of tiles (TileLang's text, .py).", show_default=False)],
    cores: Annotated[
        int | None, typer.Option(help="How many cores share the tiles; the kernel's own schedule, or 64, without.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder that the files go to.")] = None,
    func: Annotated[str | None, typer.Option(help="Which function.")] = None,
    name: Constants = None,
    capacity: Annotated[
        int | None, typer.Option(help="How many tiles each circular buffer holds. Default: two blocks.")
    ] = None,
    input: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="A file whose variables are parameters. May be repeated.")
    ] = None,
    set: Annotated[list[str] | None, typer.Option("--set", help="A number, as n=8. May be repeated.")] = None,
    random: Annotated[bool, typer.Option("--random", help="Simulate on random arrays for what is not given.")] = False,
    order: Annotated[
        str, typer.Option(help="Whose step is next: random, 'reader first', 'writer first' or 'round robin'.")
    ] = "random",
    seed: Annotated[int, typer.Option(help="Of a random order.", min=0)] = 0,
    passes: Annotated[bool, typer.Option("--passes", help="Print the kernel before and after each pass.")] = False,
    card: Annotated[
        str | None, typer.Option(help="Write programs in the calls of tt-metal: wormhole or blackhole.")
    ] = None,
    mcast: Annotated[bool, typer.Option("--mcast", help="Send blocks along rows and columns of cores.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Make a kernel's programs for a grid of Tensix cores, check their protocol, and simulate them.

    Written are compute.cpp, reader.cpp, writer.cpp, main.cpp, tiles.h and tt.plan.json; for a card compute.cpp,
    reader.cpp, writer.cpp, host.cpp and metal.plan.json, and what they cost at least is told. Example:

    tensorir tt matmul.py --cores 64 --out programs --random
    """
    from stencils.cli import tensix
    from stencils.cli.files import keep_existing

    if out is not None:
        keep_existing([out / name for name in tensix.files_for(card)], overwrite, ask)
    options = tuple(input or ()), tuple(set or ()), tuple(name or ())
    tensix.program(kernel, func, cores, capacity, out, *options, random, order, seed, passes, card, mcast, say)


@app.command()
def lower(
    program: Fencils,
    to: Annotated[str, typer.Option(help="stablehlo, jaxpr, hlo (optimised, for this machine), plan.")] = "stablehlo",
    fencil: Name = None,
    set: Sizes = None,
) -> None:
    """Print what a program becomes for XLA."""
    from stencils.cli import look

    look.lower(program, fencil, to, tuple(set or ()), say)


@app.command()
def doctor(
    processes: Annotated[str | None, typer.Option(help="Who takes part, as for `tensorir run`.")] = None,
    folder: Annotated[Path | None, typer.Option(help="A folder that all processes are to see.")] = None,
) -> None:
    """Say what runs on several processes need, and whether it is there: start it as the run is to be started.

    The exit code is 1 where something is missing. Example:

    srun tensorir doctor --folder /scratch/run
    """
    from stencils.cli.doctor import examine

    if not examine(processes, folder, say):
        raise typer.Exit(1)


@app.command()
def info(program: Fencils, fencil: Name = None, set: Sizes = None) -> None:
    """Print types, halos and cost of a program."""
    from stencils.cli import look

    look.info(program, fencil, tuple(set or ()), say)


def main(arguments: list[str] | None = None) -> None:
    """The entry point: exit code 2 and diagnostics for bad input, 1 where the program ran and failed."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, leave)
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] in (["run"], ["doctor"]) and any(word.startswith("--processes") for word in words):
        from stencils.cli.processes import launched_here

        launched_here(words)
    try:
        app(args=arguments, standalone_mode=True, prog_name="tensorir")
    except DiagnosticError as found:
        from stencils.cli.options import spelled

        text = printable(f"{DiagnosticError(tuple(map(spelled, found.diagnostics)))}\n")
        sys.stderr.write(coloured(text) if takes_colours(sys.stderr) else text)
        if any(d.code == "A48" for d in found.diagnostics):
            raise SystemExit(75) from None  # a temporary failure, in the words of sysexits
        raise SystemExit(1 if all(d.code.startswith(("R", "TR", "TH")) for d in found.diagnostics) else 2) from None
    except (OSError, UnicodeError) as found:
        sys.stderr.write(printable(f"error[F04]: {found}\n"))
        raise SystemExit(2) from None
