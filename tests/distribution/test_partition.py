"""Parts of a mesh: their quality, what they need of each other, and what is no partition."""

import importlib.util
import itertools
from collections import Counter

import numpy as np
import pytest

import tensorir as ti
from stencils import meshes
from tensorir.analysis.domains import domains
from tensorir.distribution.exchange import exchange
from tensorir.distribution.local_program import localised
from tensorir.distribution.mesh_exchange import edge_coloured
from tensorir.distribution.partition import Decomposition, Subdomains, check_axes, decompositions, partition_of
from tensorir.distribution.plan import DistributionPlan
from tensorir.integers.dims import Interval

SPHERE = meshes.icosahedral(1)
RING = np.stack([np.arange(8) - 1, np.append(np.arange(1, 8), -1)], axis=1).astype(np.int32)
"""Eight points in a row: a table of who is before and after."""

AROUND = """around(y: tensor<float, V[0:8]>, x: tensor<float, V[0:8]>, T: tensor<int, V[0:8], _NB_V[0:2]>) {
  y ← let a = x - reduce(+, 0.0)(⟪T⟫(x)); a + ⟪T, 1⟫(a × x);
}"""


def local(text: str, owners, tables, axes=None):
    """What two devices do."""
    axes = axes or dict.fromkeys(owners, "px")
    program = ti.parse(text)
    mesh = dict.fromkeys(axes.values(), 2)
    return localised(program, decompositions(program, axes, mesh, partition_of(owners, axes, mesh)), tables)


def test_bisection_cuts_few_edges_and_gives_all_parts_as_many_vertices():
    mesh = meshes.icosahedral(5)
    ends = mesh.tables["E2V"]
    for n in (2, 3, 4, 8):
        p = ti.partition(mesh, n)
        owners = p.owners["Vertex"]
        cut = (owners[ends[:, 0]] != owners[ends[:, 1]]).mean()
        assert cut < 0.05 and p.cut("E2V") == cut
        counts = {d: np.bincount(o, minlength=n) for d, o in p.owners.items()}
        assert np.ptp(counts["Vertex"]) <= 2
        assert all(c.max() < 1.05 * c.mean() for c in counts.values())


def test_edges_and_cells_belong_to_a_part_of_their_vertices():
    p = ti.partition(SPHERE, 3)
    for dim, table in (("Edge", "E2V"), ("Cell", "C2V")):
        assert (p.owners["Vertex"][SPHERE.tables[table]] == p.owners[dim][:, None]).any(axis=1).all()


def test_owners_are_taken_as_they_are_given():
    vertices, cells = np.arange(42) % 2, np.arange(80) // 40
    assert np.array_equal(ti.partition(SPHERE, 2, by=vertices).owners["Vertex"], vertices)
    assert np.array_equal(ti.partition(SPHERE, 2, by={"Vertex": vertices, "Cell": cells}).owners["Cell"], cells)


def test_metis_is_asked_where_it_is_installed(monkeypatch):
    class Metis:
        """Says what it was given, and parts by numbers."""

        @staticmethod
        def part_graph(parts, xadj, adjncy):
            assert [sorted(adjncy[a:b]) for a, b in itertools.pairwise(xadj)] == [
                sorted(k for k in row if k >= 0) for row in SPHERE.tables["V2V"].tolist()
            ]
            return 0, [k % parts for k in range(len(xadj) - 1)]

    real = importlib.util.find_spec
    monkeypatch.setitem(__import__("sys").modules, "pymetis", Metis)
    monkeypatch.setattr("tensorir.distribution.partition.find_spec", lambda name: name == "pymetis" or real(name))
    assert np.array_equal(ti.partition(SPHERE, 3, by="metis").owners["Vertex"], np.arange(42) % 3)


@pytest.mark.parametrize(("start", "extent", "parts"), [*itertools.product((-3, 2), (1, 5, 6, 7, 11), (1, 2, 3, 4))])
def test_blocks_are_lists_of_points(start: int, extent: int, parts: int):
    d = Decomposition("I", "px", Interval(start, start + extent), parts)
    every = list(range(start, start + extent))
    size = -(-extent // parts)
    blocks = [every[k * size : (k + 1) * size] for k in range(parts)]
    assert (d.size, d.even) == (size, size * parts == extent)
    assert [list(range(b.start, b.stop)) for b in d.blocks()] == blocks
    assert [d.owner(p) for p in every] == [k for k, block in enumerate(blocks) for _ in block]
    places = [d.start(k) + place for k in range(parts) for place in range(size)]
    assert places == list(range(d.padded.start, d.padded.stop))
    for low, high in itertools.combinations(range(start - 2, start + extent + 3), 2):
        assert d.own(Interval(low, high)).tolist() == [low <= p < high for p in places]
        common = d.common(Interval(low, high))
        everywhere = [place for place in range(size) if all(low <= d.start(k) + place < high for k in range(parts))]
        assert list(range(common.start, common.stop)) == everywhere


@pytest.mark.parametrize("seed", range(12))
def test_subdomains_are_lists_of_points(seed: int):
    chance = np.random.default_rng(seed)
    parts, start = int(chance.integers(1, 5)), int(chance.integers(-3, 4))
    owners = chance.permutation(np.append(np.arange(parts), chance.integers(0, parts, chance.integers(0, 9))))
    extent = len(owners)
    whole = Interval(start, start + extent)
    d = Subdomains("V", "px", whole, parts, owners.astype(np.int32))
    of = [[p for p in range(extent) if owners[p] == k] for k in range(parts)]
    size = max(map(len, of))
    assert (d.counts, d.size, d.extent) == (tuple(map(len, of)), size, extent)
    assert (d.padded.start, d.padded.stop) == (start, start + parts * size)
    assert [mine.tolist() for mine in d.each] == of
    assert d.owned.tolist() == [k * extent + p for k, mine in enumerate(of) for p in mine]
    padded = [[*mine, *[mine[0]] * (size - len(mine))] for mine in of]
    assert d.dealt.tolist() == padded
    assert d.places.tolist() == [owners[p] * size + of[owners[p]].index(p) for p in range(extent)]
    for low, high in itertools.combinations(range(start - 1, start + extent + 2), 2):
        held = [[low <= start + p < high for p in mine] + [False] * (size - len(mine)) for mine in of]
        assert d.own(Interval(low, high)).reshape(parts, size).tolist() == held
        common = d.common(Interval(low, high))
        assert (common.start, common.stop) == (0, min(map(len, of)) if Interval(low, high) == whole else 0)


@pytest.mark.parametrize("split", [1, 3, 4, 7])
def test_a_device_gets_what_its_points_read_and_lacks(split):
    # by the exact domains of the program, for owners whose points are intervals
    owners = np.repeat([0, 1], [split, 8 - split])
    sent = exchange(local(AROUND, {"V": owners}, {"T": RING})).messages
    bound = ti.parse(AROUND).bind(T=RING)
    for device, mine in enumerate([range(split), range(split, 8)]):
        (needed,) = [domains(bound, {"y": {"V": (mine.start, mine.stop)}}).params["x"]]
        got = [p for m in sent if m.target == device for p in m.points]
        assert sorted(got) == sorted({p for (p,) in needed} - set(mine))
        assert {m.source for m in sent if m.target == device} == {1 - device}


def test_a_plan_of_a_mesh_says_who_sends_what_to_whom():
    here = local(AROUND, {"V": [0, 1, 0, 0, 1, 1, 1, 0]}, {"T": RING})
    plan = DistributionPlan(here, exchange(here))
    assert str(plan) == (
        "around on 2 devices\n"
        "V[0:8] along 'px' in 2 parts of 4\n"
        "x: 4 points of others along V at most\n"
        "px 0 → 1: x at 4 points of V, 32 bytes\n"
        "px 1 → 0: x at 4 points of V, 32 bytes\n"
        "1 permute and 64 bytes a step"
    )
    assert [m.points for m in plan.messages] == [(0, 2, 3, 7), (1, 4, 5, 6)]
    assert plan.halos("x") == {"V": (0, 4)} and plan.bytes == 64
    shown = plan._repr_html_()
    assert shown.count("<path") == 2 and "x at 4 points of V, 32 bytes" in shown


def test_tables_lead_to_places_of_the_device_and_minus_one_stays():
    here = local(AROUND, {"V": [0, 1, 0, 0, 1, 1, 1, 0]}, {"T": RING})
    points = here.mesh.numbers["V"].points(8).tolist()
    # own points, those whose differences are read, and their neighbours
    assert points == [[0, 2, 3, 7, 1, 4, 5, 6], [1, 4, 5, 6, 2, 7, 0, 3]]
    once, own = (t.array.tolist() for t in here.tables)
    for device, rows in enumerate(once):
        assert len(rows) == 6
        for place, row in enumerate(rows):
            led = [-1 if k == -1 else points[device][k] for k in row]
            assert led == RING[points[device][place]].tolist()
    # of what is read after that slot 1 alone is used, at own points
    assert [[row[1] for row in rows] for rows in own] == [[4, 2, 5, -1], [4, 2, 3, 5]]


def test_points_of_two_dims_that_have_the_same_numbers_go_apart():
    text = """f(y: tensor<float, V[0:8]>, x: tensor<float, V[0:8]>, e: tensor<float, E[0:8]>,
      T: tensor<int, V[0:8], _NB_V[0:2]>, U: tensor<int, V[0:8], _NB_E[0:2]>) {
      y ← reduce(+, 0.0)(⟪T⟫(x)) + reduce(+, 0.0)(⟪U⟫(e)); }"""
    owners = np.repeat([0, 1], 4)
    here = local(text, {"V": owners, "E": owners}, {"T": RING, "U": RING})
    sent = exchange(here)
    assert [(m.field, m.dim, m.points) for m in sent.messages] == [
        ("x", "V", (3,)),
        ("x", "V", (4,)),
        ("e", "E", (3,)),
        ("e", "E", (4,)),
    ]
    assert [(layer.dim, layer.views) for layer in sent.mesh.layers] == [("V", ("x",)), ("E", ("e",))]


def test_rounds_are_permutations_and_as_many_as_one_device_has_partners():
    draw = np.random.default_rng(0)
    for n, share in itertools.product((2, 5, 9, 16), (0.2, 0.5, 0.9)):
        pairs = [(a, b) for a in range(n) for b in range(n) if a != b and draw.random() < share]
        draw.shuffle(pairs)
        pairs = [(int(a), int(b)) for a, b in pairs]
        rounds = edge_coloured(pairs)
        assert sorted(p for some in rounds for p in some) == sorted(pairs)
        for some in rounds:
            assert len({a for a, _ in some}) == len({b for _, b in some}) == len(some)
        most = [max(Counter(ends).values(), default=0) for ends in ([a for a, _ in pairs], [b for _, b in pairs])]
        assert len(rounds) == max(most)


def test_bound_fields_have_their_halo_and_are_not_sent():
    here = local(AROUND, {"V": np.arange(8) % 2}, {"T": RING})
    assert {m.field for m in exchange(here).messages} == {"x"}
    assert exchange(here, frozenset(["x"])).messages == ()


def refused(call) -> str:
    with pytest.raises(ti.DiagnosticError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    "call, told",
    [
        (
            lambda: ti.partition(SPHERE, 2, by=np.zeros((2, 3))),
            "error[D11]: the owners of Vertex have the shape (2, 3) and the type float64.\n"
            "help: give one integer for each point.",
        ),
        (
            lambda: ti.partition(SPHERE, 2, by=[0, 1]),
            "error[D11]: there are 2 owners for 42 points of Vertex.\nhelp: give one for each point.",
        ),
        (
            lambda: ti.partition(SPHERE, 2, by=np.arange(42) % 3),
            "error[D11]: Vertex 2 is owned by 2, and there are parts 0 to 1.\n"
            "help: count parts from 0, one for each device.",
        ),
        (
            lambda: ti.partition(SPHERE, 3, by=np.arange(42) % 2),
            "error[D11]: part 2 has no point of Vertex.\nhelp: make fewer parts, or give it points.",
        ),
        (
            lambda: ti.partition(SPHERE, 2, by="distance"),
            "error[D14]: there is no way to part a mesh by 'distance'.\n"
            'help: give by="coordinates", by="metis", or the owner of each vertex.',
        ),
        (
            lambda: ti.partition(SPHERE, 2, by={"Vortex": []}),
            "error[D14]: the mesh has no Vortex.\nhelp: did you mean 'Vertex'?",
        ),
        (
            lambda: ti.partition(SPHERE, 2, by={"Cell": np.arange(80) % 2}),
            "error[D14]: the owners of Cell are given, and not those of Vertex.\n"
            'help: give by="coordinates", by="metis", or the owner of each vertex.',
        ),
        (
            lambda: ti.partition(SPHERE, 43),
            "error[D14]: a mesh of 42 vertices has from 1 to 42 parts, and 43 are asked for.\n"
            "help: make as many parts as there are devices along the axis.",
        ),
        (
            lambda: ti.partition([1, 2], 2),
            "error[D14]: a list is no mesh of points and neighbours.\n"
            "help: use one of stencils.meshes, or give ti.distribute the owners of points by dim.",
        ),
        (
            lambda: partition_of([0, 1], {"V": "px"}, {"px": 2}),
            "error[D14]: a list is no partition of a mesh.\n"
            "help: make one, ti.partition(mesh, n), or give the owners of points by dim.",
        ),
        (
            lambda: partition_of(ti.partition(SPHERE, 3), {"Vertex": "px"}, {"px": 2}),
            "error[D17]: the partition has 3 parts, and 'px' has 2 devices.\n"
            "help: make as many parts as devices: ti.partition(mesh, 2).",
        ),
        (
            lambda: partition_of(ti.partition(SPHERE, 2), {"I": "px"}, {"px": 2}),
            "error[D13]: the partition is of Vertex, Edge, Cell, and I is to be distributed.\n"
            "help: name the dims of the mesh with the axis that they go along: {'Vertex': 'px'}.",
        ),
        (
            lambda: partition_of(ti.partition(SPHERE, 2), {"Vertex": "px", "Edge": "py"}, {"px": 2, "py": 2}),
            "error[D13]: one partition is to go Vertex along 'px' and Edge along 'py'.\n"
            "help: give all dims of a mesh the same axis.",
        ),
        (
            lambda: check_axes({"Vertex": "px", "Edge": "px"}, {"px": 2}, {"Vertex": []}),
            "error[D05]: Vertex and Edge are both to be distributed along 'px'.\n"
            "help: give the owners of Edge as well.",
        ),
        (
            lambda: local(AROUND, {"V": [0, 1]}, {"T": RING}),
            "error[D10]: the partition has 2 points of V, and the program has V[0:8].\n"
            "help: part the mesh that the program runs on; its points are counted from 0.",
        ),
        (
            lambda: local(AROUND, {"V": np.arange(8) % 2}, {}),
            "error[D15]: the table 'T' is not known yet, and it says which points of V devices need.\n"
            "help: bind it, f.bind(T=table), or pass it as an array of NumPy.",
        ),
    ],
)  # fmt: skip
def test_what_is_no_partition_is_named(call, told):
    assert refused(call) == told


@pytest.mark.skipif(importlib.util.find_spec("pymetis") is not None, reason="pymetis is installed")
def test_metis_is_named_where_it_is_missing():
    assert refused(lambda: ti.partition(SPHERE, 2, by="metis")) == (
        "error[D12]: METIS parts a mesh through pymetis, which is not installed.\n"
        "help: pip install 'tensorir[metis]', or leave it to by=\"coordinates\"."
    )


PARAMS = (
    "y: tensor<float, V[0:8]>, x: tensor<float, V[0:8]>, e: tensor<float, E[0:6]>, T: tensor<int, V[0:8], _NB_V[0:2]>"
)


@pytest.mark.parametrize(
    "value, more, told",
    [
        (
            "⟪V, 1⟫(z)", ", z: tensor<float, V[0:9]>",
            "this reads at an offset along V, whose points a partition deals out.\n"
            "help: read neighbours through a table.",
        ),
        (
            "⟪U, 0⟫(e)", ", U: tensor<int, W[0:8], _NB_E[0:2]>",
            "'U' leads from W, which lies whole on every device, to E, which is distributed.\n"
            "help: distribute W with it, along the same axis of the mesh.",
        ),
        (
            "unstructured_shift(max(T, 0), 0)(x)", "",
            "this table is computed, and it leads to V, which is distributed.\n"
            "help: compute it before, and pass it as a parameter.",
        ),
        (
            "reduce(+, 0.0, E)(x × e)", "",
            "a tensor has both V and E, which are parted along one axis.\n"
            "help: read one at the neighbours of the other, through a table.",
        ),
        (
            "reduce(λ(a: tensor<float, V[0:8]>, b: tensor<float, V[0:8]>) → a + ⟪T, 0⟫(b), 0.0, K)(x × k)",
            ", k: tensor<float, K[0:2]>",
            "a fold reads neighbours along V of what it is given, and V is distributed.\n"
            "help: read the neighbours before it, and fold what was read.",
        ),
    ],
)  # fmt: skip
def test_what_parts_of_a_mesh_cannot_compute_is_refused_at_its_place(value, more, told):
    target = "w: tensor<float, W[0:8]>, " if "W[0:8]" in more else ""
    output = "w" if target else "y"
    text = f"f({target}{PARAMS}{more}) {{ {output} ← {value}; }}"
    owners = {"V": np.arange(9 if "V[0:9]" in more else 8) % 2, "E": np.arange(6) % 2}
    found = refused(lambda: local(text, owners, {"T": RING}))
    where, line, caret, help = found.split("\n", 3)
    assert f"error[D04]: {told}" == f"{where.split(': ', 1)[1]}\n{help}"
    marked = "".join(c for c, mark in zip(line, caret, strict=False) if mark == "^")
    assert marked and marked in value
