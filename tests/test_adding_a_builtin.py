"""The steps of CONTRIBUTING, walked for builtins that are made up here, through everything that has to know them.

One is elementwise, one has a definition; a move, a fold and an indirect read have a row with access maps, a typing
rule, a rule of the oracle and a lowering, and nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import lowering.lower
import lowering.rules.elementwise
import tensorir as ti
from lowering.rules.folds import _step
from lowering.rules.indirect import gather as lowered_gather
from lowering.values import cut, mapped, select_slot
from tensorir.analysis.absence import analyse_absence
from tensorir.analysis.domains import domains
from tensorir.distribution.local_program import localised
from tensorir.distribution.padded_program import padded_program
from tensorir.distribution.partition import Decomposition
from tensorir.inspect.formulas import latex
from tensorir.integers.affine import number, variable
from tensorir.integers.dims import Interval
from tensorir.ir import access, build, typing_rules
from tensorir.ir.access import Access, Entry
from tensorir.ir.build import call
from tensorir.ir.builtins import TABLE, Builtin, Control, _relocation
from tensorir.ir.typing_of_elements import interval_of, tensors_of
from tensorir.passes.blocks import BlockPrograms, free_of_coordinates, regions_of, slices
from tensorir.passes.restrict import restrict
from tensorir.reference import rules, scalars
from tensorir.reference.rules import Fold
from tensorir.reference.tensors import check_inside
from tensorir.runtime.errors import DiagnosticError

TEXT = "f(y: tensor<float, I[1:4]>, a: tensor<float, I[0:4]>, b: tensor<float, I[0:4]>) { y ← ⟪I, 0⟫(%s); }"


@pytest.fixture
def hypot(monkeypatch):
    """Elementwise: its row, the rule of floats, its meaning for scalars, the function of arrays."""
    row = Builtin("hypot", "The length of (x, y).", typing_rules.floats, (("x", "x"),), elementwise=True, cost=8)
    monkeypatch.setitem(TABLE, "hypot", row)
    monkeypatch.setitem(scalars.SCALAR, "hypot", lambda kind, x, y: kind and np.hypot(x, y))
    for table in (lowering.rules.elementwise.SCALAR, lowering.rules.elementwise.FINITE):
        monkeypatch.setitem(table, "hypot", jnp.hypot)


@pytest.fixture
def lerp(monkeypatch):
    """Defined by others: its row, a rule, its definition, and nothing else."""

    def rule(static, args):
        return typing_rules.floats(static, tensors_of(args))

    row = Builtin("lerp", "Half way from x to y.", typing_rules.floats, (("x", "x"),), defined=True)
    monkeypatch.setitem(TABLE, "lerp", row)

    def halves(node, x, y):
        half = call("cast", ti.build.literal(0.5), static=(x.tensor.element,))
        return call("multiplies", call("plus", x, y), half)

    monkeypatch.setitem(build.DEFINITIONS, "lerp", halves)


A, B = np.array([3.0, 5.0, 8.0, 7.0]), np.array([4.0, 12.0, 15.0, 24.0])


def check(text, wanted, slope):
    f = ti.parse(text)
    assert ti.parse(str(f)) == f
    np.testing.assert_allclose(ti.reference.run(f, a=A, b=B)["y"], wanted)
    c = ti.compile(f)
    np.testing.assert_allclose(c(a=A, b=B)["y"], wanted)
    with jax.enable_x64(True):
        given = jax.grad(lambda a: c(a=a, b=jnp.asarray(B))["y"].sum())(jnp.asarray(A))
    np.testing.assert_allclose(given, [0.0, *slope])
    assert c.cost().operations > 0
    assert (
        ti.passes.Pipeline("inline, simplify, cse, fold_constants, temporaries, materialise, contractions")(f)
        is not None
    )
    assert len(set(domains(f.bind()).params["a"])) == 3


def test_an_elementwise_builtin_is_known_everywhere_by_its_row_its_meaning_and_its_lowering(hypot):
    check(TEXT % "hypot(a, b)", [13.0, 17.0, 25.0], [5 / 13, 8 / 17, 7 / 25])


def test_a_builtin_with_a_definition_needs_nothing_else(lerp):
    check(TEXT % "lerp(a, b)", [8.5, 11.5, 15.5], [0.5, 0.5, 0.5])


def test_what_was_made_up_is_gone_afterwards():
    with pytest.raises(DiagnosticError, match="hypot"):
        ti.parse(TEXT % "hypot(a, b)")


# Builtins that read operands elsewhere


class Mirror(NamedTuple):
    dim: str
    sum: int


def _mirrored(dims, static):
    i = dims[static.dim]
    return dims.with_interval(static.dim, Interval(static.sum + 1 - i.stop, static.sum + 1 - i.start))


@pytest.fixture
def mirror(monkeypatch):
    """mirror(d, s)(x)[p] = x[d: s - p]."""

    def typed(static, args):
        (x,) = tensors_of(args)
        assert interval_of(x, static[0], 0)
        return x.on(_mirrored(x.dims, Mirror(*static)))

    def reads(static, args, result):
        return (Access({static.dim: number(static.sum).minus(variable(static.dim))}),)

    def meaning(node, scope, point):
        dim, total = node.static
        return (yield scope.tensor(node.args[0]), {**point, dim: total - point[dim]})

    def lowered(context, node, values):
        def flip(leaf):
            if node.static.dim not in leaf.dims:
                return leaf
            data = lax.rev(leaf.data, [leaf.dims.names.index(node.static.dim)])
            return replace(leaf, data=data, dims=_mirrored(leaf.dims, node.static))

        return tuple(mapped(flip, leaf) for leaf in values[0])

    row = _relocation("mirror", "The value at s - p.", typed, (("dim", "int"), ("x",)), static=Mirror, reads=reads)
    added(monkeypatch, row, meaning, lowered)


class Ahead(NamedTuple):
    dim: str


@pytest.fixture
def ahead(monkeypatch):
    """ahead(d)(x)[p] = x[d: p + 2], which has a halo."""

    def typed(static, args):
        (x,) = tensors_of(args)
        return x.on(x.dims.with_interval(static[0], interval_of(x, static[0], 0).shifted(2)))

    def reads(static, args, result):
        return (Access({static.dim: variable(static.dim).plus(number(2))}),)

    def meaning(node, scope, point):
        dim = node.static.dim
        return (yield scope.tensor(node.args[0]), {**point, dim: point[dim] + 2})

    def lowered(context, node, values):
        dim = node.static.dim

        def move(leaf):
            return replace(leaf, dims=leaf.dims.with_interval(dim, leaf.dims[dim].shifted(2)))

        return tuple(mapped(lambda leaf: move(leaf) if dim in leaf.dims else leaf, leaf) for leaf in values[0])

    row = _relocation("ahead", "The value at p + 2.", typed, (("dim",), ("x",)), static=Ahead, reads=reads)
    added(monkeypatch, row, meaning, lowered)


class Down(NamedTuple):
    dim: str

    @property
    def forward(self):
        return False


@pytest.fixture
def descend(monkeypatch):
    """descend(f, init, d)(x) folds from the last point to the first."""

    def meaning(node, scope, point):
        check_inside(node.type.dims, point)
        order = list(node.args[2].type.dims[node.static.dim])[::-1]
        fold = scope.once(node, lambda: Fold(node, scope, order, False))
        return (yield fold.state(len(order)), point)

    def lowered(context, node, args):
        f, state, *values = args
        for point in list(node.fold.interval)[::-1]:
            at = [tuple(select_slot(leaf, node.fold.dim, point) for leaf in v) for v in values]
            state = _step(context, f, state, at, [True] * len(at), f.function.type.params[0])
        return tuple(cut(leaf, node.type.dims) for leaf in state)

    row = Builtin("descend", "A fold downwards.", typing_rules.reduce, (("f", "x", "dim"), ("xs",)), static=Down,
                  reads=access.along_row, control=Control.FOLD)  # fmt: skip
    added(monkeypatch, row, meaning, lowered)


class Nearest(NamedTuple):
    dim: str


@pytest.fixture
def nearest(monkeypatch):
    """nearest(d)(x, i)[p] = x[d: i[p]], at the nearest point where that is outside."""

    def gather(node):
        return call("gather", *node.args, static=((node.static.dim,), "clamp"))

    def typed(static, args):
        return typing_rules.gather(((static[0],), "clamp"), args)

    def reads(static, args, result):
        return Access({static.dim: Entry(1, clamps=True)}, uncut=frozenset([static.dim])), access.EVERYWHERE

    def meaning(node, scope, point):
        read = yield scope.tensor(node.args[1]), point
        i = node.args[0].type.dims[node.static.dim]
        return (yield scope.tensor(node.args[0]), {**point, node.static.dim: min(max(int(read), i.start), i.stop - 1)})

    def lowered(context, node, values):
        same = gather(node)
        context.known.absence.accesses[id(same)] = context.access(node)
        return lowered_gather(context, same, values)

    row = Builtin("nearest", "An indirect read.", typed, (("dim",), ("x", "x")), static=Nearest, reads=reads,
                  indirect=True)  # fmt: skip
    added(monkeypatch, row, meaning, lowered)


def added(monkeypatch, row, meaning, lowered):
    monkeypatch.setitem(TABLE, row.name, row)
    monkeypatch.setitem(rules.RULES, row.name, meaning)
    monkeypatch.setitem(lowering.lower.RULES, row.name, lowered)


X = np.random.default_rng(0).normal(size=(9, 3))
INDEX = np.array([3, 8, -2, 4, 40, 0, 1], np.int32)
PROGRAMS = {
    "mirror": """f(y: tensor<float, I[1:8], K[0:3]>, x: tensor<float, I[0:9], K[0:3]>) {
        y ← mirror(I, 8)(⟪I, 1⟫(exp(x)) + x) × x; }""",
    "ahead": """f(y: tensor<float, I[1:7], K[0:3]>, x: tensor<float, I[0:9], K[0:3]>) {
        y ← ahead(I)(exp(x)) - ⟪I, -1⟫(x); }""",
    "descend": """f(y: tensor<float, I[1:8]>, x: tensor<float, I[0:9], K[0:3]>) {
        y ← descend(λ(s: tensor<float, I[1:8]>, a: tensor<float, I[1:8]>) → 0.5 × s + a × a, 0.0, K)(⟪I, 1⟫(x)); }""",
    "nearest": """f(y: tensor<float, I[1:8], K[0:3]>, x: tensor<float, I[0:9], K[0:3]>, i: tensor<int, I[1:8]>) {
        y ← nearest(I)(exp(x), i) × x; }""",
}
EXPECTED = {
    "mirror": lambda x: (np.exp(x)[1:] + x[:-1])[8 - np.arange(1, 8)] * x[1:8],
    "ahead": lambda x: np.exp(x)[3:] - x[:6],
    "descend": lambda x: 0.25 * x[2:, 2] ** 2 + 0.5 * x[2:, 1] ** 2 + x[2:, 0] ** 2,
    "nearest": lambda x: np.exp(x)[np.clip(INDEX, 0, 8)] * x[1:8],
}
# along which dims points stay where they are, and are read at fixed distances
LOCAL = {"mirror": {"K"}, "ahead": {"I", "K"}, "descend": {"I"}, "nearest": {"K"}}
FREE = {"mirror": {"K"}, "ahead": {"I", "K"}, "descend": {"I", "K"}, "nearest": {"K"}}


@pytest.fixture(params=list(PROGRAMS))
def program(request):
    request.getfixturevalue(request.param)
    f = ti.parse(PROGRAMS[request.param])
    values = {"x": X, "i": INDEX}
    return request.param, f, {p.name: values[p.name] for p in f.inputs}


def test_its_text_is_read_as_it_is_printed(program):
    name, f, _ = program
    assert ti.parse(str(f)) == f
    assert name in str(latex(f))


def test_it_gives_what_it_means_and_its_derivative(program):
    name, f, given = program
    np.testing.assert_allclose(ti.reference.run(f, **given)["y"], EXPECTED[name](X))
    with jax.enable_x64(True):
        c = ti.compile(f)
        np.testing.assert_allclose(c(**given)["y"], EXPECTED[name](X), rtol=1e-14)
        slope = jax.grad(lambda x: c(**{**given, "x": x})["y"].sum())(jnp.asarray(X))
    step = 1e-6
    for at in [(0, 0), (4, 1), (8, 2)]:
        near = [EXPECTED[name](X + s * (at == np.indices(X.shape).T).all(-1).T).sum() for s in (step, -step)]
        np.testing.assert_allclose(slope[at], (near[0] - near[1]) / (2 * step), atol=1e-6)


def test_its_needed_points_are_those_that_the_oracle_reads(program):
    name, f, given = program
    read = ti.reference.trace(f, **given)["x"]
    bound = f.bind(i=given["i"]) if "i" in given else f
    assert set(domains(bound).params["x"]) == read
    part = domains(bound, out={"I": (2, 5)}).params["x"]
    assert set(part) < read
    if name == "nearest":
        assert len(domains(f).params["x"]) == X.size  # the indices are not known


def test_a_program_on_fewer_points_gives_the_same(program):
    name, f, given = program
    out = {"I": (2, 5), "K": (1, 2)} if "K" in f["y"].type.dims else {"I": (2, 5)}
    g = restrict(f, out)
    boxes = {p.name: p.type.dims for p in g.inputs}
    starts = {"x": (0, 0), "i": (1,)}
    parts = {
        n: given[n][tuple(slice(i.start - s, i.stop - s) for (_, i), s in zip(boxes[n].items, starts[n], strict=True))]
        for n in boxes
    }
    expected = EXPECTED[name](X)[1:4, 1:2] if "K" in out else EXPECTED[name](X)[1:4]
    np.testing.assert_allclose(ti.reference.run(g, **parts)["y"], expected)
    np.testing.assert_allclose(ti.compile(g)(**parts)["y"], expected)


def test_which_dims_have_free_coordinates_and_independent_points(program):
    name, f, _ = program
    assert free_of_coordinates(f, ["I", "K"]) == FREE[name]


def test_blocks_along_each_dim_are_parts_of_the_whole(program):
    name, f, given = program
    for dim in f["y"].type.dims.names:
        programs = BlockPrograms.cut(f, frozenset([dim]))
        for regions in regions_of(f.results, {dim: [2, 3]}):
            block = programs.at(regions)
            needed = {n: slices(block.needed(n), f[n].type.dims) for n in block.taken}
            y = ti.compile(block.fencil)(**{n: given[n][at] for n, at in needed.items()})["y"]
            np.testing.assert_allclose(
                y[slices(regions["y"], block.needed("y"))], EXPECTED[name](X)[slices(regions["y"], f["y"].type.dims)]
            )


def test_it_is_distributed_along_dims_that_it_leaves_apart_and_refused_along_others(program):
    name, f, _ = program
    blocks = {"I": Decomposition("I", "px", Interval(0, 9), 3), "K": Decomposition("K", "px", Interval(0, 3), 3)}
    for dim, part in blocks.items():
        if dim in LOCAL[name]:
            assert localised(f, {dim: part}).stages
        else:
            with pytest.raises(DiagnosticError, match=f"{dim}.* is distributed") as e:
                localised(f, {dim: part})
            assert e.value.diagnostics[0].code == "D04"


SIZED = {
    "ahead": "f(y: tensor<float, I[0:n-2]>, x: tensor<float, I[0:n]>) { y ← ahead(I)(x); }",
    "mirror": """f(y: tensor<float, I[1:9]>, x: tensor<float, I[0:n]>) {
        y ← subset(mirror(I, 8)(update(add_dim(I, 0, 9, 0.0), x)), I[1:9]); }""",
    "descend": """f(y: tensor<float>, x: tensor<float, I[0:n]>) {
        y ← descend(λ(s: tensor<float>, a: tensor<float>) → 0.5 × s + a, 1.0, I)(x); }""",
    "nearest": "f(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { y ← nearest(I)(x, pos(I, x) + 1); }",
}


def test_on_padded_intervals_it_is_right_or_refused(program):
    name, _, _ = program
    f = ti.parse(SIZED[name])
    if name == "nearest":
        with pytest.raises(DiagnosticError, match="all points along I, whose extent is a size") as e:
            padded_program(f, {"n": 9})
        assert e.value.diagnostics[0].code == "B13"
        return
    made = padded_program(f, {"n": 9}).program
    x = X[:, 0].copy()
    x[5:] = np.nan
    expected = ti.reference.run(f, x=x[:5])["y"]
    found = ti.reference.run(made, x=x, n=np.int32(5))["y"]
    np.testing.assert_allclose(found[: len(expected)] if expected.ndim else found, expected)


def test_what_may_be_absent_before_it_may_be_absent_after_it(program):
    name, _, _ = program
    dims = "Cell[0:4]"
    made = {
        "mirror": "mirror(Cell, 3)(unstructured_shift(t, 0)(x))",
        "ahead": "⟪Cell, -2⟫(ahead(Cell)(unstructured_shift(t, 0)(x)))",
        "descend": """descend(λ(s: tensor<float, Cell[0:4]>, a: tensor<float, Cell[0:4]>) → s + a, 0.0, _NB_0)(
            shift_init(t)(x))""",
        "nearest": "nearest(Cell)(unstructured_shift(t, 0)(x), pos(Cell, add_dim(Cell, 0, 4, 0.0)))",
    }[name]
    f = ti.parse(
        f"f(y: tensor<float, {dims}>, x: tensor<float, Vertex[0:4]>, t: tensor<int, {dims}, _NB_Vertex[0:2]>) "
        f"{{ y ← {made}; }}"
    )
    (refused,) = analyse_absence(f, {"t": True}).refused
    assert refused.code == "T41"
    assert not analyse_absence(f, {"t": False}).refused


def test_passes_take_it_along(program):
    _, f, given = program
    passes = ti.passes.Pipeline("inline, simplify, cse, fold_constants, temporaries, materialise, contractions")
    made = ti.compile(f).cost()
    assert made.bytes_read
    np.testing.assert_array_equal(ti.reference.run(passes(f), **given)["y"], ti.reference.run(f, **given)["y"])


def test_a_row_that_says_nothing_of_what_it_reads_is_no_row():
    with pytest.raises(TypeError, match="which points are read"):
        Builtin("mystery", "Reads somewhere.", typing_rules.floats, (("x",),))
