"""Programs as LaTeX: what textbooks write is written down here, and the printer has to give it."""

from typing import Any

import pytest

import tensorir as ti
from stencils import library
from tensorir.ir import build
from tensorir.ir.types import tensor

MESH = "V2E: tensor<int, Vertex[0:n], _NB_Edge[0:d]>, E2V: tensor<int, Edge[0:m], _NB_Vertex[0:2]>"
STATEMENTS = {
    "the heat equation is differences of neighbours over the square of the spacing": (
        """f(h: tensor<float, I[0:n]>, r: tensor<float>, dx: tensor<float>) {
          h[I[1:n-1]] ← h + r × (⟪I, 1⟫(h) - 2.0 × h + ⟪I, -1⟫(h)) / (dx × dx); }""",
        [r"h_{i} &\leftarrow h_{i} + \frac{r \, \left(h_{i+1} - 2 h_{i} + h_{i-1}\right)}{\mathit{dx}^{2}}"
         r" && 1 \le i < n-1"],
    ),
    "upwind differences have the positive and the negative part of the wind": (
        """f(q: tensor<float, I[1:n-1]>, c: tensor<float, I[0:n]>, u: tensor<float, I[0:n]>) {
          q ← max(u, 0.0) × (c - ⟪I, -1⟫(c)) + min(u, 0.0) × (⟪I, 1⟫(c) - c); }""",
        [r"q_{i} &= \max\left(u_{i}, 0\right) \, \left(c_{i} - c_{i-1}\right)"
         r" + \min\left(u_{i}, 0\right) \, \left(c_{i+1} - c_{i}\right) && 1 \le i < n-1"],
    ),
    "the elimination of Thomas is a recurrence that begins in front of the first row": (
        """f(x: tensor<float, K[0:l]>, a: tensor<float, K[0:l]>, b: tensor<float, K[0:l]>, c: tensor<float, K[0:l]>,
             d: tensor<float, K[0:l]>) {
          x ← let p = scan(λ(s: tensor<float>, a: tensor<float>, b: tensor<float>, c: tensor<float>) →
                c / (b - a × s), true, 0.0)(a, b, c);
              let q = scan(λ(s: tensor<float>, a: tensor<float>, b: tensor<float>, d: tensor<float>,
                             p: tensor<float>) → let w = b - a × p; (d - a × s) / w,
                true, 0.0)(a, b, d, concat(add_dim(K, 0, 1, 0.0), subset(⟪K, -1⟫(p), K[1:l])));
              scan(λ(s: tensor<float>, p: tensor<float>, q: tensor<float>) → q - p × s, false, 0.0)(p, q); }""",
        [r"p_{-1} &= 0",
         r"p_{k} &= \frac{c_{k}}{b_{k} - a_{k} \, p_{k-1}} && 0 \le k < l",
         r"t_{k} &= \begin{cases} 0 & \text{if } k = 0 \\ p_{k-1} & \text{if } 1 \le k < l \end{cases}",
         r"w_{k} &= b_{k} - a_{k} \, t_{k}",
         r"q_{-1} &= 0",
         r"q_{k} &= \frac{d_{k} - a_{k} \, q_{k-1}}{w_{k}} && 0 \le k < l",
         r"x_{l} &= 0",
         r"x_{k} &= q_{k} - p_{k} \, x_{k+1} && 0 \le k < l"],
    ),
    "members of a state are counted in its superscript": (
        """f(x: tensor<float, K[0:9]>) {
          x ← let s = scan(λ(z: tensor<(float, float)>, a: tensor<float>) → (z[1], z[0] + a), true, (0.0, 1.0))(x);
              s[1] ** 2.0; }""",
        [r"s_{-1} &= \left(0, 1\right)",
         r"s_{k} &= \left(s^{(1)}_{k-1}, s^{(0)}_{k-1} + x_{k}\right) && 0 \le k < 9",
         r"x_{k} &\leftarrow \left(s^{(1)}_{k}\right)^{2} && 0 \le k < 9"],
    ),
    "a Laplacian on a mesh sums over the edges of a vertex": (
        f"""f(out: tensor<float, Vertex[0:n]>, h: tensor<float, Vertex[0:n]>, A: tensor<float, Vertex[0:n]>,
             sign: tensor<float, Vertex[0:n], _NB_0[0:d]>, {MESH}) {{
          out ← let g = ⟪E2V, 1⟫(h) - ⟪E2V, 0⟫(h); reduce(+, 0.0)(sign × ⟪V2E⟫(g)) / A; }}""",
        [r"g_{e} &= h_{\mathit{E2V}_{e,1}} - h_{\mathit{E2V}_{e,0}}",
         r"\mathit{out}_{v} &= \frac{\sum_{e \in \mathit{V2E}(v)} \mathit{sign}_{v,e} \, g_{e}}{A_{v}} && 0 \le v < n"],
    ),
    "a neighbour of the same kind has a letter of its own": (
        """f(out: tensor<float, V[0:n]>, h: tensor<float, V[0:n]>, V2V: tensor<int, V[0:n], _NB_V[0:d]>) {
          out ← reduce(λ(s, a) → s + a, 1.0)(⟪V2V⟫(h)) - reduce(max, -inf)(⟪V2V⟫(h)); }""",
        [r"\mathit{out}_{v} &= 1 + \sum_{v' \in \mathit{V2V}(v)} h_{v'} - \max_{v' \in \mathit{V2V}(v)} h_{v'}"
         r" && 0 \le v < n"],
    ),
    "a sum over neighbours of neighbours has two letters": (
        f"""f(out: tensor<float, Vertex[0:n]>, x: tensor<float, Edge[0:m]>, {MESH}) {{
          out ← reduce(+, 0.0)(⟪V2E, E2V, 0⟫(reduce(+, 0.0)(⟪V2E⟫(x)))); }}""",
        [r"\mathit{out}_{v} &= \sum_{e \in \mathit{V2E}(v)} \left(\sum_{e' \in \mathit{V2E}(\mathit{E2V}_{e,0})} x_{e'}"
         r"\right) && 0 \le v < n"],
    ),
    "a fold without a sign is a recurrence over the slots": (
        f"""f(out: tensor<float, Vertex[0:n]>, x: tensor<float, Edge[0:m]>, {MESH}) {{
          out ← reduce(λ(s, a) → 0.5 × s + a, 0.0)(⟪V2E⟫(x)); }}""",
        [r"s_{v,-1} &= 0",
         r"s_{v,r} &= 0.5 s_{v,r-1} + x_{\mathit{V2E}_{v,r}} && 0 \le r < d",
         r"\mathit{out}_{v} &= s_{v,d-1} && 0 \le v < n"],
    ),
    "what has a name is indexed by the neighbours, and read by them or by their slots": (
        f"""f(out: tensor<float, Vertex[0:n]>, x: tensor<float, Edge[0:m]>, y: tensor<float, Vertex[0:n], _NB_0[0:d]>,
             {MESH}) {{
          out ← let near = ⟪V2E⟫(x) × y;
              reduce(+, 0.0)(near) + shift_apply(1)(near) + reduce(λ(s, a) → 0.5 × s + a, 0.0)(near); }}""",
        [r"\mathit{near}_{v,e} &= x_{e} \, y_{v,e} && e \in \mathit{V2E}(v)",
         r"s_{v,-1} &= 0",
         r"s_{v,r} &= 0.5 s_{v,r-1} + \mathit{near}_{v,\mathit{V2E}_{v,r}} && 0 \le r < d",
         r"\mathit{out}_{v} &= \sum_{e \in \mathit{V2E}(v)} \mathit{near}_{v,e} + \mathit{near}_{v,\mathit{V2E}_{v,1}}"
         r" + s_{v,d-1} && 0 \le v < n"],
    ),
    "choices in a row are cases of one formula, and others have a name": (
        """f(out: tensor<float, K[0:n]>, x: tensor<float, K[0:n]>) {
          out ← if x > 0.0 then x else if x < -1.0 then 1e-9 × x else 2.0 - (if pos(K, x) = 0 then 3.0 else -x); }""",
        [r"t_{k} &= \begin{cases} 3 & \text{if } k = 0 \\ -x_{k} & \text{otherwise} \end{cases}",
         r"\mathit{out}_{k} &= \begin{cases} x_{k} & \text{if } x_{k} > 0 \\ 10^{-9} \, x_{k} & \text{if } x_{k} < -1"
         r" \\ 2 - t_{k} & \text{otherwise} \end{cases} && 0 \le k < n"],
    ),
    "a divergence on a staggered grid has halves in its indices": (
        """f(out: tensor<float, I[0:n]>, u: tensor<float, IHalf[0:n+1]>, dx: tensor<float>) {
          out ← (rename(IHalf → I)(⟪IHalf, 1⟫(u)) - rename(IHalf → I)(u)) / dx; }""",
        [r"\mathit{out}_{i} &= \frac{u_{i+\tfrac{1}{2}} - u_{i-\tfrac{1}{2}}}{\mathit{dx}} && 0 \le i < n"],
    ),
    "a gradient on a staggered grid is written where it stands": (
        """f(g: tensor<float, IHalf[1:n]>, h: tensor<float, I[0:n]>) {
          g ← rename(I → IHalf)(h - ⟪I, -1⟫(h)); }""",
        [r"g_{i-\tfrac{1}{2}} &= h_{i} - h_{i-1} && 1 \le i < n"],
    ),
    "a product of matrices is a sum with limits": (
        """f(c: tensor<float, I[0:n], J[0:m]>, a: tensor<float, I[0:n], K[0:l]>, b: tensor<float, K[0:l], J[0:m]>) {
          c ← contract(float, K)(a, b) × 2.0; }""",
        [r"c_{i,j} &= \left(\sum_{k=0}^{l-1} a_{i,k} \, b_{k,j}\right) \cdot 2 && 0 \le i < n,\; 0 \le j < m"],
    ),
    "what is put onto a part, and blocks of points, are read at their indices": (
        """f(out: tensor<float, A[0:5], B[0:4]>, x: tensor<float, I[0:20]>, y: tensor<float, I[3:9]>,
             p: tensor<int, A[0:5]>) {
          let all = update(x, y);
          out ← split_dim(I, A, B, 4)(all) + gather(I)(x, p) - gather(I, clamp)(x, p); }""",
        [r"\mathit{all}_{i} &= \begin{cases} y_{i} & \text{if } 3 \le i < 9 \\ x_{i} & \text{otherwise} \end{cases}",
         r"\mathit{out}_{a,b} &= \mathit{all}_{4 a+b} + x_{p_{a}} - x_{\operatorname{clamp}(p_{a}, 0, 19)}"
         r" && 0 \le a < 5,\; 0 \le b < 4"],
    ),
    "a function with a name has an equation, and is applied to whole tensors": (
        """f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) {
          let square = λ(a: tensor<float, I[0:n]>) → a × a;
          out ← square(x) - square(x + 1.0); }""",
        [r"\mathit{square}\left(a\right)_{i} &= a_{i}^{2}",
         r"t_{i} &= x_{i} + 1",
         r"\mathit{out}_{i} &= \mathit{square}\left(x\right)_{i} - \mathit{square}\left(t\right)_{i} && 0 \le i < n"],
    ),
    "what has no notation keeps its name, as an operator on whole tensors": (
        """f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) {
          out ← sort(I, 1)(x) + loop(0, 5)(λ(k, a) → k < 3, λ(k, a) → 2.0 × a, x); }""",
        [r"f\left(k, a\right) &= k < 3",
         r"\mathit{f1}\left(\mathit{k1}, \mathit{a1}\right)_{i} &= 2 \, \mathit{a1}_{i}",
         r"\mathit{out}_{i} &= \operatorname{sort}_{\text{I, 1}}\left(x\right)_{i}"
         r" + \operatorname{loop}_{\text{0, 5}}\left(f, \mathit{f1}, x\right)_{i} && 0 \le i < n"],
    ),
    "numbers, words, roots and powers": (
        """f(out: tensor<float, lat[0:2], lon[0:3]>, eta: tensor<float, lat[0:2], lon[0:3]>, q_c: tensor<float>,
             k: tensor<int>) {
          out ← sqrt(eta) / abs(-eta) + exp(-1.5e-7 × q_c) × ⟪lon, 0⟫(eta) ** 0.5 - cast(k / 3, float) × inf; }""",
        [r"\mathit{out}_{\mathit{lat},\mathit{lon}} &= \frac{\sqrt{\eta_{\mathit{lat},\mathit{lon}}}}"
         r"{\left|-\eta_{\mathit{lat},\mathit{lon}}\right|} + \exp\left(-1.5 \cdot 10^{-7} \, \mathit{q\_c}\right) \,"
         r" \eta_{\mathit{lat},\mathit{lon}}^{0.5} - \text{float64}\left(\operatorname{trunc}\left(\frac{k}{3}\right)"
         r"\right) \, \infty && 0 \le \mathit{lat} < 2,\; 0 \le \mathit{lon} < 3"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("statement", STATEMENTS)
def test_equations_are_those_of_textbooks(statement):
    text, lines = STATEMENTS[statement]
    want = "\n".join((r"\begin{aligned}", " \\\\[4pt]\n".join(lines), r"\end{aligned}"))
    assert str(ti.inspect.latex(ti.parse(text))) == want


def test_a_program_with_numbers_for_its_sizes_has_the_equations_of_one_with_names():
    f: Any = library.load("hdiff")
    sizes = {"n": 23, "m": 29, "l": 31}
    want = str(ti.inspect.latex(f))
    for name, number in sizes.items():
        for less in (2, 0):
            shown = f"{name}-{less}" if less else name
            want = want.replace(f"< {shown}", f"< {number - less}")
    assert str(ti.inspect.latex(f.specialise(**sizes))) == want
    assert str(ti.inspect.latex(f.bind(**sizes))) == want


def test_one_name_for_two_things_is_two_symbols():
    f = ti.parse("""f(a: tensor<float, I[0:n]>, b: tensor<float, I[0:n]>) {
      a ← let w = 2.0 × b; w × w;
      b ← let w = 3.0 × a; let b = w + 1.0; w × b; }""")
    left = [line.partition(" &")[0] for line in str(ti.inspect.latex(f)).splitlines()[1:-1]]
    assert left == ["w_{i}", "a_{i}", r"\mathit{w1}_{i}", r"\mathit{b1}_{i}", "b_{i}"]


def test_the_length_is_linear_in_the_distinct_nodes():
    def length(count):
        x, out = (build.var(name, tensor("float", I=(0, 9))) for name in ("x", "out"))
        value = x
        for _ in range(count):
            value = build.call("plus", build.call("multiplies", value, value), build.call("sin", value))
        return len(str(ti.inspect.latex(build.fencil("f", [out, x], [build.closure(out, value)]))))

    assert length(400) < 2.1 * length(200)


def test_a_deep_expression_is_cut_into_lines_of_some_length():
    x, out = (build.var(name, tensor("float", I=(0, 9))) for name in ("x", "out"))
    value = x
    for _ in range(3000):
        value = build.call("sin", value)
    lines = str(ti.inspect.latex(build.fencil("f", [out, x], [build.closure(out, value)]))).splitlines()
    assert sum(line.count(r"\sin") for line in lines) == 3000
    assert max(map(len, lines)) < 1500


def test_notebooks_set_the_equations():
    f = ti.parse("f(out: tensor<float, I[0:4]>) { out ← 1.0; }")
    shown = ti.inspect.latex(f)
    assert repr(shown) == "<equations: 1 line of LaTeX>"
    assert shown._repr_latex_() == f"$$\n{shown}\n$$"


def test_an_operator_has_the_equations_of_its_last_call():
    (I,) = ti.dims("I")

    @ti.field_operator
    def rise(h):
        return h(I + 1) - h

    with pytest.raises(ti.DiagnosticError) as caught:
        ti.inspect.latex(rise)
    assert caught.value.diagnostics[0].code == "I05"
    rise(ti.as_field({I: 3}, [1.0, 4.0, 9.0]))
    assert r"h_{i+1} - h_{i} && 0 \le i < 2" in str(ti.inspect.latex(rise))
