"""Loops as a page of a book has them: values of NumPy and the interpreter, and loops, folds and gathers as are kept."""

import numpy as np
import pytest

import tensorir as ti
from tensorir.ir.nodes import Call
from tensorir.ir.rewrite import postorder
from tests.lift.costs import assert_kept
from tests.lift.harness import reference
from tests.lift.textbook.loops import ATTENTION, attention, floats, function_of, textbook


@pytest.mark.parametrize(("name", "text", "arrays", "function"), [pytest.param(*row, id=row[0]) for row in textbook()])
def test_a_textbook_loop_runs_as_the_book_would_have_it(name, text, arrays, function):
    func = function_of(text)
    lifted = ti.lift(func)
    assert_kept(f"textbook: {name}", lifted, arrays)
    wanted = [a.copy() for a in arrays]
    function(*wanted)
    interpreted = ti.tir.interpret(func, *[a.copy() for a in arrays])
    written = [k for k, argument in enumerate(lifted.arguments) if argument.written]
    for k, got in zip(written, reference(lifted)(*arrays), strict=True):
        np.testing.assert_allclose(got, wanted[k], rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(got, interpreted[k], rtol=2e-5, atol=2e-5)


def test_attention_over_many_keys_keeps_no_matrix_of_scores():
    program = ti.lift(function_of(ATTENTION.format(256, 200)))
    sizes = [e.type.dims.size for c in program.fencil.closures for e in postorder(c.value) if isinstance(e, Call)]
    assert max(sizes) <= 4 * 256
    given = floats(200, 4), floats(256, 4), floats(256, 4), floats(200, 4)
    wanted = [a.copy() for a in given]
    attention(*wanted)
    np.testing.assert_allclose(program(*given)[0], wanted[3], rtol=2e-4, atol=2e-5)
