"""Regions of tensors at once for all independent iterations: what the interpreter of regions makes of them."""

import numpy as np
import pytest

from tensorir import reference
from tensorir.lifting.batched.program import batched
from tensorir.lifting.region import parse_region
from tests.lift.region.interpreter import interpret

HEAD = "region r { argument A: int32[a=8]; argument B: int32[b=8]; argument P: int32[p=8]; "

BODIES = {
    "a mask and what stands elsewhere, through a copy": """
        storage S: int32[s=8];
        for b in 0:2 independent {
          t: tensor<int, x[0:4]> ← A[4*b + x] where 2 - 4*b - x >= 0 otherwise 7;
          S[4*b + x] ← t;
          u: tensor<int, x[0:4]> ← S[4*b + x];
          B[4*b + x] ← u;
        }""",
    "a mask that never holds": """
        for b in 0:2 independent {
          t: tensor<int> ← A[0] where -1 >= 0 otherwise 3;
          B[b] ← t;
        }""",
    "lanes whose places data tell": """
        for b in 0:2 independent {
          i: tensor<int, x[0:4]> ← P[4*b + x];
          t: tensor<int, x[0:4]> ← A[i];
          let m: tensor<bool, x[0:4]> = t > 0;
          atomic plus B[i] ← t + b where m;
        }""",
    "the last of lanes that meet": """
        for b in 0:2 {
          i: tensor<int, x[0:4]> ← P[4*b + x];
          t: tensor<int, x[0:4]> ← A[4*b + x];
          B[i] ← t;
        }""",
    "lanes that meet at a sum of indices": """
        for b in 0:2 independent {
          t: tensor<int, x[0:3], y[0:2]> ← A[4*b + x + y];
          atomic plus B[4*b + x + y] ← t;
        }""",
    "what updates saw": """
        for b in 0:2 independent {
          t: tensor<int, x[0:4]> ← A[4*b + x];
          old: tensor<int, x[0:4]> ← atomic max P[4*b + x] ← t;
          B[4*b + x] ← old;
        }""",
    "what updates one after the other saw, at a place that data tell": """
        for b in 0:2 {
          for i in 0:4 {
            p: int ← P[i];
            t: int ← A[4*b + i];
            old: int ← atomic plus A[p] ← t;
            B[4*b + i] ← old;
          }
        }""",
    "a choice whose values leave it": """
        for b in 0:4 independent {
          t: tensor<int, x[0:2]> ← A[2*b + x];
          let c: bool = reduce(+, 0, x)(t) > 0;
          if c { B[2*b] ← 5; } else { u: int ← P[b]; } giving (j: tensor<int, x[0:2]> = t + t else add_dim(x, 0, 2, u))
          P[2*b + x] ← j;
        }""",
    "rounds that data end, in each block": """
        for b in 0:4 independent {
          n: int ← P[b];
          t: tensor<int, x[0:2]> ← A[2*b + x];
          while carrying (k: int = 0 next m as last; s: tensor<int, x[0:2]> = t next v as sum) { } do k < n {
            let m: int = k + 1;
            let c: bool = mod(m, 2) = 0;
            if c { let w: tensor<int, x[0:2]> = s + m; } giving (v: tensor<int, x[0:2]> = w else s + t)
          }
          B[2*b + x] ← sum + last;
        }""",
    "as many rounds as data say, around others": """
        for b in 0:2 independent {
          n: int ← P[b];
          for i in 0:n carrying (s: tensor<int, x[0:4]> = add_dim(x, 0, 4, 0) next r as sum) {
            t: tensor<int, x[0:4]> ← A[i + x] where 7 - i - x >= 0;
            for j in 0:2 carrying (q: tensor<int, x[0:4]> = s next w as r) { let w: tensor<int, x[0:4]> = q + t*j + b; }
          }
          B[4*b + x] ← sum;
        }""",
    "a carried tensor of two dims, in another order than its next value, folded along one": """
        for b in 0:2 independent {
          for i in 0:2 carrying (s: tensor<int, y[0:3], x[0:2]> = add_dim(x, 0, 2, add_dim(y, 0, 3, b)) next q as z) {
            t: tensor<int, x[0:2]> ← A[2*i + x];
            let r: tensor<int, x[0:2]> = reduce(+, 0, y)(s);
            let q: tensor<int, y[0:3], x[0:2]> = s + add_dim(y, 0, 3, r + t);
          }
          let e: tensor<int, x[0:2]> = reduce(+, 0, y)(z);
          B[4*b + x] ← e;
        }""",
    "a carried tensor that is the same along a dim, folded along it": """
        for b in 0:3 {
          for i in 0:b carrying (s: tensor<int, x[0:2]> = add_dim(x, 0, 2, 3) next q as last) {
            let q: tensor<int, x[0:2]> = s ^ 6;
          }
          B[0] ← reduce(+, 0, x)(last);
        }""",
    "rounds under conditions that blocks differ in": """
        for b in 0:4 independent {
          n: int ← P[b];
          let odd: bool = mod(n, 2) = 1;
          if odd {
            while carrying (k: int = 0 next m as last) { } do k < n { let m: int = k + 3; atomic plus B[b] ← k; }
          } giving (j: int = last else 9)
          B[b + 4] ← j;
        }""",
    "rounds under a condition, in order, whose last values leave it": """
        for b in 0:4 {
          n: int ← P[b];
          let odd: bool = mod(n, 2) = 1;
          if odd {
            while carrying (k: int = 0 next m as last) { } do k < n { let m: int = k + 3; }
          } giving (j: int = last else 9)
          c: int ← B[0];
          B[0] ← c * 2 + j;
        }""",
    "a round that blocks carry in order": """
        for b in 0:4 {
          n: int ← P[b];
          while carrying (k: int = 0 next m as last) { } do k < n { t: int ← B[0]; let m: int = k + 1; B[0] ← t + m; }
          B[b + 1] ← last;
        }""",
    "what the last round of several leaves": """
        for b in 0:2 independent { for r in 0:3 {
          t: tensor<int, x[0:4]> ← A[b + r + x];
          B[4*b + x] ← t;
        } }""",
    "a fold of tiles with sums under a condition": """
        for b in 0:2 independent {
          n: int ← P[b];
          let c: bool = n > 1;
          if c {
            for i in 0:2 carrying (s: tensor<int, x[0:4]> = add_dim(x, 0, 4, 0) next q as sum) {
              t: tensor<int, x[0:4]> ← A[4*i + x];
              let q: tensor<int, x[0:4]> = s + t;
            }
            B[4*b + x] ← sum;
          }
        }""",
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("exact", [False, True])
def test_a_batched_region_computes_what_the_region_does(name: str, exact: bool):
    region = parse_region(HEAD + BODIES[name] + "}")
    ways = [batched(region, checked=c, exact=exact, on_hazard="sequential").fencil for c in (False, True)]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        arrays = {"A": rng.integers(-4, 5, 8, "int32"), "B": rng.integers(-4, 5, 8, "int32")}
        arrays["P"] = rng.integers(0, 8, 8, "int32")
        wanted = interpret(region, {n: x.copy() for n, x in arrays.items()})
        for program in ways:
            got = reference.run(program, **{n: x.copy() for n, x in arrays.items()})
            for n, array in got.items():
                assert np.array_equal(array, wanted[n]), f"{name}: {n}, {array} for {wanted[n]}\n{program}"


def lifted(name: str) -> str:
    return str(batched(parse_region(HEAD + BODIES[name] + "}")).fencil)


def test_rounds_that_data_end_are_those_of_all_blocks_together():
    program = lifted("rounds that data end, in each block")
    assert program.count("λ(") == 2 and "reduce(∨, false, b" in program


def test_a_sum_under_a_condition_is_a_fold():
    assert "λ" not in lifted("a fold of tiles with sums under a condition")
