"""The parts of a block, in the oracle, give the points of the whole: an interior, and strips around it."""

import jax
import numpy as np
import pytest

import tensorir as ti
from stencils import library
from tensorir.distribution.local_program import localised
from tensorir.distribution.partition import decompositions
from tests.distribution.test_distributed_programs import PROGRAMS


def views(local, part, devices, arrays):
    """The parameters of a part on one device, of the arrays of the whole: what lies beyond them is 7."""
    given = {}
    for p in part.program.inputs:
        view = next((v for v in local.views if v.param.name == p.name), None)
        whole = view and view.field.type.dims
        value = arrays.get(part.results.get(p.name) or (view and view.field.name))
        start = {d: local.parts[d].start(devices.get(d, 0)) for d in local.parts}
        if value is None:
            ((d, i),) = p.type.dims.items
            given[p.name] = np.arange(i.start, i.stop, dtype=np.int32) + np.int32(start[d])
            continue
        for axis, (d, i) in enumerate(p.type.dims.items):
            whole = whole or local.program[part.results[p.name]].type.dims
            points = np.arange(i.start, i.stop) + start.get(d, 0)
            if view and any(view.offsets.get(d, ())):
                points = (points - whole[d].start) % len(whole[d]) + whole[d].start
            inside = (points >= whole[d].start) & (points < whole[d].stop)
            value = np.take(value, np.where(inside, points - whole[d].start, 0), axis)
            value = np.where(np.expand_dims(inside, [k for k in range(value.ndim) if k != axis]), value, 7)
        given[p.name] = value
    return given


@pytest.mark.parametrize("kind", [*PROGRAMS, "hdiff", "shallow_water"])
@pytest.mark.parametrize("n", [32, 35])
def test_parts_of_a_block_cover_it_with_the_values_of_the_whole(kind, n):
    sizes = {"n": n, "m": 9, **({"l": 2} if kind == "hdiff" else {})}
    stencil: ti.Fencil = PROGRAMS[kind](2, 1, n) if kind in PROGRAMS else library.load(kind).specialise(**sizes)
    local = localised(stencil, decompositions(stencil, {"I": "px"}, {"px": 2}))
    assert len(local.subblocks) >= 3
    rng = np.random.default_rng(0)
    arrays = {p.name: rng.random(p.type.dims.shape) for p in stencil.inputs}
    want = ti.reference.run(stencil, **{name: a.copy() for name, a in arrays.items()})
    for device, block in enumerate(local.parts["I"].blocks()):
        seen = {name: np.zeros(len(stencil[name].type.dims["I"] & block), int) for name in want}
        for part in local.subblocks:
            known = {**arrays, **{result: want[result] for result in part.results.values()}}
            given = views(local, part, {"I": device}, known)
            for name, values in ti.reference.run(part.program, **given).items():
                whole = stencil[name].type.dims["I"]
                points = range(part.dims["I"].start + block.start, part.dims["I"].stop + block.start)
                own = [(k, p) for k, p in enumerate(points) if p in whole and p in block]
                at = [p - whole.start for _, p in own]
                np.testing.assert_array_equal(values[[k for k, _ in own]], want[name][at])
                seen[name][[p - max(whole.start, block.start) for _, p in own]] += 1
        assert all((counts == 1).all() for counts in seen.values())
    assert all(i.start >= 0 and i.stop <= local.parts["I"].size for i in interior_reads(local))


def interior_reads(local):
    fields = {v.param.name for v in local.views}
    interior = [part for part in local.subblocks if part.dims == local.subblocks[-1].dims]
    return [p.type.dims["I"] for s in interior for p in s.program.inputs if p.name in fields and "I" in p.type.dims]


def test_a_part_of_a_block_makes_nothing_of_what_it_has_no_point_of():
    """The last strip reads two points to the right, and has none of the operands that are put together before it."""
    stencil = ti.parse("""f(out: tensor<float, I[0:18]>, x: tensor<float, I[-1:20]>) {
      out ← concat(subset(if x > 0.5 then x + ⟪I, -1⟫(x) + ⟪I, 1⟫(x) else x, I[0:5]), subset(⟪I, 2⟫(x), I[5:18])); }""")
    x = np.random.default_rng(1).random(21)
    found = ti.distribute(stencil, jax.make_mesh((1,), ("px",)), {"I": "px"}, numerics="exact")(x=x)
    np.testing.assert_array_equal(found["out"], ti.reference.run(stencil, x=x)["out"])
