"""Messages bring what the exact domains of a program say that each block needs, once, and nothing else."""

import itertools

import pytest

import tensorir as ti
from tensorir.analysis.domains import domains
from tensorir.distribution.exchange import exchange
from tensorir.distribution.local_program import localised
from tensorir.distribution.partition import decompositions
from tensorir.distribution.plan import DistributionPlan

I, J = ti.dims("I J")


def with_boundary(low: int, high: int, n: int, bc) -> ti.Fencil:
    @ti.field_operator
    def beside(x):
        e = ti.extend(x, {I: (low, high)}, bc) if low or high else x
        return e(I + high) - e(I - low)

    return beside.fencil(ti.tensor("float", I=(0, n)))


PROGRAMS = {
    "shifts": lambda low, high, n: ti.parse(
        f"f(out: tensor<float, I[{low}:{n - high}]>, x: tensor<float, I[0:{n}]>) "
        f"{{ out ← ⟪I, {high}⟫(x) - ⟪I, {-low}⟫(x); }}"
    ),
    "staggered": lambda low, high, n: ti.parse(
        f"f(out: tensor<float, I[{low}:{n - high}]>, x: tensor<float, I[-1:{n}]>) "
        f"{{ out ← x × x; out ← ⟪I, {high}⟫(x) - ⟪I, {-low - 1}⟫(x) + out; }}"
    ),
    "periodic": lambda low, high, n: with_boundary(low, high, n, ti.periodic()),
    "Neumann": lambda low, high, n: with_boundary(low, high, n, ti.neumann(0.5)),
    "linear and Dirichlet": lambda low, high, n: with_boundary(low, high, n, (ti.linear(), ti.dirichlet(1.0))),
}


def messages(program: ti.Fencil, devices: int):
    parts = decompositions(program, {"I": "px"}, {"px": devices})
    return parts["I"], exchange(localised(program, parts)).messages


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_device_gets_what_its_block_reads_and_lacks(kind):
    for devices, low, high, n in itertools.product((1, 2, 3, 7), (0, 1, 3), (0, 2), (9, 14)):
        program = PROGRAMS[kind](low, high, n)
        part, sent = messages(program, devices)
        whole = program["out"].type.dims["I"]
        for target, block in enumerate(part.blocks()):
            mine = block & whole
            got = [p for m in sent if m.target == target for p in m.points]
            places = [m.position + k for m in sent if m.target == target for k in range(len(m.points))]
            assert len(places) == len(set(places)), (kind, devices, low, high, n)
            if mine:
                needed = domains(program, {"out": {"I": (mine.start, mine.stop)}}).params["x"]
                assert {p for (p,) in needed} - set(block) <= set(got), (kind, devices, low, high, n)
                if mine == block:
                    assert set(got) <= {p for (p,) in needed}, (kind, devices, low, high, n)


def test_a_message_comes_from_the_device_that_has_the_points():
    part, sent = messages(PROGRAMS["periodic"](3, 2, 14), 4)
    assert sent
    assert all(part.block(m.source).covers(m.points) and m.source != m.target for m in sent)


def test_a_picture_has_a_strip_at_each_side_that_gets_points():
    program = ti.parse("""f(y: tensor<float, I[1:8], J[0:6]>, x: tensor<float, I[0:9], J[0:6]>) {
      y ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); }""")
    local = localised(program, decompositions(program, {"I": "px", "J": "py"}, {"px": 3, "py": 2}))
    shown = DistributionPlan(local, exchange(local))._repr_html_()
    # two messages each way along I, in both rows of blocks; nothing along J
    assert shown.count('opacity="0.75"') == 8 and "I[3:6]" in shown and "1 point before along I" in shown


def test_a_plan_says_blocks_halos_and_messages():
    program = ti.parse("""f(y: tensor<float, I[0:9], J[1:6]>, x: tensor<float, I[0:9], J[0:6]>) {
      y ← x - ⟪J, -1⟫(x); y[I[2:9]] ← y + ⟪I, -2⟫(y); }""")
    local = localised(program, decompositions(program, {"I": "px", "J": "py"}, {"px": 2, "py": 2}))
    assert str(DistributionPlan(local, exchange(local))) == (
        "f on 4 devices\n"
        "I[0:9] along 'px' in 2 blocks of 5, the last of 4\n"
        "J[0:6] along 'py' in 2 blocks of 3\n"
        "x: 2 points before along I, 1 point before along J\n"
        "px 0 → 1: x at I[3:5], 48 bytes\n"
        "py 0 → 1: x at J[2:3], 56 bytes\n"
        "2 permutes and 208 bytes a step"
    )
