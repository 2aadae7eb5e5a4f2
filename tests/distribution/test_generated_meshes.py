"""Generated programs on irregular meshes: local programs on what was sent, and nothing else, give the whole's points.

The devices are played with NumPy and the oracle: a place that no message filled holds NaN, which a result would show.
"""

from random import Random

import numpy as np
import pytest

import tensorir as ti
from tensorir import reference
from tensorir.distribution.exchange import exchange
from tensorir.distribution.local_program import localised
from tensorir.distribution.mesh_exchange import MeshMessage
from tensorir.distribution.partition import decompositions


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
