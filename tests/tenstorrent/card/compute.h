// Calls of the computation: three threads run the same text, and of each call every thread does what is its part.
#pragma once
#include <cmath>

#include "machine.h"

namespace card {

// What a thread of the computation has set up, and whether it holds a half of the registers.
struct Unit {
    bool started = false, reducing = false, holds = false;
    int half = 0;
    std::string does, sfpu;
    Format a = Format::Float32, b = Format::Float32, out = Format::Float32;
};
inline thread_local Unit* unit = nullptr;

inline void start(uint32_t a, uint32_t b, uint32_t out) {
    need(!unit->started, "the units are configured twice");
    unit->started = true;
    unit->a = ring(a).format, unit->b = ring(b).format, unit->out = ring(out).format;
}
inline void set_up(const std::string& what) {
    need(unit->started, what + " is set up before the units are configured");
    need(!unit->reducing, what + " is set up before reduce_uninit");
    unit->does = what;
}
inline void ready(const std::string& what) {
    need(unit->does == what, what + " is called, and set up is " + unit->does);
}
inline void of_sfpu(const char* what) {
    need(unit->sfpu == what, std::string(what) + " is called, and the vector unit is set up for " + unit->sfpu);
}

// The math thread's half of the registers

inline bool& written(uint32_t at) {
    const Registers& all = self->core->registers;
    need(unit->holds, "a register tile is used and not acquired");
    need(at < all.count(), "register tile " + std::to_string(at) + " of " + std::to_string(all.count()));
    return self->core->registers.written[unit->half][at];
}
inline Format kind_of(Format f) { return is_float(f) ? Format::Float32 : f; }
inline Format& register_kind(uint32_t at) { return self->core->registers.kinds[unit->half][at]; }
inline Elements& register_tile(uint32_t at, bool untouched = false, Format kind = Format::Float32) {
    bool& before = written(at);
    need(!untouched || !before, "the matrix unit writes where a tile is already");
    need(is_float(kind) || (tile_bytes(kind) == 4096) == self->core->registers.wide, "registers of another width than integers");
    before = true;
    register_kind(at) = kind;
    return self->core->registers.tiles[unit->half][at];
}
inline Elements& used_tile(uint32_t at, Format kind = Format::Float32) {
    need(written(at), "a register tile is used that holds nothing");
    need(register_kind(at) == kind, "a register tile is used that holds elements of another type");
    return self->core->registers.tiles[unit->half][at];
}
inline void round_tile(Elements& tile) {
    if (self->core->registers.wide) return;
    for (float& value : tile) value = rounded(value);
}

// From the unpack thread to the math thread

// A tile in front, row by row; by way of a source register 19 bits of each element.
inline Elements front(uint32_t buffer, uint32_t index, bool whole = false) {
    Ring& r = ring(buffer);
    {
        std::lock_guard held(self->machine->lock);
        need(index < r.waited, "tile " + std::to_string(index) + " is read and not waited for in" + named(buffer));
    }
    Elements faces, rows;
    unpack(bytes_at(r.base + (r.head + index) % r.pages * r.page), r.format, faces.data());
    need(whole || !r.exact, "the matrix unit takes tiles that are unpacked to registers whole, of" + named(buffer));
    need(whole || is_float(r.format), "the matrix unit takes integers, of" + named(buffer));
    need(r.exact || tile_bytes(r.format) < 4096 || r.format == Format::Float32, "integers of 32 bits in a source register");
    const bool all = whole && (r.exact || !is_float(r.format));
    for (uint32_t i = 0; i < 32; ++i) {
        for (uint32_t j = 0; j < 32; ++j) rows[i * 32 + j] = all ? faces[in_faces(i, j)] : cut(faces[in_faces(i, j)]);
    }
    return rows;
}
inline void configured_for(uint32_t a, uint32_t b) {
    need(unit->a == ring(a).format && unit->b == ring(b).format, "tiles of another format than is configured");
}
inline void hand_on(const std::string& what, const Elements& a, const Elements& b) {
    std::list<Sources> made;
    made.push_back({what, a, b});
    std::unique_lock held(self->machine->lock);
    auto& unpacked = self->core->registers.unpacked;
    self->machine->wait(held, [&] { return unpacked.size() < 2; }, "source registers that are free");
    unpacked.splice(unpacked.end(), made);
    self->machine->moved.notify_all();
}
inline std::list<Sources> taken(const std::string& what) {
    std::list<Sources> found;
    std::unique_lock held(self->machine->lock);
    auto& unpacked = self->core->registers.unpacked;
    self->machine->wait(held, [&] { return !unpacked.empty(); }, "source registers that are unpacked");
    need(unpacked.front().what == what, what + " is computed with what was unpacked for " + unpacked.front().what);
    found.splice(found.end(), unpacked, unpacked.begin());
    self->machine->moved.notify_all();
    return found;
}

template <typename F>
void each(uint32_t at, const char* what, F function) {
    if (elsewhere(MATH)) return;
    of_sfpu(what);
    Elements& tile = used_tile(at);
    for (float& value : tile) value = function(value);
    round_tile(tile);
}
template <typename F>
void pairs(uint32_t a, uint32_t b, uint32_t to, const char* what, F function) {
    if (elsewhere(MATH)) return;
    of_sfpu(what);
    const Elements x = used_tile(a), y = used_tile(b);
    Elements& tile = register_tile(to);
    for (int k = 0; k < 1024; ++k) tile[k] = function(x[k], y[k]);
    round_tile(tile);
}
enum Over { TILE, ROWS, COLUMNS };
template <typename F>
void of_two(uint32_t a, uint32_t b, uint32_t i, uint32_t j, uint32_t to, const char* what, Over over, F function) {
    ready(what);
    if (self->part == UNPACK) {
        configured_for(a, b);
        hand_on(what, front(a, i), front(b, j));
    }
    if (elsewhere(MATH)) return;
    const auto from = taken(what);
    const Elements &x = from.front().a, &y = from.front().b;
    Elements& tile = register_tile(to, true);
    for (int r = 0; r < 32; ++r) {
        for (int c = 0; c < 32; ++c) {
            tile[r * 32 + c] = function(x[r * 32 + c], y[over == TILE ? r * 32 + c : over == ROWS ? c : r * 32]);
        }
    }
    round_tile(tile);
}

}  // namespace card

inline void tile_regs_acquire() {
    using namespace card;
    need(unit->started, "registers are acquired before the units are configured");
    if (elsewhere(MATH)) return;
    need(!unit->holds, "registers are acquired and not committed");
    std::unique_lock held(self->machine->lock);
    const Registers& all = self->core->registers;  // others ask whether this thread is ready
    self->machine->wait(held, [&] { return all.full < 2; }, "registers that are released");
    unit->holds = true;
}
inline void tile_regs_commit() {
    using namespace card;
    if (elsewhere(MATH)) return;
    need(unit->holds, "registers are committed and not acquired");
    std::lock_guard held(self->machine->lock);
    unit->holds = false, unit->half ^= 1;
    ++self->core->registers.full;
    self->machine->moved.notify_all();
}
inline void tile_regs_wait() {
    using namespace card;
    if (elsewhere(PACK)) return;
    need(!unit->holds, "registers are waited for and not released");
    std::unique_lock held(self->machine->lock);
    const Registers& all = self->core->registers;  // others ask whether this thread is ready
    self->machine->wait(held, [&] { return all.full > 0; }, "registers that are committed");
    unit->holds = true;
}
inline void tile_regs_release() {
    using namespace card;
    if (elsewhere(PACK)) return;
    need(unit->holds, "registers are released and not waited for");
    Registers& all = self->core->registers;
    for (auto& tile : all.tiles[unit->half]) tile.fill(0.0f);
    all.written[unit->half].fill(false);
    std::lock_guard held(self->machine->lock);
    unit->holds = false, unit->half ^= 1;
    --all.full;
    self->machine->moved.notify_all();
}
inline void pack_tile(uint32_t from, uint32_t buffer) {
    using namespace card;
    if (elsewhere(PACK)) return;
    need(unit->holds, "a tile is packed outside of wait and release");
    need(from < self->core->registers.count(), "a register tile is packed that there is not");
    std::lock_guard held(self->machine->lock);
    Ring& r = ring(buffer);
    owned(r.producer, buffer, "producer");
    need(r.packed < r.reserved, "a tile is packed and not reserved in" + named(buffer));
    need(unit->out == r.format, "a tile is packed in another format than is configured, in" + named(buffer));
    const Registers& all = self->core->registers;
    need(!all.written[unit->half][from] || all.kinds[unit->half][from] == kind_of(r.format),
         "elements of another type are packed, in" + named(buffer));
    Elements faces;
    for (uint32_t i = 0; i < 32; ++i) {
        for (uint32_t j = 0; j < 32; ++j) faces[in_faces(i, j)] = self->core->registers.tiles[unit->half][from][i * 32 + j];
    }
    pack(faces.data(), r.format, bytes_at(r.base + (r.tail + r.packed++) % r.pages * r.page));
}
inline void pack_reconfig_data_format(uint32_t buffer) { card::unit->out = card::ring(buffer).format; }
inline void reconfig_data_format(uint32_t a, uint32_t b) {
    card::unit->a = card::ring(a).format;
    card::unit->b = card::ring(b).format;
}
inline void unary_op_init_common(uint32_t a, uint32_t out) {
    card::start(a, a, out);
    card::set_up("copy_tile");
}
inline void binary_op_init_common(uint32_t a, uint32_t b, uint32_t out) { card::start(a, b, out); }
inline void copy_tile_to_dst_init_short(uint32_t) { card::set_up("copy_tile"); }
inline void copy_tile(uint32_t buffer, uint32_t index, uint32_t at) {
    using namespace card;
    ready("copy_tile");
    if (self->part == UNPACK) {
        configured_for(buffer, buffer);
        hand_on("copy_tile", front(buffer, index, true), {});
    }
    if (elsewhere(MATH)) return;
    const auto from = taken("copy_tile");
    const Format kind = kind_of(ring(buffer).format);
    register_tile(at, false, kind) = from.front().a;
    if (kind == Format::Float32) round_tile(register_tile(at));
}

// The matrix unit
inline void mm_init_short(uint32_t, uint32_t, uint32_t turned = 0) { card::set_up(turned ? "matmul of a turned tile" : "matmul_tiles"); }
inline void mm_init(uint32_t a, uint32_t b, uint32_t out, uint32_t turned = 0) {
    card::start(b, a, out);
    mm_init_short(a, b, turned);
}
inline void matmul_tiles(uint32_t a, uint32_t b, uint32_t i, uint32_t j, uint32_t at) {
    using namespace card;
    const bool turned = unit->does == "matmul of a turned tile";
    if (!turned) ready("matmul_tiles");
    if (self->part == UNPACK) {
        configured_for(b, a);
        hand_on(unit->does, front(a, i), front(b, j));
    }
    if (elsewhere(MATH)) return;
    const auto from = taken(unit->does);
    const Elements &x = from.front().a, &y = from.front().b;
    Elements& tile = register_tile(at);
    for (int r = 0; r < 32; ++r) {
        for (int k = 0; k < 32; ++k) {
            const float factor = x[r * 32 + k];
            for (int c = 0; c < 32; ++c) tile[r * 32 + c] += factor * (turned ? y[c * 32 + k] : y[k * 32 + c]);
        }
    }
    round_tile(tile);
}
#define OF_TILES(name, sign)                                                                                             \
    inline void name##_tiles_init(uint32_t, uint32_t) { card::set_up(#name "_tiles"); }                                   \
    inline void name##_tiles(uint32_t a, uint32_t b, uint32_t i, uint32_t j, uint32_t to) {                               \
        card::of_two(a, b, i, j, to, #name "_tiles", card::TILE, [](float x, float y) { return x sign y; });              \
    }                                                                                                                     \
    inline void name##_bcast_cols_init_short(uint32_t, uint32_t) { card::set_up(#name "_tiles_bcast_cols"); }             \
    inline void name##_tiles_bcast_cols(uint32_t a, uint32_t b, uint32_t i, uint32_t j, uint32_t to) {                    \
        card::of_two(a, b, i, j, to, #name "_tiles_bcast_cols", card::COLUMNS, [](float x, float y) { return x sign y; }); \
    }                                                                                                                     \
    inline void name##_bcast_rows_init_short(uint32_t, uint32_t) { card::set_up(#name "_tiles_bcast_rows"); }             \
    inline void name##_tiles_bcast_rows(uint32_t a, uint32_t b, uint32_t i, uint32_t j, uint32_t to) {                    \
        card::of_two(a, b, i, j, to, #name "_tiles_bcast_rows", card::ROWS, [](float x, float y) { return x sign y; });   \
    }
OF_TILES(add, +)
OF_TILES(sub, -)
OF_TILES(mul, *)
inline void transpose_wh_init_short(uint32_t) { card::set_up("transpose_wh_tile"); }
inline void transpose_wh_tile(uint32_t buffer, uint32_t index, uint32_t at) {
    using namespace card;
    ready("transpose_wh_tile");
    if (self->part == UNPACK) hand_on("transpose_wh_tile", front(buffer, index), {});
    if (elsewhere(MATH)) return;
    const auto from = taken("transpose_wh_tile");
    const Elements& x = from.front().a;
    Elements& tile = register_tile(at, true);
    for (int r = 0; r < 32; ++r) {
        for (int c = 0; c < 32; ++c) tile[c * 32 + r] = x[r * 32 + c];
    }
}
enum class PoolType { SUM, MAX };
enum class ReduceDim { REDUCE_ROW, REDUCE_COL };
inline std::string fold_of(PoolType kind, ReduceDim dim) {
    return std::string("reduce_tile ") + (kind == PoolType::SUM ? "SUM" : "MAX") + (dim == ReduceDim::REDUCE_ROW ? " ROW" : " COL");
}
template <PoolType K, ReduceDim D>
void reduce_init(uint32_t, uint32_t, uint32_t) {
    card::set_up(fold_of(K, D));
    card::unit->reducing = true;
}
inline void reduce_uninit() {
    card::need(card::unit->reducing, "reduce_uninit without reduce_init");
    card::unit->reducing = false;
    card::unit->does = "nothing";
}
template <PoolType K, ReduceDim D>
void reduce_tile(uint32_t a, uint32_t scale, uint32_t i, uint32_t j, uint32_t at) {
    using namespace card;
    ready(fold_of(K, D));
    if (self->part == UNPACK) {
        configured_for(a, scale);
        hand_on(fold_of(K, D), front(a, i), front(scale, j));
    }
    if (elsewhere(MATH)) return;
    const auto from = taken(fold_of(K, D));
    const Elements &x = from.front().a, &factors = from.front().b;
    const bool rows = D == ReduceDim::REDUCE_ROW;
    for (int k = 0; k < 1024; ++k) {
        need(factors[k] == (k / 32 % 16 == 0 ? 1.0f : 0.0f), "the tile of factors has no ones in the first row of its faces");
    }
    const bool first = !written(at);
    Elements& tile = register_tile(at);
    for (int r = 0; r < 32; ++r) {
        for (int c = 0; c < 32; ++c) {
            float& place = tile[rows ? r * 32 : c];
            const float value = x[r * 32 + c];
            const bool begins = first && (rows ? c : r) == 0;
            place = begins ? value : K == PoolType::SUM ? place + value : std::max(place, value);
        }
    }
    round_tile(tile);
}

// The vector unit
#define UNARY(name, value)                                                     \
    inline void name##_tile_init() { card::unit->sfpu = #name "_tile"; }       \
    inline void name##_tile(uint32_t at) {                                     \
        card::each(at, #name "_tile", [](float x) -> float { return value; }); \
    }
UNARY(exp, std::exp(x))
UNARY(exp2, std::exp2(x))
UNARY(log, std::log(x))
UNARY(sqrt, std::sqrt(x))
UNARY(rsqrt, 1.0f / std::sqrt(x))
UNARY(recip, 1.0f / x)
UNARY(tanh, std::tanh(x))
UNARY(sigmoid, 1.0f / (1.0f + std::exp(-x)))
UNARY(abs, std::fabs(x))
UNARY(negative, -x)
UNARY(relu, x > 0.0f ? x : 0.0f)
UNARY(sin, std::sin(x))
UNARY(cos, std::cos(x))
UNARY(erf, std::erf(x))
inline void rounding_op_tile_init() { card::unit->sfpu = "rounding"; }
inline void floor_tile(uint32_t at) { card::each(at, "rounding", [](float x) { return std::floor(x); }); }
inline void ceil_tile(uint32_t at) { card::each(at, "rounding", [](float x) { return std::ceil(x); }); }
#define BINARY(name, value)                                                                    \
    inline void name##_tile_init() { card::unit->sfpu = #name "_tile"; }                       \
    inline void name##_tile(uint32_t a, uint32_t b, uint32_t to) {                             \
        card::pairs(a, b, to, #name "_tile", [](float x, float y) -> float { return value; }); \
    }
BINARY(add_binary, x + y)
BINARY(sub_binary, x - y)
BINARY(mul_binary, x* y)
BINARY(div_binary, x / y)
BINARY(binary_max, x > y ? x : y)
BINARY(binary_min, x < y ? x : y)
inline void binop_with_scalar_tile_init() { card::unit->sfpu = "binop_with_scalar"; }
#define SCALAR(name, value)                                                                                       \
    inline void name##_unary_tile(uint32_t at, uint32_t bits) {                                                   \
        card::each(at, "binop_with_scalar", [y = card::from_bits(bits)](float x) -> float { return value; }); \
    }
SCALAR(add, x + y)
SCALAR(sub, x - y)
SCALAR(mul, x* y)
SCALAR(rsub, y - x)
inline void fill_tile_init() { card::unit->sfpu = "fill_tile"; }
inline void fill_tile_bitcast(uint32_t at, uint32_t bits) {
    using namespace card;
    if (elsewhere(MATH)) return;
    of_sfpu("fill_tile");
    register_tile(at).fill(from_bits(bits));
    round_tile(register_tile(at));
}

// Comparisons and choices: 1 where a condition holds, and 0 elsewhere
UNARY(eqz, x == 0.0f)
#define COMPARED(name, sign)                                                                                        \
    BINARY(name##_binary, x sign y)                                                                                 \
    inline void unary_##name##_tile_init() { card::unit->sfpu = "unary_" #name "_tile"; }                           \
    inline void unary_##name##_tile(uint32_t at, uint32_t bits) {                                                   \
        card::each(at, "unary_" #name "_tile", [y = card::from_bits(bits)](float x) -> float { return x sign y; }); \
    }
COMPARED(lt, <)
COMPARED(le, <=)
COMPARED(gt, >)
COMPARED(ge, >=)
COMPARED(eq, ==)
COMPARED(ne, !=)
inline void where_tile_init() { card::unit->sfpu = "where_tile"; }
template <DataFormat F>
void where_tile(uint32_t condition, uint32_t a, uint32_t b, uint32_t to) {
    using namespace card;
    if (elsewhere(MATH)) return;
    of_sfpu("where_tile");
    need(!is_float(F) || (F == Format::Float32) == self->core->registers.wide, "where_tile for registers of another width");
    const Format asked = register_kind(condition);
    need(asked == Format::Float32 || asked == F, "a choice by elements of another type");
    const Elements holds = used_tile(condition, asked), x = used_tile(a, kind_of(F)), y = used_tile(b, kind_of(F));
    Elements& tile = register_tile(to, false, kind_of(F));
    for (int k = 0; k < 1024; ++k) tile[k] = (bits_of(holds[k]) & 0x7fffffff) != 0 ? x[k] : y[k];
}

// Integers, which wrap around
template <DataFormat F>
constexpr auto integer(uint32_t bits) {
    if constexpr (F == DataFormat::Int32) return int32_t(bits);
    else return bits;
}
template <DataFormat F, typename G>
void integers(uint32_t a, uint32_t b, uint32_t to, const std::string& what, G function) {
    using namespace card;
    static_assert(!is_float(F));
    if (elsewhere(MATH)) return;
    of_sfpu(what.c_str());
    const Elements x = used_tile(a, F), y = used_tile(b, F);
    Elements& tile = register_tile(to, false, F);
    for (int k = 0; k < 1024; ++k) {
        const uint32_t made = uint32_t(function(integer<F>(bits_of(x[k])), integer<F>(bits_of(y[k]))));
        tile[k] = from_bits(F == Format::UInt16 ? made & 0xffff : made);
    }
}
#define INTEGERS(name, value)                                                           \
    template <DataFormat F>                                                             \
    void name##_int_tile(uint32_t a, uint32_t b, uint32_t to) {                         \
        integers<F>(a, b, to, #name "_int_tile", [](auto x, auto y) { return value; }); \
    }
INTEGERS(add, uint32_t(x) + uint32_t(y))
INTEGERS(sub, uint32_t(x) - uint32_t(y))
INTEGERS(mul, uint32_t(x) * uint32_t(y))
INTEGERS(lt, x < y)
INTEGERS(le, x <= y)
INTEGERS(gt, x > y)
INTEGERS(ge, x >= y)
inline void add_int_tile_init() { card::unit->sfpu = "add_int_tile"; }
inline void sub_int_tile_init() { card::unit->sfpu = "sub_int_tile"; }
#define FOR_A_FORMAT(name)        \
    template <DataFormat F>       \
    void name##_int_tile_init() { \
        card::unit->sfpu = #name "_int_tile"; \
    }
FOR_A_FORMAT(mul)
FOR_A_FORMAT(lt)
FOR_A_FORMAT(le)
FOR_A_FORMAT(gt)
FOR_A_FORMAT(ge)
#define EXTREME(name, format, value)                                                                 \
    inline void name##_tile_init() { card::unit->sfpu = #name "_tile"; }                             \
    inline void name##_tile(uint32_t a, uint32_t b, uint32_t to) {                                   \
        integers<DataFormat::format>(a, b, to, #name "_tile", [](auto x, auto y) { return value; }); \
    }
EXTREME(binary_max_int32, Int32, x > y ? x : y)
EXTREME(binary_min_int32, Int32, x < y ? x : y)
EXTREME(binary_max_uint32, UInt32, x > y ? x : y)
EXTREME(binary_min_uint32, UInt32, x < y ? x : y)
template <DataFormat F>
void is_zero(uint32_t at) {
    integers<F>(at, at, at, "eqz_tile", [](auto x, auto) { return x == 0; });
}
inline void eqz_tile_int32(uint32_t at) { is_zero<DataFormat::Int32>(at); }
inline void eqz_tile_uint32(uint32_t at) { is_zero<DataFormat::UInt32>(at); }
inline void eqz_tile_uint16(uint32_t at) { is_zero<DataFormat::UInt16>(at); }
inline void abs_tile_int32(uint32_t at) {
    integers<DataFormat::Int32>(at, at, at, "abs_tile", [](auto x, auto) { return x < 0 ? -uint32_t(x) : uint32_t(x); });
}
template <DataFormat F>
void fill_tile_int(uint32_t at, uint32_t value) {
    using namespace card;
    if (elsewhere(MATH)) return;
    of_sfpu("fill_tile");
    register_tile(at, false, F).fill(from_bits(F == Format::UInt16 ? value & 0xffff : value));
}
inline std::string typecast_of(uint32_t from, uint32_t to) {
    return "typecast_tile " + std::to_string(from) + " " + std::to_string(to);
}
template <uint32_t FROM, uint32_t TO>
void typecast_tile_init() {
    card::unit->sfpu = typecast_of(FROM, TO);
}
template <uint32_t FROM, uint32_t TO>
void typecast_tile(uint32_t at) {
    using namespace card;
    constexpr Format from = Format(FROM);
    static_assert(Format(TO) == Format::Float32 && (from == Format::Int32 || from == Format::UInt32));
    if (elsewhere(MATH)) return;
    of_sfpu(typecast_of(FROM, TO).c_str());
    const Elements x = used_tile(at, from);
    Elements& tile = register_tile(at);
    for (int k = 0; k < 1024; ++k) tile[k] = float(integer<from>(bits_of(x[k])));
}
