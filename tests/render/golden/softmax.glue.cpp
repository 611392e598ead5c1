// Glue of softmax, rendered by tkjit: parses a call, checks it, allocates outputs and calls the launcher.
// v_x is the argument or the extent x; given_x is the object that was passed for the parameter x, or null.
#include <glue.h>

using namespace tkjit;
using namespace tkjit::glue;

namespace {

Parameter parameters_0[] = {  // name, required, None means not given
    {"x", true, false},
    {"y", false, true},
    {"out", false, true},
    {"stream", false, true},
};
const Signature signature_0{"softmax", parameters_0, 4, 1};
const Numbers numbers_0{nullptr, 0, ""};

// softmax(x: In[Tensor, "T", "...", "N"], y: Out[Tensor, "T", "...", "N"])
PyObject* overload_0(Call& call) {
    PyObject* given[4];
    if (!bind(call, signature_0, given)) return nullptr;
    auto& [given_x, given_y, given_out, given_stream] = given;
    if (!spread_out(call, signature_0, given, given_out, {1})) return nullptr;

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

    void* stream = nullptr;
    if (!find_stream(call, given_stream, v_x, stream)) return nullptr;

    call.decided = true;
    if (call.choosing) return PyLong_FromLong(0);
    const TkjitLauncher* const found = launcher(call, 0, v_T, v_x);  // overload, variant
    if (!found) return nullptr;
    if (!given_y && !allocate(call, "y", object_of_y, v_y, shape_of_y, v_x.dtype, v_x)) return nullptr;

    TkjitArg args[2];
    set(args[0], v_x);
    set(args[1], v_y);
    if (!empty(v_y) && !launch(call, found, args, v_x, stream)) return nullptr;
    if (!record_stream(call, given_stream, v_x, {given_x, object_of_y.get()})) return nullptr;
    if (given_y && !written(call, given_y)) return nullptr;
    if (!given_y && !as_given(call, object_of_y, v_x)) return nullptr;
    return object_of_y.release();
}

const Overload overloads[] = {
    {overload_0, "softmax(x: Tensor, *, y: Tensor = None, out=None, stream=None)", kForOperator | kRequiresGrad},
};
const Signature* const signatures[] = {&signature_0};
const char* const kinds[] = {"--"};  // a letter for each argument: p for a parallel layout
const Numbers numbers[] = {numbers_0};
constexpr Contents contents{"softmax", overloads, signatures, kinds, numbers, 1, 3};  // 1 overload, 3 variants

}  // namespace

TKJIT_GLUE_MODULE(TORCH_EXTENSION_NAME, contents)
