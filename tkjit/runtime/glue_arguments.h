// For rendered glue: a call, its parameters and its scalars.
#pragma once

#include "table.h"

#include <tkjit/call/checks.h>

#include <cstdarg>
#include <cstring>
#include <initializer_list>

namespace tkjit::glue {

// The kind of argument that a parameter takes in a call over several devices: one value for all devices, a list with
// one value per device, or a list that each device receives as a whole.
enum class Spread { same, each, parallel };

struct Parameter {
    const char* name;
    bool required;
    bool nullable;   // None counts as an omitted argument
    Spread spread = Spread::same;
    bool written = false;  // in a call over several devices, each device writes its own tensor
    PyObject* interned = nullptr;
};

struct Signature {
    const char* kernel;
    Parameter* parameters;
    int count;
    int positional;  // the number of positional parameters; the rest are keyword-only
};

constexpr int kMaxOutputs = 32;  // spec/checks.py rejects more

// An output that is converted to an array from the caller's framework once it has been written.
struct Conversion {
    PyObject* tensor;
    PyObject* like;
    const Conversion* before;
};

// Holds the launches of a call that does not launch immediately, because the call is over several devices, is being
// prepared, or is only inspected.
struct Batch {
    Step* steps;
    int count = 0;
    bool collects = false;             // nothing is launched, so nothing has to be compiled
    int overload = 0;                  // the overload that has taken the call
    const TensorList* lists = nullptr; // by parameter: the tensors of a parallel parameter
    const Conversion* conversions = nullptr;
    const TensorView* tensors = nullptr;  // the last tensor that the launches use
    PyObject* held = nullptr;             // a list of objects to keep until the launches, or null
    PyObject* written = nullptr;          // in a prepared call: a list of the tensors that each launch writes
    PyObject* club = nullptr;

    explicit Batch(Step* steps, bool collects = false) : steps(steps), collects(collects) {}
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    ~Batch() {
        Py_XDECREF(held);
        Py_XDECREF(written);
    }
};

// A number that a prepared launch can replace.
struct Number {
    const char* name;
    int position;  // among the launcher's arguments
    char kind;     // d: a float, i: an int, b: a bool
    bool nullable;
    int64_t low, high;  // of an int
    PyObject* interned = nullptr;
};
struct Numbers {
    Number* items;
    int count;
    const char* text;  // the names, for messages
};

struct Call {
    Dispatcher* self;
    const Table& table;
    const char* kernel;
    PyObject* const* args;
    Py_ssize_t nargs;
    PyObject* kwnames;
    bool quiet = false;    // reject without a message
    bool decided = false;  // this overload takes the call, so a failure is final and no other overload is tried
    Values values{};       // memory and objects that live until the end of the call
    uint32_t detours = 0;  // the tensor problems that send this call to the operator
    bool detour = false;   // a tensor has one of these problems
    uint32_t ignored = kWatched;  // the tensor problems that do not matter
    bool choosing = false;  // only find the overload that takes the call
    bool prepares = false;  // the launches are made later, perhaps many times
    bool follows = false;   // no stream was given, so launches use the current one
    bool other_stream = false;  // the call's stream is not the current one
    Batch* batch = nullptr;     // keeps launches for later, or null
    int dev_idx = 0;            // the device's index in a call over several devices
    void* peers = nullptr;      // the processes that the kernel may wait for, or null
    PyObject* const* bound = nullptr;  // arguments that are already at their parameters' positions
    const TensorView* tensors = nullptr;  // the last tensor that was read
    bool ran_code = false;  // Python code or another thread may have run since the first tensor was read

    // The interface that tkjit/call/checks.h requires.
    bool overlap(const TensorView& view, const TensorView& other) const { return table.overlap(view, other); }
    bool overlaps_itself(const TensorView& view) const { return table.overlaps_itself(view); }
    [[gnu::format(printf, 3, 4), gnu::cold, gnu::noinline]] void refuse(Refusal kind, const char* format, ...) const {
        va_list arguments;
        va_start(arguments, format);
        PyObject* const text = PyUnicode_FromFormatV(format, arguments);
        va_end(arguments);
        if (text) PyErr_Format(kind == Refusal::shape ? table.shape_error : table.argument_error, "%s: %U", kernel, text);
        Py_XDECREF(text);
    }
    void refuse_mismatch(const TensorView& view, const Expected& expected) const { table.refuse_mismatch(kernel, view, expected); }
    void refuse_device(const TensorView& view, const TensorView& other) const { table.refuse_device(kernel, view, other); }
    void refuse_place(const TensorView& view, const TensorView& on) const { table.refuse_place(kernel, view, on); }
    void refuse_constraint(const char* text, const char* how, const Dim* values, int count) const {
        table.refuse_constraint(kernel, text, how, values, count);
    }
};

inline Call call_of(PyObject* self, const char* kernel, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    const auto dispatcher = reinterpret_cast<Dispatcher*>(self);
    return {dispatcher, *dispatcher->table, kernel, args, PyVectorcall_NARGS(nargsf), kwnames};
}

// ---- parameters ----------------------------------------------------------------------------------------------------

inline int position_of(const Signature& signature, PyObject* name) {
    for (int i = 0; i < signature.count; ++i)
        if (signature.parameters[i].interned == name) return i;
    for (int i = 0; i < signature.count; ++i)  // a keyword from a dict need not be interned
        if (PyUnicode_Compare(signature.parameters[i].interned, name) == 0) return i;
    return -1;
}

// The reason why arguments do not fit the parameters.
enum class Misfit : int {
    too_many,  // positional arguments
    unknown,   // a keyword without a parameter
    twice,     // two arguments for one parameter
    missing,   // a required argument
};

// Stores a borrowed reference to each argument at its parameter's position, and null for each omitted argument.
inline bool bind(const Call& call, const Signature& signature, PyObject** given) {
    if (call.bound) {
        std::memcpy(given, call.bound, size_t(signature.count) * sizeof *given);
        return true;
    }
    const auto refuse = [&](Misfit misfit, PyObject* name, Py_ssize_t number) {
        if (!call.quiet) call.table.refuse_arguments(call.kernel, signature, misfit, name, number);
        return false;
    };
    if (call.nargs > signature.positional) return refuse(Misfit::too_many, nullptr, call.nargs);
    for (int i = 0; i < signature.count; ++i) given[i] = i < call.nargs ? call.args[i] : nullptr;
    const Py_ssize_t keywords = call.kwnames ? PyTuple_GET_SIZE(call.kwnames) : 0;
    for (Py_ssize_t i = 0; i < keywords; ++i) {
        PyObject* const name = PyTuple_GET_ITEM(call.kwnames, i);
        const int position = position_of(signature, name);
        if (position < 0 || given[position]) return refuse(position < 0 ? Misfit::unknown : Misfit::twice, name, 0);
        given[position] = call.args[call.nargs + i];
    }
    for (int i = 0; i < signature.count; ++i) {
        const Parameter& parameter = signature.parameters[i];
        if (!given[i] && parameter.required) return refuse(Misfit::missing, nullptr, i);
        if (given[i] == Py_None && parameter.nullable) given[i] = nullptr;
    }
    return true;
}

// Assigns `out=` to the output parameters: a tensor to a single output, a tuple to several.
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

// Returns whether the exception that is set has nothing to do with the argument: Ctrl-C or lack of memory.
inline bool is_not_ours() {
    return PyErr_Occurred() && (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError));
}

inline bool refuse_object(const Call& call, const char* name, PyObject* object, const char* expected) {
    if (is_not_ours()) return false;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    // An exception from the object's own Python code becomes the cause of this error. An exception without a traceback
    // comes from the interpreter, and is less specific than this message.
    if (traceback && !call.quiet) PyErr_Restore(type, value, traceback);
    else Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(traceback);
    if (!call.quiet) call.table.refuse_object(call.kernel, name, object, expected);
    return false;
}
inline bool refuse_text(const Call& call, const char* name, PyObject* object, const char* expected) {
    return refuse_object(call, name, object, expected);
}

inline bool read(const Call& call, const char* name, PyObject* object, double& value) {
    if (PyFloat_CheckExact(object)) {
        value = PyFloat_AS_DOUBLE(object);
        return true;
    }
    if (PyUnicode_Check(object) || PyComplex_Check(object) || !call.table.is_number(object))
        return refuse_object(call, name, object, "a float");
    value = PyFloat_AsDouble(object);
    return value != -1.0 || !PyErr_Occurred() || refuse_object(call, name, object, "a float");
}

inline bool read(const Call& call, const char* name, PyObject* object, int64_t& value, int64_t low, int64_t high) {
    if (PyBool_Check(object) || !PyIndex_Check(object) || (!PyLong_Check(object) && !call.table.is_number(object)))
        return refuse_object(call, name, object, "an int");
    value = PyNumber_AsSsize_t(object, PyExc_OverflowError);
    const bool failed = value == -1 && PyErr_Occurred();
    if (failed && !PyErr_ExceptionMatches(PyExc_OverflowError)) return refuse_object(call, name, object, "an int");
    if (failed || value < low || value > high) {
        char expected[96];
        PyOS_snprintf(expected, sizeof expected, "an int from %lld to %lld", static_cast<long long>(low),
                      static_cast<long long>(high));
        return refuse_object(call, name, object, expected);
    }
    return true;
}

inline bool read(const Call& call, const char* name, PyObject* object, bool& value) {
    if (PyBool_Check(object)) {
        value = object == Py_True;
        return true;
    }
    if (call.table.is_bool(object)) {  // a NumPy bool, or a tensor of one
        const int truth = PyObject_IsTrue(object);
        value = truth == 1;
        if (truth >= 0) return true;
    }
    return refuse_object(call, name, object, "a bool");
}

// ---- other values ----------------------------------------------------------------------------------------------------

// Reads a value according to its type's code. `expected` names the type in messages. A list may have at most `most`
// items, or any number of items if `most` is 0.
inline bool read(Call& call, const char* name, PyObject* object, const char* code, const char* expected, int64_t most,
                 TkjitArg& arg) {
    if (!call.table.read_value(object, code, &call.values, &arg)) return refuse_object(call, name, object, expected);
    if (arg.extents[0] <= most || !most) return true;
    char text[96];
    PyOS_snprintf(text, sizeof text, "at most %lld items", static_cast<long long>(most));
    return refuse_object(call, name, object, text);
}

}  // namespace tkjit::glue
