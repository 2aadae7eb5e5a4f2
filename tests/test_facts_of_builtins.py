"""What rows of the table of builtins say of operations holds for their values, and no more is left unsaid."""

import ast
import itertools
import math
from pathlib import Path

import jax
import numpy as np
import pytest

import tensorir as ti
from tensorir.integers.dims import Dims
from tensorir.ir.build import call, closure, fencil, literal, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.types import BOOL, DTYPES, FLOAT64, SCALARS, TensorType
from tensorir.runtime.errors import DiagnosticError

ROOT = Path(__file__).parent.parent
NUMBERS = (-128, -7, -2, -1, 0, 1, 2, 3, 5, 64, 127)
SAMPLES = {
    "bool": (False, True),
    "int8": NUMBERS,
    "uint8": (0, 1, 2, 3, 7, 128, 255),
    "float64": (-2.5, -1.0, -0.75, 0.25, 0.5, 1.5, 3.0),
}
POINTWISE = [row for row in TABLE.values() if row.elementwise and row.name not in ("cast", "bitcast")]
PAIRS = [row for row in POINTWISE if len(row.form[0]) == 2]
FLOATS = [row for row in POINTWISE if row.name != "if"]


def value(op, *operands, element):
    """One scalar by the oracle; None where the operation is not for such operands."""
    try:
        result = call(op, *(literal(x, SCALARS[element]) for x in operands))
    except DiagnosticError:
        return None
    out = var("out", result.tensor)
    return ti.reference.run(fencil("f", [out], [closure(out, result)]))["out"][()]


def same(a, b):
    return a == b or (a != a and b != b)


def takes(op, arity):
    return [e for e in SAMPLES if value(op, *SAMPLES[e][-1:] * arity, element=e) is not None]


def combines(op):
    """The element types of which two give one of the same."""
    return [e for e in takes(op, 2) if np.dtype(e) == np.asarray(value(op, *SAMPLES[e][-1:] * 2, element=e)).dtype]


@pytest.mark.parametrize("row", PAIRS, ids=lambda row: row.name)
def test_operands_change_places_exactly_where_the_row_says_so(row):
    pairs = [(e, a, b) for e in takes(row.name, 2) for a, b in itertools.combinations(SAMPLES[e], 2)]
    swapped = [same(value(row.name, a, b, element=e), value(row.name, b, a, element=e)) for e, a, b in pairs]
    assert all(swapped) == row.commutative


@pytest.mark.parametrize("row", PAIRS, ids=lambda row: row.name)
def test_operands_are_grouped_in_any_way_exactly_where_the_row_says_so(row):
    elements = [e for e in combines(row.name) if e != "float64"]
    if not elements or row.name in ("eq", "not_eq"):  # comparisons of truth values are written for their meaning
        assert not row.associative
        return
    triples = [(e, t) for e in elements for t in itertools.product(SAMPLES[e][:5], repeat=3)]

    def grouped(e, a, b, c):
        left = value(row.name, value(row.name, a, b, element=e).item(), c, element=e)
        return same(left, value(row.name, a, value(row.name, b, c, element=e).item(), element=e))

    assert all(grouped(e, *t) for e, t in triples) == row.associative


@pytest.mark.parametrize("row", PAIRS, ids=lambda row: row.name)
def test_an_operand_with_itself_is_itself_exactly_where_the_row_says_so(row):
    found = [same(value(row.name, x, x, element=e), x) for e in combines(row.name) for x in SAMPLES[e]]
    assert (bool(found) and all(found)) == row.idempotent


@pytest.mark.parametrize("row", [r for r in PAIRS if r.identity], ids=lambda row: row.name)
def test_the_identity_leaves_the_other_operand_as_it_is(row):
    for e in combines(row.name):
        start = row.identity(SCALARS[e])
        for x in SAMPLES[e]:
            assert same(value(row.name, start, x, element=e), x) and same(value(row.name, x, start, element=e), x)


def test_what_may_be_folded_in_any_order_has_an_identity():
    assert all((row.identity is not None) == row.associative for row in POINTWISE)


@pytest.mark.parametrize("row", [r for r in FLOATS if "float64" in takes(r.name, len(r.form[0]))], ids=lambda r: r.name)
def test_an_operation_is_linear_exactly_in_the_operands_that_the_row_names(row):
    arity = len(row.form[0])
    if np.asarray(value(row.name, *SAMPLES["float64"][-1:] * arity, element="float64")).dtype != np.float64:
        assert row.linear == ()
        return
    points = list(itertools.product(SAMPLES["float64"], repeat=arity))

    def linear_in(group):
        for at, to in itertools.product(points, points[:: len(points) // 7]):
            other = tuple(y if k in group else x for k, (x, y) in enumerate(zip(at, to, strict=True)))
            both = tuple(x + y if k in group else x for k, (x, y) in enumerate(zip(at, to, strict=True)))
            parts = [value(row.name, *operands, element="float64") for operands in (at, other)]
            if not np.isclose(value(row.name, *both, element="float64"), sum(parts), rtol=1e-14, atol=1e-14):
                return False
        return True

    groups = [g for n in range(1, arity + 1) for g in itertools.combinations(range(arity), n)]
    assert {g for g in groups if linear_in(g)} == set(row.linear)


@pytest.mark.parametrize("row", [r for r in FLOATS if r.homogeneous], ids=lambda r: r.name)
def test_scaling_all_operands_scales_what_keeps_units(row):
    arity = len(row.form[0])
    for at in itertools.product(SAMPLES["float64"], repeat=arity):
        scaled = value(row.name, *(4.0 * x for x in at), element="float64")
        assert scaled == 4.0 * value(row.name, *at, element="float64")


WILD = (math.inf, -math.inf, math.nan, 0.0, 1.0)


def _derivatives(row):
    """The derivatives by every operand at numbers of every kind."""
    arity = len(row.form[0])
    kinds = [TensorType(BOOL if row.name == "if" and k == 0 else FLOAT64, Dims()) for k in range(arity)]
    params = [var(f"x{k}", kind) for k, kind in enumerate(kinds)]
    result = call(row.name, *params)
    if result.tensor.element != FLOAT64:
        return
    out = var("out", result.tensor)
    # an unrelated branch that data decide: what stands in it may not be needed, so no slope is taken as it is
    compiled = ti.compile(fencil("f", [out, *params], [closure(out, result)]))
    with jax.enable_x64(True):
        for at in itertools.product(WILD, repeat=arity):
            numbers = {p.name: np.asarray(x, DTYPES[k.element]) for p, x, k in zip(params, at, kinds, strict=True)}
            floats = [p.name for p, k in zip(params, kinds, strict=True) if k.element == FLOAT64]
            grad = jax.grad(lambda wanted, n=numbers: compiled(**{**n, **wanted})["out"])
            yield from grad({n: jax.numpy.asarray(numbers[n]) for n in floats}).values()


@pytest.mark.parametrize("row", [r for r in POINTWISE if r.slope != "unbounded"], ids=lambda r: r.name)
def test_slopes_are_zero_or_finite_where_the_row_says_so(row):
    if "float64" not in takes(row.name, len(row.form[0])) and row.name != "if":
        return
    for found in _derivatives(row):
        assert np.isfinite(found)
        assert row.slope == "bounded" or found == 0.0


@pytest.mark.parametrize("row", [r for r in POINTWISE if r.discontinuous], ids=lambda r: r.name)
def test_what_is_discontinuous_jumps(row):
    arity = len(row.form[0])
    at = 0.5 if row.name == "round" else 3.0
    one = value(row.name, *(at, 1.0)[:arity], element="float64")
    sides = [value(row.name, *(np.nextafter(at, to), 1.0)[:arity], element="float64") for to in (0.0, 9.0)]
    assert any(abs(one - side) > 0.5 for side in sides)


def test_moves_cost_nothing_and_what_is_exact_to_a_few_units_only_costs_most():
    assert all(row.cost == 0 for row in TABLE.values() if not row.elementwise)
    most = max(row.cost for row in TABLE.values())
    assert {row.name for row in TABLE.values() if row.cost == most} == {
        row.name for row in TABLE.values() if row.transcendental
    }


TABLES_THAT_STAY = {
    "tensorir/fieldview/functions.py": "names of Python that mean something else",
    "tensorir/inspect/flow.py": "what a picture draws as an arrow, and what as a box",
    "tensorir/equality/points.py": "moves that put points of a dim elsewhere, so that they are not compared one by one",
    "tensorir/passes/conditionals.py": "moves within a point",
    "tensorir/passes/simplify.py": "one rule for four roundings",
    "tensorir/passes/closures.py": "moves that cost a copy",
    "tensorir/text/syntax.py": "which static parameters name new dims",
    "tensorir/ir/wellformed.py": "where a chain of shifts ends in a message",
    "tensorir/passes/reductions.py": "the logic that a comparison of pairs is made of; "
    "the windows that XLA differentiates",
    "lowering/kernels/vectors.py": "elementwise builtins as text of LLVM",
    "lowering/kernels/equations.py": "primitives of JAX, of which some are called as builtins are",
    "tensorir/equality/programs.py": "moves within a point, and folds whose order may tell",
    "tensorir/equality/runs.py": "functions whose residues are known up to a sign",
    "tensorir/equality/reals/formulas.py": "functions of which a formula knows that they are odd",
    "tensorir/equality/all_sizes/of_fencils.py": "moves within a point",
    "tensorir/equality/verdict.py": "moves within a point",
    "tensorir/equality/reals/solver.py": "what tells bits of a float apart that are one real number",
    "lowering/rules/neighbours.py": "moves, and what takes tuples, which a loop does without memory",
    "stencils/cli/chunked.py": "what takes a dim whole, and says so in a message",
    "tensorir/inspect/formulas/places.py": "which values are conditions, and what changes parts of a value",
    "tensorir/inspect/formulas/scopes.py": "what a formula gives lines of its own",
    "tensorir/inspect/formulas/terms.py": "functions that LaTeX has names for",
    "tensorir/inspect/formulas/writer.py": "what a formula reads through",
}
"""Files with collections of three names of builtins or more, each with what it says that no row can."""


def _collections(tree):
    for node in ast.walk(tree):
        match node:
            case ast.Tuple(elts) | ast.List(elts) | ast.Set(elts):
                yield [e.value for e in elts if isinstance(e, ast.Constant)]
            case ast.MatchOr(patterns):
                yield [p.value.value for p in patterns if isinstance(p, ast.MatchValue) and hasattr(p.value, "value")]


WINGS = ("tir", "tile", "iterator", "relax", "tenstorrent", "lifting")


def test_no_table_of_operations_stands_beside_the_table():
    found = set()
    for package in ("tensorir", "lowering", "stencils"):
        for path in (ROOT / package).rglob("*.py"):
            room = path.relative_to(ROOT).as_posix()
            # wings have tables of their own operations, and the lift is measured by its own issue
            if room == "tensorir/ir/builtins.py" or room.split("/")[1] in WINGS:
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            if any(len(names) >= 3 and all(n in TABLE for n in names) for names in _collections(tree)):
                found.add(room)
    assert found == set(TABLES_THAT_STAY)


ANALYSES = ("analysis", "binding", "distribution", "fieldview", "passes/restrict.py")
PUBLIC_NAMES = ("fieldview/folds.py", "fieldview/functions.py", "fieldview/remedies.py")
"""Files in which the names are those of functions of Python."""
MAKERS = {"call", "rebuild", "placed", "cut"}
MOST_DECISIONS = 80


def _operations(node):
    """The names of builtins in a constant, a collection of constants, or a pattern."""
    match node:
        case ast.Constant(value):
            yield from [value] if isinstance(value, str) and value in TABLE else []
        case ast.MatchValue(value):
            yield from _operations(value)
        case ast.MatchClass(_, patterns, _, keywords):
            for pattern in (*patterns, *keywords):
                yield from _operations(pattern)
        case ast.MatchAs(pattern) if pattern is not None:
            yield from _operations(pattern)
        case (
            ast.Tuple(members)
            | ast.List(members)
            | ast.Set(members)
            | ast.MatchOr(members)
            | ast.MatchSequence(members)
        ):
            for member in members:
                yield from _operations(member)
        case _:
            pass


def _decisions(tree):
    """The names by which something is decided: keys, members, operands of comparisons, arms that make no nodes."""
    for node in ast.walk(tree):
        match node:
            case ast.Dict(keys):
                decided = keys
            case ast.Tuple() | ast.List() | ast.Set():
                decided = [e for e in node.elts if isinstance(e, ast.Constant)]
            case ast.Compare(left, _, others):
                decided = [e for e in (left, *others) if isinstance(e, ast.Constant)]
            case ast.match_case(pattern, _, body):
                calls = {
                    n.func.id for b in body for n in ast.walk(b) if isinstance(n, ast.Call) and hasattr(n.func, "id")
                }
                decided = [] if calls & MAKERS else [pattern]
            case _:
                continue
        for one in decided:
            yield from _operations(one)


def test_facts_of_builtins_are_decided_by_their_rows():
    count = 0
    for place in ANALYSES:
        path = ROOT / "tensorir" / place
        for file in [path] if path.suffix else path.rglob("*.py"):
            if file.relative_to(ROOT / "tensorir").as_posix() not in PUBLIC_NAMES:
                count += len(list(_decisions(ast.parse(file.read_text(encoding="utf-8")))))
    assert count <= MOST_DECISIONS, f"{count}: a fact of a builtin stands in its row, which others ask"


def test_decisions_are_counted_in_every_form():
    text = """
match node:
    case Call("reduce" | "scan", (x, *_)): pass
    case Call("cast"): call("neg", x)
a = {"gather": 1, "x": 2}
b = node.op in ("sort", "pos") or node.op == "cond"
"""
    assert sorted(_decisions(ast.parse(text))) == ["cond", "gather", "pos", "reduce", "scan", "sort"]
