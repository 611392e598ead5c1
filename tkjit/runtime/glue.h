// The vocabulary of rendered glue: bind the arguments of a call, read them, check them, allocate, launch.
//
// Nothing here allocates on the path of a call that succeeds, and no function is called twice for one argument. While
// overloads are tried in turn a call is `quiet`: a refusal costs no message until it is known that none of them fits.
#pragma once

#include "table.h"

#include <tkjit/expr.h>

#include <cstring>
#include <initializer_list>

namespace tkjit::glue {

struct Parameter {
    const char* name;
    bool required;
    bool nullable;   // None means: not given
    PyObject* interned = nullptr;
};

struct Signature {
    const char* kernel;
    Parameter* parameters;
    int count;
    int positional;  // the others are keyword-only
};

constexpr int kMaxOutputs = 32;  // tkjit/spec/model.py refuses more

struct Call {
    Dispatcher* self;
    const Table& table;
    const char* kernel;
    PyObject* const* args;
    Py_ssize_t nargs;
    PyObject* kwnames;
    bool quiet = false;    // refuse without a message
    bool decided = false;  // this overload takes the call: whatever fails now is an error, not a refusal
};

// ---- parameters ----------------------------------------------------------------------------------------------------

inline bool intern_names(const Signature& signature) {
    for (int i = 0; i < signature.count; ++i) {
        Parameter& parameter = signature.parameters[i];
        if (!(parameter.interned = PyUnicode_InternFromString(parameter.name))) return false;
    }
    return true;
}

inline int position_of(const Signature& signature, PyObject* name) {
    for (int i = 0; i < signature.count; ++i)
        if (signature.parameters[i].interned == name) return i;
    for (int i = 0; i < signature.count; ++i)  // a keyword from a dict need not be interned
        if (PyUnicode_Compare(signature.parameters[i].interned, name) == 0) return i;
    return -1;
}

// Puts each argument at its parameter's position, null where none was given. The references are borrowed.
inline bool bind(const Call& call, const Signature& signature, PyObject** given) {
    PyObject* const error = call.table.argument_error;
    if (call.nargs > signature.positional) {
        if (!call.quiet)
            PyErr_Format(error, "%s: takes at most %d positional arguments, got %zd", call.kernel, signature.positional,
                         call.nargs);
        return false;
    }
    for (int i = 0; i < signature.count; ++i) given[i] = i < call.nargs ? call.args[i] : nullptr;
    const Py_ssize_t keywords = call.kwnames ? PyTuple_GET_SIZE(call.kwnames) : 0;
    for (Py_ssize_t i = 0; i < keywords; ++i) {
        PyObject* const name = PyTuple_GET_ITEM(call.kwnames, i);
        const int position = position_of(signature, name);
        if (position < 0 || given[position]) {
            if (!call.quiet)
                PyErr_Format(error, position < 0 ? "%s: unknown argument %U" : "%s: the argument %U is given twice",
                             call.kernel, name);
            return false;
        }
        given[position] = call.args[call.nargs + i];
    }
    for (int i = 0; i < signature.count; ++i) {
        const Parameter& parameter = signature.parameters[i];
        if (given[i] || !parameter.required) {
            if (given[i] == Py_None && parameter.nullable) given[i] = nullptr;
            continue;
        }
        if (!call.quiet) PyErr_Format(error, "%s: the argument %s is missing", call.kernel, parameter.name);
        return false;
    }
    return true;
}

// Gives what came as `out=` to the output parameters: a tensor to the only one, a tuple to several.
inline bool spread_out(const Call& call, const Signature& signature, PyObject** given, PyObject* out,
                       std::initializer_list<int> outputs) {
    if (!out) return true;
    const auto refuse = [&](const char* format, auto value) {
        if (!call.quiet) PyErr_Format(call.table.argument_error, format, call.kernel, value);
        return false;
    };
    const bool several = outputs.size() > 1;
    if (several && (!PyTuple_Check(out) || PyTuple_GET_SIZE(out) != Py_ssize_t(outputs.size())))
        return refuse("%s: out= must be a tuple of %d tensors, one for each output", int(outputs.size()));
    Py_ssize_t i = 0;
    for (const int position : outputs) {
        if (given[position]) return refuse("%s: %s is given both by name and in out=", signature.parameters[position].name);
        given[position] = several ? PyTuple_GET_ITEM(out, i++) : out;
        if (given[position] == Py_None) given[position] = nullptr;
    }
    return true;
}

// ---- scalars -------------------------------------------------------------------------------------------------------

inline bool refuse_object(const Call& call, const char* name, PyObject* object, const char* expected) {
    PyErr_Clear();  // what a conversion raised says less than this
    if (!call.quiet) call.table.refuse_object(call.kernel, name, object, expected);
    return false;
}

inline bool read(const Call& call, const char* name, PyObject* object, double& value) {
    if (PyFloat_CheckExact(object)) {
        value = PyFloat_AS_DOUBLE(object);
        return true;
    }
    if (PyUnicode_Check(object) || PyComplex_Check(object)) return refuse_object(call, name, object, "a float");
    value = PyFloat_AsDouble(object);
    return value != -1.0 || !PyErr_Occurred() || refuse_object(call, name, object, "a float");
}

inline bool read(const Call& call, const char* name, PyObject* object, int64_t& value, int64_t low, int64_t high) {
    if (PyBool_Check(object) || !PyIndex_Check(object)) return refuse_object(call, name, object, "an int");
    value = PyNumber_AsSsize_t(object, PyExc_OverflowError);
    if ((value == -1 && PyErr_Occurred()) || value < low || value > high) {
        char expected[96];
        PyOS_snprintf(expected, sizeof expected, "an int from %lld to %lld", static_cast<long long>(low),
                      static_cast<long long>(high));
        return refuse_object(call, name, object, expected);
    }
    return true;
}

inline bool read(const Call& call, const char* name, PyObject* object, bool& value) {
    if (!PyBool_Check(object)) return refuse_object(call, name, object, "a bool");
    value = object == Py_True;
    return true;
}

// ---- tensors -------------------------------------------------------------------------------------------------------

inline bool read(const Call& call, const char* name, PyObject* object, TensorView& view) {
    if (!call.table.view(object, &view)) view.problems = kNotATensor;
    if (!view.problems) return true;
    if (!call.quiet) call.table.refuse_tensor(call.kernel, name, object, view);
    return false;
}

// The dims, and the dtypes that are allowed.
inline bool mismatch(const Call& call, const char* name, PyObject* object, const TensorView& view,
                     std::initializer_list<Dim> dims, bool leading, const char* dtypes) {
    const Expected expected{dims.begin(), int(dims.size()), leading, dtypes, nullptr, -1};
    if (!call.quiet) call.table.refuse_mismatch(call.kernel, name, object, view, expected);
    return false;
}

// The dims, and the argument whose dtype it must share.
inline bool mismatch(const Call& call, const char* name, PyObject* object, const TensorView& view,
                     std::initializer_list<Dim> dims, bool leading, const char* like, const TensorView& other) {
    const Expected expected{dims.begin(), int(dims.size()), leading, nullptr, like, other.dtype};
    if (!call.quiet) call.table.refuse_mismatch(call.kernel, name, object, view, expected);
    return false;
}

inline bool same_device(const Call& call, const char* name, PyObject* object, const TensorView& view, const char* other,
                        PyObject* other_object, const TensorView& other_view) {
    if (view.device_type == other_view.device_type && view.device == other_view.device) return true;
    if (!call.quiet) call.table.refuse_device(call.kernel, name, object, other, other_object);
    return false;
}

inline bool aligned(const Call& call, const char* name, const TensorView& view, unsigned bytes) {
    if (reinterpret_cast<uintptr_t>(view.data) % bytes == 0) return true;
    if (!call.quiet)
        PyErr_Format(call.table.argument_error,
                     "%s: %s starts at an address that is not a multiple of %u bytes (a view with an offset?); "
                     "pass %s.clone()", call.kernel, name, bytes, name);
    return false;
}

// The dims that "..." stands for.
struct Leading {
    const int64_t* sizes = nullptr;
    int count = -1;

    bool matches(const TensorView& view, int trailing) const {
        return count < 0 || (view.ndim - trailing == count && std::memcmp(view.sizes, sizes, count * sizeof *sizes) == 0);
    }
    void bind(const TensorView& view, int trailing) {
        if (count < 0) *this = {view.sizes, view.ndim - trailing};
    }
};

inline bool empty(const TensorView& view) {
    for (int i = 0; i < view.ndim; ++i)
        if (view.sizes[i] == 0) return true;
    return false;
}

// batch, depth, rows, cols and numel of a tensor, as expressions use them.
inline int64_t extent(const TensorView& view, int axis) {
    const int dim = view.ndim - kMaxDims + axis;
    return dim < 0 ? 1 : view.sizes[dim];
}
inline Int numel(const TensorView& view) {
    Int product = 1;
    for (int i = 0; i < view.ndim; ++i) product = product * view.sizes[i];
    return product;
}

// ---- constraints and outputs ---------------------------------------------------------------------------------------

inline bool satisfied(const Call& call, Int holds, const char* text, std::initializer_list<Dim> values) {
    if (holds.valid() && holds.value()) return true;
    if (call.quiet) return false;
    char where[256] = "";
    size_t used = 0;
    for (const Dim& dim : values)
        if (used < sizeof where)
            used += PyOS_snprintf(where + used, sizeof where - used, "%s%s=%lld", used ? ", " : "", dim.text,
                                  static_cast<long long>(dim.value));
    PyErr_Format(call.table.shape_error, "%s: the constraint %s does not hold (%s)", call.kernel, text, where);
    return false;
}

// An output's sizes, from its dims.
struct Shape {
    int64_t sizes[kMaxDims];
    int count = 0;

    bool compute(const Call& call, const char* name, const Leading& leading, std::initializer_list<Int> dims) {
        for (int i = 0; i < leading.count && count < kMaxDims; ++i) sizes[count++] = leading.sizes[i];
        for (const Int dim : dims) {
            if (dim.valid() && dim.value() >= 0 && dim.value() <= INT32_MAX && count < kMaxDims) {
                sizes[count++] = dim.value();
                continue;
            }
            if (!call.quiet)
                PyErr_Format(call.table.shape_error,
                             count == kMaxDims ? "%s: the output %s would have more than 4 dimensions"
                                               : "%s: an extent of the output %s would be %lld",
                             call.kernel, name, static_cast<long long>(dim.value()));
            return false;
        }
        return true;
    }
    bool matches(const TensorView& view) const {
        return view.ndim == count && std::memcmp(view.sizes, sizes, count * sizeof *sizes) == 0;
    }
};

// An owned reference.
class Object {
public:
    Object() = default;
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    ~Object() { Py_XDECREF(object_); }

    void own(PyObject* object) { object_ = object; }
    void borrow(PyObject* object) {
        Py_INCREF(object);
        object_ = object;
    }
    PyObject* release() {
        PyObject* const object = object_;
        object_ = nullptr;
        return object;
    }

private:
    PyObject* object_ = nullptr;
};

// A new output: the object, and the view that the launcher gets.
inline bool allocate(const Call& call, Object& object, TensorView& view, const Shape& shape, int32_t dtype,
                     const TensorView& like) {
    PyObject* const tensor = call.table.empty(shape.sizes, shape.count, dtype, like);
    if (!tensor) return false;
    object.own(tensor);
    return call.table.view(tensor, &view);
}

// ---- launching -----------------------------------------------------------------------------------------------------

inline void set(TkjitArg& arg, const TensorView& view) {
    arg.data = view.data;
    arg.dtype = view.dtype;
    arg.present = 1;
    for (int axis = 0; axis < kMaxDims; ++axis) arg.extents[axis] = extent(view, axis);
}
inline void set(TkjitArg& arg, double value) {
    arg.real = value;
    arg.present = 1;
}
inline void set(TkjitArg& arg, int64_t value) {
    arg.integer = value;
    arg.present = 1;
}
inline void set(TkjitArg& arg, bool value) {
    arg.integer = value;
    arg.present = 1;
}

// The variant's launcher for the device of `on`: remembered, found in the cache, or built.
inline TkjitLaunch launcher(const Call& call, int overload, int variant, const TensorView& on) {
    const int slot = on.device_type == DeviceType::cpu ? 0 : 1 + on.device;
    if (slot < kDeviceSlots) {
        const auto& known = call.self->launchers[slot * call.self->variant_count + variant];
        if (const TkjitLaunch launch = known.load(std::memory_order_acquire)) return launch;
    }
    return call.table.resolve(call.self, overload, variant, on);
}

inline bool launch(const Call& call, TkjitLaunch launcher, const TkjitArg* args, const TensorView& on,
                   PyObject* given_stream) {
    void* stream = nullptr;
    if (on.device_type != DeviceType::cpu || given_stream)
        if (!call.table.stream(call.kernel, given_stream, on, &stream)) return false;
    PyThreadState* const state = PyEval_SaveThread();
    const char* const error = launcher(args, on.device, stream);
    PyEval_RestoreThread(state);
    if (!error) return true;
    static constexpr char about_shapes[] = "shape: ";
    const bool shapes = std::strncmp(error, about_shapes, sizeof about_shapes - 1) == 0;
    PyErr_Format(shapes ? call.table.shape_error : call.table.launch_error, "%s: %s", call.kernel,
                 shapes ? error + sizeof about_shapes - 1 : error);
    return false;
}

// Several outputs as the overload's named tuple.
inline PyObject* named_tuple(const Call& call, int overload, std::initializer_list<Object*> values) {
    PyObject* items[kMaxOutputs];
    size_t count = 0;
    for (Object* value : values) items[count++] = value->release();
    PyObject* const type = PyTuple_GET_ITEM(call.self->result_types, overload);
    PyObject* const result = PyObject_Vectorcall(type, items, count, nullptr);
    for (size_t i = 0; i < count; ++i) Py_DECREF(items[i]);
    return result;
}

// ---- overloads -----------------------------------------------------------------------------------------------------

struct Overload {
    PyObject* (*call)(Call& call);
    const char* text;  // the signature, as a message shows it
};

// Tries each overload in order; when none takes the call, raises with every signature and why it was refused.
inline PyObject* dispatch(Call& call, const Overload* overloads, int count) {
    if (count == 1) return overloads[0].call(call);
    call.quiet = true;
    for (int i = 0; i < count; ++i) {
        PyObject* const result = overloads[i].call(call);
        if (result || call.decided || PyErr_Occurred()) return result;
    }
    call.quiet = false;
    PyObject* message = PyUnicode_FromFormat("%s: no overload takes these arguments:", call.kernel);
    for (int i = 0; i < count && message; ++i) {
        overloads[i].call(call);
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyObject* const longer = PyUnicode_FromFormat("%U\n  %s\n    %S", message, overloads[i].text, value ? value : Py_None);
        Py_DECREF(message);
        message = longer;
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    if (message) {
        PyErr_SetObject(call.table.argument_error, message);
        Py_DECREF(message);
    }
    return nullptr;
}

// ---- the module ----------------------------------------------------------------------------------------------------

inline int add_entry(PyObject* module, const GlueEntry& entry) {
    PyObject* const capsule = PyCapsule_New(const_cast<GlueEntry*>(&entry), kGlueCapsule, nullptr);
    if (!capsule) return -1;
    const int failed = PyModule_AddObjectRef(module, "entry", capsule);
    Py_DECREF(capsule);
    return failed;
}

}  // namespace tkjit::glue
