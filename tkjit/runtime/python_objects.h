// Python objects in C++: owned references, and exceptions that are being passed to the interpreter.
//
// pybind11 has all of this, but takes longer to compile than the rest of the runtime does.
#pragma once

#include <Python.h>

#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <utility>

namespace tkjit {

// ---- references ----------------------------------------------------------------------------------------------------

// An owned reference, or empty.
class Owned {
public:
    Owned() = default;
    explicit Owned(PyObject* object) : object_(object) {}
    Owned(Owned&& other) noexcept : object_(other.release()) {}
    Owned& operator=(Owned&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Owned() {
        // Python ends a thread that asks for the GIL during shutdown; the thread then runs this without the GIL
        if (object_ && PyGILState_Check()) Py_DECREF(object_);
    }
    PyObject* get() const { return object_; }
    PyObject* release() { return std::exchange(object_, nullptr); }
    explicit operator bool() const { return object_ != nullptr; }

private:
    PyObject* object_ = nullptr;
};

inline Owned borrowed(PyObject* object) { return Owned(Py_XNewRef(object)); }

// ---- exceptions ----------------------------------------------------------------------------------------------------

// Thrown while a Python exception is set. Whoever catches it must return to the interpreter or clear the exception.
struct Raised {};

// Owns a new reference. Throws Raised if it is null.
inline Owned checked(PyObject* object) {
    if (!object) throw Raised{};
    return Owned(object);
}

[[noreturn]] inline void raise_type_error(const char* text) {
    PyErr_SetString(PyExc_TypeError, text);
    throw Raised{};
}

// Runs the body of a function that the interpreter calls. If the body throws, sets a Python exception and returns null.
template <class Body>
PyObject* answer(Body&& body) {
    try {
        return body();
    } catch (const Raised&) {
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

// Clears the current exception and returns it with its traceback, as a new reference. Returns null if none is set.
inline PyObject* take_exception() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

// ---- operations on objects -----------------------------------------------------------------------------------------

inline Owned import_module(const char* module) { return checked(PyImport_ImportModule(module)); }

inline Owned attribute(PyObject* object, const char* name) { return checked(PyObject_GetAttrString(object, name)); }
inline Owned attribute(const Owned& object, const char* name) { return attribute(object.get(), name); }

// Takes a format for Py_BuildValue. "(O)" passes a tuple as one argument.
template <class... Args>
Owned call(PyObject* function, const char* format = nullptr, Args... args) {
    return checked(PyObject_CallFunction(function, format, args...));
}
template <class... Args>
Owned call_method(PyObject* object, const char* name, const char* format = nullptr, Args... args) {
    return checked(PyObject_CallMethod(object, name, format, args...));
}
template <class... Args>
Owned call_method(const Owned& object, const char* name, const char* format = nullptr, Args... args) {
    return call_method(object.get(), name, format, args...);
}
inline Owned call_with_keywords(const Owned& function, const Owned& args, const Owned& keywords) {
    return checked(PyObject_Call(function.get(), args.get(), keywords.get()));
}
template <class... Args>
Owned build(const char* format, Args... args) {
    return checked(Py_BuildValue(format, args...));
}

// Like hasattr. PyObject_HasAttrString would swallow Ctrl-C.
inline bool has(PyObject* object, const char* name) {
    const Owned found(PyObject_GetAttrString(object, name));
    if (found) return true;
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw Raised{};
    PyErr_Clear();
    return false;
}

inline bool is_instance(PyObject* object, PyObject* type) {
    const int found = PyObject_IsInstance(object, type);
    if (found < 0) throw Raised{};
    return found;
}

inline bool is_true(PyObject* object) {
    const int found = PyObject_IsTrue(object);
    if (found < 0) throw Raised{};
    return found;
}
inline bool is_true(const Owned& object) { return is_true(object.get()); }

inline int64_t integer_of(PyObject* object) {
    const int64_t number = PyLong_AsLongLong(object);
    if (number == -1 && PyErr_Occurred()) throw Raised{};
    return number;
}
inline int64_t integer_of(const Owned& object) { return integer_of(object.get()); }

// For addresses and other unsigned numbers.
inline uint64_t unsigned_of(PyObject* object) {
    const uint64_t number = PyLong_AsUnsignedLongLong(checked(PyNumber_Index(object)).get());
    if (number == uint64_t(-1) && PyErr_Occurred()) throw Raised{};
    return number;
}
inline uint64_t unsigned_of(const Owned& object) { return unsigned_of(object.get()); }

// Escapes characters that UTF-8 cannot encode, such as half of a surrogate pair, because a message must be valid UTF-8.
inline std::string utf8_of(PyObject* text) {
    const Owned bytes = checked(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"));
    return {PyBytes_AS_STRING(bytes.get()), size_t(PyBytes_GET_SIZE(bytes.get()))};
}

// Like str().
inline std::string text_of(PyObject* object) { return utf8_of(checked(PyObject_Str(object)).get()); }
inline std::string text_of(const Owned& object) { return text_of(object.get()); }

// ---- objects that hold a C++ value ---------------------------------------------------------------------------------

template <class T>
struct Holder {
    PyObject_HEAD
    T value;
};

template <class T>
T& value_of(PyObject* holder) {
    return reinterpret_cast<Holder<T>*>(holder)->value;
}

template <class T, class... Args>
PyObject* make_holder(PyTypeObject* type, Args&&... args) {
    PyObject* const made = checked(type->tp_alloc(type, 0)).release();
    try {
        new (&value_of<T>(made)) T{std::forward<Args>(args)...};
    } catch (...) {
        type->tp_free(made);
        Py_DECREF(type);
        throw;
    }
    return made;
}

template <class T>
void free_holder(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    value_of<T>(self).~T();
    type->tp_free(self);
    Py_DECREF(type);
}

// Casts a C function for use in a type's slot.
template <class Function>
void* slot(Function* function) {
    return reinterpret_cast<void*>(function);
}

}  // namespace tkjit
