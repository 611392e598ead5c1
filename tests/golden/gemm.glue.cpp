// Glue of gemm, rendered by tkjit: parses a call, checks it, allocates outputs and calls the launcher.
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

// gemm(a: In[Tensor, "T", "M", "K"], b: In[Tensor, "T", "K", "N"], c: Out[Tensor, "T", "M", "N"])
PyObject* overload_0(Call& call) {
    PyObject* given[5];
    if (!bind(call, signature_0, given)) return nullptr;
    if (!spread_out(call, signature_0, given, given[3], {2})) return nullptr;

    int64_t M = kUnbound, K = kUnbound, N = kUnbound;

    // a: In[Tensor, "T", "M", "K"]
    TensorView a;
    if (!read(call, "a", given[0], a)) return nullptr;
    int T = 0;
    switch (a.dtype) {
        case TKJIT_FLOAT32: T = 0; break;
        case TKJIT_BFLOAT16: T = 1; break;
        case TKJIT_FLOAT16: T = 2; break;
        default: return mismatch(call, "a", given[0], a, {{"M"}, {"K"}}, false, "float32, bfloat16 or float16"), nullptr;
    }
    if (a.ndim != 2)
        return mismatch(call, "a", given[0], a, {{"M"}, {"K"}}, false, "float32, bfloat16 or float16"), nullptr;
    M = a.sizes[0];
    K = a.sizes[1];

    // b: In[Tensor, "T", "K", "N"]
    TensorView b;
    if (!read(call, "b", given[1], b)) return nullptr;
    if (!same_device(call, "b", given[1], b, "a", given[0], a)) return nullptr;
    if (b.ndim != 2 || b.sizes[0] != K || b.dtype != a.dtype)
        return mismatch(call, "b", given[1], b, {{"K", K}, {"N"}}, false, "a", a), nullptr;
    N = b.sizes[1];

    // c: Out[Tensor, "T", "M", "N"]
    Shape c_shape;
    if (!c_shape.compute(call, "c", Leading{}, {Int(M), Int(N)})) return nullptr;
    TensorView c;
    Object c_object;
    if (given[2]) {
        if (!read(call, "c", given[2], c)) return nullptr;
        if (!same_device(call, "c", given[2], c, "a", given[0], a)) return nullptr;
        if (!writable(call, "c", c)) return nullptr;
        if (!c_shape.matches(c) || c.dtype != a.dtype)
            return mismatch(call, "c", given[2], c, {{"M", Int(M).value()}, {"N", Int(N).value()}}, false, "a", a), nullptr;
        if (!apart(call, "c", c, "a", a)) return nullptr;
        if (!apart(call, "c", c, "b", b)) return nullptr;
        c_object.borrow(given[2]);
    }

    void* stream = nullptr;
    if (!find_stream(call, given[4], a, stream)) return nullptr;

    call.decided = true;
    if (call.choosing) return PyLong_FromLong(0);
    const TkjitLaunch launch_function = launcher(call, 0, T, a);
    if (!launch_function) return nullptr;
    if (!given[2] && !allocate(call, "c", c_object, c, c_shape, a.dtype, a)) return nullptr;

    TkjitArg args[3];
    set(args[0], a);
    set(args[1], b);
    set(args[2], c);
    if (!empty(c) && !launch(call, launch_function, args, a, stream)) return nullptr;
    if (!record_stream(call, given[4], a, {given[0], given[1], c_object.get()})) return nullptr;
    if (given[2] && !call.table.written(given[2])) return nullptr;
    if (!given[2] && !as_given(call, c_object, a, given[0])) return nullptr;
    return c_object.release();
}

const Overload overloads[] = {
    {overload_0, "gemm(a: Tensor, b: Tensor, *, c: Tensor = None, out=None, stream=None)", kForOperator | kRequiresGrad},
};

PyObject* call_kernel(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    Call call = call_of(self, "gemm", args, nargsf, kwnames);
    return dispatch(call, overloads, 1);
}

PyObject* collect(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    static const char* const kinds[] = {"---"};
    Call call = call_of(self, "gemm", args, nargsf, kwnames);
    Step steps[1];
    Batch batch{steps, 0, true};
    call.batch = &batch;
    return shown(batch, dispatch(call, overloads, 1), kinds);
}

PyObject* call_overload(PyObject* self, int overload, PyObject* const* args, size_t nargsf,
                        PyObject* kwnames) {
    Call call = call_of(self, "gemm", args, nargsf, kwnames);
    return overloads[overload].call(call);
}

PyObject* choose(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    Call call = call_of(self, "gemm", args, nargsf, kwnames);
    call.choosing = true;
    return dispatch(call, overloads, 1);
}

const GlueEntry entry{kTableVersion, call_kernel, call_overload, choose, collect, 3};

int execute(PyObject* module) {
    return intern_names(signature_0) ? add_entry(module, entry) : -1;
}

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(execute)},
    TKJIT_NEEDS_NO_GIL
    {0, nullptr},
};
PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, "gemm", nullptr, 0, nullptr, slots};

}  // namespace

TKJIT_MODULE(module_definition)
