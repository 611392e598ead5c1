// Launcher of gemm for T=float16, STAGES=4, TILE_N=256, rendered by tkjit.
// arg_x is the argument x; v_N is the value of N.
#include <tkjit/launcher.h>
#include <tkjit/fill.h>
#include <cuda_fp16.h>

using T = __half;
constexpr int STAGES = 4;
constexpr int TILE_N = 256;

#include <tkjit/source_main.h>
#line 1 "gemm.cu"
// C = A * B, row-major, any M, N and K: a block computes a tile of 128 x 128, or a part of its sum over K.
#include "gemm_tile.cuh"

template <typename T>
struct Problem {
    static constexpr bool a_is_transposed = false, b_is_transposed = false;
    tkjit::gl<T, 1, 1> a, b;
    Partial partial;
    int splits;
    tkjit::gl<T, 1, 1> c;
};
template <typename T>
using Launch = TileLaunch<T>;

template <typename T>
__global__ void __launch_bounds__(kThreads) gemm(const __grid_constant__ Problem<T> g) {
    TKJIT_DYNAMIC_SHARED(T, stages);
    multiply(stages, g, [](float sum, int, int, int) { return sum; });
}
#line 33 "launcher.cu"
#undef main

TKJIT_MARK_ENTRY(gemm<T>)

template <class TkjitGlobals>
const char* tkjit_launch_own(const TkjitArg* args, int32_t device, void* stream,
                             std::type_identity<TkjitGlobals>) {
    static_assert(tkjit::has_fields<TkjitGlobals, 5>(),
                  "the number of fields of Problem<T>; the spec of gemm says otherwise");
    static_assert(tkjit::has_fields<decltype(TkjitGlobals::partial), 2>(),
                  "the number of fields of Problem<T>::partial; the spec of gemm says otherwise");
    static_assert(tkjit::holds<decltype(TkjitGlobals::a), T>(),
                  "the type of Problem<T>::a; the spec of gemm says otherwise");
    static_assert(tkjit::holds<decltype(TkjitGlobals::b), T>(),
                  "the type of Problem<T>::b; the spec of gemm says otherwise");
    static_assert(tkjit::holds<decltype(TkjitGlobals::partial.sums), float>(),
                  "the type of Problem<T>::partial.sums; the spec of gemm says otherwise");
    static_assert(tkjit::holds<decltype(TkjitGlobals::partial.finished), int32_t>(),
                  "the type of Problem<T>::partial.finished; the spec of gemm says otherwise");
    static_assert(tkjit::holds<decltype(TkjitGlobals::c), T>(),
                  "the type of Problem<T>::c; the spec of gemm says otherwise");

    const TkjitArg &arg_a = args[0], &arg_b = args[1], &arg_sums = args[2], &arg_finished = args[3],
        &arg_c = args[4];
    if (const char* error = tkjit::check_extents<decltype(TkjitGlobals::a)>(arg_a, "a")) return error;
    if (const char* error = tkjit::check_extents<decltype(TkjitGlobals::b)>(arg_b, "b")) return error;
    if (const char* error = tkjit::check_extents<decltype(TkjitGlobals::partial.sums)>(arg_sums, "sums")) return error;
    if (const char* error = tkjit::check_extents<decltype(TkjitGlobals::partial.finished)>(arg_finished, "finished")) return error;
    if (const char* error = tkjit::check_extents<decltype(TkjitGlobals::c)>(arg_c, "c")) return error;

    const tkjit::Int v_K = arg_a.extents[1];
    const tkjit::Int v_M = arg_a.extents[0];
    const tkjit::Int v_N = arg_b.extents[1];
    const tkjit::Int v_B = 1;
    const tkjit::Int v_IS_WIDE = (v_M > 64) * (v_B * cdiv(v_M, 128) * cdiv(v_N, 256) > 66);
    const tkjit::Int v_TILES = max(1, v_B * cdiv(v_M, 64 + 64 * (v_M > 64)) * cdiv(v_N, 128 + 128 * v_IS_WIDE));
    const tkjit::Int v_SPLITS = max(1, min(132 / v_TILES, v_K / 1024));

    if (const char* error = tkjit::check_computed<decltype(TkjitGlobals::splits)>(v_SPLITS, "splits")) return error;
    TkjitGlobals globals{
        .a = tkjit::convert<decltype(TkjitGlobals::a)>(arg_a),
        .b = tkjit::convert<decltype(TkjitGlobals::b)>(arg_b),
        .partial = {
            .sums = tkjit::convert<decltype(TkjitGlobals::partial.sums)>(arg_sums),
            .finished = tkjit::convert<decltype(TkjitGlobals::partial.finished)>(arg_finished),
        },
        .splits = tkjit::convert<decltype(TkjitGlobals::splits)>(v_SPLITS),
        .c = tkjit::convert<decltype(TkjitGlobals::c)>(arg_c),
    };
    tkjit::LaunchShape shape;
    if (const char* error = tkjit::check_computed<int>(v_M, "M")) return error;
    if (const char* error = tkjit::check_computed<int>(v_N, "N")) return error;
    if (const char* error = tkjit::check_computed<int>(v_SPLITS, "SPLITS")) return error;
    shape.set_grid([&](int M, int N, int SPLITS) { return dim3(Launch<T>::blocks(M, N, SPLITS)); }(int(v_M.value()), int(v_N.value()), int(v_SPLITS.value())));
    shape.set_block([&]() { return dim3(Launch<T>::threads); }());
    shape.set_shared_memory([&]() { return tkjit::Int(int64_t(Launch<T>::shared_bytes)); }());
    if (const char* error = tkjit::fill<int32_t>(args[3], false, int64_t(0), device, stream)) return error;  // finished
    return tkjit::launch(gemm<T>, shape, device, stream, globals);
}

extern "C" TKJIT_EXPORT const char* tkjit_launch(const TkjitArg* args, int32_t device, void* stream) {
    return tkjit::without_exceptions([&]() -> const char* {
        return tkjit_launch_own(args, device, stream, std::type_identity<Problem<T>>{});
    });
}
