"""The header that printed kernels include: what it means to copy, multiply, reduce and move tiles, element by element.

It is a library of templates and the same for every kernel but for the extents of a tile of the hardware. It stands on
the platform's `get_read_ptr`, `get_write_ptr`, `noc_async_read` and `noc_async_write`.
"""

from __future__ import annotations

OPERATIONS: dict[str, str] = {
    "abs": "std::abs", "fabs": "std::abs", "ceil": "std::ceil", "cos": "std::cos", "cosh": "std::cosh",
    "erf": "std::erf", "exp": "std::exp", "exp10": "exp10", "exp2": "std::exp2", "floor": "std::floor",
    "fmod": "std::fmod", "isfinite": "std::isfinite", "isinf": "std::isinf", "isnan": "std::isnan", "log": "std::log",
    "log10": "std::log10", "log1p": "std::log1p", "log2": "std::log2", "nearbyint": "std::nearbyint",
    "pow": "std::pow", "power": "std::pow", "round": "std::nearbyint", "rsqrt": "rsqrt", "sigmoid": "sigmoid",
    "sin": "std::sin", "sinh": "std::sinh", "sqrt": "std::sqrt", "tan": "std::tan", "tanh": "std::tanh",
    "trunc": "std::trunc", "acos": "std::acos", "asin": "std::asin", "atan": "std::atan", "atan2": "std::atan2",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "bitwise_not": "bitwise_not", "shift_left": "shift_left", "shift_right": "shift_right", "likely": "",
    "clamp": "clamp", "__exp": "std::exp", "ieee_add": "add", "ieee_sub": "sub", "ieee_mul": "mul", "ieee_fdiv": "div",
    "ieee_fmaf": "std::fma", "ieee_fsqrt": "std::sqrt", "ieee_frsqrt": "rsqrt", "ieee_frcp": "reciprocal",
}  # fmt: skip
"""What functions of TIR are called in C++; the header has those without a namespace, and "" hands its argument on."""


def header(high: int, wide: int) -> str:
    """The text of `tiles.h` for tiles of the hardware of some rows and columns."""
    return _TEXT.replace("{high}", str(high)).replace("{wide}", str(wide))


_TEXT = r"""#pragma once
// Blocks in circular buffers, tiles that a computation has for itself, boxes of memory, and what is done with them.
#pragma GCC optimize("wrapv")  // sums of integers wrap
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

constexpr int32_t TILE_HEIGHT = {high}, TILE_WIDTH = {wide};

using float16 = _Float16;

struct bfloat16 {
    uint16_t bits;
    bfloat16() = default;
    template <typename T>
    bfloat16(T given) {
        const float value = static_cast<float>(given);
        uint32_t all;
        std::memcpy(&all, &value, sizeof all);
        bits = value != value ? 0x7fc0 : (all + 0x7fff + ((all >> 16) & 1)) >> 16;
    }
    operator float() const {
        const uint32_t all = uint32_t(bits) << 16;
        float value;
        std::memcpy(&value, &all, sizeof value);
        return value;
    }
};

// Functions of elements

// What functions of the standard take in place of a half.
template <typename T> using wide = std::conditional_t<std::is_integral_v<T> || (sizeof(T) > 2), T, float>;
// Towards zero; 0 for what T does not hold, and for NaN.
template <typename T, typename F>
T to_integer(F given) {
    const double value = std::trunc(static_cast<double>(given));
    const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
    return value < end && value >= (std::is_signed_v<T> ? -end : 0.0) ? static_cast<T>(value) : T(0);
}
// The second where one of both is NaN, which std::min and std::max give the first for.
template <typename T> T minimum(T a, T b) { return a < b ? a : b; }
template <typename T> T maximum(T a, T b) { return a > b ? a : b; }
template <typename T> T rsqrt(T x) { return T(1) / T(std::sqrt(wide<T>(x))); }
template <typename T> T sigmoid(T x) { return T(1) / T(T(1) + T(std::exp(-wide<T>(x)))); }
template <typename T> T exp10(T x) { return T(std::pow(wide<T>(10), wide<T>(x))); }
template <typename T>
T floor_div(T a, T b) {
    if constexpr (std::is_integral_v<T>) return a / b - (a % b != 0 && (a < 0) != (b < 0));
    else return T(std::floor(wide<T>(a) / wide<T>(b)));
}
template <typename T> T floor_mod(T a, T b) { return a - floor_div(a, b) * b; }
template <typename T> T add(T a, T b) { return a + b; }
template <typename T> T sub(T a, T b) { return a - b; }
template <typename T> T mul(T a, T b) { return a * b; }
template <typename T> T div(T a, T b) { return a / b; }
template <typename T> T reciprocal(T a) { return T(1) / a; }
template <typename T> T clamp(T x, T low, T high) { return x < low ? low : high < x ? high : x; }
template <typename T> T bitwise_and(T a, T b) { return a & b; }
template <typename T> T bitwise_or(T a, T b) { return a | b; }
template <typename T> T bitwise_xor(T a, T b) { return a ^ b; }
template <typename T> T bitwise_not(T a) { return ~a; }
template <typename T> T shift_left(T a, T b) { return a << b; }
template <typename T> T shift_right(T a, T b) { return a >> b; }

// What has elements

template <uint32_t... E>
struct Shape {
    static constexpr uint32_t rank = sizeof...(E);
    static constexpr std::array<int32_t, rank> extents = {int32_t(E)...};
    static constexpr int32_t count = (1 * ... * int32_t(E));
    using Index = std::array<int32_t, rank>;

    static Index index(int32_t flat) {
        Index found{};
        for (uint32_t d = rank; d-- > 0; flat /= extents[d]) found[d] = flat % extents[d];
        return found;
    }
    static int32_t flat(const Index& at) {
        int32_t found = 0;
        for (uint32_t d = 0; d < rank; ++d) found = found * extents[d] + at[d];
        return found;
    }
};

// A tile that a computation has for itself, or other extents of the memory of one.
template <typename T, uint32_t... E>
struct Tile : Shape<E...> {
    using element = T;
    T* data;
    explicit Tile(void* memory) : data(static_cast<T*>(memory)) {}
    T& at(const typename Shape<E...>::Index& i) const { return data[Shape<E...>::flat(i)]; }
    template <typename... I> T& operator()(I... i) const { return at({static_cast<int32_t>(i)...}); }
};

// A block of tiles of the hardware in a circular buffer; each tile lies row by row.
template <typename T, uint32_t... E>
struct Block : Shape<E...> {
    using element = T;
    uint32_t buffer;
    explicit constexpr Block(uint32_t buffer) : buffer(buffer) {}
    constexpr operator uint32_t() const { return buffer; }
    T& at(const typename Shape<E...>::Index& i) const { return place(get_read_ptr(buffer), i); }
    T& back(const typename Shape<E...>::Index& i) const { return place(get_write_ptr(buffer), i); }
    template <typename... I> T& operator()(I... i) const { return at({static_cast<int32_t>(i)...}); }

    static uint32_t offset(const typename Shape<E...>::Index& i) {
        constexpr uint32_t rank = sizeof...(E);
        constexpr auto& e = Shape<E...>::extents;
        constexpr int32_t rows = rank > 1 ? e[rank - 2] : 1, columns = e[rank - 1];
        constexpr int32_t down = (rows + TILE_HEIGHT - 1) / TILE_HEIGHT;
        constexpr int32_t across = (columns + TILE_WIDTH - 1) / TILE_WIDTH;
        const int32_t row = rank > 1 ? i[rank - 2] : 0, column = i[rank - 1];
        const int32_t outer = Shape<E...>::flat(i) / (rows * columns);
        const int32_t page = (outer * down + row / TILE_HEIGHT) * across + column / TILE_WIDTH;
        return (page * TILE_HEIGHT + row % TILE_HEIGHT) * TILE_WIDTH + column % TILE_WIDTH;
    }

  private:
    static T& place(uint32_t address, const typename Shape<E...>::Index& i) {
        return reinterpret_cast<T*>(static_cast<uintptr_t>(address))[offset(i)];
    }
};

// A box of one of these.
template <typename X, uint32_t... E>
struct Part : Shape<E...> {
    using element = typename X::element;
    const X& whole;
    std::array<int32_t, sizeof...(E)> start;
    element& at(typename Shape<E...>::Index i) const {
        for (uint32_t d = 0; d < sizeof...(E); ++d) i[d] += start[d];
        return whole.at(i);
    }
};

template <uint32_t... E, typename X>
Part<X, E...> part(const X& whole, const std::array<int32_t, sizeof...(E)>& start) {
    return {{}, whole, start};
}

template <typename X> typename X::element& element_of(const X& x, int32_t flat) { return x.at(X::index(flat)); }

// What a computation does with tiles

enum Fold { SUM, ABSSUM, MAX, MIN, ABSMAX, BITAND, BITOR, BITXOR };

template <Fold K, typename T>
T folded(T a, T b) {
    if constexpr (K == SUM) return a + b;
    else if constexpr (K == ABSSUM) return a + (b < T(0) ? T(-b) : b);
    else if constexpr (K == MAX) return b > a ? b : a;
    else if constexpr (K == MIN) return b < a ? b : a;
    else if constexpr (K == ABSMAX) return (b < T(0) ? T(-b) : b) > a ? (b < T(0) ? T(-b) : b) : a;
    else if constexpr (K == BITAND) return a & b;
    else if constexpr (K == BITOR) return a | b;
    else return a ^ b;
}

template <Fold K, typename T>
T start_of_fold() {
    using limits = std::numeric_limits<std::conditional_t<std::is_integral_v<T>, T, float>>;
    if constexpr (K == BITAND) return ~T(0);
    else if constexpr (K == MAX) return T(limits::has_infinity ? -limits::infinity() : limits::lowest());
    else if constexpr (K == MIN) return T(limits::has_infinity ? limits::infinity() : limits::max());
    else return T(0);
}

template <typename D, typename V>
void fill_tile(const D& dst, V value) {
    for (int32_t k = 0; k < D::count; ++k) element_of(dst, k) = static_cast<typename D::element>(value);
}

template <typename S, typename D>
void copy_tile(const S& src, const D& dst) {
    static_assert(S::count == D::count);
    for (int32_t k = 0; k < D::count; ++k) element_of(dst, k) = static_cast<typename D::element>(element_of(src, k));
}

template <typename S, typename D>
void pack_tile(const S& src, const D& dst) {
    static_assert(S::count == D::count);
    for (int32_t k = 0; k < D::count; ++k) {
        dst.back(D::index(k)) = static_cast<typename D::element>(element_of(src, k));
    }
}

template <typename S, typename D>
void transpose_tile(const S& src, const D& dst) {
    constexpr int32_t columns = S::extents[S::rank - 1], rows = S::count / columns;
    for (int32_t k = 0; k < S::count; ++k) {
        element_of(dst, k % columns * rows + k / columns) = static_cast<typename D::element>(element_of(src, k));
    }
}

template <typename A, typename B, typename C>
void matmul_tiles(const A& a, const B& b, const C& c, bool accumulate, bool transpose_a = false,
                  bool transpose_b = false) {
    using T = typename C::element;
    constexpr int32_t columns = C::extents[C::rank - 1], rows = C::count / columns, inner = A::count / rows;
    for (int32_t i = 0; i < rows; ++i) {
        for (int32_t j = 0; j < columns; ++j) {
            T sum = T(0);
            for (int32_t k = 0; k < inner; ++k) {
                const T x = static_cast<T>(element_of(a, transpose_a ? k * rows + i : i * inner + k));
                sum = sum + x * static_cast<T>(element_of(b, transpose_b ? j * inner + k : k * columns + j));
            }
            T& place = element_of(c, i * columns + j);
            place = accumulate ? T(sum + place) : sum;
        }
    }
}

template <typename S, uint32_t D>
constexpr int32_t inside_of() {
    int32_t found = 1;
    for (uint32_t d = D + 1; d < S::rank; ++d) found *= S::extents[d];
    return found;
}

template <Fold K, uint32_t D, typename S, typename R>
void reduce_tile(const S& src, const R& dst, bool accumulate) {
    using T = typename R::element;
    constexpr int32_t inner = inside_of<S, D>(), size = S::extents[D];
    for (int32_t k = 0; k < R::count; ++k) {
        T total = start_of_fold<K, T>();
        for (int32_t j = 0; j < size; ++j) {
            total = folded<K, T>(total, static_cast<T>(element_of(src, (k / inner * size + j) * inner + k % inner)));
        }
        T& place = element_of(dst, k);
        place = accumulate ? folded<K, T>(place, total) : total;
    }
}

template <Fold K, uint32_t D, typename S, typename R>
void scan_tile(const S& src, const R& dst, bool reverse) {
    using T = typename R::element;
    constexpr int32_t inner = inside_of<S, D>(), size = S::extents[D];
    for (int32_t k = 0; k < S::count / size; ++k) {
        T total{};
        for (int32_t j = 0; j < size; ++j) {
            const int32_t at = (k / inner * size + (reverse ? size - 1 - j : j)) * inner + k % inner;
            const T value = static_cast<T>(element_of(src, at));
            total = j ? folded<K, T>(total, value) : value;
            element_of(dst, at) = total;
        }
    }
}

// Memory: pages of one row each, interleaved over the banks

template <typename T, uint32_t... E>
struct Memory : Shape<E...> {
    using element = T;
    InterleavedAddrGen<true> pages;
    int32_t row;
    explicit Memory(uint32_t address, int32_t row = Shape<E...>::extents[sizeof...(E) - 1])
        : pages{address, uint32_t(row * sizeof(T))}, row(row) {}
    uint64_t address(int32_t flat) const { return get_noc_addr(flat / row, pages, flat % row * sizeof(T)); }
};

// A box of memory along dims, and the block that it is in, element by element; dims of one element are never outside.
template <uint32_t R>
struct Region {
    std::array<int32_t, R> start, extent;
    // Whether an element of the box is one of the buffer, and its indices.
    template <typename M>
    bool at(const M&, int32_t flat, std::array<int32_t, R>& index) const {
        bool inside = true;
        for (uint32_t d = R; d-- > 0; flat /= extent[d]) {
            index[d] = start[d] + flat % extent[d];
            inside = inside && (extent[d] == 1 || (index[d] >= 0 && index[d] < M::extents[d]));
        }
        return inside;
    }
};

template <typename M, typename D>
void read_element(const M& src, const typename M::Index& from, const D& dst, int32_t to, bool inside,
                  typename M::element outside) {
    static_assert(std::is_same_v<typename M::element, typename D::element>);
    auto& place = dst.back(D::index(to));
    if (inside) {
        noc_async_read(src.address(M::flat(from)), uint32_t(reinterpret_cast<uintptr_t>(&place)), sizeof place);
    } else {
        place = outside;
    }
}

template <typename M, typename D>
void read_region(const M& src, const typename M::Index& start, const typename M::Index& extent, const D& dst,
                 typename M::element outside = typename M::element(0)) {
    const Region<M::rank> box{start, extent};
    typename M::Index from;
    for (int32_t k = 0; k < D::count; ++k) {
        const bool inside = box.at(src, k, from);
        read_element(src, from, dst, k, inside, outside);
    }
}

template <typename M, typename D>
void read_transposed(const M& src, const typename M::Index& start, const typename M::Index& extent, const D& dst) {
    const Region<M::rank> box{start, extent};
    constexpr int32_t rows = D::extents[D::rank - 1], columns = D::count / rows;
    typename M::Index from;
    for (int32_t k = 0; k < D::count; ++k) {
        const bool inside = box.at(src, k, from);
        read_element(src, from, dst, k % columns * rows + k / columns, inside, typename M::element(0));
    }
}

template <typename M, typename D>
void read_im2col(const M& src, int32_t row, int32_t column, int32_t kernel, int32_t stride, int32_t dilation,
                 int32_t pad, const D& dst) {
    constexpr int32_t width = D::extents[D::rank - 1], height = D::count / width, channels = M::extents[3];
    const int32_t down = (M::extents[1] + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
    const int32_t across = (M::extents[2] + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
    for (int32_t k = 0; k < D::count; ++k) {
        const int32_t pixel = row * height + k / width, tap = column * width + k % width;
        const int32_t within = pixel % (down * across);
        const typename M::Index from = {
            pixel / (down * across), within / across * stride + tap / (kernel * channels) * dilation - pad,
            within % across * stride + tap / channels % kernel * dilation - pad, tap % channels};
        bool inside = true;
        for (uint32_t d = 0; d < 4; ++d) inside = inside && from[d] >= 0 && from[d] < M::extents[d];
        read_element(src, from, dst, k, inside, typename M::element(0));
    }
}

template <typename S, typename M>
void write_region(const S& src, const M& dst, const typename M::Index& start, const typename M::Index& extent) {
    static_assert(std::is_same_v<typename M::element, typename S::element>);
    const Region<M::rank> box{start, extent};
    typename M::Index to;
    for (int32_t k = 0; k < S::count; ++k) {
        auto& place = element_of(src, k);
        if (box.at(dst, k, to)) {
            noc_async_write(uint32_t(reinterpret_cast<uintptr_t>(&place)), dst.address(M::flat(to)), sizeof place);
        }
    }
}

template <typename S, typename M>
void write_transposed(const S& src, const M& dst, const typename M::Index& start, const typename M::Index& extent) {
    static_assert(std::is_same_v<typename M::element, typename S::element>);
    const Region<M::rank> box{start, extent};
    constexpr int32_t columns = S::extents[S::rank - 1], rows = S::count / columns;
    typename M::Index to;
    for (int32_t k = 0; k < S::count; ++k) {
        auto& place = element_of(src, k % rows * columns + k / rows);
        if (box.at(dst, k, to)) {
            noc_async_write(uint32_t(reinterpret_cast<uintptr_t>(&place)), dst.address(M::flat(to)), sizeof place);
        }
    }
}

// One element of memory is combined with a value while no other core does so: the platform's part.
template <Fold K, typename T> void noc_combine(uint64_t address, T value);

template <Fold K, typename S, typename M>
void combine_region(const S& src, const M& dst, const typename M::Index& start, const typename M::Index& extent) {
    const Region<M::rank> box{start, extent};
    typename M::Index to;
    for (int32_t k = 0; k < S::count; ++k) {
        const auto value = static_cast<typename M::element>(element_of(src, k));
        if (box.at(dst, k, to)) noc_combine<K>(dst.address(M::flat(to)), value);
    }
}
"""
