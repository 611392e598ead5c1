// Glue of axpy, rendered by tkjit: parses a call, checks it, allocates outputs and calls the launcher.
// v_x is the argument or the extent x; given_x is the object that was passed for the parameter x, or null.
#include <glue.h>

using namespace tkjit;
using namespace tkjit::glue;

namespace {

Parameter parameters_0[] = {  // name, required, None means not given
    {"x", true, false},
    {"y", true, false},
    {"alpha", false, false},
    {"stream", false, true},
};
const Signature signature_0{"axpy", parameters_0, 4, 3};
Number number_table_0[] = {  // name, position, kind
    {"alpha", 2, 'd', false, 0, 0},
};
const Numbers numbers_0{number_table_0, 1, "alpha"};

// axpy(x: In[Tensor, "T", "N"], y: InOut[Tensor, "T", "N"], alpha: float = 1.0)
PyObject* overload_0(Call& call) {
    PyObject* given[4];
    if (!bind(call, signature_0, given)) return nullptr;
    auto& [given_x, given_y, given_alpha, given_stream] = given;

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

    void* stream = nullptr;
    if (!find_stream(call, given_stream, v_x, stream)) return nullptr;

    call.decided = true;
    if (call.choosing) return PyLong_FromLong(0);
    const TkjitLauncher* const found = launcher(call, 0, v_T, v_x);  // overload, variant
    if (!found) return nullptr;

    TkjitArg args[3];
    set(args[0], v_x);
    set(args[1], v_y);
    set(args[2], v_alpha);
    if (!empty(v_y) && !launch(call, found, args, v_x, stream)) return nullptr;
    if (!record_stream(call, given_stream, v_x, {given_x, given_y})) return nullptr;
    if (!written(call, given_y)) return nullptr;
    return Py_NewRef(given_y);
}

const Overload overloads[] = {
    {overload_0, "axpy(x: Tensor, y: Tensor, alpha: float = 1.0, *, stream=None)", kForOperator},
};
const Signature* const signatures[] = {&signature_0};
const char* const kinds[] = {"---"};  // a letter for each argument: p for a parallel layout
const Numbers numbers[] = {numbers_0};
constexpr Contents contents{"axpy", overloads, signatures, kinds, numbers, 1, 3};  // 1 overload, 3 variants

}  // namespace

TKJIT_GLUE_MODULE(TORCH_EXTENSION_NAME, contents)
