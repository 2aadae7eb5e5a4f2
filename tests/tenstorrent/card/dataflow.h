// Calls of the reader and the writer: reads and writes are done at their barrier, and not before.
#pragma once
#include "machine.h"

#define tt_l1_ptr

namespace dataflow_calls {  // names of the host's are among them

template <uint32_t OFFSET>
struct TensorAccessorArgs {
    static constexpr uint32_t offset = OFFSET;
    static constexpr uint32_t next_compile_time_args_offset() { return OFFSET + 1; }
};
struct TensorAccessor {
    uint32_t address, page, pages;
    template <uint32_t OFFSET>
    TensorAccessor(TensorAccessorArgs<OFFSET>, uint32_t address, uint32_t page) : address(address), page(page) {
        const auto& layouts = *card::self->compile_arguments;
        card::need(OFFSET + 1 <= layouts.size() / 2, "no layout of a buffer among the arguments of compilation");
        card::need(layouts[2 * OFFSET] == page, "pages of another size than the buffer's");
        pages = layouts[2 * OFFSET + 1];
    }
};

inline uint32_t get_tile_size(uint32_t buffer) { return card::tile_bytes(card::ring(buffer).format); }
inline uint32_t get_write_ptr(uint32_t buffer) {
    using namespace card;
    std::lock_guard held(self->machine->lock);
    const Ring& r = ring(buffer);
    need(r.reserved > 0, "a place to write asked for and not reserved in" + named(buffer));
    return r.base + r.tail * r.page;
}
inline uint32_t get_read_ptr(uint32_t buffer) {
    using namespace card;
    std::lock_guard held(self->machine->lock);
    const Ring& r = ring(buffer);
    need(r.waited > 0, "a place to read asked for and not waited for in" + named(buffer));
    return r.base + r.head * r.page;
}
inline card::Transfer transfer(uint32_t page, const TensorAccessor& pages, uint32_t at) {
    using namespace card;
    need(page < pages.pages, "page " + std::to_string(page) + " of a buffer of " + std::to_string(pages.pages));
    need((pages.address + page * pages.page) % DRAM_ALIGNMENT == 0 && at % L1_ALIGNMENT == 0, "an address is not aligned");
    // within the tiles that are reserved, or waited for
    bool inside = false;
    for (const Ring& r : self->core->rings) {
        const bool mine = self->role == READER ? r.producer == READER && r.reserved : r.consumer == WRITER && r.waited;
        const uint32_t first = self->role == READER ? r.tail : r.head, count = self->role == READER ? r.reserved : r.waited;
        inside |= mine && r.page == pages.page && at >= r.base + first * r.page && at < r.base + (first + count) * r.page;
    }
    need(inside, "a tile is moved outside of what its kernel has reserved or waited for");
    return {pages.address + page * pages.page, at, pages.page};
}
inline void noc_async_read_tile(uint32_t page, const TensorAccessor& pages, uint32_t at) {
    card::need(card::self->role == card::READER, "only the reader reads");
    card::self->reads.push_back(transfer(page, pages, at));
}
inline void noc_async_write_tile(uint32_t page, const TensorAccessor& pages, uint32_t at) {
    card::need(card::self->role == card::WRITER, "only the writer writes");
    card::self->writes.push_back(transfer(page, pages, at));
}
inline void noc_async_read_barrier() {
    for (const auto& t : card::self->reads) std::memcpy(card::bytes_at(t.to), card::bytes_at(t.from), t.bytes);
    card::self->reads.clear();
}
inline void noc_async_write_barrier() {
    for (const auto& t : card::self->writes) std::memcpy(card::bytes_at(t.from), card::bytes_at(t.to), t.bytes);
    card::self->writes.clear();
    std::lock_guard held(card::self->machine->lock);
    for (const auto& send : card::self->sends) send();
    card::self->sends.clear();
    card::self->machine->moved.notify_all();
}
inline void noc_async_atomic_barrier() { card::self->counting = false; }

// Multicast: the places on the networks of a rectangle of cores, and an address in the memory of each
constexpr uint32_t INVALID = 0, VALID = 1;
using Flag = volatile uint32_t*;
struct Rectangle {
    uint32_t x0, y0, x1, y1, address;
};
inline Rectangle get_noc_multicast_addr(uint32_t x0, uint32_t y0, uint32_t x1, uint32_t y1, uint32_t address) {
    card::need(card::self->network == 0 ? x0 <= x1 && y0 <= y1 : x0 >= x1 && y0 >= y1, "a rectangle the wrong way around");
    return {std::min(x0, x1), std::min(y0, y1), std::max(x0, x1), std::max(y0, y1), address};
}
inline Rectangle get_noc_addr(uint32_t x, uint32_t y, uint32_t address) { return {x, y, x, y, address}; }
inline std::vector<card::Core*> cores_of(const Rectangle& to, uint32_t count) {
    using namespace card;
    std::vector<Core*> found;
    for (const auto& [place, core] : self->machine->cores) {
        const auto [x, y] = place;
        if (x >= to.x0 && x <= to.x1 && y >= to.y0 && y <= to.y1) found.push_back(core);
    }
    need(found.size() == count, "a multicast to " + std::to_string(found.size()) + " cores, and " + std::to_string(count) + " are named");
    for (const Core* core : found) need(core != self->core || count == 1, "a multicast to the core that sends it");
    return found;
}
inline uint32_t get_semaphore(uint32_t index) {
    card::need(index < card::self->semaphores, "there is no semaphore " + std::to_string(index));
    return card::self->core->memory + card::L1 - card::SEMAPHORES + 16 * index;
}
inline void noc_semaphore_set(Flag flag, uint32_t value) {
    std::lock_guard held(card::self->machine->lock);
    *flag = value;
    card::self->machine->moved.notify_all();
}
inline void noc_semaphore_wait(Flag flag, uint32_t value) {
    std::unique_lock held(card::self->machine->lock);
    card::self->machine->wait(held, [&] { return *flag == value; }, "a semaphore");
}
inline void noc_semaphore_inc(const Rectangle& to, uint32_t more) {
    using namespace card;
    std::lock_guard held(self->machine->lock);
    self->counting = true;
    const Core* core = cores_of(to, 1)[0];
    *reinterpret_cast<Flag>(bytes_at(core->memory + to.address - self->core->memory)) += more;
    self->machine->moved.notify_all();
}
inline void noc_async_write_multicast(uint32_t from, const Rectangle& to, uint32_t bytes, uint32_t count) {
    using namespace card;
    need(self->reads.empty(), "a block is sent before its reads are there");
    std::lock_guard held(self->machine->lock);
    const uint32_t at = to.address - self->core->memory;
    for (Core* core : cores_of(to, count)) {
        bool reserved = false;  // the same place of the same circular buffer
        for (const Ring& r : core->rings) {
            const uint32_t first = r.base + r.tail * r.page - core->memory;
            reserved |= r.made && r.producer == READER && r.reserved && at == first && bytes == r.reserved * r.page;
        }
        need(reserved, "a block is sent to a core that has not reserved it");
        self->sends.push_back([=] { std::memcpy(bytes_at(core->memory + at), bytes_at(from), bytes); });
    }
}
inline void noc_semaphore_set_multicast(uint32_t from, const Rectangle& to, uint32_t count) {
    using namespace card;
    need(self->sends.empty(), "cores are told of a block before they have it: no barrier");
    std::lock_guard held(self->machine->lock);
    for (Core* core : cores_of(to, count)) {
        self->sends.push_back([=, at = to.address - self->core->memory, value = *reinterpret_cast<Flag>(bytes_at(from))] {
            *reinterpret_cast<Flag>(bytes_at(core->memory + at)) = value;
        });
    }
}

}  // namespace dataflow_calls
