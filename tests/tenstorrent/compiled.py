"""Printed programs as machine code: compiled with g++ against a device of this machine's own, and run on arrays."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["run_compiled"]

DEVICE = Path(__file__).parent / "device"
UNIT = """
#include "runtime.cpp"
#include "tiles.h"
template <Fold K, typename T> void noc_combine(uint64_t address, T value) {
    T* place = reinterpret_cast<T*>(address);
    *place = folded<K, T>(*place, value);
}
namespace reader_space {
#include "reader.cpp"
}
namespace writer_space {
#include "writer.cpp"
}
#define NAMESPACE compute_space
#define MAIN compute_main()
#include "compute.cpp"
"""
"""All programs of a core in one translation unit, which is the quickest to compile."""


def _entry(name: str, arguments: list[str]) -> str:
    return f"""#include "main.cpp"
extern "C" void* low(size_t bytes) {{ return low_memory(bytes); }}
extern "C" void run(const uint32_t* given) {{
    IDevice device;
    CommandQueue queue;
    run_{name}(&device, queue, {", ".join(arguments)});
}}
"""


def run_compiled(program: Any, arrays: list[Any], folder: Path) -> list[Any]:
    """The arrays after a run of a program's printed text."""
    for name, text in program.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    func = program.func
    buffers = [p for p in func.params if p in func.buffer_map]
    numbers = [p for p in func.params if p not in func.buffer_map][:-4]
    given = [f"std::make_shared<Buffer>(Buffer{{given[{k}]}})" for k in range(len(buffers))]
    given += [f"given[{len(buffers) + k}]" for k in range(len(numbers))]
    (folder / "unit.cpp").write_text(UNIT + _entry(func.name, given), encoding="utf-8")
    command = ["g++", "-std=c++20", "-O0", "-shared", "-fPIC", "-Wall", "-Wno-unused-variable", "-pthread"]
    built = subprocess.run(
        [*command, f"-I{DEVICE}", f"-I{folder}", str(folder / "unit.cpp"), "-o", str(folder / "program.so")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    library = ctypes.CDLL(str(folder / "program.so"))
    library.low.restype, library.low.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    places: list[int] = []
    words = []
    by_param = dict(zip(func.params, arrays, strict=False))
    for param in buffers:
        array = np.ascontiguousarray(by_param[param])
        place = library.low(array.nbytes)
        ctypes.memmove(place, array.ctypes.data, array.nbytes)
        places.append(place)
    words = [*places, *(int(by_param[p]) for p in numbers)]
    library.run((ctypes.c_uint32 * len(words))(*words))
    found = []
    for param, place in zip(buffers, places, strict=True):
        array = np.empty_like(np.ascontiguousarray(by_param[param]))
        ctypes.memmove(array.ctypes.data, place, array.nbytes)
        found.append(array)
    return found
