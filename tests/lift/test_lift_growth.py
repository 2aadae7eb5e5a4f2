"""Lifting takes as many steps as a program has parts, twice as many for twice as long: steps are calls of functions."""

import sys
from itertools import pairwise

import pytest

import tensorir as ti
from tests.lift.costs import costs_of


def text(buffers, body, **shapes):
    params = ", ".join(f'{name}: T.Buffer({shape}, "float32")' for name, shape in shapes.items())
    lines = "\n    ".join([*(f'{n} = T.alloc_buffer({s}, "float32")' for n, s in buffers.items()), *body])
    return f"@T.prim_func\ndef main({params}):\n    {lines}\n"


def chain(count):
    names = ["A", *(f"t{k}" for k in range(1, count)), "B"]
    sizes = [(96 - 2 * k, 96 - 2 * k) for k in range(count + 1)]
    body = [
        f"for i, j in T.grid({sizes[k + 1][0]}, {sizes[k + 1][1]}): {b}[i, j] = {a}[i + 1, j] + {a}[i + 1, j + 2] + "
        f"{a}[i, j + 1] + {a}[i + 2, j + 1] - T.float32(4) * {a}[i + 1, j + 1]"
        for k, (a, b) in enumerate(pairwise(names))
    ]
    return text(dict(zip(names[1:-1], sizes[1:], strict=False)), body, A=sizes[0], B=sizes[-1])


def straight(count):
    return text({}, [f"B[{k}] = A[{k}] * T.float32({k + 1})" for k in range(count)], A=(count,), B=(count,))


def elementwise(count):
    names = ["A", *(f"t{k}" for k in range(1, count)), "B"]
    body = [f"for i in range(64): {b}[i] = {a}[i] * T.float32(2)" for a, b in pairwise(names)]
    return text(dict.fromkeys(names[1:-1], (64,)), body, A=(64,), B=(64,))


def one_buffer(count):
    return text({}, [f"for i in range({33 + k % 31}): B[i] = B[i] + A[i]" for k in range(count)], A=(64,), B=(64,))


def whole_buffer(count):
    return text({}, [f"for i in range(64): B[i] = B[i] * A[i] + T.float32({k * k % 97})" for k in range(count)],
                A=(64,), B=(64,))  # fmt: skip


def steps(source):
    function, count = ti.tir.parse(source)["main"], 0

    def counted(frame, event, argument):
        nonlocal count
        count += event == "call"

    ti.lift(function)  # what is imported, or made once for all, is there already
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        ti.lift(function)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    ("program", "size"), [(chain, 8), (straight, 60), (elementwise, 30), (one_buffer, 50), (whole_buffer, 30)],
    ids=["stencils", "straight-line stores", "elementwise stages", "nests on one buffer", "nests on all of a buffer"],
)  # fmt: skip
def test_twice_as_much_takes_hardly_more_than_twice_as_many_steps(program, size):
    assert steps(program(2 * size)) <= 2**1.27 * steps(program(size))


def test_a_nest_that_writes_all_of_a_buffer_ends_what_earlier_nests_say_of_it():
    # all 600 at once are more than isl decides in its budget
    program = ti.lift(ti.tir.parse(whole_buffer(600))["main"])
    assert costs_of(program).loops == 0
