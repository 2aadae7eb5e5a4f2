"""Generated programs as templates in which every interval along a dim ends later by a size."""

import re

import numpy as np
from generate.data import copied
from generate.examples import examples
from generate.profiles import EXACT
from generate.programs import programs
from generate.properties import differences
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tensorir as ti
from tensorir.binding.arrays import nested
from tensorir.binding.calls import tables_of
from tensorir.distribution.padded_program import padded_program

N, MOST = 9, 12


def stretched(text, dim):
    """A program's text with intervals along a dim that have their stops where n is N, and later where it is more."""

    def later(match):
        stop = int(match["stop"]) - N
        return f"{match['start']}n{stop:+d}" if stop else f"{match['start']}n"

    text = re.sub(rf"(?P<start>(?<!\w){dim}\[-?\d+:)(?P<stop>-?\d+)", later, text)
    return re.sub(rf"(?P<start>add_dim\({dim}, -?\d+, )(?P<stop>-?\d+)", later, text)


def leaves(value):
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, tuple) else [np.asarray(value)]


@settings(max_examples=examples(120))
@given(programs(EXACT), st.data())
def test_whatever_padding_holds_generated_programs_are_what_they_are_at_the_exact_size(case, data):
    dims = sorted({d for p in case.fencil.params for d in p.type.dims if not d.startswith("_NB_")})
    assume(dims and "print(" not in str(case.fencil))
    try:
        template = ti.parse(stretched(str(case.fencil), data.draw(st.sampled_from(dims))))
        assume(getattr(template, "sizes", ()) == ("n",) and template.specialise(n=N) == case.fencil)
        padded = padded_program(template, {"n": MOST})
        padded.ends.check(case.fencil, {"n": N})
    except ti.DiagnosticError:
        assume(False)  # it is no program at other sizes, or one that is refused
        raise
    arrays = case.arguments
    wide = {own: np.int32(N) for own in padded.sizes.values()}
    for own, field in padded.fields.items():
        place, have = padded.program[own].type.dims, case.fencil[field.name].type.dims
        entries = tables_of(padded.program).get(own)
        held = []
        for leaf in leaves(arrays[field.name]):
            nobody = entries[1].start if entries else {"b": True, "i": 99, "u": 99}.get(leaf.dtype.kind, np.nan)
            held.append(np.full(place.shape, nobody, leaf.dtype))
            held[-1][tuple(slice(i.start - place[d].start, i.stop - place[d].start) for d, i in have.items)] = leaf
        wide[own] = nested(field.type.element, held)
    with np.errstate(all="ignore"):
        want, got = ti.reference.run(case.fencil, **copied(arrays)), ti.reference.run(padded.program, **wide)
    for p in case.fencil.results:
        place = padded.program[p.name].type.dims
        part = tuple(slice(i.start - place[d].start, i.stop - place[d].start) for d, i in p.type.dims.items)
        got[p.name] = nested(p.type.element, [leaf[part] for leaf in leaves(got[p.name])])
    assert not differences(case, want, got), differences(case, want, got)
