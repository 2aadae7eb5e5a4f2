"""Sizes are whole numbers, and tables are validated before their type is converted."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti

I, C = ti.Dimension("I"), ti.Dimension("C")
local = ti.Dimension("L", kind="local")
C2I = ti.FieldOffset("C2I", source=I, target=(C, local))

SUM = "g(out: tensor<float>, x: tensor<float, I[0:10]>) { out ← reduce(+, 0.0, I)(x[I[0:n]]); }"
NEIGHBOUR = (
    "f(y: tensor<float, C[0:2]>, T: tensor<int, C[0:2], _NB_I[0:1]>, x: tensor<float, I[0:3]>) { y ← ⟪T, 0⟫(x); }"
)


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, np.array, jnp.array])
def test_a_size_of_every_kind_is_part_of_what_a_call_means(kind: Any):
    compiled = ti.compile(ti.parse(SUM))
    x = np.arange(10.0)
    found = [float(compiled(x=x, n=kind(n))["out"]) for n in (2, 4, 10, 2)]
    assert found == [1.0, 6.0, 45.0, 1.0]


@pytest.mark.parametrize("value", [2.9, "3", 2.0, True, np.array(2.0), np.array([2]), np.bool_(True), None])
def test_a_size_that_is_no_whole_number_is_refused_by_name(value: Any):
    template = ti.parse(SUM)
    for call in (
        lambda: template(x=np.arange(10.0), n=value),
        lambda: template.bind(n=value),
        lambda: template.specialise(n=value),
        lambda: ti.compile(template)(x=np.arange(10.0), n=value),
    ):
        with pytest.raises(ti.DiagnosticError, match="sizes are whole numbers"):
            call()


def test_the_message_about_a_size():
    with pytest.raises(ti.DiagnosticError) as error:
        ti.parse(SUM).specialise(n=2.9)
    assert str(error.value) == "error[B11]: the size 'n' is 2.9, and sizes are whole numbers.\nhelp: write n=10."


TABLES = [[[0], [2]], [[2], [1]], [[1], [0]]]


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_a_table_is_part_of_what_a_call_means(array: Any):
    compiled = ti.compile(ti.parse(NEIGHBOUR), full=("T",))
    x = np.array([10.0, 20.0, 30.0])
    found = [np.asarray(compiled(x=x, T=array(np.array(t, "int32")))["y"]).tolist() for t in TABLES]
    assert found == [[10.0, 30.0], [30.0, 20.0], [20.0, 10.0]]


@pytest.mark.parametrize("entry", [np.int64(2**32 + 1), np.uint32(2**32 - 1), np.uint64(2**64 - 1)])
def test_an_entry_of_a_table_is_refused_as_it_was_passed(entry: Any):
    table = np.array([[entry], [0]], entry.dtype)
    x = np.arange(3.0)
    program = ti.parse(NEIGHBOUR)
    template = ti.parse(NEIGHBOUR.replace("I[0:3]", "I[0:n]"))
    for call in (
        lambda: program.bind(T=table),
        lambda: program(T=table, x=x),
        lambda: template.bind(T=table, n=3),
        lambda: template(T=table, x=x),
        lambda: ti.reference.run(program, T=table, x=x),
    ):
        with pytest.raises(ti.DiagnosticError, match=str(int(entry))):
            call()


def test_an_entry_of_the_tables_dimension_that_its_type_cannot_hold_is_refused():
    text = NEIGHBOUR.replace("T: tensor<int,", "T: tensor<int8,").replace("I[0:3]", "I[0:300]")
    with pytest.raises(ti.DiagnosticError) as error:
        ti.parse(text).bind(T=np.array([[299], [0]]))
    assert str(error.value) == (
        "error[A07]: the table 'T' is int8, which cannot hold 299.\nhelp: declare a wider type."
    )


def test_a_table_of_an_offset_provider_is_refused_as_it_was_passed():
    @ti.field_operator
    def first(x: ti.Field[[I], ti.float64]) -> ti.Field[[C], ti.float64]:
        return x(C2I[0])

    with pytest.raises(ti.DiagnosticError, match="4294967297"):
        first(np.arange(3.0), offset_provider={"C2I": np.array([[2**32 + 1], [0]])})


@pytest.mark.parametrize("source", [0, 3])
@pytest.mark.parametrize("slots", [0, 2])
def test_a_bound_table_without_slots_or_without_a_source_finds_nothing(source: int, slots: int):
    program = ti.parse(
        f"f(y: tensor<float, C[0:2]>, T: tensor<int, C[0:2], _NB_I[0:{slots}]>, x: tensor<float, I[0:{source}]>) "
        "{ y ← reduce(+, 0.5)(⟪T⟫(x)); }"
    )
    table = np.full((2, slots), -1)
    for run in (program.bind(T=table), ti.compile(program.bind(T=table)), lambda x: program(x=x, T=table)):
        assert run(x=np.ones(source))["y"].tolist() == [0.5, 0.5]


START = 2**32
FAR = f"f(y: tensor<float>, k: tensor<int>, x: tensor<float, I[{START}:{START + 4}]>) {{ y ← MODE(x, k); }}"


def test_a_narrow_index_does_not_wrap_into_an_interval_behind_its_type():
    x, k = np.arange(1.0, 5.0), np.int32(1)
    with pytest.raises(Exception, match="an index leaves"):
        ti.parse(FAR.replace("MODE", "gather(I)"))(x=x, k=k)
    assert ti.parse(FAR.replace("MODE", "gather(I, clamp)"))(x=x, k=k)["y"] == 1.0
    assert ti.parse(FAR.replace("MODE", "gather(I, zero)"))(x=x, k=k)["y"] == 0.0


def test_coordinates_that_int32_cannot_hold_are_refused():
    with pytest.raises(ti.DiagnosticError) as error:
        ti.parse("f(y: tensor<int, I[0:2147483649]>) { y ← pos(I, y); }")
    assert str(error.value) == (
        "<text>:1:49: error[T43]: coordinates are int32, and I[0:2147483649] has some that it cannot hold.\n"
        "  f(y: tensor<int, I[0:2147483649]>) { y ← pos(I, y); }\n"
        "                                                  ^\n"
        "help: rename I on an interval that begins at 0, and add the distance as int64."
    )


@pytest.mark.parametrize(("fold", "expected"), [("max_over", [True, False]), ("min_over", [False, False])])
def test_a_fold_of_bools_over_neighbours_says_any_or_all(fold: str, expected: list[bool]):
    @ti.field_operator
    def folded(x: ti.Field[[I], ti.bool]) -> ti.Field[[C], ti.bool]:
        return getattr(ti, fold)(x(C2I), axis=local)

    found = folded(np.array([True, False, False]), offset_provider={"C2I": np.array([[0, 1], [1, 2]])})
    assert np.asarray(found).tolist() == expected


def test_what_a_fold_computes_of_a_tensor_with_its_dim_may_lack_it():
    program = ti.parse(
        "f(y: tensor<float>, x: tensor<float, K[0:4]>) { y ← let s = reduce(+, 0.0, K)(x); "
        "reduce(λ(a: tensor<float>, v: tensor<float>) → a + v × s, 0.0, K)(x); }"
    )
    x = np.arange(4.0)
    assert program(x=x)["y"] == ti.reference.run(program, x=x)["y"] == 36.0


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_a_table_is_validated_in_every_call(array: Any):
    compiled = ti.compile(ti.parse(NEIGHBOUR), full=("T",))
    x = np.arange(3.0)
    for _ in range(2):
        compiled(x=x, T=array(np.array([[0], [2]], "int32")))
        with pytest.raises(ti.DiagnosticError, match="leaves its dimension"):
            compiled(x=x, T=array(np.array([[0], [3]], "int32")))
