// Calls rendered glue from eight threads, for ThreadSanitizer. The parser, the dispatcher and the launch are real. The
// tensors and the table of functions, which normally belong to the runtime, are stubs.
#include "glue.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

using namespace tkjit;

extern "C" PyObject* PyInit_threaded_glue();

namespace {

constexpr int kThreads = 8, kCalls = 20000, kLength = 16;
Table table;
std::atomic<int> resolved{0};

struct FakeTensor {
    PyObject_HEAD
    float* data;
    int64_t sizes[1];
};
PyTypeObject* fake_type = nullptr;

PyObject* make_tensor(float* data, int64_t length) {
    auto* const tensor = PyObject_New(FakeTensor, fake_type);
    tensor->data = data;
    tensor->sizes[0] = length;
    return reinterpret_cast<PyObject*>(tensor);
}

bool view(PyObject* object, TensorView* view, Values*) {
    if (Py_TYPE(object) != fake_type) return false;
    const auto tensor = reinterpret_cast<FakeTensor*>(object);
    view->data = tensor->data;
    view->sizes[0] = tensor->sizes[0];
    view->ndim = 1;
    view->dtype = TKJIT_FLOAT32;
    return true;
}

const char* launch(const TkjitLauncher*, const TkjitArg* args, int32_t, void*) {
    const auto x = static_cast<const float*>(args[0].data);
    const auto y = static_cast<float*>(args[1].data);
    for (int64_t i = 0; i < args[1].extents[0]; ++i) y[i] += float(args[2].real) * x[i];
    return nullptr;
}

// Stores the launcher in the dispatcher, as the runtime does.
const TkjitLauncher* resolve(Dispatcher* self, int, int variant, const TensorView&) {
    static const TkjitLauncher launcher{launch};
    resolved.fetch_add(1);
    __atomic_store_n(&self->launchers[variant], &launcher, __ATOMIC_RELEASE);
    return &launcher;
}

void refuse(const char* kernel, const char* name, PyObject*, const char*) {
    PyErr_Format(PyExc_TypeError, "%s: %s", kernel, name);
}

void fill_table() {
    table.version = kTableVersion;
    table.view = view;
    table.resolve = resolve;
    table.modes = [] { return uint32_t(0); };
    table.confirm = [](const char*, const TensorView*, const char*) { return true; };
    table.intact = [](const char*, const TensorView*) { return true; };
    table.hold = table.let_go = [](const TensorView*) {};
    table.written = [](PyObject*) { return true; };
    table.is_bool = [](PyObject*) { return false; };
    table.is_number = [](PyObject*) { return true; };
    table.read_value = [](PyObject*, const char*, Values*, TkjitArg*) { return false; };
    table.argument_error = PyExc_TypeError;
    table.shape_error = PyExc_ValueError;
    table.launch_error = PyExc_RuntimeError;
    table.refuse_tensor = [](const char* kernel, const char* name, PyObject* object, const TensorView&) {
        refuse(kernel, name, object, "");
    };
    table.refuse_mismatch = [](const char* kernel, const TensorView& view, const Expected&) {
        refuse(kernel, view.name, static_cast<PyObject*>(view.object), "");
    };
    table.refuse_object = refuse;
    table.refuse_overloads = [](glue::Call& call, const glue::Overload*, int) { PyErr_SetString(PyExc_TypeError, call.kernel); };
}

// Interns the names, as the runtime does when it attaches glue.
void intern_names(const glue::Contents& contents) {
    for (int i = 0; i < contents.count; ++i)
        for (int k = 0; k < contents.signatures[i]->count; ++k) {
            glue::Parameter& parameter = contents.signatures[i]->parameters[k];
            parameter.interned = PyUnicode_InternFromString(parameter.name);
        }
}

Dispatcher* make_dispatcher(const GlueEntry& entry) {
    static PyType_Slot slots[] = {{0, nullptr}};
    static PyType_Spec spec = {"host.Dispatcher", sizeof(Dispatcher), 0, Py_TPFLAGS_DEFAULT, slots};
    auto* const type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    auto* const self = reinterpret_cast<Dispatcher*>(type->tp_alloc(type, 0));
    self->table = &table;
    intern_names(*entry.contents);
    self->launchers = new const TkjitLauncher*[size_t(kDeviceSlots) * entry.contents->variant_count]();
    self->variant_count = entry.contents->variant_count;
    self->vectorcall = entry.call;
    return self;
}

// Makes one thread's calls on its own tensors: valid calls, which try both overloads, and every fifth one invalid.
int work(PyObject* self, const GlueEntry& entry, PyObject* keyword) {
    std::vector<float> x(kLength, 1.0f), y(kLength, 0.0f);
    int failures = 0;
    for (int i = 0; i < kCalls; ++i) {
        const PyGILState_STATE state = PyGILState_Ensure();
        PyObject* const a = make_tensor(x.data(), kLength);
        PyObject* const b = make_tensor(y.data(), i % 5 ? kLength : kLength - 1);
        PyObject* const factor = i % 3 ? PyFloat_FromDouble(1.0) : PyLong_FromLong(1);
        PyObject* const args[] = {a, b, factor};
        PyObject* const result = entry.call(self, args, 2, keyword);
        if ((result != nullptr) != (i % 5 != 0)) ++failures;
        if (!result) PyErr_Clear();
        Py_XDECREF(result);
        Py_DECREF(factor);
        Py_DECREF(b);
        Py_DECREF(a);
        PyGILState_Release(state);
    }
    if (y[0] != float(kCalls - kCalls / 5)) ++failures;
    return failures;
}

}  // namespace

int main() {
    PyImport_AppendInittab("threaded_glue", PyInit_threaded_glue);
    Py_InitializeEx(0);
    fill_table();
    static PyType_Slot slots[] = {{0, nullptr}};
    static PyType_Spec spec = {"host.FakeTensor", sizeof(FakeTensor), 0, Py_TPFLAGS_DEFAULT, slots};
    fake_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    PyObject* const glue = PyImport_ImportModule("threaded_glue");
    if (!glue) return PyErr_Print(), 2;
    PyObject* const capsule = PyObject_GetAttrString(glue, "entry");
    const auto& entry = *static_cast<const GlueEntry*>(PyCapsule_GetPointer(capsule, kGlueCapsule));
    const auto self = reinterpret_cast<PyObject*>(make_dispatcher(entry));
    PyObject* const keyword = PyTuple_Pack(1, PyUnicode_InternFromString("factor"));

    PyThreadState* const main_thread = PyEval_SaveThread();
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([&] { failures += work(self, entry, keyword); });
    for (std::thread& thread : threads) thread.join();
    PyEval_RestoreThread(main_thread);
    std::printf("%d failures, %d look-ups\n", failures.load(), resolved.load());
    return failures || resolved > kThreads ? 1 : 0;
}
