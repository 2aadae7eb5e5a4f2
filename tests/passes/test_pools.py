"""Folds over windows of several dims, one dim after the other, against the fold as it is written and the oracle."""

import jax
import numpy as np
import pytest

import tensorir as ti
from tests.lowering.raised_forms import Draw, agree, same

POOL = """f(out: tensor<{e}, Y[{y[0]}:{y[1]}], X[{x[0]}:{x[1]}], C[0:3]>,
  a: tensor<{e}, J[{j[0]}:{j[1]}], C[0:3], I[{i[0]}:{i[1]}]>) {{
  out ← let y = add_dim(Y, {y[0]}, {y[1]}, 0); let x = add_dim(X, {x[0]}, {x[1]}, 0);
        let r = add_dim(R, {r[0]}, {r[1]}, 0); let s = add_dim(S, {s[0]}, {s[1]}, 0);
        reduce({op}, {start}, R)(reduce({op}, {nothing}, S)(
          gather({axes}, clamp)(a, {indices}))); }}"""


NOTHING = {
    ("max", "float"): "-inf",
    ("min", "float"): "inf",
    ("max", "int"): "-2147483648",
    ("min", "int"): "2147483647",
}


def pool(seed: int, op: str, element: str) -> tuple[str, dict[str, object]]:
    """A fold over windows of two dims whose strides, dilations, starts and sizes are all different."""
    r = Draw(seed)
    y, x, rows, columns = r.interval(2, 5), r.interval(1, 6), r.interval(2, 4), r.interval(1, 3)
    sums = {}
    for axis, (outer, inner, of, window) in {"J": ("Y", "R", y, rows), "I": ("X", "S", x, columns)}.items():
        stride, dilation, more = r.choice([-2, -1, 1, 2, 3]), r.choice([-1, 1, 2]), r.randint(-4, 4)
        reach = [stride * k + dilation * w + more for k in range(*of) for w in range(*window)]
        sums[axis] = (
            (min(reach), max(reach) + 1),
            f"{stride} × pos({outer}, {outer.lower()})" + (f" + {dilation} × pos({inner}, {inner.lower()}) + {more}"),
        )
    nothing = NOTHING.get((op, element), "0.0" if element == "float" else "0")
    start = {"float": "0.5", "int": "2"}[element]
    names = ["J", "I"] if r.random() < 0.5 else ["I", "J"]
    text = POOL.format(
        e=element, y=y, x=x, r=rows, s=columns, j=sums["J"][0], i=sums["I"][0], op=op, axes=", ".join(names),
        start=start, nothing=nothing,
        indices=", ".join(sums[n][1] for n in names),
    )  # fmt: skip
    return text, {"a": r.array(element, sums["J"][0], (0, 3), sums["I"][0])}


@pytest.mark.parametrize("op", ["max", "min", "+"])
@pytest.mark.parametrize("element", ["float", "int"])
@pytest.mark.parametrize("seed", range(4))
def test_windows_of_two_dims_are_folded_one_after_the_other(seed: int, element: str, op: str) -> None:
    text, arrays = pool(seed, op, element)
    agree(text, arrays, {"pools"})


def test_a_nan_in_a_window_is_seen() -> None:
    text, arrays = pool(3, "max", "float")
    a = np.array(arrays["a"])
    a.flat[a.size // 2] = np.nan
    agree(text, {"a": a}, {"pools"})


def test_sums_keep_their_order_where_the_text_s_own_is_asked_for() -> None:
    text, _ = pool(1, "+", "float")
    assert not ti.compile(ti.parse(text), numerics="exact").pipeline()["pools"].changed
    assert ti.compile(ti.parse(text)).pipeline()["pools"].changed


BOX = """f(out: tensor<float, Y[0:4], X[0:5]>, a: tensor<float, J[0:9], I[0:11]>) {{
  out ← let y = pos(Y, add_dim(Y, 0, 4, 0)); let x = pos(X, add_dim(X, 0, 5, 0));
        let r = pos(R, add_dim(R, 0, 3, 0)); let s = pos(S, add_dim(S, 0, 3, 0));
        reduce({}, 0.5, R)(reduce({}, {}, S)(gather(J, I, clamp)(a, {}))); }}"""
TWO = "2 × y + r, 2 × x + s"
OTHERS = {
    "an inner fold that starts from something": ("+", "+", "1.0", TWO),
    "windows that leave the array": ("max", "max", "-inf", "3 × y + r, 2 × x + s"),
    "windows along one axis": ("max", "max", "-inf", "y + r + s, x"),
    "a window that goes along with a dim of the other": ("max", "max", "-inf", "y + r, x + r + s"),
    "folds by different operations": ("max", "min", "inf", TWO),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_folds_stay_as_they_are(case: str) -> None:
    agree(BOX.format(*OTHERS[case]), {"a": Draw(1).array("float", (0, 9), (0, 11))}, set(), {"pools"})


def test_a_window_wider_than_what_is_left_of_the_axis() -> None:
    # the point that is left has fewer points than the window, and goes along as the window does otherwise
    text = """f(out: tensor<float, Y[0:1], X[0:2]>, a: tensor<float, J[0:5], I[-3:4]>) {
      out ← let y = pos(Y, add_dim(Y, 0, 1, 0)); let x = pos(X, add_dim(X, 0, 2, 0));
            let r = pos(R, add_dim(R, 0, 5, 0)); let s = pos(S, add_dim(S, -3, 3, 0));
            reduce(min, 9.0, R)(reduce(min, inf, S)(gather(J, I, clamp)(a, y + r, x + s))); }"""
    agree(text, {"a": Draw(5).array("float", (0, 5), (-3, 4))}, {"pools"})


def test_windows_of_what_another_closure_wrote() -> None:
    text = """f(b: tensor<float, J[0:6], I[0:7]>, out: tensor<float, Y[0:3], X[0:3]>,
      a: tensor<float, J[0:6], I[0:7]>) {
      b ← 2.0 × a;
      out ← let y = add_dim(Y, 0, 3, 0); let x = add_dim(X, 0, 3, 0); let r = add_dim(R, 0, 2, 0);
            let s = add_dim(S, 0, 3, 0);
            reduce(max, 0.0, R)(reduce(max, -inf, S)(
              gather(J, I, clamp)(b, 2 × pos(Y, y) + pos(R, r), 2 × pos(X, x) + pos(S, s))));
      b ← 3.0 × b;
      out ← let y = add_dim(Y, 0, 3, 0); let x = add_dim(X, 0, 3, 0); let r = add_dim(R, 0, 2, 0);
            let s = add_dim(S, 0, 3, 0);
            out + reduce(max, 0.0, R)(reduce(max, -inf, S)(
              gather(J, I, clamp)(b, 2 × pos(Y, y) + pos(R, r), 2 × pos(X, x) + pos(S, s)))); }"""
    agree(text, {"a": Draw(6).array("float", (0, 6), (0, 7))}, {"pools"})


def test_windows_in_a_branch_that_may_not_be_taken() -> None:
    text = """f(out: tensor<float, Y[0:3], X[0:3]>, a: tensor<float, J[0:6], I[0:7]>, c: tensor<bool>, k: tensor<int>) {
      out ← let y = add_dim(Y, 0, 3, 0); let x = add_dim(X, 0, 3, 0); let r = add_dim(R, 0, 2, 0);
            let s = add_dim(S, 0, 3, 0); let j = 2 × pos(Y, y) + pos(R, r); let i = 2 × pos(X, x) + pos(S, s);
            let p = reduce(max, 0.0, R)(reduce(max, -inf, S)(gather(J, I, clamp)(a, j, i)));
            if c then p + gather(J, I, checked)(a, k, k) else gather(J, I, clamp)(a, 2 × pos(Y, y), 2 × pos(X, x)); }"""
    a = Draw(7).array("float", (0, 6), (0, 7))
    for c in (True, False):
        agree(text, {"a": a, "c": np.array(c), "k": np.array(3, np.int32)}, {"pools", "conditionals"})


def test_gradients_go_to_the_largest_of_each_window() -> None:
    text, arrays = pool(4, "max", "float")
    program = ti.parse(text)
    found = []
    with jax.enable_x64(True):
        a = jax.numpy.asarray(arrays["a"])
        for raising in (None, ()):
            compiled = ti.compile(program) if raising is None else ti.compile(program, passes=(), raising=raising)
            found.append(jax.grad(lambda x, run=compiled: (run(a=x)["out"] ** 2).sum())(a))
    assert np.asarray(found[0]).any()
    same(found[0], found[1])


@pytest.mark.parametrize("offset", [-2, -1, 1])
def test_a_window_that_is_shifted_along_its_own_dim(offset: int) -> None:
    start, stop = -offset, 3 - offset
    text = f"""f(out: tensor<float, I[0:5], J[{start}:{stop}]>, x: tensor<float, A[0:20]>,
      y: tensor<float, I[0:5], J[{start}:{stop}]>) {{
      out ← y + ⟪J, {offset}⟫(gather(A, clamp)(x, 4 × pos(I, y) + pos(J, add_dim(J, 0, 3, 0)))); }}"""
    r = Draw(3)
    arrays = {"x": r.array("float", (0, 20)), "y": r.array("float", (0, 5), (start, stop))}
    agree(text, arrays, {"window"}, set())


LONG = """f(out: tensor<{e}, Y[{y0}:{y1}], X[0:5]>, a: tensor<{e}, J[{j0}:{j1}], I[0:11]>) {{
  out ← let y = add_dim(Y, {y0}, {y1}, 0); let x = add_dim(X, 0, 5, 0);
        let r = add_dim(R, {r0}, {r1}, 0); let s = add_dim(S, 0, 3, 0);
        reduce({op}, {start}, R)(reduce({op}, {nothing}, S)(
          gather(J, I, clamp)(a, {stride} × pos(Y, y) + {dilation} × pos(R, r), 2 × pos(X, x) + pos(S, s)))); }}"""
STRIPS = {
    "a stride": ((0, 4), (0, 3), 2, 1, (0, 9), True),
    "a stride, and a row that nobody reads": ((0, 4), (0, 3), 2, 1, (0, 10), True),
    "a stride, and two rows that nobody reads": ((0, 4), (0, 3), 2, 1, (0, 11), False),
    "a row before the first": ((0, 4), (0, 3), 2, 1, (-1, 9), False),
    "windows side by side": ((0, 4), (0, 3), 3, 1, (0, 12), False),
    "a long window": ((-3, 3), (2, 7), 1, 1, (-1, 9), True),
    "a short window": ((-3, 3), (2, 5), 1, 1, (-1, 7), False),
    "a window of more points than there are windows": ((-3, 1), (2, 7), 1, 1, (-1, 7), False),
    "a dilation": ((-2, 4), (-1, 4), 1, 3, (-5, 13), True),
    "a stride and a dilation": ((-2, 3), (0, 4), 3, 2, (-6, 13), True),
    "backwards": ((-2, 4), (-1, 4), -1, 3, (-6, 12), False),
}


def strip(case: str, op: str, element: str) -> tuple[str, np.ndarray]:
    y, r, stride, dilation, j, _ = STRIPS[case]
    nothing = NOTHING[op, element]
    text = LONG.format(
        e=element, y0=y[0], y1=y[1], r0=r[0], r1=r[1], j0=j[0], j1=j[1], op=op, stride=stride, dilation=dilation,
        nothing=nothing, start={"float": "0.25", "int": "2"}[element],
    )  # fmt: skip
    return text, Draw(len(case)).array(element, j, (0, 11))


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("element", ["float", "int"])
@pytest.mark.parametrize("case", STRIPS)
def test_the_inner_folds_of_long_and_strided_windows_are_made_once(case: str, element: str, op: str) -> None:
    text, a = strip(case, op, element)
    agree(text, {"a": a}, {"pools"})
    with jax.enable_x64(True):
        lowered = jax.jit(lambda a: ti.compile(ti.parse(text))(a=a)["out"]).lower(a).as_text()
    assert ("reduce_window" in lowered) == STRIPS[case][-1]


@pytest.mark.parametrize("case", [name for name, row in STRIPS.items() if row[-1]])
def test_strips_are_differentiated_as_folds_of_slices(case: str) -> None:
    text, a = strip(case, "max", "float")
    a = np.round(a)  # with ties
    fast, plain = (ti.compile(ti.parse(text), raising=names) for names in ({"strip", "window"}, {"window"}))
    t = np.random.default_rng(1).normal(size=(2, *a.shape))
    with jax.enable_x64(True):
        for run in (lambda f: jax.grad(lambda x: (f(x) ** 2).sum())(a), lambda f: jax.jvp(f, (a,), (t[0],))[1]):
            found, wanted = (run(lambda x, p=p: p(a=x)["out"]) for p in (fast, plain))
            assert np.asarray(wanted).any()
            same(found, wanted)
        same(jax.vmap(lambda x: fast(a=x)["out"])(t), jax.vmap(lambda x: plain(a=x)["out"])(t))


def test_a_nan_in_a_strip_is_seen() -> None:
    text, a = strip("a stride", "max", "float")
    a[4, 5] = np.nan
    agree(text, {"a": a}, {"pools"})
    big = """f(out: tensor<float32, Y[0:200], X[0:200]>, a: tensor<float32, J[0:401], I[0:401]>) {
      out ← let y = add_dim(Y, 0, 200, 0); let x = add_dim(X, 0, 200, 0);
            let r = add_dim(R, 0, 3, 0); let s = add_dim(S, 0, 3, 0);
            reduce(max, 0.0f, R)(reduce(max, float32(-inf), S)(
              gather(J, I, clamp)(a, 2 × pos(Y, y) + pos(R, r), 2 × pos(X, x) + pos(S, s)))); }"""
    many = np.zeros((401, 401), np.float32)
    many[57, 211] = np.nan
    found = np.asarray(ti.compile(ti.parse(big))(a=many)["out"])
    assert np.argwhere(np.isnan(found)).tolist() == [[28, 105]]


def test_a_dim_that_is_read_at_its_own_coordinate_is_no_window() -> None:
    text = """f(out: tensor<float, C[0:3], Y[0:4], X[0:5]>, a: tensor<float, C[0:3], J[0:9], I[0:11]>) {
      out ← let c = add_dim(C, 0, 3, 0); let y = add_dim(Y, 0, 4, 0); let x = add_dim(X, 0, 5, 0);
            let r = add_dim(R, 0, 3, 0); let s = add_dim(S, 0, 2, 0);
            reduce(max, -1.0, R)(reduce(max, float(-inf), S)(gather(C, J, I, clamp)(
              a, pos(C, c), 2 × pos(Y, y) + pos(R, r), 2 × pos(X, x) + pos(S, s)))); }"""
    agree(text, {"a": Draw(8).array("float", (0, 3), (0, 9), (0, 11))}, {"pools"})
