"""Programs that are run again and again: which output feeds which input, and what that makes of the program.

The feedback is one more closure, `inp ← out`, so a step is an ordinary fencil: where the output is smaller than the
input that it feeds, the rows around it are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorir.binding.arrays import refuse
from tensorir.ir.build import closure, fencil
from tensorir.ir.nodes import Fencil
from tensorir.runtime.errors import did_you_mean

__all__ = ["feedback", "stepped"]


def feedback(program: Fencil, given: Sequence[str]) -> dict[str, str]:
    """Input by output from options such as `inp=out`; outputs that are inputs feed themselves.

    Raises C01 for a pair that cannot be, C02 if nothing is fed back.
    """
    outputs = {p.name: p for p in program.outputs}
    names = [p.name for p in program.params]
    pairs: dict[str, str] = {p.name: p.name for p in program.outputs if p in program.inputs}
    for text in given:
        target, found, source = text.partition("=")
        if not found:
            raise refuse(
                "C01", f"'--next {text}' does not say which input takes which output.", "write --next inp=out."
            )
        if source not in outputs:
            raise refuse("C01", f"'{source}' is not an output of '{program.name}'.", did_you_mean(source, outputs))
        if target not in names:
            raise refuse("C01", f"'{target}' is not a parameter of '{program.name}'.", did_you_mean(target, names))
        to, what = program[target].type, outputs[source].type
        if to.element != what.element or set(to.dims) != set(what.dims):
            raise refuse("C01", f"'{source}' is {what}, and cannot feed '{target}', which is {to}.")
        if not all(to.dims[d].covers(i) for d, i in what.dims.items):
            raise refuse("C01", f"'{source}' on {what.dims} is larger than '{target}' on {to.dims}.")
        pairs[target] = source
    if not pairs:
        first = next(iter(outputs))
        raise refuse(
            "C02",
            f"'{program.name}' cannot be repeated: no output feeds an input.",
            f"say which: --next {_guess(program)}={first}.",
        )
    return pairs


def _guess(program: Fencil) -> str:
    """The input that is most like the first output."""
    first = program.outputs[0].type
    alike = [p.name for p in program.inputs if p.type.element == first.element and set(p.type.dims) == set(first.dims)]
    return alike[0] if alike else program.inputs[0].name


def stepped(program: Fencil, pairs: Mapping[str, str]) -> Fencil:
    """The program that also puts its outputs where the next step reads them."""
    closures = list(program.closures)
    for target, source in pairs.items():
        if target != source:
            to, what = program[target], program[source]
            region = None if to.type.dims == what.type.dims else what.type.dims
            closures.append(closure(to, what, region))
    return fencil(program.name, program.params, closures, program.span)
