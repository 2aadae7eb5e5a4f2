"""The region IR: programs on memory, in SSA form, that every imperative wing is translated into.

A region has *buffers* with named dims, and a tree of nodes. Values are tensors with named dims, of rank 0 in TIR and
of any rank where a wing computes with tiles, and what is computed from them is an expression of the tensor IR: each of
its builtins may stand in a `Let`. A `Read` and a `Write` name their elements by an *access map*: for each dim of the
buffer a quasi-affine sum of loop variables and of the dims of the value, or a value (indirect access). Dims of the
value are a window: `a: tensor<float32, x[0:16]> ← A[i * 16 + x]` is a tile.

How a tile language says what it means, so that its translation is a translation and nothing more:

- a *load* of a tile is one `Read`, the view's strides and the block's index in the map, its mask in `where`, what the
  padding is in `otherwise`; gathers have a value of the tile's dims in the place of an index;
- a *store* is one `Write`, with the same maps and masks;
- *mma* is `acc + reduce(+, 0.0, k)(a × b)` in a `Let`, where a, b and acc share the names of the dims that meet;
- *reduce* and *scan* of a tile are the folds of the tensor IR;
- *atomics* are `Atomic` with the builtin that combines, and a result where the old value is asked for;
- the *grid* is a nest of `For ... independent`; threads and vectors are `lockstep`; every other loop is `in order`;
- *tokens* and barriers are `Order`: what stands before it has happened before what follows. Within one iteration the
  order of the text is such an order, and a wing that promises less may always be given more.

>>> region = parse_region('''
... region twice {
...   argument A: float32[n=8];
...   argument B: float32[n=8];
...   for i in 0:4 independent {
...     a: tensor<float32, x[0:2]> ← A[i*2 + x];
...     let b: tensor<float32, x[0:2]> = a + a;
...     B[i*2 + x] ← b;
...   }
... }''')
>>> check_region(region)
"""

from tensorir.lifting.region.nodes import check_region
from tensorir.lifting.region.text import parse_region, print_region

__all__ = ["check_region", "parse_region", "print_region"]
