"""What a lifted kernel tells of itself: where numerics differ, and a picture of its grid over its arrays."""

import inspect
import xml.etree.ElementTree

import cuda.tile as ct
import numpy as np
import pytest
from cuda.tile import Constant

import tensorir as ti
from tensorir import tile
from tensorir.integers.dims import Interval
from tensorir.tile.nodes import operations_of
from tests.peers import cutile_kernels as k


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


@ct.kernel
def heads(q, key, v, o, scale, B: Constant[int], T: Constant[int], D: Constant[int]):
    """Attention for heads: a block has some rows of one head."""
    h, i = ct.bid(0), ct.bid(1)
    query = ct.reshape(ct.load(q, index=(h, i, 0), shape=(1, B, D)), (B, D))
    m = ct.full((B, 1), -1e30, ct.float32)
    s = ct.full((B, 1), 0.0, ct.float32)
    acc = ct.full((B, D), 0.0, ct.float32)
    for j in range(ct.num_tiles(key, axis=1, shape=(1, T, D))):
        keys = ct.reshape(ct.load(key, index=(h, j, 0), shape=(1, T, D)), (T, D))
        score = ct.mma(query, ct.transpose(keys), ct.full((B, T), 0.0, ct.float32)) * scale
        new = ct.maximum(m, ct.max(score, axis=1, keepdims=True))
        p = ct.exp(score - new)
        fade = ct.exp(m - new)
        s = s * fade + ct.sum(p, axis=1, keepdims=True)
        acc = ct.mma(p, ct.reshape(ct.load(v, index=(h, j, 0), shape=(1, T, D)), (T, D)), acc * fade)
        m = new
    ct.store(o, index=(h, i, 0), tile=ct.reshape(acc / s, (1, B, D)))


MATMUL = k.matmul, (2, 2), (zeros(32, 48), zeros(48, 16), zeros(32, 16), 16, 8, 16)
ATTENTION = heads, (2, 4), (*(zeros(2, 64, 16) for _ in range(4)), np.float32(1), 16, 32, 16)
HISTOGRAM = k.histogram, 4, (zeros(4096, dtype=np.int32), zeros(256, dtype=np.int32), 1024)


def launch_of(kernel, grid, args):
    nodes = kernel._annotated_function.parameter_annotations
    given = [a for a, node in zip(args, nodes, strict=True) if not getattr(node, "constant", False)]
    return tile.from_cutile(kernel, *args), {"grid": grid, "args": given}


def boxes(case):
    module, launch = launch_of(*case)
    return ti.tile.grid_picture(module, **launch)


def numerics_of(case, numerics):
    module, launch = launch_of(*case)
    return [str(row) for row in ti.lift(module, **launch, numerics=numerics).report.numerics]


def test_a_tiled_product_tells_that_its_sums_are_one():
    rows = "\n".join(numerics_of(MATMUL, "fast"))
    assert "a sum in parts: one sum over all of it; exact: part after part" in rows
    assert "a sum of products" in rows


def test_exact_numerics_differ_in_nothing():
    assert numerics_of(MATMUL, "exact") == []


def test_whole_numbers_are_the_same_in_every_order():
    assert numerics_of(HISTOGRAM, "fast") == []


def test_the_report_shows_them():
    module, launch = launch_of(*MATMUL)
    report = ti.lift(module, **launch).report
    assert "numerics: " in str(report) and "part after part" in report._repr_html_()


def test_each_block_has_the_part_that_it_touches():
    data = boxes(MATMUL).data
    for i, j in np.ndindex(2, 2):
        rows, columns = Interval(16 * i, 16 * i + 16), Interval(8 * j, 8 * j + 8)
        assert data["a", "read"][i, j] == (rows, Interval(0, 48))
        assert data["b", "read"][i, j] == (Interval(0, 48), columns)
        assert data["c", "written"][i, j] == (rows, columns)
    assert {kind for _, kind in data} == {"read", "written"}


def test_blocks_of_arrays_of_three_dims():
    data = boxes(ATTENTION).data
    assert data["key", "read"][1, 2] == (Interval(1, 2), Interval(0, 64), Interval(0, 16))
    assert data["o", "written"][1, 2] == (Interval(1, 2), Interval(32, 48), Interval(0, 16))


def test_what_data_tell_is_the_whole_array():
    data = boxes(HISTOGRAM).data
    assert data["counts", "updated"] == {(k,): (Interval(0, 256),) for k in range(4)}
    assert data["x", "read"][3,] == (Interval(3072, 4096),)


@pytest.mark.parametrize("case", [MATMUL, ATTENTION, HISTOGRAM], ids=["matmul", "attention", "histogram"])
def test_the_picture_shows_every_block_inside_of_its_sheet(case):
    picture = boxes(case)
    sheet = xml.etree.ElementTree.fromstring(picture.svg)
    parts = [r for r in sheet.iter("{http://www.w3.org/2000/svg}rect") if len(r)]
    assert len(parts) == sum(len(found) for found in picture.data.values())
    for r in parts:
        for at, size, whole in (("x", "width", "width"), ("y", "height", "height")):
            assert float(r.get(at)) >= 0 and float(r.get(at)) + float(r.get(size)) <= float(sheet.get(whole))


def test_of_many_blocks_some_are_drawn():
    picture = boxes((k.softmax, 1024, (zeros(1024, 64), zeros(1024, 64), 64)))
    assert "softmax on 1024 blocks, of which 256 are drawn" in str(picture)
    assert list(picture.data["y", "written"])[1] == (4,)


def shared_part(a):
    return a + 1.0


@ct.kernel
def all_write_the_first(x, scale, xs, out, T: ct.Constant[int]):
    a = ct.load(x, index=(ct.bid(0),), shape=(T,)) * scale
    a = shared_part(a) + ct.load(xs[1], index=(0,), shape=(T,))
    ct.store(out, index=(0,), tile=a)


RACING = all_write_the_first, 4, (zeros(64), np.float32(2), [zeros(16), zeros(16)], zeros(64), 16)


def test_parameters_have_the_names_of_the_python_source():
    module, launch = launch_of(*RACING)
    assert [v.name for v in module.operations[0].regions[0].arguments] == [
        "x", "x_shape0", "x_stride0", "scale", "xs_0", "xs_0_shape0", "xs_0_stride0", "xs_1", "xs_1_shape0",
        "xs_1_stride0", "out", "out_shape0", "out_stride0",
    ]  # fmt: skip
    module, launch = launch_of(*MATMUL)
    assert [a.name for a in ti.lift(module, **launch).arguments] == ["a", "b", "c"]


def test_operations_are_where_the_python_source_has_them():
    module, _ = launch_of(*RACING)
    at = {(op.name, op.span.text) for op in operations_of(module)}
    assert {("store_view_tko", "ct.store(out, index=(0,), tile=a)"), ("fma", "a + 1.0")} <= at
    assert ("load_view_tko", "ct.load(xs[1], index=(0,), shape=(T,))") in at


def test_a_race_is_shown_in_the_python_source():
    module, launch = launch_of(*RACING)
    args = [*launch["args"][:2], *launch["args"][2], launch["args"][3]]
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.lift(module, grid=4, args=args)
    (found,) = caught.value.diagnostics
    assert found.code == "TL12" and "of 'out', which both write" in found.message
    assert found.span.text == "ct.store(out, index=(0,), tile=a)" and found.span.source.name == __file__


def test_the_report_has_the_lines_of_the_python_source():
    module, launch = launch_of(*MATMUL)
    lines, first = inspect.getsourcelines(k.matmul._annotated_function.pyfunc)
    at = first + next(n for n, line in enumerate(lines) if "for k in range" in line)
    assert f"line {at}: for " in str(ti.lift(module, **launch).report)
