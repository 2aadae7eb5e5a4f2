"""Schedules undone of what networks are made of: the text of the module itself again, and TVM's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
import tensorir.tir as tir
from tests.generate.examples import sampled
from tests.lift.costs import costs_of
from tests.peers.test_tvm_undone import (
    Make,
    all_inside,
    as_it_is,
    costs,
    fetched_together,
    grouped,
    in_two_parts,
    last_block,
    mirrored,
    new,
    normal_groups,
    over_threads,
    scheduled,
    steps,
)

pytestmark = pytest.mark.filterwarnings("ignore")


def adaptive() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((1, 3, 7, 5), name="A")
    return [a, topi.nn.adaptive_pool(a, (3, 2), "avg")]


def overlapping() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((1, 3, 7, 5), name="A")
    return [a, topi.nn.adaptive_pool(a, (3, 3), "max")]


def channels_last() -> list[Any]:
    from tvm import te

    a, w = te.placeholder((6, 6, 2), name="A"), te.placeholder((3, 3, 2, 3), name="W")
    u, v, c = (te.reduce_axis((0, n), name) for n, name in ((3, "u"), (3, "v"), (2, "c")))

    def total(y: Any, x: Any, f: Any) -> Any:
        return te.sum(a[y + u, x + v, c] * w[u, v, c, f], axis=[u, v, c])

    return [a, w, te.compute((4, 4, 3), total, name="C")]


def spread() -> list[Any]:
    from tvm import te, topi

    a, w = te.placeholder((1, 3, 5, 5), name="A"), te.placeholder((3, 4, 3, 3), name="W")
    return [a, w, topi.nn.conv2d_transpose_nchw(a, w, (2, 2), (1, 1), "float32", (1, 1))]


def spread_groups() -> list[Any]:
    from tvm import te, topi

    a, w = te.placeholder((1, 4, 5), name="A"), te.placeholder((4, 2, 3), name="W")
    return [a, w, topi.nn.group_conv1d_transpose_ncw(a, w, 2, 1, "float32", 0, 2)]


def inside_in_two_parts(s: Any) -> None:
    last = last_block(s)
    s.loop_partition(s.get_loops(last)[1], [2])


def parts_near(s: Any) -> None:
    """Everything again per part of a row, of which the last one is shorter: parts share what they read."""
    last = last_block(s)
    spatial = [x for x, i in zip(s.get_loops(last), s.get(last).iter_vars, strict=True) if i.iter_type == 0]
    tile, _ = s.split(spatial[-1], [None, 3])
    for block in reversed(list(map(s.get, s.get_child_blocks(s.get_sblock("root"))))[:-1]):
        s.compute_at(s.get_sblock(block.name_hint), tile)


CASES: dict[str, tuple[Make, Callable[[Any], None]]] = {
    **{f"adaptive, {f.__name__}": (adaptive, f) for f in (as_it_is, over_threads)},
    **{f"overlapping, {f.__name__}": (overlapping, f) for f in (as_it_is, over_threads)},
    "mirrored, over_threads": (mirrored, over_threads),
    **{f"spread, {f.__name__}": (spread, f) for f in (as_it_is, all_inside)},
    **{f"spread groups, {f.__name__}": (spread_groups, f) for f in (as_it_is, all_inside, over_threads)},
}


SCHEDULED: dict[str, tuple[Make, Callable[[Any], None]]] = {
    **{f"{make.__name__}, parts_near": (make, parts_near) for make in (spread, spread_groups)},
    **{f"{make.__name__}, fetched_together": (make, fetched_together) for make in (grouped, channels_last)},
    "mirrored, in_two_parts": (mirrored, in_two_parts),
    **{f"{make.__name__}, inside_in_two_parts": (make, inside_in_two_parts) for make in (normal_groups, mirrored)},
}
"""Those of which TVM's lowering makes something else.

It simplifies each part of a loop by itself, and gives storage per part an origin that is the greater of two numbers.
"""


@pytest.mark.parametrize("name", sampled([*CASES, *SCHEDULED]))
def test_a_network_scheduled_and_each_step_of_its_lowering_lift_to_what_the_module_takes_and_its_values(name: str):
    make, schedule = (CASES | SCHEDULED)[name]
    plain, changed = scheduled(make, schedule)
    wanted = costs(plain)
    function: Any = tir.parse(plain)["main"]
    rng = np.random.default_rng(0)
    shapes = [tuple(e.value for e in function.buffer_map[p].shape) for p in function.params]
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    *_, values = tir.interpret(function, *arrays)
    for step, module in [("scheduled", changed)] if name in SCHEDULED else new(steps(changed)):
        program = ti.lift(tir.parse(module)["main"])
        assert (found := costs_of(program)).near(wanted), (step, found, wanted)
        (got,) = program(*arrays)
        np.testing.assert_allclose(got, values, rtol=1e-5, atol=1e-6, err_msg=step)


def winograd_of_channels_last() -> list[Any]:
    from tvm import te, topi

    a, w = te.placeholder((2, 10, 10, 4), name="A"), te.placeholder((3, 3, 4, 4), name="W")
    return [a, w, topi.nn.conv2d_winograd_nhwc(a, w, 1, 1, 1, "float32")]


@pytest.mark.parametrize(
    "step", [pytest.param(s, marks=[pytest.mark.nightly] * k) for k, s in enumerate(("scheduled", "StorageRewrite"))]
)
def test_tiles_of_a_transform_that_threads_divide_by_other_extents_are_lifted(step: str):
    """The result has ten rows of ten, and the transform writes tiles of four by four."""
    _, module = scheduled(winograd_of_channels_last, over_threads)
    function: Any = tir.parse(dict(new(steps(module)))[step])["main"]
    rng = np.random.default_rng(0)
    a, w = rng.normal(size=(2, 10, 10, 4)).astype(np.float32), rng.normal(size=(3, 3, 4, 4)).astype(np.float32)
    (found,) = ti.lift(function)(a, w, np.zeros((2, 10, 10, 4), np.float32))
    around = np.pad(a, ((0, 0), (1, 1), (1, 1), (0, 0)))
    wanted = sum(around[:, u : u + 10, v : v + 10] @ w[u, v] for u in range(3) for v in range(3))
    np.testing.assert_allclose(found, wanted, atol=2e-4)
