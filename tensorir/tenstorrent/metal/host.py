"""The host program: arrays as tiles in the card's memory, circular buffers, kernels, and arguments of every core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorir.tenstorrent.kernels.expressions import cpp_type
from tensorir.tenstorrent.kernels.nodes import Program
from tensorir.tenstorrent.kernels.printing import RESERVED, free
from tensorir.tenstorrent.metal.arguments import Argument, Arguments, Sent
from tensorir.tenstorrent.metal.cards import Card
from tensorir.tenstorrent.metal.memory import Memory
from tensorir.tenstorrent.metal.queues import Queue
from tensorir.tenstorrent.metal.shapes import TILE
from tensorir.tenstorrent.schedule import schedule_of
from tensorir.tenstorrent.shards import Sharded
from tensorir.tenstorrent.traffic import row_of
from tensorir.tir import nodes as n

__all__ = ["host_program"]

_HEADERS = ("host_api", "device", "distributed", "bfloat16", "bfloat8", "tilize_utils", "tensor_accessor_args")


@dataclass(frozen=True, slots=True)
class Kernels:
    """The names of what each kernel is given, in order."""

    reader: Arguments
    compute: Arguments
    writer: Arguments

    def of(self, role: str) -> Arguments:
        return {"reader": self.reader, "compute": self.compute, "writer": self.writer}[role]


def host_program(
    program: Program,
    card: Card,
    queues: Sequence[Queue],
    memories: Mapping[n.Var, Memory],
    shards: Mapping[n.Var, Sharded],
    kernels: Kernels,
    wide_registers: bool,
) -> str:
    """The text of the host's program: a function of a mesh device and of the arrays, row by row, as vectors."""
    func, plan = program.func, schedule_of(program.func)
    taken = {*RESERVED, *_OWN}
    arrays = {m.buffer: free(m.buffer.name, taken) for m in memories.values()}
    numbers = [p for p in func.params if p not in func.buffer_map][:-4]
    called = {p: free(p.name, taken) for p in numbers}
    params = [
        "const std::shared_ptr<distributed::MeshDevice>& mesh_device",
        *(f"{'' if m.stored else 'const '}std::vector<{m.format.host}>& {arrays[m.buffer]}" for m in memories.values()),
        *(f"{cpp_type(p.dtype)} {called[p]}" for p in numbers),
    ]
    cores = len(plan.shares)
    wide = row_of(program, card)
    lines = [
        *(f"#include <{x}>" for x in ("algorithm", "array", "bit", "cstdint", "memory", "utility", "vector")),
        *(f"#include <tt-metalium/{x}.hpp>" for x in _HEADERS), "",
        "using namespace tt;", "using namespace tt::tt_metal;", "",
        "struct Share { uint32_t start, count; };",
        f"constexpr std::array<Share, {cores}> SHARES = {{{{",
        *_wrapped([f"{{{first}, {count}}}" for first, count in plan.shares]), "}};", "",
        *_PADDING.split("\n"),
        f"void run_{func.name}({', '.join(params)}) {{",
        f"    // cores of a {card.name} row by row, {wide} in each",
        "    const auto grid = mesh_device->compute_with_storage_grid_size();",
        f"    TT_FATAL(grid.x >= {min(cores, wide)} && grid.y >= {-(-cores // wide)}, \"too few cores\");",
        "    std::vector<CoreRange> placed;",
        "    for (uint32_t core = 0; core < SHARES.size(); ++core) {",
        f"        const CoreCoord at{{core % {wide}, core / {wide}}};",
        "        placed.emplace_back(at, at);",
        "    }",
        "    const CoreRangeSet cores(placed);",
        "    distributed::MeshCommandQueue& commands = mesh_device->mesh_command_queue();",
        "    distributed::MeshWorkload workload;",
        "    Program program = CreateProgram();", "",
    ]  # fmt: skip
    for memory in memories.values():
        lines += _upload(memory, arrays[memory.buffer], shards.get(memory.buffer.data))
    lines.append("")
    for queue in queues:
        config = (
            f"CircularBufferConfig({queue.bytes}, {{{{CBIndex::c_{queue.index}, DataFormat::{queue.format.name}}}}})"
        )
        config += f".set_page_size(CBIndex::c_{queue.index}, {queue.format.bytes})"
        if queue.shard is not None:
            config += f".set_globally_allocated_address(*{arrays[queue.shard]}_l1->get_backing_buffer())"
        lines.append(f"    CreateCircularBuffer(program, cores, {config});  // {queue.name}: {queue.purpose}")
    lines.append("")
    sent = {thing.name: thing.along for thing in kernels.reader.given if isinstance(thing, Sent)}
    for name in sent:
        for side in ("ready", "there"):
            lines.append(f"    const uint32_t {name}_{side} = CreateSemaphore(program, cores, /*INVALID*/ 0);")
    # what is multicast goes from lower to higher places, which is the way of the first network
    networks = (0, 1) if sent else (1, 0)
    for role, processor, network in (("reader", 1, networks[0]), ("writer", 0, networks[1])):
        lines.append(f"    std::vector<uint32_t> {role}_layouts;")
        for thing in kernels.of(role).given:
            if isinstance(thing, n.Buffer):
                lines.append(f"    TensorAccessorArgs(*{arrays[thing]}_dram).append_to({role}_layouts);")
        lines += [
            f'    const auto {role} = CreateKernel(program, "{role}.cpp", cores,',
            f"        DataMovementConfig{{.processor = DataMovementProcessor::RISCV_{processor}, "
            f".noc = NOC::RISCV_{network}_default,",
            f"                           .compile_args = {role}_layouts}});",
        ]
    exact = [q for q in queues if q.format.wide and q.copied and not q.multiplied]
    if exact:
        lines.append("    std::vector<UnpackToDestMode> unpacked(NUM_CIRCULAR_BUFFERS, UnpackToDestMode::Default);")
        lines += [f"    unpacked[{q.index}] = UnpackToDestMode::UnpackToDestFp32;  // {q.name}" for q in exact]
    config = [".math_fidelity = MathFidelity::HiFi4", f".fp32_dest_acc_en = {str(wide_registers).lower()}"]
    config += [".unpack_to_dest_mode = unpacked"] if exact else []
    lines.append('    const auto compute = CreateKernel(program, "compute.cpp", cores,')
    lines.append(f"        ComputeConfig{{{', '.join(config)}}});")
    lines += ["", "    for (uint32_t core = 0; core < SHARES.size(); ++core) {",
              f"        const CoreCoord at{{core % {wide}, core / {wide}}};"]  # fmt: skip
    for name, along in sent.items():
        lines += _line(name, along, cores, wide)
    runtime = [p for p in func.params if p not in func.buffer_map][-4:]
    for role in ("reader", "compute", "writer"):
        given = ", ".join(_given(thing, arrays, called, runtime) for thing in kernels.of(role).given)
        lines.append(f"        SetRuntimeArgs(program, {role}, at, {{{given}}});")
    lines += [
        "    }", "",
        "    workload.add_program(distributed::MeshCoordinateRange(mesh_device->shape()), std::move(program));",
        "    distributed::EnqueueMeshWorkload(commands, workload, /*blocking=*/false);",
    ]  # fmt: skip
    for memory in memories.values():
        if memory.stored:
            lines += _download(memory, arrays[memory.buffer], shards.get(memory.buffer.data))
    return "\n".join([*lines, "}", ""])


def _line(name: str, along: str, cores: int, wide: int) -> list[str]:
    """The cores that a block is multicast to: those of the row or column of its first core, which sends it."""
    if along == "row":
        others = f"std::min<uint32_t>({wide}, {cores} - at.y * {wide}) - 1"
        places = ("{0, at.y}", f"{{std::min<uint32_t>(1, {name}_others), at.y}}", f"{{{name}_others, at.y}}")
    else:
        others = f"({cores} - at.x + {wide - 1}) / {wide} - 1"
        places = ("{at.x, 0}", f"{{at.x, std::min<uint32_t>(1, {name}_others)}}", f"{{at.x, {name}_others}}")
    return [
        f"        const uint32_t {name}_others = {others};",
        *(
            f"        const CoreCoord {name}_{side} = mesh_device->worker_core_from_logical_core(CoreCoord{place});"
            for side, place in zip(("first", "next", "last"), places, strict=True)
        ),
    ]


def _fact(sent: Sent) -> str:
    match sent.fact:
        case "sends":
            return "uint32_t(at.x == 0)" if sent.along == "row" else "uint32_t(at.y == 0)"
        case "others" | "ready" | "there":
            return f"{sent.name}_{sent.fact}"
        case place:
            return f"uint32_t({sent.name}_{place.replace('_', '.')})"


def _given(thing: Argument, arrays: Mapping[n.Buffer, str], called: Mapping[n.Var, str], runtime: list[n.Var]) -> str:
    if isinstance(thing, Sent):
        return _fact(thing)
    if isinstance(thing, n.Buffer):
        return f"uint32_t({arrays[thing]}_dram->address())"
    if thing in runtime:
        return ("SHARES[core].start", "SHARES[core].count")[runtime.index(thing)]
    return (
        f"uint32_t({called[thing]})" if thing.dtype.is_integer else f"std::bit_cast<uint32_t>(float({called[thing]}))"
    )


def _place(sharded: Sharded | None) -> str:
    """The memory that a buffer lies in, as its name on the host says it."""
    return "dram" if sharded is None else "l1"


def _upload(memory: Memory, name: str, sharded: Sharded | None) -> list[str]:
    """An array as tiles in memory, with zeros where there is no element."""
    rows, columns = memory.padded[0] * memory.padded[1], memory.padded[2]
    size = memory.format.bytes
    shapes = f"{{{', '.join(map(str, memory.shape))}}}, {{{', '.join(map(str, memory.padded))}}}"
    sent = memory.format.sent or memory.format.host
    tiles = f"tilize_nfaces(fitted<{sent}>({name}, {shapes}), {rows}, {columns})"
    packed = memory.format.name == "Bfp8_b"
    place = _place(sharded)
    lines = [f"    distributed::ReplicatedBufferConfig {name}_size{{.size = {memory.tiles * size}}};"]
    kind = f".buffer_type = BufferType::{place.upper()}"
    if sharded is not None:
        elements = f"{{{sharded.shape[0] * TILE}, {sharded.shape[1] * TILE}}}"
        whole = f"{{{sharded.grid[0] * sharded.shape[0]}, {sharded.grid[1] * sharded.shape[1]}}}"
        spec = f"(cores, {elements}, ShardOrientation::ROW_MAJOR, {{{TILE}, {TILE}}}, {whole})"
        lines.append(f"    const ShardSpecBuffer {name}_shards{spec};")
        given = f"{name}_shards, TensorMemoryLayout::{sharded.layout.upper()}"
        kind += f",\n        .sharding_args = BufferShardingArgs({given})"
    lines += [
        f"    distributed::DeviceLocalBufferConfig {name}_pages{{.page_size = {size},",
        f"        {kind}}};",
        f"    auto {name}_{place} = distributed::MeshBuffer::create({name}_size, {name}_pages, mesh_device.get());",
        f"    auto {name}_tiles = {tiles};",
    ]
    if packed:
        lines.append(
            f"    auto {name}_packed = pack_as_bfp8_tiles(tt::stl::Span<const float>({name}_tiles), "
            "/*row_major_input=*/false, /*is_exp_a=*/false);"
        )
    sent = f"{name}_packed" if packed else f"{name}_tiles"
    return [*lines, f"    distributed::EnqueueWriteMeshBuffer(commands, {name}_{place}, {sent}, /*blocking=*/false);"]


def _download(memory: Memory, name: str, sharded: Sharded | None) -> list[str]:
    """An array from its tiles in memory."""
    place = _place(sharded)
    rows, columns = memory.padded[0] * memory.padded[1], memory.padded[2]
    shapes = f"{{{', '.join(map(str, memory.padded))}}}, {{{', '.join(map(str, memory.shape))}}}"
    if memory.format.name != "Bfp8_b":
        return [
            f"    distributed::EnqueueReadMeshBuffer(commands, {name}_tiles, {name}_{place}, /*blocking=*/true);",
            f"    {name} = fitted<{memory.format.host}>(untilize_nfaces({name}_tiles, {rows}, {columns}), {shapes});",
        ]
    return [
        f"    distributed::EnqueueReadMeshBuffer(commands, {name}_packed, {name}_{place}, /*blocking=*/true);",
        f"    {name}_tiles = unpack_bfp8_tiles_into_float_vec(tt::stl::Span<const uint32_t>({name}_packed), "
        "/*row_major_output=*/false, /*is_exp_a=*/false);",
        f"    {name} = fitted<float>(untilize_nfaces({name}_tiles, {rows}, {columns}), {shapes});",
    ]


_PADDING = """\
using Extents = std::array<uint32_t, 3>;

// The elements of an array that others have too, and zeros for the rest: so arrays become whole tiles, and back.
template <typename T, typename F>
std::vector<T> fitted(const std::vector<F>& from, const Extents& have, const Extents& want) {
    std::vector<T> made(want[0] * want[1] * want[2], T(0.0f));
    for (uint32_t m = 0; m < have[0] && m < want[0]; ++m) {
        for (uint32_t r = 0; r < have[1] && r < want[1]; ++r) {
            for (uint32_t c = 0; c < have[2] && c < want[2]; ++c) {
                made[(m * want[1] + r) * want[2] + c] = T(from[(m * have[1] + r) * have[2] + c]);
            }
        }
    }
    return made;
}
"""
_OWN = (
    "at", "commands", "compute", "core", "cores", "fitted", "grid", "mesh_device", "placed", "program", "reader",
    "unpacked", "workload", "writer", "tt",
)  # fmt: skip
"""Names that the host's program has itself."""


def _wrapped(parts: list[str], each: int = 8) -> list[str]:
    """Some entries of a list on each line."""
    return [f"    {', '.join(parts[k : k + each])}," for k in range(0, len(parts), each)]
