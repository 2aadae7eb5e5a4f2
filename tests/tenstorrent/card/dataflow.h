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
}

}  // namespace dataflow_calls
