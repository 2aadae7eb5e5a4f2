// The host's side of the device on this machine.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tt {
enum class DataFormat { Float32, Float16, Float16_b, Int32, UInt32, UInt16, UInt8, Int8 };

namespace tt_metal {
struct CoreCoord {
    uint32_t x, y;
    bool operator<(const CoreCoord& other) const { return std::pair(x, y) < std::pair(other.x, other.y); }
};
struct CoreRange {
    CoreCoord first, last;
    CoreRange(CoreCoord first, CoreCoord last) : first(first), last(last) {}
};
struct Buffer {
    uint32_t place;
    uint32_t address() const { return place; }
};
struct IDevice {
    CoreCoord compute_with_storage_grid_size() const { return {8, 8}; }
};
struct CommandQueue {};
struct CircularBufferConfig {
    uint32_t bytes;
    std::map<uint8_t, DataFormat> formats;
    std::map<uint8_t, uint32_t> pages;
    CircularBufferConfig(uint32_t bytes, std::map<uint8_t, DataFormat> formats) : bytes(bytes), formats(formats) {}
    CircularBufferConfig& set_page_size(uint8_t index, uint32_t page) {
        pages[index] = page;
        return *this;
    }
};
struct ReaderDataMovementConfig {};
struct WriterDataMovementConfig {};
struct ComputeConfig {};
using KernelHandle = uint32_t;
struct Program {
    std::vector<CircularBufferConfig> buffers;
    std::vector<std::string> kernels;
    std::map<std::pair<KernelHandle, CoreCoord>, std::vector<uint32_t>> arguments;
};

inline Program CreateProgram() { return {}; }
inline void CreateCircularBuffer(Program& program, const CoreRange&, const CircularBufferConfig& config) {
    program.buffers.push_back(config);
}
template <typename Config>
KernelHandle CreateKernel(Program& program, const std::string& file, const CoreRange&, const Config&) {
    program.kernels.push_back(file);
    return program.kernels.size() - 1;
}
inline void SetRuntimeArgs(Program& program, KernelHandle kernel, const CoreCoord& core, const std::vector<uint32_t>& given) {
    program.arguments[{kernel, core}] = given;
}
void EnqueueProgram(CommandQueue& queue, Program& program, bool blocking);
}  // namespace tt_metal
}  // namespace tt
