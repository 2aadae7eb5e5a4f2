"""Loops as primitives: as they stand going forward, with a stated memory in derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from lowering.gradients.in_place_adjoints import still, threaded
from lowering.tracing import axes_of, varying, with_batch
from tensorir.runtime.errors import Diagnostic, DiagnosticError
from tensorir.runtime.memory import remembered

# Tangents that nothing comes back from: of loops whose rounds nobody counted when they ran.


def forward_only(x: Any, refusal: Diagnostic) -> Any:
    """x, of which reverse mode says what `refusal` does.

    JAX remembers parameters of operations for as long as the jaxprs among them live, and for good where there are none:
    an empty jaxpr lets go of the diagnostic, which holds the text of its program.
    """
    return forward_only_p.bind(x, refusal=refusal, owner=jax.make_jaxpr(lambda: ())())


forward_only_p = Primitive("forward_only")


def _refused(cotangent: Any, x: Any, *, refusal: Diagnostic, owner: ClosedJaxpr) -> Any:
    raise DiagnosticError(refusal)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, refusal: Diagnostic, owner: ClosedJaxpr) -> Any:
    """JVP of `forward_only`: the tangent passes through the primitive, too."""
    out = forward_only_p.bind(*primals, refusal=refusal, owner=owner)
    return out, forward_only_p.bind(ad.instantiate_zeros(tangents[0]), refusal=refusal, owner=owner)


forward_only_p.def_impl(lambda x, **_: x)
forward_only_p.def_abstract_eval(lambda x, **_: x)
mlir.register_lowering(forward_only_p, mlir.lower_fun(lambda x, **_: x, multiple_results=False))
ad.primitive_jvps[forward_only_p] = _jvp
ad.primitive_transposes[forward_only_p] = _refused
batching.primitive_batchers[forward_only_p] = lambda args, axes, **known: (forward_only_p.bind(*args, **known), axes[0])

# One round of a loop: as it runs, and with tangents, where reads hand their buffer on (`in_place_adjoints`).


def once(body: ClosedJaxpr, i: Any, *operands: Any) -> tuple[Any, ...]:
    """The carry after round i; `body` maps (i, *read, *carried) to carried.

    A round with several writes is evaluated so that every read hands on its buffer (`handing_on`), others as the jaxpr
    says.
    """
    return tuple(handing_on(body, i, *operands)[0] if _contested(body) else jaxpr_as_fun(body)(i, *operands))


@remembered("facts of loops", limit=256)
def _contested(body: ClosedJaxpr) -> bool:
    """True if the body of a loop writes in place more than once, itself or in a loop inside.

    One write can run as a kernel that reads all before it stores; of two, the second may read what the first stored.
    """
    writes = [
        e.primitive.name for e in body.jaxpr.eqns if e.primitive.name in ("dynamic_update_slice", "rounds", "put")
    ]
    return len(writes) > 1 or "rounds" in writes


def handing_on(body: ClosedJaxpr, *args: Any) -> tuple[list[Any], list[Any]]:
    """The carry after a round, and the arguments of the round as their last readers hand them on."""
    return threaded(body, _handed, *args)


def _handed(eqn: JaxprEqn) -> Sequence[tuple[int, int]]:
    """Operands of an equation that are among its results."""
    match eqn.primitive.name:
        case "take":
            return [(0, 1)]
        case "rounds":
            reading = eqn.params["reading"]
            return [(k, len(eqn.invars) - reading + k) for k in range(reading)]
        case _:
            return []


def with_tangents(body: ClosedJaxpr, read: Sequence[Any], varied: Sequence[int], i: Any, state: Any) -> Any:
    """The state (carried, d_carried, d_read) after round i; `d_read`, the tangents of the reads at `varied`, is
    handed on.
    """
    carried, d_carried, d_read = state
    function, points, moving = smooth(body, read, varied, i, carried)
    (moved, _), (d_carried, d_read), unmoved = jax.jvp(function, points, (d_carried, d_read), has_aux=True)
    floats, unmoved_values = iter(moved), iter(unmoved)
    return [next(floats if k in moving else unmoved_values) for k in range(len(carried))], d_carried, d_read


def smooth(
    body: ClosedJaxpr, read: Sequence[Any], varied: Sequence[int], i: Any, carried: Sequence[Any]
) -> tuple[Callable[[list[Any], list[Any]], Any], tuple[list[Any], list[Any]], list[int]]:
    """Round i as a differentiable function, the point at which it is evaluated, and the places in `carried` that it
    differentiates.

    The function maps (the floats of `carried`, the reads at `varied`) to their state after the round, with the carried
    values that are no floats as its auxiliary result.
    """
    float_places = [k for k, x in enumerate(carried) if moves(x)]

    def function(floats: list[Any], varied_reads: list[Any]) -> Any:
        """The floats carried and the reads after the round; the other carried values."""
        results, arguments = handing_on(
            body, i, *replaced(read, varied, varied_reads), *replaced(carried, float_places, floats)
        )
        unmoved = [r for k, r in enumerate(results) if k not in float_places]
        return ([results[k] for k in float_places], [arguments[1 + k] for k in varied]), unmoved

    return function, ([carried[k] for k in float_places], [read[k] for k in varied]), float_places


def moves(x: Any) -> bool:
    """True if tangents of an array are arrays."""
    return jnp.issubdtype(x.dtype, jnp.inexact)


def replaced(old: Sequence[Any], places: Sequence[int], new: Sequence[Any]) -> list[Any]:
    """A copy of a list with the items of `new` at `places`."""
    result = list(old)
    for k, x in zip(places, new, strict=True):
        result[k] = x
    return result


# Derivatives of loops of which nobody knows how often they run.
#
# Tangents go along with the rounds. The reverse pass counts the rounds, keeps the state before each of some blocks of
# them, and goes back block by block, each the same way in smaller blocks (Griewank and Walther, Evaluating
# Derivatives, 12.2): d levels of k states each go back through k ** d rounds with d more runs of each. What is kept
# does not grow with the number of rounds; beyond k ** d of them, those of the smallest blocks run again for each
# other.

FREE = 1 << 20
"""Bytes of states that a level keeps without a thought."""
LEAST_KEPT, MOST_KEPT_OF_WHILES = 16, 4096
"""How many states a level keeps."""
ROUNDS = 1 << 20
"""Up to so many rounds, none runs again for each other."""

State = list[Any]
Back = tuple[State, list[State]]
"""Cotangents, and room for states level by level, from the largest blocks on."""


@dataclass(frozen=True, slots=True)
class Unbounded:
    """A loop over what it reads and carries, as `checkpointed_loop` says, and the buffers it reads that have tangents.

    `batches`: where the operands have the axes of batches, batch by batch from the inside; tangents have them in front.
    """

    body: ClosedJaxpr
    going: ClosedJaxpr
    reading: int
    varied: tuple[int, ...]
    refusal: Diagnostic
    batches: tuple[tuple[int | None, ...], ...] = ()

    def tangents(self, operands: Sequence[Any], d_carried: State, d_read: State) -> tuple[State, State]:
        """The tangents of the carry after the loop, and of the buffers read, for `d_carried` and `d_read` before it."""
        tangents = swept.bind(*operands, *d_carried, *d_read, known=len(operands), **self.parts)
        return tangents[: len(d_carried)], tangents[len(d_carried) :]

    @property
    def parts(self) -> dict[str, Any]:
        """The fields as keyword parameters of `swept`: JAX forgets them together with the jaxprs among them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def forward(self, operands: Sequence[Any], moved: Sequence[Any]) -> State:
        """The tangents (of the carry, then of the reads) after the loop, for `moved`, those before it."""
        return self._mapped(self._forward)(tuple(map(jnp.asarray, operands)), list(moved))

    def backward(self, operands: Sequence[Any], cotangents: Sequence[Any]) -> State:
        """The cotangents before the loop of those after it."""
        return self._mapped(self._backward)(tuple(map(jnp.asarray, operands)), list(cotangents))

    def _mapped(self, function: Callable[..., State]) -> Callable[..., State]:
        """The function of (operands, tangents) mapped over all batches; tangents have the batch in front."""
        for axes in self.batches:
            function = jax.vmap(function, (axes, 0))
        return function

    def _forward(self, operands: Sequence[Any], moved: State) -> State:
        """The tangents after the loop of one member of the batch, by running rounds with tangents until the
        condition fails.
        """
        read, carried = operands[: self.reading], list(operands[self.reading :])
        count = len(moved) - len(self.varied)
        round_with_tangents = partial(with_tangents, self.body, read, self.varied)
        _, (_, d_carried, d_read) = lax.while_loop(
            lambda s: self._goes_on(read, s[0], s[1][0]),
            lambda s: (_after(s[0]), round_with_tangents(*s)),
            (_number(0), (carried, moved[:count], moved[count:])),
        )
        return [*d_carried, *d_read]

    def _backward(self, operands: Sequence[Any], cotangents: State) -> State:
        """The cotangents before the loop of one member of the batch: the rounds are counted, then undone block by
        block.

        `operands`: buffers that the loop reads, then its carry. `cotangents`: of the carry after the loop, then of the
        buffers at `varied`, to which the rounds add; the result has those before the loop in the same order.

        A level keeps as many states as fit into `FREE` bytes, and there are as many levels as `ROUNDS` rounds need.
        """
        axes = axes_of(operands, cotangents)
        read, carried = operands[: self.reading], varying(list(operands[self.reading :]), axes)
        cotangents = varying(cotangents, axes)
        n, _ = lax.while_loop(
            lambda s: self._goes_on(read, *s), lambda s: (_after(s[0]), self._round(read, *s)), (_number(0), carried)
        )
        states_per_level = min(
            max(FREE // max(1, sum(x.size * x.dtype.itemsize for x in carried)), LEAST_KEPT), MOST_KEPT_OF_WHILES
        )
        levels = math.ceil(math.log(ROUNDS, states_per_level))
        states = varying(
            [[lax.full((states_per_level, *x.shape), 0, x.dtype) for x in carried] for _ in range(levels)], axes
        )
        back, _ = self._back(read, _number(0), n, carried, (cotangents, states))
        return [forward_only(x, self.refusal) for x in back]

    def _goes_on(self, read: Sequence[Any], i: Any, carried: State) -> Any:
        """True if round i takes place."""
        return jaxpr_as_fun(self.going)(i, *read, *carried)[0]

    def _round(self, read: Sequence[Any], i: Any, carried: State) -> State:
        """The carry after round i, varying over the same axes of a mesh."""
        return varying(list(once(self.body, i, *read, *carried)), axes_of(carried))

    def _advanced(self, read: Sequence[Any], first_round: Any, n: Any, carried: State) -> State:
        """The carry after n rounds from number `first_round` on."""
        return _counted(n, lambda i, s: self._round(read, lax.add(first_round, i), s), carried)

    def _back(self, read: Sequence[Any], first_round: Any, n: Any, carried: State, going_back: Back) -> Back:
        """The cotangents before the n rounds from number `first_round` on, and the levels' buffers.

        `carried`: the state before the first of them. `going_back`: the cotangents after them, and a buffer of states
        for each level. The rounds run in as many blocks as the first buffer has places; the state before each is kept,
        then blocks are undone from the last on, by the inner levels. Without levels, each round is undone after running
        those before it again.
        """
        cotangents, levels = going_back
        if not levels:
            undo_round = partial(self._undone, read, first_round, n, carried)
            return _counted(n, undo_round, cotangents), levels
        states, *inner = levels
        places = states[0].shape[0]
        size = lax.max(_over(n, _number(places)), _number(1))
        blocks = _over(n, size)

        def keep(j: Any, state: tuple[State, State]) -> tuple[State, State]:
            """Keep the state before block j, and run the block unless it is the last."""
            block_start, states = state
            states = [lax.dynamic_update_index_in_dim(all, x, j, 0) for all, x in zip(states, block_start, strict=True)]
            # nothing comes behind the last one
            rounds_to_run = lax.select(lax.lt(_after(j), blocks), size, _number(0))
            return self._advanced(read, lax.add(first_round, lax.mul(j, size)), rounds_to_run, block_start), states

        def block(j: Any, going_back: Back) -> Back:
            """The cotangents before the j-th block from the end, of those after it."""
            j = lax.sub(blocks, _after(j))
            rounds_before = lax.mul(j, size)
            block_start = [lax.dynamic_index_in_dim(all, j, 0, keepdims=False) for all in states]
            block_rounds = lax.min(size, lax.sub(n, rounds_before))
            return self._back(read, lax.add(first_round, rounds_before), block_rounds, block_start, going_back)

        _, states = _counted(blocks, keep, (carried, states))
        cotangents, inner = _counted(blocks, block, (cotangents, inner))
        return cotangents, [states, *inner]

    def _undone(
        self, read: Sequence[Any], first_round: Any, n: Any, carried: State, j: Any, cotangents: State
    ) -> State:
        """The cotangents before the j-th of n rounds, counted from the last, of those after it; `carried` is before
        round `first_round`.
        """
        j = lax.sub(n, _after(j))
        state = self._advanced(read, first_round, j, carried)
        function, points, _ = smooth(self.body, read, self.varied, lax.add(first_round, j), state)
        _, pull_back, _ = jax.vjp(function, *points, has_aux=True)
        count = len(points[0])
        d_carried, d_read = pull_back((cotangents[:count], cotangents[count:]))
        return [*d_carried, *d_read]


def _number(n: int) -> Any:
    return lax.full((), n, "int32")


def _after(i: Any) -> Any:
    return lax.add(i, _number(1))


def _over(n: Any, by: Any) -> Any:
    """n over a number, rounded up."""
    return lax.div(lax.add(n, lax.sub(by, _number(1))), by)


def _counted(n: Any, round_applied: Callable[[Any, Any], Any], state: Any) -> Any:
    """The state after n times `one(i, state)`, i counting from 0; n may be traced."""
    start = _number(0), state
    return lax.while_loop(lambda s: lax.lt(s[0], n), lambda s: (_after(s[0]), round_applied(*s)), start)[1]


# The primitive

swept = Primitive("swept")
swept.multiple_results = True
"""`swept(*operands, *moved; known, **loop)` gives the tangents after a loop; it is linear in `moved`."""


def _swept(*args: Any, known: int, **loop: Any) -> State:
    return Unbounded(**loop).forward(args[:known], args[known:])


def _while_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, known: int, **loop: Any) -> tuple[Any, Any]:
    """JVP of `swept`: linear in `moved`; if the loop's operands move, too, the loop with tangents is differentiated,
    forward only.
    """
    out = swept.bind(*primals, known=known, **loop)
    if all(isinstance(t, ad.Zero) for t in tangents[:known]):
        moved = [ad.instantiate_zeros(t) for t in tangents[known:]]
        return out, swept.bind(*primals[:known], *moved, known=known, **loop)
    places = [k for k, x in enumerate(primals) if moves(x)]

    def function(*some: Any) -> State:
        """The tangents after the loop, as a function of all floats among the operands."""
        return _swept(*replaced(primals, places, some), known=known, **loop)

    points = [jnp.asarray(primals[k]) for k in places], [ad.instantiate_zeros(tangents[k]) for k in places]
    _, moved = jax.jvp(function, *points)
    return out, [forward_only(t, loop["refusal"]) for t in moved]


def _transpose(cotangents: Sequence[Any], *args: Any, known: int, **loop: Any) -> list[Any]:
    """Transpose of `swept` in its tangents: the reverse pass over the loop."""
    cotangents_before = Unbounded(**loop).backward(args[:known], [ad.instantiate_zeros(c) for c in cotangents])
    is_linear = [ad.is_undefined_primal(x) for x in args[known:]]
    return [*([None] * known), *(b if a else None for a, b in zip(is_linear, cotangents_before, strict=True))]


def _while_batched(args: Sequence[Any], axes: Sequence[Any], *, known: int, **loop: Any) -> tuple[Any, Any]:
    """Batching of `swept`: the batch is noted in `batches`, the tangents get it in front."""
    size = next(a.shape[x] for a, x in zip(args, axes, strict=True) if x is not None)
    moved = [batching.bdim_at_front(a, x, size) for a, x in zip(args[known:], axes[known:], strict=True)]
    mapped = replace(Unbounded(**loop), batches=(*loop["batches"], tuple(axes[:known])))
    return swept.bind(*args[:known], *moved, known=known, **mapped.parts), [0] * len(moved)


swept.def_impl(lambda *args, **params: jax.jit(partial(_swept, **params))(*args))
swept.def_abstract_eval(lambda *args, known, **_: list(args[known:]))
mlir.register_lowering(swept, mlir.lower_fun(_swept, multiple_results=True))
ad.primitive_jvps[swept] = _while_jvp
ad.primitive_transposes[swept] = _transpose
batching.primitive_batchers[swept] = _while_batched

# Loops as a primitive: as they stand going forward, and with a stated memory in derivatives.
#
# Forward, n rounds over buffers are one `scan` without slices, or a `while_loop` where they may end early. The
# derivative is a scan over values and tangents whose reads hand their buffer on (`in_place_adjoints`), so that a
# round of the reverse pass costs what the round touches. Reverse mode keeps what rounds read; where that adds up to
# many times the buffers, they run in blocks, themselves in blocks: the state before each is kept, and what is inside
# is computed again. A loop that may end early runs to its limit, its rounds past the end doing nothing; one without a
# limit has forward mode only.

MOST_KEPT = 32
"""How many times the bytes of its buffers a loop keeps for the reverse pass before it runs in blocks."""
"""Bytes that are kept without a thought."""
MOST_LEVELS = 3

rounds = Primitive("rounds")
rounds.multiple_results = True
"""`rounds(*read, *carried; body, going, limit, reading, refusal)` gives what is carried after the loop, then `read`.

`body` maps (i, *read, *carried) to carried, `going` to whether round i takes place (None: it does). `limit`: the most
rounds (None: nobody knows). `reading`: how many operands are read only. `refusal`: what reverse mode says where it
does not go through a loop without a limit.
"""


def _run_rounds(
    *operands: Any, body: ClosedJaxpr, going: ClosedJaxpr | None, limit: int | None, reading: int, refusal: Diagnostic
) -> list[Any]:
    """The carry after the loop, then `read`: a scan of `limit` rounds, or a while loop if a condition may end it
    earlier.
    """
    read, start = operands[:reading], operands[reading:]

    def one(i: Any, carried: Sequence[Any]) -> tuple[Any, ...]:
        return once(body, i, *read, *carried)

    if going is None:
        assert limit is not None
        return [*_scan_rounds(limit, one, tuple(start)), *read]
    holds = jaxpr_as_fun(going)

    def more(state: Any) -> Any:
        """True if round `state[0]` takes place."""
        (goes_on,) = holds(state[0], *read, *state[1])
        return goes_on if limit is None else lax.bitwise_and(goes_on, lax.lt(state[0], np.int32(limit)))

    first = lax.full((), 0, "int32"), tuple(start)
    _, result = lax.while_loop(more, lambda s: (lax.add(s[0], np.int32(1)), one(*s)), first)
    return [*result, *read]


def _scan_rounds(n: int, round_applied: Callable[[Any, Any], Any], state: Any) -> Any:
    """The state after n times `round_applied(i, state)`, i counting from 0; n is static, so that reverse mode goes
    through the scan.
    """
    start = lax.full((), 0, "int32"), state
    return lax.scan(lambda s, _: ((lax.add(s[0], np.int32(1)), round_applied(*s)), None), start, length=n)[0][1]


# Derivatives


def _loop_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, body: ClosedJaxpr, going: ClosedJaxpr | None,
    limit: int | None, reading: int, refusal: Diagnostic,
) -> tuple[Any, Any]:  # fmt: skip
    """JVP of `rounds`: a loop over values and tangents; with a limit in checkpointed blocks, without one by
    `Unbounded`.

    A round past the end of a loop with a limit does nothing.
    """
    operands = [jnp.asarray(x) for x in primals]
    read, carried = operands[:reading], operands[reading:]
    moving = [k for k, x in enumerate(carried) if moves(x)]
    varied = tuple(k for k, t in enumerate(tangents[:reading]) if not isinstance(t, ad.Zero) and moves(read[k]))
    d_carried = [ad.instantiate_zeros(tangents[reading + k]) for k in moving]
    d_read = [tangents[k] for k in varied]
    if limit is None:
        assert going is not None
        after = rounds.bind(*operands, body=body, going=going, limit=limit, reading=reading, refusal=refusal)
        carried = after[: len(carried)]
        d_carried, d_read = Unbounded(body, going, reading, varied, refusal).tangents(operands, d_carried, d_read)
    else:
        round_with_tangents = partial(with_tangents, body, read, varied)
        if going is not None:
            round_with_tangents = _while_holding(jaxpr_as_fun(going), read, round_with_tangents)
        start, blocks = lax.full((), 0, "int32"), _blocks(body, limit, reading)
        carried, d_carried, d_read = _in_blocks(round_with_tangents, (carried, d_carried, d_read), start, limit, blocks)
    results = [*carried, *read]
    result_tangents: list[Any] = [still(x) for x in results]
    for k, t in zip([*moving, *(len(carried) + k for k in varied)], [*d_carried, *d_read], strict=True):
        result_tangents[k] = t
    return results, result_tangents


def _while_holding(holds: Callable[..., Any], read: list[Any], round_applied: Callable[..., Any]) -> Callable[..., Any]:
    """A round that does nothing where the condition fails."""
    return lambda i, state: lax.cond(holds(i, *read, *state[0])[0], round_applied, lambda _, s: s, i, state)


def _in_blocks(round_applied: Callable[..., Any], state: Any, first_round: Any, n: int, blocks: Sequence[int]) -> Any:
    """The state after n rounds `one(i, state)` from `first_round` on, in checkpointed blocks of `blocks[0]` rounds.

    Blocks run in smaller ones of the next size, down to single rounds; a remainder runs in the smaller sizes.
    """
    if not blocks:
        return _scan_rounds(n, lambda i, s: round_applied(lax.add(first_round, i), s), state)
    size, *smaller = blocks
    if n > size:
        block = jax.checkpoint(
            lambda block_start, s: _in_blocks(round_applied, s, block_start, size, smaller), prevent_cse=False
        )
        state = _scan_rounds(n // size, lambda k, s: block(lax.add(first_round, lax.mul(k, np.int32(size))), s), state)
        first_round, n = lax.add(first_round, np.int32(n - n % size)), n % size
    return _in_blocks(round_applied, state, first_round, n, smaller) if n else state


@remembered("facts of loops", limit=256)
def _blocks(body: ClosedJaxpr, limit: int, reading: int) -> tuple[int, ...]:
    """The sizes of blocks, largest first; empty where the residuals of all rounds are in proportion to the buffers.

    `limit`: the number of rounds. `reading`: the first so many operands of the body, behind i, are read only. Cached by
    the body.
    """
    shapes = list(body.in_avals[1:])
    moving = [k for k, s in enumerate(shapes) if moves(s)]

    def backward(i: Any, *operands: Any) -> Any:
        """The pull-back of a round, whose shapes say how many bytes a round keeps."""

        def function(*some: Any) -> Any:
            return [r for r in handing_on(body, i, *replaced(operands, moving, some))[0] if moves(r)]

        return jax.vjp(function, *(operands[k] for k in moving))[1]

    residual_bytes = limit * _bytes(jax.eval_shape(backward, jax.ShapeDtypeStruct((), "int32"), *shapes))
    buffers, state = _bytes(shapes), max(1, _bytes(shapes[reading:]))
    levels, needed = 1, float(residual_bytes)
    while needed > max(FREE, MOST_KEPT * buffers) and levels < MOST_LEVELS:
        levels += 1
        needed = levels * (state ** (levels - 1) * residual_bytes) ** (1 / levels)
    # every level keeps the same: so many states of the level above, or all that the innermost rounds keep
    states = max(1.0, needed / levels / state)
    sizes = [round(limit / states**k) for k in range(1, levels)]
    return tuple(s for s in sizes if 1 < s < limit)


def _bytes(tree: Any) -> int:
    """The bytes of all arrays, or shapes, of a tree."""
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree_util.tree_leaves(tree))


# Batches


def _loop_batched(
    args: Sequence[Any], axes: Sequence[Any], *, body: ClosedJaxpr, going: ClosedJaxpr | None, limit: int | None,
    reading: int, refusal: Diagnostic,
) -> tuple[Any, Any]:  # fmt: skip
    """Batching of `rounds`: the body is mapped, with the batch as innermost axis.

    With a batched condition the loop goes on while that of any member holds, and a member whose condition fails keeps
    its state.
    """
    args = [jnp.asarray(x) for x in args]
    size = next(a.shape[x] for a, x in zip(args, axes, strict=True) if x is not None)
    # the batch innermost: outermost takes three times as long
    read = [x if a is None else with_batch(x, a, -1, size) for x, a in zip(args[:reading], axes[:reading], strict=True)]
    start = [with_batch(*pair, -1, size) for pair in zip(args[reading:], axes[reading:], strict=True)]
    places = [None if a is None else -1 for a in axes[:reading]] + [-1] * len(start)
    shapes = [jax.ShapeDtypeStruct((), "int32"), *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (*read, *start))]

    def each(function: Callable[..., Any], out: int = -1) -> Callable[..., Any]:
        return jax.vmap(function, (None, *places), out, axis_size=size)

    def once(i: Any, *operands: Any) -> list[Any]:
        """A round of one member."""
        return handing_on(body, i, *operands)[0]

    condition: Callable[..., Any] | None = None
    if going is not None:
        holds = jaxpr_as_fun(going)
        condition, one = holds, once
        if any(p is not None and used for p, used in zip(places, _reads_argument(going)[1:], strict=True)):
            # every member of the batch for as long as its own condition holds
            def once(i: Any, *operands: Any) -> list[Any]:
                """A round of one member, which keeps its state once its condition fails."""
                return lax.cond(holds(i, *operands)[0], lambda: one(i, *operands), lambda: list(operands[reading:]))

            def any_holds(*operands: Any) -> list[Any]:
                """True if the condition of any member holds."""
                return [lax.reduce(each(holds, 0)(*operands)[0], False, lax.bitwise_or, (0,))]

            condition = any_holds

    results = rounds.bind(
        *read, *start, body=jax.make_jaxpr(each(once))(*shapes), limit=limit, reading=reading, refusal=refusal,
        going=None if condition is None else jax.make_jaxpr(condition)(*shapes),
    )  # fmt: skip
    of_read = [None if a is None else x.ndim - 1 for a, x in zip(axes, read, strict=False)]
    return results, [*(x.ndim - 1 for x in start), *of_read]


def _reads_argument(closed: ClosedJaxpr) -> list[bool]:
    """Per argument of a jaxpr, True if an equation or a result reads it."""
    read = {v for e in closed.jaxpr.eqns for v in e.invars if not isinstance(v, Literal)}
    read |= {v for v in closed.jaxpr.outvars if not isinstance(v, Literal)}
    return [v in read for v in closed.jaxpr.invars]


rounds.def_impl(lambda *operands, **params: jax.jit(partial(_run_rounds, **params))(*operands))
rounds.def_abstract_eval(lambda *operands, reading, **_: [*operands[reading:], *operands[:reading]])
mlir.register_lowering(rounds, mlir.lower_fun(_run_rounds, multiple_results=True))
ad.primitive_jvps[rounds] = _loop_jvp
batching.primitive_batchers[rounds] = _loop_batched
