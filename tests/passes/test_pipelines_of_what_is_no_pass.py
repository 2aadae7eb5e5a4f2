"""What a pipeline and a footprint say of what they do not take."""

import pytest

import tensorir as ti


@pytest.mark.parametrize("given", [3, [3], ["inline"]])
def test_a_pipeline_of_what_is_no_pass_is_refused(given):
    with pytest.raises(ti.DiagnosticError, match=r"a pipeline is made of passes, and .* is none"):
        ti.Pipeline(given)


def test_a_pass_alone_is_a_pipeline():
    inline = ti.Pipeline("inline").passes[0]
    assert ti.Pipeline(inline).passes == (inline,)


def test_a_point_of_a_footprint_has_a_number_for_each_dim():
    f = ti.parse("f(out: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) { out ← x; }")
    with pytest.raises(ti.DiagnosticError, match="3 is no point: a point has a number for each dim"):
        ti.inspect.footprint(f, at=3)
