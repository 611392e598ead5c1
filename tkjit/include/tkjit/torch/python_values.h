// Converts Python objects to and from numbers, texts and lists. tensor_values.h adds tensors.
#pragma once

#include "python_objects.h"

#include <array>
#include <complex>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pybind11 {
inline namespace tkjit_stand_in {

/// Returns an attribute of the torch module. The reference lasts until the process ends.
inline PyObject* of_torch(const char* name) {
    const object torch = check(PyImport_ImportModule("torch"));
    return check(PyObject_GetAttrString(torch.ptr(), name)).release();
}
/// Returns a function of torch._C._aoti, whose functions convert tensors to handles and back.
inline PyObject* tensor_function(const char* name) {
    const object module = check(PyImport_ImportModule("torch._C"));
    const object functions = check(PyObject_GetAttrString(module.ptr(), "_aoti"));
    return check(PyObject_GetAttrString(functions.ptr(), name)).release();  // for the life of the process
}
/// A handle that the caller owns, or null for an object that is not a tensor.
inline AtenTensorHandle handle_of(PyObject* given) {
    static PyObject* const function = tensor_function("unsafe_alloc_void_ptr_from_tensor");
    static PyObject* const type = of_torch("Tensor");
    if (!is_instance(given, type)) return nullptr;
    const object capsule = check(PyObject_CallFunctionObjArgs(function, given, nullptr));
    return static_cast<AtenTensorHandle>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
}
/// The tensor of a handle. The caller keeps the handle.
inline object object_of(AtenTensorHandle handle) {
    static PyObject* const function = tensor_function("alloc_tensor_by_stealing_from_void_ptr");
    AtenTensorHandle stolen = nullptr;
    c10::check_call(aoti_torch_new_tensor_handle(handle, &stolen), "new_tensor_handle");
    const object capsule = check(PyCapsule_New(stolen, nullptr, nullptr));
    return check(PyObject_CallFunctionObjArgs(function, capsule.ptr(), nullptr));
}

/// Calls `take` with a tensor of the given dtype, because the C ABI can read a dtype only from a tensor. Returns false
/// if `given` is not a dtype.
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
/// Reads the numbers of a device's type and index; index -1 is the current device. Returns false if `given` is not a
/// device, or if its type is not cpu, cuda or meta.
inline bool read_device(PyObject* given, int& type, int& index) {
    static PyObject* const device = of_torch("device");
    if (!is_instance(given, device) && !PyUnicode_Check(given)) return false;
    const object made = check(PyObject_CallFunctionObjArgs(device, given, nullptr));
    const object kind = check(PyObject_GetAttrString(made.ptr(), "type")), at = check(PyObject_GetAttrString(made.ptr(), "index"));
    const std::string name = pybind11::utf8(kind.ptr());
    type = name == "cpu" ? 0 : name == "cuda" ? 1 : name == "meta" ? 12 : -1;
    index = at.ptr() == Py_None ? -1 : int(PyLong_AsLong(at.ptr()));
    return type >= 0;
}

/// The C++ value that holds an argument while the function runs.
template <class T, class = void>
struct Kept {
    using type = T;
};

template <class T>
struct Itself {
    using type = T;
};

template <class T>
struct Kept<std::optional<T>> {
    using type = std::optional<typename Kept<T>::type>;
};
template <class T>
struct Kept<std::optional<const T>> {
    struct type {
        std::optional<T> read;
        std::optional<const T> given;
        operator std::optional<const T>&() {
            given.reset();
            if (read) given.emplace(*read);
            return given;
        }
    };
};

// ---- arguments -----------------------------------------------------------------------------------------------------

/// Reads an argument. ``name`` is the expected type for messages; ``read`` returns false for other types.
template <class T, class = void>
struct Reader {
    using unknown = void;  // a class that the source binds itself; see python_classes.h
};
template <class T, class = void>
constexpr bool is_bound_type = false;
template <class T>
constexpr bool is_bound_type<T, std::void_t<typename Reader<T>::unknown>> = std::is_class<T>::value;

inline std::unordered_map<std::type_index, PyObject*>& bound_enums() {
    static auto* const all = new std::unordered_map<std::type_index, PyObject*>;
    return *all;
}

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
        const object number(PyNumber_Index(given));
        if (!number.ptr()) {  // a tensor with several elements
            PyErr_Clear();
            return false;
        }
        if (std::is_unsigned<T>::value && sizeof(T) == 8) {
            to = static_cast<T>(PyLong_AsUnsignedLongLong(number.ptr()));
            if (PyErr_Occurred()) throw error_already_set();
            return true;
        }
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
            PyErr_Clear();
            return false;
        }
        to = static_cast<T>(value);
        return true;
    }
};
/// A value of an enumeration, by its number.
template <class T>
struct Reader<T, std::enable_if_t<std::is_enum<T>::value>> {
    static std::string name() { return "int"; }
    static bool read(PyObject* given, T& to) {
        int64_t number = 0;
        if (!Reader<int64_t>::read(given, number)) return false;
        to = T(number);
        return true;
    }
};
template <>
struct Reader<std::string> {
    static std::string name() { return "str"; }
    static bool read(PyObject* given, std::string& to) {
        if (PyBytes_Check(given)) to = reinterpret_borrow<bytes>(given);
        else if (PyUnicode_Check(given)) to = utf8(given);
        else return false;
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
struct Reader<std::optional<const T>> {};
template <class T>
struct KeptOptional {
    using Kept = typename pybind11::Kept<std::optional<const T>>::type;
    static std::string name() { return Reader<std::optional<T>>::name(); }
    static bool read(PyObject* given, Kept& to) { return Reader<std::optional<T>>::read(given, to.read); }
};
template <class T>
struct Reader<std::vector<T>> {
    using Item = std::conditional_t<is_bound_type<T>, Kept<T>, Itself<T>>;
    static std::string name() { return "list[" + Reader<typename Item::type>::name() + "]"; }
    static bool read(PyObject* given, std::vector<T>& to) {
        if (!PyList_Check(given) && !PyTuple_Check(given)) return false;
        const object items = check(PySequence_Tuple(given));
        to.clear();
        for (Py_ssize_t i = 0; i < PyTuple_Size(items.ptr()); ++i) {
            typename Item::type item{};
            if (!Reader<typename Item::type>::read(PyTuple_GetItem(items.ptr(), i), item)) return false;
            if constexpr (is_bound_type<T>) to.push_back(static_cast<const T&>(item));
            else to.push_back(std::move(item));
        }
        return true;
    }
};

template <>
struct Kept<std::string_view> {
    using type = std::string;
};
template <>
struct Reader<std::string_view> {};
template <>
struct Kept<const char*> {
    struct type {
        std::string text;
        operator const char*() const { return text.c_str(); }
    };
};
template <>
struct Reader<Kept<const char*>::type> {
    static std::string name() { return "str"; }
    static bool read(PyObject* given, Kept<const char*>::type& to) { return Reader<std::string>::read(given, to.text); }
};

/// A list of fixed length.
template <class T, size_t N>
struct Reader<std::array<T, N>> {
    static std::string name() { return "list[" + Reader<T>::name() + "] of " + std::to_string(N); }
    static bool read(PyObject* given, std::array<T, N>& to) {
        std::vector<T> items;
        if (!Reader<std::vector<T>>::read(given, items) || items.size() != N) return false;
        std::move(items.begin(), items.end(), to.begin());
        return true;
    }
};
template <class A, class B>
struct Reader<std::pair<A, B>> {
    static std::string name() { return "tuple[" + Reader<A>::name() + ", " + Reader<B>::name() + "]"; }
    static bool read(PyObject* given, std::pair<A, B>& to) {
        std::tuple<A, B> items;
        if (!Reader<std::tuple<A, B>>::read(given, items)) return false;
        to = {std::move(std::get<0>(items)), std::move(std::get<1>(items))};
        return true;
    }
};
template <class... T>
struct Reader<std::tuple<T...>> {
    static std::string name() { return "tuple of " + std::to_string(sizeof...(T)); }
    static bool read(PyObject* given, std::tuple<T...>& to) {
        if (!PyTuple_Check(given) && !PyList_Check(given)) return false;
        return PySequence_Size(given) == Py_ssize_t(sizeof...(T)) && read(given, to, std::index_sequence_for<T...>());
    }

private:
    template <size_t... i>
    static bool read([[maybe_unused]] PyObject* given, std::tuple<T...>& to, std::index_sequence<i...>) {
        return (Reader<T>::read(check(PySequence_GetItem(given, Py_ssize_t(i))).ptr(), std::get<i>(to)) && ...);
    }
};
template <class Map>
struct MapReader {
    using Key = typename Map::key_type;
    using Value = typename Map::mapped_type;
    static std::string name() { return "dict[" + Reader<Key>::name() + ", " + Reader<Value>::name() + "]"; }
    static bool read(PyObject* given, Map& to) {
        if (!PyDict_Check(given)) return false;
        to.clear();
        PyObject *key = nullptr, *value = nullptr;
        for (Py_ssize_t i = 0; PyDict_Next(given, &i, &key, &value);) {
            Key read_key{};
            Value read_value{};
            if (!Reader<Key>::read(key, read_key) || !Reader<Value>::read(value, read_value)) return false;
            to.emplace(std::move(read_key), std::move(read_value));
        }
        return true;
    }
};
template <class K, class V>
struct Reader<std::map<K, V>> : MapReader<std::map<K, V>> {};
template <class K, class V>
struct Reader<std::unordered_map<K, V>> : MapReader<std::unordered_map<K, V>> {};
/// Any object, or an object of one Python type.
template <class T>
struct Reader<T, std::enable_if_t<std::is_base_of<object, T>::value>> {
    static std::string name() { return T::type_name(); }
    static bool read(PyObject* given, T& to) { return T::load(given, to); }
};
template <>
struct Reader<Accessor> {};
template <>
struct Reader<handle> {
    static std::string name() { return "object"; }
    static bool read(PyObject* given, handle& to) {
        to = given;
        return true;
    }
};

// ---- results -------------------------------------------------------------------------------------------------------

/// Converts a result to a Python object.
template <class T, class = void>
struct Writer;
template <class T>
object cast(const T& value) {
    return Writer<T>::write(value);
}
template <class T>
T cast(const handle& from) {
    typename Kept<T>::type found{};
    if (!Reader<typename Kept<T>::type>::read(from.ptr(), found))
        throw cast_error("expected " + Reader<typename Kept<T>::type>::name() + ", got " + type_name(from.ptr()));
    return static_cast<T>(found);
}
/// Whether an object has a type, or can be converted to a C++ type.
template <class T>
bool isinstance(handle given) {
    typename Kept<T>::type found{};
    return Reader<typename Kept<T>::type>::read(given.ptr(), found);
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
template <class T>
struct Writer<T, std::enable_if_t<std::is_enum<T>::value>> {
    static object write(T value) {
        const auto bound = bound_enums().find(typeid(T));
        object number = Writer<int64_t>::write(int64_t(value));
        return bound == bound_enums().end() ? std::move(number) : check(PyObject_CallFunctionObjArgs(bound->second, number.ptr(), nullptr));
    }
};
template <>
struct Writer<std::string> {
    static object write(const std::string& text) {
        return check(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), nullptr));
    }
};
template <>
struct Writer<const char*> {
    static object write(const char* text) { return text ? cast(std::string(text)) : none(); }
};
template <size_t N>
struct Writer<char[N]> : Writer<const char*> {};
template <>
struct Writer<std::string_view> {
    static object write(std::string_view text) { return cast(std::string(text)); }
};
template <class T>
struct Writer<T, std::enable_if_t<std::is_base_of<handle, T>::value || std::is_same<T, Accessor>::value>> {
    static object write(const T& value) { return value.ptr() ? object(pybind11::new_reference(value.ptr())) : none(); }
};
template <class T>
struct Writer<std::complex<T>> {
    static object write(const std::complex<T>& value) { return check(PyComplex_FromDoubles(double(value.real()), double(value.imag()))); }
};
template <class T>
struct Writer<std::optional<T>> {
    static object write(const std::optional<T>& value) { return value ? cast(*value) : none(); }
};
template <class T>
struct Writer<std::vector<T>> {
    static object write(const std::vector<T>& values) {
        object list = check(PyList_New(Py_ssize_t(values.size())));
        for (size_t i = 0; i < values.size(); ++i) PyList_SetItem(list.ptr(), Py_ssize_t(i), cast(T(values[i])).release());
        return list;
    }
};
template <class Map>
struct MapWriter {
    static object write(const Map& values) {
        object made = check(PyDict_New());
        for (const auto& [key, value] : values)
            check_status(PyDict_SetItem(made.ptr(), cast(key).ptr(), cast(value).ptr()));
        return made;
    }
};
template <class K, class V>
struct Writer<std::map<K, V>> : MapWriter<std::map<K, V>> {};
template <class K, class V>
struct Writer<std::unordered_map<K, V>> : MapWriter<std::unordered_map<K, V>> {};
template <class T, size_t N>
struct Writer<std::array<T, N>> {
    static object write(const std::array<T, N>& values) { return cast(std::vector<T>(values.begin(), values.end())); }
};
template <class Tuple, size_t... i>
object cast_tuple(const Tuple& values, std::index_sequence<i...>) {
    object items[] = {Writer<std::decay_t<std::tuple_element_t<i, Tuple>>>::write(std::get<i>(values))..., object()};
    object tuple = check(PyTuple_New(Py_ssize_t(sizeof...(i))));
    for (size_t at = 0; at < sizeof...(i); ++at) PyTuple_SetItem(tuple.ptr(), Py_ssize_t(at), items[at].release());
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

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
