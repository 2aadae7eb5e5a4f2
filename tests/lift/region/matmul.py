"""A tiled matrix product over a grid, as a tile language has it."""

MATMUL = """
region matmul {
  argument A: float32[m=8, k=12];
  argument B: float32[k=12, n=6];
  argument C: float32[m=8, n=6];
  for bi in 0:2 independent {
    for bj in 0:2 independent {
      let zero: tensor<float32, x[0:4], y[0:3]> = add_dim(y, 0, 3, add_dim(x, 0, 4, 0.0f));
      for t in 0:3 carrying (acc: tensor<float32, x[0:4], y[0:3]> = zero next sum as total) {
        a: tensor<float32, x[0:4], z[0:4]> ← A[4*bi + x, 4*t + z];
        b: tensor<float32, z[0:4], y[0:3]> ← B[4*t + z, 3*bj + y];
        let sum: tensor<float32, x[0:4], y[0:3]> = acc + reduce(+, 0.0f, z)(a × b);
      }
      C[4*bi + x, 3*bj + y] ← total;
    }
  }
}
"""
