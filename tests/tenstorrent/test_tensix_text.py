"""The printed C++: every name is declared, and what is compiled of it computes what the simulation does."""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorir as ti

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tilelang"))
from compiled import run_compiled
from tensix_kernels import COPY_3D, chain, matmul, softmax
from test_tensix_programs import SPLIT
from tile_kernels import KERNELS, text

KERNELS_OF = ("reader.cpp", "compute.cpp", "writer.cpp")
PLATFORM = {
    "cb_pop_front", "cb_push_back", "cb_reserve_back", "cb_wait_front", "get_arg_val", "noc_async_read_barrier",
    "noc_async_write_barrier", "kernel_main", "MAIN", "NAMESPACE", "ASSERT", "CreateProgram", "CreateCircularBuffer",
    "CreateKernel", "SetRuntimeArgs", "EnqueueProgram", "CircularBufferConfig", "set_page_size", "CoreRange",
    "CoreCoord", "IDevice", "CommandQueue", "Buffer", "Program", "DataFormat", "ReaderDataMovementConfig",
    "WriterDataMovementConfig", "ComputeConfig", "compute_with_storage_grid_size", "address", "tt", "tt_metal", "size",
}  # fmt: skip
LANGUAGE = {
    "constexpr", "const", "static", "void", "for", "if", "else", "while", "break", "continue", "namespace", "true",
    "false", "float", "double", "bool", "auto", "using", "struct", "static_cast", "std", "shared_ptr", "array", "x",
    "y", "start", "count", "numeric_limits", "infinity", "quiet_NaN", "bit_cast", "min", "max", "abs", "ceil", "cos",
    "erf", "exp", "exp2", "floor", "fmod", "log", "log2", "nearbyint", "pow", "sin", "sqrt", "tanh", "isnan", "isinf",
    "isfinite", "trunc", "round", "fma", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t",
    "uint64_t",
}  # fmt: skip
FORMATS = {"Float32", "Float16", "Float16_b", "Int32", "UInt32", "UInt16", "UInt8", "Int8"}
CLASHES = """
@T.prim_func
def main(queue: T.Buffer((64, 32)), double: T.Buffer((64, 32))):
    for i in T.thread_binding(2, thread="blockIdx.x"):
        with T.sblock("tilelang_root"):
            j = T.sblock_alloc_buffer((32, 32), scope="shared.dyn")
            tile_id = T.sblock_alloc_buffer((32, 32), scope="local.fragment")
            T.copy(T.region(queue[i * 32, 0], 1, 32, 32), T.region(j[0, 0], 2, 32, 32))
            for k in T.parallel(32):
                for l in T.parallel(32):
                    tile_id[k, l] = j[k, l] + T.Cast("float32", i)
            T.copy(T.region(tile_id[0, 0], 1, 32, 32), T.region(double[i * 32, 0], 2, 32, 32))
"""
OWN = {"matmul": matmul(50, 70, 96), "elementwise": chain(64, 96), "softmax": softmax(70, 40), "clashes": CLASHES}


def split(name):
    source = OWN[name] if name in OWN else text(name)
    return ti.tt.split(ti.tir.parse(source)["main"])


def words(source):
    source = re.sub(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"|#include[^\n]*", " ", source, flags=re.DOTALL)
    return set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", source))


def declared(source):
    """What a file declares: names behind a type, and those of functions."""
    types = (
        r"(?:int\d+_t|uint\d+_t|float16|bfloat16|float|double|bool|auto|CoreCoord|CoreRange|Program|Tile|Memory|Block)"
    )
    return set(re.findall(rf"\b{types}(?:<[^;=(]*>)?\s*[&*]?\s*(\w+)\s*(?=[=(\[{{;,):])", source))


@pytest.mark.parametrize("name", [*SPLIT, *OWN])
def test_every_name_in_a_kernel_is_declared(name):
    files = split(name).files
    known = words(files["tiles.h"]) | PLATFORM | LANGUAGE
    for file in KERNELS_OF:
        assert words(files[file]) - known - declared(files[file]) == set(), file
        made = re.findall(r"^ {4}(?:const|static) .*?(\w+)[\[(][^\n]*;$", files[file], re.MULTILINE)
        assert len(made) == len(set(made)), file


@pytest.mark.parametrize("name", ["matmul", "flash", "conv"])
def test_the_host_passes_what_kernels_ask_for(name):
    files = split(name).files
    given = re.search(r"SetRuntimeArgs\(program, kernel, at, \{(.*)\}\);", files["main.cpp"])[1].split(", ")
    buffers = [b.name for b in split(name).func.buffer_map.values()]
    assert given[-len(buffers) :] == [f"{b}->address()" for b in buffers]
    for file in KERNELS_OF:
        for variable, place in re.findall(r"(\w+)\(?(?: = )?get_arg_val<\w+>\((\d+)\)", files[file]):
            place = int(place)
            assert place < len(given)
            if given[place].endswith("->address()") and variable in buffers:
                assert given[place] == f"{variable}->address()"
    left = words(files["main.cpp"]) - words(files["tiles.h"]) - PLATFORM - LANGUAGE - FORMATS - set(buffers)
    own = "run_main SHARES Share device queue program grid cores core at kernel reader compute writer"
    assert left <= set(own.split())


def test_names_that_c_plus_plus_has_already_become_others():
    files = split("clashes").files
    assert "const Memory<float, 64, 32> double_1(" in files["writer.cpp"]
    assert "std::shared_ptr<Buffer>& queue_1" in files["main.cpp"] and "queue_1->address()" in files["main.cpp"]


RUN = ["matmul", "clashes", "flash", "conv", "casts", "scans", "views"]
"""What is compiled here; all others that split were, once: each takes seconds."""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("name", RUN)
def test_compiled_programs_compute_what_the_simulation_does(name, tmp_path):
    rng = np.random.default_rng(5)
    program = split(name)
    if name in OWN:
        shapes = [[int(str(e)) for e in b.shape] for b in program.func.buffer_map.values()]
        args = [rng.normal(size=s).astype(np.float32) for s in shapes]
    else:
        args = KERNELS[name].args(rng)
    found = run_compiled(program, args, tmp_path)
    for got, want in zip(found, ti.tt.simulate(program, args, cores=3).arrays, strict=True):
        got, want = np.asarray(got).astype(np.float64), np.asarray(want).astype(np.float64)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=3e-3 if name in ("flash", "conv") else 1e-4)


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_a_grid_of_three_dims_is_simulated_and_compiled_as_it_is_interpreted(tmp_path):
    func = ti.tir.parse(COPY_3D)["main"]  # 5 x 3 x 3 blocks, and z is outermost
    a = np.random.default_rng(2).normal(size=(3, 24, 40)).astype(np.float32)
    args = [a, np.zeros_like(a)]
    np.testing.assert_array_equal(ti.tir.interpret(func, *args)[1], a)
    program = ti.tt.split(ti.tt.pipeline(func, cores=7).result)
    np.testing.assert_array_equal(ti.tt.simulate(program, args).arrays[1], a)
    np.testing.assert_array_equal(run_compiled(program, args, tmp_path)[1], a)
