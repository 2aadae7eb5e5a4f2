"""GT4Py's programs as they are called: aliases, slices, domains of several outputs, keywords, fields without dims."""

from __future__ import annotations

import dataclasses
import gc
import pickle
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import tensorir as ti
from tensorir.iterator.gt4py_backend import make_backend
from tests.peers.gt4py.sides import C2E, E2V, Cell, Edge, I, J, K, Vertex, both, field, gtx, ours, xla_cpu
from tests.peers.gt4py.test_unstructured import C2E_TABLE, E2V_TABLE, PROVIDER

from gt4py._core import definitions  # isort: skip
from gt4py.next import broadcast, maximum, minimum, where  # isort: skip
from gt4py.next.experimental import concat_where  # isort: skip
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import jax

from tests.peers.gt4py.model.model_programs import CASES, Mesh

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

F = gtx.Field[[I], gtx.float64]
JF = gtx.Field[[J], gtx.float64]
KF = gtx.Field[[K], gtx.float64]
IJ = gtx.Field[[I, J], gtx.float64]
IK = gtx.Field[[I, K], gtx.float64]
N = gtx.Field[[I], gtx.int32]
ZERO = gtx.Field[[], gtx.float64]


def line(n: int, start: float = 0.0) -> object:
    return field({I: n}, data=np.arange(start, start + n))


# One buffer several times


@gtx.field_operator
def added(a: F, b: F) -> F:
    return a + 10.0 * b


@gtx.field_operator
def neighbours(a: F, b: F) -> F:
    return a(I + 1) - b(I - 1)


@gtx.program
def aliased(a: F, b: F, out: F):
    neighbours(a, b, out=out, domain={I: (1, 7)})


def test_one_field_for_two_parameters_and_the_output() -> None:
    a = line(8)
    aliased.with_backend(xla_cpu)(a, a, a, offset_provider={})
    np.testing.assert_array_equal(a.asnumpy(), [0, 2, 2, 2, 2, 2, 2, 7])


def test_overlapping_parts_of_one_field() -> None:
    whole = line(9)
    first, last = whole[:8], whole[1:]
    shifted = gtx.as_field(gtx.domain({I: 8}), last.asnumpy())
    expected = first.asnumpy() + 10 * shifted.asnumpy()
    view = gtx.as_field(gtx.domain({I: 8}), np.zeros(8))
    added.with_backend(xla_cpu)(first, shifted, out=view, offset_provider={})
    np.testing.assert_array_equal(view.asnumpy(), expected)


@gtx.program
def chained(a: F, b: F):
    added(a, b, out=a)
    added(b, a, out=b)
    added(a, b, out=a)


def test_statements_that_overwrite_what_they_read() -> None:
    a, b = line(4), line(4, 3.0)
    both(chained, a, b)
    x, y = a.asnumpy(), b.asnumpy()
    x = x + 10 * y
    y = y + 10 * x


# Slices of outputs


@gtx.field_operator
def doubled(a: F) -> F:
    return 2.0 * a


@gtx.program
def sliced(a: F, out: F):
    doubled(a, out=out[1:-2])


def test_a_part_of_an_output_is_stored() -> None:
    both(sliced, line(8), field({I: 8}, data=np.full(8, -1.0)))


@gtx.field_operator
def copied_field(a: IK) -> IK:
    return a


@gtx.program
def one_point(a: IK, out: IK):
    copied_field(a, out=out[1:2, 3:4])


def test_one_point_of_an_output_is_stored() -> None:
    a, out = field({I: 4, K: 5}), field({I: 4, K: 5}, data=np.zeros((4, 5)))
    expected = np.zeros((4, 5))
    expected[1, 3] = a.asnumpy()[1, 3]
    np.testing.assert_array_equal(both(one_point, a, out)[-1], expected)


@gtx.field_operator
def both_ways(a: F, b: F) -> tuple[F, F]:
    return a + b, a - b


@gtx.program
def sliced_tuple(a: F, b: F, x: F, y: F):
    both_ways(a, b, out=(x[1:], y[1:]))


def test_parts_of_the_members_of_a_tuple_are_stored() -> None:
    both(sliced_tuple, line(4), line(4, 2.0), line(4, 50.0), line(4, 50.0))


# Domains


@gtx.field_operator
def exchanged(a: F, b: JF) -> tuple[JF, F]:
    return b, a


@gtx.program
def of_two_dims(a: F, b: JF, x: JF, y: F, i: gtx.int32, j: gtx.int32):
    exchanged(a, b, out=(x, y), domain=({J: (1, j)}, {I: (0, i)}))


def test_members_of_a_tuple_have_domains_of_their_own() -> None:
    a, b = line(4), field({J: 5}, data=np.arange(5.0) + 20)
    x, y = field({J: 5}, data=np.zeros(5)), line(4, 50.0)
    found = ours(of_two_dims, a, b, x, y, np.int32(3), np.int32(4))[-2:]
    np.testing.assert_array_equal(found[0], [0, 21, 22, 23, 0])
    np.testing.assert_array_equal(found[1], [0, 1, 2, 53])


@gtx.program
def out_is_a_tuple(a: F, b: JF, out: tuple[JF, F]):
    exchanged(a, b, out=out)


def test_an_output_that_is_a_tuple() -> None:
    a, b = line(4), field({J: 5})
    found = ours(out_is_a_tuple, a, b, (field({J: 5}), line(4, 9.0)))[-2:]
    np.testing.assert_array_equal(found[0], b.asnumpy())
    np.testing.assert_array_equal(found[1], a.asnumpy())


@gtx.field_operator
def three(a: F, b: JF, c: KF) -> tuple[tuple[F, JF], KF]:
    return (a, b), c


@gtx.program
def nested_domains(a: F, b: JF, c: KF, x: F, y: JF, z: KF, n: gtx.int32):
    three(a, b, c, out=((x, y), z), domain=(({I: (0, n)}, {J: (0, n - 1)}), {K: (1, n)}))


def test_domains_nested_as_their_outputs() -> None:
    a, b, c = line(4), field({J: 4}), field({K: 4})
    zeros = [field({d: 4}, data=np.zeros(4)) for d in (I, J, K)]
    x, y, z = ours(nested_domains, a, b, c, *zeros, np.int32(4))[-3:]
    np.testing.assert_array_equal(x, a.asnumpy())
    np.testing.assert_array_equal(y, [*b.asnumpy()[:3], 0])
    np.testing.assert_array_equal(z, [0, *c.asnumpy()[1:]])


@gtx.field_operator
def edges_and_cells(
    v: gtx.Field[[Vertex], gtx.float64],
) -> tuple[gtx.Field[[Edge], gtx.float64], gtx.Field[[Cell], gtx.float64]]:
    e = v(E2V[1])
    return e, e(C2E[1])


@gtx.program
def on_edges_and_cells(
    v: gtx.Field[[Vertex], gtx.float64],
    e: gtx.Field[[Edge], gtx.float64],
    c: gtx.Field[[Cell], gtx.float64],
    edges: gtx.int32,
    cells: gtx.int32,
):
    edges_and_cells(v, out=(e, c), domain=({Edge: (2, edges)}, {Cell: (1, cells)}))


def test_outputs_on_edges_and_cells() -> None:
    v, e, c = field({Vertex: 4}), field({Edge: (2, 5)}), field({Cell: (1, 2)})
    found = ours(on_edges_and_cells, v, e, c, np.int32(5), np.int32(2), provider=PROVIDER)[-2:]
    ends = v.asnumpy()[E2V_TABLE[:, 1]]
    np.testing.assert_array_equal(found[0], ends[2:])
    np.testing.assert_array_equal(found[1], ends[C2E_TABLE[1:, 1]])


@gtx.program
def computed_domain(a: F, out: F, low: gtx.int32, high: gtx.int32):
    doubled(a, out=out, domain={I: (maximum(low, minimum(1, 2)), high // 2 + 1)})


@pytest.mark.parametrize(("low", "high"), [(0, 10), (3, 9), (1, 0)])
def test_ends_of_a_domain_are_computed(low: int, high: int) -> None:
    a, out = line(8), field({I: 8}, data=np.zeros(8))
    found = ours(computed_domain, a, out, np.int32(low), np.int32(high))[1]
    expected = np.zeros(8)
    expected[max(low, 1) : high // 2 + 1] = 2 * np.arange(8.0)[max(low, 1) : high // 2 + 1]
    np.testing.assert_array_equal(found, expected)


@gtx.field_operator
def size_as_value(n: gtx.int32) -> N:
    return broadcast(n, (I,))


@gtx.program
def size_twice(n: gtx.int32, out: N):
    size_as_value(n, out=out, domain={I: (0, n)})


def test_a_scalar_is_an_end_and_a_value() -> None:
    for n in (5, 3):
        found = both(size_twice, np.int32(n), field({I: 6}, data=np.zeros(6, np.int32)))[0]
        np.testing.assert_array_equal(found, [n] * n + [0] * (6 - n))


def test_a_field_of_no_points_is_stored() -> None:
    out = line(4)
    doubled.with_backend(xla_cpu)(line(4)[2:2], out=out[2:2], offset_provider={})
    np.testing.assert_array_equal(out.asnumpy(), np.arange(4.0))


@gtx.program
def empty_between(a: F, out: F, n: gtx.int32):
    doubled(a, out=out, domain={I: (n, n)})
    doubled(a, out=out, domain={I: (n + 1, 4)})


def test_a_statement_on_no_points_does_nothing() -> None:
    found = ours(empty_between, line(4), line(4, 9.0), np.int32(1))[1]
    np.testing.assert_array_equal(found, [9, 10, 4, 6])


def test_a_domain_of_a_call() -> None:
    domain = {I: (-1, 2)}
    a, out = field({I: (-3, 4)}), field({I: (-2, 3)}, data=np.zeros(5))
    both(doubled, a, out=out, domain=domain)


def test_a_field_with_a_negative_origin_meets_one_without() -> None:
    a = gtx.as_field([I], np.arange(10.0), origin={I: 3})
    both(added, a, line(7), out=field({I: (1, 5)}))


# Arguments


@gtx.field_operator
def three_terms(a: F, b: F, c: F) -> F:
    return c * a - b


@gtx.program
def with_keywords(a: F, b: F, c: F, out: F):
    three_terms(a, c=c, b=b, out=out)


def test_arguments_by_name() -> None:
    a, b, c = line(3), line(3, 1.0), line(3, 5.0)
    expected = c.asnumpy() * a.asnumpy() - b.asnumpy()
    for call in (
        lambda out: three_terms.with_backend(xla_cpu)(a, c=c, b=b, out=out, offset_provider={}),
        lambda out: with_keywords.with_backend(xla_cpu)(a, out=out, c=c, b=b, offset_provider={}),
        lambda out: with_keywords.with_backend(xla_cpu)(out=out, c=c, b=b, a=a, offset_provider={}),
    ):
        out = line(3)
        call(out)
        np.testing.assert_array_equal(out.asnumpy(), expected)


@gtx.field_operator
def scaled_by(a: F, s: ZERO, n: gtx.float64) -> F:
    return a * s + n


def test_a_field_without_dims_is_a_number() -> None:
    s = gtx.as_field([], np.asarray(3.0))
    both(scaled_by, line(4), s, 0.5, out=line(4))


@gtx.field_operator
def zero_dims(s: ZERO) -> ZERO:
    return s + 1.0


def test_an_output_without_dims() -> None:
    s, out = gtx.as_field([], np.asarray(3.0)), gtx.as_field([], np.asarray(0.0))
    zero_dims.with_backend(xla_cpu)(s, out=out, offset_provider={})
    assert out.asnumpy() == 4.0


@gtx.field_operator
def number_for_field(a: F) -> F:
    return scaled_by(a, 2.0, 3.0)


def test_a_number_is_a_field_without_dims() -> None:
    np.testing.assert_array_equal(both(number_for_field, line(3), out=line(3))[-1], 2 * np.arange(3.0) + 3)


@gtx.field_operator
def zero_dim_tuple(a: tuple[ZERO, tuple[ZERO, ZERO]]) -> F:
    return broadcast(a[0] + 2.0 * a[1][0] + 3.0 * a[1][1], (I,))


def test_tuples_of_fields_without_dims() -> None:
    zero = [gtx.as_field([], np.asarray(float(k))) for k in (1, 2, 3)]
    out = line(3)
    zero_dim_tuple.with_backend(xla_cpu)((zero[0], (zero[1], zero[2])), out=out, offset_provider={})
    np.testing.assert_array_equal(out.asnumpy(), [14.0] * 3)


# Named collections


class Wind(NamedTuple):
    u: IJ
    v: IJ


@dataclasses.dataclass
class Pair:
    first: IJ
    second: tuple[IJ, gtx.float64]


@gtx.field_operator
def of_collections(w: Wind, p: Pair) -> Wind:
    return Wind(v=w.u * p.first, u=w.v + p.second[0] * p.second[1])


@gtx.program
def collections(w: Wind, p: Pair, out: Wind):
    of_collections(w, p, out=out)


def test_named_collections_go_in_and_out() -> None:
    f = [field({I: 3, J: 2}) for _ in range(4)]
    for program in (of_collections, collections):
        out = Wind(field({I: 3, J: 2}), field({I: 3, J: 2}))
        program.with_backend(xla_cpu)(Wind(f[0], f[1]), Pair(f[2], (f[3], 2.0)), out=out, offset_provider={})
        u, v, a, b = (x.asnumpy() for x in f)
        np.testing.assert_allclose(out.v.asnumpy(), u * a, rtol=1e-15)
        np.testing.assert_allclose(out.u.asnumpy(), v + b * 2, rtol=1e-15)


@gtx.field_operator
def chosen_collection(n: N, inner: Wind, outer: Wind) -> Wind:
    return where(n == 0, outer, concat_where(I < 2, inner, outer))


def test_choices_of_named_collections() -> None:
    f = [field({I: 3, J: 2}) for _ in range(4)]
    n = field({I: 3}, data=np.array([0, 1, 2], np.int32))
    out = Wind(field({I: 3, J: 2}), field({I: 3, J: 2}))
    chosen_collection.with_backend(xla_cpu)(n, Wind(f[0], f[1]), Wind(f[2], f[3]), out=out, offset_provider={})
    a = [x.asnumpy() for x in f]
    for got, inner, outer in ((out.u, a[0], a[2]), (out.v, a[1], a[3])):
        np.testing.assert_array_equal(got.asnumpy(), np.stack([outer[0], inner[1], outer[2]]))


# Compilation ahead


@gtx.field_operator
def variants(a: F, n: gtx.int32, x: gtx.float64, up: gtx.bool) -> F:
    return a + x if up else a - x


@gtx.program
def variant_program(a: F, n: gtx.int32, x: gtx.float64, up: gtx.bool, out: F):
    variants(a, n, x, up, out=out, domain={I: (0, n)})


def test_variants_are_compiled_ahead() -> None:
    program = variant_program.with_backend(xla_cpu).compile(
        n=[np.int32(2), np.int32(3)], x=[1.0, 2.0], up=[True, False], offset_provider={}
    )
    for n, x, up in ((2, 1.0, True), (3, 2.0, False)):
        a, out = line(4), field({I: 4}, data=np.zeros(4))
        program(a, np.int32(n), x, up, out, offset_provider={})
        expected = np.where(np.arange(4) < n, np.arange(4.0) + (x if up else -x), 0)
        np.testing.assert_array_equal(out.asnumpy(), expected)


def test_an_operator_is_compiled_ahead() -> None:
    operator = added.with_backend(xla_cpu)
    operator.compile(offset_provider={})
    out = line(3)
    operator(line(3), line(3), out=out, offset_provider={})
    np.testing.assert_array_equal(out.asnumpy(), 11 * np.arange(3.0))


@gtx.program(backend=xla_cpu, static_params=["n"])
def with_static(a: F, n: gtx.int32, out: F):
    doubled(a, out=out, domain={I: (0, n)})


def test_static_parameters() -> None:
    for n in (2, 4, 2):
        out = field({I: 4}, data=np.zeros(4))
        with_static(line(4), np.int32(n), out, offset_provider={})
        np.testing.assert_array_equal(out.asnumpy(), np.where(np.arange(4) < n, 2 * np.arange(4.0), 0))


@gtx.field_operator(backend=xla_cpu)
def decorated(a: F) -> F:
    return a(I + 1) + 1.0


def test_an_operator_decorated_with_the_backend() -> None:
    out = line(3)
    decorated(line(4), out=out, offset_provider={})
    np.testing.assert_array_equal(out.asnumpy(), [2, 3, 4])


def test_allocators_of_the_backend_make_fields() -> None:
    made = gtx.zeros(gtx.domain({I: 3, K: 2}), gtx.float64, allocator=xla_cpu)
    made2 = gtx.as_field([I, K], np.ones((3, 2)), allocator=xla_cpu.allocator)
    out = gtx.empty(gtx.domain({I: 3, K: 2}), gtx.float64, allocator=xla_cpu)
    copied_field.with_backend(xla_cpu)(made2, out=out, offset_provider={})
    np.testing.assert_array_equal(out.asnumpy() + made.asnumpy(), np.ones((3, 2)))


Ioff = gtx.FieldOffset("Ioff", source=I, target=(I,))
CARTESIAN = {"Ioff": gtx.CartesianConnectivity(I)}


@gtx.field_operator
def moved(a: F) -> F:
    return a(Ioff[1]) - a(Ioff[-1])(Ioff[2])


@gtx.program
def moving(a: F, out: F):
    moved(a, out=out)


def test_offsets_given_when_a_program_is_compiled() -> None:
    a, out = field({I: (-1, 7)}), line(4)
    program = moving.with_backend(xla_cpu).compile(offset_provider=CARTESIAN)
    program(a, out, offset_provider=CARTESIAN)
    np.testing.assert_array_equal(out.asnumpy(), np.zeros(4))


@gtx.field_operator
def ahead_and_behind(a: F) -> F:
    return a(Ioff[2]) - a(I - 1)


def test_offsets_by_name_and_by_dim() -> None:
    found = ours(ahead_and_behind, field({I: (-1, 6)}, data=np.arange(7.0) ** 2), out=line(4), provider=CARTESIAN)
    np.testing.assert_array_equal(found[-1], [(k + 3) ** 2 - k**2 for k in range(4)])


def test_a_backend_and_its_artifact_go_to_other_processes() -> None:
    executor = pickle.loads(pickle.dumps(xla_cpu.executor))
    assert executor == xla_cpu.executor


@pytest.mark.skipif(definitions.CUPY_DEVICE_TYPE is not None, reason="there is a GPU")
def test_without_a_gpu_its_backend_is_refused() -> None:
    with pytest.raises(ti.DiagnosticError) as caught:
        make_backend("gpu")
    assert str(caught.value) == (
        "error[TI12]: there is no GPU that CuPy knows, whose arrays fields are there.\nhelp: use xla_cpu."
    )


def test_levels_of_a_mesh_point_lie_together_and_a_grids_columns_side_by_side() -> None:
    mesh = gtx.zeros(gtx.domain({Edge: 16, K: 8}), gtx.float64, allocator=xla_cpu)
    grid = gtx.zeros(gtx.domain({I: 16, J: 8, K: 8}), gtx.float64, allocator=xla_cpu)
    assert mesh.ndarray.strides == (64, 8)
    assert sorted(grid.ndarray.strides) == list(grid.ndarray.strides)


def executables() -> int:
    ti.config.caches.clear()
    gc.collect()
    return sum(type(o).__name__ == "Executable" for o in gc.get_objects())


def test_what_was_compiled_for_a_dropped_program_is_gone() -> None:
    def called(operator: Callable[..., object]) -> object:
        program = operator.with_backend(xla_cpu)
        program(line(8), line(8), out=line(8), domain={I: (1, 7)}, offset_provider={})
        return program

    called(added)
    before = executables()
    program = called(neighbours)
    assert sum(type(o).__name__ == "Executable" for o in gc.get_objects()) == before + 1
    del program
    assert executables() == before


# Programs of the kinds that a weather model has, on fields of both allocators, against GT4Py's own execution.


MESH = Mesh(cells=12, levels=7)


@pytest.mark.parametrize("allocator", [xla_cpu, gtx.gtfn_cpu], ids=["of this backend", "of GT4Py"])
@pytest.mark.parametrize("name", CASES)
def test_programs_of_a_model_give_what_embedded_execution_gives(name, allocator):
    case, provider = CASES[name], MESH.provider()
    wanted = case.arguments(MESH)
    case.program.with_backend(None)(**wanted, offset_provider=provider)
    found = case.arguments(MESH, allocator.allocator)
    case.program.with_backend(xla_cpu)(**found, offset_provider=provider)
    for result in case.results:
        a, b = found[result].asnumpy(), wanted[result].asnumpy()
        assert np.isfinite(b).all() and np.abs(b).max() > 0
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * np.abs(b).max())


# The first program of `docs/gt4py.md` runs, and needs its last two lines where GT4Py builds in other processes.


ROOT = Path(__file__).parents[3]
PROGRAM = re.search(r"^```python\n(.*?)^```", (ROOT / "docs/gt4py.md").read_text("utf-8"), re.M | re.S)[1]
SAID = "\n".join(re.findall(r"print\(.*\)  # (.*)", PROGRAM))


@pytest.mark.filterwarnings("ignore")
def test_the_first_program_of_the_page_prints_what_it_says(tmp_path, capsys):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    with jax.enable_x64(True):  # as importing GT4Py does in a process of its own
        runpy.run_path(str(file), run_name="__main__")
    assert capsys.readouterr().out == f"{SAID}\n"


@pytest.mark.nightly
@pytest.mark.parametrize("guarded", [True, False])
def test_builds_in_other_processes_need_the_guard(tmp_path, guarded):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM if guarded else PROGRAM.replace('if __name__ == "__main__":', "if True:"), encoding="utf-8")
    environment = {**os.environ, "GT4PY_BUILD_JOBS_MODE": "process", "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, file], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.stdout.strip() == SAID if guarded else "BrokenProcessPool" in run.stderr
