// The instruction descriptor of tcgen05.mma, and the formats of elements that it names.
#pragma once

#include "../detail/block_scaling.h"
#include "../detail/fault.h"
#include "../detail/site.h"
#include "../detail/tcgen05.h"
#include "../detail/wgmma.h"
#include "fault.h"
#include "matrix_operands.h"

#include <math.h>
#include <stdint.h>

namespace tkjit::sim {

inline constexpr unsigned most_product_m = 128, most_product_n = 256, most_product_k = 64;

/// The formats of elements. Source: PTX ISA, "Instruction descriptor".
enum class TensorElement : unsigned char { f16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1, u8, s8, e2m1_packed };

/// The fields of an instruction descriptor that all kinds share, and those of the kinds with scales.
struct TensorInstruction {
    unsigned m, n;
    TensorElement a, b;
    Sums sums;
    bool negates_a, negates_b, a_by_columns, b_by_rows, saturates;
    unsigned scale_id_a, scale_id_b;
    bool scales_are_powers;  // e8m0; else e4m3, without a sign
};

/// Whether elements have 6 or 4 bits.
constexpr bool has_few_bits(TensorElement element) {
    return element == TensorElement::e2m3 || element == TensorElement::e3m2 || element == TensorElement::e2m1 ||
           element == TensorElement::e2m1_packed;
}

inline bool is_scaled(TensorKind kind) { return kind >= TensorKind::mxf8f6f4; }

inline TensorElement element_of(TensorKind kind, unsigned code, Site site) {
    constexpr TensorElement narrow[] = {TensorElement::e4m3, TensorElement::e5m2, TensorElement::e4m3,
                                        TensorElement::e2m3, TensorElement::e3m2, TensorElement::e2m1};
    switch (kind) {
        case TensorKind::f16:
            if (code < 2) return code ? TensorElement::bf16 : TensorElement::f16;
            break;
        case TensorKind::tf32:
            if (code == 2) return TensorElement::tf32;
            break;
        case TensorKind::i8:
            if (code < 2) return code ? TensorElement::s8 : TensorElement::u8;
            break;
        case TensorKind::f8f6f4:
        case TensorKind::mxf8f6f4:
            if (code < 6 && code != 2) return narrow[code];
            break;
        case TensorKind::mxf4:
        case TensorKind::mxf4nvf4:
            if (code == 1) return TensorElement::e2m1_packed;
            break;
    }
    fail(site, "tcgen05.mma: the instruction descriptor has the element type %u, which this kind of product lacks", code);
}

inline TensorInstruction instruction_of(const TensorProduct& product, Site site) {
    const uint32_t bits = product.instruction;
    const bool scaled = is_scaled(product.kind);
    if (bits & 4) fail(site, "the simulator has no sparse tcgen05.mma");
    TensorInstruction one{};
    one.m = (bits >> 24 & 31) << 4;
    one.n = (bits >> 17 & 63) << 3;
    one.a = element_of(product.kind, bits >> 7 & 7, site);
    one.b = element_of(product.kind, bits >> 10 & (product.kind >= TensorKind::mxf4 ? 3 : 7), site);
    const unsigned sums = scaled ? 1 : bits >> 4 & 3;
    one.sums = sums == 1 ? Sums::f32 : sums == 2 ? Sums::s32 : Sums::f16;
    const bool needs_floats = one.a == TensorElement::bf16 || one.a == TensorElement::tf32;
    if (sums == 3 || (product.kind == TensorKind::i8) != (one.sums == Sums::s32) || (needs_floats && one.sums == Sums::f16)) {
        fail(site, "tcgen05.mma: the instruction descriptor has the type %u of sums, which this kind of product lacks", sums);
    }
    one.saturates = !scaled && bits >> 3 & 1;
    one.negates_a = bits >> 13 & 1;
    one.negates_b = bits >> 14 & 1;
    one.a_by_columns = bits >> 15 & 1;
    one.b_by_rows = bits >> 16 & 1;
    if (scaled) {
        one.scale_id_b = bits >> 4 & 3;
        one.scale_id_a = bits >> 29 & 3;
        one.scales_are_powers = bits >> 23 & 1;
        if (!one.scales_are_powers && product.kind != TensorKind::mxf4nvf4) {
            fail(site, "tcgen05.mma: the instruction descriptor has scales of the type e4m3, which only mxf4nvf4 has");
        }
        if (bits >> 31) fail(site, "the simulator has no tcgen05.mma with K = 96");
    }
    const unsigned blocks = static_cast<unsigned>(product.group);
    const unsigned least_m = scaled ? 128 : 64 * blocks;
    if (one.m < least_m || one.m > 128 * blocks || one.m % 64 || (one.m == 192)) {
        fail(site, "tcgen05.mma: M is %u, but must be %s for cta_group::%u", one.m,
             blocks == 2 ? "128 or 256" : scaled ? "128" : "64 or 128", blocks);
    }
    // as CUTLASS asserts; the PTX ISA is stricter for some kinds
    if (one.n == 0 || one.n > most_product_n || one.n % (8 * blocks)) {
        fail(site, "tcgen05.mma: N is %u, but must be a multiple of %u up to 256 for cta_group::%u", one.n, 8 * blocks, blocks);
    }
    return one;
}

// ---- elements

/// Returns a number of few bits: a sign, `exponent_bits`, and `mantissa_bits`. It has no infinity and no NaN.
template <unsigned exponent_bits, unsigned mantissa_bits>
inline float small_float(unsigned bits) {
    constexpr int bias = (1 << (exponent_bits - 1)) - 1;
    const int mantissa = static_cast<int>(bits & ((1u << mantissa_bits) - 1));
    const int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
    const int whole = exponent ? mantissa + (1 << mantissa_bits) : mantissa;
    const float magnitude = ldexpf(static_cast<float>(whole), (exponent ? exponent : 1) - bias - static_cast<int>(mantissa_bits));
    return bits >> (exponent_bits + mantissa_bits) & 1 ? -magnitude : magnitude;
}

constexpr unsigned product_k(TensorElement element) {
    switch (element) {
        case TensorElement::f16:
        case TensorElement::bf16: return 16;
        case TensorElement::tf32: return 8;
        case TensorElement::e2m1_packed: return 64;
        default: return 32;
    }
}

/// Returns element `i` of a row of 32 bytes. Sixteen elements of 6 or 4 bits, unless they are packed, take up 16 bytes,
/// with padding at the end. Source: PTX ISA, "Packing formats of elements in Tensor and Shared memory".
template <TensorElement element>
inline float element_at(const char* row, unsigned i) {
    const auto byte_at = [=](unsigned at) { return static_cast<unsigned char>(row[at]); };
    const auto bits_at = [=](unsigned bits) {
        const unsigned first = i / 16 * 16 + i % 16 * bits / 8, shift = i % 16 * bits % 8;
        return (byte_at(first) | (shift + bits > 8 ? byte_at(first + 1) << 8 : 0)) >> shift & ((1u << bits) - 1);
    };
    switch (element) {
        case TensorElement::f16: return element_value<Element::f16>(row + 2 * i);
        case TensorElement::bf16: return element_value<Element::bf16>(row + 2 * i);
        case TensorElement::tf32: return element_value<Element::tf32>(row + 4 * i);
        case TensorElement::e4m3: return e4m3_value(byte_at(i));
        case TensorElement::e5m2: return e5m2_value(byte_at(i));
        case TensorElement::u8: return byte_at(i);
        case TensorElement::s8: return static_cast<signed char>(row[i]);
        case TensorElement::e2m3: return small_float<2, 3>(bits_at(6));
        case TensorElement::e3m2: return small_float<3, 2>(bits_at(6));
        case TensorElement::e2m1: return e2m1_value(static_cast<unsigned char>(bits_at(4)));
        case TensorElement::e2m1_packed: return e2m1_value(static_cast<unsigned char>(byte_at(i / 2) >> i % 2 * 4 & 15));
    }
    __builtin_unreachable();
}

template <TensorElement element>
void convert_tensor_row(float* to, const char* row, float sign) {
    for (unsigned i = 0; i < product_k(element); i++) to[i] = sign * element_at<element>(row, i);
}

using ConvertTensorRow = void (*)(float* to, const char* row, float sign);

/// Returns the function that converts a row of 32 bytes to numbers.
inline ConvertTensorRow tensor_row_converter(TensorElement element) {
    switch (element) {
        case TensorElement::f16: return convert_tensor_row<TensorElement::f16>;
        case TensorElement::bf16: return convert_tensor_row<TensorElement::bf16>;
        case TensorElement::tf32: return convert_tensor_row<TensorElement::tf32>;
        case TensorElement::e4m3: return convert_tensor_row<TensorElement::e4m3>;
        case TensorElement::e5m2: return convert_tensor_row<TensorElement::e5m2>;
        case TensorElement::e2m3: return convert_tensor_row<TensorElement::e2m3>;
        case TensorElement::e3m2: return convert_tensor_row<TensorElement::e3m2>;
        case TensorElement::e2m1: return convert_tensor_row<TensorElement::e2m1>;
        case TensorElement::u8: return convert_tensor_row<TensorElement::u8>;
        case TensorElement::s8: return convert_tensor_row<TensorElement::s8>;
        case TensorElement::e2m1_packed: return convert_tensor_row<TensorElement::e2m1_packed>;
    }
    __builtin_unreachable();
}

/// Checks the parts of a descriptor that wgmma does not have.
inline void check_descriptor(uint64_t bits, const char* what, Site site) {
    if ((bits >> 46 & 7) != 1) fail(site, "%s: bits 46 to 48 of a matrix descriptor must be 0b001; is it one for wgmma?", what);
    if (bits >> 52 & 1 || (bits >> 61 & 1)) fail(site, "%s: the simulator lacks this mode of a matrix descriptor", what);
}

}  // namespace tkjit::sim
