"""What the rules of types accept, at each side of what they ask for."""

import pytest

import tensorir as ti


@pytest.mark.parametrize("n", [-2, -1, 0, 1, 2, 3, 4, 6])
@pytest.mark.parametrize("start", range(-4, 3))
@pytest.mark.parametrize("stop", range(3, 9))
def test_a_dim_is_split_where_both_its_ends_are_multiples(start: int, stop: int, n: int):
    text = f"f(y: tensor<float>, x: tensor<float, I[{start}:{stop}]>) {{ y ← reduce(+, 0.0, A)(reduce(+, 0.0, B)("
    text += f"split_dim(I, A, B, {n})(x))); }}"
    if n > 0 and start % n == 0 and stop % n == 0:
        assert ti.parse(text).name == "f"
    else:
        with pytest.raises(ti.DiagnosticError, match=rf"I\[{start}:{stop}\] cannot be split by {n}: both ends"):
            ti.parse(text)


def test_the_outer_dim_of_a_split_counts_blocks():
    program = ti.parse(
        "f(y: tensor<float, A[-1:2], B[0:3]>, x: tensor<float, I[-3:6]>) { y ← split_dim(I, A, B, 3)(x); }"
    )
    assert str(program.closures[0].value.type) == "tensor<float, A[-1:2], B[0:3]>"
