"""The exchange of a mesh's points before a step, within `jax.shard_map`: own points in, own points and halo out.

What is sent is gathered by lists of places, and what came is put in order by another gather: the adjoint, which JAX
derives, sends back in the same rounds and adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax import lax

from tensorir.distribution.local_program import View
from tensorir.distribution.mesh_exchange import Layer, MeshExchange

__all__ = ["lists_of", "with_mesh_halos"]

Leaves = tuple[jax.Array, ...]


def lists_of(plan: MeshExchange) -> dict[str, np.ndarray[Any, Any]]:
    """What the devices read of the plan, each its own part: arrays device by device, by names that no field has."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    for k, layer in enumerate(plan.layers):
        found.update({_send(k, r): table.reshape(-1) for r, table in enumerate(layer.send)})
        found[_receive(k)] = layer.receive.reshape(-1)
    return found


def _send(layer: int, step: int) -> str:
    return f"sent of layer {layer} in round {step}"


def _receive(layer: int) -> str:
    return f"halo of layer {layer}"


def with_mesh_halos(
    arrays: Mapping[str, Leaves], views: Mapping[str, View], plan: MeshExchange, fixed: Mapping[str, Leaves]
) -> dict[str, Leaves]:
    """The views with the points that they need of other devices."""
    count = 1 if plan.all_to_all else len(plan.rounds)
    got: dict[tuple[str, int], list[jax.Array]] = {}
    for step in range(count):
        sent: dict[tuple[str, int], jax.Array] = {}
        for k, layer in enumerate(plan.layers):
            if not layer.send[step].size:
                continue
            (places,) = fixed[_send(k, step)]
            for name in layer.views:
                for n, leaf in enumerate(arrays[name]):
                    sent[name, n] = _rows(leaf, places, _axis(views[name], layer))
        for key, rows in _exchanged(sent, plan, step).items():
            got.setdefault(key, []).append(rows)
    result = dict(arrays)
    for k, layer in enumerate(plan.layers):
        (order,) = fixed[_receive(k)]
        for name in layer.views:
            axis = _axis(views[name], layer)
            result[name] = tuple(
                _extended(leaf, lax.concatenate(got[name, n], 0), order, axis) for n, leaf in enumerate(arrays[name])
            )
    return result


def _axis(view: View, layer: Layer) -> int:
    return view.param.type.dims.names.index(layer.dim)


def _exchanged(
    sent: Mapping[tuple[str, int], jax.Array], plan: MeshExchange, step: int
) -> dict[tuple[str, int], jax.Array]:
    """What every device gets in a round, one collective for each element type."""
    found: dict[tuple[str, int], jax.Array] = {}
    lines = plan.parts if plan.all_to_all else 1
    collective: Callable[[jax.Array], jax.Array] = (
        (lambda x: lax.all_to_all(x, plan.axis, 0, 0, tiled=True))
        if plan.all_to_all
        else (lambda x: lax.ppermute(x, plan.axis, plan.rounds[step]))
    )
    for dtype in dict.fromkeys(x.dtype for x in sent.values()):
        some = {key: x for key, x in sent.items() if x.dtype == dtype}
        packed = [lax.reshape(x, (lines, x.size // lines)) for x in some.values()]
        came = collective(lax.concatenate(packed, 1))
        begin = 0
        for key, x in some.items():
            width = x.size // lines
            found[key] = lax.reshape(lax.slice_in_dim(came, begin, begin + width, axis=1), x.shape)
            begin += width
    return found


def _rows(x: jax.Array, places: jax.Array, axis: int) -> jax.Array:
    """What stands at places along an axis, that axis first."""
    moved = jax.numpy.moveaxis(x, axis, 0)
    return moved.at[places].get(mode="promise_in_bounds")


def _extended(block: jax.Array, came: jax.Array, order: jax.Array, axis: int) -> jax.Array:
    """A device's own points, and after them its halo, of what came in the order of the rounds."""
    halo = jax.numpy.moveaxis(_rows(came, order, 0), 0, axis)
    return lax.concatenate([block, halo], axis)
