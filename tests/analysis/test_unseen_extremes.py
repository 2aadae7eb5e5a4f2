"""Extremes of which nobody sees what they come to in a row with a NaN: found where that is so, and nowhere else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tensorir.analysis.absence import analyse_absence
from tensorir.analysis.annotations import annotated
from tensorir.analysis.unseen_extremes import takes_nan_along, unseen_extremes
from tensorir.ir.build import call, closure, fencil, literal, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.types import FLOAT64, Scalar
from tensorir.runtime.errors import DiagnosticError

ROWS = "tensor<float32, I[0:8], J[0:512]>"
STATE = "tensor<float32, I[0:8]>"
LARGEST = "reduce(max, float32(-inf), J)(if isnan(x) then float32(-inf) else x)"


def rows(value: str) -> ti.Fencil:
    """A program of the rows of x, of their largest elements m, and of their exponentials e."""
    return ti.parse(f"f(y: {ROWS}, x: {ROWS}, w: {ROWS}) {{ let m = {LARGEST}; let e = exp(x - m); y ← {value}; }}")


UNSEEN = {
    "e / reduce(+, 0.0f, J)(e)": lambda x, w, m, e: e / e.sum(1, keepdims=True),
    "e × w / reduce(+, 0.0f, J)(e × w)": lambda x, w, m, e: e * w / (e * w).sum(1, keepdims=True),
    "x - m - log(reduce(+, 0.0f, J)(e))": lambda x, w, m, e: x - m - np.log(e.sum(1, keepdims=True)),
    "rename(K → J)(rename(J → K)(e / reduce(+, 0.0f, J)(e)))": lambda x, w, m, e: e / e.sum(1, keepdims=True),
    "if w > 0.0f then e / reduce(+, 0.0f, J)(e) else e / reduce(+, 0.0f, J)(e) × 2.0f": (
        lambda x, w, m, e: np.where(w > 0, 1, 2) * e / e.sum(1, keepdims=True)
    ),
    "w + contract(float32, J)(e, w) / reduce(+, 0.0f, J)(e)": (
        lambda x, w, m, e: w + (e * w).sum(1, keepdims=True) / e.sum(1, keepdims=True)
    ),
}
"""Values that are NaN in rows with a NaN, whatever m is there; and what they are in NumPy."""
SEEN = (
    "e",
    "w - m",
    "e / reduce(+, 0.0f, J)(if isnan(e) then 0.0f else e)",
    "e / reduce(max, 0.0f, J)(e)",
    "e / reduce(+, 0.0f, J)(e × subset(w, J[1:512]))",
    "e / contract(float32, J)(e, subset(w, J[1:512]))",
    "if isnan(e / reduce(+, 0.0f, J)(e)) then m else w",
    "if w > 0.0f then e else e / reduce(+, 0.0f, J)(e)",
    "w + reduce(+, 0.0f, I)(m)",
    "if m > 0.0f then w else x",
    "e / add_dim(J, 0, 512, reduce(+, 0.0f, J)(subset(e, J[0:8])))",
)


@pytest.mark.parametrize("value", UNSEEN)
def test_an_extreme_is_unseen_where_a_nan_takes_the_row(value):
    assert len(unseen_extremes(rows(value))) == 1


@pytest.mark.parametrize("value", SEEN)
def test_an_extreme_is_seen_where_rows_with_nan_tell_of_it(value):
    assert not unseen_extremes(rows(value))


def numbers(seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((8, 512)).astype(np.float32)
    x[1, 511] = x[2, 0] = x[3, 300] = x[4, :] = x[5, ::3] = np.nan
    x[6, 3], x[7, 9] = np.inf, -np.inf
    return x


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@pytest.mark.parametrize("value", UNSEEN)
def test_rows_with_nan_are_what_they_are_in_numpy(value):
    x, w = numbers(0), np.abs(np.nan_to_num(numbers(1), nan=0.5, posinf=2, neginf=-2))
    m = np.where(np.isnan(x), -np.inf, x).max(1, keepdims=True)
    wanted = UNSEEN[value](x, w, m, np.exp(x - m))
    np.testing.assert_allclose(rows(value)(x=jnp.asarray(x), w=jnp.asarray(w))["y"], wanted, 2e-4, 1e-6)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - np.where(np.isnan(x), -np.inf, x).max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


ONLINE = f"""f(y: {ROWS}, x: {ROWS}) {{
  let parts = split_dim(J, P, K, 128)(x);
  let go = λ(i: tensor<int>, m: {STATE}, s: {STATE}) → true;
  let step = λ(i: tensor<int>, m: {STATE}, s: {STATE}) →
    let t = gather(P, clamp)(parts, i);
    let n = max(if isnan(m) then float32(-inf) else m,
                reduce(max, float32(-inf), K)(if isnan(t) then float32(-inf) else t));
    {{n, %s + reduce(+, 0.0f, K)(exp(t - n))}};
  let m0 = add_dim(I, 0, 8, -1e30f);
  let s0 = add_dim(I, 0, 8, 0.0f);
  y ← exp(x - loop(0, 4)(go, step, m0, s0)) / loop(1, 4)(go, step, m0, s0);
}}"""


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_a_loop_that_keeps_nan_hides_the_extreme():
    f, x = ti.parse(ONLINE % "s × exp(m - n)"), numbers(2)
    assert len(unseen_extremes(f)) == 1
    np.testing.assert_allclose(f(x=jnp.asarray(x))["y"], softmax(x), 2e-4, 1e-6)


@pytest.mark.parametrize("total", ("(if isnan(s) then 0.0f else s) × exp(m - n)", "0.0f"))
def test_a_loop_that_forgets_a_nan_shows_the_extreme(total):
    assert not unseen_extremes(ti.parse(ONLINE % total))


def test_the_annotations_say_so():
    f = rows("e / reduce(+, 0.0f, J)(e)")
    assert "any extreme of rows with NaN" in str(annotated(f, analyse_absence(f, {})))


def test_the_derivative_is_that_of_a_softmax():
    f = rows("e / reduce(+, 0.0f, J)(e)")
    x = np.nan_to_num(numbers(3), nan=0.25, posinf=3, neginf=-3)

    def total(x):
        return (f(x=x, w=x)["y"] ** 2).sum()

    wanted = jax.grad(lambda x: (jax.nn.softmax(x, axis=1) ** 2).sum())(jnp.asarray(x))
    np.testing.assert_allclose(jax.grad(total)(jnp.asarray(x)), wanted, 1e-4, 1e-7)


STRICT = [
    (op, k, len(row.form[0]))
    for op, row in TABLE.items() if row.elementwise and op not in ("cast", "bitcast")
    for k in range(len(row.form[0])) if takes_nan_along(op, k)
]  # fmt: skip


def floats_of(op: str, operand: int, arity: int) -> list[float]:
    """What an operation gives of a NaN in the place of one operand; nothing where it gives no floats."""
    found: list[float] = []
    for other in (-1.5, 0.0, 1.0, 2.0, np.inf):
        try:
            result = call(op, *(literal(float("nan") if k == operand else other, FLOAT64) for k in range(arity)))
        except DiagnosticError:
            return []
        element = result.tensor.element
        if isinstance(element, Scalar) and element.is_float:
            out = var("out", result.tensor)
            found.append(ti.reference.run(fencil("f", [out], [closure(out, result)]))["out"][()])
    return found


def test_what_takes_nan_along_gives_nan():
    given = {one: floats_of(*one) for one in STRICT}
    assert {("plus", 1, 2), ("divides", 1, 2), ("exp", 0, 1), ("abs", 0, 1)} <= {
        o for o, found in given.items() if found
    }
    assert {o for o, found in given.items() if not np.isnan(found).all()} == set()
