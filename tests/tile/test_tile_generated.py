"""Generated kernels: lifted, they give what the interpreter gives, race or not."""

import numpy as np
from generate.examples import examples
from generated_tiles import arrays, kernels
from hypothesis import given, settings

import tensorir as ti
from tensorir import tile
from tensorir.runtime.errors import DiagnosticError


@settings(max_examples=examples(360))
@given(kernels())
def test_generated_kernels_lift_to_what_the_interpreter_gives(kernel):
    text, blocks = kernel
    module = tile.parse(text)
    tile.verify(module)
    given = arrays(len(text))
    wanted = tile.interpret(module, None, given, blocks)
    p = ti.lift(module, grid=blocks, args=given, on_hazard="sequential")
    written = [w for a, w in zip(p.arguments, wanted, strict=True) if a.written]
    for found, w in zip(p(*given), written, strict=True):
        np.testing.assert_array_equal(found, w)


@settings(max_examples=examples(180))
@given(kernels())
def test_what_is_lifted_at_once_does_not_depend_on_the_order_of_blocks(kernel):
    text, blocks = kernel
    module, given = tile.parse(text), arrays(len(text))
    try:
        p = ti.lift(module, grid=blocks, args=given)
    except DiagnosticError as error:
        # a race: with some order of blocks the result is another one, or the same by chance
        assert error.diagnostics[0].code == "TL12"
        return
    if any(d.strategy == "sequential" for d in p.report.decisions if d.loop.title.startswith("block")):
        return
    if any("left to their order" in note for note in p.report.notes):
        return
    written = [k for k, a in enumerate(p.arguments) if a.written]
    results = p(*given)
    for seed in (1, 2):
        after = tile.interpret(module, None, given, blocks, seed=seed)
        for k, found in zip(written, results, strict=True):
            np.testing.assert_array_equal(found, after[k])
