"""Regions lifted by exact dataflow compute what the interpreter of regions does."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from generate.examples import examples
from hypothesis import HealthCheck, given, settings

from tensorir import reference
from tensorir.ir.build import fencil
from tensorir.lifting.dataflow.flow import flow_of
from tensorir.lifting.dataflow.statements import Uncovered, statements_of
from tensorir.lifting.emission.emit import Emitter, ordered_closures
from tensorir.lifting.nests.terms import Buffer
from tensorir.lifting.region import parse_region, print_region
from tensorir.lifting.rewrites.canonical import tidied
from tensorir.lifting.schedule.order import values_of
from tests.lift.region.generated_regions import regions
from tests.lift.region.interpreter import interpret
from tests.lift.region.matmul import MATMUL


def lifted(region):
    """The program of a region, and how each loop runs."""
    arguments = {b.name: Buffer(b.name, b.element, b.shape, True) for b in region.buffers if b.argument}
    emitter = Emitter(taken=set(arguments))
    values, decided = values_of(region, emitter, arguments)
    if not values:
        raise Uncovered("a program that writes no argument")
    params = [emitter.param(b) for b in arguments.values()]
    stores, buffers = ordered_closures([(arguments[name], x) for name, x in values.items()], params, emitter)
    made = replace(fencil(region.name, [*params, *buffers], stores), buffers=frozenset(b.name for b in buffers))
    return SimpleNamespace(fencil=tidied(made), decided=decided)


@settings(
    max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(regions())
def test_a_lifted_region_computes_what_the_region_does(region):
    rng = np.random.default_rng(0)
    arrays = {b.name: rng.integers(-4, 5, b.shape, "int32") for b in region.buffers if b.argument}
    wanted = interpret(region, arrays)
    try:
        program = lifted(region).fencil
    except Uncovered:
        return
    got = reference.run(program, **arrays)
    for name in [p.name for p in program.results if p.name in arrays]:
        assert np.array_equal(got[name], wanted[name]), f"{print_region(region)}\n{program}"


def test_a_tiled_product_over_a_grid_is_one_contraction():
    found = lifted(parse_region(MATMUL))
    assert "C ← reduce(+, 0.0f, t_1)(A × B);" in str(found.fencil)
    assert {(d.dim, d.strategy) for d in found.decided} == {("bi", "parallel"), ("bj", "parallel"), ("t", "reduction")}


def test_the_last_writer_is_found_through_two_buffers_that_take_turns():
    region = parse_region("""
    region r {
      argument A: int32[n=8];
      storage d: int32[turn=2];
      d[0] ← 5;
      for i in 0:8 {
        a: int ← d[i - 2*floordiv(i, 2)];
        d[1 - i + 2*floordiv(i, 2)] ← a + 1;
        A[i] ← a;
      }
    }""")
    assert interpret(region, {})["A"].tolist() == list(range(5, 13))
    sources = flow_of(statements_of(region))[1]
    assert {str(s.at[0]) for s in sources if s.writer == 2} == {"i - 1"}
    assert reference.run(lifted(region).fencil)["A"].tolist() == list(range(5, 13))


def test_what_is_not_covered_is_named():
    with pytest.raises(Uncovered) as found:
        lifted(parse_region('region r { argument A: int32[n=4]; external "f" A → A; }'))
    assert str(found.value) == "f, which nobody knows"


def test_a_while_is_one_step_that_makes_new_buffers_of_old_ones():
    """How often a number is halved or tripled until it is one; each of the numbers has a while of its own."""
    region = parse_region("""
    region collatz {
      argument A: int32[n=4];
      argument B: int32[m=4];
      storage x: int32[];
      for i in 0:4 {
        a: int ← A[i];
        x[] ← a;
        while { y: int ← x[]; } do y > 1 {
          z: int ← x[];
          x[] ← if mod(z, 2) = 0 then floordiv(z, 2) else 3*z + 1;
          b: int ← B[i];
          B[i] ← b + 1;
        }
      }
    }""")
    numbers = np.array([1, 6, 7, 3], "int32")
    assert reference.run(lifted(region).fencil, A=numbers, B=np.zeros(4, "int32"))["B"].tolist() == [0, 8, 16, 7]


@pytest.mark.parametrize(
    "text",
    [
        "for i in 0:4 { for j in 0:4 { a: int ← A[j]; A[i] ← a + 1; } }",
        "for i in 0:4 { for j in 0:4 - i { a: int ← A[j]; b: int ← A[i + j]; A[j] ← a + b*2; } }",
        "for i in 0:3 { for j in 0:3 { a: int ← A[j]; b: int ← A[j + 1]; A[j] ← max(a, b); A[j + 1] ← min(a, b); } }",
        "A[1] ← 5; for i in 0:4 { for j in 0:i { a: int ← A[j]; b: int ← A[i]; A[i] ← a + b; } }",
        "storage s: int32[n=4]; for i in 0:4 { for j in 0:4 { a: int ← s[i - j + floordiv(j, 2)] where i - j >= 0;"
        " b: int ← A[j]; s[j] ← a + b; A[i] ← a*2 + 1; } }",
    ],
)
def test_values_of_rounds_at_differing_distances_are_kept_by_element(text):
    storage, _, body = text.partition("; ") if text.startswith("storage") else ("", "", text)
    region = parse_region(f"region r {{ argument A: int32[n=4]; {storage}{';' if storage else ''} {body} }}")
    given = {"A": np.array([3, -1, 4, 2], "int32")}
    wanted = interpret(region, {"A": given["A"].copy()})["A"]
    assert reference.run(lifted(region).fencil, **given)["A"].tolist() == wanted.tolist()


def test_who_asks_between_rounds_for_what_later_ones_change_steps_along():
    region = parse_region("""
    region r {
      argument A: int32[n=4];
      argument B: int32[m=4];
      for i in 0:4 {
        for j in 0:4 - i { a: int ← A[j]; b: int ← A[i + j]; A[j] ← a + b*2; }
        c: int ← A[1];
        B[i] ← c;
      }
    }""")
    given = {"A": np.array([3, -1, 4, 2], "int32"), "B": np.zeros(4, "int32")}
    wanted = interpret(region, {name: x.copy() for name, x in given.items()})
    found = lifted(region)
    assert {d.strategy for d in found.decided if d.dim == "i"} == {"sequential"}
    assert reference.run(found.fencil, **given)["B"].tolist() == wanted["B"].tolist()


@pytest.mark.parametrize(
    "body",
    [
        "for k in 0:2 { for t in 0:4 lockstep { let p: int = min(t*t, 3); a: int ← A[p]; A[p] ← a + t; } }",
        "for t in 0:4 lockstep { for k in 0:3 { let p: int = mod(t*t + k, 4); a: int ← A[p]; A[p] ← a + t; } }",
        "for t in 0:4 lockstep { for k in 0:3 { let p: int = mod(t*t + k, 4); A[p] ← t + 7*k; } }",
        "for b in 0:2 { for t in 0:4 lockstep { let p: int = mod(t*t + b, 4); a: int ← A[p];"
        " let q: int = mod(t*t + b + 1, 4); A[q] ← a + t; c: int ← A[t]; A[p] ← c * 2; } }",
    ],
)
def test_lanes_in_lockstep_write_to_places_that_data_tell_one_step_after_the_other(body):
    region = parse_region(f"region r {{ argument A: int32[n=4]; {body} }}")
    given = {"A": np.array([3, -1, 4, 2], "int32")}
    wanted = interpret(region, {"A": given["A"].copy()})["A"]
    assert reference.run(lifted(region).fencil, **given)["A"].tolist() == wanted.tolist()


@pytest.mark.parametrize(
    "body",
    [
        # an index is a variable of its own in each access, but another one of the same loops
        "for i in 0:4 { for j in 0:4 { a: int ← A[j]; A[i] ← a + i*j; } }",
        "for i in 0:4 { for j in 0:4 { a: int ← B[j, i]; B[i, j] ← a + i; } }",
        # of other lengths
        "for i in 0:4 { for k in 0:3 { a: int ← A[i]; A[i] ← a + k; } } for j in 0:2 { b: int ← A[j]; B[j, 0] ← b; }",
        "for i in 0:2 { A[i] ← 5; } for j in 0:4 { for k in 0:3 { a: int ← A[j]; A[j] ← a * 2 + k; } }",
        # under conditions with other variables, and alone
        "for i in 0:4 { for k in 0:4 { a: int ← A[i]; A[i] ← a * 2 + k where i - k >= 0; } }",
        "for i in 0:4 { for k in 0:3 { a: int ← A[i]; A[i] ← a + k where i - 2 >= 0; } }",
        # two indices of one variable
        "for i in 0:4 { for k in 0:3 { a: int ← B[i, i]; B[i, i] ← a + k; } }",
        "for i in 0:4 { for j in 0:4 { for k in 0:3 { a: int ← B[i, j]; B[i, j] ← a + k + i; } } }",
    ],
)
def test_flow_along_indices_that_are_variables_of_their_own_is_that_of_all_elements(body):
    region = parse_region(f"region r {{ argument A: int32[n=4]; argument B: int32[p=4, q=4]; {body} }}")
    rng = np.random.default_rng(0)
    given = {"A": rng.integers(-5, 6, 4).astype("int32"), "B": rng.integers(-5, 6, (4, 4)).astype("int32")}
    wanted = interpret(region, {n: x.copy() for n, x in given.items()})
    fencil = lifted(region).fencil
    found = reference.run(fencil, **{p.name: given[p.name] for p in fencil.params})
    for n, x in found.items():
        assert x.tolist() == wanted[n].tolist()


def test_a_place_that_is_no_sum_of_indices_is_looked_up():
    region = parse_region("""
    region r {
      argument A: int32[n=8];
      argument B: int32[m=8];
      for i in 0:8 { let k: int = min(i*i, 7); a: int ← A[k]; B[i] ← a; }
    }""")
    a = np.arange(8, dtype="int32") * 3
    found = reference.run(lifted(region).fencil, A=a, B=np.zeros(8, "int32"))
    assert found["B"].tolist() == [a[min(i * i, 7)] for i in range(8)]


def test_flow_is_asked_for_the_result_alone_where_one_write_fills_each_buffer(monkeypatch):
    from tensorir.lifting.dataflow import flow

    counts = []
    real = flow._Flow.of
    for k in (10, 20):
        asked = []
        monkeypatch.setattr(flow._Flow, "of", staticmethod(lambda *a, asked=asked: (asked.append(1), real(*a))[1]))
        stages = "".join(
            f"for i{j} in 0:{64 - j} {{ a{j}: int ← t{j}[i{j}]; b{j}: int ← t{j}[i{j} + 1]; "
            f"t{j + 1}[i{j}] ← a{j} + b{j}; }}"
            for j in range(k)
        )
        storage = "".join(f"storage t{j}: int32[n=64];" for j in range(1, k))
        text = f"region chain {{ argument t0: int32[n=64]; {storage} argument t{k}: int32[n=64]; {stages} }}"
        flow._FLOWS.clear()  # the short chain is the beginning of the long one
        lifted(parse_region(text))
        counts.append(len(asked))
    assert counts == [1, 1]


def test_a_sum_under_conditions_that_data_tell_is_a_fold_over_all_rounds():
    found = lifted(
        parse_region("""
    region r {
      argument A: int32[n=4, m=5];
      argument B: int32[];
      storage s: int32[];
      for i in 0:4 {
        for j in 0:5 {
          a: int ← A[i, j];
          let c: bool = a > 0;
          b: int ← s[];
          if c { s[] ← a + b; }
        }
      }
      t: int ← s[];
      B[] ← t;
    }""")
    )
    assert {(d.dim, d.strategy) for d in found.decided} == {("i", "reduction"), ("j", "reduction")}
    a = np.random.default_rng(0).integers(-9, 9, (4, 5), "int32")
    assert reference.run(found.fencil, A=a)["B"] == a[a > 0].sum()


@pytest.mark.parametrize(
    ("reads", "wanted"),
    [
        ("floordiv(i, 3), j", lambda a: np.repeat(a, 3, axis=0)[:, :4]),
        ("i - 4*floordiv(i, 4), j - 4*floordiv(j, 4)", lambda a: np.tile(a, (3, 1))),
        ("floordiv(i, 3), floordiv(j, 2) + 2*i - 6*floordiv(i, 3)", None),
        ("2*floordiv(j, 2) + 3 - 2*floordiv(j, 2) - floordiv(i, 3), j", lambda a: np.repeat(a[::-1], 3, axis=0)),
    ],
    ids=["repeated", "tiled", "digits of both", "backward"],
)
def test_digits_of_indices_are_dims_and_nothing_is_looked_up(reads, wanted):
    text = f"for i in 0:12 {{ for j in 0:4 {{ a: int ← A[{reads}]; B[i, j] ← a; }} }}"
    region = parse_region(f"region r {{ argument A: int32[n=4, m=6]; argument B: int32[p=12, q=4]; {text} }}")
    a = np.arange(24, dtype="int32").reshape(4, 6)
    program = lifted(region).fencil
    made = reference.run(program, A=a)["B"]
    np.testing.assert_array_equal(made, interpret(region, {"A": a, "B": np.zeros((12, 4), "int32")})["B"])
    if wanted is not None:
        np.testing.assert_array_equal(made, wanted(a[:, :4]))
    assert "floordiv" not in str(program)


def test_reads_that_find_the_same_of_two_arguments_are_one():
    found = lifted(
        parse_region("""
    region r {
      argument A: int32[n=8];
      argument B: int32[m=2, n=8];
      argument C: int32[n=8];
      storage t: int32[n=8];
      for k in 0:3 { a: int ← A[k]; t[k] ← a; }
      for j in 3:8 { b: int ← B[1, j - 3]; t[j] ← b; }
      for i in 0:8 {
        x: int ← t[i];
        let c: bool = x > 0;
        if c { t[i] ← x * 2; }
        y: int ← t[i];
        C[i] ← y;
      }
    }""")
    )
    a, *b = np.random.default_rng(0).integers(-9, 9, (3, 8), "int32")
    t = np.concatenate([a[:3], b[1][:5]])
    assert reference.run(found.fencil, A=a, B=np.stack(b))["C"].tolist() == np.where(t > 0, 2 * t, t).tolist()


@pytest.mark.parametrize("other", ["", "if no { s[] ← a - 7; }"], ids=["one", "either"])
def test_what_stands_under_the_condition_under_which_it_is_read_is_no_recurrence(other):
    found = lifted(
        parse_region(f"""
    region r {{
      argument A: int32[n=8];
      argument B: int32[n=8];
      storage s: int32[];
      for i in 0:8 {{
        a: int ← A[i];
        let yes: bool = a > 0;
        let no: bool = ¬yes;
        if yes {{ s[] ← 2 * a; }}
        {other}
        again: int ← A[i];
        let asked: bool = {"true" if other else "again > 0"};
        if asked {{ b: int ← s[]; B[i] ← b + 1; }}
      }}
    }}""")
    )
    assert {d.strategy for d in found.decided} == {"parallel"}
    a, b = np.random.default_rng(0).integers(-9, 9, (2, 8), "int32")
    wanted = np.where(a > 0, 2 * a + 1, a - 6 if other else b)
    given = {"A": a, "B": b} if not other else {"A": a}
    assert reference.run(found.fencil, **given)["B"].tolist() == wanted.tolist()


def test_a_loop_of_one_iteration_is_no_dim_of_what_is_handed_on():
    found = lifted(
        parse_region("""
    region r {
      argument A: int32[b=3, n=8];
      argument B: int32[];
      storage s: int32[b=3];
      for i in 0:8 {
        for b in 2:3 {
          a: int ← A[b, i];
          t: int ← s[b];
          s[b] ← a - t;
        }
      }
      last: int ← s[2];
      B[] ← last;
    }""")
    )
    assert "λ(state: tensor<int>" in str(found.fencil)
    assert {(d.dim, d.strategy) for d in found.decided} == {("i", "reduction"), ("b", "parallel")}
    a = np.arange(24, dtype="int32").reshape(3, 8)
    assert reference.run(found.fencil, A=a)["B"] == sum(a[2, 1::2]) - sum(a[2, ::2])


@pytest.mark.parametrize(
    ("body", "folds"),
    [
        ("t: int ← s[]; s[] ← 3*t + a;", 1),
        ("t: int ← s[]; s[] ← 3*t + a; B[j, i] ← t;", 1),
        ("t: int ← s[]; s[] ← max(a, t - 1); u: int ← s[]; B[j, i] ← u * t;", 1),
        ("t: int ← B[j, i + 1]; u: int ← B[j - 1, i]; B[j, i] ← 2*t - u + a;", None),
    ],
    ids=["the last", "all before", "all after", "from both sides"],
)
def test_what_is_handed_on_from_row_to_row_is_one_recurrence(body, folds):
    text = f"for j in 1:5 {{ for i in 0:3 {{ a: int ← A[j, i]; {body} }} }} last: int ← s[]; C[] ← last;"
    buffers = "argument A: int32[n=5, m=4]; argument B: int32[n=5, m=4]; argument C: int32[]; storage s: int32[];"
    region = parse_region(f"region r {{ {buffers} {text} }}")
    rng = np.random.default_rng(0)
    given = {"A": rng.integers(-4, 5, (5, 4), "int32"), "B": rng.integers(-4, 5, (5, 4), "int32")}
    wanted = interpret(region, {**{n: x.copy() for n, x in given.items()}, "C": np.zeros((), "int32")})
    found = lifted(region)
    asked = {n: x for n, x in given.items() if n in {p.name for p in found.fencil.params}}
    for name, array in reference.run(found.fencil, **asked).items():
        np.testing.assert_array_equal(array, wanted[name])
    if folds is not None:
        assert str(found.fencil).count("λ(") == folds
        kinds = {(d.dim, d.strategy) for d in found.decided if d.strategy != "parallel"}
        assert kinds in ({("j", kind), ("i", kind)} for kind in ("scan", "reduction"))
