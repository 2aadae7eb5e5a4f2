"""Raising: the forms that XLA has an operation for, recognised in expressions that say them step by step.

`RULES` is the whole list, in the order in which rules are tried; what none fits is lowered step by step (`folds`,
`indirect`). A rule stands here because its form was measured to be faster than the plain one, and each has a test of
the one against the other (`tests/lowering/test_raising_*.py`). `ti.compile(f, raising=...)` names the rules that may be
used, `ti.compile(f).raised()` those that were.

What is not here, with JAX 0.10.2 on 2 cores of a CPU:
- cumulative operations and recurrences h = a × h + b: `lax.cumsum` and `lax.associative_scan` take 1.2 to 19 times as
  long as the `scan` that they are written as, for rows of 16 to a million elements (GPUs have the rule "prefix");
- windows of several dims as one `reduce_window`: 2 to 15 times as long as the folds of strided slices that the
  pass "pools" and the rule "window" leave, of which `reduce_window` is the faster form of some ("strip");
- `lax.argmin` and `lax.argmax`: 1.4 to 5 times as long as the two reductions of the rule "extreme";
- softmax and norms: folds and elementwise operations, which XLA fuses; there is no operation for them;
- transposes, reshapes and stencils: `rename`, `split_dim`, `merge_dims` and shifts move nothing, so nothing is raised;
- pads: an `update` of a constant is `lax.pad` as it stands, and the padding of a convolution where one reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lowering.context import Context
from lowering.raising.contractions import contraction, convolution, guarded
from lowering.raising.provenance import Raised, Rule, remember
from lowering.raising.reductions import along_axis, argument_reduction, mapped, prefix, strip, top_k
from lowering.raising.windows import combined, constants, dilated, in_place, windows
from lowering.values import Value
from tensorir.ir.nodes import Call

__all__ = ["NAMES", "RULES", "Raised", "Rule", "raised", "rows"]

RULES = (
    Rule(
        "strip", "materialise", "Inner folds of windows that are kept, by max or min: `reduce_window`.",
        strip,
    ),
    Rule(
        "convolution", "contract", "A window times weights, summed over the window and over channels: a convolution.",
        convolution, reorders=True,
    ),
    Rule(
        "contraction", "contract", "A product of two, summed over some dims: one `dot_general`.",
        contraction, reorders=True,
    ),
    Rule(
        "guarded contraction", "reduce", "A product of two that counts where a guard holds, summed: one `dot_general`.",
        guarded, reorders=True,
    ),
    Rule(
        "reduction", "reduce", "A fold of one array by +, ×, min, max or bits: a reduction of its axis.",
        along_axis, reorders=True,
    ),
    Rule(
        "mapped reduction", "reduce", "A fold λ(a, x...) → a ⊕ e(x...): e at all levels at once, reduced.",
        mapped, reorders=True,
    ),
    Rule(
        "prefix", "scan", "On GPUs, a long scan of few columns by +, ×, max or min: a cumulative operation.",
        prefix, reorders=True,
    ),
    Rule(
        "extreme", "argreduce", "The largest or smallest element of a row and its index: two reductions.",
        argument_reduction, reorders=True,
    ),
    Rule(
        "constant index", "gather", "Indices that are constants: one point of the axis.",
        constants,
    ),
    Rule(
        "window", "gather", "Indices that are sums of coordinates: strided slices, one for each point of a window.",
        windows,
    ),
    Rule(
        "dilation", "if", "Elements where coordinates are multiples, and zero elsewhere: zeros put between them.",
        dilated,
    ),
    Rule(
        "slice in place", "scatter", "One update at one index per dim: a slice that is written in place.",
        in_place,
    ),
    Rule(
        "scatter", "scatter", "Updates that meet by +, ×, min or max, or of which the last wins: one scatter.",
        combined, reorders=True,
    ),
    Rule(
        "top k", "top_k", "The first of a row by one float32 key: a selection; rows with a NaN are sorted.",
        top_k,
    ),
)  # fmt: skip

NAMES = frozenset(rule.name for rule in RULES)

_BY_OP = {op: tuple(r for r in RULES if r.op == op) for op in {r.op for r in RULES}}


def raised(
    context: Context, node: Call, lowered: Sequence[Any], plain: Callable[[Context, Call, Sequence[Any]], Value]
) -> Value:
    """The value of a call by the first rule of `RULES` that fits it; by `plain(context, node, args)` where none
    does.

    Rules must be enabled in `context.raising`; those that reorder are skipped with `context.exact`. The rule is
    recorded in `context.fired`, the provenance of the result in `context.provenance`.
    """
    value = None
    for rule in _BY_OP.get(node.op, ()):
        if rule.name in context.raising and not (context.exact and rule.reorders):
            value = rule.lower(context, node, lowered)
            if value is not None:
                context.fired[id(node)] = rule.name, node
                break
    if value is None:
        value = plain(context, node, lowered)
    remember(context, node, lowered, value)
    return value


LONGEST = 120
"""Characters of an expression that a row shows."""


def rows(fired: Sequence[tuple[str, Call]]) -> tuple[Raised, ...]:
    """The rules that were used, each with its expression in the notation, shortened to `LONGEST`, without
    repetitions.
    """
    texts = ((rule, " ".join(str(node).split()).replace("( ", "(").replace(" )", ")")) for rule, node in fired)
    shortened = (Raised(rule, t if len(t) <= LONGEST else f"{t[: LONGEST - 1]}…") for rule, t in texts)
    return tuple(dict.fromkeys(shortened))
