"""Values of options: sizes, devices, inputs, arguments of kernels, and which output feeds which input.

What diagnostics advise is said in the words of the command line: `--set n=10` where a script writes `n=10`.

>>> from tensorir.runtime.errors import Diagnostic
>>> spelled(Diagnostic("B01", "the size 'n' is not bound.", help="give it a value: n=10.")).help
'give it a value: --set n=10.'
>>> pairs(("n=5", "dt=0.1"), "number", "n=8")
{'n': '5', 'dt': '0.1'}
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import tensorir as ti
from stencils.cli.processes import launched
from tensorir.ir.build import closure, fencil
from tensorir.ir.nodes import Fencil
from tensorir.runtime.errors import Diagnostic, did_you_mean, refuse

_NAMES = [
    (
        r"parse\(text, names=\{(.*?)\}\)",
        lambda m: re.sub(r"'(\w+)': \.\.\.(?:, )?", r"--name \1=... ", m[1]).rstrip(),
    ),
    (r"by names=", "by --name"),
]
_SPELLINGS: dict[str, list[tuple[str, str | Callable[[re.Match[str]], str]]]] = {
    "A02": [(r"pass \w+\.astype\('\w+'\)", "add --cast")],
    "A11": [
        (r"pass (\w+)=, (tensor<\w+>)", r"write --set \1=1, a \2"),
        (r"pass (\w+)=, (tensor<.*>)", r"write --input \1=arrays.npz, a \2"),
    ],
    "B01": [(r"(\w+)=10\b", r"--set \1=10")],
    "N08": [(r'fencil="(\w+)"', r"--fencil \1")],
    **dict.fromkeys(("TS10", "TS25", "TS35", "TS37", "TS50", "TT02"), _NAMES),
}
"""By the code of a diagnostic what its help says to a script, and what that is on the command line."""


def spelled(diagnostic: Diagnostic) -> Diagnostic:
    """A diagnostic whose help names options."""
    help = diagnostic.help
    for python, option in _SPELLINGS.get(diagnostic.code, ()):
        help = re.sub(python, option, help)
    return replace(diagnostic, help=help)


def pairs(settings: Iterable[str], what: str, example: str, option: str = "--set") -> dict[str, str]:
    """The names of an option, each with the text of its value; raises C04 where there is none, or two."""
    values: dict[str, str] = {}
    for text in settings:
        name, _, value = text.partition("=")
        if not name or not value:
            raise refuse("C04", f"'{option} {text}' gives no {what}.", f"write {option} {example}.")
        if name in values:
            message = f"'{option} {name}=' is given twice, as {values[name]} and as {value}."
            raise refuse("C04", message, "leave one out.")
        values[name] = value
    return values


def constants(settings: Iterable[str]) -> dict[str, object]:
    """Constants for names of a kernel: numbers, true and false, strings with quotes, and words without.

    >>> constants(["n=128", "scale=0.5", "causal=true", "dtype=float16", "layout='row major'", "shape=(8, 8)"])
    {'n': 128, 'scale': 0.5, 'causal': True, 'dtype': 'float16', 'layout': 'row major', 'shape': (8, 8)}
    """
    values: dict[str, object] = {}
    for name, text in pairs(settings, "value", "n=128", "--name").items():
        if text in ("true", "false"):
            values[name] = text == "true"
            continue
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError):
            if not text.isidentifier():
                message = f"'--name {name}={text}' gives neither a number nor a string."
                raise refuse("C04", message, f"write --name {name}=128, or --name {name}=float16.") from None
            values[name] = text
    return values


def sizes(settings: Iterable[str], known: Collection[str], owner: str) -> dict[str, int]:
    """Sizes by name; raises A08 for a name that is none, C04 for a value that is none.

    >>> sizes(["n=5"], ["n"], "smooth")
    {'n': 5}
    """
    values = pairs(settings, "size", "n=100")
    only_known(values, known, owner, "size")
    for name, value in values.items():
        if not value.isdecimal():
            raise refuse("C04", f"'--set {name}={value}' gives no size.", f"write --set {name}=100.")
        if int(value) > sys.maxsize:
            raise refuse("C04", f"'--set {name}={value}' is beyond int64.", f"write --set {name}=100.")
    return {name: int(value) for name, value in values.items()}


def only_known(names: Iterable[str], known: Collection[str], owner: str, what: str) -> None:
    """Raise A08 for the first name that nothing has."""
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) if known else "leave it out."
            raise refuse("A08", f"'{owner}' has no {what} '{name}'.", hint)


def refuse_given(path: Path, kind: str, options: Mapping[str, object]) -> None:
    """Raise C10 for options that were given and say nothing about a file of this kind."""
    names = [name for name, value in options.items() if value is not None and value is not False and value != []]
    if names:
        one = len(names) == 1
        message = f"'{path}' is {kind}, and {', '.join(names)} {'is' if one else 'are'} not for one."
        raise refuse("C10", message, f"leave {'it' if one else 'them'} out.")


# `--devices 2x2 --dims I,J`: which dims of a program are parted over how many devices, of one process or several.


@dataclass(frozen=True, slots=True)
class Devices:
    """The number of devices along each distributed dim."""

    along: dict[str, int]
    processes: str | None = None
    """Who takes part: "auto", or an address, how many there are and which of them this is."""
    heartbeat: int | None = None
    """Seconds after which a process that stands still is given up."""

    @classmethod
    def of(
        cls, devices: str | None, dims: str | None, processes: str | None = None, heartbeat: int | None = None
    ) -> Devices | None:
        """The devices that the options say; with several processes and one dim, a device for each without them.

        >>> Devices.of("2x3", "I,J").along, Devices.of(None, "I", "localhost:1234,4,0").along
        ({'I': 2, 'J': 3}, {'I': 4})
        """
        if devices is None and dims is None and processes is None:
            return None
        names = [d for d in (dims or "").split(",") if d]
        taking_part = re.fullmatch(r"\S+:\d+,([1-9]\d*),\d+", processes or "")
        if devices is None and len(names) == 1 and taking_part:
            devices = taking_part[1]
        if devices is None or not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", devices):
            alone = "--processes" if dims is None else "--dims"
            said = f"{alone} alone" if devices is None else f"--devices {devices}"
            raise refuse("C03", f"{said} does not say how many devices there are.", "write --devices 2x2 --dims I,J.")
        counts = [int(n) for n in devices.split("x")]
        if len(set(names)) != len(counts):
            message = f"--devices {devices} is for {len(counts)} dims, and --dims {dims or ''} names {len(set(names))}."
            raise refuse("C03", message.replace("1 dims", "1 dim"), f"write --dims {','.join('IJK'[: len(counts)])}.")
        return cls(dict(zip(names, counts, strict=True)), processes, heartbeat)

    def join(self) -> bool:
        """Join the other processes; whether this is the first, which writes and speaks for all."""
        from lowering.distribution.meshes import join

        processes = self.processes or ("auto" if launched(os.environ) else None)
        if processes is None:
            return True
        asked = re.fullmatch(r"auto|(\S+:\d+),([1-9]\d*),(\d+)", processes)
        if asked is None or (asked[2] and int(asked[3]) >= int(asked[2])):
            message = f"--processes {self.processes} does not say who takes part."
            hint = "write --processes 4 for four on this machine, HOST:PORT,4,0 for the first of four, or auto."
            raise refuse("C03", message, hint)
        count, place = (None, None) if asked[2] is None else (int(asked[2]), int(asked[3]))
        try:
            return join(asked[1], count, place, prod(self.along.values()), self.heartbeat)
        except ValueError as problem:
            message = f"--processes auto finds no launcher of processes: {problem}"
            raise refuse("C03", message, "write --processes HOST:PORT,4,0 for the first of four.") from None

    def distributed(self, program: Any) -> Any:
        """The program on a mesh of the devices; C03 where there are fewer."""
        from lowering.distribution.meshes import available, mesh_of

        extents = tuple(self.along.values())
        if (count := available(prod(extents))) < prod(extents):
            there = "is 1" if count == 1 else f"are {count}"
            raise refuse("C03", f"--devices {self} asks for more devices than there are: there {there}.")
        mesh = mesh_of(extents)
        axes = {d: f"p{k}" for k, together in enumerate(self.along) for d in together.split("+")}
        return ti.distribute(program, mesh, axes)

    def __str__(self) -> str:
        return "x".join(map(str, self.along.values()))


# Programs that are run again and again: which output feeds which input, and what that makes of the program.
#
# The feedback is one more closure, `inp ← out`, so a step is an ordinary fencil: where the output is smaller than the
# input that it feeds, the rows around it are kept.


def feedback(program: Fencil, settings: Sequence[str]) -> dict[str, str]:
    """Input by output from options such as `inp=out`; outputs that are inputs feed themselves.

    Raises C01 for a pair that cannot be, C02 if nothing is fed back.
    """
    outputs = {p.name: p for p in program.outputs}
    names = [p.name for p in program.params]
    pairs: dict[str, str] = {p.name: p.name for p in program.outputs if p in program.inputs}
    targets: set[str] = set()
    for text in settings:
        target, sign, source = text.partition("=")
        if not sign:
            raise refuse(
                "C01", f"'--next {text}' does not say which input takes which output.", "write --next inp=out."
            )
        if source not in outputs:
            raise refuse("C01", f"'{source}' is not an output of '{program.name}'.", did_you_mean(source, outputs))
        if target not in names:
            raise refuse("C01", f"'{target}' is not a parameter of '{program.name}'.", did_you_mean(target, names))
        if target in targets:
            raise refuse("C01", f"'--next {target}=' is given twice.", "leave one out.")
        targets.add(target)
        to, what = program[target].type, outputs[source].type
        if to.element != what.element or set(to.dims) != set(what.dims):
            raise refuse("C01", f"'{source}' is {what}, and cannot feed '{target}', which is {to}.")
        if not all(to.dims[d].covers(i) for d, i in what.dims.items):
            raise refuse("C01", f"'{source}' on {what.dims} is larger than '{target}' on {to.dims}.")
        pairs[target] = source
    if not pairs:
        first = next(iter(outputs.values()))
        like = (first.type.element, set(first.type.dims))
        alike = [p for p in program.inputs if (p.type.element, set(p.type.dims)) == like] or program.inputs
        raise refuse(
            "C02",
            f"'{program.name}' cannot be repeated: no output feeds an input.",
            f"say which: --next {alike[0].name}={first.name}.",
        )
    return pairs


def stepped(program: Fencil, pairs: Mapping[str, str]) -> Fencil:
    """The program that also puts its outputs where the next step reads them."""
    closures = list(program.closures)
    for target, source in pairs.items():
        if target != source:
            to, what = program[target], program[source]
            region = None if to.type.dims == what.type.dims else what.type.dims
            closures.append(closure(to, what, region))
    return fencil(program.name, program.params, closures, program.span)
