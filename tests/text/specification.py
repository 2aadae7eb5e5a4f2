"""The programs of the specification, as they are printed there."""

LAPLACIAN = """
laplacian(
  out: tensor<float, IDim[0:5], JDim[0:7], KDim[0:9]>,
  inp: tensor<float, IDim[-1:6], JDim[-1:8], KDim[0:9]>
) {
  out ← (
    λ(inp: tensor<float, IDim[-1:6], JDim[-1:8], KDim[0:9]>) →
      ⟪iₒ, -1ₒ, iₒ, 1ₒ, iₒ, -1ₒ⟫(inp) - ⟪iₒ, -1ₒ, iₒ, 1ₒ⟫(inp) - (⟪iₒ, 1ₒ, iₒ, -1ₒ⟫(inp) - ⟪iₒ, 1ₒ⟫(inp))
      + (⟪jₒ, -1ₒ, jₒ, 1ₒ, jₒ, -1ₒ⟫(inp) - ⟪jₒ, -1ₒ, jₒ, 1ₒ⟫(inp) - (⟪jₒ, 1ₒ, jₒ, -1ₒ⟫(inp) - ⟪jₒ, 1ₒ⟫(inp)))
  )(inp);
}
"""

SOLVE_TRIDIAG = """
solve_tridiag(
  a: tensor<float, IDim[0:3], JDim[0:7], KDim[0:5]>,
  b: tensor<float, IDim[0:3], JDim[0:7], KDim[0:5]>,
  c: tensor<float, IDim[0:3], JDim[0:7], KDim[0:5]>,
  d: tensor<float, IDim[0:3], JDim[0:7], KDim[0:5]>,
  x: tensor<float, IDim[0:3], JDim[0:7], KDim[0:5]>
) {
  x ← (λ(
    a: tensor<float, IDim[0:3], JDim[0:7], KDim[0:5]>,
    b: tensor<float, IDim[0:3], JDim[0:7], KDim[0:5]>,
    c: tensor<float, IDim[0:3], JDim[0:7], KDim[0:5]>,
    d: tensor<float, IDim[0:3], JDim[0:7], KDim[0:5]>
  ) → __scan(
    λ(x_kp1: tensor<float, IDim[0:3], JDim[0:7]>, cpdp: tensor<(float, float), IDim[0:3], JDim[0:7]>) →
      cpdp[1] - cpdp[0] × x_kp1,
    False,
    0.0
  )(__scan(λ(
    state: tensor<(float, float), IDim[0:3], JDim[0:7]>,
    a: tensor<float, IDim[0:3], JDim[0:7]>,
    b: tensor<float, IDim[0:3], JDim[0:7]>,
    c: tensor<float, IDim[0:3], JDim[0:7]>,
    d: tensor<float, IDim[0:3], JDim[0:7]>
  ) → __make_tuple(c / (b - a × state[0]), (d - a × state[1]) / (b - a × state[0])),
  True, __make_tuple(0.0, 0.0))(a, b, c, d)))(a, b, c, d);
}
"""

NABLA = """
nabla(
  n_nodes: tensor<int>,
  out: tensor<(float, float), Vertex[0:5440]>,
  pp: tensor<float, Vertex[0:5440]>,
  S_MXX: tensor<float, Edge[0:16167]>,
  S_MYY: tensor<float, Edge[0:16167]>,
  sign: tensor<float, Vertex[0:5440], _NB_0[0:7]>,
  vol: tensor<float, Vertex[0:5440]>,
  E2V: tensor<int, Edge[0:16167], _NB_Vertex[0:2]>,
  V2E: tensor<int, Vertex[0:5440], _NB_Edge[0:7]>
) {
  out ← (
    λ(
      pp: tensor<float, Vertex[0:5440]>,
      S_MXX: tensor<float, Edge[0:16167]>,
      S_MYY: tensor<float, Edge[0:16167]>,
      sign: tensor<float, Vertex[0:5440], _NB_0[0:7]>,
      vol: tensor<float, Vertex[0:5440]>
    ) → __make_tuple(
      __reduce(λ(
        acc: tensor<float, Vertex[0:5440]>,
        a_n: tensor<float, Vertex[0:5440]>,
        c_n: tensor<float, Vertex[0:5440]>
      ) → acc + a_n × c_n, 0.0)(
        ⟪V2E⟫((λ(pp_: tensor<float, Vertex[0:5440]>, S_M: tensor<float, Edge[0:16167]>) →
          S_M × (0.5 × (⟪E2V, 0ₒ⟫(pp_) + ⟪E2V, 1ₒ⟫(pp_))))(pp, S_MXX)),
        sign
      ) / vol,
      __reduce(λ(
        acc: tensor<float, Vertex[0:5440]>,
        a_n: tensor<float, Vertex[0:5440]>,
        c_n: tensor<float, Vertex[0:5440]>
      ) → acc + a_n × c_n, 0.0)(
        ⟪V2E⟫((λ(pp_: tensor<float, Vertex[0:5440]>, S_M: tensor<float, Edge[0:16167]>) →
          S_M × (0.5 × (⟪E2V, 0ₒ⟫(pp_) + ⟪E2V, 1ₒ⟫(pp_))))(pp, S_MYY)),
        sign
      ) / vol
    )
  )(pp, S_MXX, S_MYY, sign, vol);
}
"""

COSINES = """
fencil( out: tensor<float, I[1:99]>, inp: tensor<float, I[0:100]> ) {
  out ← (λ(x: tensor<float, I[0:100]>) → ⟪I, 1⟫(cos(x)) + ⟪I, -1⟫(cos(x)))(inp)
}
"""

COSINES_WITH_BUFFER = """
fencil( out: tensor<float, I[1:99]>, inp: tensor<float, I[0:100]>, tmp: tensor<float, I[0:100]> ) {
  tmp ← (λ(x: tensor<float, I[0:100]>) → cos(x))(inp)
  out ← (λ(y: tensor<float, I[0:100]>) → ⟪I, 1⟫(y) + ⟪I, -1⟫(y))(tmp)
}
"""

OFFSETS = {"i": "IDim", "j": "JDim"}
PROGRAMS = [LAPLACIAN, SOLVE_TRIDIAG, NABLA, COSINES, COSINES_WITH_BUFFER]
