"""Plans: what was chosen and why, what switches it off, and the memory and the costs that are predicted."""

import ast
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from lowering.calls.plan import CHOICES
from lowering.context import Context
from lowering.kernels import is_available
from stencils import library
from tensorir.analysis.absence import analyse_absence
from tensorir.analysis.annotations import annotated
from tensorir.analysis.cost import predicted
from tensorir.passes.block_scans import BlockScans
from tensorir.passes.closures import Materialise
from tensorir.passes.pipeline import DEFAULT_PASSES

ROOT = pathlib.Path(__file__).parents[2]

SCAN = """f(y: tensor<float, I[0:50], K[0:9]>, x: tensor<float, I[0:50], K[0:9]>) {
  y ← scan(λ(s: tensor<float, I[0:50]>, a: tensor<float, I[0:50]>) → a + 0.5 × s, true, 0.0)(x); }"""
NEIGHBOURS = """f(y: tensor<float, V[0:4]>, x: tensor<float, E[0:5]>, T: tensor<int, V[0:4], _NB_E[0:3]>) {
  y ← reduce(λ(s: tensor<float, V[0:4]>, a: tensor<float, V[0:4]>) → s + a × a, 0.0)(⟪T⟫(x)); }"""
TABLE = np.array([[0, 1, 2], [2, 3, -1], [4, 0, 1], [3, 4, 0]], np.int32)

PROGRAMS = {
    "fuse_into_scans": """f(y: tensor<float, K[0:9]>, x: tensor<float, K[0:9]>) {
      y ← let t = scan(λ(s: tensor<(float, float)>, v: tensor<float>) → (s[0] + v, 0.5 × s[1] × v), true,
        (0.0, 1.0))(x);
        t[0] / (1.0 + t[1]); }""",
    "split_scans": """f(y: tensor<float, I[0:5], K[0:9]>, a: tensor<float, I[0:5], K[0:9]>,
      b: tensor<float, I[0:5], K[0:9]>) {
      y ← scan(λ(s: tensor<float, I[0:5]>, p: tensor<float, I[0:5]>, q: tensor<float, I[0:5]>) → p × q + s, true,
        0.0)(a, b); }""",
    "contractions": """f(y: tensor<float, I[0:3], J[0:5]>, a: tensor<float, I[0:3], K[0:40]>,
      b: tensor<float, K[0:40], J[0:5]>) { y ← reduce(+, 0.0, K)(a × b); }""",
    "argument_reductions": """f(y: tensor<(int, float)>, x: tensor<float, K[0:40]>) {
      y ← reduce(λ(s: tensor<(int, float)>, k: tensor<int>, v: tensor<float>) →
        (if v > s[1] then k else s[0], if v > s[1] then v else s[1]), (-1, float(-inf)), K)(pos(K, x), x); }""",
    "top_k": "f(y: tensor<float32, K[0:3]>, x: tensor<float32, K[0:9]>) { y ← sort(K, 1, true)(x)[K[0:3]]; }",
    "materialise": """f(y: tensor<float, I[1:8]>, x: tensor<float, I[0:9]>) {
      y ← let w = cos(x) × exp(x); ⟪I, 1⟫(w) + ⟪I, -1⟫(w); }""",
    "pools": """f(out: tensor<float, Y[0:4], X[0:5]>, a: tensor<float, J[0:9], I[0:11]>) {
      out ← let y = add_dim(Y, 0, 4, 0); let x = add_dim(X, 0, 5, 0); let r = add_dim(R, 0, 3, 0);
        let s = add_dim(S, 0, 2, 0); reduce(max, -1.0, R)(reduce(max, float(-inf), S)(
          gather(J, I, clamp)(a, 2 × pos(Y, y) + pos(R, r), 2 × pos(X, x) + pos(S, s)))); }""",
    "conditionals": """f(y: tensor<float>, n: tensor<int>, x: tensor<float, I[0:9]>) {
      y ← if n > 0 then gather(I)(x, n) else 0.5; }""",
    "block_scans": SCAN,
    "contraction": """f(y: tensor<float, I[0:3], J[0:5]>, a: tensor<float, I[0:3], K[0:40]>,
      b: tensor<float, K[0:40], J[0:5]>) { y ← reduce(+, 0.0, K)(a × b); }""",
    "unrolled_folds": NEIGHBOURS,
    "reads_by_slot": NEIGHBOURS,
    "inverse_tables": NEIGHBOURS,
    "reads_per_loop": """f(y: tensor<float, V[0:4]>, z: tensor<float, V[0:4]>, x: tensor<float, E[0:5]>,
      T: tensor<int, V[0:4], _NB_E[0:3]>) {
      let a = ⟪T⟫(x); y ← reduce(+, 0.0)(a × a); z ← reduce(max, 0.0)(a); }""",
    "in_place_updates": """f(u: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) {
      u ← x + 1.0; u[I[1:8]] ← u + x; }""",
    "scans_outermost": SCAN,
    "gathered_cotangents": """f(y: tensor<float, I[1:8]>, x: tensor<float, I[0:9]>) {
      y ← x × (⟪I, 1⟫(x) - ⟪I, -1⟫(x)); }""",
    **({"native_kernels": SCAN} if is_available() else {}),
    "sums_as_loops": """f(y: tensor<float>, x: tensor<float, I[0:99]>) {
      y ← reduce(+, 0.0, I)(⟪I, 1⟫(x) × 2.0 - x); }""",
}  # fmt: skip
"""A program for each choice that is made on CPUs."""
PASSES = {"block_scans": (BlockScans(block=720, least=1000),)}


def arguments(program, rng):
    found = {}
    for p in program.inputs:
        element = str(p.type.element)
        found[p.name] = rng.uniform(0.5, 1.5, p.type.dims.shape).astype("float32" if element == "float32" else float)
    return {**found, **({"n": np.int32(3)} if "n" in found else {}), **({"T": TABLE} if "T" in found else {})}


def compiled(name, **options):
    program = ti.parse(PROGRAMS[name])
    bound = program.bind(T=TABLE) if "T" in [p.name for p in program.params] else program
    return ti.compile(bound, passes=PASSES.get(name, DEFAULT_PASSES), **options)


def test_every_choice_on_this_platform_has_a_program():
    elsewhere = {p.name() for p in DEFAULT_PASSES if p.on("cpu") is None} | {"kernels"}
    assert elsewhere == {"needed_points", "unroll_loops", "kernels"}
    elsewhere |= set() if is_available() else {"native_kernels"}
    assert {p.name() for p in DEFAULT_PASSES} | set(CHOICES) <= set(PROGRAMS) | elsewhere


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_choice_that_is_switched_off_is_gone_and_results_stay(name):
    program = ti.parse(PROGRAMS[name])
    given = arguments(program, np.random.default_rng(0))
    expected = ti.reference.run(program, **given)
    given.pop("T", None)
    on, off = compiled(name), compiled(name, without=name)
    assert on.plan().taken(name)
    assert not off.plan().taken(name)
    for c in (on, off):
        for key, found in c(**given).items():
            for a, b in zip(jax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(expected[key]), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6 if a.dtype == np.float32 else 1e-12)


DIFFERENTIATED = (
    "inverse_tables",
    "reads_per_loop",
    "reads_by_slot",
    "unrolled_folds",
    "scans_outermost",
    "block_scans",
    "gathered_cotangents",
)


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients_are_the_same_without_a_choice(name):
    program = ti.parse(PROGRAMS[name])
    x = np.random.default_rng(0).uniform(0.5, 1.5, program["x"].type.dims.shape)
    with jax.enable_x64(True):
        found = [
            jax.grad(lambda x, c=c: jnp.sum(c(x=x)["y"] ** 2))(jnp.asarray(x))
            for c in (compiled(name), compiled(name, without=name))
        ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
    assert np.abs(found[0]).max() > 0.1


def test_several_choices_are_switched_off_at_once():
    names = ("unrolled_folds", "reads_by_slot")
    plan = compiled("reads_by_slot", without=names).plan()
    assert not any(plan.taken(n) for n in names)
    assert plan.taken("inverse_tables")


SAME = "same(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← x; }"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda f: ti.compile(f, raising=5), "A17]: an option is 5, and it takes names."),
        (lambda f: ti.compile(f, without=5), "A17]: an option is 5, and it takes names."),
        (lambda f: ti.compile(f, full=5), "A17]: an option is 5, and it takes names."),
        (lambda f: ti.compile(f, raising=[None]), "A21]: there is no rule None."),
        (lambda f: ti.compile(f, without=[None, 3]), "A39]: there is no choice 3."),
        (lambda f: ti.compile(f, backend=5), "A14]: there is no backend '5'."),
        (lambda f: ti.compile(f).stablehlo(n=4), "B05]: 'same' has no size 'n'."),
        (lambda f: ti.compile(f).cost(x=np.ones(4)), "B05]: 'same' has no size 'x'."),
        (lambda f: ti.parse(SAME, offset_provider=5), "B07]: the offset_provider is an int."),
    ],
)
def test_options_that_are_none_are_refused(call, told):
    with pytest.raises(ti.DiagnosticError) as refused:
        call(ti.parse(SAME))
    assert str(refused.value).startswith(f"error[{told}")


def test_no_bounds_of_sizes_are_none():
    np.testing.assert_array_equal(ti.compile(ti.parse(SAME), at_most={})(x=np.ones(4))["y"], np.ones(4))


def test_a_choice_that_there_is_not_is_refused():
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.compile(ti.parse(SCAN), without="block_scan")
    assert str(refused.value) == ("error[A39]: there is no choice 'block_scan'.\nhelp: did you mean 'block_scans'?")


def test_what_is_weighed_and_not_done_has_a_row_with_both_figures():
    f = ti.parse("""f(y: tensor<float, I[1:8]>, x: tensor<float, I[0:9]>) {
      y ← let w = x + x; ⟪I, 1⟫(w) + ⟪I, -1⟫(w); }""")
    (row,) = ti.compile(f).plan()["materialise"]
    # one addition, twice, for 8 bytes that are written and read
    assert (row.taken, row.value, row.threshold.limit) == (False, 1 / 16, 0.875)
    assert row.where == "w, line 2"
    (row,) = ti.compile(f, passes="materialise(min_per_byte=0.01)").plan()["materialise"]
    assert (row.taken, row.threshold.limit, row.bytes) == (True, 0.01, 9 * 8)


def test_joined_parts_that_are_read_at_four_offsets_are_stored():
    text = """f(y: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) {
      let w = concat(x, add_dim(I, -2, 0, 0.0), add_dim(I, 9, 11, 0.0)); y ← REST; }"""
    reads = [f"⟪I, {k}⟫(w)" for k in (-2, -1, 1, 2)]
    c = ti.compile(ti.parse(text.replace("REST", " + ".join(reads))))
    (row,) = c.plan()["materialise"]
    assert (row.taken, row.value, row.threshold.name, row.bytes) == (True, 4, "FEWEST_READS", 13 * 8)
    assert row.reason == "at each point of each reader it would be asked which part it is in"
    x = np.arange(1.0, 10.0)
    wide = np.pad(x, 2)
    np.testing.assert_array_equal(c(x=x)["y"], sum(wide[k : k + 9] for k in (0, 1, 3, 4)))
    assert not ti.compile(ti.parse(text.replace("REST", " + ".join(reads[:3])))).plan()["materialise"]
    nothing = Materialise(math.inf)
    assert (
        not ti.compile(ti.parse(text.replace("REST", " + ".join(reads))), passes=[nothing]).plan().taken("materialise")
    )


def test_scans_of_few_bytes_are_not_blocked_and_the_plan_says_of_how_many():
    (row,) = ti.compile(ti.parse(SCAN)).plan()["block_scans"]
    assert not row.taken and row.reason == "the caches hold it whole"
    assert row.value == 2 * 50 * 9 * 8  # operand and states
    assert row.threshold.limit == 4 << 20


def test_a_selection_that_is_kept_says_how_little_a_conditional_would_save():
    f = ti.parse("""f(y: tensor<float, I[0:9]>, c: tensor<bool>, x: tensor<float, I[0:9]>) {
      y ← if c then x + 1.0 else x; }""")
    (row,) = ti.compile(f).plan()["conditionals"]
    assert (row.taken, row.value, row.threshold.limit) == (False, 9, 100_000)


HORIZONTAL = {"n": 128, "m": 96, "l": 40}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("hdiff", HORIZONTAL), ("vertical_advection", {"n": 128, "m": 128, "l": 64}), ("biharmonic", {"n": 300, "m": 200}),
     ("advection_third_order", {"n": 256, "m": 128}), ("shallow_water", {"n": 128, "m": 128})],
)  # fmt: skip
def test_memory_is_what_the_executable_takes_within_a_tenth(name, sizes):
    c = ti.compile(library.load(name))
    said = c.lowered(**sizes).compile().memory_analysis()
    takes = said.argument_size_in_bytes + said.output_size_in_bytes + said.temp_size_in_bytes
    memory = c.plan(**sizes).memory
    assert memory.inputs == said.argument_size_in_bytes
    assert memory.outputs <= said.output_size_in_bytes <= memory.outputs + 64  # a tuple is a few pointers
    assert takes / 1.1 <= memory.total <= 1.1 * takes


def test_without_blocks_the_states_and_copies_of_a_scan_are_predicted_and_taken():
    sizes = {"n": 128, "m": 128, "l": 64}
    for options in ({"without": "native_kernels"}, {"without": ("block_scans", "native_kernels")}):
        c = ti.compile(library.load("tridiagonal"), **options)
        takes = c.lowered(**sizes).compile().memory_analysis().temp_size_in_bytes
        predicts = c.plan(**sizes).memory.temporaries
        assert takes / 2 <= predicts <= 2 * takes
    # operands and states are eight arrays of 8 MB
    assert predicts > 4 * 128 * 128 * 64 * 8


def test_defaults_are_predicted_to_cost_no_more_than_without_them():
    for name, sizes in {"tridiagonal": {"n": 128, "m": 128, "l": 64}, "biharmonic": {"n": 512, "m": 512}}.items():
        plan = ti.compile(library.load(name)).plan(**sizes)
        worth = {n: c.predicted / plan.cost.total for n, c in plan.comparisons.items() if c.predicted}
        assert worth and all(ratio >= 1 for ratio in worth.values()), worth
        assert max(worth.values()) > 1.2


def test_what_is_read_at_more_offsets_is_predicted_to_be_computed_at_each():
    text = "f(y: tensor<float, I[4:96]>, x: tensor<float, I[0:100]>) { y ← let w = exp(x); {}; }"
    reads = [f"⟪I, {k}⟫(w)" for k in range(4)]
    costs = [predicted(ti.parse(text.replace("{}", " + ".join(reads[:n])))).operations for n in (1, 2, 4)]
    # exp counts 32, on 100 points; an addition 1
    assert costs[0] == 3200
    assert [round((c - 3200) / 3200) for c in costs] == [0, 1, 3]


def test_chains_of_a_thousand_stored_stencils_and_of_scans_are_planned():
    steps = "".join(f"let t{k + 1} = ⟪I, 1⟫(t{k}) + ⟪I, -1⟫(t{k});\n" for k in range(1000))
    f = ti.parse(f"f(y: tensor<float, I[1000:3000]>, x: tensor<float, I[0:4000]>) {{ let t0 = x; {steps} y ← t1000; }}")
    plan = ti.compile(f, passes="materialise(min_per_byte=0.01)").plan()
    assert sum(d.taken for d in plan["materialise"]) == 999
    # each is read by the next alone: two of them are needed at once
    assert plan.memory.temporaries <= 2 * 4000 * 8
    scans = "".join(f"let t{k + 1} = scan(+, true, 0.0, I)(t{k});\n" for k in range(1000))
    g = ti.parse(f"f(y: tensor<float, I[0:40]>, x: tensor<float, I[0:40]>) {{ let t0 = x; {scans} y ← t1000; }}")
    assert predicted(g).operations == 1000 * 40


def test_choices_are_measured_with_the_arguments_of_a_call():
    c = compiled("materialise")
    plan = c.plan(measure=True, x=np.linspace(0.0, 1.0, 9))
    assert plan.seconds > 0
    ratios = {name: plan.comparisons[name].ratio for name in {d.name for d in plan if d.taken}}
    assert ratios.keys() == {"materialise", "gathered_cotangents"} and min(ratios.values()) > 0
    assert "measured" in str(plan) and c.plan().seconds is None
    with pytest.raises(ti.DiagnosticError, match="'x' is not given"):
        c.plan(measure=True)


def test_choices_of_gradients_are_measured_in_the_gradient():
    plan = compiled("materialise").plan(measure=True, x=np.linspace(0.0, 1.0, 9))
    assert {name: c.gradient for name, c in plan.comparisons.items()} == {
        "materialise": False, "gathered_cotangents": True,
    }  # fmt: skip
    assert "*: measured in the gradient" in str(plan)
    f = ti.parse("f(y: tensor<int, I[1:8]>, x: tensor<int, I[0:9]>) { y ← ⟪I, 1⟫(x) - x; }")
    whole = ti.compile(f).plan(measure=True, x=np.arange(9, dtype=np.int32))
    assert whole.comparisons["gathered_cotangents"].ratio is None  # integers have no gradient


def test_a_plan_is_for_sizes_or_for_arrays():
    c = ti.compile(ti.parse("f(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { y ← x + 1.0; }"))
    assert c.plan(n=10).memory == c.plan(x=np.zeros(10)).memory
    assert c.plan(n=20).memory.outputs == 160


def test_a_table_that_is_passed_counts_as_what_it_holds():
    c = ti.compile(ti.parse(NEIGHBOURS))
    plan = c.plan(x=np.ones(5), T=TABLE)
    assert plan.taken("reads_by_slot") and not plan["inverse_tables"]


def test_tables_and_their_readers_are_in_the_plan():
    (row,) = compiled("inverse_tables").plan()["inverse_tables"]
    entries = TABLE[TABLE >= 0]
    padded = np.bincount(entries).max() * 5 / entries.size
    assert (row.taken, row.value, row.where, row.threshold.limit) == (True, padded, "table T", 2.5)
    crowded = np.zeros((100, 3), np.int32)
    f = ti.parse(NEIGHBOURS.replace("V[0:4]", "V[0:100]")).bind(T=crowded)
    (row,) = ti.compile(f).plan()["inverse_tables"]
    # all 300 entries read one of 5 sources
    assert (row.taken, row.value, row.bytes) == (False, 5.0, 0)


def test_of_few_sources_that_many_read_the_gradient_scatters_and_is_right():
    table = np.stack([np.arange(20) % 5, np.zeros(20, int), np.arange(20) % 2], 1).astype(np.int32)
    c = ti.compile(ti.parse(NEIGHBOURS.replace("V[0:4]", "V[0:20]")).bind(T=table))
    assert not c.plan().taken("inverse_tables")
    x = np.random.default_rng(0).uniform(0.5, 1.5, 5)
    with jax.enable_x64(True):
        derived = jax.grad(lambda x: jnp.sum(c(x=x)["y"]))(jnp.asarray(x))
    np.testing.assert_allclose(derived, 2 * x * np.bincount(table.ravel(), minlength=5), rtol=1e-13)


def test_passes_that_do_not_run_here_are_named():
    assert ti.compile(ti.parse(SCAN)).plan().left_out == ("unroll_loops", "needed_points")
    exact = ti.compile(ti.parse(SCAN), numerics="exact").plan().left_out
    assert set(exact) == {"contractions", "argument_reductions", "needed_points", "unroll_loops"}


def test_as_a_page_it_is_a_table_and_what_a_program_is_called_is_escaped():
    plan = compiled("materialise").plan()
    page = plan._repr_html_()
    assert "<table" in page and "materialise" in page
    assert "⟪" not in page or "<script" not in page
    for line in plan.notes():
        assert 'ti.compile(f, without="' in line


NO_THRESHOLDS = {
    "PARTS": "into how many parts a sum is divided",
    "MIN_PER_BYTE": "the default of an option of materialise, PER_BYTE",
    "SHOWN": "what a plan counts",
    "TILE": "the width of a register",
    "WINDOW": "bytes of a forcing that are in memory at once",
    "LAUNCH": "steps of a loop with a forcing that one launch makes",
    "PAGE": "of memory",
    "LARGE": "elements from which a coordinate is an argument of a step and no constant",
    "PER_THREAD": "how finely threads share a kernel",
    "WIDTH": "the width of registers",
    "AHEAD": "a page of memory",
    "THIN": "what compiles in time",
    "MOST_IN_GRID": "what compiles in time",
    "MOST_PIECES": "what compiles in time",
    "MOST_COMPILED": "what compiles in time",
    "MOST_ROWS": "the largest offset between stages",
    "MOST": "choices that are looked through in pairs, and reads that are told apart: of compiling, not of the program",
    "BORDER": "a number of a table",
    "EXACT_IN_FLOAT32": "what a float32 holds",
    "MAX_COMPUTED": "what an analysis follows",
    "MAX_PIECES": "what an analysis follows",
    "MAX_CHAINS": "what an explanation follows",
    "LONGEST": "characters of a row",
    "MOST_PLACES": "what an int32 holds",
    "MOST_ROUNDS": "what is said of a check",
    "GROWTH": "how often a bar moves",
    "REPORTS": "how often a bar moves",
    "MOST_KEPT_OF_WHILES": "it is 'MOST_KEPT of a while' in a plan",
    "HEARTBEAT": "when processes notice that one is gone",
    "CHUNK": "bytes of a chunk in a checkpoint",
    "KEPT": "the number of checkpoints in a folder",
    "SENT_TO_ONE": "bytes that one process writes for others",
    "ALIGNMENT": "what XLA asks for",
    "POINTS": "the most points of a block of a kernel",
    "ROW": "the least points along the last axis of a block of a kernel",
    "PROGRAMS": "blocks that keep a GPU busy",
    "LARGEST": "points of a kernel that are computed for some of its results only",
    "WARP": "threads of a GPU that run together",
    "NEW_MEMORY": "passes over memory that writing it takes",
    "TURNED": "how often memory is moved where an array is turned",
    "MADE": "the same of an array that would not be stored",
    "NEVER": "what no cut costs",
    "LOAD": "the time of a load in a kernel, in additions",
    "GATHERED": "the time of a load at an index in a kernel, in additions",
    "MOST_ELEMENTS": "elements that positions of 32 bits tell apart",
    **dict.fromkeys(("IN_BLOCK", "ACROSS", "INDEXED", "CONTRACTED", "SERIAL", "PER_BYTE"), "a predicted cost"),
}


def test_every_limit_of_the_lowering_and_of_the_passes_is_in_the_plan():
    named = {t.name for t in compiled("materialise").plan().thresholds}
    shown = {name.partition(" ")[0] for name in named}
    for folder in ("lowering", "tensorir/passes", "tensorir/analysis"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.Assign) and _is_number(node.value):
                    for name in (n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)):
                        if name.isupper() and not name.startswith("_"):
                            assert name in shown or name in NO_THRESHOLDS, f"{path}: {name}"


def _is_number(value):
    if isinstance(value, ast.Tuple):
        return bool(value.elts) and all(map(_is_number, value.elts))
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def test_every_threshold_says_where_it_was_measured():
    page = (ROOT / "docs/lowering.md").read_text(encoding="utf-8")
    for t in compiled("materialise").plan().thresholds:
        place = t.measured.partition(";")[0]
        if place.startswith("docs/lowering.md, "):
            assert f"## {place.partition(', ')[2]}\n" in page, t
        else:
            assert place.startswith("python -m tests.benchmarks.") or place == "set, and not measured", t


def test_a_choice_is_recorded_once_for_each_node():
    program = ti.parse(SCAN)
    context = Context(annotated(program, analyse_absence(program, {})))
    node = program.closures[0].value
    assert context.chooses("unrolled_folds", node, True, 3)
    assert not context.chooses("unrolled_folds", node, False, 40)
    assert len(context.chosen) == 1
