"""Programs of iterator IR: temporaries, index fields, dynamic offsets, sparse shifts, tuples of positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tests.peers.gt4py.sides import E2VDim, Edge, I, J, K, V2EDim, Vertex, field, xla_cpu
from tests.peers.gt4py.test_iterators import E2V, E2V_TABLE, GRID, MESH, V2E, V2E_TABLE, Ioff, run

from gt4py.next.iterator import ir as itir  # isort: skip
from gt4py.next.iterator.builtins import (  # isort: skip
    as_fieldop,
    can_deref,
    cartesian_domain,
    cast_,
    concat_where,
    deref,
    divides,
    float64,
    if_,
    index,
    less,
    lift,
    list_get,
    make_tuple,
    map_list,
    minus,
    mod,
    multiplies,
    named_range,
    neighbors,
    not_,
    plus,
    reduce,
    scan,
    shift,
    tuple_get,
    unstructured_domain,
)
from gt4py.next.iterator.ir_utils import ir_makers as im  # isort: skip
from gt4py.next.iterator.runtime import fendef, fundef, set_at  # isort: skip
from gt4py.next.otf import arguments  # isort: skip
from gt4py.next.type_system import type_specifications as ts  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

VERTICES = [Vertex, 4]


def on_i(n: Any) -> Any:
    return cartesian_domain(named_range(I, 0, n))


def on_vertices() -> Any:
    return unstructured_domain(named_range(Vertex, 0, 4))


# Index fields


@fundef
def times_position(x, i):
    return deref(x) * cast_(deref(i), float64)


@fendef
def positions(n, x, out):
    domain = cartesian_domain(named_range(I, 2, n))
    set_at(as_fieldop(times_position, domain)(x, index(I)), domain, out)


def test_an_index_field_has_the_coordinates() -> None:
    x, out = field({I: 6}), field({I: 6}, data=np.zeros(6))
    run(positions, 6, x, out, provider=GRID)
    np.testing.assert_array_equal(out.asnumpy(), np.where(np.arange(6) < 2, 0, x.asnumpy() * np.arange(6)))


@fundef
def next_position(i):
    return mod(deref(shift(Ioff, 1)(i)) * deref(i), 7)


@fendef
def moved_positions(n, out):
    set_at(as_fieldop(next_position, on_i(n))(index(I)), on_i(n), out)


def test_an_index_field_is_shifted() -> None:
    out = field({I: 6}, np.int32)
    run(moved_positions, 6, out, provider=GRID)
    np.testing.assert_array_equal(out.asnumpy(), (np.arange(6) + 1) * np.arange(6) % 7)


@fendef
def chosen_part(n, a, b, out):
    set_at(concat_where(I < 3, as_fieldop(deref_one, on_i(n))(a), as_fieldop(deref_one, on_i(n))(b)), on_i(n), out)


@fundef
def deref_one(x):
    return deref(x)


# Dynamic offsets


@fundef
def indirect(x, by):
    return deref(shift(Ioff, deref(by))(x))


@fendef
def indirection(n, x, by, out):
    set_at(as_fieldop(indirect, on_i(n))(x, by), on_i(n), out)


def test_an_offset_that_is_read() -> None:
    x, out = field({I: 4}, data=np.arange(4.0)), field({I: 4})
    by = field({I: 4}, data=np.array([2, 1, -1, -2], np.int32))
    run(indirection, 4, x, by, out, provider=GRID)
    np.testing.assert_array_equal(out.asnumpy(), [2, 2, 1, 1])


@fundef
def shifted_by_sign(x, c):
    return deref(if_(deref(c) < 1.0, shift(Ioff, -1)(x), shift(Ioff, 1)(x)))


@fendef
def conditional_shift(n, x, c, out):
    set_at(as_fieldop(shifted_by_sign, on_i(n))(x, c), on_i(n), out)


def test_one_of_two_positions() -> None:
    x, c, out = field({I: (-1, 9)}), field({I: 8}), field({I: 8})
    run(conditional_shift, 8, x, c, out, provider=GRID)
    wide = x.asnumpy()
    np.testing.assert_array_equal(out.asnumpy(), np.where(c.asnumpy() < 1.0, wide[:-2], wide[2:]))


@fundef
def applied_shift(x, c):
    return deref(if_(deref(c) < 1.0, shift(Ioff, -1), shift(Ioff, 1))(x))


@fendef
def conditional_function(n, x, c, out):
    set_at(as_fieldop(applied_shift, on_i(n))(x, c), on_i(n), out)


def test_one_of_two_shifts() -> None:
    x, c, out = field({I: (-1, 9)}), field({I: 8}), field({I: 8})
    run(conditional_function, 8, x, c, out, provider=GRID)
    wide = x.asnumpy()
    np.testing.assert_array_equal(out.asnumpy(), np.where(c.asnumpy() < 1.0, wide[:-2], wide[2:]))


# Tuples of positions and positions of tuples


@fundef
def of_tuple(pair):
    both = deref(shift(Ioff, 1)(pair))
    return tuple_get(0, both) - tuple_get(1, deref(pair))


@fendef
def tuple_iterator(n, a, b, out):
    set_at(as_fieldop(of_tuple, on_i(n))(make_tuple(a, b)), on_i(n), out)


def test_a_position_in_a_tuple_of_fields() -> None:
    a, b, out = field({I: 6}), field({I: 5}), field({I: 5})
    run(tuple_iterator, 5, a, b, out, provider=GRID)
    np.testing.assert_array_equal(out.asnumpy(), a.asnumpy()[1:] - b.asnumpy())


@fundef
def two_results(x):
    return make_tuple(deref(x), make_tuple(deref(shift(Ioff, 1)(x)), deref(x) * 2.0))


@fendef
def tuple_outputs(n, x, a, b, c):
    made = as_fieldop(two_results, on_i(n))(x)
    set_at(made, on_i(n), make_tuple(a, make_tuple(b, c)))


def test_a_tuple_is_stored_in_a_tuple() -> None:
    x, out = field({I: 6}), [field({I: 5}) for _ in range(3)]
    run(tuple_outputs, 5, x, *out, provider=GRID)
    np.testing.assert_array_equal(out[0].asnumpy(), x.asnumpy()[:5])
    np.testing.assert_array_equal(out[1].asnumpy(), x.asnumpy()[1:])
    np.testing.assert_array_equal(out[2].asnumpy(), 2 * x.asnumpy()[:5])


# Neighbours


@fundef
def sparse_dot(e, weights):
    return reduce(lambda s, a, w: s + a * w, 0.0)(neighbors(V2E, e), deref(weights))


@fendef
def weighted_sum(e, weights, out):
    set_at(as_fieldop(sparse_dot, on_vertices())(e, weights), on_vertices(), out)


def test_a_reduction_of_two_lists() -> None:
    e, w, out = field({Edge: 5}), field({Vertex: 4, V2EDim: 3}), field({Vertex: 4})
    run(weighted_sum, e, w, out, provider=MESH)
    expected = (e.asnumpy()[V2E_TABLE] * w.asnumpy() * (V2E_TABLE >= 0)).sum(1)
    np.testing.assert_allclose(out.asnumpy(), expected, rtol=1e-14)


@fundef
def sparse_slot(weights):
    return list_get(1, deref(weights))


@fendef
def slot_of_sparse(weights, out):
    set_at(as_fieldop(sparse_slot, on_vertices())(weights), on_vertices(), out)


def test_a_slot_of_a_sparse_field() -> None:
    w, out = field({Vertex: 4, V2EDim: 3}), field({Vertex: 4})
    run(slot_of_sparse, w, out, provider=MESH)
    np.testing.assert_array_equal(out.asnumpy(), w.asnumpy()[:, 1])


@fundef
def slot_at_neighbour(weights):
    return list_get(1, deref(shift(V2E, 0)(weights)))


@fendef
def slot_of_shifted(weights, out):
    set_at(as_fieldop(slot_at_neighbour, on_vertices())(weights), on_vertices(), out)


def test_a_slot_of_a_sparse_field_at_a_neighbour() -> None:
    w, out = field({Edge: 5, E2VDim: 2}), field({Vertex: 4})
    run(slot_of_shifted, w, out, provider=MESH)
    np.testing.assert_array_equal(out.asnumpy(), w.asnumpy()[V2E_TABLE[:, 0], 1])


@fundef
def slots_of_neighbours(weights):
    return list_get(0, list_get(1, neighbors(V2E, weights)))


@fendef
def slot_of_list(weights, out):
    set_at(as_fieldop(slots_of_neighbours, on_vertices())(weights), on_vertices(), out)


def test_a_slot_of_a_list_of_lists() -> None:
    w, out = field({Edge: 5, E2VDim: 2}), field({Vertex: 4})
    run(slot_of_list, w, out, provider=MESH)
    np.testing.assert_array_equal(out.asnumpy(), w.asnumpy()[V2E_TABLE[:, 1], 0])


@fundef
def sum_of_sums(weights):
    return reduce(plus, 0.0)(neighbors(V2E, lift(lambda w: reduce(plus, 0.0)(deref(w)))(weights)))


@fendef
def nested_lists(weights, out):
    set_at(as_fieldop(sum_of_sums, on_vertices())(weights), on_vertices(), out)


def test_sparse_lists_reduced_at_each_neighbour() -> None:
    w, out = field({Edge: 5, E2VDim: 2}), field({Vertex: 4})
    run(nested_lists, w, out, provider=MESH)
    expected = (w.asnumpy().sum(1)[V2E_TABLE] * (V2E_TABLE >= 0)).sum(1)
    np.testing.assert_allclose(out.asnumpy(), expected, rtol=1e-14)


@fundef
def twice_shifted(v):
    return deref(shift(V2E, 0, E2V, 1)(v)) + deref(shift(E2V, 0)(shift(V2E, 1)(v)))


@fendef
def two_steps(v, out):
    set_at(as_fieldop(twice_shifted, on_vertices())(v), on_vertices(), out)


def test_the_first_shift_is_the_first_step() -> None:
    v, out = field({Vertex: 4}), field({Vertex: 4})
    run(two_steps, v, out, provider=MESH)
    a = v.asnumpy()
    np.testing.assert_array_equal(out.asnumpy(), a[E2V_TABLE[V2E_TABLE[:, 0], 1]] + a[E2V_TABLE[V2E_TABLE[:, 1], 0]])


@fundef
def mapped(e, f):
    near = map_list(lambda a, b: a * b + 1.0)(neighbors(V2E, e), neighbors(V2E, f))
    return reduce(lambda s, x: if_(less(s, x), x, s), -1.0)(near)


@fendef
def largest_product(e, f, out):
    set_at(as_fieldop(mapped, on_vertices())(e, f), on_vertices(), out)


def test_a_reduction_with_a_body_of_its_own() -> None:
    e, f, out = field({Edge: 5}), field({Edge: 5}), field({Vertex: 4})
    run(largest_product, e, f, out, provider=MESH)
    near = np.where(V2E_TABLE >= 0, (e.asnumpy() * f.asnumpy() + 1)[V2E_TABLE], -1)
    np.testing.assert_allclose(out.asnumpy(), near.max(1), rtol=1e-15)


@fundef
def counted_neighbours(e):
    def one(k):
        return if_(can_deref(shift(V2E, k)(e)), 1, 0)

    return one(0) + one(1) + one(2)


@fendef
def counting(e, out):
    set_at(as_fieldop(counted_neighbours, on_vertices())(e), on_vertices(), out)


def test_can_deref_counts_neighbours() -> None:
    out = field({Vertex: 4}, np.int32)
    run(counting, field({Edge: 5}), out, provider=MESH)
    np.testing.assert_array_equal(out.asnumpy(), (V2E_TABLE >= 0).sum(1))


# Scans


@fundef
def even_odd(state, x):
    even, odd, is_even = tuple_get(0, state), tuple_get(1, state), tuple_get(2, state)
    return make_tuple(even + if_(is_even, deref(x), 0.0), odd + if_(is_even, 0.0, deref(x)), not_(is_even))


@fendef
def even_and_odd(n, m, x, a, b):
    domain = cartesian_domain(named_range(I, 0, n), named_range(K, 0, m))
    made = as_fieldop(scan(even_odd, True, make_tuple(0.0, 0.0, True)), domain)(x)
    set_at(make_tuple(tuple_get(0, made), tuple_get(1, made)), domain, make_tuple(a, b))


def test_parts_of_a_state_are_stored() -> None:
    x, a, b = (field({I: 2, K: 5}) for _ in range(3))
    run(even_and_odd, 2, 5, x, a, b, provider=GRID, column=K)
    mask = np.arange(5) % 2 == 0
    np.testing.assert_allclose(a.asnumpy(), np.cumsum(x.asnumpy() * mask, 1), rtol=1e-14)
    np.testing.assert_allclose(b.asnumpy(), np.cumsum(x.asnumpy() * ~mask, 1), rtol=1e-14)


@fundef
def summed(state, x):
    return state + deref(x)


@fendef
def two_scans(m, n, x, out):
    domain = cartesian_domain(named_range(K, 0, n))
    down = as_fieldop(scan(summed, True, 0.0), domain)(x)
    up = as_fieldop(scan(summed, False, 0.0), domain)(down)
    set_at(up, cartesian_domain(named_range(K, m, n)), out)


def test_a_scan_of_a_scan() -> None:
    x, out = field({K: 6}), field({K: 6}, data=np.zeros(6))
    run(two_scans, 2, 6, x, out, provider=GRID, column=K)
    up = np.cumsum(np.cumsum(x.asnumpy())[::-1])[::-1]
    np.testing.assert_allclose(out.asnumpy(), np.where(np.arange(6) < 2, 0, up), rtol=1e-14)


@fundef
def whole_arithmetic(a, b):
    return make_tuple(divides(deref(a), deref(b)), mod(deref(a), deref(b)), minus(deref(a), multiplies(deref(b), 2)))


@fendef
def whole_numbers(n, a, b, x, y, z):
    set_at(as_fieldop(whole_arithmetic, on_i(n))(a, b), on_i(n), make_tuple(x, y, z))


def test_quotients_of_whole_numbers_are_cut() -> None:
    a, b = (field({I: 6}, data=np.array(v, np.int32)) for v in ([7, -7, 9, 1, 0, 100], [2, 2, 3, 5, 7, 9]))
    out = [field({I: 6}, np.int32) for _ in range(3)]
    run(whole_numbers, 6, a, b, *out, provider=GRID)
    x, y = a.asnumpy(), b.asnumpy()
    np.testing.assert_array_equal(out[0].asnumpy(), np.trunc(x / y).astype(int))
    np.testing.assert_array_equal(out[1].asnumpy(), x % y)
    np.testing.assert_array_equal(out[2].asnumpy(), x - 2 * y)


# Temporaries


FIELD = ts.FieldType(dims=[I], dtype=ts.ScalarType(kind=ts.ScalarKind.FLOAT64))
INDEX = ts.ScalarType(kind=ts.ScalarKind.INT32)


def interval(start: Any, stop: Any) -> Any:
    return im.call("cartesian_domain")(im.named_range(itir.AxisLiteral(value="I"), start, stop))


def compiled(program: Any, *args: Any) -> Any:
    made = arguments.CompileTimeArgs.from_concrete(*args, offset_provider=GRID, column_axis=None)
    return xla_cpu.compile(program, made)


def with_temporary() -> Any:
    wide = interval(im.minus(0, 1), im.plus("n", 1))
    whole = interval(0, "n")
    doubled = im.as_fieldop(im.lambda_("x")(im.multiplies_(im.deref("x"), 2.0)), wide)(im.ref("x"))
    moved = im.as_fieldop(
        im.lambda_("t")(im.minus(im.deref(im.shift("Ioff", 1)("t")), im.deref(im.shift("Ioff", -1)("t")))), whole
    )(im.ref("t"))
    return itir.Program(
        id="with_temporary",
        function_definitions=[],
        params=[im.sym("n", INDEX), im.sym("x", FIELD), im.sym("out", FIELD)],
        declarations=[itir.Temporary(id="t", domain=wide, dtype=FIELD.dtype)],
        body=[
            itir.SetAt(expr=doubled, domain=wide, target=im.ref("t")),
            itir.SetAt(expr=moved, domain=whole, target=im.ref("out")),
        ],
    )


def test_a_temporary_is_stored_and_read() -> None:
    x, out = field({I: (-1, 7)}), field({I: 6})
    run_it = compiled(with_temporary(), np.int32(6), x, out)
    run_it(np.int32(6), x, out, offset_provider=GRID)
    np.testing.assert_allclose(out.asnumpy(), 2 * (x.asnumpy()[2:] - x.asnumpy()[:-2]), rtol=1e-14)


def test_the_interpreter_runs_temporaries() -> None:
    from tensorir.integers.dims import Dims
    from tensorir.iterator.imports import program_of as program
    from tests.iterator.iterator_oracle import Block, interpret

    x, out = field({I: (-1, 7)}), field({I: 6})
    blocks = {"x": Block(Dims.of(I=(-1, 7)), x.asnumpy()), "out": Block(Dims.of(I=(0, 6)), out.asnumpy())}
    found = interpret(program(with_temporary()), {"n": 6, **blocks}, {"Ioff": "I"})
    np.testing.assert_allclose(found["out"].array, 2 * (x.asnumpy()[2:] - x.asnumpy()[:-2]), rtol=1e-14)


@fundef
def on_both(x):
    return deref(x) + 1.0


@fendef
def written_in_parts(n, x, out):
    set_at(as_fieldop(on_both, on_i(n))(x), on_i(n), out)
    part = cartesian_domain(named_range(I, 1, n - 1))
    set_at(as_fieldop(on_both, part)(out), part, out)


def test_a_statement_reads_and_overwrites_a_part() -> None:
    x, out = field({I: 5}), field({I: 5})
    run(written_in_parts, 5, x, out, provider=GRID)
    np.testing.assert_array_equal(out.asnumpy(), x.asnumpy() + np.array([1, 2, 2, 2, 1]))


def test_a_traced_stencil_is_called_on_a_domain() -> None:
    x, out = field({I: 5, J: 3}), field({I: 5, J: 3})
    on_both[cartesian_domain(named_range(I, 0, 5), named_range(J, 0, 3))](
        x, out=out, offset_provider={}, backend=xla_cpu
    )
    np.testing.assert_array_equal(out.asnumpy(), x.asnumpy() + 1)


def test_a_program_of_positions_is_printed_and_read_again() -> None:
    imported = ti.iterator.from_gt4py(with_temporary())
    assert str(ti.iterator.parse(str(imported))) == str(imported)
