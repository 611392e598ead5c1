// The runtime: the module that every glue module uses, compiled once per environment.
//
// It holds the dispatcher's type, reads torch's tensors, allocates outputs, finds streams and writes error texts.
//
// Each `#pragma GCC optimize` in the runtime's headers noticeably reduces its compile time, by about a fifth in total.
// The functions after these pragmas are large, but ordinary calls do not run them: most run once or only on errors.
#include "allocation.h"
#include "fingerprints.h"
#include "glue_calls.h"
#include "guard_bytes.h"
#include "parallel.h"
#include "parallel_objects.h"
#include "prepared.h"
#include "python_objects.h"
#include "random.h"
#include "refusals.h"
#include "sigint.h"
#include "storages.h"
#include "streams.h"
#include "table.h"
#include "tensor_view.h"
#include "values.h"

#include <tkjit/call/overlap.h>
#include <tkjit/sim_pool.h>
#include <tkjit/sim_verdict.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <dlfcn.h>
#include <structmember.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>

// From libtorch, whose headers for these take 2 s to compile.
namespace at {
bool hasThreadLocalCallbacks();
namespace impl {
bool torch_function_mode_enabled();
}
}  // namespace at

namespace tkjit::runtime {
namespace {

// ---- functions of the table ----------------------------------------------------------------------------------------

bool view(PyObject* object, TensorView* view, Values* values) {
    try {
        if (!is_tensor(object)) return view_array(object, view, values);
        return torch.impl_word >= 0 ? view_through_impl(object, view) : view_through_exchange(object, view, values);
    } catch (const Raised&) {  // an odd subclass or an unreadable array is not a tensor to us
        return false;
    } catch (const std::exception&) {  // from c10: no memory to copy a copy-on-write tensor
        view->problems = kNoStorage;
        return true;
    }
}

const TkjitLauncher* resolve(Dispatcher* self, int overload, int variant, const TensorView& on) {
    PyObject* const address = PyObject_CallMethod(reinterpret_cast<PyObject*>(self), "_resolve", "iisi", overload, variant,
                                                  on.device_type == DeviceType::cpu ? "cpu" : "cuda", int(on.device));
    if (!address) return nullptr;
    const auto* const launcher = static_cast<const TkjitLauncher*>(PyLong_AsVoidPtr(address));
    Py_DECREF(address);
    const int slot = on.device_type == DeviceType::cpu ? 0 : 1 + on.device;
    if (launcher && slot < kDeviceSlots)
        __atomic_store_n(&self->launchers[slot * self->variant_count + variant], launcher, __ATOMIC_RELEASE);
    return launcher;
}

// ---- torch's operators ---------------------------------------------------------------------------------------------

// Returns whether all function modes come from torch.set_default_device, which does not affect kernels.
bool only_devices() {
    struct Stack {
        PyObject* count = keep(attribute(import_module("torch._C"), "_len_torch_function_stack"));
        PyObject* at = keep(attribute(import_module("torch._C"), "_get_function_stack_at"));
        PyObject* type = keep(attribute(import_module("torch.utils._device"), "DeviceContext"));
    };
    try {
        static const Stack stack;
        const int64_t count = integer_of(call(stack.count));
        for (int64_t i = 0; i < count; ++i)
            if (!is_instance(call(stack.at, "i", int(i)).get(), stack.type)) return false;
        return true;
    } catch (const Raised&) {
        PyErr_Clear();
        return false;
    }
}

uint32_t modes() {
    using Key = c10::DispatchKey;
    constexpr c10::DispatchKeySet watching({Key::Python, Key::FuncTorchDynamicLayerFrontMode, Key::Functionalize, Key::Tracer,
                                            Key::PreDispatch});
    constexpr c10::DispatchKeySet autocast({Key::AutocastCPU, Key::AutocastCUDA});
    const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    const bool watched = share_a_bit(keys.included_, watching) || at::hasThreadLocalCallbacks() ||
                         (at::impl::torch_function_mode_enabled() && !only_devices());
    // if autocast is off, both keys are excluded
    return (watched ? kWatched : 0) | ((keys.excluded_ & autocast) == autocast ? 0 : kAutocast);
}

PyObject* vectorcall_method(PyObject* self, const char* name, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    PyObject* const method = PyObject_GetAttrString(self, name);
    if (!method) return nullptr;
    PyObject* const result = PyObject_Vectorcall(method, args, nargs, kwnames);
    Py_DECREF(method);
    return result;
}

PyObject* through_operator(Dispatcher* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, bool choose) {
    PyObject* const chosen = choose ? choose_overload(reinterpret_cast<PyObject*>(self), args, size_t(nargs), kwnames)
                                    : PyLong_FromLong(-1);
    if (!chosen) return nullptr;
    Values values;  // keep `chosen` alive
    const Py_ssize_t count = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    if (!values.keep(chosen)) return nullptr;
    auto** const all = values.make<PyObject*>(size_t(count) + 1);
    if (!all) return nullptr;
    all[0] = chosen;
    std::copy(args, args + count, all + 1);
    return vectorcall_method(reinterpret_cast<PyObject*>(self), "_call_operator", all, nargs + 1, kwnames);
}

bool written(PyObject* tensor) {
    try {
        if (!is_tensor(tensor)) return true;  // another framework's array has no version
        if (c10::TensorImpl& impl = impl_of(tensor); !impl.is_inference()) impl.bump_version();
        return true;
    } catch (const Raised&) {
        return false;
    }
}

void* impl(PyObject* tensor) {
    if (!is_tensor(tensor)) {
        PyErr_Format(PyExc_TypeError, "expected a torch.Tensor, not %s", Py_TYPE(tensor)->tp_name);
        return nullptr;
    }
    try {
        return &impl_of(tensor);
    } catch (const Raised&) {
        return nullptr;
    }
}

bool is_bool(PyObject* object) {
    const char* const name = Py_TYPE(object)->tp_name;
    if (std::strcmp(name, "numpy.bool") == 0 || std::strcmp(name, "numpy.bool_") == 0) return true;
    TensorView tensor;
    Values values;
    return view(object, &tensor, &values) && tensor.ndim == 0 && tensor.dtype == TKJIT_BOOL;
}

// Returns whether a frame belongs to the caller's code, not to tkjit's or torch's code between the caller and the
// kernel.
bool is_callers(PyObject* frame) {
    const Owned found = call_method(attribute(frame, "f_globals"), "get", "ss", "__name__", "");
    const std::string module = PyUnicode_Check(found.get()) ? utf8_of(found.get()) : std::string();
    const std::string package = module.substr(0, module.find('.'));
    return package != "tkjit" && package != "torch";
}

// Returns the frame that calls the kernel. For first calls and operator calls, tkjit's and torch's frames come in
// between.
Owned calling_frame() {
    PyObject* const present = reinterpret_cast<PyObject*>(PyEval_GetFrame());
    for (Owned frame = borrowed(present); frame && frame.get() != Py_None; frame = attribute(frame, "f_back"))
        if (is_callers(frame.get())) return frame;
    return borrowed(present);
}

// Issues a warning for the line that calls the kernel, so that warning filters apply to that line's module.
bool deprecated(const char* kernel, const char* text) {
    try {
        const Owned message = checked(PyUnicode_FromFormat("%s: this signature is deprecated; %s", kernel, text));
        const Owned frame = calling_frame();
        if (!frame) return PyErr_WarnEx(PyExc_DeprecationWarning, utf8_of(message.get()).c_str(), 1) == 0;
        const Owned globals = attribute(frame, "f_globals"), new_registry = build("{}");
        const Owned registry = call_method(globals, "setdefault", "sO", "__warningregistry__", new_registry.get());
        return PyErr_WarnExplicitObject(PyExc_DeprecationWarning, message.get(), attribute(attribute(frame, "f_code"), "co_filename").get(),
                                        int(integer_of(attribute(frame, "f_lineno"))),
                                        call_method(globals, "get", "s", "__name__").get(), registry.get()) == 0;
    } catch (const Raised&) {
        return false;
    }
}

bool is_number(PyObject* object) {
    if (PyFloat_Check(object) || PyLong_Check(object)) return true;
    if (std::strstr(Py_TYPE(object)->tp_name, "complex")) return false;
    if (!is_tensor(object)) return true;
    TensorView tensor;
    Values values;
    return view(object, &tensor, &values) && tensor.ndim == 0 && tensor.dtype >= 0 && !(tensor.problems & kRequiresGrad);
}

// Finds the device that an argument names. A GPU without a number means the current GPU.
bool place(const char* kernel, const char* name, const TkjitArg& device, TensorView* on) {
    *on = TensorView{};
    if (device.dtype == TKJIT_CPU) return true;
    try {
        const Owned cuda = attribute(import_module("torch"), "cuda");
        const int count = int(integer_of(call_method(cuda, "device_count")));
        const bool is_named = device.integer >= 0 || count == 0;
        const int index = int(is_named ? device.integer : integer_of(call_method(cuda, "current_device")));
        on->device_type = DeviceType::cuda;
        on->device = index;
        if (index >= 0 && index < count) return true;
        PyErr_Format(argument_error, "%s: %s is a CUDA device that does not exist; torch sees %d", kernel, name, count);
    } catch (const Raised&) {
    }
    return false;
}

Table table;

// ---- the dispatcher's type -----------------------------------------------------------------------------------------

// Until the glue is attached, a call goes to Python, which builds whatever is missing and repeats the call.
PyObject* first_call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    return vectorcall_method(self, "_first_call", args, PyVectorcall_NARGS(nargsf), kwnames);
}

PyObject* dispatcher_new(PyTypeObject* type, PyObject*, PyObject*) {
    const auto self = reinterpret_cast<Dispatcher*>(type->tp_alloc(type, 0));
    if (!self) return nullptr;
    self->vectorcall = first_call;
    self->table = &table;
    return reinterpret_cast<PyObject*>(self);
}

int dispatcher_traverse(PyObject* object, visitproc visit, void* arg) {
    const auto self = reinterpret_cast<Dispatcher*>(object);
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->glue);
    Py_VISIT(self->result_types);
    return 0;
}

int dispatcher_clear(PyObject* object) {
    const auto self = reinterpret_cast<Dispatcher*>(object);
    self->vectorcall = first_call;
    Py_CLEAR(self->glue);
    Py_CLEAR(self->result_types);
    return 0;
}

void dispatcher_dealloc(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    dispatcher_clear(object);
    delete[] reinterpret_cast<Dispatcher*>(object)->launchers;
    type->tp_free(object);
    Py_DECREF(type);
}

PyObject* make_dispatcher_type() {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(Dispatcher, vectorcall), READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr},
    };
    static PyType_Slot slots[] = {
        {Py_tp_new, reinterpret_cast<void*>(dispatcher_new)},
        {Py_tp_dealloc, reinterpret_cast<void*>(dispatcher_dealloc)},
        {Py_tp_traverse, reinterpret_cast<void*>(dispatcher_traverse)},
        {Py_tp_clear, reinterpret_cast<void*>(dispatcher_clear)},
        {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
        {Py_tp_members, members},
        {Py_tp_doc, const_cast<char*>("Calls a kernel: parses, checks, allocates and launches in compiled code.")},
        {0, nullptr},
    };
    static PyType_Spec spec = {"tkjit.Dispatcher", sizeof(Dispatcher), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                               slots};
    return PyType_FromSpec(&spec);
}

// Lets instances of a Python subclass be called through `vectorcall`. CPython lets a subclass inherit the flag for this only
// if it has no __call__, and this one has a __call__ for tracers.
PyObject* enable_vectorcall(PyObject*, PyObject* type) {
    if (!PyType_Check(type)) return PyErr_SetString(PyExc_TypeError, "expected a class"), nullptr;
    const auto raw = reinterpret_cast<PyTypeObject*>(type);
    raw->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    PyType_Modified(raw);
    Py_RETURN_NONE;
}

PyObject* attach(PyObject*, PyObject* args) {
    PyObject *dispatcher, *glue, *result_types;
    if (!PyArg_ParseTuple(args, "OOO!", &dispatcher, &glue, &PyTuple_Type, &result_types)) return nullptr;
    return answer([&] {
        const auto self = reinterpret_cast<Dispatcher*>(dispatcher);
        const auto entry = static_cast<const GlueEntry*>(PyCapsule_GetPointer(attribute(glue, "entry").get(), kGlueCapsule));
        if (!entry) throw Raised{};
        if (entry->version != kTableVersion) throw std::runtime_error("the glue was compiled for another runtime");
        const Contents& contents = *entry->contents;
        if (!intern_names(contents)) throw Raised{};
        static std::mutex attaching;  // no deadlock: below, no other Python code can run, and nothing releases the GIL
        const std::lock_guard lock(attaching);
        if (self->glue) return Py_NewRef(Py_None);  // another thread was first
        self->launchers = new const TkjitLauncher*[size_t(kDeviceSlots) * contents.variant_count]();
        self->variant_count = contents.variant_count;
        self->result_types = Py_NewRef(result_types);
        self->entry = entry;
        self->glue = Py_NewRef(glue);
        __atomic_store_n(&self->vectorcall, entry->call, __ATOMIC_RELEASE);
        return Py_NewRef(Py_None);
    });
}

// Returns the arguments that a call would pass to its launchers, without launching.
PyObject* collect(PyObject*, PyObject* given) {
    PyObject *dispatcher, *args, *kwargs;
    if (!PyArg_ParseTuple(given, "OO!O!", &dispatcher, &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return nullptr;
    return answer([&] {
        const VectorArguments vector(args, kwargs);
        return collect_call(dispatcher, vector.all.data(), size_t(PyTuple_GET_SIZE(args)), vector.names.get());
    });
}

// ---- launchers -----------------------------------------------------------------------------------------------------

// Decides whether a launch continues. The simulator calls this regularly, in the thread that called the kernel.
sim::Verdict judge(sim::Waits waits) {
    RunningPart* const doing = RunningPart::current;
    // a wait cannot end if another device has failed in this step, or if a process that it waits for has ended
    if (waits != sim::Waits::no && ((doing && doing->step.failed.load()) || given_up())) return sim::Verdict::interrupted;
    if (is_interrupted()) {
        if (doing) doing->step.failed.store(true);
        return sim::Verdict::interrupted;
    }
    if (!doing || waits_for) return sim::Verdict::go_on;  // a process that it waits for may still answer
    if (waits != sim::Waits::in_vain) {
        doing->step.goes_on(doing->dev_idx);
        return sim::Verdict::go_on;
    }
    doing->step.waits_in_vain(doing->dev_idx);
    return doing->step.is_deadlock() ? sim::Verdict::deadlock : sim::Verdict::go_on;
}

sim::Pool launchers_pool;

// Connects a library that contains the simulator to the hooks and the pool that all such libraries share.
void connect(void* library, bool synchronous, int32_t trace) {
    if (auto* const flag = static_cast<int32_t*>(dlsym(library, "tkjit_synchronous"))) *flag = synchronous;
    if (auto* const descriptor = static_cast<int32_t*>(dlsym(library, "tkjit_sim_trace"))) *descriptor = trace;
    if (auto* const hook = static_cast<sim::Judge*>(dlsym(library, "tkjit_sim_judge"))) *hook = judge;
    if (auto* const pool = static_cast<sim::Pool**>(dlsym(library, "tkjit_sim_pool"))) {
        __atomic_store_n(pool, &launchers_pool, __ATOMIC_RELEASE);
    }
    if (void* const give_up = dlsym(library, "tkjit_sim_give_up")) watch_interruptions(reinterpret_cast<GiveUp>(give_up));
}

// Connects a module that Python has imported.
PyObject* connect_module(PyObject*, PyObject* args) {
    const char* path;
    int trace;
    if (!PyArg_ParseTuple(args, "si", &path, &trace)) return nullptr;
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!library) return PyErr_Format(PyExc_ImportError, "%s is not loaded", path);
    connect(library, false, trace);
    dlclose(library);
    Py_RETURN_NONE;
}

// A launcher in a shared object.
struct CompiledLauncher : TkjitLauncher {
    explicit CompiledLauncher(TkjitLaunch function) : TkjitLauncher{call_function}, function(function) {}

    static const char* call_function(const TkjitLauncher* self, const TkjitArg* args, int32_t device, void* stream) {
        return static_cast<const CompiledLauncher*>(self)->function(args, device, stream);
    }

    TkjitLaunch function;
};

// Opens a launcher's shared object, and returns the launcher's address. It is never closed, because a kernel may outlive
// its Python object.
PyObject* open_launcher(PyObject*, PyObject* args) {
    const char* path;
    int synchronous, trace;
    if (!PyArg_ParseTuple(args, "spi", &path, &synchronous, &trace)) return nullptr;
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return PyErr_SetString(PyExc_ImportError, dlerror()), nullptr;
    const auto function = reinterpret_cast<TkjitLaunch>(dlsym(library, "tkjit_launch"));
    if (!function) {
        dlclose(library);  // otherwise dlopen would return this library again after it has been rebuilt at the same path
        return PyErr_Format(PyExc_ImportError, "%s has no tkjit_launch", path);
    }
    connect(library, synchronous, trace);
    return answer([&] { return PyLong_FromVoidPtr(static_cast<TkjitLauncher*>(new CompiledLauncher(function))); });
}

// ---- the module ----------------------------------------------------------------------------------------------------

#ifdef __x86_64__
// Returns whether the CPU supports x86-64-v3. Without this, tkjit/compile/targets.py would have to read /proc/cpuinfo,
// which takes 0.1 ms.
bool has_x86_64_v3() {
    unsigned eax, ebx, features, edx;
    if (!__get_cpuid(1, &eax, &ebx, &features, &edx)) return false;
    // the built-ins also check that the operating system saves the registers
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && (features & bit_F16C) && (features & bit_MOVBE);
}
#endif

void fill_table() {
    const Owned errors = import_module("tkjit.errors");
    argument_error = keep(attribute(errors, "ArgumentError"));
    shape_error = keep(attribute(errors, "ShapeError"));
    launch_error = keep(attribute(errors, "LaunchError"));
    table = {
        .version = kTableVersion,
        .view = view, .overlap = overlap, .overlaps_itself = overlaps_itself, .confirm = confirm, .hold = hold,
        .let_go = let_go, .as_array = as_array, .empty = empty, .intact = intact, .stream = stream,
        .record_stream = record_stream, .resolve = resolve, .modes = modes, .through_operator = through_operator,
        .written = written, .impl = impl, .is_bool = is_bool, .is_number = is_number, .read_value = read_value,
        .random = random, .place = place, .refuse_place = refuse_place, .refuse_constraint = refuse_constraint,
        .deprecated = deprecated, .parallel = parallel, .club = club, .club_stream = club_stream, .execute = execute,
        .launch_later = launch_later, .waits_on = waits_on, .argument_error = argument_error,
        .shape_error = shape_error, .launch_error = launch_error, .refuse_tensor = refuse_tensor,
        .refuse_mismatch = refuse_mismatch, .refuse_device = refuse_device, .refuse_object = refuse_object,
        .refuse_arguments = refuse_arguments, .refuse_overloads = refuse_overloads, .refuse_launch = refuse_launch,
    };
}

PyObject* is_unchanged(PyObject*, PyObject* fingerprint) {
    char* text;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(fingerprint, &text, &size) != 0) return nullptr;
    return answer([&] { return PyBool_FromLong(unchanged({text, size_t(size)})); });
}

PyObject* give_torch_capsule(PyObject*, PyObject* array) {
    return answer([&] { return capsule_for_torch(array).release(); });
}

PyObject* reads_tensors_through(PyObject*, PyObject*) {
    return PyUnicode_FromString(torch.impl_word >= 0 ? "TensorImpl" : torch.by_method ? "__dlpack__" : "exchange API");
}

PyObject* read_tensors_through(PyObject*, PyObject* way) {
    return answer([&] {
        const std::string text = text_of(way);
        torch.by_method = text == "__dlpack__";
        torch.impl_word = text == "TensorImpl" ? find_impl_word() : -1;
        return Py_NewRef(Py_None);
    });
}

PyMethodDef functions[] = {
    {"enable_vectorcall", enable_vectorcall, METH_O, "Let instances of a class be called through vectorcall."},
    {"attach", attach, METH_VARARGS, "Give a dispatcher its glue module."},
    {"collect", collect, METH_VARARGS, "Return what a call would pass to its launchers."},
    {"prepare", prepare, METH_VARARGS, "Make a call without its launches, which can be made later."},
    {"show_prepared", show_prepared, METH_O, "Return what the launches of a prepared call pass."},
    {"unchanged", is_unchanged, METH_O, "Return whether every file of a fingerprint is unchanged."},
    {"connect_module", connect_module, METH_VARARGS, "Connect an imported module that contains the simulator."},
    {"open_launcher", open_launcher, METH_VARARGS, "Open a launcher's shared object, and return the launcher's address."},
    {"capsule_for_torch", give_torch_capsule, METH_O, "Return an array's DLPack capsule, or None if a stride is negative."},
    {"reads_tensors_through", reads_tensors_through, METH_NOARGS, "Return how torch's tensors are read."},
    {"read_tensors_through", read_tensors_through, METH_O, "Set how torch's tensors are read; the tests compare the ways."},
    {nullptr, nullptr, 0, nullptr},
};

Owned make_contents() {
    find_torch();
    fill_table();
    python_club_type = make_club_type();
    peers_type = make_peers_type();
    parallel_layout_type = make_layout_type();
    Owned contents = build("{sNsNsOsOsO}", "Dispatcher", make_dispatcher_type(), "PreparedLaunch", make_prepared_type(), "Club",
                           python_club_type, "Peers", peers_type, "ParallelLayout", parallel_layout_type);
#ifdef __x86_64__
    PyObject* const has_v3 = has_x86_64_v3() ? Py_True : Py_False;
    if (PyDict_SetItemString(contents.get(), "has_x86_64_v3", has_v3) != 0) throw Raised{};
#endif
    return contents;
}

// A process may import the file twice, for example through two loaders that share a cache. Both modules share the
// types.
int fill_module(PyObject* module) {
    static PyObject* contents = nullptr;
    const Owned filled(answer([&] {
        if (!contents) contents = make_contents().release();
        return PyDict_Update(PyModule_GetDict(module), contents) == 0 ? Py_NewRef(Py_None) : nullptr;
    }));
    return filled ? 0 : -1;
}

PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, slot(fill_module)},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    TKJIT_NEEDS_NO_GIL
    {0, nullptr},
};
PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "tkjit_runtime", "tkjit's runtime, which the glue of every kernel uses.", 0, functions, module_slots, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace tkjit::runtime

TKJIT_MODULE(TORCH_EXTENSION_NAME, tkjit::runtime::module_definition)
