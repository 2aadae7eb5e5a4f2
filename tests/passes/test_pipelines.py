"""Pipelines: what they take, and what they keep."""

import numpy as np
import pytest
from generate import programs
from generate.bounds import flat
from generate.examples import examples
from generate.profiles import EVERY, LONG
from hypothesis import given, settings
from hypothesis import strategies as st
from same_bits import same

import tensorir as ti
from tensorir import reference
from tensorir.analysis.domains import domains
from tensorir.ir.build import apply, call, cartesian_shift, closure, fencil, function, literal, var
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import tensor
from tensorir.passes import PASSES, Inline, Simplify, Temporaries
from tensorir.passes.blocks import BlockPrograms, free_of_coordinates, regions_of, translated, with_positions

# Pipelines


SOURCE = """f(out: tensor<float, I[0:4]>, inp: tensor<float, I[0:5]>) {
  out ← (λ(x: tensor<float, I[0:5]>) → ⟪I, 1⟫(x) × 1.0)(inp);
}"""


def test_a_pipeline_reads_names_and_options():
    assert ti.passes.Pipeline("inline, temporaries(min_uses=3, costly=4)").passes == (
        Inline(),
        Temporaries(3, costly=4.0),
    )


def test_a_pipeline_prints_as_it_was_written():
    assert str(ti.passes.Pipeline("inline(keep=true), simplify")) == "inline(keep=True), simplify"


def test_what_changed_is_shown_between_passes():
    seen = []
    ti.passes.Pipeline([Inline(), Simplify(), Simplify()], show=seen.append)(ti.parse(SOURCE))
    assert [s.splitlines()[0] for s in seen] == ["after inline:", "after simplify:"]


def test_bound_constants_stay_bound():
    f = ti.parse("f(out: tensor<float, I[0:2]>, x: tensor<float, I[0:2]>, a: tensor<float>) { out ← a × (x × 1.0); }")
    g = ti.passes.Pipeline("simplify")(f.bind(a=3.0))
    assert g(x=[1.0, 2.0])["out"].tolist() == [3.0, 6.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "inline, sce",
            "<pipeline>:1:9: error[N20]: there is no pass 'sce'.\n"
            "  inline, sce\n          ^^^\nhelp: did you mean 'cse'?",
        ),
        (
            "temporaries(min_use=2)",
            "<pipeline>:1:13: error[N21]: the pass 'temporaries' has no option 'min_use'.\n"
            "  temporaries(min_use=2)\n              ^^^^^^^^^\nhelp: did you mean 'min_uses'?",
        ),
        (
            "temporaries(min_uses=two)",
            "<pipeline>:1:13: error[T50]: the option 'min_uses' is a whole number.\n"
            "  temporaries(min_uses=two)\n              ^^^^^^^^^^^^\nhelp: its default is 2.",
        ),
        (
            "inline cse",
            "<pipeline>:1:1: error[S20]: a pipeline is names of passes with commas between them.\n"
            "  inline cse\n  ^^^^^^^^^^\n"
            'help: write Pipeline("inline, temporaries(min_uses=2)").',
        ),
    ],
)
def test_a_wrong_pipeline_is_refused_at_its_place(text, message):
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.passes.Pipeline(text)
    assert str(caught.value) == message


# What a pipeline and a footprint say of what they do not take


@pytest.mark.parametrize("given", [3, [3], ["inline"]])
def test_a_pipeline_of_what_is_no_pass_is_refused(given):
    with pytest.raises(ti.DiagnosticError, match=r"a pipeline is made of passes, and .* is none"):
        ti.passes.Pipeline(given)


def test_a_buffer_to_inline_is_an_output():
    f = ti.parse("f(out: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) { out ← x; }")
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.passes.Pipeline('inline(buffers="ot")')(f)
    assert str(caught.value) == "error[N22]: 'f' has no output 'ot'.\nhelp: did you mean 'out'?"


def test_a_pass_alone_is_a_pipeline():
    inline = ti.passes.Pipeline("inline").passes[0]
    assert ti.passes.Pipeline(inline).passes == (inline,)


def test_a_point_of_a_footprint_has_a_number_for_each_dim():
    f = ti.parse("f(out: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) { out ← x; }")
    with pytest.raises(ti.DiagnosticError, match="3 is no point: a point has a number for each dim"):
        ti.inspect.footprint(f, at=3)


# Programs in coordinates that count from elsewhere


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(40))
@given(programs(EVERY), st.integers(-5, 5).filter(bool))
def test_a_program_has_its_values_wherever_coordinates_count_from(case, distance):
    dims = {d for p in case.fencil.params for d in p.type.dims}
    whole, positions = with_positions(case.fencil, sorted(dims))
    moved = translated(whole, dict.fromkeys(free_of_coordinates(whole, dims), distance))
    ends = {n: whole[n].type.dims[d] for n, d in positions.items()}
    places = {n: np.arange(i.start, i.stop, dtype=np.int32) for n, i in ends.items()}
    found = reference.run(moved, **case.arguments, **places)
    for name, expected in reference.run(case.fencil, **case.arguments).items():
        for a, b in zip(flat(expected), flat(found[name]), strict=True):
            assert same(a, b), f"{case!r}\n{moved}"
    assert ti.parse(str(moved)) == moved


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(40))
@given(programs(LONG), st.integers(1, 3))
def test_a_block_has_the_program_of_one_that_lies_alike(case, size):
    for dim in {d for p in case.fencil.results for d in p.type.dims}:
        whole, _ = with_positions(case.fencil, [dim])
        blocks = BlockPrograms.cut(case.fencil, frozenset([dim]))
        for regions in regions_of(case.fencil.results, {dim: range(size, 20, size)}):
            block = blocks.at(regions)
            out = {p.name: {d: (i.start, i.start) for d, i in p.type.dims.items} for p in case.fencil.results}
            out |= {n: {d: (i.start, i.stop) for d, i in r.items} for n, r in regions.items()}
            part = ti.passes.restrict(whole, {n: r for n, r in out.items() if r})
            assert block.fencil == translated(part, block.origin), f"{case!r}\n{regions}"


def test_a_buffer_that_is_written_again_makes_blocks_of_one_place_only():
    # each closure stores all that any of them needs, so that needed points grow beyond the halo of the result
    f = ti.parse("""f(out: tensor<float, I[0:40]>, tmp: tensor<float, I[0:60]>, x: tensor<float, I[0:60]>) {
      tmp ← x; tmp[I[0:59]] ← ⟪I, 1⟫(tmp); out ← ⟪I, 1⟫(tmp); }""")
    blocks = BlockPrograms.cut(f, frozenset("I"))
    for regions in regions_of(f.results[:1], {"I": range(4, 40, 4)}):
        part = ti.passes.restrict(f, {"out": {"I": (regions["out"]["I"].start, regions["out"]["I"].stop)}})
        assert blocks.at(regions).fencil == translated(part, blocks.at(regions).origin)


def test_parts_at_the_same_distance_from_what_is_special_are_one_program():
    f = ti.parse("""f(out: tensor<float, I[0:40]>, x: tensor<float, I[0:40]>) {
      out ← subset(x, I[0:40]) × cast(pos(I, x), float);
      out[I[2:38]] ← ⟪I, -2⟫(x) + ⟪I, 2⟫(x); }""")
    g, positions = with_positions(f, ["I"])
    assert positions == {"I_at": "I"}
    parts = {k: translated(ti.passes.restrict(g, {"I": (k, k + 8)}), {"I": k}) for k in range(0, 40, 8)}
    assert parts[8] == parts[16] == parts[24] and len(set(parts.values())) == 3
    blocks = BlockPrograms.cut(f, frozenset("I"))
    for regions in regions_of(f.results, {"I": range(8, 40, 8)}):
        assert blocks.at(regions).fencil == parts[regions["out"]["I"].start]
    assert len(blocks.by_place) == 3  # those in between are not made again


def test_dims_whose_points_are_named_keep_their_coordinates():
    f = ti.parse("""f(out: tensor<float, V[0:4], K[0:3]>, x: tensor<float, E[0:6], K[0:3]>,
      t: tensor<int, V[0:4], _NB_E[0:2]>) { out ← reduce(+, 0.0)(⟪t⟫(x)); }""")
    assert free_of_coordinates(f, ["V", "E", "K"]) == {"V", "K"}


# Passes and the analysis of domains on deep and on heavily shared programs

X = var("x", tensor("float", I=(0, 9)))


def program(value):
    out = var("out", value.type)
    return fencil("deep", [out, X], [closure(out, value)])


def deep(depth):
    value = X
    for _ in range(depth):
        value = call("plus", value, literal(1.0))
    return program(value)


def shared(depth):
    value = X
    for _ in range(depth):
        value = call("plus", value, value)
    return program(value)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_survives_depth(name):
    PASSES[name]()(deep(3_000))


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_is_linear_in_distinct_nodes(name):
    after = PASSES[name]()(shared(60))
    assert sum(1 for c in after.closures for _ in postorder(c.value)) <= 5 * 61


def test_functions_applied_inside_of_functions_are_inlined_at_any_depth():
    value = X
    for k in range(2_000):
        v = var(f"v{k}", X.type)
        value = apply(function([v], call("plus", v, literal(1.0))), value)
    assert "λ" not in str(PASSES["inline"]()(program(value)))


def test_domains_of_deep_and_shared_programs():
    assert len(domains(deep(3_000)).params["x"]) == 9
    assert len(domains(shared(60)).params["x"]) == 9


def test_a_row_of_shifts_needs_as_much_more():
    value = X
    for _ in range(4):
        value = call("plus", cartesian_shift(value, "I", 1), value)
    assert str(domains(program(value)).params["x"]) == "I[0:9]"


def test_functions_of_other_names_are_one_also_beside_functions_without_parameters():
    fold = "reduce(λ({0}: tensor<float>, {1}: tensor<float>) → {0} + {1} × {1}, 0.0, I)(x)"
    branch = "cond(0)(λ() → {} + 1.0, λ() → 3.0, c)"
    text = f"{fold.format('a', 'b')} + {fold.format('p', 'q')} + {branch.format('2.0')} × {branch.format('4.0')}"
    f = ti.parse(f"f(out: tensor<float>, x: tensor<float, I[0:3]>, c: tensor<bool>) {{ out ← {text}; }}")
    after = ti.passes.Pipeline("cse").run(f)
    assert str(after).count("reduce") == 1 and str(after).count("cond") == 2
    assert ti.compile(f, passes="cse")(x=np.arange(3.0), c=True)["out"] == 25.0
