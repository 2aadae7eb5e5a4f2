// Runs the kernels of a program: three threads for each core, one core after the other.
#include <sys/mman.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "device.h"
#include "tt_metal/host_api.hpp"

namespace reader_space {
void kernel_main();
}
namespace writer_space {
void kernel_main();
}
namespace compute_space {
void compute_main();
}

// Addresses have 32 bits on the device, and so they have here.
void* low_memory(size_t bytes) {
    void* found = mmap(nullptr, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (found == MAP_FAILED) std::abort();
    return found;
}

namespace {
struct Ring {
    uint8_t* memory;
    uint32_t page, pages, head = 0, tail = 0, fill = 0;
};
std::vector<Ring> rings;
std::mutex lock;
std::condition_variable moved;
thread_local const std::vector<uint32_t>* given;

void when(uint32_t buffer, bool (*ready)(const Ring&, uint32_t), uint32_t tiles) {
    std::unique_lock held(lock);
    // a deadlock of the program ends it
    if (!moved.wait_for(held, std::chrono::seconds(20), [&] { return ready(rings[buffer], tiles); })) std::abort();
}
}  // namespace

uint32_t argument(int index) { return given->at(index); }
void cb_reserve_back(uint32_t b, int32_t n) {
    when(b, [](const Ring& r, uint32_t t) { return r.pages - r.fill >= t; }, n);
}
void cb_wait_front(uint32_t b, int32_t n) {
    when(b, [](const Ring& r, uint32_t t) { return r.fill >= t; }, n);
}
void cb_push_back(uint32_t b, int32_t n) {
    std::lock_guard held(lock);
    rings[b].fill += n;
    rings[b].tail = (rings[b].tail + n) % rings[b].pages;
    moved.notify_all();
}
void cb_pop_front(uint32_t b, int32_t n) {
    std::lock_guard held(lock);
    rings[b].fill -= n;
    rings[b].head = (rings[b].head + n) % rings[b].pages;
    moved.notify_all();
}
static uint32_t place(const Ring& r, uint32_t at) { return uint32_t(uintptr_t(r.memory + at * r.page)); }
uint32_t get_read_ptr(uint32_t b) {
    std::lock_guard held(lock);
    return place(rings[b], rings[b].head);
}
uint32_t get_write_ptr(uint32_t b) {
    std::lock_guard held(lock);
    return place(rings[b], rings[b].tail);
}
void noc_async_read(uint64_t from, uint32_t to, uint32_t bytes) {
    std::memcpy(reinterpret_cast<void*>(uintptr_t(to)), reinterpret_cast<void*>(from), bytes);
}
void noc_async_write(uint32_t from, uint64_t to, uint32_t bytes) {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(uintptr_t(from)), bytes);
}
void noc_async_read_barrier() {}
void noc_async_write_barrier() {}

void tt::tt_metal::EnqueueProgram(CommandQueue&, Program& program, bool) {
    std::map<CoreCoord, std::map<std::string, std::vector<uint32_t>>> cores;
    for (const auto& [key, values] : program.arguments) cores[key.second][program.kernels[key.first]] = values;
    for (const auto& [core, kernels] : cores) {
        rings.clear();
        for (const auto& config : program.buffers) {
            const uint32_t page = config.pages.begin()->second;
            rings.push_back({static_cast<uint8_t*>(low_memory(config.bytes)), page, config.bytes / page});
        }
        auto start = [&kernels = kernels](const char* file, void (*run)()) {
            return std::thread([&kernels, file, run] {
                given = &kernels.at(file);
                run();
            });
        };
        std::thread all[] = {start("reader.cpp", reader_space::kernel_main), start("compute.cpp", compute_space::compute_main),
                             start("writer.cpp", writer_space::kernel_main)};
        for (auto& one : all) one.join();
        for (const auto& ring : rings) munmap(ring.memory, ring.page * ring.pages);
    }
}
