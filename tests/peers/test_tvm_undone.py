"""Schedules undone: what TVM's schedules and its lowering make of a module lifts to the text of the module itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

from pathlib import Path

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tests.corpus import corpus
from tests.generate.examples import sampled
from tests.lift.costs import Costs, costs_of
from tests.lift.schedules import up_to_names
from tests.peers.operators import operators
from tests.peers.test_tvm_schedules import PASSES, SCHEDULES, product, row_sum, stencil

pytestmark = pytest.mark.filterwarnings("ignore")

Make = Callable[[], list[Any]]


def softmax() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((12, 30), name="A")
    return [a, topi.nn.softmax(a)]


def padded() -> list[Any]:
    from tvm import te

    a: Any = te.placeholder((3, 10, 10), name="A")
    w: Any = te.placeholder((4, 3, 3, 3), name="W")

    def value(c: Any, y: Any, x: Any) -> Any:
        inside = tvm.tirx.all(y >= 1, y < 11, x >= 1, x < 11)
        return tvm.tirx.if_then_else(inside, a[c, y - 1, x - 1], tvm.tirx.const(0.0, "float32"))

    p: Any = te.compute((3, 12, 12), value, name="P")
    c, u, v = te.reduce_axis((0, 3), "c"), te.reduce_axis((0, 3), "u"), te.reduce_axis((0, 3), "v")
    return [
        a, w,
        te.compute(
            (4, 10, 10), lambda f, y, x: te.sum(p[c, y + u, x + v] * w[f, c, u, v], axis=[c, u, v]), name="C"
        ),
    ]  # fmt: skip


def grouped() -> list[Any]:
    from tvm import te

    a: Any = te.placeholder((4, 6, 6), name="A")
    w: Any = te.placeholder((6, 2, 3, 3), name="W")

    def value(c: Any, y: Any, x: Any) -> Any:
        inside = tvm.tirx.all(y >= 1, y < 7, x >= 1, x < 7)
        return tvm.tirx.if_then_else(inside, a[c, y - 1, x - 1], tvm.tirx.const(0.0, "float32"))

    p: Any = te.compute((4, 8, 8), value, name="P")
    c, u, v = te.reduce_axis((0, 2), "c"), te.reduce_axis((0, 3), "u"), te.reduce_axis((0, 3), "v")

    def total(f: Any, y: Any, x: Any) -> Any:
        return te.sum(p[f // 3 * 2 + c, y + u, x + v] * w[f, c, u, v], axis=[c, u, v])

    return [a, w, te.compute((6, 6, 6), total, name="C")]


def odd_product() -> list[Any]:
    from tvm import te

    a: Any = te.placeholder((13, 21), name="A")
    b: Any = te.placeholder((21, 30), name="B")
    k = te.reduce_axis((0, 21), name="k")
    return [a, b, te.compute((13, 30), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


def largest() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((8, 16), name="A")
    return [a, topi.argmax(a, 1)]


def doubled() -> list[Any]:
    from tvm import te

    a: Any = te.placeholder((16, 12), name="A")
    return [a, te.compute((16, 12), lambda i, j: a[i, j] * 2.0, name="C")]


def pooled() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((1, 3, 8, 8), name="A")
    return [a, topi.nn.pool2d(a, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")]


def normal_groups() -> list[Any]:
    from tvm import te, topi

    a, b, c = (te.placeholder(shape, name=n) for n, shape in (("A", (2, 4, 3, 3)), ("B", (4,)), ("C", (4,))))
    return [a, b, c, topi.nn.group_norm(a, b, c, 2, 1, [2, 3])]


def normal_rows() -> list[Any]:
    from tvm import te, topi

    a, b, c = (te.placeholder(shape, name=n) for n, shape in (("A", (5, 8)), ("B", (8,)), ("C", (8,))))
    return [a, b, c, topi.nn.layer_norm(a, b, c, [1])]


def normal_channels() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((1, 5, 4, 4), name="A")
    return [a, topi.nn.lrn(a, 3, 1, 1e-4, 0.75, 2)]


def joined() -> list[Any]:
    from tvm import te, topi

    a, b, c = (te.placeholder((3, n, 5), name=f"A{n}") for n in (2, 3, 4))
    return [a, b, c, topi.concatenate((a, b, c), 1)]


def mirrored() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((5, 6), name="A")
    return [a, topi.nn.mirror_pad(a, (1, 2), (2, 1), "REFLECT")]


def enlarged() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((1, 2, 4, 4), name="A")
    return [a, topi.image.resize2d(a, [0.0] * 4, (7, 5), "NCHW", "linear")]


def strided() -> list[Any]:
    from tvm import te, topi

    a, w = te.placeholder((2, 9, 3), name="A"), te.placeholder((3, 3, 4), name="W")
    return [a, w, topi.nn.conv1d_nwc(a, w, 2, 1, 2)]


def dilated() -> list[Any]:
    from tvm import te, topi

    a, w = te.placeholder((1, 8, 8, 2), name="A"), te.placeholder((3, 3, 2, 3), name="W")
    return [a, w, topi.nn.conv2d_nhwc(a, w, 1, (1, 2), 2)]


def dilated_by_stride() -> list[Any]:
    from tvm import te, topi

    a, w = te.placeholder((1, 8, 8, 2), name="A"), te.placeholder((3, 3, 2, 3), name="W")
    return [a, w, topi.nn.conv2d_nhwc(a, w, 2, "SAME", 2)]


def transposed() -> list[Any]:
    from tvm import te, topi

    a, w = te.placeholder((1, 2, 3, 4), name="A"), te.placeholder((2, 3, 3, 3), name="W")
    return [a, w, topi.nn.conv2d_transpose_nchw(a, w, (2, 2), (1, 1), "float32", (1, 1))]


def as_it_is(s: Any) -> None:
    """Lowered only."""


def last_block(s: Any) -> Any:
    *_, last = map(s.get, s.get_child_blocks(s.get_sblock("root")))
    return s.get_sblock(last.name_hint)


def all_near(s: Any) -> None:
    """Everything again per part of a row, of which the last one is shorter."""
    last = last_block(s)
    tile, _ = s.split(s.get_loops(last)[-1], [None, 3])
    for block in reversed(list(map(s.get, s.get_child_blocks(s.get_sblock("root"))))[:-1]):
        s.compute_at(s.get_sblock(block.name_hint), tile)


def all_inside(s: Any) -> None:
    for block in list(map(s.get, s.get_child_blocks(s.get_sblock("root"))))[:-1]:
        try:
            s.compute_inline(s.get_sblock(block.name_hint))
        except tvm.s_tir.ScheduleError:  # a reduction
            continue


def inputs_at_hand(s: Any) -> None:
    last = last_block(s)
    for k in range(len(s.get(last).reads)):
        s.cache_read(last, k, "shared")


def all_at_hand(s: Any) -> None:
    """Copies of everything, of which several share memory after lowering."""
    inputs_at_hand(s)
    for block in list(map(s.get, s.get_child_blocks(s.get_sblock("root")))):
        s.cache_write(s.get_sblock(block.name_hint), 0, "local")


def reduced_in_parts(s: Any) -> None:
    block = s.get_sblock("A_red_temp")
    loops = [x for x, i in zip(s.get_loops(block), s.get(block).iter_vars, strict=True) if i.iter_type != 0]
    _, inner = s.split(s.fuse(*loops), [None, 4])
    s.rfactor(inner, 0)


def in_two_parts(s: Any) -> None:
    last = last_block(s)
    s.loop_partition(s.get_loops(last)[0], [2])


def over_threads(s: Any) -> None:
    for block in map(s.get, s.get_child_blocks(s.get_sblock("root"))):
        sblock = s.get_sblock(block.name_hint)
        loops = [v for v, i in zip(s.get_loops(sblock), block.iter_vars, strict=True) if i.iter_type == 0]
        outer, inner = s.split(s.fuse(*loops) if len(loops) > 1 else loops[0], [None, 32])
        s.bind(outer, "blockIdx.x")
        s.bind(inner, "threadIdx.x")


def back_near(s: Any) -> None:
    block = s.get_sblock("C")
    copy = s.cache_write(block, 0, "local")
    i, j, k = s.get_loops(block)
    (io, ii), (jo, ji) = s.split(i, [None, 4]), s.split(j, [None, 8])
    s.reorder(io, jo, k, ii, ji)
    s.reverse_compute_at(copy, jo)


def in_registers(s: Any) -> None:
    block = s.get_sblock("C")
    copy = s.cache_write(block, 0, "local")
    i, j, k = s.get_loops(block)
    (io, im, ii), (jo, jm, ji) = s.split(i, [2, 2, 4]), s.split(j, [2, 4, 4])
    s.reorder(io, jo, im, jm, k, ii, ji)
    for loop, tag in ((io, "blockIdx.y"), (jo, "blockIdx.x"), (im, "threadIdx.y"), (jm, "threadIdx.x")):
        s.bind(loop, tag)
    s.reverse_compute_at(copy, jm)
    s.decompose_reduction(block, k)


def virtual(s: Any) -> None:
    i, j, k = s.get_loops(s.get_sblock("C"))
    (io, iv, ii), (jo, ji) = s.split(i, [2, 2, 4]), s.split(j, [None, 8])
    s.reorder(io, jo, iv, ii, ji, k)
    for loop, tag in (
        (io, "blockIdx.y"),
        (jo, "blockIdx.x"),
        (iv, "vthread.y"),
        (ii, "threadIdx.y"),
        (ji, "threadIdx.x"),
    ):
        s.bind(loop, tag)


def einsum_padded(s: Any) -> None:
    s.pad_einsum(s.get_sblock("C"), [8, 8, 8])


def split_unevenly(s: Any) -> None:
    i, j, k = s.get_loops(s.get_sblock("C"))
    s.split(i, [None, 4])
    s.split(j, [None, 8])
    s.split(k, [None, 5])


def partial_sums(s: Any) -> None:
    *_, k = s.get_loops(s.get_sblock("C"))
    _, inner = s.split(k, [None, 6])
    s.rfactor(inner, 2)


def partial_sums_unevenly(s: Any) -> None:
    *_, k = s.get_loops(s.get_sblock("C"))
    _, inner = s.split(k, [None, 4])
    s.rfactor(inner, 0)


def pad_near(s: Any) -> None:
    f, y, x, *_ = s.get_loops(s.get_sblock("C"))
    s.reorder(y, x, f)
    yo, _ = s.split(y, [None, 5])
    s.compute_at(s.get_sblock("P"), yo)


def pad_at_hand(s: Any) -> None:
    _, y, *_ = s.get_loops(s.get_sblock("C"))
    s.compute_at(s.get_sblock("P"), y)


def pad_near_unevenly(s: Any) -> None:
    _, _, x, *_ = s.get_loops(s.get_sblock("C"))
    outer, _ = s.split(x, [None, 3])
    s.compute_at(s.get_sblock("P"), outer)


def fetched_together(s: Any) -> None:
    """Threads fill shared memory together, in tiles that end within rows and within the last tile."""
    block = s.get_sblock("C")
    loops = s.get_loops(block)
    spatial = [x for x, i in zip(loops, s.get(block).iter_vars, strict=True) if i.iter_type == 0]
    outer, inner = s.split(s.fuse(*spatial), [None, 8])
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")
    part, _ = s.split(loops[len(spatial)], [None, 2])
    for k in range(2):
        copy = s.cache_read(block, k, "shared")
        s.compute_at(copy, part)
        _, thread = s.split(s.fuse(*s.get_loops(copy)[3:]), [None, 8])
        s.bind(thread, "threadIdx.x")


def in_other_order(s: Any) -> None:
    s.reorder(*reversed(s.get_loops(s.get_sblock("C"))))


def partial_sums_of_all(s: Any) -> None:
    """Sums over three loops at once, in parts that end within the loops."""
    _, _, _, *summed = s.get_loops(s.get_sblock("C"))
    _, inner = s.split(s.fuse(*summed), [None, 4])
    s.rfactor(inner, 0)


def cut_in_two(s: Any) -> None:
    s.loop_partition(s.get_loops(s.get_sblock("P"))[0], [2])


def padding_inside(s: Any) -> None:
    s.compute_inline(s.get_sblock("P"))


def padding_apart(s: Any) -> None:
    s.decompose_padding(s.get_sblock("P"), s.get_loops(s.get_sblock("P"))[0])


def in_vectors(s: Any) -> None:
    for block in map(s.get, s.get_child_blocks(s.get_sblock("root"))):
        spatial = [k for k, i in enumerate(block.iter_vars) if i.iter_type == 0]
        _, inner = s.split(s.get_loops(s.get_sblock(block.name_hint))[spatial[-1]], [None, 4])
        s.vectorize(inner)


def by_threes(s: Any) -> None:
    for name in ("P", "C"):
        for loop in s.get_loops(s.get_sblock(name)):
            s.split(loop, [None, 3])


def rows(s: Any) -> None:
    for name in ("T_softmax_maxelem", "T_softmax_exp", "T_softmax_expsum", "T_softmax_norm"):
        block = s.get_sblock(name)
        i, k = s.get_loops(block)
        _, inner = s.split(k, [None, 8])
        s.unroll(inner)
        s.parallel(i)


def rows_in_parts(s: Any) -> None:
    for name in ("T_softmax_maxelem", "T_softmax_expsum"):
        _, k = s.get_loops(s.get_sblock(name))
        _, inner = s.split(k, [None, 4])
        s.rfactor(inner, 1)


def again_per_tile(s: Any) -> None:
    _, k = s.get_loops(s.get_sblock("T_softmax_norm"))
    tile, _ = s.split(k, [None, 5])
    for name in ("T_softmax_expsum", "T_softmax_exp", "T_softmax_maxelem"):
        s.compute_at(s.get_sblock(name), tile)


def windows_in_parts(s: Any) -> None:
    s.cache_read(s.get_sblock("pool_max"), 0, "local")
    *_, y, x = s.get_loops(s.get_sblock("pool_max"))
    _, inner = s.split(s.fuse(y, x), [None, 4])
    s.rfactor(inner, 0)


def windows_across_threads(s: Any) -> None:
    n, c, i, j, y, x = s.get_loops(s.get_sblock("pool_max"))
    s.bind(s.fuse(n, c, i, j), "blockIdx.x")
    _, inner = s.split(s.fuse(y, x), [None, 8])
    s.bind(inner, "threadIdx.x")


def rows_together(s: Any) -> None:
    i, _ = s.get_loops(s.get_sblock("T_softmax_norm"))
    for name in ("T_softmax_expsum", "T_softmax_exp", "T_softmax_maxelem"):
        s.compute_at(s.get_sblock(name), i)
    s.bind(i, "blockIdx.x")


FURTHER: dict[str, tuple[Make, Callable[[Any], None]]] = {
    **{f"product, {f.__name__}": (product, f) for f in (back_near, in_registers, virtual, partial_sums)},
    **{
        f"odd product, {f.__name__}": (odd_product, f)
        for f in (einsum_padded, split_unevenly, fetched_together, partial_sums_unevenly)
    },
    **{
        f"padded, {f.__name__}": (padded, f)
        for f in (
            pad_near,
            pad_near_unevenly,
            pad_at_hand,
            by_threes,
            padding_apart,
            padding_inside,
            fetched_together,
            in_other_order,
            cut_in_two,
        )
    },
    **{
        f"grouped, {f.__name__}": (grouped, f)
        for f in (padding_apart, padding_inside, in_other_order, partial_sums_of_all, fetched_together)
    },
    **{f"normal rows, {f.__name__}": (normal_rows, f) for f in (all_near,)},
    **{f"normal channels, {f.__name__}": (normal_channels, f) for f in (all_inside,)},
    **{f"joined, {f.__name__}": (joined, f) for f in (as_it_is, in_two_parts)},
    **{f"mirrored, {f.__name__}": (mirrored, f) for f in (as_it_is, in_two_parts)},
    "dilated by stride, as_it_is": (dilated_by_stride, as_it_is),
    **{f"transposed, {f.__name__}": (transposed, f) for f in (all_near, all_at_hand)},
}


def module_of(make: Make) -> Any:
    from tvm import te

    return tvm.IRModule({"main": te.create_prim_func(make()).with_attr("global_symbol", "main")})


def scheduled(make: Make, schedule: Callable[[Any], None]) -> tuple[Any, Any]:
    """A module, and what a schedule makes of it."""
    plain = module_of(make)
    changed = tvm.s_tir.Schedule(plain)
    schedule(changed)
    return plain, changed.mod


def costs(module: Any) -> Costs:
    return costs_of(ti.lift(tir.parse(module)["main"]))


def steps(module: Any) -> Iterator[tuple[str, Any]]:
    """The module, and what each pass of the lowering makes of it, up to where TVM refuses, or unrolls."""
    yield "scheduled", module
    for name in PASSES[: PASSES.index("UnrollLoop")]:
        maker = getattr(tvm.s_tir.transform, name, None) or getattr(tvm.tirx.transform, name)
        try:
            module = maker()(module)
        except Exception:  # TVM knows no virtual threads here
            return
        yield name, module


def new(forms: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The forms without those that a pass has left as they were."""
    seen = set[str]()
    for step, module in forms:
        if (text := module.script()) not in seen:
            seen.add(text)
            yield step, module


def lowered_alike(make: Make, schedule: Callable[[Any], None], dearer: bool = False) -> tuple[Any, Any]:
    """A module, and the last form of what a schedule makes of it, of which every one takes what the module does.

    What is `dearer` has as many loops, and more operations: folds of tuples over threads run in parts.
    """
    plain, changed = scheduled(make, schedule)
    wanted, forms = costs(plain), list(new(steps(changed)))
    for step, module in forms:
        found = costs(module)
        assert found.loops == wanted.loops if dearer else found.near(wanted), (step, found, wanted)
    return plain, forms[-1][1]


@pytest.mark.parametrize("name", sampled([*SCHEDULES, *FURTHER]))
def test_a_schedule_and_each_step_of_its_lowering_lift_to_what_the_module_takes(name: str):
    lowered_alike(*(SCHEDULES | FURTHER)[name])


A_FOLD_IN_TWO_DIMS = pytest.mark.xfail(strict=True, reason="a fold of pairs over lanes keeps its two dims")


@pytest.mark.parametrize("make", [softmax, pytest.param(largest, marks=A_FOLD_IN_TWO_DIMS, id="largest"), padded])
def test_loops_that_vectors_split_have_their_names_again(make: Make):
    texts = [up_to_names(str(ti.lift(tir.parse(module)["main"]))) for module in scheduled(make, in_vectors)]
    assert texts[0] == texts[1]


SCHEDULED: dict[str, tuple[Make, Callable[[Any], None]]] = {
    "grouped, in_two_parts": (grouped, in_two_parts),
    **{f"normal groups, {f.__name__}": (normal_groups, f) for f in (over_threads, all_near, reduced_in_parts)},
    "normal channels, all_near": (normal_channels, all_near),
    "enlarged, inputs_at_hand": (enlarged, inputs_at_hand),
    "strided, all_inside": (strided, all_inside),
    "dilated, all_inside": (dilated, all_inside),
}


@pytest.mark.parametrize("name", SCHEDULED)
def test_a_schedule_lifts_to_what_the_module_takes(name: str):
    make, schedule = SCHEDULED[name]
    wanted, found = map(costs, scheduled(make, schedule))
    assert found.near(wanted), (found, wanted)


def at_random(s: Any, r: random.Random) -> None:
    """A few random steps; those that TVM refuses are left out."""
    for _ in range(r.randint(2, 7)):
        try:
            names = [block.name_hint for block in map(s.get, s.get_child_blocks(s.get_sblock("root")))]
            block = s.get_sblock(r.choice(names))
            loops = s.get_loops(block)
            match r.choice(STEPS):
                case "split":
                    s.split(r.choice(loops), [None, r.choice([2, 3, 4, 5, 8])])
                case "fuse":
                    k = r.randrange(len(loops) - 1)
                    s.fuse(loops[k], loops[k + 1])
                case "reorder":
                    s.reorder(*r.sample(loops, r.randint(2, len(loops))))
                case "read":
                    s.cache_read(block, r.randrange(2), r.choice(["global", "shared", "local"]))
                case "write":
                    s.cache_write(block, 0, r.choice(["global", "local"]))
                case "compute_at":
                    s.compute_at(block, r.choice(s.get_loops(s.get_sblock(r.choice(names)))))
                case "reverse_compute_at":
                    s.reverse_compute_at(block, r.choice(s.get_loops(s.get_sblock(r.choice(names)))))
                case "inline":
                    s.compute_inline(block)
                case "rfactor":
                    s.rfactor(r.choice(loops), 0)
                case "decompose":
                    s.decompose_reduction(block, r.choice(loops))
                case step:
                    getattr(s, step)(r.choice(loops))
        except Exception:  # a step that is not legal here
            continue


STEPS = [
    "split", "split", "fuse", "reorder", "parallel", "vectorize", "unroll", "read", "write", "compute_at",
    "reverse_compute_at", "inline", "rfactor", "decompose",
]  # fmt: skip
BASES = [product, stencil, row_sum, odd_product, softmax, padded]


def bits(module: Any, arrays: list[Any]) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in tir.interpret(tir.parse(module)["main"], *arrays, checked=True)]


A_SPLIT_OF_FUSED_LOOPS = pytest.mark.xfail(strict=True, reason="a fold over loops that are fused and split again")


@pytest.mark.parametrize("seed", [pytest.param(k, marks=A_SPLIT_OF_FUSED_LOOPS if k == 44 else ()) for k in range(60)])
def test_a_random_legal_schedule_lifts_to_what_the_module_takes_where_it_computes_the_same_bits(seed: int):
    plain = module_of(BASES[seed % len(BASES)])
    s = tvm.s_tir.Schedule(plain)
    at_random(s, random.Random(seed))
    func: Any = tir.parse(plain)["main"]
    rng = np.random.default_rng(seed)
    shapes = [tuple(e.value for e in func.buffer_map[p].shape) for p in func.params]
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    try:
        found = costs(s.mod)
    except DiagnosticError:
        with pytest.raises(DiagnosticError):  # TVM made what reads or writes where nothing is
            bits(s.mod, arrays)
        return
    assert found.near(costs(plain)) or bits(s.mod, arrays) != bits(plain, arrays), str(tir.parse(s.mod))


# Loops that TVM's pass writes out: the text of what is lifted is that of the loops.


HEAD = "# from tvm.script import tirx as T\n@T.prim_func\n"
SOURCES = corpus(Path(__file__).with_name("unrolled.txt"))


FOLDED = {"a padded pool": ["..u"], "a stencil with a border": [], "digits": []}
"""Conditions and quotients of numbers are numbers, once they are simplified; only these copies are still alike."""
CASES = {
    f"{name} {kinds}{' simplified' if simplified else ''}": (text, kinds, simplified)
    for name, (text, written_out) in SOURCES.items()
    for kinds in written_out.split()
    for simplified in ((False, True) if kinds in FOLDED.get(name, written_out.split()) else (False,))
}


@pytest.mark.parametrize(("text", "kinds", "simplified"), CASES.values(), ids=CASES)
def test_what_the_pass_writes_out_has_the_text_of_its_loops(text: str, kinds: str, simplified: bool):
    base = ti.tir.parse(HEAD + text.format(*("range" for _ in kinds)) + "\n")["main"]
    unrolled = HEAD + text.format(*("T.unroll" if k == "u" else "range" for k in kinds)) + "\n"
    module = tvm.IRModule({"main": tvm.script.from_source(unrolled, check_well_formed=False)})
    module = tvm.tirx.transform.UnrollLoop()(module)
    module = tvm.tirx.transform.StmtSimplify()(module) if simplified else module
    written = module["main"].script()
    assert "T.unroll" not in written
    function = ti.tir.parse(written)["main"]
    program = ti.lift(function)
    assert up_to_names(str(program)) == up_to_names(str(ti.lift(base))), written
    rng = np.random.default_rng(2)
    buffers = (base.buffer_map[param] for param in base.params)
    numbers = [np.asarray(rng.normal(size=[n.value for n in b.shape]) * 4).astype(str(b.dtype)) for b in buffers]
    wanted = ti.tir.interpret(base, *numbers)
    written_to = [k for k, argument in enumerate(program.arguments) if argument.written]
    for place, got in zip(written_to, program(*numbers), strict=True):
        np.testing.assert_allclose(got, wanted[place], rtol=1e-5, atol=1e-6)


# dlight's schedules undone: what its rules for GPUs, and each step of TVM's lowering, make of an operator lifts to a
# program of the operator's values with as many loops.


LIMITS = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
RULES = [("matmul", "Matmul"), ("conv2d_nchw_2_0_2", "Matmul"), ("softmax", "GeneralReduction")]
NIGHTLY = [
    ("dense", "Matmul"),
    ("conv1d_ncw", "Matmul"),
    ("conv2d_nchw_1_1_1", "Matmul"),
    ("conv2d_nchw_1_2_2", "Matmul"),
    ("conv2d_nhwc_2_1_1", "Matmul"),
    ("conv2d_nhwc_3_0_1", "Matmul"),
    ("layer_norm", "GeneralReduction"),
]
LOWERED = ("scheduled", "CompactBufferAllocation", "FlattenBuffer", "VectorizeLoop")
GATHERED = ("conv1d_ncw", "conv2d_nchw_2_0_2", "conv2d_nhwc_3_0_1")
"""Of these the copy that pads is read through a gather more than the operator's."""


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        *(pytest.param(*case, id="-".join(case)) for case in RULES),
        *(pytest.param(*case, id="-".join(case), marks=pytest.mark.nightly) for case in NIGHTLY),
    ],
)
def test_a_schedule_of_dlight_is_undone_at_every_step(name: str, rule: str):
    from tvm.s_tir import dlight

    from tests.peers import sweep

    every = operators()
    function = tir.parse(module_of(every[name]))["main"]
    wanted, arrays = costs_of(ti.lift(function)), sweep.given(function)
    values = tir.interpret(function, *arrays)
    with tvm.target.Target({"kind": "cuda", "arch": "sm_80", **LIMITS}):
        scheduled: Any = dlight.ApplyDefaultSchedule(getattr(dlight.gpu, rule)())(module_of(every[name]))
    assert "is_scheduled" in scheduled["main"].script()
    for step, module in new(form for form in steps(scheduled) if form[0] in LOWERED):
        costs = costs_of(program := ti.lift(tir.parse(module.script())["main"]))
        # what copies that pad hand on is not always of the operator's own extents: as many loops, more operations
        most_gathers = wanted.gathers + (name in GATHERED)
        assert costs.loops == wanted.loops and (costs.gathers <= most_gathers or step not in LOWERED[:2]), step
        for got, value in zip(program(*arrays), values[-1:], strict=True):
            np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-5, err_msg=step)


# Schedules and lowering undone where data tell what is read: the text of the module itself, and its values.


def sampled_at() -> list[Any]:
    from tvm import te, topi

    a, at = te.placeholder((1, 2, 4, 5), name="A"), te.placeholder((1, 2, 3, 4), name="G")
    return [a, at, topi.image.grid_sample(a, at)]


def one_pixel() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((1, 2, 4, 4), name="A")
    roi = [0.0, 0.0, 0.0, 0.0]
    return [a, topi.image.resize2d(a, roi, (1, 1), method="nearest_neighbor", rounding_method="round")]


def anywhere() -> list[Any]:
    from tvm import te, topi

    a, at = te.placeholder((4, 6, 3), name="A"), te.placeholder((5,), "int32", name="I")
    return [a, at, topi.take(a, at, mode="clip")]


def put_into() -> list[Any]:
    from tvm import te, topi

    a, x = te.placeholder((6, 4), name="A"), te.placeholder((3, 4), name="X")
    at: Any = te.placeholder((3, 4), "int32", name="I")
    return [a, at, x, topi.scatter_elements(a, at, x, 0, "add")]


def gradient() -> list[Any]:
    from tvm import te, topi

    a, g = te.placeholder((1, 2, 8, 8), name="A"), te.placeholder((1, 2, 4, 4), name="G")
    return [g, a, topi.nn.pool_grad(g, a, (2, 2), (2, 2), (0, 0, 0, 0), "max")]


def bitwise() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((2, 8), "uint8", name="A")
    return [a, topi.nn.bitpack(a, 2, 1, 1, "uint8")]


TOLD: dict[str, tuple[Make, Callable[[Any], None]]] = {
    "places that bounds let through": (sampled_at, as_it_is),
    "a place that numbers tell": (one_pixel, as_it_is),
    "any place, in flat memory": (anywhere, as_it_is),
    "places counted from the end": (put_into, as_it_is),
    "the greatest of each window, over threads": (gradient, over_threads),
    "one choice per bit": (bitwise, as_it_is),
}
DEARER = {"the greatest of each window, over threads"}


@pytest.mark.parametrize("name", TOLD)
def test_what_data_tell_is_read_alike_at_each_step_of_the_lowering(name: str):
    plain, lowered = lowered_alike(*TOLD[name], dearer=name in DEARER)
    func = tir.parse(plain)["main"]
    rng = np.random.default_rng(0)
    arrays: list[Any] = []
    for p in func.params:
        buffer = func.buffer_map[p]
        shape = tuple(extent.value for extent in buffer.shape)
        whole = str(buffer.dtype).startswith(("int", "uint"))
        arrays.append((rng.integers(0, 4, shape) if whole else rng.normal(size=shape)).astype(str(buffer.dtype)))
    (found,) = ti.lift(tir.parse(lowered)["main"])(*arrays)
    np.testing.assert_allclose(found, tir.interpret(func, *arrays)[-1], rtol=1e-5, atol=1e-6)
