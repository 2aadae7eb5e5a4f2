"""`tensorir check`, `print`, `lower`, `info` and `equal`: looking at programs without running them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorir as ti
from stencils.cli import kernels, tiles
from stencils.cli.files import DATA, STANDARD, check_source, check_target, together, write_arrays
from stencils.cli.modules import is_named, named_object
from stencils.cli.options import pairs, refuse_given, sizes
from tensorir.ir.nodes import Fencil
from tensorir.runtime.errors import refuse
from tensorir.text.printer import print_fencil, print_param

# `tensorir check`, `print`, `lower` and `info`: looking at programs without running them.


def text_of(path: Path) -> tuple[str, str]:
    """The text of a program and what it is called: that of a file, of standard input for -, of one in a module."""
    from tensorir.text import read_text

    if path == STANDARD:
        return sys.stdin.read(), "<standard input>"
    if is_named(path):
        program = named_object(str(path))
        if not isinstance(program, Fencil):
            message = f"'{path}' is of type {type(program).__name__}, and this command takes a program."
            raise refuse("C09", message, f"operators are run on arrays: tensorir run {path} --input arrays.nc.")
        return print_fencil(program), str(path)
    check_source(path)
    if path.suffix == ".py":
        hint = f"print the kernel as a program first: tensorir lift {path}."
        raise refuse("C09", f"'{path}' is a kernel, and this command takes a program (.fencil).", hint)
    if path.suffix in DATA:
        hint = f"give the program, and the file as its input: tensorir run program.fencil --input {path}."
        raise refuse("C09", f"'{path}' is a file of arrays, and this command takes a program (.fencil).", hint)
    return read_text(path), str(path)


def programs_of(path: Path, fencil: str | None) -> dict[str, Any]:
    """The programs of a file by name, or the one that is asked for."""
    from tensorir.text import parse, parse_all

    text, name = text_of(path)
    return parse_all(text, name=name) if fencil is None else {fencil: parse(text, fencil=fencil, name=name)}


def check(path: Path, fencil: str | None, say: Callable[[str], None]) -> None:
    """Parse and type every program of a file."""
    for name, program in programs_of(path, fencil).items():
        sizes = () if isinstance(program, Fencil) else program.sizes
        later = f", typed when {', '.join(sizes)} {'is' if len(sizes) == 1 else 'are'} known" if sizes else ""
        say(f"{name}: well-formed{later}")


def show(path: Path, fencil: str | None, ascii: bool, say: Callable[[str], None]) -> None:
    """Print every program in canonical form."""
    texts = [print_fencil(p, ascii=ascii) for p in programs_of(path, fencil).values()]
    say("\n\n".join(texts))


def _bind_sizes(path: Path, fencil: str | None, settings: tuple[str, ...]) -> Iterator[tuple[str, Any, dict[str, int]]]:
    """Every program with those of the sizes that are its own; a size that none has is refused."""
    programs = programs_of(path, fencil)
    names_of = {n: () if isinstance(p, Fencil) else p.sizes for n, p in programs.items()}
    values = sizes(settings, [s for names in names_of.values() for s in names], ", ".join(programs))
    for name, program in programs.items():
        yield name, program, {s: values[s] for s in names_of[name] if s in values}


def lower(path: Path, fencil: str | None, to: str, settings: tuple[str, ...], say: Callable[[str], None]) -> None:
    """Print what XLA is given (stablehlo, jaxpr), what it makes of it (hlo), or what was chosen and why (plan)."""
    forms = ("stablehlo", "jaxpr", "hlo", "plan")
    if to not in forms:
        raise refuse("C06", f"there is no form '{to}'.", f"use {', '.join(forms)}.")
    for _, program, known in _bind_sizes(path, fencil, settings):
        say(str(getattr(ti.compile(program), to)(**known)))


def info(path: Path, fencil: str | None, settings: tuple[str, ...], say: Callable[[str], None]) -> None:
    """Print a program's parameters with their types, its halos, and what it costs."""
    for name, program, known in _bind_sizes(path, fencil, settings):
        if not isinstance(program, Fencil):
            if set(program.sizes) - set(known):
                say(f"{name}, for sizes {', '.join(program.sizes)}")
                for p in program.params:
                    say(f"  {print_param(p)}")
                say(f"  give sizes to see halos and costs: {' '.join(f'--set {n}=100' for n in program.sizes)}")
                continue
            program = program.specialise(**known)
        say(f"{name}")
        outputs, inputs = {p.name for p in program.outputs}, {p.name for p in program.inputs}
        for p in program.params:
            role = "in and out" if p.name in outputs & inputs else "out" if p.name in outputs else "in"
            say(f"  {p.name}: {p.type}, {role}{_halo(program, p) if role == 'in' else ''}")
        say("  " + str(ti.compile(program).cost()).replace("\n", "\n  "))


def _halo(program: Fencil, param: Any) -> str:
    """The halo of a parameter beyond the last output."""
    target = program.closures[-1].target.dims
    parts = [
        f"{d} {target[d].start - i.start}+{i.stop - target[d].stop}"
        for d, i in param.type.dims.items
        if d in target and i != target[d]
    ]
    return f", halo {', '.join(parts)}" if parts else ""


# `tensorir equal`: whether two programs of files compute the same, whatever language each is written in.


def equal(
    one: str, other: str, settings: tuple[str, ...], match: tuple[str, ...], names: tuple[str, ...], grid: str | None,
    out: Path | None, say: Callable[[str], None],
) -> bool:  # fmt: skip
    """Say the verdict on two programs; a counterexample is written. Whether they may be the same."""
    check_target(out, (".npz", ".nc"))
    numbers = pairs(settings, "value", "n=64", "--size")
    sizes = {name: int(text) for name, text in numbers.items() if text.isdecimal()}
    shapes = tuple(s for s in settings if s.partition("=")[0] not in sizes)  # of arrays of Tile IR
    constants = _assign_constants((one, other), names)
    verdict = ti.equivalent(
        *(_read_program(where, shapes, grid, held) for where, held in zip((one, other), constants, strict=True)),
        match=pairs(match, "name", "x=a", "--match") or None, sizes=sizes or None,
    )  # fmt: skip
    say(str(verdict))
    for condition in verdict.unvisited:
        say(f"note: {condition}.")
    if verdict.counterexample is not None:
        for name, array in verdict.counterexample.items():
            if array.size <= 32:
                say(f"{name} = {array.tolist()}")
        if out is not None:
            with together() as write:
                write_arrays(out, dict(verdict.counterexample), {}, write)
            say(f"written to {out}")
    return bool(verdict.agree)


def _assign_constants(files: tuple[str, ...], names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The constants whose names each text holds; one that none holds goes to the first kernel, which refuses it."""
    paths = [_split_name(where)[0] for where in files]
    of_kernels = [k for k, path in enumerate(paths) if kernels.is_kernel(path) and path.is_file()]
    held: list[tuple[str, ...]] = [()] * len(paths)
    if not names:
        return held
    if not of_kernels:
        refuse_given(paths[0], "no kernel (.py)", {"--name": names})
    for k in of_kernels:
        words = set(re.findall(r"\w+", paths[k].read_text(errors="replace")))
        held[k] = tuple(n for n in names if n.partition("=")[0].rpartition(".")[2] in words)
    first = of_kernels[0]
    held[first] = tuple(n for n in names if n in held[first] or not any(n in other for other in held))
    return held


def _read_program(where: str, shapes: tuple[str, ...], grid: str | None, names: tuple[str, ...]) -> Any:
    """A program of a file, `kernel.py:name`, or the only one of it."""
    path, name = _split_name(where)
    check_source(path)
    if tiles.is_tile(path):
        return tiles.lifted(path, name, shapes, grid, numerics="exact")
    if kernels.is_kernel(path):
        return kernels.function_of(path, name, names)
    programs: Mapping[str, Any] = programs_of(path, name)
    if len(programs) > 1:
        raise refuse(
            "C07",
            f"'{path}' has several programs: {', '.join(programs)}.",
            f"say which: {path}:{next(iter(programs))}.",
        )
    return next(iter(programs.values()))


def _split_name(where: str) -> tuple[Path, str | None]:
    file, colon, name = where.rpartition(":")
    return (Path(file), name) if colon and name.isidentifier() else (Path(where), None)
