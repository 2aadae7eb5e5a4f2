"""What cannot be distributed is said before anything is exchanged, at its place and with what to do."""

import jax
import numpy as np
import pytest

import tensorir as ti
from tensorir.distribution.local_program import localised
from tensorir.distribution.partition import Decomposition, check_axes, decompositions
from tensorir.integers.dims import Interval

X = "x: tensor<float, I[0:8]>"


def refused(text: str) -> str:
    with pytest.raises(ti.DiagnosticError) as caught:
        localised(ti.parse(text), {"I": Decomposition("I", "px", Interval(0, 8), 2)})
    return str(caught.value)


def test_a_scan_along_a_distributed_dim_is_refused_at_its_place():
    text = f"""f(y: tensor<float, I[0:8]>, {X}) {{
  y ← scan(λ(a: tensor<float>, b: tensor<float>) → a + b, true, 0.0, I)(x);
}}"""
    assert refused(text) == (
        "<text>:2:7: error[D04]: a scan along I takes its points in order, and I is distributed.\n"
        "    y ← scan(λ(a: tensor<float>, b: tensor<float>) → a + b, true, 0.0, I)(x);\n"
        "        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "help: leave it on one device: distribute another dim."
    )


def test_a_dim_that_is_renamed_goes_along_the_axis_of_the_other():
    text = f"f(y: tensor<float, F[0:8]>, {X}) {{ y ← rename(I → F)(x); }}"
    assert refused(text).endswith("help: distribute F with it, along the same axis of the mesh.")
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.distribute(ti.parse(text), jax.make_mesh((1,), ("px",)), {"I": "px", "G": "px"}).plan()
    assert str(caught.value) == "error[D02]: 'f' has no dim G to distribute.\nhelp: known here: 'F', 'I'."


@pytest.mark.parametrize(
    "value, told",
    [
        ("sort(I, 1)(x)", "'sort' compares all points along I, which is distributed."),
        ("gather(I)(x, i)", "data say which points along I are read, and I is distributed."),
        ("rename(J → I)(rename(I → J)(x))", "a dim is renamed from I, or to it, and I is distributed."),
        ("merge_dims(A, B, I)(split_dim(I, A, B, 2)(x))", "'split_dim' makes other dims of I, which is distributed."),
        ('print("x")(x)', "what is printed is computed on every device."),
        (
            "x + reduce(λ(a: tensor<float>, b: tensor<float>) → a × 0.5 + b, 0.0, I)(x)",
            "this fold takes the points along I in order, and I is distributed.",
        ),
        (
            "loop(0, 20)(λ(k: tensor<int>, a: tensor<float, I[0:8]>) → true, "
            "λ(k: tensor<int>, a: tensor<float, I[0:8]>) → update(a, subset(⟪I, 1⟫(a), I[0:7])), x)",
            "a fold, a loop or a branch reads neighbours along I of what it is given, and I is distributed.",
        ),
        (
            "loop(0, none)(λ(k: tensor<int>, a: tensor<float, I[0:8]>) → reduce(max, 0.0, I)(a) > 0.1, "
            "λ(k: tensor<int>, a: tensor<float, I[0:8]>) → a × 0.5, x)",
            "a fold inside of another, of a loop or of a branch is along I, which is distributed.",
        ),
    ],
)
def test_what_blocks_cannot_compute_by_themselves_is_refused(value, told):
    text = f"f(y: tensor<float, I[0:8]>, {X}, i: tensor<int, I[0:8]>) {{ y ← {value}; }}"
    assert f"error[D04]: {told}" in refused(text)


def test_tables_along_a_dim_in_blocks_are_refused_at_their_place():
    text = f"f(y: tensor<float, V[0:4]>, {X}, t: tensor<int, V[0:4], _NB_I[0:2]>) {{\n  y ← ⟪t, 0⟫(x);\n}}"
    assert refused(text) == (
        "<text>:2:7: error[D04]: 't' tells neighbours along I, which is distributed in blocks.\n"
        "    y ← ⟪t, 0⟫(x);\n"
        "        ^^^^^^^^^\n"
        "help: say which device has which point: ti.distribute(..., partition={'I': owners})."
    )


def test_an_axis_that_the_mesh_lacks_is_named_with_those_that_it_has():
    with pytest.raises(ti.DiagnosticError) as caught:
        check_axes({"I": "rows"}, {"px": 2, "py": 2})
    assert str(caught.value) == (
        "error[D01]: I is to be distributed along 'rows', and the mesh has no such axis.\nhelp: known here: 'px', 'py'."
    )


def test_a_dim_that_the_program_lacks_is_named():
    f = ti.parse(f"f(y: tensor<float, I[0:8]>, {X}) {{ y ← x; }}")
    with pytest.raises(ti.DiagnosticError) as caught:
        decompositions(f, {"K": "px"}, {"px": 2})
    assert str(caught.value) == "error[D02]: 'f' has no dim K to distribute.\nhelp: known here: 'I'."


def test_more_devices_than_points_are_too_many():
    f = ti.parse(f"f(y: tensor<float, I[0:8]>, {X}) {{ y ← x; }}")
    with pytest.raises(ti.DiagnosticError) as caught:
        decompositions(f, {"I": "px"}, {"px": 16})
    assert str(caught.value) == (
        "error[D03]: I[0:8] has 8 points, and 'px' 16 devices.\nhelp: use a mesh with at most 8 devices along 'px'."
    )


def test_two_dims_of_a_tensor_do_not_share_an_axis():
    f = ti.parse("f(y: tensor<float, I[0:8], J[0:8]>, x: tensor<float, I[0:8], J[0:8]>) { y ← x; }")
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.distribute(f, jax.make_mesh((1,), ("px",)), {"I": "px", "J": "px"})
    assert str(caught.value) == (
        "error[D05]: I and J are both to be distributed along 'px'.\nhelp: give each dim an axis of its own."
    )


def test_what_is_no_mesh_is_named():
    f = ti.parse(f"f(y: tensor<float, I[0:8]>, {X}) {{ y ← x; }}")
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.distribute(f, 4, {"I": "px"})
    assert str(caught.value) == (
        'error[D06]: an int is no mesh of devices.\nhelp: make one: jax.make_mesh((2, 2), ("px", "py")).'
    )


@pytest.mark.parametrize("steps", [0, True, 1.5])
def test_halo_steps_are_a_number_of_steps(steps):
    f = ti.parse(f"f(y: tensor<float, I[0:8]>, {X}) {{ y ← x; }}")
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.distribute(f, jax.make_mesh((1,), ("px",)), {"I": "px"}, halo_steps=steps)
    assert str(caught.value) == (
        f"error[D09]: halo_steps is {steps}, which is no number of steps.\nhelp: give 1 or more."
    )


def test_steps_of_a_partition_are_not_taken_together():
    f = ti.parse(f"f(y: tensor<float, I[0:8]>, {X}) {{ y ← x; }}")
    owners = {"I": np.zeros(8, np.int32)}
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.distribute(f, jax.make_mesh((1,), ("px",)), {"I": "px"}, partition=owners, halo_steps=2)
    assert str(caught.value) == (
        "error[D09]: halo_steps is of dims in blocks, and a partition is given.\nhelp: leave out halo_steps."
    )


PAIR = "it takes a tuple of 2 arrays, and this is"


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda one, _: one.whole(y=(one["x"], one["x"])), "error[D16]: 'y' as a tuple does not lie on the devices"),
        (lambda one, _: one(x=None), "error[D16]: 'x' as a NoneType does not lie on the devices"),
        (lambda one, _: one(x=()), "error[D16]: 'x' as a tuple does not lie on the devices"),
        (lambda one, _: one(x=(one["x"], one["x"])), "error[D16]: 'x' as a tuple does not lie on the devices"),
        (lambda one, _: one(x=one["x"] < 3.0), "error[A02]: 'x' needs float64, and this is bool.\n"
         "help: nothing is converted silently; compute it as float64."),
        (lambda _, two: two.whole(a=two["a"][0]), f"error[A04]: 'a' holds (float64, int32), so {PAIR} DealtArray."),
        (lambda _, two: two(a=two["a"][:1]), f"error[A04]: 'a' holds (float64, int32), so {PAIR} a tuple of 1."),
        (lambda _, two: two(a=(two["a"][0], two["a"][0])), "error[A02]: 'a' needs int32, and this is float64."),
    ],
)  # fmt: skip
def test_what_is_not_as_it_was_dealt_out_is_refused(call, told):
    mesh, axes = jax.make_mesh((1,), ("px",)), {"I": "px"}
    one = ti.distribute(ti.parse(f"f(y: tensor<float, I[0:8]>, {X}) {{ y ← 2.0 × x; }}"), mesh, axes)
    pair = "tensor<(float, int), I[0:8]>"
    two = ti.distribute(ti.parse(f"g(y: {pair}, a: {pair}) {{ y ← (a[0], a[1]); }}"), mesh, axes)
    x, k = np.arange(8.0), np.arange(8, dtype=np.int32)
    with pytest.raises(ti.DiagnosticError) as caught:
        call(one.dealt(x=x), two.dealt(a=(x, k)))
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize("dims", [None, "I", [("I", "px")]])
def test_axes_that_are_no_mapping_are_refused(dims):
    f = ti.parse(f"f(y: tensor<float, I[0:8]>, {X}) {{ y ← x; }}")
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.distribute(f, jax.make_mesh((1,), ("px",)), dims)
    assert str(caught.value) == (
        f"error[D01]: {dims!r} does not say which dim goes along which axis of the mesh.\n"
        "help: give the axis of each dim: {'I': 'px'}."
    )


@pytest.mark.parametrize(("size", "shown"), [("8", "'8'"), (None, "a NoneType")])
def test_a_plan_at_what_is_no_size_is_refused(size, shown):
    f = ti.parse("f(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { y ← x; }")
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.distribute(f, jax.make_mesh((1,), ("px",)), {"I": "px"}).plan(n=size)
    assert str(caught.value) == f"error[B11]: the size 'n' is {shown}, and sizes are whole numbers.\nhelp: write n=10."
