"""Results of operators member by member, sparse fields, typed numbers, and programs of the IR called inside."""

import jax
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from stencils import meshes

I, J = ti.dims("I J")
Vertex, Edge = ti.dims("Vertex Edge")
V2EDim = ti.Dimension("V2EDim", kind="local")
V2E = ti.FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))
MESH = meshes.icosahedral(1)
FLUX = np.random.default_rng(0).normal(size=len(MESH.tables["E2V"]))
PROVIDER = {"V2E": MESH.table("V2E")}


def on(array, *dims):
    return ti.as_field({d: (0, n) for d, n in zip(dims, np.shape(array), strict=True)}, np.asarray(array))


@ti.field_operator
def differences(h):
    rise = h(I + 1) - h
    return rise, rise - rise(I - 1)


def test_each_member_of_a_result_has_its_own_points():
    rise, bend = differences(on([0.0, 1.0, 4.0, 9.0], I))
    assert [str(f.dims["I"]) for f in (rise, bend)] == ["[0:3]", "[1:3]"]
    assert (rise.data.tolist(), bend.data.tolist()) == ([1.0, 3.0, 5.0], [2.0, 2.0])


def test_each_member_of_a_result_has_its_own_dims():
    @ti.field_operator
    def several(a, b):
        return a + 1.0, (b, a * b)

    a, (b, c) = several(on(np.ones((2, 3)), I, J), on([1.0, 2.0], I))
    assert [x.dims.names for x in (a, b, c)] == [("I", "J"), ("I",), ("I", "J")]
    assert b.data.tolist() == [1.0, 2.0]


def test_members_are_written_into_buffers_on_their_own_points():
    rise, bend = ti.zeros({I: (0, 3)}), ti.full({I: (0, 5)}, -1.0)
    differences(on([0.0, 1.0, 4.0, 9.0], I), out=(rise, bend), domain={I: (1, 3)})
    assert rise.data.tolist() == [0.0, 3.0, 5.0]
    assert bend.data.tolist() == [-1.0, 2.0, 2.0, -1.0, -1.0]


def test_buffers_nested_in_another_way_are_refused():
    with pytest.raises(ti.DiagnosticError, match=r"A04\]: 'out' takes a tuple of 2 fields, and this is Field."):
        differences(on([0.0, 1.0, 4.0], I), out=ti.zeros({I: (1, 2)}))


def test_the_signs_of_a_mesh_meet_neighbours_slot_by_slot():
    @ti.field_operator
    def divergence(f, sign):
        return ti.neighbor_sum(f(V2E) * sign, axis=V2EDim)

    found = divergence(on(FLUX, Edge), MESH.sign("V2E"), offset_provider=PROVIDER)
    table, signs = MESH.tables["V2E"], MESH.signs["V2E"]
    by_hand = [
        sum(s * FLUX[e] for e, s in zip(*rows, strict=True) if e >= 0) for rows in zip(table, signs, strict=True)
    ]
    np.testing.assert_allclose(np.asarray(getattr(found, "data", found)), by_hand, rtol=1e-14, atol=1e-14)


def test_a_sparse_field_under_another_name_is_refused():
    @ti.field_operator
    def product(f, sign):
        return ti.neighbor_sum(f(V2E) * sign, axis=V2EDim)

    with pytest.raises(ti.DiagnosticError) as refused:
        product(on(FLUX, Edge), MESH.sign("V2E").rename(_NB_0="_NB_C2E"), offset_provider=PROVIDER)
    assert "error[V33]: the field has neighbours along _NB_C2E, and meets neighbours along _NB_V2EDim.\n" in str(
        refused.value
    )


def test_a_sum_over_a_dim_that_is_no_local_dimension_is_refused():
    @ti.field_operator
    def over_vertices(f):
        return ti.neighbor_sum(f(V2E), axis=Vertex)

    with pytest.raises(ti.DiagnosticError, match=r"V17\]: Vertex is a dim of the field, and no local dimension"):
        over_vertices(on(FLUX, Edge), offset_provider=PROVIDER)


@ti.field_operator
def following(a: ti.Field[[I], ti.float64]):
    return a(I + 1)


def test_a_bare_result_that_starts_elsewhere_is_refused():
    with pytest.raises(ti.DiagnosticError) as refused:
        following(np.arange(4.0))
    assert str(refused.value).endswith(
        "help: pass a ti.Field or a DataArray, or give out= and domain=."
    ) and "error[V34]: 'following' gives I[-1:3] of I[0:4], and a bare array cannot say" in str(refused.value)


def test_a_field_says_where_it_starts():
    x = on(np.arange(4.0), I)
    difference = following(x) - x
    assert (str(difference.dims["I"]), difference.data.tolist()) == ("[0:3]", [1.0, 1.0, 1.0])


def test_a_traced_field_meets_a_data_array():
    @ti.field_operator
    def relaxed(h, rate):
        return h - rate * h

    rate = xr.DataArray([0.0, 0.5, 1.0], dims="I")
    with jax.enable_x64(True):
        run = jax.jit(lambda h: relaxed(h, rate))
        assert run(on([1.0, 2.0, 3.0], I)).data.tolist() == [1.0, 1.0, 0.0]
    last = ti.iterate(lambda h: relaxed(h, rate), on([1.0, 4.0, 3.0], I), 2, progress=False)
    assert last.data.tolist() == [1.0, 1.0, 0.0]


def test_an_element_type_makes_numbers():
    @ti.field_operator
    def halved(x: ti.Field[[I], ti.float32]):
        return ti.float32(0.5) * x + ti.float32(1)

    found = halved(np.arange(3, dtype=np.float32))
    assert (found.dtype, found.tolist()) == (np.float32, [1.0, 1.5, 2.0])
    with pytest.raises(ValueError, match="int8 cannot hold 300"):
        ti.int8(300)


LAP = "lap(out: tensor<float, I[1:n-1]>, x: tensor<float, I[0:n]>) { out ← ⟪I, 1⟫(x) + ⟪I, -1⟫(x) - 2.0 × x; }"


def test_a_template_called_inside_of_an_operator_is_part_of_it():
    lap = ti.parse(LAP)

    @ti.field_operator
    def relaxed(h):
        x = 2.0 * h
        return h + lap(x=x)["out"]

    assert relaxed(on([0.0, 1.0, 4.0, 9.0], I)).data.tolist() == [5.0, 8.0]
    assert "lap" not in str(relaxed.fencil(on([0.0, 1.0, 4.0], I)))


def test_a_bound_program_called_inside_of_an_operator_brings_its_table():
    text = "q(out: tensor<float, V[0:3]>, x: tensor<float, V[0:3]>, T: tensor<int, V[0:3], _NB_V[0:1]>)"
    moved = ti.parse(text + " { out ← ⟪T, 0⟫(x); }").bind(T=np.array([[2], [0], [1]]))

    @ti.field_operator
    def twice(x):
        return moved(x=moved(x=x)["out"])["out"]

    (V,) = ti.dims("V")
    assert twice(on([1.0, 2.0, 3.0], V)).data.tolist() == [2.0, 3.0, 1.0]


def test_closures_of_a_called_program_run_in_order():
    steps = ti.parse("""
    f(a: tensor<float, I[0:4]>, b: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) {
      a[I[0:2]] ← x; a[I[2:4]] ← -x; b ← a + x; a ← b × b; }""")

    @ti.field_operator
    def run(x):
        found = steps(x=x)
        return found["a"], found["b"]

    a, b = run(on([1.0, 2.0, 3.0, 4.0], I))
    assert (a.data.tolist(), b.data.tolist()) == ([4.0, 16.0, 0.0, 0.0], [2.0, 4.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("of", "told"),
    [
        (lambda f, x: f(x=x(J + 1), y=x), r"A08\]: 'lap' has no parameter 'y'"),
        (lambda f, x: f(), r"B01\]: the size 'n' is not bound"),
        (lambda f, x: f(x=ti.astype(x, ti.float32)), r"A02\]: 'x' of 'lap' needs float64, and this is float32"),
    ],
)
def test_a_wrong_call_inside_of_an_operator_is_told(of, told):
    lap = ti.parse(LAP)
    run = ti.field_operator(lambda x: of(lap, x))
    with pytest.raises(ti.DiagnosticError, match=told):
        run(on([0.0, 1.0, 4.0, 9.0], I))


@pytest.mark.parametrize("function", [lambda x: jax.numpy.where(x > 1.0, x, 0.0), jax.numpy.sin])
def test_functions_of_jax_inside_of_an_operator_name_ours(function):
    run = ti.field_operator(lambda x: function(x))
    with pytest.raises(ti.DiagnosticError, match=r"V05\]: JAX cannot compute with fields of an operator"):
        run(on([1.0, 2.0], I))


def test_a_variable_that_is_returned_is_looked_into_as_any_other():
    @ti.field_operator
    def slope(h):
        rise = h(I + 1) - h
        return rise

    @ti.field_operator
    def steep(h):
        first = slope(h)
        both = first(I + 1) + first
        return both

    x = ti.as_field({I: (0, 5)}, np.arange(5.0) ** 2)
    np.testing.assert_array_equal(slope.inspect(x)["rise"], [1.0, 3.0, 5.0, 7.0])
    seen = steep.inspect(x)
    assert list(seen) == ["first", "both"]
    np.testing.assert_array_equal(seen["both"], [4.0, 8.0, 12.0])
    assert ti.parse(str(steep.fencil(x))) == steep.fencil(x)


NAMED = {"a": xr.DataArray(np.ones(3), dims="I", name="a"), "b": xr.DataArray(np.ones(3), dims="I", name="b")}


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda a, b: a + b, None),
        (lambda a, b: ti.sqrt(a * a + 1.0), "a"),
        (lambda a, b: b, "b"),
        (lambda a, b: (a + b, a, 2.0 * b), (None, "a", "b")),
        (lambda a, b: (a(I + 1), (b, a - b)), ("a", "b", None)),
    ],
)
def test_a_result_is_named_as_all_that_it_is_computed_of(call, names):
    found = ti.field_operator(call)(**NAMED)
    leaves = [leaf for part in found for leaf in (part if isinstance(part, tuple) else (part,))]
    assert tuple(r.name for r in leaves) == names if isinstance(names, tuple) else found.name == names
    assert ti.field_operator(call)(NAMED["a"], NAMED["a"])[0].name == "a"


def test_results_of_programs_are_named_as_those_of_operators():
    text = "f(y: T, z: T, a: T, b: T) { y ← a + b; z ← 2.0 × a; }".replace("T", "tensor<float, I[0:3]>")
    found = ti.parse(text)(**NAMED)
    assert found["y"].name is None and found["z"].name == "a"


@pytest.mark.parametrize("order", [("lev", "I", "J"), ("I", "lev", "J"), ("J", "I", "lev")])
def test_a_scan_keeps_the_order_of_axes_as_a_cumulative_sum_does(order):
    lev = ti.Dimension("lev")
    down = ti.scan_operator(axis=lev, init=0.0)(lambda s, x: s + x)
    x = xr.DataArray(np.arange(24.0).reshape(2, 3, 4), dims=order)
    xr.testing.assert_equal(down(x), x.cumsum("lev"))
    assert down(x).dims == ti.field_operator(lambda x: 2.0 * down(x))(x).dims == order
    assert down(ti.as_field(list(order), x.values)).dims.names == order
    weighed = ti.scan_operator(axis=lev, init=0.0)(lambda s, w, x: s + w * x)
    assert weighed(xr.DataArray(np.ones(3), dims="lev"), x).dims == order


def test_members_of_a_tuple_of_bare_arrays_say_where_they_stand_or_are_refused():
    @ti.field_operator
    def around(f: ti.Field[[I], ti.float64]):
        return ti.extend(f, {I: 1}, ti.boundary.periodic()), f

    with pytest.raises(
        ti.DiagnosticError, match=r"V34\]: 'around' gives I\[-1:4\] of I\[0:3\], and a bare array cannot say"
    ):
        around(np.arange(3.0))
    wide, own = around(ti.as_field([I], np.arange(3.0)))
    assert wide.dims["I"].start == -1 and own.dims["I"].start == 0

    @ti.field_operator
    def added(pair: tuple[ti.Field[[I], ti.float64], ti.Field[[I], ti.float64]]):
        return pair[0] + pair[1]

    np.testing.assert_array_equal(added((np.arange(3.0), np.arange(4.0))), [0.0, 2.0, 4.0])
