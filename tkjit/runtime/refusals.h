// The errors for rejected calls. Each says what was received, what was expected, and what to do.
#pragma once

#include "dtypes.h"
#include "table.h"
#include "tensor_view.h"

#include <tkjit/call/dtypes.h>
#include <tkjit/call/view.h>

#include <string>

// The reason for this pragma is in runtime.cpp.
#pragma GCC push_options
#pragma GCC optimize("O0")

#include <tkjit/call/texts.h>

namespace tkjit::runtime {

// The exceptions from tkjit/errors.py. They are never released, because no destructor may run without an interpreter.
inline PyObject *argument_error = nullptr, *shape_error = nullptr, *launch_error = nullptr;

// Formats sizes as "(512, 64)". Printing a torch.Size would show its class as well.
inline std::string shape_text(const Owned& shape) {
    const Owned sizes = checked(PySequence_Tuple(shape.get()));
    const Py_ssize_t count = PyTuple_GET_SIZE(sizes.get());
    std::string text = "(";
    for (Py_ssize_t i = 0; i < count; ++i) text += (i ? ", " : "") + text_of(PyTuple_GET_ITEM(sizes.get(), i));
    return text + (count == 1 ? ",)" : ")");
}

inline std::string described(PyObject* object);

// Describes a tensor: "(512, 64) float32 on cuda:0".
inline std::string describe_tensor(PyObject* object) {
    if (!is_tensor(object) && !has(object, "dtype")) return described(object);
    std::string dtype = text_of(attribute(object, "dtype"));
    if (dtype.rfind("torch.", 0) == 0) dtype.erase(0, 6);
    std::string where;
    try {
        if (has(object, "device")) where = " on " + text_of(attribute(object, "device"));
    } catch (const Raised&) {  // from the array's own code; the message does without the device
        if (!PyErr_ExceptionMatches(PyExc_Exception)) throw;
        PyErr_Clear();
    }
    return shape_text(attribute(object, "shape")) + " " + dtype + where;
}

inline bool is_array(PyObject* object) {
    return !PyType_Check(object) && has(object, "__dlpack__") && has(object, "dtype");
}

// Describes a value: "3.0 (float)", or a tensor as above.
inline std::string described(PyObject* object) {
    if (is_tensor(object) || is_array(object)) return describe_tensor(object);
    constexpr Py_ssize_t longest = 60;
    Owned whole = checked(PyObject_Repr(object));
    const bool cut = PyUnicode_GET_LENGTH(whole.get()) > longest;
    if (cut) whole = checked(PyUnicode_Substring(whole.get(), 0, longest));
    std::string text = utf8_of(whole.get());
    for (char& c : text)
        if (c == '\n') c = ' ';
    if (cut) text += "...";
    return text + " (" + Py_TYPE(object)->tp_name + ")";
}

// Returns whether an object is or contains a tensor whose storage was freed. torch crashes when it prints such a
// tensor.
inline bool holds_freed(PyObject* object, int depth = 0) {
    if (is_tensor(object)) {
        const c10::TensorImpl& impl = impl_of(object);
        if (unusual(impl) || impl.numel() == 0) return false;
        return impl.unsafe_storage().nbytes() < (impl.storage_offset() + impl.numel()) * impl.itemsize();
    }
    if (depth > 8) return false;
    if (PyDict_Check(object)) {
        PyObject *key, *value;
        for (Py_ssize_t i = 0; PyDict_Next(object, &i, &key, &value);)
            if (holds_freed(key, depth + 1) || holds_freed(value, depth + 1)) return true;
        return false;
    }
    if (!PyList_Check(object) && !PyTuple_Check(object) && !PyAnySet_Check(object)) return false;
    const Owned items = checked(PySequence_Fast(object, ""));  // turns a set into a list
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
        if (holds_freed(PySequence_Fast_GET_ITEM(items.get(), i), depth + 1)) return true;
    return false;
}

// Describes an object. If its attributes or __repr__ raise an exception, gives only its type.
inline std::string describe(PyObject* object) {
    try {
        if (is_tensor(object) || !holds_freed(object)) return described(object);
        return std::string("an object that cannot be shown (") + Py_TYPE(object)->tp_name + ")";
    } catch (const Raised&) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) throw;
        PyErr_Clear();
        return std::string("an object that cannot be shown (") + Py_TYPE(object)->tp_name + ")";
    }
}

inline void raise(PyObject* kind, const std::string& text) { PyErr_SetString(kind, text.c_str()); }

// On destruction, makes the exception that was set at construction the cause of the one that is set now.
class Cause {
public:
    Cause() {
        if (PyErr_Occurred()) cause_ = Owned(take_exception());
    }
    ~Cause() {
        if (!cause_ || !PyGILState_Check()) return;  // a daemon thread that is being ended has no GIL
        PyObject* const raised = take_exception();
        if (!raised) return;
        PyException_SetCause(raised, cause_.release());
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised)), raised);
        Py_DECREF(raised);
    }
    Cause(const Cause&) = delete;
    Cause& operator=(const Cause&) = delete;

private:
    Owned cause_;
};

// Runs a body that raises an error. The message may need an argument's attributes; if reading them raises an exception,
// the caller gets that exception instead.
template <class Body>
void explain(Body&& body) {
    const Cause cause;
    try {
        body();
    } catch (const Raised&) {
    } catch (const std::exception& error) {
        PyErr_SetString(argument_error, error.what());
    }
}

// Rejects an unknown keyword, and suggests the closest parameter.
inline void refuse_name(const char* kernel, PyObject* name, const char* names) {
    explain([&] {
        const Owned known = call_method(build("s", names), "split", "s", ", ");
        const Owned matches = call_method(import_module("difflib"), "get_close_matches", "OOi", name, known.get(), 1);
        const std::string near = PyList_GET_SIZE(matches.get()) ? text_of(PyList_GET_ITEM(matches.get(), 0)) : "";
        static const char* const of_launches[] = {"grid", "block", "blocks", "threads", "shared_memory", "shared_mem"};
        for (const char* option : of_launches)
            if (near.empty() && text_of(name) == option)
                return raise(argument_error, std::string(kernel) + ": " + option + " is not an argument of a call: the spec sets it");
        const std::string meant = near.empty() ? "" : "did you mean " + near + "? ";
        raise(argument_error, std::string(kernel) + ": unknown argument " + text_of(name) + "; " + meant + "it takes " + names);
    });
}

inline void refuse_object(const char* kernel, const char* name, PyObject* object, const char* expected) {
    explain([&] {
        const bool is_learnt = is_tensor(object) && is_true(attribute(object, "requires_grad"));
        const char* const advice = "; it requires a gradient, and numbers get none: declare a tensor in the spec, or detach it";
        raise(argument_error, texts::wrong(kernel, name, describe(object), expected) + (is_learnt ? advice : ""));
    });
}

// Rejects an array because of its extents, strides or device.
inline void refuse_array(const char* kernel, const char* name, PyObject* object, const TensorView& view) {
    explain([&] {
        bool shape = false;
        const std::string who = std::string(kernel) + ": " + name + " is " + describe_tensor(object);
        const std::string text = texts::of_array(view, who, &shape);
        raise(shape ? shape_error : argument_error, text);
    });
}

// Returns whether torch.tensor accepts an object: a number, or lists of numbers.
inline bool is_number_like(PyObject* object) {
    for (int depth = 0; depth < 8 && (PyList_CheckExact(object) || PyTuple_CheckExact(object)); ++depth) {
        if (PySequence_Fast_GET_SIZE(object) == 0) return true;
        object = PySequence_Fast_GET_ITEM(object, 0);
    }
    return PyFloat_CheckExact(object) || PyLong_CheckExact(object);
}

inline void refuse_tensor(const char* kernel, const char* name, PyObject* object, const TensorView& view) {
    if (view.problems & kNotATensor) {
        const std::string makes_one = std::string("; torch.tensor(") + name + ") makes one";
        return refuse_object(kernel, name, object, ("a torch.Tensor" + (is_number_like(object) ? makes_one : "")).c_str());
    }
    if (!is_tensor(object) && view.problems & kNoStorage) return refuse_object(kernel, name, object, "a torch.Tensor");
    if (!is_tensor(object)) return refuse_array(kernel, name, object, view);
    explain([&] {
        const std::string pass = std::string("; pass ") + name;
        if (is_true(attribute(object, "is_nested")))  // it has no sizes to show
            return raise(argument_error, std::string(kernel) + ": " + name + " is a nested tensor; expected a dense, strided one");
        const std::string who = std::string(kernel) + ": " + name + " is " + describe_tensor(object);
        if (is_true(attribute(object, "is_quantized")))
            return raise(argument_error, who + ", a quantized tensor" + pass + ".dequantize()");
        if (view.problems & kMeta) return raise(argument_error, who + ", which holds no data; expected cpu or cuda");
        if (view.problems & kNotStrided)
            return raise(argument_error, who + " with the layout " + text_of(attribute(object, "layout")) +
                                             "; expected a dense, strided tensor" + pass + ".to_dense()");
        if (view.problems & kNoStorage)
            return raise(argument_error, who + ", a wrapper (" + Py_TYPE(object)->tp_name +
                                             ") without memory of its own; expected a plain tensor");
        if (view.problems & kFreed) return raise(argument_error, who + ", but its storage holds less: it was freed or resized");
        if (view.problems & kConjugate) return raise(argument_error, who + ", a conjugate view" + pass + ".resolve_conj()");
        if (view.problems & kNegative) return raise(argument_error, who + ", a negative view" + pass + ".resolve_neg()");
        if (view.problems & (kOtherDevice | kTooManyDims | kTooLarge | kTooMuch)) return refuse_array(kernel, name, object, view);
        if (view.problems & kNotContiguous)
            return raise(argument_error, texts::not_contiguous(who, name, text_of(call_method(object, "stride"))));
        raise(argument_error, who + " and requires a gradient, which this kernel does not record; call it under "
                                    "torch.no_grad()" + std::string(", or") + pass.substr(1) + ".detach(); backward= in its spec would record it");
    });
}

// Raises an error for a tensor that could be read but does not match what was expected.
inline void refuse_other(PyObject* kind, const char* kernel, const TensorView& view, const std::string& expected) {
    raise(kind, texts::wrong(kernel, view.name, describe_tensor(object_of(view)), expected));
}

// Suggests a conversion, using the API of the array's own framework. The result may be empty.
inline std::string remedy(const TensorView& view, const Expected& expected, bool dtype) {
    if (is_tensor(object_of(view))) return texts::remedy(view, expected, dtype, texts::Framework::torch);
    const bool is_numpys = dtype && has(object_of(view), "astype");
    return texts::remedy(view, expected, dtype, is_numpys ? texts::Framework::numpy : texts::Framework::other);
}

inline void refuse_mismatch(const char* kernel, const TensorView& view, const Expected& expected) {
    explain([&] {
        const bool dtype = texts::is_of_other_dtype(view, expected);
        const std::string why = dtype ? "" : texts::differing_extent(view, expected);
        refuse_other(dtype ? argument_error : shape_error, kernel, view, texts::mismatch(expected) + why + remedy(view, expected, dtype));
    });
}

inline void refuse_device(const char* kernel, const TensorView& view, const TensorView& other) {
    explain([&] {
        const std::string where = texts::place(other.device_type, other.device);
        const std::string moves = is_tensor(object_of(view)) ? texts::moved(view, where) : "";
        refuse_other(argument_error, kernel, view, where + ", where " + other.name + " is" + moves);
    });
}

inline void refuse_place(const char* kernel, const TensorView& view, const TensorView& on) {
    explain([&] { refuse_other(argument_error, kernel, view, texts::place(on.device_type, on.device)); });
}

inline void refuse_constraint(const char* kernel, const char* text, const char* how, const Dim* values, int count) {
    explain([&] { raise(shape_error, texts::constraint(kernel, text, how, values, count)); });
}

}  // namespace tkjit::runtime

#pragma GCC pop_options
