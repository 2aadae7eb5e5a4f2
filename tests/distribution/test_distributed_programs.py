"""Distributed programs: chains, blocks within blocks, messages and meshes."""

import itertools
from random import Random

import numpy as np
import pytest

import tensorir as ti
from tensorir import reference
from tensorir.analysis.domains import domains
from tensorir.distribution.exchange import exchange
from tensorir.distribution.local_program import localised
from tensorir.distribution.mesh_exchange import MeshMessage
from tensorir.distribution.partition import decompositions
from tensorir.distribution.plan import DistributionPlan
from tensorir.distribution.whole_program import Feedback, chained

# Several steps of a program as one program, against the oracle that runs them one by one


X = "tensor<float, I[0:8]>"
LEAPFROG = ti.parse(f"""f(y: {X}, a: {X}, b: {X}, c: tensor<float>) {{
  y ← b;
  y[I[1:7]] ← b + c × (⟪I, 1⟫(a) - ⟪I, -1⟫(a));
}}""")


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_steps_of_two_levels_of_time_are_those_that_run_one_by_one(steps):
    several = chained(LEAPFROG, Feedback({"a": 0, "b": 1}, ("y", 0)), steps)
    assert several is not None
    state = [np.sin(np.arange(8.0)), np.cos(np.arange(8.0))]
    given = {name: state[k] for name, k in several.reads.items()}
    results = ti.reference.run(several.program, c=0.3, **given)
    ours = [state[f] if isinstance(f, int) else results[f] for f in several.following]
    for _ in range(steps):
        state = [ti.reference.run(LEAPFROG, a=state[0], b=state[1], c=0.3)["y"], state[0]]
    for a, b in zip(ours, state, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_level_that_only_comes_to_be_read_is_a_parameter_from_the_first_step_on():
    program = ti.parse("f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← 2.0 × x; }")
    several = chained(program, Feedback({"x": 0}, (1, "y")), 2)
    assert several is not None
    assert (several.reads, several.following) == ({"x": 0, "x_before": 1}, ("y", "y_1"))
    results = ti.reference.run(several.program, x=np.arange(4.0), x_before=np.ones(4))
    assert (results["y"].tolist(), results["y_1"].tolist()) == ([0.0, 2.0, 4.0, 6.0], [2.0] * 4)


@pytest.mark.parametrize("kind", ["tensor<float, I[1:5]>", "tensor<float32, I[0:4]>"])
def test_results_on_other_intervals_or_of_other_types_are_not_chained(kind):
    value = "⟪I, -1⟫(x)" if "1:5" in kind else "cast(x, float32)"
    program = ti.parse(f"f(y: {kind}, x: tensor<float, I[0:4]>) {{ y ← {value}; }}")
    assert chained(program, Feedback({"x": 0}, ("y",)), 2) is None


def test_functions_of_folds_have_names_of_their_own_in_each_step():
    program = ti.parse("""f(y: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) {
      y ← x + reduce(λ(a: tensor<float>, b: tensor<float>) → a × 0.5 + b, 0.0, I)(x);
    }""")
    several = chained(program, Feedback({"x": 0}, ("y",)), 2)
    assert several is not None and ti.parse(str(several.program)) == several.program


# Messages bring what the exact domains of a program say that each block needs, once, and nothing else

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
    "periodic": lambda low, high, n: with_boundary(low, high, n, ti.boundary.periodic()),
    "Neumann": lambda low, high, n: with_boundary(low, high, n, ti.boundary.neumann(0.5)),
    "linear and Dirichlet": lambda low, high, n: with_boundary(
        low, high, n, (ti.boundary.extrapolate(), ti.boundary.dirichlet(1.0))
    ),
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


# Generated programs on irregular meshes


class Drawn:
    """A mesh of two kinds of points with random tables, two fields on each, and a program of chains of shifts."""

    def __init__(self, seed: int) -> None:
        self.draw, rng = Random(seed), np.random.default_rng(seed)
        points = self.draw.randint(5, 9)
        self.sizes = {"V": points, "E": self.draw.choice([points, 6, 10])}
        self.parts = self.draw.randint(2, 4)
        self.owners = {d: rng.permutation(np.arange(n) % self.parts) for d, n in self.sizes.items()}
        self.tables = {
            f"{a}2{b}": rng.integers(self.draw.choice([-1, 0]), self.sizes[b], (n, self.draw.randint(1, 3)), np.int32)
            for a, n in self.sizes.items()
            for b in self.sizes
        }
        self.fields = {f"{d.lower()}{k}": rng.random(n) for d, n in self.sizes.items() for k in range(2)}
        tables = [f"{t}: tensor<int, {self.on(t[0])}, _NB_{t[2]}[0:{a.shape[1]}]>" for t, a in self.tables.items()]
        fields = [f"{name}: tensor<float, {self.on(name[0].upper())}>" for name in self.fields]
        results, closures = [], []
        for name in ("y", "z")[: self.draw.randint(1, 2)]:
            dim = self.draw.choice("VE")
            results.append(f"{name}: tensor<float, {self.on(dim)}>")
            closures.append(f"{name} ← {dim.lower()}0 + {self.value(dim, self.draw.randint(1, 4))};")
            if self.draw.random() < 0.3:
                stop = self.draw.randint(2, self.sizes[dim])
                closures.append(f"{name}[{dim}[1:{stop}]] ← {name} × 2.0;")
        self.text = f"f({', '.join([*results, *fields, *tables])}) {{ {' '.join(closures)} }}"

    def on(self, dim: str) -> str:
        return f"{dim}[0:{self.sizes[dim]}]"

    def value(self, dim: str, depth: int) -> str:
        own = dim.lower()
        if not depth:
            return self.draw.choice([f"{own}0", f"{own}1", f"cast(pos({dim}, {own}0), float64)", "0.5"])
        source = self.draw.choice("VE")
        table, kind = f"{dim}2{source}", self.draw.randint(0, 4)
        if kind <= 1:
            left, right = self.value(dim, depth - 1), self.value(dim, self.draw.randint(0, depth - 1))
            return f"({left} {self.draw.choice('+-×')} {right})"
        inner = f"({source.lower()}0 × {self.value(source, depth - 1)})"
        if kind <= 3:
            return f"reduce({self.draw.choice(['+, 0.0', 'max, -1.0'])})(⟪{table}⟫({inner}))"
        slot = self.draw.randrange(self.tables[table].shape[1])
        return f"(let e = ⟪{table}, {slot}⟫({inner}); if can_deref(e) then e else 0.25)"


def on_device(k: int, local, sent, drawn: Drawn) -> dict:
    """What the program of a device gives."""
    numbers = local.mesh.numbers
    given = {t.param.name: t.array[k] for t in local.tables}
    for dim, place in local.positions.items():
        given[place.name] = numbers[dim].points(numbers[dim].extent)[k].astype(np.int32)
    for v in local.views:
        whole = {**drawn.fields, **drawn.tables}[v.field.name]
        dim = v.field.type.dims.names[0]
        array = np.full((len(v.param.type.dims[dim]), *whole.shape[1:]), np.nan)
        own = numbers[dim].part.each[k]
        array[: len(own)] = whole[own]
        for m in sent.messages:
            if isinstance(m, MeshMessage) and m.target == k and m.view == v.param.name:
                assert all(drawn.owners[dim][p] == m.source for p in m.points)
                keys = k * numbers[dim].part.extent + np.array(m.points)
                array[numbers[dim].places(keys)] = whole[list(m.points)]
        given[v.param.name] = array
    return reference.run(local.stages[0], **given)


@pytest.mark.parametrize("seed", range(24))
def test_devices_that_have_what_was_sent_compute_their_points_of_the_whole(seed):
    drawn = Drawn(seed)
    program = ti.parse(drawn.text)
    parts = decompositions(program, {"V": "px", "E": "px"}, {"px": drawn.parts}, drawn.owners)
    local = localised(program, parts, drawn.tables)
    sent = exchange(local)
    arrays = {p.name: {**drawn.fields, **drawn.tables}[p.name] for p in program.inputs}
    want = reference.run(program, **arrays)
    for k in range(drawn.parts):
        for name, got in on_device(k, local, sent, drawn).items():
            own = parts[program[name].type.dims.names[0]].each[k]
            assert np.array_equal(got[: len(own)], want[name][own]), (k, name, drawn.text)
