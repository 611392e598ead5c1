// The runtime: the pybind11 module that every glue module uses, compiled once per environment.
//
// It holds the dispatcher's type, reads torch's tensors, allocates outputs, finds streams and writes error texts.
#include "allocation.h"
#include "fingerprints.h"
#include "guards.h"
#include "parallel.h"
#include "prepared.h"
#include "random.h"
#include "refusals.h"
#include "interruptions.h"
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
#include <new>
#include <string>

// Of libtorch; their own headers take 2 s to compile.
namespace at {
bool hasThreadLocalCallbacks();
namespace impl {
bool torch_function_mode_enabled();
}
}  // namespace at

namespace tkjit::runtime {
namespace {

// ---- what the table offers -----------------------------------------------------------------------------------------

bool view(PyObject* object, TensorView* view, Values* values) {
    try {
        if (!is_tensor(object)) return view_array(object, view, values);
        return torch.impl_word >= 0 ? view_through_impl(object, view) : view_through_exchange(object, view, values);
    } catch (py::error_already_set& error) {  // an odd subclass, or an array that cannot be shown: it is not a tensor to us
        error.restore();
        return false;
    } catch (const std::exception&) {  // c10's: a copy-on-write tensor for which there is no memory
        view->problems = kNoStorage;
        return true;
    }
}

TkjitLaunch resolve(Dispatcher* self, int overload, int variant, const TensorView& on) {
    PyObject* const address = PyObject_CallMethod(reinterpret_cast<PyObject*>(self), "_resolve", "iisi", overload, variant,
                                                  on.device_type == DeviceType::cpu ? "cpu" : "cuda", int(on.device));
    if (!address) return nullptr;
    const auto launch = reinterpret_cast<TkjitLaunch>(PyLong_AsVoidPtr(address));
    Py_DECREF(address);
    const int slot = on.device_type == DeviceType::cpu ? 0 : 1 + on.device;
    if (launch && slot < kDeviceSlots)
        self->launchers[slot * self->variant_count + variant].store(launch, std::memory_order_release);
    return launch;
}

// ---- torch's operators ---------------------------------------------------------------------------------------------

// Whether all function modes are of torch.set_default_device, which has nothing to say of a kernel.
bool only_devices() {
    static const struct {
        PyObject* count = keep(py::module_::import("torch._C").attr("_len_torch_function_stack"));
        PyObject* at = keep(py::module_::import("torch._C").attr("_get_function_stack_at"));
        PyObject* type = keep(py::module_::import("torch.utils._device").attr("DeviceContext"));
    } stack;
    try {
        const int count = py::handle(stack.count)().cast<int>();
        for (int i = 0; i < count; ++i)
            if (!py::isinstance(py::handle(stack.at)(i), py::handle(stack.type))) return false;
        return true;
    } catch (py::error_already_set&) {
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
    // both are excluded where autocast is off
    return (watched ? kWatched : 0) | ((keys.excluded_ & autocast) == autocast ? 0 : kAutocast);
}

PyObject* call_method(PyObject* self, const char* name, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    PyObject* const method = PyObject_GetAttrString(self, name);
    if (!method) return nullptr;
    PyObject* const result = PyObject_Vectorcall(method, args, nargs, kwnames);
    Py_DECREF(method);
    return result;
}

PyObject* through_operator(Dispatcher* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, bool choose) {
    PyObject* const chosen = choose ? self->entry->choose(reinterpret_cast<PyObject*>(self), args, size_t(nargs), kwnames)
                                    : PyLong_FromLong(-1);
    if (!chosen) return nullptr;
    Values values;  // which hold it
    const Py_ssize_t count = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    if (!values.keep(chosen)) return nullptr;
    auto** const all = values.make<PyObject*>(size_t(count) + 1);
    if (!all) return nullptr;
    all[0] = chosen;
    std::copy(args, args + count, all + 1);
    return call_method(reinterpret_cast<PyObject*>(self), "_call_operator", all, nargs + 1, kwnames);
}

bool written(PyObject* tensor) {
    try {
        if (!is_tensor(tensor)) return true;  // another framework's array has no version
        if (c10::TensorImpl& impl = impl_of(tensor); !impl.is_inference()) impl.bump_version();
        return true;
    } catch (py::error_already_set& error) {
        error.restore();
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
    } catch (py::error_already_set& error) {
        error.restore();
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

// Whether a frame is of the caller's own code, and not of what stands between it and the kernel.
bool is_callers(const py::object& globals) {
    const py::object found = py::reinterpret_borrow<py::dict>(globals).attr("get")("__name__", "");
    const auto module = py::isinstance<py::str>(found) ? found.cast<std::string>() : std::string();
    const std::string package = module.substr(0, module.find('.'));
    return package != "tkjit" && package != "torch";
}

// Warns for the line that calls the kernel, so that filters judge that line's module, and show it as often as they say. A
// first call, and one of the operator, have Python code of ours and of torch's in between.
bool deprecated(const char* kernel, const char* text) {
    try {
        auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
        py::object nearest = frame;
        while (frame && !frame.is_none() && !is_callers(frame.attr("f_globals"))) frame = frame.attr("f_back");
        if (frame && !frame.is_none()) nearest = frame;
        const auto message = py::reinterpret_steal<py::object>(
            PyUnicode_FromFormat("%s: this signature is deprecated; %s", kernel, text));
        if (!message) throw py::error_already_set();
        if (!nearest) return PyErr_WarnEx(PyExc_DeprecationWarning, message.cast<std::string>().c_str(), 1) == 0;
        const py::dict globals = nearest.attr("f_globals");
        return PyErr_WarnExplicitObject(PyExc_DeprecationWarning, message.ptr(), nearest.attr("f_code").attr("co_filename").ptr(),
                                        nearest.attr("f_lineno").cast<int>(), py::object(globals.attr("get")("__name__")).ptr(),
                                        py::object(globals.attr("setdefault")("__warningregistry__", py::dict())).ptr()) == 0;
    } catch (py::error_already_set& error) {
        error.restore();
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

void rethrow() { throw py::error_already_set(); }

// The device that an argument names: a GPU without a number is the current one.
bool place(const char* kernel, const char* name, const TkjitArg& device, TensorView* on) {
    *on = TensorView{};
    if (device.dtype == TKJIT_CPU) return true;
    try {
        const py::object cuda = py::module_::import("torch").attr("cuda");
        const int count = cuda.attr("device_count")().cast<int>();
        const int index = device.integer >= 0 || count == 0 ? int(device.integer) : cuda.attr("current_device")().cast<int>();
        on->device_type = DeviceType::cuda;
        on->device = index;
        if (index >= 0 && index < count) return true;
        PyErr_Format(argument_error, "%s: %s is a CUDA device that is not there; torch sees %d", kernel, name, count);
    } catch (py::error_already_set& error) {
        error.restore();
    }
    return false;
}

Table table;

// ---- the dispatcher's type -----------------------------------------------------------------------------------------

// Until the glue is attached a call goes to Python, which builds what is missing and calls again.
PyObject* first_call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    return call_method(self, "_first_call", args, PyVectorcall_NARGS(nargsf), kwnames);
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

// Lets instances of a Python subclass be called through `vectorcall`, though the class has a __call__ of its own (which
// is what tracers see): CPython passes the flag on to a subclass only where there is no __call__.
void enable_vectorcall(const py::type& type) {
    const auto raw = reinterpret_cast<PyTypeObject*>(type.ptr());
    raw->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    PyType_Modified(raw);
}

void attach(const py::object& dispatcher, const py::module_& glue, const py::tuple& result_types) {
    const auto self = reinterpret_cast<Dispatcher*>(dispatcher.ptr());
    const auto entry = static_cast<const GlueEntry*>(PyCapsule_GetPointer(glue.attr("entry").ptr(), kGlueCapsule));
    if (!entry) throw py::error_already_set();
    if (entry->version != kTableVersion) throw std::runtime_error("the glue was compiled for another runtime");
    static std::mutex attaching;  // nothing below lets go of the GIL, where there is one
    const std::lock_guard lock(attaching);
    if (self->glue) return;  // another thread was first
    self->launchers = new std::atomic<TkjitLaunch>[size_t(kDeviceSlots) * entry->variant_count]();
    self->variant_count = entry->variant_count;
    self->result_types = py::object(result_types).release().ptr();
    self->entry = entry;
    self->glue = py::object(glue).release().ptr();
    std::atomic_ref(self->vectorcall).store(entry->call, std::memory_order_release);
}

// What a call would pass to its launchers, without launching.
py::object collect(const py::object& dispatcher, const py::tuple& args, const py::dict& kwargs) {
    const auto self = reinterpret_cast<Dispatcher*>(dispatcher.ptr());
    const VectorArguments given(args, kwargs);
    PyObject* const found = self->entry->collect(dispatcher.ptr(), given.all.data(), args.size(), given.kwnames());
    if (!found) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(found);
}

// ---- launchers -----------------------------------------------------------------------------------------------------

// Asked by the simulator now and then, in the thread that called the kernel: whether to go on.
sim::Verdict judge(sim::Waits waits) {
    RunningPart* const doing = RunningPart::current;
    // in vain: another device's part of the step has failed, or another process of a parallel tensor has ended
    if (waits != sim::Waits::no && ((doing && doing->step.failed.load()) || given_up())) return sim::Verdict::interrupted;
    if (is_interrupted()) {
        if (doing) doing->step.failed.store(true);
        return sim::Verdict::interrupted;
    }
    if (!doing || waits_for) return sim::Verdict::go_on;  // what another process does, nobody here knows
    if (waits != sim::Waits::in_vain) {
        doing->step.goes_on(doing->dev_idx);
        return sim::Verdict::go_on;
    }
    doing->step.waits_in_vain(doing->dev_idx);
    return doing->step.is_deadlock() ? sim::Verdict::deadlock : sim::Verdict::go_on;
}

sim::Pool launchers_pool;

// Gives a library that the simulator is linked with what all of them share.
void connect(void* library, bool synchronous, int32_t trace) {
    if (auto* const flag = static_cast<int32_t*>(dlsym(library, "tkjit_synchronous"))) *flag = synchronous;
    if (auto* const descriptor = static_cast<int32_t*>(dlsym(library, "tkjit_sim_trace"))) *descriptor = trace;
    if (auto* const hook = static_cast<sim::Judge*>(dlsym(library, "tkjit_sim_judge"))) *hook = judge;
    if (auto* const pool = static_cast<sim::Pool**>(dlsym(library, "tkjit_sim_pool"))) {
        __atomic_store_n(pool, &launchers_pool, __ATOMIC_RELEASE);
    }
    if (void* const give_up = dlsym(library, "tkjit_sim_give_up")) watch_interruptions(reinterpret_cast<GiveUp>(give_up));
}

// The same for a module that Python has imported.
void connect_module(const std::string& path, int32_t trace) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!library) throw py::import_error(path + " is not loaded");
    connect(library, false, trace);
    dlclose(library);
}

// Opens a launcher and returns the address of its entry. It stays open: a kernel may still run when Python forgets it.
uintptr_t open_launcher(const std::string& path, bool synchronous, int32_t trace) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw py::import_error(dlerror());
    void* const entry = dlsym(library, "tkjit_launch");
    if (!entry) {
        dlclose(library);  // else the one that is built in its place, which has its name, would be taken for it
        throw py::import_error(path + " has no tkjit_launch");
    }
    connect(library, synchronous, trace);
    return reinterpret_cast<uintptr_t>(entry);
}

#ifdef __x86_64__
// The level of the x86-64 ABI that tkjit/compile/targets.py asks /proc/cpuinfo for; reading that takes 0.1 ms.
bool has_x86_64_v3() {
    unsigned eax, ebx, features, edx;
    if (!__get_cpuid(1, &eax, &ebx, &features, &edx)) return false;
    // the built-ins also ask whether the operating system saves the registers
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && (features & bit_F16C) && (features & bit_MOVBE);
}
#endif

void fill_table() {
    const py::module_ errors = py::module_::import("tkjit.errors");
    argument_error = keep(errors.attr("ArgumentError"));
    shape_error = keep(errors.attr("ShapeError"));
    launch_error = keep(errors.attr("LaunchError"));
    table = {kTableVersion,  view,        overlap,         overlaps_itself, confirm,         hold,          let_go,        as_array,        empty,  intact,       stream,        record_stream, resolve,
             modes,          through_operator, written,    impl,          is_bool,       is_number,     rethrow,       read_value, random, place, refuse_place, refuse_constraint,
             deprecated,     parallel,      club,            club_stream,   execute,       waits_on,
             argument_error, shape_error,  launch_error,  refuse_tensor, refuse_mismatch,
             refuse_device,  refuse_object, refuse_name};
}

}  // namespace
}  // namespace tkjit::runtime

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module, pybind11::mod_gil_not_used()) {
    namespace rt = tkjit::runtime;
    rt::find_torch();
    rt::fill_table();
    module.doc() = "tkjit's runtime: what every kernel's glue shares.";
    module.attr("Dispatcher") = pybind11::reinterpret_steal<pybind11::object>(rt::make_dispatcher_type());
    module.def("enable_vectorcall", &rt::enable_vectorcall);
    module.def("collect", &rt::collect, "What a call would pass to its launchers.");
    module.attr("PreparedLaunch") = pybind11::reinterpret_steal<pybind11::object>(rt::make_prepared_type());
    module.def("prepare", &rt::prepare, "A call without its launches.");
    module.def("show_prepared", &rt::show_prepared, "What the launches of a prepared call pass.");
    module.def("attach", &rt::attach, "Give a dispatcher its glue module.");
#ifdef __x86_64__
    module.attr("has_x86_64_v3") = rt::has_x86_64_v3();
#endif
    rt::define_parallel(module);
    module.def("unchanged", [](const pybind11::bytes& fingerprint) { return rt::unchanged(fingerprint); }, "Whether every file of a fingerprint is as it was.");
    module.def("connect_module", &rt::connect_module, "Give an imported module with the simulator in it what all share.");
    module.def("open_launcher", &rt::open_launcher, "Open a launcher's shared object; returns its entry's address.",
               pybind11::arg("path"), pybind11::arg("synchronous"), pybind11::arg("trace"));
    module.def("capsule_for_torch", &rt::capsule_for_torch, "An array's DLPack capsule; None for one with negative strides.");
    module.def("reads_tensors_through", [] {
        return rt::torch.impl_word >= 0 ? "TensorImpl" : rt::torch.by_method ? "__dlpack__" : "exchange API";
    });
    module.def("read_tensors_through", [](const std::string& way) {
        rt::torch.by_method = way == "__dlpack__";
        rt::torch.impl_word = way == "TensorImpl" ? rt::find_impl_word() : -1;
    }, "Take one of the ways of reading torch's tensors; the tests compare them.");
}
