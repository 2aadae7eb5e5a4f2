"""Programs of a core in the calls of tt-metal, with the host's program around them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorir.runtime.errors import did_you_mean, refuse
from tensorir.tenstorrent.grid import number
from tensorir.tenstorrent.kernels.nodes import Program
from tensorir.tenstorrent.kernels.printing import RESERVED, cpp_type, free, table_of_shares
from tensorir.tenstorrent.kernels.simulate import check
from tensorir.tenstorrent.metal.compute import ONES, compute_kernel
from tensorir.tenstorrent.metal.dataflow import dataflow_kernel
from tensorir.tenstorrent.metal.memory import (
    Argument,
    Arguments,
    Memory,
    Queue,
    Queues,
    Sent,
    arguments_for,
    memories_of,
)
from tensorir.tenstorrent.metal.registers import Operand, calls_of, fitted
from tensorir.tenstorrent.metal.steps import Fold, Item, Map, Product, Repeat, Turn, When, arranged, read_by, steps_of
from tensorir.tenstorrent.metal.values import BUFFERS, TILE, Card, Leaf, Tile, card_named, shapes_of
from tensorir.tenstorrent.schedule import schedule_of
from tensorir.tenstorrent.traffic import Sharded, lines_of, row_of, shards_of
from tensorir.tir import nodes as n

# The host program: arrays as tiles in the card's memory, circular buffers, kernels, and arguments of every core.

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
        *table_of_shares(plan.shares), "",
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


# Programs of a core in the calls of tt-metal, with the host's program and a plan, within the limits of a card.


@dataclass(frozen=True, slots=True)
class Emitted:
    """The files of a program for a card by name: compute.cpp, reader.cpp, writer.cpp, host.cpp and metal.plan.json."""

    files: Mapping[str, str]
    plan: Mapping[str, Any]

    def __str__(self) -> str:
        return "\n".join(f"// {name}\n{text}" for name, text in self.files.items() if name.endswith(".cpp"))


def emit(
    program: Program, target: str = "wormhole", formats: Mapping[str, str] | None = None, *, mcast: bool = False
) -> Emitted:
    """A program in the calls of tt-metal: compute, reader and writer kernel, host program and plan.

    Tiles have 32 × 32 elements in faces of 16 × 16; the host pads arrays with zeros and makes tiles of them. Sums of
    products stay in the registers, and are loaded and packed again for every step where these do not hold them.
    `formats` stores float32 buffers as "bfp8", by name. With `mcast` a block that the cores of a row or of a column of
    the grid always need together is read by the first of them, which sends it to the others. None of this has been on a
    card: `docs/tensix.md` says what was tried, and how. Raises TN16 for what the card has no call for, with its line,
    TN17 where a limit of the card is exceeded, with both numbers, TN18 for another card than "wormhole" and
    "blackhole", TN19 for a program with a fault of its protocol or a format for what is no float32 buffer, TN21 for a
    buffer in shards whose cores move other tiles than these.

    >>> from tensorir.tir import parse
    >>> from tensorir.tenstorrent.split import split
    >>> program = split(parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((128, 32), "bfloat16"), B: T.Buffer((128, 32), "bfloat16")):
    ...     for bx in T.thread_binding(4, thread="blockIdx.x"):
    ...         for i, j in T.grid(32, 32):
    ...             B[bx * 32 + i, j] = T.exp(A[bx * 32 + i, j])
    ... ''')["main"])
    >>> print(emit(program).files["compute.cpp"].split("kernel_main() {")[1])  # doctest: +NORMALIZE_WHITESPACE
    <BLANKLINE>
        const int32_t tt_count = get_arg_val<int32_t>(0);
        unary_op_init_common(CB_A, CB_B);
        copy_tile_to_dst_init_short(CB_A);
        exp_tile_init();
        for (int32_t i = 0; i < tt_count; ++i) {
            cb_wait_front(CB_A, 1);
            cb_reserve_back(CB_B, 1);
            tile_regs_acquire();
            copy_tile(CB_A, 0, 0);
            exp_tile(0);
            tile_regs_commit();
            tile_regs_wait();
            pack_tile(0, CB_B);
            tile_regs_release();
            cb_push_back(CB_B, 1);
            cb_pop_front(CB_A, 1);
        }
    }
    <BLANKLINE>
    """
    card = card_named(target)
    given = dict(formats or {})
    _agrees(program, card, given)
    shapes = shapes_of(program)
    queues = Queues(program, shapes, given, set())
    items = steps_of(program, shapes)
    own = _own(items, queues)
    for data in {b.data for b in own}:
        if len(views := sorted(b.name for b in own if b.data is data)) > 1:
            message = f"{' and '.join(map(repr, views))} are one memory under two shapes, and tiles lie in one."
            raise refuse("TN16", message, "copy one into the other.", at=program.func.span)
    used = [q.format for q in queues.all] + [queues.format_of(b) for b in own]
    wide = any(format.wide for format in used)
    if wide and (short := next((b for b in (*own, *queues.by_block) if str(b.dtype) == "uint16"), None)) is not None:
        message = f"{short.name!r} is of uint16 and others of 32 bits, and a core's registers are of one width."
        raise refuse("TN16", message, "make it uint32.", at=short.span)
    registers = 4 if wide else 8

    def narrow(leaf: Leaf) -> Operand:
        queue = queues.by_block.get(leaf.buffer)
        return Operand("", "", (queue.format if queue is not None else queues.format_of(leaf.buffer)).narrow)

    def fits(value: Tile) -> bool:
        return calls_of(value, narrow, lambda _: "", lambda: "", registers, wide) is not None

    items = fitted(items, fits, shapes, wide)
    own = _own(items, queues)
    room = {b: shapes.of(b).tiles for b in (*own, *queues.by_block)}
    flow = arranged(items, own, room, registers)
    queues = Queues(program, shapes, given, set())
    shards = shards_of(program, card)
    for sharded in shards.values():
        queue = queues.named(sharded.queue)
        queue.capacity, queue.shard = sharded.tiles, sharded.buffer

    def names() -> Arguments:
        return arguments_for(program, _queue_names(program, own))

    made: list[Arguments] = []

    def arguments() -> Arguments:
        made.append(names())
        return made[-1]

    computation = compute_kernel(flow, queues, shapes, arguments, registers)
    if computation.folds:
        queues.constant("CB_ones", ONES)
    memories = memories_of(program, queues, shapes)
    reader, writer = names(), names()
    lines = lines_of(program, row_of(program, card)) if mcast else {}
    kept = frozenset(shards)
    files = {
        "compute.cpp": computation.text,
        "reader.cpp": dataflow_kernel(program, "reader", queues, memories, reader, computation.folds, lines, kept),
        "writer.cpp": dataflow_kernel(program, "writer", queues, memories, writer, False, {}, kept),
    }
    kernels = Kernels(reader, made[-1], writer)
    _fits(program, card, queues.all, kernels)
    files["host.cpp"] = host_program(program, card, queues.all, memories, shards, kernels, wide)
    sent = {x.name: x.along for x in reader.given if isinstance(x, Sent)}
    plan = {**_plan(program, card, queues.all, memories, shards, registers), "multicast": sent}
    files["metal.plan.json"] = json.dumps(plan, indent=2) + "\n"
    return Emitted(files, plan)


def _queue_names(program: Program, own: Mapping[n.Buffer, object]) -> list[str]:
    return [*(q.name for q in program.buffers), *(f"CB_{b.name}" for b in own), "CB_ones", "CB_zeros"]


def _own(items: tuple[Item, ...], queues: Queues) -> dict[n.Buffer, None]:
    """The blocks that the computation has for itself."""
    return dict.fromkeys(b for b in _blocks(items) if b not in queues.by_block)


def _blocks(items: tuple[Item, ...]) -> list[n.Buffer]:
    """The blocks that steps make and read."""
    found: list[n.Buffer] = []
    for item in items:
        match item:
            case Repeat(body=body):
                found += _blocks(body)
            case When(_, then, otherwise):
                found += _blocks((*then, *otherwise))
            case Map() | Product() | Fold() | Turn():
                found += [*read_by(item), item.dst]
            case _:
                pass
    return found


def _agrees(program: Program, card: Card, formats: Mapping[str, str]) -> None:
    func = program.func
    tile = tuple(number(func, f"tt_tile_{x}", "defaults") for x in ("height", "width"))
    if tile != (TILE, TILE):
        message = f"tiles of {func.name!r} have {tile[0]} × {tile[1]} elements, and those of the card {TILE} × {TILE}."
        raise refuse("TN17", message, "leave out tt_tile_height and tt_tile_width.", at=func.span)
    cores = len(schedule_of(func).shares)
    if cores > card.cores:
        message = f"{func.name!r} runs on {cores} cores, and a {card.name} has {card.cores}: {_by(card.grid)}."
        raise refuse("TN17", message, f"schedule it anew: ti.tt.schedule(f, cores={card.cores}).", at=func.span)
    if faults := check(program):
        raise refuse("TN19", f"the program stops: {faults[0]}", "emit what split made.", at=func.span)
    buffers = {b.name: b for b in func.buffer_map.values()}
    for name, word in formats.items():
        if name not in buffers or word != "bfp8" or str(buffers[name].dtype) != "float32":
            message = f"{name!r} is given the format {word!r}, and float32 buffers are stored as bfp8 only."
            help = did_you_mean(name, buffers) if name not in buffers else "write formats={'A': 'bfp8'}."
            raise refuse("TN19", message, help, at=func.span)


def _by(sizes: tuple[int, ...]) -> str:
    return " × ".join(map(str, sizes))


MOST_ARGUMENTS = 341
"""The arguments that a kernel can be given when it runs."""


def _fits(program: Program, card: Card, queues: list[Queue], kernels: Kernels) -> None:
    func = program.func
    if len(queues) > BUFFERS:
        message = f"{func.name!r} needs {len(queues)} circular buffers, and a core has {BUFFERS}."
        help = "use fewer tiles at a time: one name for those that follow each other."
        raise refuse("TN17", message, help, at=func.span)
    size = sum(queue.bytes for queue in queues)
    if size > card.l1:
        largest = max(queues, key=lambda q: q.bytes)
        on = " and shards" if any(queue.shard for queue in queues) else ""
        message = (
            f"the circular buffers{on} of {func.name!r} have {size:,} bytes, and a core of a {card.name} {card.l1:,}."
        )
        help = f"make tiles smaller, or capacities: {largest.name} has {largest.bytes:,} bytes."
        raise refuse("TN17", message, help, at=func.span)
    for queue in queues:
        # every tile begins where one may: pages of tiles lie one behind the other
        assert queue.format.bytes % card.alignment == 0, queue
    for role in ("reader", "compute", "writer"):
        if (count := len(kernels.of(role).given)) > MOST_ARGUMENTS:
            message = f"the {role} of {func.name!r} is given {count} arguments, and a kernel takes {MOST_ARGUMENTS}."
            raise refuse("TN17", message, "put numbers into buffers.", at=func.span)


def _plan(
    program: Program,
    card: Card,
    queues: list[Queue],
    memories: Mapping[n.Var, Memory],
    shards: Mapping[n.Var, Sharded],
    registers: int,
) -> dict[str, Any]:
    plan = schedule_of(program.func)
    return {
        "kernel": program.func.name,
        "card": card.name,
        "grid": list(card.grid),
        "tiles_per_core": [list(pair) for pair in plan.shares],
        "register_tiles": registers,
        "l1_bytes": sum(queue.bytes for queue in queues),
        "l1_limit": card.l1,
        "read_alignment": card.alignment,
        "private_arrays_bytes": 0,  # kernels have numbers alone in the memory of their processors
        "circular_buffers": [
            {"name": q.name, "index": q.index, "format": q.format.name, "tiles": q.capacity, "bytes": q.bytes,
             "purpose": q.purpose}
            for q in queues
        ],
        "buffers": {
            m.buffer.name: {
                "format": m.format.name, "shape": list(m.shape), "padded": list(m.padded), "tiles": m.tiles,
                "page_bytes": m.format.bytes, "moved": "both ways" if m.loaded and m.stored else
                "to the cores" if m.loaded else "from the cores",
                **_layout(shards.get(m.buffer.data)),
            }
            for m in memories.values()
        },
        "host": ["pads arrays with zeros to whole tiles", "makes tiles of 32 × 32 in faces of 16 × 16", "and back"],
        "never": "on a card",
    }  # fmt: skip


def _layout(sharded: Sharded | None) -> dict[str, Any]:
    if sharded is None:
        return {"layout": "dram_interleaved"}
    return {"layout": sharded.layout, "shards": list(sharded.grid), "shard_tiles": list(sharded.shape)}
