"""Loops as a page of a book has them: values of NumPy and the interpreter, and loops, folds and gathers as are kept."""

import numpy as np
import pytest

import tensorir as ti
from tensorir.ir.nodes import Call
from tensorir.ir.rewrite import postorder
from tests.lift.costs import assert_kept
from tests.lift.harness import reference
from tests.lift.textbook.loops import LOOPS, arguments, by_numpy, function_of, textbook


@pytest.mark.parametrize(
    ("name", "text", "arrays", "statements"), [pytest.param(*row, id=row[0]) for row in textbook()]
)
def test_a_textbook_loop_runs_as_the_book_would_have_it(name, text, arrays, statements):
    func = function_of(text)
    lifted = ti.lift(func)
    assert_kept(f"textbook: {name}", lifted, arrays)
    wanted = by_numpy(func, statements, arrays)
    interpreted = ti.tir.interpret(func, *[a.copy() for a in arrays])
    written = [k for k, argument in enumerate(lifted.arguments) if argument.written]
    for k, got in zip(written, reference(lifted)(*arrays), strict=True):
        np.testing.assert_allclose(got, wanted[k], rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(got, interpreted[k], rtol=2e-5, atol=2e-5)


def test_attention_over_many_keys_keeps_no_matrix_of_scores():
    text, statements = LOOPS["attention, row by row"]
    func = function_of(text.replace("6", "200").replace("8", "256"))
    program = ti.lift(func)
    sizes = [e.type.dims.size for c in program.fencil.closures for e in postorder(c.value) if isinstance(e, Call)]
    assert max(sizes) <= 4 * 256
    given = arguments(func, "")
    np.testing.assert_allclose(program(*given)[0], by_numpy(func, statements, given)[3], rtol=2e-4, atol=2e-5)
