"""The kernels of the conformance folder: what they compute, in order, in turns, and watched."""

import json

import ml_dtypes
import numpy as np
import pytest
from tile_samples import KERNELS, binary_of, named_as, needs_samples, text_of

from tensorir.tile import from_bytecode, interpret, parse, to_bytecode

pytestmark = needs_samples
each = pytest.mark.parametrize("folder", KERNELS, ids=lambda p: p.name)
SPECIAL = {"bf16": ml_dtypes.bfloat16, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


def case(folder):
    """The grid, the arguments by name, and the outputs that are expected."""
    launch = json.loads((folder / "launch.json").read_text(encoding="utf-8"))
    data = np.load(folder / "data.npz")
    arrays = {}
    for p in launch["params"]:
        if p["kind"] == "array":
            array = data["in_" + p["name"]]
            arrays[p["name"]] = array.view(SPECIAL[p["ir_dtype"]]) if p["ir_dtype"] in SPECIAL else array
    wanted = {k[4:]: data[k] for k in data.files if k.startswith("out_")}
    return launch, arrays, wanted


def check(folder, module, **options):
    launch, arrays, wanted = case(folder)
    scalars = [p["value"] for p in launch["params"] if p["kind"] not in ("array", "constant")]
    after = dict(
        zip(
            arrays, interpret(module, folder.name, [*arrays.values(), *scalars], launch["grid"], **options), strict=True
        )
    )
    for name, array in wanted.items():
        tolerance = launch["tolerance"]
        got = np.asarray(after[name], np.float64)
        np.testing.assert_allclose(
            got,
            np.asarray(array.view(after[name].dtype), np.float64),
            max(tolerance["rtol"], 1e-7),
            max(tolerance["atol"], 1e-9),
        )


@each
def test_a_kernel_computes_what_its_producer_computed(folder):
    check(folder, text_of(folder))
    check(folder, binary_of(folder))


@each
def test_no_kernel_without_a_race_raises_an_alarm(folder):
    check(folder, text_of(folder), checked=True)


@each
def test_blocks_in_turns_compute_the_same(folder):
    for seed in range(3):
        check(folder, text_of(folder), seed=seed)


# The kernels of the conformance folder: text and bytecode are read, are equal, and go round.


@each
def test_text_and_bytecode_are_equal_modules(folder):
    text, binary = text_of(folder), binary_of(folder)
    assert text.entries[folder.name].attribute("function_type") == binary.operations[0].attribute("function_type")
    assert named_as(binary, text) == text


@each
def test_printing_and_parsing_gives_the_module_back(folder):
    module = text_of(folder)
    assert parse(str(module)) == module


@each
def test_lines_of_views_are_printed_as_the_dialect_prints_them(folder):
    given = (folder / "kernel.mlir").read_text(encoding="utf-8").splitlines()
    ours = str(text_of(folder)).splitlines()
    pick = lambda lines: [line.strip() for line in lines if "_view" in line and "sview" not in line]
    assert pick(ours) == pick(given)


@each
@pytest.mark.parametrize("debug", (True, False))
def test_writing_and_reading_bytecode_gives_the_module_back(folder, debug):
    module = binary_of(folder)
    again = from_bytecode(to_bytecode(module, debug=debug))
    assert again == module
    assert (again.operations[0].location == module.operations[0].location) is debug
