// Calls of the host: buffers in memory, circular buffers, kernels by the name of their file, and a run of all cores.
#pragma once
#include <bit>

#include "compute.h"
#include "machine.h"

#define TT_FATAL(condition, message) card::need(condition, message)
constexpr uint32_t NUM_CIRCULAR_BUFFERS = 32;

struct bfloat16 {
    uint16_t bits = 0;
    bfloat16() = default;
    bfloat16(float value) : bits(card::half_of(value)) {}
    operator float() const { return card::from_bits(uint32_t(bits) << 16); }
};

namespace tt::stl {
template <typename T>
struct Span {
    T* from;
    size_t size;
    template <typename U>
    explicit Span(const std::vector<U>& v) : from(v.data()), size(v.size()) {}
};
}  // namespace tt::stl

template <typename T>
std::vector<T> in_tiles(const std::vector<T>& from, uint32_t rows, uint32_t columns, bool back) {
    card::need(rows % 32 == 0 && columns % 32 == 0 && from.size() == rows * columns, "no whole tiles");
    std::vector<T> made(from.size());
    for (uint32_t r = 0; r < rows; ++r) {
        for (uint32_t c = 0; c < columns; ++c) {
            const uint32_t at = (r / 32 * (columns / 32) + c / 32) * 1024 + card::in_faces(r % 32, c % 32);
            if (back) made[r * columns + c] = from[at];
            else made[at] = from[r * columns + c];
        }
    }
    return made;
}
template <typename T>
std::vector<T> tilize_nfaces(const std::vector<T>& from, uint32_t rows, uint32_t columns) {
    return in_tiles(from, rows, columns, false);
}
template <typename T>
std::vector<T> untilize_nfaces(const std::vector<T>& from, uint32_t rows, uint32_t columns) {
    return in_tiles(from, rows, columns, true);
}

namespace tt::tt_metal {

struct CoreCoord {
    size_t x = 0, y = 0;
    auto operator<=>(const CoreCoord&) const = default;
};
struct CoreRange {
    CoreCoord start, end;
    CoreRange(CoreCoord start, CoreCoord end) : start(start), end(end) {}
};
struct CoreRangeSet {
    std::vector<CoreRange> ranges;
    explicit CoreRangeSet(std::vector<CoreRange> ranges) : ranges(std::move(ranges)) {}
};
enum class BufferType { DRAM, L1 };
enum class ShardOrientation { ROW_MAJOR, COL_MAJOR };
enum class TensorMemoryLayout { INTERLEAVED, HEIGHT_SHARDED, WIDTH_SHARDED, BLOCK_SHARDED };
using Pair = std::array<uint32_t, 2>;
struct ShardSpecBuffer {
    std::vector<CoreCoord> cores;
    Pair shape, pages;  // the tiles of a shard, and of all, down and across
    ShardSpecBuffer(const CoreRangeSet& set, Pair elements, ShardOrientation way, Pair page, Pair pages) : pages(pages) {
        for (const auto& range : set.ranges) cores.push_back(range.start);
        card::need(way == ShardOrientation::ROW_MAJOR && page == Pair{32, 32}, "shards of tiles, in the order of their cores");
        shape = {elements[0] / 32, elements[1] / 32};
        card::need(elements[0] % 32 == 0 && elements[1] % 32 == 0, "a shard that is no whole tiles");
        card::need(pages[0] % shape[0] == 0 && pages[1] % shape[1] == 0, "shards that reach outside");
        card::need(pages[0] / shape[0] * (pages[1] / shape[1]) == cores.size(), "another number of shards than of cores");
    }
    // The page of all that a page of a core's shard is.
    uint32_t page_of(uint32_t core, uint32_t page) const {
        const uint32_t across = pages[1] / shape[1];
        return (core / across * shape[0] + page / shape[1]) * pages[1] + core % across * shape[1] + page % shape[1];
    }
};
struct BufferShardingArgs {
    std::shared_ptr<const ShardSpecBuffer> spec;
    BufferShardingArgs() = default;
    BufferShardingArgs(const ShardSpecBuffer& given, TensorMemoryLayout layout) : spec(std::make_shared<ShardSpecBuffer>(given)) {
        card::need(layout != TensorMemoryLayout::INTERLEAVED, "shards that are interleaved");
        card::need(layout != TensorMemoryLayout::HEIGHT_SHARDED || given.shape[1] == given.pages[1], "rows that are cut");
        card::need(layout != TensorMemoryLayout::WIDTH_SHARDED || given.shape[0] == given.pages[0], "columns that are cut");
    }
};
struct Buffer {
    uint32_t place, bytes, page;
    BufferShardingArgs sharding;
};
enum class MathFidelity { LoFi, HiFi2, HiFi3, HiFi4 };
enum class UnpackToDestMode { Default, UnpackToDestFp32 };
enum class DataMovementProcessor { RISCV_0, RISCV_1 };
enum class NOC { RISCV_0_default, RISCV_1_default };
struct DataMovementConfig {
    DataMovementProcessor processor;
    NOC noc;
    std::vector<uint32_t> compile_args;
};
struct ComputeConfig {
    MathFidelity math_fidelity;
    bool fp32_dest_acc_en = false;
    std::vector<UnpackToDestMode> unpack_to_dest_mode;
};
struct CircularBufferConfig {
    uint32_t bytes, index, page = 0;
    DataFormat format;
    const Buffer* buffer = nullptr;
    CircularBufferConfig(uint32_t bytes, std::map<uint32_t, DataFormat> formats)
        : bytes(bytes), index(formats.begin()->first), format(formats.begin()->second) {}
    CircularBufferConfig& set_page_size(uint32_t, uint32_t size) {
        page = size;
        return *this;
    }
    CircularBufferConfig& set_globally_allocated_address(const Buffer& on) {
        card::need(on.sharding.spec && on.page == page, "a circular buffer on no shard of its tiles");
        card::need(bytes == on.sharding.spec->shape[0] * on.sharding.spec->shape[1] * page, "another size than the shard's");
        buffer = &on;
        return *this;
    }
};

struct Kernel {
    void (*run)();
    card::Role role;
    std::vector<uint32_t> compile_arguments;
    ComputeConfig config;
    int network = 0;
};
inline std::map<std::string, void (*)()> kernels_by_file;  // of the program whose host runs
struct Program {
    std::vector<CircularBufferConfig> buffers;
    std::vector<Kernel> kernels;
    std::vector<CoreCoord> cores;
    uint32_t semaphores = 0;
    std::map<CoreCoord, std::map<uint32_t, std::vector<uint32_t>>> arguments;
};
inline Program CreateProgram() { return {}; }
inline void CreateCircularBuffer(Program& program, const CoreRangeSet& cores, const CircularBufferConfig& config) {
    card::need(config.index < 32, "more circular buffers than a core has");
    card::need(config.page == card::tile_bytes(config.format), "a page is no tile of its format");
    card::need(config.bytes % config.page == 0, "a circular buffer that is no whole tiles");
    for (const auto& other : program.buffers) card::need(other.index != config.index, "a circular buffer is made twice");
    program.buffers.push_back(config);
    program.cores.clear();
    for (const auto& range : cores.ranges) program.cores.push_back(range.start);
}
inline uint32_t CreateKernel(Program& program, const std::string& file, const CoreRangeSet&, const DataMovementConfig& config) {
    const bool reads = config.processor == DataMovementProcessor::RISCV_1;
    const int network = config.noc == NOC::RISCV_1_default;
    for (const Kernel& other : program.kernels) card::need(other.network != network, "two kernels on one network");
    program.kernels.push_back({kernels_by_file.at(file), reads ? card::READER : card::WRITER, config.compile_args, {}, network});
    return program.kernels.size() - 1;
}
inline uint32_t CreateKernel(Program& program, const std::string& file, const CoreRangeSet&, const ComputeConfig& config) {
    program.kernels.push_back({kernels_by_file.at(file), card::COMPUTE, {}, config, -1});
    return program.kernels.size() - 1;
}
inline uint32_t CreateSemaphore(Program& program, const CoreRangeSet&, uint32_t value) {
    card::need(value == 0 && 16 * program.semaphores < card::SEMAPHORES, "a semaphore that begins with 0, of 64");
    return program.semaphores++;
}
inline void SetRuntimeArgs(Program& program, uint32_t kernel, CoreCoord at, const std::vector<uint32_t>& values) {
    program.arguments[at][kernel] = values;
}

namespace distributed {
struct MeshCommandQueue {};
struct MeshShape {};
struct MeshCoordinateRange {
    explicit MeshCoordinateRange(MeshShape) {}
};
struct MeshDevice {
    MeshCommandQueue commands;
    CoreCoord compute_with_storage_grid_size() const { return {8, 8}; }
    MeshCommandQueue& mesh_command_queue() { return commands; }
    // where a core lies on the networks, which is not where it lies in the grid
    static CoreCoord worker_core_from_logical_core(CoreCoord at) { return {at.x + 1, at.y + 2}; }
    MeshShape shape() const { return {}; }
};
struct ReplicatedBufferConfig {
    uint64_t size;
};
struct DeviceLocalBufferConfig {
    uint32_t page_size;
    BufferType buffer_type;
    BufferShardingArgs sharding_args;
};
struct MeshBuffer : Buffer {
    static std::shared_ptr<MeshBuffer> create(ReplicatedBufferConfig size, DeviceLocalBufferConfig pages, MeshDevice*) {
        card::need(size.size % pages.page_size == 0, "a buffer that is no whole pages");
        void* found = mmap(nullptr, size.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
        card::need(found != MAP_FAILED, "no memory");
        const auto& spec = pages.sharding_args.spec;
        card::need(bool(spec) == (pages.buffer_type == BufferType::L1), "shards lie in L1, and nothing else does here");
        card::need(!spec || spec->pages[0] * spec->pages[1] * pages.page_size == size.size, "shards of another buffer");
        return std::make_shared<MeshBuffer>(
            MeshBuffer{{uint32_t(uintptr_t(found)), uint32_t(size.size), pages.page_size, pages.sharding_args}});
    }
    const Buffer* get_backing_buffer() const { return this; }
    uint32_t address() const { return place; }
};
template <typename T>
void EnqueueWriteMeshBuffer(MeshCommandQueue&, std::shared_ptr<MeshBuffer>& to, std::vector<T>& from, bool) {
    card::need(from.size() * sizeof(T) == to->bytes, "an array of another size than its buffer");
    std::memcpy(card::bytes_at(to->place), from.data(), to->bytes);
}
template <typename T>
void EnqueueReadMeshBuffer(MeshCommandQueue&, std::vector<T>& to, std::shared_ptr<MeshBuffer>& from, bool) {
    to.resize(from->bytes / sizeof(T));
    std::memcpy(to.data(), card::bytes_at(from->place), from->bytes);
    munmap(card::bytes_at(from->place), from->bytes);
}
struct MeshWorkload {
    std::vector<Program> programs;
    void add_program(MeshCoordinateRange, Program&& program) { programs.push_back(std::move(program)); }
};

// The shards of all cores, into their circular buffers, or back from these.
inline void copy_shards(const Program& program, const std::vector<std::unique_ptr<card::Core>>& cores, bool back) {
    for (const auto& config : program.buffers) {
        if (config.buffer == nullptr) continue;
        const ShardSpecBuffer& spec = *config.buffer->sharding.spec;
        card::need(spec.cores == program.cores, "shards of other cores than the program's");
        for (uint32_t core = 0; core < cores.size(); ++core) {
            for (uint32_t page = 0; page < config.bytes / config.page; ++page) {
                uint8_t* own = card::bytes_at(cores[core]->rings[config.index].base + page * config.page);
                uint8_t* all = card::bytes_at(config.buffer->place + spec.page_of(core, page) * config.page);
                std::memcpy(back ? all : own, back ? own : all, config.page);
            }
        }
    }
}

// All kernels of all cores, each a thread, and a computation three.
inline void run(const Program& program) {
    using namespace card;
    Machine machine;
    std::vector<std::unique_ptr<Core>> cores;
    std::vector<std::thread> threads;
    std::vector<std::function<void()>> starts;
    for (const CoreCoord& at : program.cores) {
        need(program.arguments.contains(at), "a placed core is given no arguments");
        Core& core = *cores.emplace_back(std::make_unique<Core>());
        const CoreCoord place = MeshDevice::worker_core_from_logical_core(at);
        machine.cores[{place.x, place.y}] = &core;
        for (const auto& config : program.buffers) {
            Ring& r = core.rings[config.index];
            r.kept = config.buffer != nullptr;
            r.made = true, r.format = config.format, r.page = config.page, r.pages = config.bytes / config.page;
            core.used = (core.used + L1_ALIGNMENT - 1) / L1_ALIGNMENT * L1_ALIGNMENT;
            r.base = core.memory + core.used;
            core.used += config.bytes;
            need(core.used + 16 * program.semaphores <= L1, "circular buffers of more bytes than a core has");
        }
    }
    for (size_t c = 0; c < cores.size(); ++c) {
        Core& core = *cores[c];
        const CoreCoord at = program.cores[c];
        for (uint32_t k = 0; k < program.kernels.size(); ++k) {
            const Kernel& kernel = program.kernels[k];
            need(program.arguments.at(at).contains(k), "a kernel of a placed core is given no arguments");
            for (uint32_t b = 0; b < kernel.config.unpack_to_dest_mode.size(); ++b) {
                core.rings[b].exact = kernel.config.unpack_to_dest_mode[b] == UnpackToDestMode::UnpackToDestFp32;
            }
            const bool computes = kernel.role == COMPUTE;
            if (computes) core.registers.wide = kernel.config.fp32_dest_acc_en;
            for (const Part part : computes ? std::vector{UNPACK, MATH, PACK} : std::vector{UNPACK}) {
                starts.push_back([&machine, &core, &kernel, part, semaphores = program.semaphores,
                                  &arguments = program.arguments.at(at).at(k)] {
                    Thread own{&machine, &core, kernel.role, part, &arguments, &kernel.compile_arguments, {}, {}, {}, false,
                               kernel.network, semaphores};
                    Unit has;
                    self = &own, unit = &has;
                    try {
                        kernel.run();
                        need(own.reads.empty() && own.writes.empty() && own.sends.empty() && !own.counting, "a kernel ends before its reads or writes are done");
                        need(!has.holds, part == MATH ? "registers are acquired and never committed" : "registers are waited for and never released");
                    } catch (const std::exception& caught) {
                        machine.fail(caught.what());
                    }
                    machine.leave();
                });
            }
        }
    }
    copy_shards(program, cores, false);
    machine.alive = int(starts.size());
    for (const auto& start : starts) threads.emplace_back(start);
    for (auto& thread : threads) thread.join();
    if (machine.failure.empty()) {
        for (const auto& core : cores) {
            for (const Ring& r : core->rings) {
                if (r.fill) machine.failure = "tiles are left over";
            }
            if (core->registers.full) machine.failure = "registers are committed and never waited for";
            if (!core->registers.unpacked.empty()) machine.failure = "tiles are unpacked and never computed with";
        }
    }
    need(machine.failure.empty(), machine.failure);
    copy_shards(program, cores, true);
}
inline void EnqueueMeshWorkload(MeshCommandQueue&, MeshWorkload& workload, bool) {
    for (const auto& program : workload.programs) run(program);
}
}  // namespace distributed

struct TensorAccessorArgs {
    std::vector<uint32_t> layout;
    explicit TensorAccessorArgs(const distributed::MeshBuffer& buffer) : layout{buffer.page, buffer.bytes / buffer.page} {
        card::need(!buffer.sharding.spec, "tiles of shards are moved");
    }
    void append_to(std::vector<uint32_t>& arguments) const { arguments.insert(arguments.end(), layout.begin(), layout.end()); }
};

inline std::vector<uint32_t> pack_as_bfp8_tiles(tt::stl::Span<const float> tiles, bool row_major_input, bool is_exp_a) {
    card::need(!row_major_input && !is_exp_a && tiles.size % 1024 == 0, "tiles in faces, and exponents of 8 bits");
    std::vector<uint32_t> made(tiles.size / 1024 * 272);
    for (size_t k = 0; k < tiles.size / 1024; ++k) {
        card::pack(tiles.from + 1024 * k, card::Format::Bfp8_b, reinterpret_cast<uint8_t*>(made.data() + 272 * k));
    }
    return made;
}
inline std::vector<float> unpack_bfp8_tiles_into_float_vec(tt::stl::Span<const uint32_t> tiles, bool row_major, bool is_exp_a) {
    card::need(!row_major && !is_exp_a, "tiles in faces, and exponents of 8 bits");
    std::vector<float> made(tiles.size / 272 * 1024);
    for (size_t k = 0; k < tiles.size / 272; ++k) {
        card::unpack(reinterpret_cast<const uint8_t*>(tiles.from + 272 * k), card::Format::Bfp8_b, made.data() + 1024 * k);
    }
    return made;
}

}  // namespace tt::tt_metal
