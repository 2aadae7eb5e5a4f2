"""The document's programs in its own notation: each pass makes of the one before it the one after it, text for text.

What the document leaves out of a program, it leaves out of both sides here too; where it errs, the test says so.
"""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import tensorir as ti

FOLDER = Path(__file__).parent / "document"
NAMES = [f"ws{k}_{side}" for k in (1, 2, 3) for side in ("before", "after")]
GEMM = 'AttrStmt(attr_key="tl.gemm", ...)'


def source(name):
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def program(name):
    return ti.tir.parse(source(name), name)["main"]


def annotations(func):
    return {key: value for key, value in func.attrs.items() if key.startswith("tt_")}


@pytest.mark.parametrize("name", NAMES)
def test_a_program_of_the_document_reads_as_it_stands_there_and_prints_what_reads_back(name):
    module = ti.tir.parse(source(name), name)
    assert ti.tir.parse(str(module)) == module


def test_defaults_give_the_output_of_the_first_workstream():
    before, after = program("ws1_before"), program("ws1_after")
    assert annotations(before) == {} and len(annotations(after)) == 5
    # of its output the document writes the attributes, and calls all the rest unchanged
    assert str(ti.tt.defaults(before)) == str(replace(before, attrs=after.attrs))


def test_schedule_and_shard_give_the_output_of_the_second_workstream():
    before, after = program("ws2_before"), program("ws2_after")
    assert before.attrs.items() < after.attrs.items()
    scheduled = ti.tt.schedule(before)
    assert annotations(scheduled) == {k: v for k, v in annotations(after).items() if not k.startswith("tt_buffer_")}
    # the document writes parameters here by name alone: their shapes are those of the first workstream
    whole = replace(program("ws1_before"), attrs=before.attrs)
    assert str(ti.tt.shard(ti.tt.schedule(whole))) == str(replace(whole, attrs=after.attrs))


def test_persistent_gives_the_output_of_the_third_workstream():
    made, wanted = str(ti.tt.persistent(program("ws3_before"))), str(program("ws3_after"))
    # the document's by runs on where a grid has a third extent
    by = "by: T.let[T.int32] = tile_id // grid_x"
    assert wanted.count(f"{by}\n") == 1
    assert made == wanted.replace(f"{by}\n", f"{by} % grid_y\n")


def test_the_output_of_the_third_workstream_computes_what_its_input_does():
    whole = 'AttrStmt(attr_key="tl.gemm", value={"A": A_tile, "B": B_tile, "C": C_tile})'
    before, after = (
        ti.tir.parse(source(name).replace(GEMM, whole), name)["main"] for name in ("ws3_before", "ws3_after")
    )
    verdict = ti.tt.verify(before, after, cores=(64,))
    assert verdict and verdict.tiles == 64, str(verdict)


def test_what_the_document_leaves_out_is_not_taken_for_nothing():
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.tt.split(program("ws3_before"))
    assert str(caught.value).split("\n")[0] == (
        "ws3_before:40:29: error[TN07]: the text leaves out what stands here: tl.gemm."
    )


def test_a_pipeline_prints_the_kernel_before_and_after_each_pass():
    before = program("ws1_before")
    stages = ti.tt.pipeline(before, cores=64)
    assert [stage.name for stage in stages] == ["defaults", "schedule(cores=64)", "shard", "persistent"]
    steps = [before, ti.tt.defaults(before)]
    steps += [ti.tt.schedule(steps[-1], cores=64)]
    steps += [ti.tt.shard(steps[-1])]
    steps += [ti.tt.persistent(steps[-1])]
    assert [(stage.before, stage.after) for stage in stages] == list(pairwise(steps))
    parts = [str(before)]
    for stage, after in zip(stages, steps[1:], strict=True):
        parts.append(f"{stage.name}: {stage.reason}\n{after}")
    assert str(stages) == "\n".join(parts)
    assert stages["schedule"].after is not stages.result and stages.result == steps[-1]


def test_a_pass_with_nothing_to_do_says_so():
    stages = ti.tt.pipeline(replace(program("ws1_before"), attrs=program("ws2_after").attrs))
    assert str(stages["schedule"]) == "schedule: nothing to do"
    assert [stage.changed for stage in stages] == [True, False, False, True]  # it names no order of tiles
