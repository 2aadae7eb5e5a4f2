"""Programs of steps, losses and jitted functions, kept by their StableHLO: equal texts are compiled once.

A function of labelled arrays is traced for their labels, dates and names, since it may read them. What it does not read
is not in the StableHLO, so that another window of labels costs a trace and no compilation. Large arrays that it reads
from outside, masks, metrics and coordinates of two dims, are arguments of the program and not in its text either.

>>> import numpy as np
>>> double = lambda leaves: [2.0 * leaves[0]]
>>> program = shared(double, [np.ones(2, "float32")])
>>> program([np.ones(2, "float32")])
[Array([2., 2.], dtype=float32)]
>>> shared(lambda leaves: [2.0 * leaves[0]], [np.zeros(2, "float32")]) is program
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from lowering.calls.executable import asked
from lowering.tracing import op_by_op
from tensorir.runtime.memory import RecentCache

Program = Callable[..., Any]

LARGE = 1 << 10
"""The elements from which on an array that is read from outside is an argument of a program, and no constant in it."""

PROGRAMS: RecentCache[Any, Program] = RecentCache("compiled steps, losses and functions", 64)
"""The programs that were used last, by their StableHLO."""


def shared(function: Callable[..., Any], *arguments: Any, donate: bool = False) -> Program:
    """The function of pytrees of arrays, compiled for arguments like these; equal StableHLO is compiled once
    (`PROGRAMS`).

    Compiled with the options that the programs in it ask for. `donate`: the memory of the first argument may be used
    up. Large captured arrays become arguments of the program. Functions of arrays on several devices or processes,
    whose text does not say where they are, and functions with callbacks are compiled by themselves.
    """
    if op_by_op():
        return function

    def program(*arguments: Any) -> Any:
        """The results of the function."""
        return function(*arguments)

    donated = (0,) if donate else ()
    with asked() as requests:
        traced = jax.jit(program, donate_argnums=donated, keep_unused=True).trace(*arguments)
    options: Any = dict(requests) or None
    leaves = jax.tree_util.tree_leaves(arguments)
    if jax.process_count() > 1 or any(isinstance(x, jax.Array) and x.devices() != {jax.devices()[0]} for x in leaves):
        return jax.jit(program, donate_argnums=donated, compiler_options=options)
    closed, captured = traced.jaxpr, list[Any]()
    results = jax.tree_util.tree_structure(traced.out_info)
    large_places = [k for k, x in enumerate(closed.consts) if np.size(x) >= LARGE]
    if large_places:
        captured = [jnp.asarray(closed.consts[k]) for k in large_places]

        def with_outside(*operands: Any) -> Any:
            """The results, with the large captured arrays as last operand."""
            constants = list(closed.consts)
            for k, x in zip(large_places, operands[-1], strict=True):
                constants[k] = x
            flat = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, constants))(*jax.tree_util.tree_leaves(operands[:-1]))
            return results.unflatten(flat)

        traced = jax.jit(with_outside, donate_argnums=donated, keep_unused=True).trace(*arguments, captured)
    lowered = traced.lower()
    text = lowered.as_text()
    if "mhlo.num_partitions = 1 :" not in text:
        # a program in it is on several devices, and arrays go there with the call
        return jax.jit(program, donate_argnums=donated, compiler_options=options)
    weak_types = [x.weak_type for x in traced.jaxpr.out_avals]
    digest = hashlib.blake2b(repr((weak_types, options, donate)).encode())
    digest.update(text.encode())
    # callbacks are told apart by a number alone
    key: Any = object() if "callback" in text else (digest.digest(), lowered.in_tree, results)
    compiled = PROGRAMS.of(key, lambda: lowered.compile(compiler_options=options))
    return (lambda *operands: compiled(*operands, captured)) if large_places else compiled
