// PYBIND11_MODULE, for functions of numbers, texts and lists of them; module.h and stable_module.h add tensors.
//
// pybind11's and torch's own headers would take nvcc a minute and a half.
#pragma once

#include "check.h"
#include "shim.h"

#include <Python.h>
#ifdef TKJIT_SIM
#include <cuda_runtime.h>
#endif

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace pybind11 {
inline namespace tkjit_stand_in {

/// A Python exception is set.
struct error_already_set : std::exception {
    const char* what() const noexcept override { return "a Python exception"; }
};

/// A reference, which is given up at the end of its scope.
class object {
public:
    object() = default;
    explicit object(PyObject* owned) : object_(owned) {}
    object(object&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    object(const object& other) : object_(other.object_) { Py_XINCREF(object_); }
    object& operator=(object other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~object() { Py_XDECREF(object_); }
    PyObject* ptr() const { return object_; }
    PyObject* release() { return std::exchange(object_, nullptr); }

private:
    PyObject* object_ = nullptr;
};
inline object check(PyObject* owned) {
    if (!owned) throw error_already_set();
    return object(owned);
}

/// An attribute of the torch module, for the life of the process.
inline PyObject* of_torch(const char* name) {
    const object torch = check(PyImport_ImportModule("torch"));
    return check(PyObject_GetAttrString(torch.ptr(), name)).release();
}
inline bool is_instance(PyObject* given, PyObject* type) {
    const int is = PyObject_IsInstance(given, type);
    if (is < 0) throw error_already_set();
    return is;
}
/// A function of torch's Python module that turns tensors into handles, or back.
inline PyObject* tensor_function(const char* name) {
    const object module = check(PyImport_ImportModule("torch._C"));
    const object functions = check(PyObject_GetAttrString(module.ptr(), "_aoti"));
    return check(PyObject_GetAttrString(functions.ptr(), name)).release();  // for the life of the process
}
/// A handle that the caller owns; null for what is no tensor.
inline AtenTensorHandle handle_of(PyObject* given) {
    static PyObject* const function = tensor_function("unsafe_alloc_void_ptr_from_tensor");
    static PyObject* const type = of_torch("Tensor");
    if (!is_instance(given, type)) return nullptr;
    const object capsule = check(PyObject_CallOneArg(function, given));
    return static_cast<AtenTensorHandle>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
}
/// The tensor of a handle, which stays the caller's.
inline object object_of(AtenTensorHandle handle) {
    static PyObject* const function = tensor_function("alloc_tensor_by_stealing_from_void_ptr");
    AtenTensorHandle stolen = nullptr;
    c10::check_call(aoti_torch_new_tensor_handle(handle, &stolen), "new_tensor_handle");
    const object capsule = check(PyCapsule_New(stolen, nullptr, nullptr));
    return check(PyObject_CallOneArg(function, capsule.ptr()));
}

/// Gives `take` a tensor of a dtype, whose number is that of its tensors; false for what is none.
template <class Take>
bool read_dtype(PyObject* given, const Take& take) {
    static PyObject* const type = of_torch("dtype");
    static PyObject* const empty = of_torch("empty");
    if (!is_instance(given, type)) return false;
    const object arguments = check(Py_BuildValue("(i)", 0)), options = check(Py_BuildValue("{s:O}", "dtype", given));
    const object tensor = check(PyObject_Call(empty, arguments.ptr(), options.ptr()));
    take(handle_of(tensor.ptr()));
    return true;
}
/// The numbers of a device's type and of itself, -1 for the current one; false for what is none.
inline bool read_device(PyObject* given, int& type, int& index) {
    static PyObject* const device = of_torch("device");
    if (!is_instance(given, device) && !PyUnicode_Check(given)) return false;
    const object made = check(PyObject_CallOneArg(device, given));
    const object kind = check(PyObject_GetAttrString(made.ptr(), "type")), at = check(PyObject_GetAttrString(made.ptr(), "index"));
    const std::string name = PyUnicode_AsUTF8(kind.ptr());
    type = name == "cpu" ? 0 : name == "cuda" ? 1 : name == "meta" ? 12 : -1;
    index = at.ptr() == Py_None ? -1 : int(PyLong_AsLong(at.ptr()));
    return type >= 0;
}

/// What is kept of an argument while the function runs.
template <class T>
struct Kept {
    using type = T;
};

template <class T>
struct Kept<std::optional<T>> {
    using type = std::optional<typename Kept<T>::type>;
};

// ---- arguments -----------------------------------------------------------------------------------------------------

/// Reads an argument of a type: ``name`` says what it expects, ``read`` returns false where it is something else.
template <class T, class = void>
struct Reader {
    static_assert(sizeof(T) == 0, "an argument of this type is not known; known are tensors, numbers, bool, std::string, and "
                                  "std::optional and std::vector of them");
};

template <>
struct Reader<bool> {
    static std::string name() { return "bool"; }
    static bool read(PyObject* given, bool& to) {
        if (!PyBool_Check(given)) return false;
        to = given == Py_True;
        return true;
    }
};
template <class T>
struct Reader<T, std::enable_if_t<std::is_integral<T>::value && !std::is_same<T, bool>::value>> {
    static std::string name() { return "int"; }
    static bool read(PyObject* given, T& to) {
        if (PyFloat_Check(given) || !PyIndex_Check(given)) return false;
        const object number = check(PyNumber_Index(given));
        const long long value = PyLong_AsLongLong(number.ptr());
        if (value == -1 && PyErr_Occurred()) throw error_already_set();
        to = static_cast<T>(value);
        if (static_cast<long long>(to) == value && (value < 0) == (to < T(0))) return true;
        PyErr_Format(PyExc_OverflowError, "%S does not fit into %d bytes", given, int(sizeof(T)));
        throw error_already_set();
    }
};
template <class T>
struct Reader<T, std::enable_if_t<std::is_floating_point<T>::value>> {
    static std::string name() { return "float"; }
    static bool read(PyObject* given, T& to) {
        const double value = PyFloat_AsDouble(given);
        if (value == -1 && PyErr_Occurred()) {
            if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw error_already_set();
            PyErr_Clear();
            return false;
        }
        to = static_cast<T>(value);
        return true;
    }
};
template <>
struct Reader<std::string> {
    static std::string name() { return "str"; }
    static bool read(PyObject* given, std::string& to) {
        if (!PyUnicode_Check(given)) return false;
        Py_ssize_t size = 0;
        const char* const text = PyUnicode_AsUTF8AndSize(given, &size);
        if (!text) throw error_already_set();
        to.assign(text, size_t(size));
        return true;
    }
};
template <class T>
struct Reader<std::optional<T>> {
    static std::string name() { return Reader<T>::name() + " | None"; }
    static bool read(PyObject* given, std::optional<T>& to) {
        if (given == Py_None) {
            to.reset();
            return true;
        }
        to.emplace();
        return Reader<T>::read(given, *to);
    }
};
template <class T>
struct Reader<std::vector<T>> {
    static std::string name() { return "list[" + Reader<T>::name() + "]"; }
    static bool read(PyObject* given, std::vector<T>& to) {
        if (!PyList_Check(given) && !PyTuple_Check(given)) return false;
        const object items = check(PySequence_Tuple(given));
        to.clear();
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.ptr()); ++i) {
            T item{};
            if (!Reader<T>::read(PyTuple_GET_ITEM(items.ptr(), i), item)) return false;
            to.push_back(std::move(item));
        }
        return true;
    }
};

// ---- results -------------------------------------------------------------------------------------------------------

/// Makes an object of a result of a type.
template <class T, class = void>
struct Writer;
template <class T>
object cast(const T& value) {
    return Writer<T>::write(value);
}

template <>
struct Writer<bool> {
    static object write(bool value) { return object(PyBool_FromLong(value)); }
};
template <class T>
struct Writer<T, std::enable_if_t<std::is_integral<T>::value && !std::is_same<T, bool>::value>> {
    static object write(T value) {
        return check(std::is_signed<T>::value ? PyLong_FromLongLong(static_cast<long long>(value))
                                              : PyLong_FromUnsignedLongLong(static_cast<unsigned long long>(value)));
    }
};
template <class T>
struct Writer<T, std::enable_if_t<std::is_floating_point<T>::value>> {
    static object write(T value) { return check(PyFloat_FromDouble(double(value))); }
};
template <>
struct Writer<std::string> {
    static object write(const std::string& text) {
        return check(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), nullptr));
    }
};
inline object cast(const char* text) { return cast(std::string(text)); }
template <class T>
struct Writer<std::optional<T>> {
    static object write(const std::optional<T>& value) { return value ? cast(*value) : object(Py_NewRef(Py_None)); }
};
template <class T>
struct Writer<std::vector<T>> {
    static object write(const std::vector<T>& values) {
        object list = check(PyList_New(Py_ssize_t(values.size())));
        for (size_t i = 0; i < values.size(); ++i) PyList_SET_ITEM(list.ptr(), Py_ssize_t(i), cast(T(values[i])).release());
        return list;
    }
};
template <class Tuple, size_t... i>
object cast_tuple(const Tuple& values, std::index_sequence<i...>) {
    object items[] = {cast(std::get<i>(values))...};
    object tuple = check(PyTuple_New(Py_ssize_t(sizeof...(i))));
    for (size_t at = 0; at < sizeof...(i); ++at) PyTuple_SET_ITEM(tuple.ptr(), Py_ssize_t(at), items[at].release());
    return tuple;
}
template <class... T>
struct Writer<std::tuple<T...>> {
    static object write(const std::tuple<T...>& values) { return cast_tuple(values, std::index_sequence_for<T...>()); }
};
template <class A, class B>
struct Writer<std::pair<A, B>> {
    static object write(const std::pair<A, B>& values) { return cast_tuple(values, std::index_sequence_for<A, B>()); }
};

// ---- functions -----------------------------------------------------------------------------------------------------

/// The name of an argument, and its default.
struct arg {
    explicit arg(const char* name) : name(name) {}
    arg none(bool = true) const { return *this; }      // what is None is said by the argument's type
    arg noconvert(bool = true) const { return *this; }  // nothing is converted
    template <class T>
    arg operator=(const T& value) const {
        arg made = *this;
        made.value = cast(value);
        return made;
    }
    arg operator=(std::nullopt_t) const {
        arg made = *this;
        made.value = object(Py_NewRef(Py_None));
        return made;
    }
    const char* name;
    object value;
};
inline namespace literals {
inline arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals

struct gil_scoped_release {
    gil_scoped_release() : state_(PyEval_SaveThread()) {}
    gil_scoped_release(const gil_scoped_release&) = delete;
    ~gil_scoped_release() { PyEval_RestoreThread(state_); }

private:
    PyThreadState* state_;
};
template <class... T>
struct call_guard {};

/// What the launches of one call have come to. On a GPU a launch goes on after the call, and torch reports what fails.
struct Launches {
#ifdef TKJIT_SIM
    Launches() { cudaGetLastError(); }  // what an earlier call left behind must not be blamed on this one
    void check() const {
        const cudaError_t error = cudaGetLastError();
        if (error == cudaSuccess) return;
        if (PyErr_Occurred()) throw error_already_set();  // Ctrl-C
        const object errors = pybind11::check(PyImport_ImportModule("tkjit.errors"));
        const object type = pybind11::check(PyObject_GetAttrString(errors.ptr(), "LaunchError"));
        PyErr_SetString(type.ptr(), cudaGetErrorString(error));
        throw error_already_set();
    }
#else
    void check() const {}
#endif
};

/// A C++ function as Python calls it.
class Function {
public:
    Function(std::string name, std::string doc, std::vector<arg> arguments)
        : name(std::move(name)), doc(std::move(doc)), arguments(std::move(arguments)) {}
    virtual ~Function() = default;
    virtual object call(PyObject* const* given) const = 0;

    const std::string name, doc;
    std::vector<arg> arguments;
};

inline void refuse(const Function& function, size_t position, const std::string& expected, PyObject* given) {
    const std::string& name = function.arguments[position].name;
    PyErr_Format(PyExc_TypeError, "%s(): %s: expected %s, got %s", function.name.c_str(), name.c_str(), expected.c_str(),
                 Py_TYPE(given)->tp_name);
    throw error_already_set();
}

template <class R, class... A>
class FunctionOf final : public Function {
public:
    FunctionOf(std::string name, R (*function)(A...), std::string doc, std::vector<arg> arguments)
        : Function(std::move(name), std::move(doc), std::move(arguments)), function_(function) {}

    object call(PyObject* const* given) const override { return call_with(given, std::index_sequence_for<A...>()); }

private:
    template <size_t... i>
    object call_with(PyObject* const* given, std::index_sequence<i...>) const {
        (void)given;
        std::tuple<typename Kept<std::decay_t<A>>::type...> read{};
        bool read_all[] = {true, (Reader<typename Kept<std::decay_t<A>>::type>::read(given[i], std::get<i>(read)) ||
                                  (refuse(*this, i, Reader<typename Kept<std::decay_t<A>>::type>::name(), given[i]), false))...};
        (void)read_all;
        const Launches launches;
        if constexpr (std::is_void<R>::value) {
            function_(static_cast<A>(std::get<i>(read))...);
            launches.check();
            return object(Py_NewRef(Py_None));
        } else {
            const object made = cast(function_(static_cast<A>(std::get<i>(read))...));
            launches.check();
            return made;
        }
    }

    R (*function_)(A...);
};

/// Sets the exception that is being handled as Python's, by the types that torch gives them.
inline void translate() {
    try {
        throw;
    } catch (const error_already_set&) {
    } catch (const c10::IndexError& error) {
        PyErr_SetString(PyExc_IndexError, error.what());
    } catch (const c10::ValueError& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const c10::TypeError& error) {
        PyErr_SetString(PyExc_TypeError, error.what());
    } catch (const c10::NotImplementedError& error) {
        PyErr_SetString(PyExc_NotImplementedError, error.what());
    } catch (const std::bad_alloc& error) {
        PyErr_SetString(PyExc_MemoryError, error.what());
    } catch (const std::out_of_range& error) {
        PyErr_SetString(PyExc_IndexError, error.what());
    } catch (const std::invalid_argument& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const std::domain_error& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    } catch (...) {
        PyErr_SetString(PyExc_RuntimeError, "a C++ exception of a type that is not std::exception");
    }
}

/// The arguments in their order: what was given, by position or name, and defaults.
inline std::vector<PyObject*> in_order(const Function& function, PyObject* args, PyObject* kwargs) {
    const size_t count = function.arguments.size();
    std::vector<PyObject*> found(count, nullptr);
    const size_t given = size_t(PyTuple_GET_SIZE(args));
    if (given > count) {
        PyErr_Format(PyExc_TypeError, "%s() takes %zu arguments, but %zu were given", function.name.c_str(), count, given);
        throw error_already_set();
    }
    for (size_t i = 0; i < given; ++i) found[i] = PyTuple_GET_ITEM(args, Py_ssize_t(i));
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) {
        const arg& argument = function.arguments[i];
        PyObject* const named = kwargs ? PyDict_GetItemString(kwargs, argument.name) : nullptr;
        used += named != nullptr;
        if (named && found[i]) {
            PyErr_Format(PyExc_TypeError, "%s() got %s twice", function.name.c_str(), argument.name);
            throw error_already_set();
        }
        if (!found[i]) found[i] = named ? named : argument.value.ptr();
        if (!found[i]) {
            PyErr_Format(PyExc_TypeError, "%s(): %s is missing", function.name.c_str(), argument.name);
            throw error_already_set();
        }
    }
    if (kwargs && used != size_t(PyDict_GET_SIZE(kwargs))) {
        PyErr_Format(PyExc_TypeError, "%s() has no such argument: %S", function.name.c_str(), kwargs);
        throw error_already_set();
    }
    return found;
}

inline constexpr const char* capsule_name = "tkjit.torch.function";

inline PyObject* call_function(PyObject* capsule, PyObject* args, PyObject* kwargs) noexcept {
    try {
        const auto& function = *static_cast<const Function*>(PyCapsule_GetPointer(capsule, capsule_name));
        return function.call(in_order(function, args, kwargs).data()).release();
    } catch (...) {
        translate();
        return nullptr;
    }
}

/// ``m.doc() = "text"``.
struct Documentation {
    PyObject* module;
    void operator=(const char* text) const {
        if (PyModule_SetDocString(module, text) != 0) throw error_already_set();
    }
};

class module_ {
public:
    explicit module_(PyObject* module) : module_pointer_(module) {}
    PyObject* ptr() const { return module_pointer_; }

    template <class R, class... A, class... Extra>
    module_& def(const char* name, R (*function)(A...), const Extra&... extra) {
        std::string doc;
        std::vector<arg> arguments;
        int none[] = {0, (take(extra, doc, arguments), 0)...};
        (void)none;
        static constexpr size_t count = sizeof...(A);
        if (arguments.empty())
            for (size_t i = 0; i < count; ++i) arguments.push_back(arg(numbered(i)));
        if (arguments.size() != count) throw c10::Error(std::string(name) + ": as many names as arguments are needed");
        add(new FunctionOf<R, A...>(name, function, std::move(doc), std::move(arguments)));
        return *this;
    }
    template <class Lambda, class... Extra>
    auto def(const char* name, const Lambda& lambda, const Extra&... extra) -> decltype(+lambda, std::declval<module_&>()) {
        return def(name, +lambda, extra...);
    }
    Documentation doc() const { return {module_pointer_}; }

private:
    static void take(const char* text, std::string& doc, std::vector<arg>&) { doc = text; }
    static void take(const arg& one, std::string&, std::vector<arg>& arguments) { arguments.push_back(one); }
    template <class... T>
    static void take(const call_guard<T...>&, std::string&, std::vector<arg>&) {}
    static const char* numbered(size_t i) {
        static const char* const names[] = {"arg0",  "arg1",  "arg2",  "arg3",  "arg4",  "arg5",  "arg6",  "arg7",
                                            "arg8",  "arg9",  "arg10", "arg11", "arg12", "arg13", "arg14", "arg15",
                                            "arg16", "arg17", "arg18", "arg19", "arg20", "arg21", "arg22", "arg23"};
        return i < sizeof names / sizeof *names ? names[i] : "arg";
    }
    /// Functions live as long as the process, as modules do.
    void add(const Function* function) {
        auto* const definition = new PyMethodDef{function->name.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&call_function)),
                                                 METH_VARARGS | METH_KEYWORDS, function->doc.c_str()};
        const object capsule = check(PyCapsule_New(const_cast<Function*>(function), capsule_name, nullptr));
        object made = check(PyCFunction_New(definition, capsule.ptr()));
        if (PyModule_AddObject(module_pointer_, function->name.c_str(), made.ptr()) != 0) throw error_already_set();
        made.release();
    }

    PyObject* module_pointer_;
};
using module = module_;

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
namespace py = pybind11;

#define TKJIT_TORCH_JOIN(a, b) a##b
#define TKJIT_TORCH_INIT(name) TKJIT_TORCH_JOIN(PyInit_, name)
#define TKJIT_TORCH_TEXT_OF(name) #name
#define TKJIT_TORCH_TEXT(name) TKJIT_TORCH_TEXT_OF(name)
#define PYBIND11_MODULE(name, variable)                                                                            \
    static void tkjit_define(pybind11::module_& variable);                                                        \
    PyMODINIT_FUNC TKJIT_TORCH_INIT(name)() {                                                                      \
        static PyModuleDef definition = [] {                                                                       \
            PyModuleDef made{};                                                                                    \
            made.m_base = PyModuleDef_HEAD_INIT;                                                                   \
            made.m_name = TKJIT_TORCH_TEXT(name);                                                                  \
            made.m_size = -1;                                                                                      \
            return made;                                                                                           \
        }();                                                                                                       \
        PyObject* const made = PyModule_Create(&definition);                                                      \
        if (!made) return nullptr;                                                                                \
        try {                                                                                                     \
            pybind11::module_ module(made);                                                                       \
            tkjit_define(module);                                                                                 \
        } catch (...) {                                                                                           \
            pybind11::translate();                                                                                \
            Py_DECREF(made);                                                                                      \
            return nullptr;                                                                                       \
        }                                                                                                         \
        return made;                                                                                              \
    }                                                                                                             \
    static void tkjit_define([[maybe_unused]] pybind11::module_& variable)
