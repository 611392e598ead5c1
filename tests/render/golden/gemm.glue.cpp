// Glue of gemm, rendered by tkjit: parses a call, checks it, allocates outputs and calls the launcher.
// v_x is the argument or the extent x; given_x is the object that was passed for the parameter x, or null.
#include <glue.h>

using namespace tkjit;
using namespace tkjit::glue;

namespace {

Parameter parameters_0[] = {  // name, required, None means not given
    {"a", true, false},
    {"b", true, false},
    {"c", false, true},
    {"out", false, true},
    {"stream", false, true},
};
const Signature signature_0{"gemm", parameters_0, 5, 2};
const Numbers numbers_0{nullptr, 0, ""};

// gemm(a: In[Tensor, "T", "M", "K"], b: In[Tensor, "T", "K", "N"], sums: Scratch[Tensor, "float32", "SPLIT_SUMS", Member("partial.sums")], finished: Scratch[Tensor, "int32", "SPLIT_TILES", Member("partial.finished"), Zero], c: Out[Tensor, "T", "M", "N"])
PyObject* overload_0(Call& call) {
    PyObject* given[5];
    if (!bind(call, signature_0, given)) return nullptr;
    auto& [given_a, given_b, given_c, given_out, given_stream] = given;
    if (!spread_out(call, signature_0, given, given_out, {2})) return nullptr;

    int64_t v_M = kUnbound, v_K = kUnbound, v_N = kUnbound;

    // a: In[Tensor, "T", "M", "K"]
    TensorView v_a;
    v_a.wide = true;
    if (!read(call, "a", given_a, v_a)) return nullptr;
    int v_T = 0;
    switch (v_a.dtype) {
        case TKJIT_FLOAT32: v_T = 0; break;
        case TKJIT_BFLOAT16: v_T = 1; break;
        case TKJIT_FLOAT16: v_T = 2; break;
        default: return mismatch(call, v_a, {{"M"}, {"K"}}, nullptr, Use::read, "float32, bfloat16 or float16");
    }
    if (v_a.ndim != 2)
        return mismatch(call, v_a, {{"M"}, {"K"}}, nullptr, Use::read, "float32, bfloat16 or float16");
    v_M = v_a.sizes[0];
    v_K = v_a.sizes[1];

    // b: In[Tensor, "T", "K", "N"]
    TensorView v_b;
    v_b.wide = true;
    if (!read(call, "b", given_b, v_b)) return nullptr;
    if (!same_device(call, v_b, v_a)) return nullptr;
    if (v_b.ndim != 2 || v_b.sizes[0] != v_K || v_b.dtype != v_a.dtype)
        return mismatch(call, v_b, {{"K", v_K, "a"}, {"N"}}, nullptr, Use::read, "a", v_a);
    v_N = v_b.sizes[1];

    const Int v_B = 1;
    const Int v_IS_WIDE = (Int(v_M) > 64) * (v_B * cdiv(Int(v_M), 128) * cdiv(Int(v_N), 256) > 66);
    const Int v_TILES = max(1, v_B * cdiv(Int(v_M), 64 + 64 * (Int(v_M) > 64)) * cdiv(Int(v_N), 128 + 128 * v_IS_WIDE));
    const Int v_SPLITS = max(1, min(132 / v_TILES, Int(v_K) / 1024));
    const Int v_SPLIT_SUMS = (v_SPLITS > 1) * v_SPLITS * v_B * cdiv(Int(v_M), 128) * cdiv(Int(v_N), 256) * 32768;
    const Int v_SPLIT_TILES = (v_SPLITS > 1) * v_B * cdiv(Int(v_M), 64) * cdiv(Int(v_N), 128);

    // c: Out[Tensor, "T", "M", "N"]
    Shape shape_of_c;
    shape_of_c.wide = true;
    if (!shape_of_c.compute(call, "output c", Leading{}, {v_M, v_N})) return nullptr;
    TensorView v_c;
    v_c.wide = true;
    Object object_of_c;
    if (given_c) {
        if (!read(call, "c", given_c, v_c)) return nullptr;
        if (!same_device(call, v_c, v_a)) return nullptr;
        if (!writable(call, v_c)) return nullptr;
        if (!shape_of_c.matches(v_c) || v_c.dtype != v_a.dtype)
            return mismatch(call, v_c, {{"M", v_M, "a"}, {"N", v_N, "b"}}, nullptr, Use::output, "a", v_a);
        if (!apart(call, "c", v_c, "a", v_a)) return nullptr;
        if (!apart(call, "c", v_c, "b", v_b)) return nullptr;
        object_of_c.borrow(given_c);
    }

    // sums: Scratch[Tensor, "float32", "SPLIT_SUMS", Member("partial.sums")]
    Shape shape_of_sums;
    shape_of_sums.wide = true;
    if (!shape_of_sums.compute(call, "scratch sums", Leading{}, {v_SPLIT_SUMS})) return nullptr;
    TensorView v_sums;
    v_sums.wide = true;
    Object object_of_sums;

    // finished: Scratch[Tensor, "int32", "SPLIT_TILES", Member("partial.finished"), Zero]
    Shape shape_of_finished;
    shape_of_finished.wide = true;
    if (!shape_of_finished.compute(call, "scratch finished", Leading{}, {v_SPLIT_TILES})) return nullptr;
    TensorView v_finished;
    v_finished.wide = true;
    Object object_of_finished;

    void* stream = nullptr;
    if (!find_stream(call, given_stream, v_a, stream)) return nullptr;

    call.decided = true;
    if (call.choosing) return PyLong_FromLong(0);
    const TkjitLauncher* const found = launcher(call, 0, v_T, v_a);  // overload, variant
    if (!found) return nullptr;
    if (!given_c && !allocate(call, "c", object_of_c, v_c, shape_of_c, v_a.dtype, v_a)) return nullptr;
    if (!allocate_scratch(call, "sums", object_of_sums, v_sums, shape_of_sums, TKJIT_FLOAT32, v_a)) return nullptr;
    if (!allocate_scratch(call, "finished", object_of_finished, v_finished, shape_of_finished, TKJIT_INT32, v_a)) return nullptr;

    TkjitArg args[5];
    set(args[0], v_a);
    set(args[1], v_b);
    set(args[2], v_sums);
    set(args[3], v_finished);
    set(args[4], v_c);
    if (!empty(v_c) && !launch(call, found, args, v_a, stream)) return nullptr;
    if (!record_stream(call, given_stream, v_a, {given_a, given_b, object_of_sums.get(), object_of_finished.get(), object_of_c.get()})) return nullptr;
    if (given_c && !written(call, given_c)) return nullptr;
    if (!given_c && !as_given(call, object_of_c, v_a)) return nullptr;
    return object_of_c.release();
}

const Overload overloads[] = {
    {overload_0, "gemm(a: Tensor, b: Tensor, *, c: Tensor = None, out=None, stream=None)", kForOperator | kRequiresGrad},
};
const Signature* const signatures[] = {&signature_0};
const char* const kinds[] = {"-----"};  // a letter for each argument: p for a parallel layout
const Numbers numbers[] = {numbers_0};
constexpr Contents contents{"gemm", overloads, signatures, kinds, numbers, 1, 3};  // 1 overload, 3 variants

}  // namespace

TKJIT_GLUE_MODULE(TORCH_EXTENSION_NAME, contents)
