// Code that all glue shares but that ordinary calls do not run: inspecting calls, launching prepared calls, and error
// texts. It is compiled once, as part of the runtime, so that it need not be compiled with each kernel.
#pragma once

#include "glue.h"
#include "refusals.h"

#include <cstring>
#include <string>
#include <utility>

namespace tkjit::runtime {

using glue::Batch;
using glue::Call;
using glue::Contents;

inline const Contents& contents_of(PyObject* dispatcher) { return *reinterpret_cast<Dispatcher*>(dispatcher)->entry->contents; }

inline bool intern(PyObject*& interned, const char* name) {
    if (__atomic_load_n(&interned, __ATOMIC_ACQUIRE)) return true;
    PyObject *none = nullptr, *made = PyUnicode_InternFromString(name);
    // if another thread was first, `made` is the same object
    if (made && !__atomic_compare_exchange_n(&interned, &none, made, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) Py_DECREF(made);
    return made;
}

// Interns the names of parameters and numbers, because keywords are compared with them. Several threads may call this
// concurrently.
inline bool intern_names(const Contents& contents) {
    for (int i = 0; i < contents.count; ++i) {
        const glue::Signature& signature = *contents.signatures[i];
        for (int k = 0; k < signature.count; ++k)
            if (!intern(signature.parameters[k].interned, signature.parameters[k].name)) return false;
        const glue::Numbers& numbers = contents.numbers[i];
        for (int k = 0; k < numbers.count; ++k)
            if (!intern(numbers.items[k].interned, numbers.items[k].name)) return false;
    }
    return true;
}

// ---- refusals ------------------------------------------------------------------------------------------------------

// Lists the names of the parameters from `first` on, for an error: `x, y, alpha`, or `y=, out=`.
inline std::string names_from(const glue::Signature& signature, int first, const char* suffix) {
    std::string names;
    for (int i = first; i < signature.count; ++i)
        names += (names.empty() ? "" : ", ") + std::string(signature.parameters[i].name) + suffix;
    return names;
}

inline void refuse_arguments(const char* kernel, const glue::Signature& signature, glue::Misfit misfit, PyObject* name, Py_ssize_t number) {
    using enum glue::Misfit;
    const std::string names = names_from(signature, misfit == too_many ? signature.positional : 0, misfit == too_many ? "=" : "");
    switch (misfit) {
        case too_many:
            PyErr_Format(argument_error, "%s: takes at most %d positional arguments, got %zd; by name it takes %s", kernel,
                         signature.positional, number, names.c_str());
            return;
        case unknown: return refuse_name(kernel, name, names.c_str());
        case twice: PyErr_Format(argument_error, "%s: the argument %U is given twice", kernel, name); return;
        case missing:
            PyErr_Format(argument_error, "%s: the argument %s is missing; it takes %s", kernel, signature.parameters[number].name,
                         names.c_str());
    }
}

inline void refuse_overloads(Call& call, const glue::Overload* overloads, int count) {
    PyObject* cause = nullptr;  // an exception from an argument's own hooks
    PyObject* message = PyUnicode_FromFormat("%s: no overload takes these arguments:", call.kernel);
    for (int i = 0; i < count && message; ++i) {
        glue::try_overload(call, overloads[i]);
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_NormalizeException(&type, &value, &traceback);
        if (value && !PyErr_GivenExceptionMatches(value, PyExc_Exception)) {  // Ctrl-C while collecting the reasons
            Py_DECREF(message);
            Py_XDECREF(cause);
            PyErr_Restore(type, value, traceback);
            return;
        }
        if (value && !cause) cause = PyException_GetCause(value);
        PyObject* const longer = PyUnicode_FromFormat("%U\n  %s\n    %S", message, overloads[i].text, value ? value : Py_None);
        Py_DECREF(message);
        message = longer;
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    PyObject* const error = message ? PyObject_CallOneArg(argument_error, message) : nullptr;
    if (error && cause) PyException_SetCause(error, Py_NewRef(cause));
    if (error) PyErr_SetObject(argument_error, error);
    Py_XDECREF(error);
    Py_XDECREF(cause);
    Py_XDECREF(message);
}

inline void refuse_launch(const char* kernel, const char* error) {
    if (PyErr_Occurred() || PyErr_CheckSignals()) return;  // a signal arrived while the simulator ran
    const char* const shapes = about_shapes(error);
    PyErr_Format(shapes ? shape_error : launch_error, "%s: %s", kernel, shapes ? shapes : error);
}

// ---- inspecting a call ---------------------------------------------------------------------------------------------

inline PyObject* shown(const int64_t* numbers, int count) {
    PyObject* const tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; ++i) PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(numbers[i]));
    return tuple;
}

// Converts an argument for Python: (data or integer, float, extents, strides, dtype, whether it was passed, and a
// parallel layout's pointers, multicast pointer and device index). The strides are meaningful only for a strided
// layout.
inline PyObject* shown(const TkjitArg& arg, bool parallel) {
    const int rank = arg.present ? arg.rank : 0;
    PyObject* const extents = shown(arg.extents, rank);
    PyObject* const strides = shown(arg.strides, rank);
    if (!parallel || !arg.present)
        return Py_BuildValue("KdNNiiOKi", static_cast<unsigned long long>(arg.integer), arg.real, extents, strides, arg.dtype,
                             arg.present, Py_None, 0ull, 0);
    const auto& layout = *static_cast<const TkjitParallel*>(arg.data);
    PyObject* const pointers = PyTuple_New(layout.count);
    if (!pointers) return nullptr;
    for (int i = 0; i < layout.count; ++i) PyTuple_SET_ITEM(pointers, i, PyLong_FromVoidPtr(layout.data[i]));
    return Py_BuildValue("KdNNiiNKi", 0ull, 0.0, extents, strides, arg.dtype, arg.present, pointers,
                         reinterpret_cast<unsigned long long>(layout.multicast), layout.dev_idx);
}

// Returns the arguments for a call's launches: (overload, result, [[argument, ...], ...], scratch). Steals the
// reference to the result, which holds the outputs. `kind` has a letter for each argument.
template <class Launches>
PyObject* shown(const Launches& launches, PyObject* result, const char* kind) {
    if (!result) return nullptr;
    PyObject* const steps = PyList_New(0);
    for (int i = 0; steps && i < launches.count; ++i) {
        PyObject* const step = PyList_New(0);
        for (size_t k = 0; step && kind[k]; ++k) {
            PyObject* const item = shown(launches.steps[i].args[k], kind[k] == 'p');
            if (!item || PyList_Append(step, item) != 0) PyErr_Clear();
            Py_XDECREF(item);
        }
        if (!step || PyList_Append(steps, step) != 0) PyErr_Clear();
        Py_XDECREF(step);
    }
    return Py_BuildValue("iNNO", launches.overload, result, steps, launches.held ? launches.held : Py_None);
}

// Makes a call without launching, and returns the arguments that it would pass to the launcher.
inline PyObject* collect_call(PyObject* dispatcher, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    const Contents& contents = contents_of(dispatcher);
    Call call = glue::call_of(dispatcher, contents.name, args, nargsf, kwnames);
    Step steps[kMaxParallelDevices];
    Batch batch(steps, true);
    call.batch = &batch;
    PyObject* const result = glue::run(call, contents);
    return shown(batch, result, contents.kinds[batch.overload]);
}

// Returns the index of the overload that takes a call, or -1 if choosing needs data that a tensor does not have.
// Raises the call's errors.
inline PyObject* choose_overload(PyObject* dispatcher, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    const Contents& contents = contents_of(dispatcher);
    Call call = glue::call_of(dispatcher, contents.name, args, nargsf, kwnames);
    call.choosing = true;
    return glue::dispatch(call, contents.overloads, contents.count);
}

// ---- later launches ------------------------------------------------------------------------------------------------

inline bool launch_later(Call& call, const TkjitLauncher* launcher, const TkjitArg* args, size_t count, const TensorView& on,
                         void* stream) {
    auto* const kept = call.values.make<TkjitArg>(count);
    if (!kept) return false;
    std::memcpy(kept, args, count * sizeof *args);
    call.batch->steps[call.batch->count++] = {launcher, kept, on.device, stream};
    for (; call.tensors; call.tensors = call.tensors->before) {  // the views are copied, because they are on the stack
        auto* const tensor = call.values.make<TensorView>(1);
        if (!tensor) return false;
        *tensor = *call.tensors;
        tensor->before = call.batch->tensors;
        call.batch->tensors = tensor;
    }
    return true;
}

// Makes a call but keeps its launches for later.
inline bool prepare_call(PyObject* dispatcher, PyObject* const* args, size_t nargsf, PyObject* kwnames, Prepared* prepared) {
    const Contents& contents = contents_of(dispatcher);
    Call call = glue::call_of(dispatcher, contents.name, args, nargsf, kwnames);
    Batch batch(prepared->steps);
    call.batch = &batch;
    call.prepares = true;
    if (!(batch.written = PyList_New(0)) || !(prepared->result = glue::run(call, contents))) return false;
    prepared->count = batch.count;
    prepared->overload = batch.overload;
    prepared->follows = call.follows;
    prepared->tensors = batch.tensors;
    prepared->peers = call.peers;
    prepared->club = batch.club;
    std::swap(prepared->written, batch.written);
    std::swap(prepared->held, batch.held);
    prepared->values.take(call.values);
    return true;
}

inline bool set_number(const Call& call, const glue::Number& number, PyObject* given, TkjitArg& arg) {
    if (given == Py_None && number.nullable) {
        set_absent(arg);
        return true;
    }
    double real = 0;
    int64_t integer = 0;
    bool truth = false;
    switch (number.kind) {
        case 'd': return glue::read(call, number.name, given, real) && (set(arg, real), true);
        case 'i': return glue::read(call, number.name, given, integer, number.low, number.high) && (set(arg, integer), true);
        default: return glue::read(call, number.name, given, truth) && (set(arg, truth), true);
    }
}

// Sets the numbers that are passed to a prepared launch by name.
inline bool set_numbers(const Call& call, const glue::Numbers& numbers, PyObject* const* given, PyObject* names, TkjitArg* args) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); ++k) {
        PyObject* const name = PyTuple_GET_ITEM(names, k);
        const glue::Number* found = nullptr;
        for (int i = 0; i < numbers.count && !found; ++i)
            if (numbers.items[i].interned == name || PyUnicode_Compare(numbers.items[i].interned, name) == 0) found = &numbers.items[i];
        if (!found) {
            PyErr_Format(argument_error,
                         "%s: a prepared launch takes no %U%s%s: arguments that decide shapes, variants or memory are fixed; "
                         "prepare another launch",
                         call.kernel, name, numbers.count ? "; it takes " : "", numbers.text);
            return false;
        }
        if (!set_number(call, *found, given[k], args[found->position])) return false;
    }
    return true;
}

inline bool record_stream(const Call& call, const Prepared& prepared, const Step& step) {
    PyObject* const handle = PyLong_FromVoidPtr(step.stream);
    bool ok = handle;
    for (PyObject* const list : {prepared.written, prepared.held})
        for (Py_ssize_t i = 0; ok && list && i < PyList_GET_SIZE(list); ++i)
            ok = call.table.record_stream(PyList_GET_ITEM(list, i), handle, step.device);
    Py_XDECREF(handle);
    return ok;
}

// Makes the launches of a prepared call, using the numbers that are passed by name.
inline PyObject* launch_again(PyObject* dispatcher, const Prepared& prepared, PyObject* const* numbers, PyObject* kwnames) {
    if (!prepared.count) return Py_NewRef(prepared.result);  // the outputs were empty
    const Contents& contents = contents_of(dispatcher);
    Call call = glue::call_of(dispatcher, contents.name, nullptr, 0, nullptr);
    call.prepares = call.ran_code = true;
    call.tensors = prepared.tensors;
    call.peers = prepared.peers;
    const size_t count = std::strlen(contents.kinds[prepared.overload]);
    Step steps[kMaxParallelDevices];
    for (int i = 0; i < prepared.count; ++i) {
        Step& step = steps[i] = prepared.steps[i];
        if (!kwnames) continue;
        auto* const own = call.values.make<TkjitArg>(count);
        if (!own) return nullptr;
        std::memcpy(own, step.args, count * sizeof *own);
        if (!set_numbers(call, contents.numbers[prepared.overload], numbers, kwnames, own)) return nullptr;
        step.args = own;
    }
    const TensorView& on = *prepared.tensors;
    if (prepared.club) {
        for (int i = 0; i < prepared.count && on.device_type != DeviceType::cpu; ++i) {
            TensorView there;
            there.device_type = on.device_type;
            there.device = steps[i].device;
            if (!glue::find_stream(call, call.table.club_stream(prepared.club, i), there, steps[i].stream)) return nullptr;
        }
        if (!call.table.execute(call.kernel, prepared.club, steps, prepared.count, call.tensors)) return nullptr;
    } else {
        if (prepared.follows && on.device_type != DeviceType::cpu) {
            if (!glue::find_stream(call, nullptr, on, steps[0].stream)) return nullptr;
            // memory from another stream must not be reused there too early
            if (steps[0].stream != prepared.steps[0].stream && !record_stream(call, prepared, steps[0])) return nullptr;
        }
        if (!glue::launch(call, steps[0].launcher, steps[0].args, count, on, steps[0].stream)) return nullptr;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(prepared.written); ++i)
        if (!call.table.written(PyList_GET_ITEM(prepared.written, i))) return nullptr;
    return Py_NewRef(prepared.result);
}

}  // namespace tkjit::runtime
