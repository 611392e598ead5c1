// Python objects as C++ values: py::object, py::list, py::dict and so on, and Python exceptions as C++ exceptions.
//
// Uses only CPython's limited API, because some sources define Py_LIMITED_API.
#pragma once

#include "check.h"
#include "shim.h"

#include <Python.h>

#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace pybind11 {
inline namespace tkjit_stand_in {

using ssize_t = Py_ssize_t;
using size_t = std::size_t;

class object;
class Accessor;
class Iterator;
class str;
struct arg;
std::string text_of(PyObject* given);

inline PyObject* new_reference(PyObject* object) {
    Py_XINCREF(object);
    return object;
}

/// Operations on any object. ``Derived`` has ``ptr()``.
template <class Derived>
class ObjectApi {
public:
    Accessor attr(const char* name) const;
    template <class Key>
    Accessor operator[](const Key& key) const;
    /// Calls the object. ``py::arg("name") = value`` is passed by name.
    template <class... A>
    object operator()(const A&... arguments) const;
    template <class Item>
    bool contains(const Item& item) const;
    Iterator begin() const;
    Iterator end() const;
    template <class T>
    T cast() const;
    bool is_none() const { return own() == Py_None; }
    template <class Other>
    bool is(const Other& other) const {
        return own() == other.ptr();
    }
    template <class Other>
    bool equal(const Other& other) const;
    str get_type_name() const;

private:
    PyObject* own() const { return static_cast<const Derived&>(*this).ptr(); }
};

/// A borrowed reference.
class handle : public ObjectApi<handle> {
public:
    handle() = default;
    handle(PyObject* object) : object_(object) {}
    PyObject* ptr() const { return object_; }
    const handle& inc_ref() const {
        Py_XINCREF(object_);
        return *this;
    }
    const handle& dec_ref() const {
        Py_XDECREF(object_);
        return *this;
    }
    explicit operator bool() const { return object_ != nullptr; }

protected:
    PyObject* object_ = nullptr;
};

/// An owned reference, released at the end of its scope.
class object : public handle {
public:
    object() = default;
    explicit object(PyObject* owned) : handle(owned) {}
    object(object&& other) noexcept : handle(std::exchange(other.object_, nullptr)) {}
    object(const object& other) : handle(other) { Py_XINCREF(object_); }
    object& operator=(object other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~object() { Py_XDECREF(object_); }
    PyObject* release() { return std::exchange(object_, nullptr); }
    static bool is_type_of(PyObject*) { return true; }
    static const char* type_name() { return "object"; }
    /// Accepts an argument if it has the type ``T``.
    template <class T>
    static bool load(PyObject* given, T& to);
};

/// A Python exception, moved out of the interpreter's error indicator.
class error_already_set : public std::exception {
public:
    error_already_set() : fetched_(std::make_shared<Fetched>()) {}
    const char* what() const noexcept override { return fetched_->text.c_str(); }
    /// Sets the error indicator again.
    void restore() const {
        Fetched& kept = *fetched_;
        PyErr_Restore(pybind11::new_reference(kept.type.ptr()), pybind11::new_reference(kept.value.ptr()), pybind11::new_reference(kept.trace.ptr()));
    }
    bool matches(handle type) const { return PyErr_GivenExceptionMatches(fetched_->type.ptr(), type.ptr()); }
    const object& type() const { return fetched_->type; }
    const object& value() const { return fetched_->value; }
    const object& trace() const { return fetched_->trace; }

private:
    struct Fetched {
        Fetched() {
            PyObject *found_type = nullptr, *found_value = nullptr, *found_trace = nullptr;
            PyErr_Fetch(&found_type, &found_value, &found_trace);
            PyErr_NormalizeException(&found_type, &found_value, &found_trace);
            type = object(found_type), value = object(found_value), trace = object(found_trace);
            if (const object name(type.ptr() ? PyObject_GetAttrString(type.ptr(), "__name__") : nullptr); name.ptr())
                text = text_of(name.ptr()) + ": " + text_of(value.ptr());
            PyErr_Clear();
        }
        ~Fetched() {
            const PyGILState_STATE state = PyGILState_Ensure();
            type = object(), value = object(), trace = object();
            PyGILState_Release(state);
        }
        object type, value, trace;
        std::string text = "a Python exception";
    };
    std::shared_ptr<Fetched> fetched_;
};

inline object check(PyObject* owned) {
    if (!owned) throw error_already_set();
    return object(owned);
}
inline void check_status(int status) {
    if (status < 0) throw error_already_set();
}
inline bool check_truth(int is) {
    check_status(is);
    return is;
}
template <class T>
T reinterpret_borrow(handle given) {
    T made{};
    static_cast<object&>(made) = object(pybind11::new_reference(given.ptr()));
    return made;
}
template <class T>
T reinterpret_steal(handle given) {
    T made{};
    static_cast<object&>(made) = object(given.ptr());
    return made;
}

template <class T>
bool object::load(PyObject* given, T& to) {
    if (!T::is_type_of(given)) return false;
    to = reinterpret_borrow<T>(given);
    return true;
}

/// The text of a str.
inline std::string utf8(PyObject* text) {
    const object bytes = check(PyUnicode_AsUTF8String(text));
    char* found = nullptr;
    Py_ssize_t size = 0;
    check_status(PyBytes_AsStringAndSize(bytes.ptr(), &found, &size));
    return {found, size_t(size)};
}
/// ``str(given)``, or an empty text if that fails.
inline std::string text_of(PyObject* given) {
    const object shown(given ? PyObject_Str(given) : nullptr);
    if (!shown.ptr()) return PyErr_Clear(), "";
    return utf8(shown.ptr());
}
/// ``type(given).__name__``
inline std::string type_name(PyObject* given) {
    return utf8(check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(given)), "__name__")).ptr());
}
inline bool is_instance(PyObject* given, PyObject* type) { return check_truth(PyObject_IsInstance(given, type)); }

/// Converts a value to an object, and back. Defined in python_values.h.
template <class T>
object cast(const T& value);
template <class T>
T cast(const handle& from);

/// ``owner.name`` or ``owner[key]``, which can be read and assigned.
class Accessor : public ObjectApi<Accessor> {
public:
    Accessor(object owner, object key, bool is_item) : owner_(std::move(owner)), key_(std::move(key)), is_item_(is_item) {}
    Accessor(const Accessor&) = default;
    template <class T>
    void operator=(const T& value) const {
        const object made = pybind11::cast(value);
        check_status(is_item_ ? PyObject_SetItem(owner_.ptr(), key_.ptr(), made.ptr()) : PyObject_SetAttr(owner_.ptr(), key_.ptr(), made.ptr()));
        found_ = object();
    }
    void operator=(const Accessor& other) const { *this = other.get(); }
    const object& get() const {
        if (!found_.ptr()) found_ = check(is_item_ ? PyObject_GetItem(owner_.ptr(), key_.ptr()) : PyObject_GetAttr(owner_.ptr(), key_.ptr()));
        return found_;
    }
    PyObject* ptr() const { return get().ptr(); }
    operator object() const { return get(); }

private:
    object owner_, key_;
    bool is_item_;
    mutable object found_;
};

/// The position in a loop over a Python object.
class Iterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = handle;
    using difference_type = Py_ssize_t;
    using pointer = const handle*;
    using reference = const handle&;

    Iterator() = default;
    explicit Iterator(object iterator) : iterator_(std::move(iterator)) { ++*this; }
    Iterator& operator++() {
        item_ = object(PyIter_Next(iterator_.ptr()));
        if (!item_.ptr() && PyErr_Occurred()) throw error_already_set();
        return *this;
    }
    const handle& operator*() const { return item_; }
    const handle* operator->() const { return &item_; }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.item_.ptr() == b.item_.ptr(); }
    friend bool operator!=(const Iterator& a, const Iterator& b) { return !(a == b); }

private:
    object iterator_, item_;
};

template <class Derived>
Accessor ObjectApi<Derived>::attr(const char* name) const {
    return {object(pybind11::new_reference(own())), check(PyUnicode_FromString(name)), false};
}
template <class Derived>
template <class Key>
Accessor ObjectApi<Derived>::operator[](const Key& key) const {
    return {object(pybind11::new_reference(own())), pybind11::cast(key), true};
}
template <class Derived>
template <class... A>
object ObjectApi<Derived>::operator()(const A&... arguments) const {
    const object named = check(PyDict_New()), listed = check(PyList_New(0));
    const auto take = [&](const auto& one) {
        if constexpr (std::is_same<std::decay_t<decltype(one)>, arg>::value) check_status(PyDict_SetItemString(named.ptr(), one.name.c_str(), one.value.ptr()));
        else check_status(PyList_Append(listed.ptr(), pybind11::cast(one).ptr()));
    };
    (take(arguments), ...);
    return check(PyObject_Call(own(), check(PyList_AsTuple(listed.ptr())).ptr(), named.ptr()));
}
template <class Derived>
template <class Item>
bool ObjectApi<Derived>::contains(const Item& item) const {
    return check_truth(PySequence_Contains(own(), pybind11::cast(item).ptr()));
}
template <class Derived>
template <class Other>
bool ObjectApi<Derived>::equal(const Other& other) const {
    return check_truth(PyObject_RichCompareBool(own(), other.ptr(), Py_EQ));
}
template <class Derived>
Iterator ObjectApi<Derived>::begin() const {
    return Iterator(check(PyObject_GetIter(own())));
}
template <class Derived>
Iterator ObjectApi<Derived>::end() const {
    return {};
}
template <class Derived>
template <class T>
T ObjectApi<Derived>::cast() const {
    return pybind11::cast<T>(handle(own()));
}

// ---- the types of Python ------------------------------------------------------------------------------------------

/// A Python type. Other objects are converted as in Python: ``list(other)``.
#define TKJIT_PYTHON_TYPE(Name, python_name, is, convert)                                \
    Name(const object& from) : object(from.ptr() && !is_type_of(from.ptr()) ? convert(from.ptr()) : pybind11::new_reference(from.ptr())) { \
        if (from.ptr() && !ptr()) throw error_already_set();                             \
    }                                                                                    \
    Name(handle from) : Name(object(pybind11::new_reference(from.ptr()))) {}             \
    Name(const Accessor& from) : Name(from.get()) {}                                     \
    static bool is_type_of(PyObject* given) { return is(given); }                        \
    static const char* type_name() { return python_name; }

struct none : object {
    none() : object(pybind11::new_reference(Py_None)) {}
    static bool is_type_of(PyObject* given) { return given == Py_None; }
    static const char* type_name() { return "None"; }
};
class bytes : public object {
public:
    TKJIT_PYTHON_TYPE(bytes, "bytes", PyBytes_Check, PyBytes_FromObject)
    bytes(const char* data, size_t size) : object(check(PyBytes_FromStringAndSize(data, Py_ssize_t(size)))) {}
    bytes(const std::string& data = "") : bytes(data.data(), data.size()) {}
    operator std::string() const {
        char* found = nullptr;
        Py_ssize_t size = 0;
        check_status(PyBytes_AsStringAndSize(ptr(), &found, &size));
        return {found, size_t(size)};
    }
};
class str : public object {
public:
    TKJIT_PYTHON_TYPE(str, "str", PyUnicode_Check, PyObject_Str)
    str(const std::string& text = "") : object(check(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), nullptr))) {}
    str(const char* text) : str(std::string(text)) {}
    operator std::string() const { return utf8(ptr()); }
    template <class... A>
    str format(const A&... arguments) const {
        return attr("format")(arguments...);
    }
};
class bool_ : public object {
    static PyObject* truth(PyObject* of) {
        const int is = PyObject_IsTrue(of);
        return is < 0 ? nullptr : PyBool_FromLong(is);
    }

public:
    TKJIT_PYTHON_TYPE(bool_, "bool", PyBool_Check, truth)
    bool_(bool value = false) : object(PyBool_FromLong(value)) {}
    operator bool() const { return ptr() == Py_True; }
};
class int_ : public object {
public:
    TKJIT_PYTHON_TYPE(int_, "int", PyLong_Check, PyNumber_Long)
    template <class T = int, class = std::enable_if_t<std::is_integral<T>::value>>
    int_(T value = 0) : object(pybind11::cast(value)) {}
    template <class T, class = std::enable_if_t<std::is_integral<T>::value>>
    operator T() const {
        return cast<T>();
    }
};
class float_ : public object {
public:
    TKJIT_PYTHON_TYPE(float_, "float", PyFloat_Check, PyNumber_Float)
    float_(double value = 0) : object(check(PyFloat_FromDouble(value))) {}
    operator double() const { return PyFloat_AsDouble(ptr()); }
    operator float() const { return float(PyFloat_AsDouble(ptr())); }
};
class tuple : public object {
public:
    TKJIT_PYTHON_TYPE(tuple, "tuple", PyTuple_Check, PySequence_Tuple)
    explicit tuple(size_t size = 0) : object(check(PyTuple_New(Py_ssize_t(size)))) {}
    size_t size() const { return size_t(PyTuple_Size(ptr())); }
    bool empty() const { return size() == 0; }
};
class list : public object {
public:
    TKJIT_PYTHON_TYPE(list, "list", PyList_Check, PySequence_List)
    explicit list(size_t size = 0) : object(check(PyList_New(Py_ssize_t(size)))) {
        for (size_t i = 0; i < size; ++i) PyList_SetItem(ptr(), Py_ssize_t(i), pybind11::new_reference(Py_None));
    }
    size_t size() const { return size_t(PyList_Size(ptr())); }
    bool empty() const { return size() == 0; }
    template <class T>
    void append(const T& value) const {
        check_status(PyList_Append(ptr(), pybind11::cast(value).ptr()));
    }
    template <class T>
    void insert(size_t at, const T& value) const {
        check_status(PyList_Insert(ptr(), Py_ssize_t(at), pybind11::cast(value).ptr()));
    }
};
class dict : public object {
    static PyObject* made_of(PyObject* from) { return PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyDict_Type), from, nullptr); }

public:
    TKJIT_PYTHON_TYPE(dict, "dict", PyDict_Check, made_of)
    dict() : object(check(PyDict_New())) {}
    template <class... A, class = std::enable_if_t<sizeof...(A) != 0 && (std::is_same<A, arg>::value && ...)>>
    explicit dict(const A&... items) : dict() {
        (check_status(PyDict_SetItemString(ptr(), items.name.c_str(), items.value.ptr())), ...);
    }
    size_t size() const { return size_t(PyDict_Size(ptr())); }
    bool empty() const { return size() == 0; }
    void clear() const { PyDict_Clear(ptr()); }

    /// Pairs of key and value. The dictionary must not change its size during the loop.
    class Items {
    public:
        Items() = default;
        explicit Items(PyObject* of) : of_(of) { ++*this; }
        Items& operator++() {
            PyObject *key = nullptr, *value = nullptr;
            if (!PyDict_Next(of_, &at_, &key, &value)) of_ = nullptr;
            item_ = {key, value};
            return *this;
        }
        const std::pair<handle, handle>& operator*() const { return item_; }
        const std::pair<handle, handle>* operator->() const { return &item_; }
        friend bool operator!=(const Items& a, const Items& b) { return a.of_ != b.of_; }

    private:
        PyObject* of_ = nullptr;
        Py_ssize_t at_ = 0;
        std::pair<handle, handle> item_;
    };
    Items begin() const { return Items(ptr()); }
    Items end() const { return {}; }
};
class set : public object {
public:
    TKJIT_PYTHON_TYPE(set, "set", PySet_Check, PySet_New)
    set() : object(check(PySet_New(nullptr))) {}
    size_t size() const { return size_t(PySet_Size(ptr())); }
    template <class T>
    bool add(const T& value) const {
        check_status(PySet_Add(ptr(), pybind11::cast(value).ptr()));
        return true;
    }
};
class sequence : public object {
public:
    TKJIT_PYTHON_TYPE(sequence, "sequence", PySequence_Check, PySequence_List)
    sequence() = default;
    size_t size() const { return size_t(PySequence_Size(ptr())); }
    bool empty() const { return size() == 0; }
};
class iterable : public object {
    static bool has_iterator(PyObject* given) {
        const object iterator(PyObject_GetIter(given));
        if (!iterator.ptr()) PyErr_Clear();
        return iterator.ptr() != nullptr;
    }

public:
    TKJIT_PYTHON_TYPE(iterable, "iterable", has_iterator, PySequence_List)
    iterable() = default;
};
class function : public object {
public:
    TKJIT_PYTHON_TYPE(function, "callable", PyCallable_Check, pybind11::new_reference)
    function() = default;
};
class slice : public object {
public:
    TKJIT_PYTHON_TYPE(slice, "slice", PySlice_Check, pybind11::new_reference)
    slice() = default;
    slice(const object& start, const object& stop, const object& step) : object(check(PySlice_New(start.ptr(), stop.ptr(), step.ptr()))) {}
    slice(Py_ssize_t start, Py_ssize_t stop, Py_ssize_t step) : slice(pybind11::cast(start), pybind11::cast(stop), pybind11::cast(step)) {}
    /// The bounds for a sequence of ``length`` elements, and the number of elements that the slice takes.
    template <class Integer>
    bool compute(Integer length, Integer* start, Integer* stop, Integer* step, Integer* count) const {
        Py_ssize_t first = 0, last = 0, by = 0;
        check_status(PySlice_Unpack(ptr(), &first, &last, &by));
        const Py_ssize_t taken = PySlice_AdjustIndices(Py_ssize_t(length), &first, &last, by);
        *start = Integer(first), *stop = Integer(last), *step = Integer(by), *count = Integer(taken);
        return true;
    }
};
/// The positional arguments of a function that takes any number (``*args``).
class args : public tuple {
public:
    using tuple::tuple;
};
/// The keyword arguments of a function that takes any (``**kwargs``).
class kwargs : public dict {
public:
    using dict::dict;
};
/// A pointer as a Python object.
class capsule : public object {
    static void destroy(PyObject* of) {
        const auto destructor = reinterpret_cast<void (*)(void*)>(PyCapsule_GetContext(of));
        if (destructor) destructor(PyCapsule_GetPointer(of, PyCapsule_GetName(of)));
    }

public:
    TKJIT_PYTHON_TYPE(capsule, "capsule", PyCapsule_CheckExact, pybind11::new_reference)
    capsule() = default;
    explicit capsule(const void* pointer, const char* name = nullptr) : object(check(PyCapsule_New(const_cast<void*>(pointer), name, nullptr))) {}
    capsule(const void* pointer, void (*destructor)(void*)) : object(check(PyCapsule_New(const_cast<void*>(pointer), nullptr, &destroy))) {
        check_status(PyCapsule_SetContext(ptr(), reinterpret_cast<void*>(destructor)));
    }
    template <class T = void>
    T* get_pointer() const {
        void* const found = PyCapsule_GetPointer(ptr(), PyCapsule_GetName(ptr()));
        if (!found) throw error_already_set();
        return static_cast<T*>(found);
    }
    template <class T>
    operator T*() const {
        return get_pointer<T>();
    }
};
#undef TKJIT_PYTHON_TYPE

inline size_t len(handle of) {
    const Py_ssize_t size = PyObject_Size(of.ptr());
    if (size < 0) throw error_already_set();
    return size_t(size);
}
inline bool hasattr(handle of, const char* name) {
    const object found(PyObject_GetAttrString(of.ptr(), name));
    if (!found.ptr()) PyErr_Clear();
    return found.ptr() != nullptr;
}
inline object getattr(handle of, const char* name) { return check(PyObject_GetAttrString(of.ptr(), name)); }
template <class Default>
object getattr(handle of, const char* name, const Default& otherwise) {
    return hasattr(of, name) ? getattr(of, name) : pybind11::cast(otherwise);
}
template <class T>
void setattr(handle of, const char* name, const T& value) {
    check_status(PyObject_SetAttrString(of.ptr(), name, pybind11::cast(value).ptr()));
}
inline void delattr(handle of, const char* name) { check_status(PyObject_SetAttrString(of.ptr(), name, nullptr)); }
inline str repr(handle of) { return check(PyObject_Repr(of.ptr())); }
inline bool isinstance(handle given, handle type) { return is_instance(given.ptr(), type.ptr()); }
template <class... A>
void print(const A&... arguments) {
    getattr(check(PyImport_ImportModule("builtins")), "print")(arguments...);
}
template <class... A>
tuple make_tuple(const A&... items) {
    tuple made(sizeof...(A));
    Py_ssize_t i = 0;
    (PyTuple_SetItem(made.ptr(), i++, pybind11::cast(items).release()), ...);
    return made;
}

// ---- exceptions of Python that a source throws ---------------------------------------------------------------------

/// An exception that becomes a built-in Python exception.
class builtin_exception : public std::runtime_error {
public:
    builtin_exception(PyObject* type, const std::string& text) : std::runtime_error(text), type_(type) {}
    void set_error() const { PyErr_SetString(type_, what()); }

private:
    PyObject* type_;
};
#define TKJIT_PYTHON_EXCEPTION(Name, Type)                                               \
    struct Name : builtin_exception {                                                    \
        explicit Name(const std::string& text = "") : builtin_exception(Type, text) {}   \
    };
TKJIT_PYTHON_EXCEPTION(stop_iteration, PyExc_StopIteration)
TKJIT_PYTHON_EXCEPTION(index_error, PyExc_IndexError)
TKJIT_PYTHON_EXCEPTION(key_error, PyExc_KeyError)
TKJIT_PYTHON_EXCEPTION(value_error, PyExc_ValueError)
TKJIT_PYTHON_EXCEPTION(type_error, PyExc_TypeError)
TKJIT_PYTHON_EXCEPTION(attribute_error, PyExc_AttributeError)
TKJIT_PYTHON_EXCEPTION(import_error, PyExc_ImportError)
TKJIT_PYTHON_EXCEPTION(buffer_error, PyExc_BufferError)
TKJIT_PYTHON_EXCEPTION(cast_error, PyExc_RuntimeError)
TKJIT_PYTHON_EXCEPTION(reference_cast_error, PyExc_RuntimeError)
#undef TKJIT_PYTHON_EXCEPTION
[[noreturn]] inline void pybind11_fail(const std::string& reason) { throw std::runtime_error(reason); }

struct gil_scoped_acquire {
    gil_scoped_acquire() : state_(PyGILState_Ensure()) {}
    gil_scoped_acquire(const gil_scoped_acquire&) = delete;
    ~gil_scoped_acquire() { PyGILState_Release(state_); }

private:
    PyGILState_STATE state_;
};
struct gil_scoped_release {
    gil_scoped_release() : state_(PyEval_SaveThread()) {}
    gil_scoped_release(const gil_scoped_release&) = delete;
    ~gil_scoped_release() { PyEval_RestoreThread(state_); }

private:
    PyThreadState* state_;
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
