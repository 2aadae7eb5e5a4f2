"""Each statement of printed kernels left out, and each buffer exchanged: the check finds it, or nothing is different.

What a kernel computes on tiles of its own is not told by circular buffers: mutants of that are another function of the
same protocol, which comparing arrays tells, and are listed here. Kernels for the card are mutated, too: ten of 2,259
mutants of 25 kernels are other functions, and the rest is found or equivalent.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.tenstorrent.kernels.nodes import Program, Sync, Work, ops_of, place_tensix
from tensorir.tenstorrent.verify import arguments

sys.path.insert(0, str(Path(__file__).parent))
import metal_kernels
from metal_kernels import Kernel
from tensix_kernels import COPY_3D, softmax


def _any(*arrays: Any) -> Any:
    """Numbers are those of the program that is not changed."""


KERNELS = {
    "softmax": Kernel(softmax(70, 40), _any, 0, cores=2), "copy": Kernel(COPY_3D, _any, 0, cores=2),
    **{f"metal {name}": kernel for name, kernel in metal_kernels.KERNELS.items()},
}  # fmt: skip
SHORT = {"softmax", "copy", "metal batches"}
OTHER_FUNCTIONS = {
    # loops over a tile that they change in place: the exponential, and the quotient
    "softmax": ["compute.cpp:21", "compute.cpp:27"],
    "metal softmax": ["compute.cpp:21", "compute.cpp:27"],
    # the largest and the sum of a row's tile, which go on from what is there, and four loops that change in place
    "metal attention": [f"compute.cpp:{line}" for line in (34, 35, 40, 44, 45, 56)],
    # what is computed of X, of Z in its place: both are there
    "metal under_conditions": ["compute.cpp:24", "compute.cpp:36"],
}


def mutants(program: Program) -> Iterator[tuple[str, Program]]:
    for kernel in program.kernels:
        for op in ops_of(kernel.body):
            if (at := place_tensix(program, op)) is None:
                continue
            changes: list[dict[str, Any]] = [{}]
            if isinstance(op, Sync | Work):
                changes += [{"buffer": queue.name} for queue in program.buffers]
            for change in changes:
                try:
                    yield ":".join(map(str, at)), program.edited(*at, **change)
                except LookupError:  # it is the same program, or a loop
                    continue


def is_told(mutant: Program, given: list[Any], right: tuple[Any, ...], cores: int) -> bool:
    """True if the check finds a mutant, it stops in the simulator, or it computes the same."""
    try:
        if ti.tt.check(mutant):
            return True
        run = ti.tt.simulate(mutant, given, cores=cores)
    except ti.DiagnosticError as error:  # a name that stands for nothing
        return error.diagnostics[0].code == "TR07"
    return not run or all(np.array_equal(a, b, equal_nan=True) for a, b in zip(run.arrays, right, strict=True))


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.nightly] * (n not in SHORT)) for n in KERNELS])
def test_a_statement_that_is_left_out_or_on_another_buffer_is_found(name):
    kernel = KERNELS[name]
    func = ti.tir.parse(kernel.text)["main"]
    program = ti.tt.split(ti.tt.pipeline(func, cores=kernel.cores, layouts=kernel.layouts).result)
    given = arguments(func)
    assert ti.tt.check(program) == ()
    right = ti.tt.simulate(program, given, cores=kernel.cores).arrays
    rest = [place for place, mutant in mutants(program) if not is_told(mutant, given, right, kernel.cores)]
    assert rest == OTHER_FUNCTIONS.get(name, [])


def test_a_page_that_is_pushed_without_a_write_stops_a_run():
    func = ti.tir.parse(metal_kernels.chain(64, 96))["main"]
    program = ti.tt.split(ti.tt.pipeline(func, cores=2).result)
    (line,) = [k for k, row in enumerate(program.files["compute.cpp"].splitlines(), 1) if "pack_tile(" in row]
    (fault,) = ti.tt.check(program.edited("compute.cpp", line))
    assert str(fault) == (
        f"compute.cpp:{line}: push without write of CB_Y: it pushes 1 tile, and has written 0: the rest is what was "
        "there before.\n    cb_push_back(CB_Y, 1);"
    )
    run = ti.tt.simulate(program.edited("compute.cpp", line), arguments(func), cores=2)
    assert run.fault is not None and (run.fault.kind, run.fault.core is None) == ("push without write", False)


def test_a_page_that_is_popped_without_a_read_is_found_before_a_run():
    func = ti.tir.parse(metal_kernels.chain(64, 96))["main"]
    program = ti.tt.split(ti.tt.pipeline(func, cores=2).result)
    (line,) = [k for k, row in enumerate(program.files["writer.cpp"].splitlines(), 1) if "write_region(" in row]
    mutant = program.edited("writer.cpp", line)
    (fault,) = ti.tt.check(mutant)
    assert (fault.kind, fault.buffer, fault.file) == ("pop without read", "CB_Y", "writer.cpp")
    assert fault.message == "it pops 1 tile, which nothing has read."
    assert ti.tt.simulate(mutant, arguments(func), cores=2).fault == fault
