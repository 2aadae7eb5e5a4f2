"""Generated programs over all builtins: each is a well-formed page, every picture of it is well-formed."""

import html
import re

from generate.data import copied
from generate.profiles import EVERY
from generate.programs import programs
from generate.properties import differences
from hypothesis import given, settings
from test_pages import checked, texts

import tensorir as ti
from tensorir import reference
from tensorir.inspect import observed


@settings(max_examples=60)
@given(programs(EVERY))
def test_pages_and_pictures_of_every_program_are_well_formed(case):
    f = case.fencil
    page = f._repr_html_()
    checked(page)
    assert html.unescape(re.sub(r"<[^>]*>", "", page[page.index("<pre") : page.index("</pre>")])) == str(f)
    checked(ti.passes.explain(f)._repr_html_())
    equations = str(ti.inspect.latex(f))
    assert re.sub(r"\\[{}]", "", equations).count("{") == re.sub(r"\\[{}]", "", equations).count("}")
    assert all(equations.count(rf"\left{a}") == equations.count(rf"\right{b}") for a, b in ("()", "[]", "||"))
    for picture in (ti.inspect.dataflow(f), ti.inspect.domains(f), ti.inspect.before_after("simplify, cse", f)):
        assert texts(picture) and str(picture)


@settings(max_examples=25)
@given(programs(EVERY, outputs=1))
def test_every_program_has_a_footprint(case):
    output = case.fencil.outputs[0]
    if output.type.dims.size:
        texts(ti.inspect.footprint(case.fencil))


@settings(max_examples=60)
@given(programs(EVERY, depth=3))
def test_looking_into_a_program_changes_no_bit_of_its_results(case):
    want = reference.run(case.fencil, **copied(case.arguments))
    seen, _ = observed(case.fencil)
    got = reference.run(seen, **copied(case.arguments))
    assert not differences(case, want, {name: got[name] for name in want})
