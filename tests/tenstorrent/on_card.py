"""Emitted programs as machine code: all of a test in one unit, against the calls of a card on this machine."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["SWAPPED", "Compiled", "Refused", "build", "calls_of", "mutable"]

CARD = Path(__file__).parent / "card"
COMPUTE = (
    "common", "compute_kernel_api", "matmul", "eltwise_binary", "eltwise_binary_sfpu", "bcast", "reduce", "pack",
    "tile_move_copy", "transpose_wh", "binary_max_min", "reconfig_data_format", "eltwise_unary/exp",
    "eltwise_unary/sqrt", "eltwise_unary/rsqrt", "eltwise_unary/recip", "eltwise_unary/negative", "eltwise_unary/relu",
    "eltwise_unary/trigonometry", "eltwise_unary/erf_erfc", "eltwise_unary/fill", "eltwise_unary/rounding",
    "eltwise_unary/binop_with_scalar", "eltwise_unary/comp", "eltwise_unary/where", "eltwise_unary/typecast",
    "add_int_sfpu", "sub_int_sfpu", "mul_int_sfpu", "binary_comp",
)  # fmt: skip
HOST = ("host_api", "device", "distributed", "bfloat16", "bfloat8", "tilize_utils", "tensor_accessor_args")
HEADERS = {
    **{f"api/compute/{name}.h": "compute.h" for name in COMPUTE},
    "api/dataflow/dataflow_api.h": "dataflow.h",
    "hostdevcommon/common_values.hpp": "dataflow.h",
    **{f"tt-metalium/{name}.hpp": "host.h" for name in HOST},
}
"""The headers of tt-metal that have what is called, by where they lie there."""
STANDARD = {"algorithm", "array", "bit", "cstdint", "memory", "utility", "vector"}
KERNELS = ("reader", "compute", "writer")


class Refused(Exception):
    """What a call asserts, and does not hold."""


class Compiled:
    """The programs of a unit by name, which are run on arrays."""

    def __init__(self, library: Any, programs: Mapping[str, Any]) -> None:
        self.library, self.programs = library, programs

    def tiles(self, matrix: Any) -> Any:
        """A matrix as the host makes tiles of it."""
        rows, columns = matrix.shape
        made = np.array(matrix, np.float32)
        self.library.tiles(ctypes.c_void_p(made.ctypes.data), rows, columns)
        return made

    def run(self, name: str, arguments: Sequence[Any], mutant: int = -1) -> list[Any]:
        """The arrays after a run, of a mutant of a program of them.

        Raises Refused where a call asserts what does not hold.
        """
        numbers = [float(a) for a in arguments if np.ndim(a) == 0]
        known = [np.array(a) for a in arguments if np.ndim(a)]
        places = (ctypes.c_void_p * len(known))(*(a.ctypes.data for a in known))
        ctypes.c_int.in_dll(self.library, "mutant").value = mutant
        call = getattr(self.library, f"run_{name}")
        call.restype = ctypes.c_char_p
        if said := call(places, *map(ctypes.c_double, numbers)):
            raise Refused(said.decode())
        return known


_CALL = re.compile(r"^( *)(\w+(?:<[\w:, ]*>)?\([^;{}]*\);)$", re.MULTILINE)
SWAPPED = 1000
"""Behind this number, calls are exchanged with the one in the next line; before it, they are left out."""


def calls_of(emitted: Any) -> list[tuple[str, str]]:
    """The calls that stand as statements in the kernels, with the kernel, in the order in which they are numbered."""
    return [(k, call[2]) for k in KERNELS for call in _CALL.finditer(emitted.files[f"{k}.cpp"])]


def mutable(emitted: Any) -> Any:
    """A program of which each call is left out, or exchanged with the next line's, where `mutant` is its number."""
    files, number = dict(emitted.files), itertools.count()
    for kernel in KERNELS:
        lines = files[f"{kernel}.cpp"].split("\n")
        found = [_CALL.fullmatch(line) for line in lines]
        for place, call in enumerate(found):
            if call is None:
                continue
            k = next(number)
            after = found[place + 1]
            swap = "" if after is None else f"if (mutant == {SWAPPED + k}) {after[2]} "
            before = "" if found[place - 1] is None else f" && mutant != {SWAPPED + k - 1}"
            lines[place] = f"{call[1]}{swap}if (mutant != {k}{before}) {call[2]}"
        files[f"{kernel}.cpp"] = "\n".join(lines)
    return dataclasses.replace(emitted, files=files)


def build(programs: Mapping[str, Any], folder: Path) -> Compiled:
    """Programs by name, each in a namespace of its own, compiled with g++ in one unit."""
    parts = [
        '#include "host.h"',
        '#include "dataflow.h"',
        "#include <algorithm>",
        "#include <utility>",
        'extern "C" {\nint mutant = -1;\n}',
    ]
    for header, text in HEADERS.items():
        (folder / header).parent.mkdir(parents=True, exist_ok=True)
        (folder / header).write_text(f'#include "{text}"\n', encoding="utf-8")
    for name, emitted in programs.items():
        own = folder / name
        own.mkdir()
        for file, text in emitted.files.items():
            used = set(re.findall(r'#include ["<]([^">]+)[">]', text))
            assert used <= HEADERS.keys() | STANDARD, used - HEADERS.keys() - STANDARD
            (own / file).write_text(text, encoding="utf-8")
        files = emitted.files
        parts += [f"namespace {name} {{"]
        for kernel in KERNELS:
            calls = "" if kernel == "compute" else "using namespace dataflow_calls;\n"
            parts.append(f'namespace {kernel} {{\n{calls}#include "{name}/{kernel}.cpp"\n}}')
        parts += [f'#include "{name}/host.cpp"', "}", _entry(name, files["host.cpp"], emitted.plan)]
    parts.append(_TILES)
    (folder / "unit.cpp").write_text("\n".join(parts), encoding="utf-8")
    command = ["g++", "-std=c++20", "-O0", "-shared", "-fPIC", "-pthread", f"-I{CARD}", f"-I{folder}"]
    built = subprocess.run(
        [*command, str(folder / "unit.cpp"), "-o", str(folder / "unit.so")],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr[:4000]
    return Compiled(ctypes.CDLL(str(folder / "unit.so")), programs)


_TILES = """
extern "C" void tiles(float* matrix, uint32_t rows, uint32_t columns) {
    const auto made = tilize_nfaces(std::vector<float>(matrix, matrix + rows * columns), rows, columns);
    std::copy(made.begin(), made.end(), matrix);
}
"""


def _entry(name: str, host: str, plan: Mapping[str, Any]) -> str:
    """A function in C that runs a program's host on arrays, and says what a call asserted."""
    function, params = re.search(r"void (run_\w+)\(const std::shared_ptr<[^>]*>& mesh_device, (.*)\) \{", host).groups()
    kinds = re.findall(r"std::vector<(\w+)>& \w+", params)
    numbers = re.findall(r"\b(float|u?int\d+_t) (\w+)", params)
    taken = ", ".join(["void** arrays", *(f"double {x}" for _, x in numbers)])
    lines = [f'extern "C" const char* run_{name}({taken}) {{']
    for k, (kind, buffer) in enumerate(zip(kinds, plan["buffers"].values(), strict=True)):
        first = f"({kind}*)arrays[{k}]"
        lines.append(f"    std::vector<{kind}> a{k}({first}, {first} + {int(np.prod(buffer['shape']))});")
    given = ", ".join([*(f"a{k}" for k in range(len(kinds))), *(f"{kind}({x})" for kind, x in numbers)])
    table = ", ".join(f'{{"{k}.cpp", {name}::{k}::kernel_main}}' for k in KERNELS)
    lines += [
        "    static std::string said;", f"    tt::tt_metal::kernels_by_file = {{{table}}};", "    try {",
        f"        {name}::{function}(std::make_shared<tt::tt_metal::distributed::MeshDevice>(), {given});",
        *(f"        std::copy(a{k}.begin(), a{k}.end(), ({kind}*)arrays[{k}]);" for k, kind in enumerate(kinds)),
        "        return nullptr;", "    } catch (const std::exception& caught) {", "        said = caught.what();",
        "        return said.c_str();", "    }", "}",
    ]  # fmt: skip
    return "\n".join(lines)
