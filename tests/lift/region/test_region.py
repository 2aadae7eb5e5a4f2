"""The region IR's text, checker and interpreter."""

import numpy as np
import pytest
from generate.examples import examples
from hypothesis import given, settings

from tensorir.lifting.region import check_region, parse_region, print_region
from tensorir.runtime.errors import DiagnosticError
from tests.lift.region.generated_regions import EXTENT, regions
from tests.lift.region.interpreter import interpret
from tests.lift.region.matmul import MATMUL


@settings(max_examples=examples(150), deadline=None)
@given(regions())
def test_what_is_printed_reads_back(region):
    check_region(region)
    text = print_region(region)
    assert print_region(parse_region(text)) == text


@settings(max_examples=examples(30), deadline=None)
@given(regions())
def test_a_region_and_its_text_do_the_same(region):
    rng = np.random.default_rng(0)
    given = {"A": rng.integers(-4, 5, EXTENT, "int32"), "B": rng.integers(-4, 5, EXTENT, "int32")}
    one, other = interpret(region, given), interpret(parse_region(print_region(region)), given)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_tiled_product_is_the_product():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(8, 12)).astype("float32"), rng.normal(size=(12, 6)).astype("float32")
    found = interpret(parse_region(MATMUL), {"A": a, "B": b})["C"]
    np.testing.assert_allclose(found, a @ b, rtol=1e-5)


def test_masks_atomics_and_rounds():
    region = parse_region("""
    region r {
      argument I: int32[n=6];
      argument H: int32[h=4];
      argument P: int32[p=4];
      argument W: int32[];
      for i in 0:6 independent {
        k: int ← I[i];
        atomic plus H[k] ← 1;
      }
      for j in 0:4 {
        left: int ← H[j - 1] where j ≥ 1 otherwise 7;
        P[j] ← left;
      }
      while carrying (c: int = 1 next doubled as last) {
        let go: bool = c < 100;
      } do go {
        let doubled: int = c + c;
      }
      W[] ← last;
    }""")
    found = interpret(region, {"I": np.array([0, 2, 2, 1, 2, 0], "int32")})
    assert found["H"].tolist() == [2, 1, 3, 0]
    assert found["P"].tolist() == [7, 2, 1, 3]
    assert found["W"] == 128


def test_in_lockstep_all_read_before_one_writes():
    text = "region r {{ argument A: int32[n=5]; for i in 0:4 {} {{ a: int ← A[i]; A[i + 1] ← a; }} }}"
    given = {"A": np.arange(5, dtype="int32")}
    assert interpret(parse_region(text.format("lockstep")), given)["A"].tolist() == [0, 0, 1, 2, 3]
    assert interpret(parse_region(text.format("")), given)["A"].tolist() == [0, 0, 0, 0, 0]


HEAD = "region r { argument A: float32[n=4]; "


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("x: float32 ← A[i]; }", "TL20", "there is no index 'i' here."),
        ("for i in 0:4 { x: float32 ← A[i]; } A[0] ← x; }", "N01", None),
        ("for i in 0:4 { x: float32 ← A[i, 0]; } }", "TL21", "'A' has 1 dim, and there are 2 indices."),
        ("x: tensor<float32, y[0:2]> ← A[0]; }", "TL21", "the dim 'y' of the value stands in no index."),
        ("A[0] ← 1; }", "TL22", "'A' holds float32, and this is int32."),
        ("x: float64 ← A[0]; }", "TL22", "'A' holds float32, and 'x' is float64."),
        ("atomic minus A[0] ← 1.0f; }", "TL23", "'minus' does not combine."),
        ("let x: float = 1.0f; }", "TL22", "'x' is tensor<float>, and this is tensor<float32>."),
        ("for i in 0:4 { x: tensor<float, i[0:2]> ← A[i]; } }", "TL20", "'i' is a loop here, and a dim of the value."),
        ("if 1 ≥ 0 { x: float32 ← A[0]; } if 1 ≥ 0 { x: float32 ← A[0]; } }", "TL20", "'x' is defined twice."),
        ("for i in 0:4 { x: float32 ← A[i*i]; } }", "S09", None),
        ("x: float32 ← B[0]; }", "N01", "there is no buffer 'B'."),
    ],
)
def test_what_is_wrong_is_said(text, code, message):
    with pytest.raises(DiagnosticError) as error:
        parse_region(HEAD + text)
    found = error.value.diagnostics[0]
    assert found.code == code
    assert message is None or found.message == message
    assert found.span.line == 1


def test_what_leaves_a_buffer_is_said_with_the_element():
    region = parse_region("region r {\n argument A: float32[n=4];\n for i in 0:5 {\n  A[i] ← 1.0f;\n }\n}")
    with pytest.raises(DiagnosticError) as error:
        interpret(region, {})
    (found,) = error.value.diagnostics
    assert (found.code, found.message, found.span.line) == ("TL10", "index 0 of 'A' is 4, and n runs from 0 to 3.", 4)


def test_a_check_that_fails_says_its_message():
    region = parse_region('region r { check 1 > 2 "one is more"; }')
    with pytest.raises(DiagnosticError) as error:
        interpret(region, {})
    assert (error.value.diagnostics[0].code, error.value.diagnostics[0].message) == ("TL24", "one is more")
