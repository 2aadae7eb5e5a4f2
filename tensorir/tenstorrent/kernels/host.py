"""The host's side of a program: the text of its own part, and the plan as JSON."""

from __future__ import annotations

import json
from math import prod
from typing import Any

from tensorir.tenstorrent.grid import number
from tensorir.tenstorrent.kernels.header import header
from tensorir.tenstorrent.kernels.nodes import CircularBuffer, Program
from tensorir.tenstorrent.kernels.printing import RESERVED, arguments_of, cpp_type, free, printed, table_of_shares
from tensorir.tenstorrent.schedule import schedule_of
from tensorir.tir import nodes as n


def files(program: Program) -> dict[str, str]:
    """The files of a program by name."""
    made = {f"{role}.cpp": printed(program, program[role]).text for role in ("compute", "reader", "writer")}
    made["tiles.h"] = header(*_tile(program))
    made["main.cpp"] = _main(program)
    made["tt.plan.json"] = json.dumps(_plan(program), indent=2) + "\n"
    return made


def _tile(program: Program) -> tuple[int, int]:
    """The rows and columns of a tile of the hardware."""
    return number(program.func, "tt_tile_height", "defaults"), number(program.func, "tt_tile_width", "defaults")


def _bytes(program: Program, queue: CircularBuffer) -> int:
    """The bytes of one tile of a circular buffer."""
    return prod(_tile(program)) * queue.block.dtype.element.numpy.itemsize


def _plan(program: Program) -> dict[str, Any]:
    func = program.func
    plan = schedule_of(func)
    buffers: dict[str, Any] = {}
    for buffer in (func.buffer_map[p] for p in func.params if p in func.buffer_map):
        prefix = f"tt_buffer_{buffer.name}_"
        facts = {k.removeprefix(prefix): v for k, v in func.attrs.items() if k.startswith(prefix)}
        buffers[buffer.name] = {"dtype": str(buffer.dtype), "shape": [_size(e) for e in buffer.shape], **facts}
    return {
        "kernel": func.name,
        "grid": list(plan.grid),
        "policy": func.attrs.get("tt_schedule_policy", "contiguous"),
        "order": plan.order,
        "num_cores": len(plan.shares),
        "tiles_per_core": [list(pair) for pair in plan.shares],
        "runtime_args": list(_names(func)),
        "buffers": buffers,
        "circular_buffers": [
            {
                "name": q.name, "index": k, "dtype": str(q.block.dtype), "block": [_size(e) for e in q.block.shape],
                "tiles_per_block": q.pages, "capacity": q.capacity, "bytes": q.capacity * _bytes(program, q),
            }
            for k, q in enumerate(program.buffers)
        ],
    }  # fmt: skip


def _size(extent: n.Expr) -> int | str:
    return extent.value if isinstance(extent, n.IntImm) else str(extent)


def _names(func: n.PrimFunc) -> tuple[str, ...]:
    return tuple(p.name for p in func.params if p not in func.buffer_map)


def _main(program: Program) -> str:
    func = program.func
    plan = schedule_of(func)
    numbers, outer = arguments_of(func)
    given, taken = numbers[:-4], {*RESERVED, *_OWN}
    called = {thing: free(thing.name, taken) for thing in (*outer, *given)}
    params = [
        "IDevice* device", "CommandQueue& queue", *(f"const std::shared_ptr<Buffer>& {called[b]}" for b in outer),
        *(f"{cpp_type(p.dtype)} {called[p]}" for p in given),
    ]  # fmt: skip
    lines = [
        *(f"#include <{name}>" for name in ("array", "bit", "cstdint", "memory")),
        '#include "tt_metal/host_api.hpp"', "", "using namespace tt::tt_metal;", "",
        *table_of_shares(plan.shares), "",
        "// The pages of a buffer are its rows.",
        f"void run_{func.name}({', '.join(params)}) {{",
        "    Program program = CreateProgram();",
        "    const auto grid = device->compute_with_storage_grid_size();",
        "    const CoreRange cores({0, 0}, {grid.x - 1, grid.y - 1});",
    ]  # fmt: skip
    for index, q in enumerate(program.buffers):
        size = _bytes(program, q)
        format = f"tt::DataFormat::{_FORMATS.get(str(q.block.dtype), 'Float32')}"
        config = (
            f"CircularBufferConfig({q.capacity} * {size}, {{{{{index}, {format}}}}}).set_page_size({index}, {size})"
        )
        lines.append(f"    CreateCircularBuffer(program, cores, {config});  // {q.name}")
    kinds = {
        "reader": "ReaderDataMovementConfig{}",
        "writer": "WriterDataMovementConfig{}",
        "compute": "ComputeConfig{}",
    }
    for kernel in program.kernels:
        lines.append(
            f'    const auto {kernel.role} = CreateKernel(program, "{kernel.file}", cores, {kinds[kernel.role]});'
        )
    words = [called[p] if p.dtype.is_integer else f"std::bit_cast<uint32_t>({called[p]})" for p in given]
    start = ["SHARES[core].start", "SHARES[core].count", *map(str, plan.grid[:2])]
    values = ", ".join([*(f"uint32_t({w})" for w in words), *start, *(f"{called[b]}->address()" for b in outer)])
    lines += [
        "    for (uint32_t core = 0; core < SHARES.size(); ++core) {",
        "        const CoreCoord at{core % grid.x, core / grid.x};",
        f"        for (const auto kernel : {{{', '.join(k.role for k in program.kernels)}}}) {{",
        f"            SetRuntimeArgs(program, kernel, at, {{{values}}});",
        "        }",
        "    }",
        "    EnqueueProgram(queue, program, /*blocking=*/true);",
        "}",
        "",
    ]
    return "\n".join(lines)


_OWN = ("at", "compute", "core", "cores", "device", "grid", "kernel", "program", "queue", "reader", "writer")
"""Names that the host's program has itself."""
_FORMATS = {
    "float32": "Float32", "float16": "Float16", "bfloat16": "Float16_b", "int32": "Int32", "uint32": "UInt32",
    "uint16": "UInt16", "uint8": "UInt8", "int8": "Int8",
}  # fmt: skip
