"""`tensorir check`, `print`, `lower` and `info`: looking at programs without running them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorir as ti
from stencils.cli.files import DATA, check_source
from stencils.cli.modules import is_named, named_object
from stencils.cli.options import sizes
from stencils.cli.pipes import STANDARD
from tensorir.binding.arrays import refuse
from tensorir.ir.nodes import Fencil
from tensorir.text.printer import print_fencil, print_param

__all__ = ["check", "info", "lower", "programs_of", "show", "text_of"]


def text_of(path: Path) -> tuple[str, str]:
    """The text of a program and what it is called: that of a file, of standard input for -, of one in a module."""
    from tensorir.text import read_text

    if path == STANDARD:
        return sys.stdin.read(), "<standard input>"
    if is_named(path):
        found = named_object(str(path))
        if not isinstance(found, Fencil):
            told = f"'{path}' is of type {type(found).__name__}, and this command takes a program."
            raise refuse("C09", told, f"operators are run on arrays: tensorir run {path} --input arrays.nc.")
        return print_fencil(found), str(path)
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


def _sized(path: Path, fencil: str | None, settings: tuple[str, ...]) -> Iterator[tuple[str, Any, dict[str, int]]]:
    """Every program with those of the sizes that are its own; a size that none has is refused."""
    programs = programs_of(path, fencil)
    own = {n: () if isinstance(p, Fencil) else p.sizes for n, p in programs.items()}
    given = sizes(settings, [s for names in own.values() for s in names], ", ".join(programs))
    for name, program in programs.items():
        yield name, program, {s: given[s] for s in own[name] if s in given}


def lower(path: Path, fencil: str | None, to: str, settings: tuple[str, ...], say: Callable[[str], None]) -> None:
    """Print what XLA is given (stablehlo, jaxpr), what it makes of it (hlo), or what was chosen and why (plan)."""
    forms = ("stablehlo", "jaxpr", "hlo", "plan")
    if to not in forms:
        raise refuse("C06", f"there is no form '{to}'.", f"use {', '.join(forms)}.")
    for _, program, given in _sized(path, fencil, settings):
        say(str(getattr(ti.compile(program), to)(**given)))


def info(path: Path, fencil: str | None, settings: tuple[str, ...], say: Callable[[str], None]) -> None:
    """Print a program's parameters with their types, its halos, and what it costs."""
    for name, program, given in _sized(path, fencil, settings):
        if not isinstance(program, Fencil):
            if set(program.sizes) - set(given):
                say(f"{name}, for sizes {', '.join(program.sizes)}")
                for p in program.params:
                    say(f"  {print_param(p)}")
                say(f"  give sizes to see halos and costs: {' '.join(f'--set {n}=100' for n in program.sizes)}")
                continue
            program = program.specialise(**given)
        say(f"{name}")
        outputs, inputs = {p.name for p in program.outputs}, {p.name for p in program.inputs}
        for p in program.params:
            role = "in and out" if p.name in outputs & inputs else "out" if p.name in outputs else "in"
            say(f"  {p.name}: {p.type}, {role}{_halo(program, p) if role == 'in' else ''}")
        say("  " + str(ti.compile(program).cost()).replace("\n", "\n  "))


def _halo(program: Fencil, param: Any) -> str:
    """How far a parameter reaches beyond the last output."""
    target = program.closures[-1].target.dims
    parts = [
        f"{d} {target[d].start - i.start}+{i.stop - target[d].stop}"
        for d, i in param.type.dims.items
        if d in target and i != target[d]
    ]
    return f", halo {', '.join(parts)}" if parts else ""
