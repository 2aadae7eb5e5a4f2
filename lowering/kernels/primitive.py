"""The primitive that a program is, where XLA compiles it for a GPU: a program of `jax.lax`, and there kernels.

Its derivative is one more such program, of values and tangents, in which it is linear; the transpose of that is one of
values and cotangents. Each is parted into kernels by itself, when it is lowered: the adjoint of a region is a region.
What derivatives need of the way forward they compute again, which takes less time than memory would.

>>> import jax, jax.numpy as jnp
>>> smooth = in_kernels(lambda x: [x[1:] * x[:-1]])
>>> jax.grad(lambda x: smooth(x)[0].sum())(jnp.array([1.0, 2.0, 4.0])).tolist()
[2.0, 5.0, 2.0]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import jax
from jax import lax
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from lowering.gradients.checkpointed_loop import moves, replaced
from lowering.gradients.in_place_adjoints import still
from lowering.kernels.layouts import Layout, in_order
from lowering.kernels.program import INNER, bind, evaluate, flattened, shapes_of, states_of, values_of
from lowering.kernels.regions import Left, Parts, parted
from lowering.kernels.report import LoopPlan, reports_of
from lowering.kernels.stages import Staged, steps_at_once
from lowering.tracing import shaped

Function = Callable[..., list[jax.Array]]

kernels = Primitive("kernels")
kernels.multiple_results = True


PLAIN: ContextVar[bool] = ContextVar("programs are lowered without kernels", default=False)


@contextmanager
def without_kernels() -> Iterator[None]:
    """Programs that are lowered in here have no kernels: those depend on the processor and on the number of threads."""
    token = PLAIN.set(True)
    try:
        yield
    finally:
        PLAIN.reset(token)


def in_kernels(function: Function) -> Function:
    """The same function of arrays to a list of arrays; on GPUs its program is parted into kernels."""

    return lambda *xs: bound(jax.make_jaxpr(function)(*xs), xs)


def bound(closed: ClosedJaxpr, operands: Sequence[Any], native: bool = False) -> list[Any]:
    """The results of a program by the primitive `kernels`; by plain `jax.lax` if it has no kernels, or has effects.

    `native`: kernels for CPUs.
    """
    if any(isinstance(c, Tracer) for c in closed.consts):
        # values of a trace around it, as records of a forcing, are operands: a program keeps what is known
        closed, operands = _with_constants_as_inputs(closed), [*closed.consts, *operands]
    # an axis of devices that is named does nothing by itself
    effects = [e for e in closed.effects if type(e).__name__ != "NamedAxisEffect"]
    if effects or not parted(closed, native).any_kernels:
        return jaxpr_as_fun(closed)(*operands)
    return kernels.bind(*operands, body=closed, count=len(operands), native=native)


def parted_as_a_whole(closed: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    """The results of a program; one that has kernels for CPUs inside is parted into kernels anew, as one program."""
    has_kernels = in_steps(closed)[0] is not None
    return bound(closed, operands, native=True) if has_kernels else jaxpr_as_fun(closed)(*operands)


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, whose kernels for GPUs run in Pallas' interpreter: on any machine, slowly."""

    def call(*xs: Any) -> Any:
        """The results of the function, its program evaluated equation by equation."""
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*xs)
        flat = jax.tree_util.tree_leaves(xs)
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shape), evaluate(closed, flat, rule))

    def rule(e: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
        """The results of one equation: kernels interpreted, calls evaluated, everything else bound."""
        if e.primitive is kernels:
            return _run_in_kernels(*values, **e.params, interpret=True)
        return evaluate(e.params["jaxpr"], values, rule) if e.primitive.name in ("jit", "pjit") else bind(e, values)

    return call


def repeated(step: Callable[[Any], Any], state: Any, n: Any) -> Any:
    """The state, a pytree of arrays, after n steps; n may be traced.

    On GPUs the state is carried in the layout that the kernels of a step want, and transposed before the first step and
    after the last. On CPUs a step with kernels is parted as a whole, and two steps are one round: each reads the
    other's results, and no state is copied. Other steps are a `lax.fori_loop`.
    """
    flat, tree = jax.tree_util.tree_flatten(state)
    closed = jax.make_jaxpr(lambda *xs: jax.tree_util.tree_leaves(step(tree.unflatten(xs))))(*flat)
    types_agree = [jax.numpy.result_type(x) == a.dtype for x, a in zip(flat, closed.out_avals, strict=True)]
    if all(types_agree) and _has_native_kernels(closed.jaxpr):
        return tree.unflatten(_in_pairs(closed, flat, n))
    if not _has_only_kernels(closed.jaxpr):
        return lax.fori_loop(0, n, lambda _, s: step(s), state)
    constants = closed.consts
    layout = Layout(flattened(_with_constants_as_inputs(closed)), repeated=True)
    turned = [in_order(x, order) for x, order in zip([*constants, *flat], layout.entries, strict=True)]
    program, count = layout.program, len(constants)
    final_state = lax.fori_loop(0, n, lambda _, xs: bound(program, [*turned[:count], *xs]), turned[count:])
    inverse_orders = [[order.index(k) for k in range(len(order))] for order in layout.entries[count:]]
    return tree.unflatten([in_order(x, axes) for x, axes in zip(final_state, inverse_orders, strict=True)])


def in_steps(closed: ClosedJaxpr) -> tuple[Parts | None, int]:
    """The regions of a step that is parted as a whole for CPUs, and how many steps one kernel computes.

    (None, 1) if the step has no kernels of stages: then the programs called in it have kernels of their own, if any.
    """
    if not _has_native_kernels(closed.jaxpr):
        return None, 1
    parts = parted(closed, native=True)
    match parts.regions:
        case [Staged() as region]:
            return parts, steps_at_once(region, parts.results_of(region))
        case regions:
            return (parts if any(isinstance(r, Staged) for r in regions) else None), 1


def plan_of_steps(step: Callable[[Any], Any], state: Any) -> LoopPlan:
    """The plan of a step of `repeated`; nothing is computed.

    >>> print(plan_of_steps(lambda x: 0.5 * x, jax.numpy.zeros(3)))
    a step is XLA's, with the kernels of the programs in it: their plans have those
    """
    flat, tree = jax.tree_util.tree_flatten(state)
    closed = jax.make_jaxpr(lambda *xs: jax.tree_util.tree_leaves(step(tree.unflatten(xs))))(*flat)
    parts, k = in_steps(closed)
    return LoopPlan(k, None if parts is None else tuple(reports_of(parts, [])))


def _in_pairs(closed: ClosedJaxpr, flat: list[Any], n: Any) -> list[Any]:
    """The state after n steps with kernels for CPUs: two kernels a round, of k steps each where that pays, then the
    remaining steps.
    """
    parts, k = in_steps(closed)

    def once(xs: Sequence[Any]) -> list[Any]:
        """The state after one step."""
        return jaxpr_as_fun(closed)(*xs) if parts is None else bound(closed, xs, native=True)

    def several(*xs: Any) -> list[Any]:
        """The state after k steps, as one program."""
        for _ in range(k):
            xs = jaxpr_as_fun(closed)(*xs)
        return list(xs)

    if k > 1:
        at_once = partial(bound, jax.make_jaxpr(several)(*flat), native=True)
        flat = lax.fori_loop(0, n // (2 * k), lambda _, xs: at_once(at_once(xs)), flat)
        n %= 2 * k
    flat = lax.fori_loop(0, n // 2, lambda _, xs: once(once(xs)), flat)
    return lax.fori_loop(0, n % 2, lambda _, xs: once(xs), flat)


def _has_native_kernels(jaxpr: Jaxpr) -> bool:
    """True if a step, or a jitted function called in it, has kernels for CPUs."""
    inner = [e.params["jaxpr"].jaxpr for e in jaxpr.eqns if e.primitive.name in ("jit", "pjit")]
    return any(e.primitive is kernels and e.params["native"] for e in jaxpr.eqns) or any(
        map(_has_native_kernels, inner)
    )


def _has_only_kernels(jaxpr: Jaxpr) -> bool:
    """True if every equation of a step, also in jitted functions called in it, is `kernels`."""
    inner = [e.params["jaxpr"].jaxpr for e in jaxpr.eqns if e.primitive.name in ("jit", "pjit")]
    own_eqns = [e for e in jaxpr.eqns if e.primitive.name not in ("jit", "pjit")]
    return bool(jaxpr.eqns) and all(e.primitive is kernels for e in own_eqns) and all(map(_has_only_kernels, inner))


def _with_constants_as_inputs(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program whose captured constants are its first inputs."""
    jaxpr = closed.jaxpr
    return ClosedJaxpr(jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars]), [])


def _run(*operands: Any, body: ClosedJaxpr, count: int, native: bool = False) -> list[Any]:
    return jaxpr_as_fun(body)(*operands)


def _run_in_kernels(
    *operands: Any, body: ClosedJaxpr, count: int, native: bool = False, interpret: bool = False
) -> list[Any]:
    """The results of a program, parted into regions, each run as a kernel or by XLA."""
    # programs wait for what they run on alone to be imported
    if native:
        from lowering.kernels.custom_calls import launched
    else:
        from lowering.kernels.emit import launched

    return run(parted(body, native), operands, partial(launched, interpret=True) if interpret else launched)


def run(parts: Parts, operands: Sequence[Any], launch: Callable[..., list[Any]]) -> list[Any]:
    """The results of a parted program for its operands.

    `launch(program, region, results, env)` gives the results of a kernel; equations left to XLA are bound, with kernels
    in the loops among them.
    """
    program = parts.program
    env: dict[Any, Any] = {**program.constants, **dict(zip(program.inputs, operands, strict=True))}
    for region in parts.regions:
        if not isinstance(region, Left):
            results = parts.results_of(region)
            env.update(zip(results, launch(program, region, results, env), strict=True))
            continue
        for e in (program.equations[k] for k in region.equations):
            if not all(v in env for v in e.outvars):
                params = {**e.params, **_inner_in_kernels(e, parts.native, launch)}
                env.update(zip(e.outvars, bind(e, values_of(e.invars, env), params), strict=True))
    return values_of(program.results, env)


def _inner_in_kernels(e: JaxprEqn, native: bool, launch: Callable[..., list[Any]]) -> dict[str, Any]:
    """The parameters of an equation that hold programs, such as the body of a loop, with kernels in these programs."""

    def inner(closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program with kernels; itself if it has none."""
        parts = parted(closed, native)
        return jax.make_jaxpr(lambda *xs: run(parts, xs, launch))(*shapes_of(closed)) if parts.any_kernels else closed

    names = INNER.get(e.primitive.name, ())
    return {n: tuple(map(inner, x)) if isinstance(x := e.params[n], tuple) else inner(x) for n in names}


def _derivative(body: ClosedJaxpr, varied: Sequence[int]) -> Function:
    """A function of operands and of the tangents of those at `varied`, which gives the tangents of floating results.

    Scans in it are rematerialised: their derivatives compute a step again from the state before it.
    """

    def rule(e: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
        return _rematerialised_scan(e, values) if e.primitive.name == "scan" else bind(e, values)

    def tangents(*operands: Any) -> list[Any]:
        """The tangents of the floating results."""
        xs, directions = operands[: len(body.in_avals)], operands[len(body.in_avals) :]

        def some(*moved: Any) -> list[Any]:
            """The floating results as a function of the operands at `varied`."""
            return [r for r in evaluate(body, replaced(xs, varied, moved), rule) if moves(r)]

        return jax.jvp(some, [xs[k] for k in varied], list(directions))[1]

    return tangents


DEAR = frozenset([
    "dot_general", "conv_general_dilated", "sort", "scan", "while", "cond", "rounds", "swept", "fft", "ppermute",
    "psum", "psum_invariant", "pmax", "pmin", "all_gather", "all_gather_invariant", "all_to_all",
])  # fmt: skip
"""Primitives that are not computed again for a derivative; JAX differentiates programs with these."""


def _jax_jvp(
    primals: Sequence[Any], varied: Sequence[int], directions: Sequence[Any], body: ClosedJaxpr
) -> tuple[Any, Any]:
    """The results and their tangents, by `jax.jvp` of the program of `jax.lax`; `directions`: tangents of the
    primals at `varied`.
    """

    def some(*tangents: Any) -> tuple[list[Any], list[Any]]:
        """The floating results, and the others, as a function of the primals at `varied`."""
        values = jaxpr_as_fun(body)(*replaced(primals, varied, tangents))
        return [r for r in values if moves(r)], [r for r in values if not moves(r)]

    floats, tangents, other_results = map(
        iter, jax.jvp(some, [primals[k] for k in varied], list(directions), has_aux=True)
    )
    results = [next(floats) if moves(a) else next(other_results) for a in body.out_avals]
    return results, [next(tangents) if moves(r) else still(r) for r in results]


def _rematerialised_scan(e: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """The results of a scan whose step is checkpointed."""
    p, step = e.params, jax.checkpoint(jaxpr_as_fun(e.params["jaxpr"]), prevent_cse=False)
    count, states = states_of(e)
    constants, start, levels = values[:count], values[count : count + states], values[count + states :]

    def body(state: list[Any], level: list[Any]) -> tuple[list[Any], list[Any]]:
        results = step(*constants, *state, *level)
        return list(results[:states]), list(results[states:])

    final_states, stacked = lax.scan(body, list(start), list(levels), length=p["length"], reverse=p["reverse"])
    return [*final_states, *stacked]


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, body: ClosedJaxpr, count: int, native: bool
) -> tuple[Any, Any]:
    """JVP of `kernels`: by one more program of kernels, or by JAX if an expensive primitive would be computed again
    (`DEAR`).

    The program is linear in its operands after the first `count`, so that tangents of these alone go through the same
    program.
    """
    varied = [k for k, t in enumerate(tangents) if not isinstance(t, ad.Zero)]
    directions = [tangents[k] for k in varied]
    if any(e.primitive.name in DEAR for e in parted(body, native).left):
        return _jax_jvp(primals, varied, directions, body)
    results = kernels.bind(*primals, body=body, count=count, native=native)
    if not varied:
        return results, [still(r) for r in results]
    if all(k >= count for k in varied):
        # linear in what moves
        all_tangents = [ad.instantiate_zeros(t) for t in tangents[count:]]
        return results, kernels.bind(*primals[:count], *all_tangents, body=body, count=count, native=native)
    derivative = jax.make_jaxpr(_derivative(body, varied))(*primals, *directions)
    derivatives = iter(kernels.bind(*primals, *directions, body=derivative, count=len(primals), native=native))
    return results, [next(derivatives) if moves(r) else still(r) for r in results]


def _transpose(cotangents: Sequence[Any], *operands: Any, body: ClosedJaxpr, count: int, native: bool) -> list[Any]:
    """Transpose of `kernels` in the operands after the first `count`: kernels of the transposed program."""
    residuals = operands[:count]
    assert not any(map(ad.is_undefined_primal, residuals))
    nonzero_places = [k for k, c in enumerate(cotangents) if not isinstance(c, ad.Zero)]
    nonzero = [cotangents[k] for k in nonzero_places]
    shapes = [shaped(x.aval.shape, x.aval.dtype, x.aval) for x in operands[count:]]

    def transposed(*operands: Any) -> list[Any]:
        """The cotangents of the linear operands, of residuals and of the nonzero cotangents of results."""
        values, result_cotangents = operands[: len(residuals)], operands[len(residuals) :]

        def linear(*moved: Any) -> list[Any]:
            """The results with nonzero cotangents, as a function of the linear operands."""
            results = jaxpr_as_fun(body)(*values, *moved)
            return [results[k] for k in nonzero_places]

        return list(jax.linear_transpose(linear, *shapes)(list(result_cotangents)))

    program, operands = jax.make_jaxpr(transposed)(*residuals, *nonzero), (*residuals, *nonzero)
    return [None] * count + kernels.bind(*operands, body=program, count=len(operands), native=native)


def _batched(
    args: Sequence[Any], axes: Sequence[Any], *, body: ClosedJaxpr, count: int, native: bool
) -> tuple[Any, Any]:
    """Batching of `kernels`: kernels of the mapped program."""
    program = jax.make_jaxpr(jax.vmap(jaxpr_as_fun(body), tuple(axes)))(*args)
    return kernels.bind(*args, body=program, count=count, native=native), [0] * len(program.out_avals)


kernels.def_impl(_run)
kernels.def_abstract_eval(lambda *operands, body, **_: list(body.out_avals))
_in_lax, _in_kernels = (mlir.lower_fun(run, multiple_results=True) for run in (_run, _run_in_kernels))


def _lowered(context: Any, *operands: Any, on_cpu: bool, **params: Any) -> Any:
    """The lowering: kernels if the platform is the one they are for, else the program of `jax.lax`.

    `on_cpu`: the platform is a CPU. XLA cannot divide the arrays of a kernel among devices, and exported programs must
    not hold kernels, whose stored form is not promised to last: both get the program of `jax.lax`, as do programs
    within `without_kernels`.
    """
    module = context.module_context
    axes = module.axis_context
    # within shard_map over all axes a program is that of one device
    manual = getattr(axes, "manual_axes", None)
    on_one_device = (
        manual == frozenset(axes.mesh.axis_names) if manual else getattr(axes, "num_devices", None) in (None, 1)
    )
    if params["native"] != on_cpu or not on_one_device or module.lowering_parameters.for_export or PLAIN.get():
        return _in_lax(context, *operands, **params)
    with warnings.catch_warnings():
        # users have no say in it: from JAX 0.11 on Triton is to be left for Mosaic
        warnings.filterwarnings("ignore", "The Pallas Triton backend", DeprecationWarning)
        return _in_kernels(context, *operands, **params)


mlir.register_lowering(kernels, _in_lax)
for _platform in ("cpu", "cuda", "rocm"):
    mlir.register_lowering(kernels, partial(_lowered, on_cpu=_platform == "cpu"), platform=_platform)
ad.primitive_jvps[kernels] = _jvp
ad.primitive_transposes[kernels] = _transpose
batching.primitive_batchers[kernels] = _batched
