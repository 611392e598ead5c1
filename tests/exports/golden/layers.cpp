// layers, rendered by tkjit: functions that check their arguments, allocate outputs and launch kernels.
// v_x is the argument or the extent x; given_x is what was passed for the parameter x, or null.
#include <tkjit/export/call.h>
#include <layers.h>

#include <tkjit/sim_pool.h>

extern "C" {
const char* layers_code_0(const TkjitArg*, int32_t, void*);  // axpy for cpu-x86-64-v3
const char* layers_code_1(const TkjitArg*, int32_t, void*);  // axpy for sm_90a
const char* layers_code_0(const TkjitArg*, int32_t, void*);  // softmax for cpu-x86-64-v3
const char* layers_code_1(const TkjitArg*, int32_t, void*);  // softmax for sm_90a
extern tkjit::sim::Pool* layers_code_0_pool;
extern tkjit::sim::Pool* layers_code_0_pool;
}

namespace {

using namespace tkjit;
using namespace tkjit::exported;

constexpr Target targets[] = {
    {"x86-64-v3", true, 0, 0, [] { return bool(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")); }},
    {"sm_90a", false, 90, 'a', nullptr},
};

// The stacks of the simulator's threads, shared by all launchers.
sim::Pool pool;
[[maybe_unused]] const bool is_pool_shared = [] {
    for (sim::Pool** const place : {&layers_code_0_pool, &layers_code_0_pool}) *place = &pool;
    return true;
}();

const TkjitLaunch launchers_of_axpy[] = {
    layers_code_0, layers_code_1,
    nullptr, nullptr,
    nullptr, nullptr,
};
const char* const variants_of_axpy[] = {"T=float32", "T=bfloat16", "T=float16"};
const Code code_of_axpy{launchers_of_axpy, variants_of_axpy, 3};

// axpy(x: In[Tensor, "T", "N"], y: InOut[Tensor, "T", "N"], alpha: float = 1.0)
const void* call_axpy(Call& call, const tkjit_tensor* given_x, const tkjit_tensor* given_y,
    Given<double> given_alpha) {

    // alpha: float = 1.0
    double v_alpha = 1.0;
    if (given_alpha && !read(call, "alpha", given_alpha, v_alpha)) return nullptr;

    int64_t v_N = kUnbound;

    // x: In[Tensor, "T", "N"]
    TensorView v_x;
    if (!read(call, "x", given_x, v_x)) return nullptr;
    int v_T = 0;
    switch (v_x.dtype) {
        case TKJIT_FLOAT32: v_T = 0; break;
        case TKJIT_BFLOAT16: v_T = 1; break;
        case TKJIT_FLOAT16: v_T = 2; break;
        default: return mismatch(call, v_x, {{"N"}}, nullptr, Use::read, "float32, bfloat16 or float16");
    }
    if (v_x.ndim != 1)
        return mismatch(call, v_x, {{"N"}}, nullptr, Use::read, "float32, bfloat16 or float16");
    v_N = v_x.sizes[0];

    // y: InOut[Tensor, "T", "N"]
    TensorView v_y;
    if (!read(call, "y", given_y, v_y)) return nullptr;
    if (!same_device(call, v_y, v_x)) return nullptr;
    if (!writable(call, v_y)) return nullptr;
    if (v_y.ndim != 1 || v_y.sizes[0] != v_N || v_y.dtype != v_x.dtype)
        return mismatch(call, v_y, {{"N", v_N, "x"}}, nullptr, Use::write, "x", v_x);

    if (!whole_or_apart(call, "y", v_y, "x", v_x)) return nullptr;

    const TkjitLaunch launch_function = launcher(call, code_of_axpy, targets, v_T, v_x);
    if (!launch_function) return nullptr;

    TkjitArg args[3];
    set(args[0], v_x);
    set(args[1], v_y);
    set(args[2], v_alpha);
    if (!empty(v_y) && !launch(call, launch_function, args, v_x)) return nullptr;
    return &call;
}

const TkjitLaunch launchers_of_softmax[] = {
    layers_code_0, layers_code_1,
    nullptr, nullptr,
    nullptr, nullptr,
};
const char* const variants_of_softmax[] = {"T=float32", "T=bfloat16", "T=float16"};
const Code code_of_softmax{launchers_of_softmax, variants_of_softmax, 3};

// softmax(x: In[Tensor, "T", "...", "N"], y: Out[Tensor, "T", "...", "N"])
const void* call_softmax(Call& call, const tkjit_tensor* given_x, tkjit_tensor* output_y) {
    if (!has_place(call, "y", output_y)) return nullptr;
    const tkjit_tensor* const given_y = given_output(call, output_y);

    int64_t v_N = kUnbound;
    Leading leading;

    // x: In[Tensor, "T", "...", "N"]
    TensorView v_x;
    if (!read(call, "x", given_x, v_x)) return nullptr;
    int v_T = 0;
    switch (v_x.dtype) {
        case TKJIT_FLOAT32: v_T = 0; break;
        case TKJIT_BFLOAT16: v_T = 1; break;
        case TKJIT_FLOAT16: v_T = 2; break;
        default: return mismatch(call, v_x, {{"N"}}, &leading, Use::read, "float32, bfloat16 or float16");
    }
    if (v_x.ndim < 1 || !leading.matches(v_x, 1))
        return mismatch(call, v_x, {{"N"}}, &leading, Use::read, "float32, bfloat16 or float16");
    v_N = v_x.sizes[v_x.ndim - 1];
    leading.bind(v_x, 1);

    // y: Out[Tensor, "T", "...", "N"]
    Shape shape_of_y;
    if (!shape_of_y.compute(call, "output y", leading, {v_N})) return nullptr;
    TensorView v_y;
    Object object_of_y;
    if (given_y) {
        if (!read(call, "y", given_y, v_y)) return nullptr;
        if (!same_device(call, v_y, v_x)) return nullptr;
        if (!writable(call, v_y)) return nullptr;
        if (!shape_of_y.matches(v_y) || v_y.dtype != v_x.dtype)
            return mismatch(call, v_y, {{"N", v_N, "x"}}, &leading, Use::output, "x", v_x);
        if (!apart(call, "y", v_y, "x", v_x)) return nullptr;
        object_of_y.borrow(given_y);
    }

    if (call.asks) {
        if (!answer(call, "y", output_y, shape_of_y, v_x.dtype, v_x)) return nullptr;
        return &call;
    }

    const TkjitLaunch launch_function = launcher(call, code_of_softmax, targets, v_T, v_x);
    if (!launch_function) return nullptr;
    if (!given_y && !allocate(call, "y", object_of_y, v_y, shape_of_y, v_x.dtype, v_x)) return nullptr;

    TkjitArg args[2];
    set(args[0], v_x);
    set(args[1], v_y);
    if (!empty(v_y) && !launch(call, launch_function, args, v_x)) return nullptr;
    object_of_y.release(output_y);
    return &call;
}

}  // namespace

extern "C" {

TKJIT_EXPORT tkjit_error layers_axpy(const tkjit_tensor* x, const tkjit_tensor* y, double alpha,
    void* stream) {
    return make_call("axpy", stream, false, [&](Call& call) { return call_axpy(call, x, y, {alpha}); });
}

TKJIT_EXPORT tkjit_error layers_axpy_pointers(const void* x, void* y, double alpha, int64_t N,
    tkjit_dtype T, tkjit_device device, void* stream) {
    return make_call("axpy", stream, false, [&](Call& call) {
        const Pointed v_x(x, T, device, {}, {Int(N)});
        const Pointed v_y(y, T, device, {}, {Int(N)});
        return call_axpy(call, v_x.get(), v_y.get(), {alpha});
    });
}

TKJIT_EXPORT tkjit_error layers_softmax(const tkjit_tensor* x, tkjit_tensor* y, void* stream) {
    return make_call("softmax", stream, false, [&](Call& call) { return call_softmax(call, x, y); });
}

TKJIT_EXPORT tkjit_error layers_softmax_shape(const tkjit_tensor* x, tkjit_tensor* y) {
    return make_call("softmax", nullptr, true, [&](Call& call) { return call_softmax(call, x, y); });
}

TKJIT_EXPORT tkjit_error layers_softmax_pointers(const void* x, void* y, int32_t leading_ndim,
    const int64_t* leading_sizes, int64_t N, tkjit_dtype T, tkjit_device device, void* stream) {
    return make_call("softmax", stream, false, [&](Call& call) {
        const Pointed v_x(x, T, device, {leading_sizes, leading_ndim}, {Int(N)});
        Pointed v_y(y, T, device, {leading_sizes, leading_ndim}, {Int(N)});
        return call_softmax(call, v_x.get(), v_y.output());
    });
}

TKJIT_EXPORT tkjit_error layers_check_interface(const char* interface) {
    return check_interface("layers", "axpy=7", interface);
}

}
