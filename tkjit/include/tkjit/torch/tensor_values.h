// Converts tensors, dtypes, devices and numbers from and to Python objects, and calls Python for operations on tensors
// that the C ABI does not have.
#pragma once

#include "tensor.h"

#ifdef TKJIT_TORCH_IN_KERNEL
#include "no_python.h"
#else

#include "dtype_values.h"

namespace pybind11 {
inline namespace tkjit_stand_in {

template <class T>
struct Kept<c10::ArrayRef<T>> {
    struct type {
        std::vector<T> owned;
        c10::ArrayRef<T> view;
        operator c10::ArrayRef<T>&() { return view = owned; }
    };
};
template <class T>
struct KeptArray {
    using Kept = typename pybind11::Kept<c10::ArrayRef<T>>::type;
    static std::string name() { return Reader<std::vector<T>>::name(); }
    static bool read(PyObject* given, Kept& to) { return Reader<std::vector<T>>::read(given, to.owned); }
};
template <>
struct Reader<Kept<c10::ArrayRef<int64_t>>::type> : KeptArray<int64_t> {};
template <>
struct Reader<Kept<c10::ArrayRef<double>>::type> : KeptArray<double> {};
template <>
struct Reader<Kept<c10::ArrayRef<at::Tensor>>::type> : KeptArray<at::Tensor> {};
template <class T>
struct Kept<c10::OptionalArrayRef<T>> {
    using type = std::optional<std::vector<T>>;
};
// not read directly; `Kept` has the type that owns the data
template <class T>
struct Reader<c10::ArrayRef<T>> {};
template <class T>
struct Reader<c10::OptionalArrayRef<T>> {};
template <>
struct Reader<c10::Device> {};

template <>
struct Reader<at::Tensor> {
    static std::string name() { return "Tensor"; }
    static bool read(PyObject* given, at::Tensor& to) {
        const AtenTensorHandle handle = handle_of(given);
        if (handle) to = at::Tensor(handle);
        return handle != nullptr;
    }
};
template <>
struct Reader<Kept<std::optional<const at::Tensor>>::type> : KeptOptional<at::Tensor> {};
template <>
struct Kept<c10::Device> {
    struct type {
        int kind = 0, index = -1;
        operator c10::Device() const { return {static_cast<c10::DeviceType>(kind), static_cast<c10::DeviceIndex>(index)}; }
    };
};
template <>
struct Reader<Kept<c10::Device>::type> {
    static std::string name() { return "torch.device"; }
    static bool read(PyObject* given, Kept<c10::Device>::type& to) { return read_device(given, to.kind, to.index); }
};
template <>
struct Reader<c10::Scalar> {
    static std::string name() { return "number"; }
    static bool read(PyObject* given, c10::Scalar& to) {
        if (PyBool_Check(given)) to = c10::Scalar(given == Py_True);
        else if (PyLong_Check(given)) to = c10::Scalar(int64_t(PyLong_AsLongLong(given)));
        else if (PyFloat_Check(given)) to = c10::Scalar(PyFloat_AsDouble(given));
        else if (PyComplex_Check(given)) to = c10::Scalar(c10::complex<double>(PyComplex_RealAsDouble(given), PyComplex_ImagAsDouble(given)));
        else return false;
        if (PyErr_Occurred()) throw error_already_set();
        return true;
    }
};
template <>
struct Reader<at::Generator> {
    static std::string name() { return "torch.Generator"; }
    static bool read(PyObject* given, at::Generator& to) {
        static PyObject* const type = of_torch("Generator");
        if (!is_instance(given, type)) return false;
        to = at::Generator(std::shared_ptr<void>(pybind11::new_reference(given), [](void* owned) {
            if (!Py_IsInitialized()) return;  // at the end of the process
            const gil_scoped_acquire held;
            Py_DECREF(static_cast<PyObject*>(owned));
        }));
        return true;
    }
};

template <class T>
struct Reader<c10::complex<T>> {
    static std::string name() { return "complex"; }
    static bool read(PyObject* given, c10::complex<T>& to) {
        c10::Scalar number;
        if (!Reader<c10::Scalar>::read(given, number)) return false;
        to = number.to<c10::complex<T>>();
        return true;
    }
};

template <class T>
struct Writer<c10::complex<T>> {
    static object write(const c10::complex<T>& value) { return check(PyComplex_FromDoubles(double(value.real()), double(value.imag()))); }
};
template <>
struct Writer<at::Tensor> {
    static object write(const at::Tensor& tensor) { return tensor.defined() ? object_of(tensor.handle()) : none(); }
};
template <>
struct Writer<c10::Scalar> {
    static object write(const c10::Scalar& value) {
        if (value.isBoolean()) return cast(value.toBool());
        if (value.isIntegral()) return cast(value.toLong());
        return value.isComplex() ? cast(value.toComplexDouble()) : cast(value.toDouble());
    }
};
template <>
struct Writer<c10::Device> {
    static object write(const c10::Device& device) {
        static PyObject* const type = of_torch("device");
        return check(PyObject_CallFunctionObjArgs(type, cast(c10::where_memory_is(device).str()).ptr(), nullptr));
    }
};
template <>
struct Writer<c10::DeviceType> {
    static object write(c10::DeviceType type) { return cast(c10::Device(type)); }
};
template <>
struct Writer<at::Generator> {
    static object write(const at::Generator& generator) {
        return generator.defined() ? object(pybind11::new_reference(static_cast<PyObject*>(generator.object()))) : none();
    }
};
template <class T>
struct Writer<c10::ArrayRef<T>> {
    static object write(const c10::ArrayRef<T>& values) { return cast(values.vec()); }
};
template <class T>
struct Reader<c10::List<T>> : Reader<std::vector<T>> {};
template <class T>
struct Writer<c10::List<T>> : Writer<std::vector<T>> {};
template <class T>
struct Writer<c10::OptionalArrayRef<T>> {
    static object write(const c10::OptionalArrayRef<T>& values) { return values ? cast(*values) : none(); }
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11

namespace at {
inline namespace tkjit_stand_in {

/// Rethrows a Python exception as the type that torch's C++ functions throw. KeyboardInterrupt, other exceptions that
/// are not an Exception, and OutOfMemoryError are rethrown unchanged.
[[noreturn]] inline void throw_as_of_torch(const pybind11::error_already_set& error) {
    const std::string text = pybind11::text_of(error.value().ptr());
    if (error.matches(PyExc_IndexError)) throw c10::IndexError(text);
    if (error.matches(PyExc_ValueError)) throw c10::ValueError(text);
    if (error.matches(PyExc_TypeError)) throw c10::TypeError(text);
    if (error.matches(PyExc_NotImplementedError)) throw c10::NotImplementedError(text);
    static PyObject* const out_of_memory = pybind11::of_torch("OutOfMemoryError");
    if (!error.matches(PyExc_Exception) || error.matches(out_of_memory)) throw error;
    throw c10::Error(text);
}
/// Runs a function that uses Python, with the GIL.
template <class Function>
auto in_python(const Function& function) -> decltype(function()) {
    const pybind11::gil_scoped_acquire held;
    try {
        return function();
    } catch (const pybind11::error_already_set& error) {
        throw_as_of_torch(error);
    }
}

template <class R>
struct FromPython {
    static R read(pybind11::handle result) { return pybind11::cast<R>(result); }
};
template <>
struct FromPython<void> {
    static void read(pybind11::handle) {}
};
template <>
struct FromPython<Tensor> {
    static Tensor read(pybind11::handle result) { return result.is_none() ? Tensor() : pybind11::cast<Tensor>(result); }
};
template <class... R>
struct FromPython<std::tuple<R...>> {
    static std::tuple<R...> read(pybind11::handle result) { return read(result, std::index_sequence_for<R...>()); }

private:
    template <size_t... i>
    static std::tuple<R...> read([[maybe_unused]] pybind11::handle result, std::index_sequence<i...>) {
        return std::tuple<R...>{FromPython<R>::read(pybind11::check(PySequence_GetItem(result.ptr(), Py_ssize_t(i))))...};
    }
};

/// ``torch.ops.aten.add.Scalar`` for ("aten::add", "Scalar").
inline pybind11::object operator_named(const std::string& name, const std::string& overload) {
    static PyObject* const all = pybind11::of_torch("ops");
    const size_t colon = name.find("::");
    const auto space = pybind11::check(PyObject_GetAttrString(all, name.substr(0, colon).c_str()));
    const auto packet = pybind11::check(PyObject_GetAttrString(space.ptr(), name.substr(colon + 2).c_str()));
    return pybind11::check(PyObject_GetAttrString(packet.ptr(), overload.empty() ? "default" : overload.c_str()));
}
/// An operator in Python, and the names of its keyword-only arguments.
struct PythonOperator {
    PythonOperator(const std::string& name, const std::string& overload) : callable(operator_named(name, overload)) {
        const auto schema = pybind11::check(PyObject_GetAttrString(callable.ptr(), "_schema"));
        const auto arguments = pybind11::check(PyObject_GetAttrString(schema.ptr(), "arguments"));
        for (Py_ssize_t i = 0; i < PySequence_Size(arguments.ptr()); ++i) {
            const auto argument = pybind11::check(PySequence_GetItem(arguments.ptr(), i));
            const auto is_named = pybind11::check(PyObject_GetAttrString(argument.ptr(), "kwarg_only"));
            if (is_named.ptr() != Py_True) ++positional;
            else names.push_back(pybind11::cast<std::string>(pybind11::check(PyObject_GetAttrString(argument.ptr(), "name"))));
        }
    }
    pybind11::object callable;
    size_t positional = 0;
    std::vector<std::string> names;
};
inline const PythonOperator& python_operator(const char* name, const char* overload) {
    static auto* const known = new std::unordered_map<std::string, PythonOperator>;  // under the GIL
    const std::string key = std::string(name) + "." + overload;
    const auto found = known->find(key);
    return found != known->end() ? found->second : known->emplace(key, PythonOperator(name, overload)).first->second;
}
template <class R, class... A>
R call_in_python(const char* name, const char* overload, const A&... arguments) {
    return in_python([&]() -> R {
        const PythonOperator& called = python_operator(name, overload);
        const pybind11::object given[] = {pybind11::cast(arguments)...};
        const auto positional = pybind11::check(PyTuple_New(Py_ssize_t(called.positional)));
        for (size_t i = 0; i < called.positional; ++i) PyTuple_SetItem(positional.ptr(), Py_ssize_t(i), pybind11::new_reference(given[i].ptr()));
        const auto named = pybind11::check(PyDict_New());
        for (size_t i = 0; i < called.names.size(); ++i)
            pybind11::check_status(PyDict_SetItemString(named.ptr(), called.names[i].c_str(), given[called.positional + i].ptr()));
        return FromPython<R>::read(pybind11::check(PyObject_Call(called.callable.ptr(), positional.ptr(), named.ptr())));
    });
}
/// ``tensor.name`` in Python.
inline pybind11::object attribute_of(const TensorBase& tensor, const char* name) {
    const auto owner = pybind11::object_of(tensor.handle());
    return pybind11::check(PyObject_GetAttrString(owner.ptr(), name));
}
template <class T>
T ask_python(const TensorBase& tensor, const char* name) {
    return in_python([&] { return FromPython<T>::read(attribute_of(tensor, name)); });
}
inline void set_attribute(const TensorBase& tensor, const char* name, const pybind11::object& value) {
    const auto owner = pybind11::object_of(tensor.handle());
    pybind11::check_status(PyObject_SetAttrString(owner.ptr(), name, value.ptr()));
}
inline pybind11::object call_method(const TensorBase& tensor, const char* name, const pybind11::object& arguments) {
    return pybind11::check(PyObject_CallObject(attribute_of(tensor, name).ptr(), arguments.ptr()));
}

/// torch's global settings, read through Python.
struct Context {
    bool deterministicAlgorithms() const { return ask("torch", "are_deterministic_algorithms_enabled"); }
    bool allowTF32CuBLAS() const { return ask("torch._C", "_get_cublas_allow_tf32"); }
    void* lazyInitCUDA() const { return nullptr; }
    bool hasCUDA() const { return ask("torch.cuda", "is_available"); }
    /// Throws if the user requires deterministic algorithms, or warns if the user chose warnings only.
    void alertNotDeterministic(c10::string_view caller) const {
        if (!deterministicAlgorithms()) return;
        const std::string text = std::string(caller) + " does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'.";
        TORCH_CHECK(ask("torch", "is_deterministic_algorithms_warn_only_enabled"), text);
        TORCH_WARN(text);
    }

private:
    static bool ask(const char* module, const char* function) {
        return in_python([&] {
            const auto owner = pybind11::check(PyImport_ImportModule(module));
            const auto asked = pybind11::check(PyObject_GetAttrString(owner.ptr(), function));
            return pybind11::check(PyObject_CallObject(asked.ptr(), nullptr)).ptr() == Py_True;
        });
    }
};
inline Context globalContext() { return {}; }

inline bool TensorBase::requires_grad() const { return ask_python<bool>(*this, "requires_grad"); }
inline bool TensorBase::is_leaf() const { return ask_python<bool>(*this, "is_leaf"); }
inline bool TensorBase::is_view() const {
    return in_python([&] { return pybind11::cast<bool>(call_method(*this, "_is_view", pybind11::check(PyTuple_New(0)))); });
}
inline void increment_version(const Tensor& tensor) {
    in_python([&] { pybind11::check(PyImport_ImportModule("torch.autograd.graph")).attr("increment_version")(tensor); });
}
/// Keeps the allocator from reusing the tensor's memory before the stream has finished its current work.
inline void record_stream(const Tensor& tensor, void* stream, c10::DeviceIndex device) {
    in_python([&] {
        const auto made = pybind11::check(PyImport_ImportModule("torch.cuda")).attr("ExternalStream")(reinterpret_cast<uintptr_t>(stream), int(device));
        pybind11::cast(tensor).attr("record_stream")(made);
    });
}
inline void TensorBase::print() const { aoti_torch_print_tensor_handle(handle(), ""); }
inline const Tensor& Tensor::set_requires_grad(bool is) const {
    in_python([&] { set_attribute(*this, "requires_grad", pybind11::cast(is)); });
    return *this;
}
inline Tensor Tensor::grad() const { return ask_python<Tensor>(*this, "grad"); }
inline void Tensor::backward(const Tensor& gradient, std::optional<bool> retain_graph, bool create_graph) const {
    in_python([&] { call_method(*this, "backward", pybind11::cast(std::make_tuple(gradient, retain_graph, create_graph))); });
}
inline void Tensor::retain_grad() const {
    in_python([&] { call_method(*this, "retain_grad", pybind11::check(PyTuple_New(0))); });
}
inline void Tensor::set_data(const Tensor& from) const {
    in_python([&] { set_attribute(*this, "data", pybind11::cast(from)); });
}

}  // inline namespace tkjit_stand_in

namespace detail {
inline namespace tkjit_stand_in {
/// ``torch.default_generator``
inline Generator getDefaultCPUGenerator() {
    return in_python([] { return pybind11::cast<Generator>(pybind11::handle(pybind11::of_torch("default_generator"))); });
}
}  // inline namespace tkjit_stand_in
}  // namespace detail
}  // namespace at

#endif  // TKJIT_TORCH_IN_KERNEL
