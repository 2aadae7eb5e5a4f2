// One core of a device on this machine: what printed kernels call, with circular buffers that wait for each other.
#pragma once
#include <cstdint>
#include <cstring>

uint32_t argument(int index);
template <typename T>
T get_arg_val(int index) {
    const uint32_t bits = argument(index);
    T value;
    static_assert(sizeof value <= sizeof bits);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

void cb_reserve_back(uint32_t buffer, int32_t tiles);
void cb_push_back(uint32_t buffer, int32_t tiles);
void cb_wait_front(uint32_t buffer, int32_t tiles);
void cb_pop_front(uint32_t buffer, int32_t tiles);
uint32_t get_read_ptr(uint32_t buffer);
uint32_t get_write_ptr(uint32_t buffer);

template <bool DRAM>
struct InterleavedAddrGen {
    uint32_t bank_base_address;
    uint32_t page_size;
};
template <bool DRAM>
uint64_t get_noc_addr(uint32_t page, const InterleavedAddrGen<DRAM>& pages, uint32_t offset = 0) {
    return pages.bank_base_address + uint64_t(page) * pages.page_size + offset;
}
void noc_async_read(uint64_t from, uint32_t to, uint32_t bytes);
void noc_async_write(uint32_t from, uint64_t to, uint32_t bytes);
void noc_async_read_barrier();
void noc_async_write_barrier();
#define ASSERT(condition) \
    if (!(condition)) __builtin_trap()
