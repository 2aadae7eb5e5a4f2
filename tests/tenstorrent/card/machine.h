// Cores of a card on this machine: L1 memory, circular buffers, registers, threads; what a call needs is asserted.
#pragma once
#include <sys/mman.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace card {

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};
inline void need(bool holds, const std::string& message) {
    if (!holds) throw Failure(message);
}

enum class Format { Float32, Float16_b, Bfp8_b, Int32, UInt32, UInt16 };
constexpr bool is_float(Format f) { return f == Format::Float32 || f == Format::Float16_b || f == Format::Bfp8_b; }
constexpr uint32_t tile_bytes(Format f) {
    return f == Format::Bfp8_b ? 1088 : f == Format::Float16_b || f == Format::UInt16 ? 2048 : 4096;
}
constexpr uint32_t L1 = 1499136, DRAM_ALIGNMENT = 64, L1_ALIGNMENT = 16;

inline float from_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}
inline uint16_t half_of(float value) {  // to the nearest, ties to even
    const uint32_t bits = bits_of(value);
    if (value != value) return 0x7fc0;
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float rounded(float value) { return from_bits(uint32_t(half_of(value)) << 16); }
inline float cut(float value) { return from_bits(bits_of(value) & 0xffffe000); }  // the 19 bits of a source register

using Elements = std::array<float, 1024>;  // of integers their bits
inline uint32_t in_faces(uint32_t row, uint32_t column) {  // where an element lies in a tile of four faces
    return (row / 16 * 2 + column / 16) * 256 + row % 16 * 16 + column % 16;
}

// Sixteen elements share an exponent; each has a sign and seven bits of its mantissa, rounded to the nearest.
inline void to_bfp8(const float* from, uint8_t* exponent, uint8_t* to) {
    uint32_t most = 0;
    for (int k = 0; k < 16; ++k) most = std::max(most, bits_of(from[k]) >> 23 & 255);
    *exponent = uint8_t(most);
    for (int k = 0; k < 16; ++k) {
        const uint32_t bits = bits_of(from[k]), own = bits >> 23 & 255;
        const uint32_t whole = own ? (bits & 0x7fffff) | 0x800000 : 0, shift = 17 + most - own;
        uint32_t mantissa = shift > 31 ? 0 : whole >> shift;
        if (shift <= 31 && whole >> (shift - 1) & 1) ++mantissa;
        to[k] = uint8_t((bits >> 31) << 7 | std::min<uint32_t>(mantissa, 127));
    }
}
inline float from_bfp8(uint8_t exponent, uint8_t element) {
    const float size = std::ldexp(float(element & 127), int(exponent) - 127 - 6);
    return element & 128 ? -size : size;
}

inline void unpack(const uint8_t* at, Format f, float* faces) {
    for (uint32_t k = 0; k < 1024; ++k) {
        if (tile_bytes(f) == 4096) std::memcpy(faces + k, at + 4 * k, 4);
        else if (f == Format::UInt16) faces[k] = from_bits(uint32_t(at[2 * k] | at[2 * k + 1] << 8));
        else if (f == Format::Float16_b) faces[k] = from_bits(uint32_t(at[2 * k] | at[2 * k + 1] << 8) << 16);
        else faces[k] = from_bfp8(at[k / 16], at[64 + k]);
    }
}
inline void pack(const float* faces, Format f, uint8_t* at) {
    for (uint32_t k = 0; k < 1024; ++k) {
        if (tile_bytes(f) == 4096) {
            std::memcpy(at + 4 * k, faces + k, 4);
        } else if (f == Format::UInt16) {
            const uint16_t value = uint16_t(bits_of(faces[k]));
            std::memcpy(at + 2 * k, &value, 2);
        } else if (f == Format::Float16_b) {
            const uint16_t half = half_of(faces[k]);
            std::memcpy(at + 2 * k, &half, 2);
        } else if (k % 16 == 0) {
            to_bfp8(faces + k, at + k / 16, at + 64 + k);
        }
    }
}

// A circular buffer of a core, and who makes and who takes its tiles.
struct Ring {
    bool made = false;
    Format format = Format::Float32;
    uint32_t page = 0, pages = 0, base = 0, head = 0, tail = 0, fill = 0;
    uint32_t reserved = 0, packed = 0, waited = 0;
    int producer = -1, consumer = -1;
    bool exact = false;  // copied to registers whole, and not by way of the source registers
    bool kept = false;   // on the core's shard of a buffer
};

constexpr uint32_t SEMAPHORES = 1024;  // the bytes at the end of L1 that they lie in

struct Transfer {
    uint32_t from, to, bytes;
};

enum Role { READER, WRITER, COMPUTE };
enum Part { UNPACK, MATH, PACK };  // the threads of the computation, which run the same text

// A tile of each source register, and what it was unpacked for.
struct Sources {
    std::string what;
    Elements a, b;
};
// The destination registers: the math thread fills one half while the pack thread empties the other.
struct Registers {
    bool wide = false;
    int full = 0;  // halves that are committed and not released
    std::array<std::array<Elements, 8>, 2> tiles{};
    std::array<std::array<bool, 8>, 2> written{};
    std::array<std::array<Format, 8>, 2> kinds{};  // Float32 for all floats
    std::list<Sources> unpacked;  // that the math thread has not taken yet: two banks
    uint32_t count() const { return wide ? 4 : 8; }
};

struct Core {
    uint32_t memory = 0, used = 0;  // an address of 32 bits, as on the card
    std::array<Ring, 32> rings;
    Registers registers;
    Core() {
        void* found = mmap(nullptr, L1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
        need(found != MAP_FAILED, "no memory for a core");
        memory = uint32_t(uintptr_t(found));
    }
    ~Core() { munmap(reinterpret_cast<void*>(uintptr_t(memory)), L1); }
};

struct Waiting {
    std::function<bool()> ready;
    std::string what;
};
// All threads of a program: one lock, and what each of those that wait is waiting for.
struct Machine {
    static constexpr std::chrono::seconds LIMIT{60};
    std::map<std::pair<uint32_t, uint32_t>, Core*> cores;  // by their places on the networks
    std::mutex lock;
    std::condition_variable moved;
    std::list<Waiting> waiting;
    int alive = 0;
    std::string failure;

    void fail(const std::string& message) {
        std::lock_guard held(lock);
        if (failure.empty()) failure = message;
        moved.notify_all();
    }
    void stop_if_stuck() {
        if (alive == 0 || int(waiting.size()) < alive || !failure.empty()) return;
        std::set<std::string> told;
        for (const Waiting& one : waiting) {
            if (one.ready()) return;
            told.insert(one.what);
        }
        failure = "deadlock: all wait";
        for (const std::string& what : told) failure += (what == *told.begin() ? " for " : ", for ") + what;
    }
    void wait(std::unique_lock<std::mutex>& held, std::function<bool()> ready, const std::string& what) {
        if (failure.empty() && ready()) return;
        waiting.push_back({ready, what});
        const auto place = std::prev(waiting.end());
        stop_if_stuck();
        if (!failure.empty()) moved.notify_all();
        const bool in_time = moved.wait_for(held, LIMIT, [&] { return ready() || !failure.empty(); });
        waiting.erase(place);
        need(in_time, "no end within the time limit, waiting for " + what);
        need(failure.empty(), "stopped");
    }
    void leave() {
        std::lock_guard held(lock);
        --alive;
        stop_if_stuck();
        moved.notify_all();
    }
};

// What a thread has for itself.
struct Thread {
    Machine* machine;
    Core* core;
    Role role;
    Part part;
    const std::vector<uint32_t>*arguments, *compile_arguments;
    std::vector<Transfer> reads, writes;
    std::vector<std::function<void()>> sends;  // multicasts that are not done yet
    bool counting = false;  // increments elsewhere that no barrier has waited for
    int network = 0;
    uint32_t semaphores = 0;
};
inline thread_local Thread* self = nullptr;

// Whether a call is another thread's: tiles come in by the unpack thread of a computation, and go out by its pack thread.
inline bool elsewhere(Part part) { return self->role == COMPUTE && self->part != part; }
inline std::string named(uint32_t buffer) { return " circular buffer " + std::to_string(buffer); }
inline Ring& ring(uint32_t buffer) {
    need(buffer < 32 && self->core->rings[buffer].made, "there is no" + named(buffer));
    return self->core->rings[buffer];
}
inline void owned(int& owner, uint32_t buffer, const char* side) {
    need(owner == -1 || owner == self->role, std::string("two ") + side + "s of" + named(buffer));
    owner = self->role;
}
// Whether tiles of a circular buffer, from one of them on, are still read from memory or written there.
inline bool moving(const std::vector<Transfer>& transfers, const Ring& r, uint32_t first, uint32_t tiles) {
    for (const Transfer& t : transfers) {
        if (t.to >= r.base + first * r.page && t.to < r.base + (first + tiles) * r.page) return true;
    }
    return false;
}
inline uint8_t* bytes_at(uint32_t address) { return reinterpret_cast<uint8_t*>(uintptr_t(address)); }

}  // namespace card

inline void cb_reserve_back(uint32_t buffer, uint32_t tiles) {
    using namespace card;
    if (elsewhere(PACK)) return;
    std::unique_lock held(self->machine->lock);
    Ring& r = ring(buffer);
    owned(r.producer, buffer, "producer");
    need(tiles > 0 && r.pages % tiles == 0, "tiles are no part of the size of" + named(buffer));
    self->machine->wait(held, [&] { return r.pages - r.fill >= tiles; }, "room in" + named(buffer));
    r.reserved = tiles;
    r.packed = 0;
    if (r.kept) return;
    // what nothing writes is no number
    for (uint32_t k = 0; k < tiles; ++k) std::memset(bytes_at(r.base + (r.tail + k) % r.pages * r.page), 0xff, r.page);
}
inline void cb_push_back(uint32_t buffer, uint32_t tiles) {
    using namespace card;
    if (elsewhere(PACK)) return;
    std::unique_lock held(self->machine->lock);
    Ring& r = ring(buffer);
    owned(r.producer, buffer, "producer");
    need(r.reserved >= tiles, "tiles pushed and not reserved in" + named(buffer));
    need(self->role != COMPUTE || r.packed == tiles, "tiles pushed and not packed in" + named(buffer));
    need(!moving(self->reads, r, r.tail, tiles), "tiles pushed before their reads are there: no barrier, in" + named(buffer));
    r.reserved = 0;
    r.packed = 0;
    r.fill += tiles;
    r.tail = (r.tail + tiles) % r.pages;
    self->machine->moved.notify_all();
}
inline void cb_wait_front(uint32_t buffer, uint32_t tiles) {
    using namespace card;
    if (elsewhere(UNPACK)) return;
    std::unique_lock held(self->machine->lock);
    Ring& r = ring(buffer);
    owned(r.consumer, buffer, "consumer");
    need(tiles > 0 && r.pages % tiles == 0, "tiles are no part of the size of" + named(buffer));
    self->machine->wait(held, [&] { return r.fill >= tiles; }, "tiles in" + named(buffer));
    r.waited = tiles;
}
inline void cb_pop_front(uint32_t buffer, uint32_t tiles) {
    using namespace card;
    if (elsewhere(UNPACK)) return;
    std::unique_lock held(self->machine->lock);
    Ring& r = ring(buffer);
    owned(r.consumer, buffer, "consumer");
    need(r.waited >= tiles, "tiles popped and not waited for in" + named(buffer));
    need(!moving(self->writes, r, r.head, tiles), "tiles popped before their writes are done: no barrier, in" + named(buffer));
    r.waited -= tiles;
    r.fill -= tiles;
    r.head = (r.head + tiles) % r.pages;
    self->machine->moved.notify_all();
}
template <typename T>
T get_arg_val(uint32_t index) {
    static_assert(sizeof(T) == 4);
    card::need(index < card::self->arguments->size(), "argument " + std::to_string(index) + " is not given");
    T value;
    std::memcpy(&value, &(*card::self->arguments)[index], 4);
    return value;
}

namespace tt {
struct CBIndex {
    enum : uint32_t {
        c_0, c_1, c_2, c_3, c_4, c_5, c_6, c_7, c_8, c_9, c_10, c_11, c_12, c_13, c_14, c_15, c_16, c_17, c_18, c_19,
        c_20, c_21, c_22, c_23, c_24, c_25, c_26, c_27, c_28, c_29, c_30, c_31
    };
};
using DataFormat = card::Format;
}  // namespace tt
using DataFormat = card::Format;
