// For the rendered glue of kernels over several devices. A call with lists becomes one call per device, and the
// launches of all these calls are made together.
#pragma once

#include "glue.h"

namespace tkjit::glue {

// ---- parallel layouts ----------------------------------------------------------------------------------------------

// A parallel layout, as seen by one device's launch.
struct ParallelTensor {
    TensorView own;       // this device's part
    PyObject* object = nullptr;
    const char* name = nullptr;
    TkjitParallel layout{};
    const TensorList* list = nullptr;  // if the call has a list, the tensors of all devices, else null
};

// Checks that the tensors in a list are alike. Each device's part is then checked like any other tensor.
inline bool alike(const Call& call, const TensorList& list) {
    const TensorView& first = list.items[0].view;
    for (int i = 1; i < list.count; ++i) {
        const TensorView& view = list.items[i].view;
        if (view.dtype == first.dtype && view.ndim == first.ndim && view.device_type == first.device_type &&
            std::memcmp(view.sizes, first.sizes, first.ndim * sizeof *first.sizes) == 0)
            continue;
        char expected[128];
        PyOS_snprintf(expected, sizeof expected, "a tensor like %s: parallel parts have the same shape, dtype and kind of device",
                      list.items[0].name);
        call.table.refuse_object(call.kernel, list.items[i].name, object_of(view), expected);
        return false;
    }
    return true;
}

inline bool read(Call& call, const char* name, int position, PyObject* object, ParallelTensor& parallel) {
    if (call.batch && call.batch->lists) {
        const TensorList& list = call.batch->lists[position];
        TensorList::Item& item = list.items[call.dev_idx];
        auto** const data = call.values.make<void*>(size_t(list.count));
        if (!data) return false;
        for (int i = 0; i < list.count; ++i) data[i] = list.items[i].view.data;
        parallel = {item.view, static_cast<PyObject*>(item.object), item.name, {data, nullptr, list.count, call.dev_idx}, &list};
        return true;
    }
    ParallelView view;
    call.ran_code = true;
    const bool is_one = call.table.parallel(object, &view);
    if (view.owner && !call.values.keep(view.owner)) return false;
    if (!is_one) return refuse_object(call, name, object, "a tkjit.ParallelTensor, or a list with a tensor for each device");
    call.peers = view.peers;
    parallel.object = view.tensor;
    parallel.name = name;
    parallel.layout = view.layout;
    if (!read(call, name, view.tensor, parallel.own)) return false;
    if (parallel.own.data == view.layout.data[view.layout.dev_idx]) return true;
    return refuse_object(call, name, view.tensor, "the memory that the ParallelTensor was made with; make a new one");
}

// Checks that all parallel layouts in a call are on the same devices.
inline bool same_devices(const Call& call, const ParallelTensor& parallel, const ParallelTensor& other) {
    if (parallel.layout.count == other.layout.count && parallel.layout.dev_idx == other.layout.dev_idx) return true;
    PyErr_Format(call.table.argument_error, "%s: %s is on %d devices and this is number %d; %s is on %d and this is number %d",
                 call.kernel, parallel.name, parallel.layout.count, parallel.layout.dev_idx, other.name, other.layout.count,
                 other.layout.dev_idx);
    return false;
}

inline bool is_on(const Call& call, const ParallelTensor& parallel, int count) {
    if (parallel.layout.count == count) return true;
    PyErr_Format(call.table.argument_error, "%s: %s is on %d devices; the kernel is for %d", call.kernel, parallel.name,
                 parallel.layout.count, count);
    return false;
}

inline bool set(TkjitArg& arg, const ParallelTensor& parallel, Call& call) {
    auto* const layout = call.values.make<TkjitParallel>(1);
    if (!layout) return false;
    *layout = parallel.layout;
    set(arg, parallel.own);
    arg.data = layout;
    return true;
}

inline bool written(const Call& call, const ParallelTensor& parallel) {
    if (call.dev_idx != 0 && parallel.list) return true;  // the first device's call marks the whole list
    if (parallel.list) return written(call, *parallel.list);
    return written(call, parallel.object);
}

inline bool record_stream(const Call& call, PyObject* stream, const TensorView& on, const ParallelTensor& parallel) {
    return record_stream(call, stream, on, {parallel.object});
}

// ---- a call with lists ---------------------------------------------------------------------------------------------

// Checks that no two parts of a list share memory, because each device writes to its own part.
inline bool parts_apart(const Call& call, const TensorList& list) {
    for (int i = 1; i < list.count; ++i)
        for (int k = 0; k < i; ++k)
            if (list.items[i].view.device == list.items[k].view.device &&
                !apart(call, list.items[i].name, list.items[i].view, list.items[k].name, list.items[k].view))
                return false;
    return true;
}
inline bool apart(const Call& call, const char* name, const TensorView& view, const char* other, const ParallelTensor& parallel) {
    if (!parallel.list) return apart(call, name, view, other, parallel.own);
    for (int i = 0; i < parallel.list->count; ++i) {
        const TensorList::Item& item = parallel.list->items[i];
        if (item.view.device == view.device && !apart(call, name, view, item.name, item.view)) return false;
    }
    return true;
}

inline bool whole_or_apart(const Call& call, const char* name, const TensorView& view, const char* other,
                           const ParallelTensor& parallel) {
    return whole_or_apart(call, name, view, other, parallel.own);
}
template <class Other>
bool whole_or_apart(const Call& call, const char* name, const ParallelTensor& parallel, const char* other, const Other& others) {
    return whole_or_apart(call, name, parallel.own, other, others);
}

// The positions of the special arguments in a call.
struct Places {
    int anchor;  // the parallel parameter that determines the devices
    int club;
    int stream;
};

inline PyObject* refuse_call(const Call& call, const char* text) {
    PyErr_Format(call.table.argument_error, "%s: %s", call.kernel, text);
    return nullptr;
}

// Checks the lengths of all lists. Reads the lists for parallel parameters and for tensors that are written.
inline bool read_lists(Call& call, const Signature& signature, PyObject** given, int count, TensorList* lists) {
    for (int i = 0; i < signature.count; ++i) {
        const Parameter& parameter = signature.parameters[i];
        if (parameter.spread == Spread::same || !given[i]) continue;
        if (!PyList_Check(given[i]) && !PyTuple_Check(given[i]))
            return refuse_object(call, parameter.name, given[i], "a list with a tensor for each device");
        PyObject* const tensors = PySequence_Tuple(given[i]);  // another thread may change the list during the call
        if (!tensors || !call.values.keep(tensors)) return false;
        if (PyTuple_GET_SIZE(tensors) != count) {
            char expected[96];
            PyOS_snprintf(expected, sizeof expected, "a list of %d tensors, one for each device", count);
            return refuse_object(call, parameter.name, given[i], expected);
        }
        given[i] = tensors;
        if (parameter.spread == Spread::parallel &&
            (!read(call, parameter.name, tensors, count, false, lists[i]) || !alike(call, lists[i])))
            return false;
        if (parameter.spread == Spread::each && parameter.written && !PyTuple_Check(PyTuple_GET_ITEM(tensors, 0)) &&
            !read(call, parameter.name, tensors, count, false, lists[i]))
            return false;
        if (parameter.written && !parts_apart(call, lists[i])) return false;
    }
    return true;
}

inline PyObject* converted(const Call& call, PyObject* result) {
    for (const Conversion* known = call.batch->conversions; known; known = known->before)
        if (known->tensor == result) return call.table.as_array(result, known->like);
    return Py_NewRef(result);
}

// Collects the results of all devices, turning each value into a list.
inline PyObject* gathered(const Call& call, PyObject** results, int count) {
    if (results[0] == Py_None) return Py_NewRef(Py_None);
    if (!PyTuple_Check(results[0])) {
        PyObject* list = PyList_New(count);
        for (int i = 0; list && i < count; ++i) {
            PyObject* const result = converted(call, results[i]);
            if (result) PyList_SET_ITEM(list, i, result);
            else Py_CLEAR(list);
        }
        return list;
    }
    const Py_ssize_t values = PyTuple_GET_SIZE(results[0]);  // the result is a named tuple
    PyObject* items[kMaxOutputs];
    PyObject* column[kMaxParallelDevices];
    Py_ssize_t gotten = 0;
    for (; gotten < values; ++gotten) {
        for (int i = 0; i < count; ++i) column[i] = PyTuple_GET_ITEM(results[i], gotten);
        if (!(items[gotten] = gathered(call, column, count))) break;
    }
    PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(results[0]));
    PyObject* const result = gotten == values ? PyObject_Vectorcall(type, items, size_t(values), nullptr) : nullptr;
    for (Py_ssize_t k = 0; k < gotten; ++k) Py_DECREF(items[k]);
    return result;
}

// Dispatches a call: over several devices if it has lists, or on this process's device if it has a
// tkjit.ParallelTensor.
inline PyObject* dispatch_parallel(Call& call, const Overload& overload, const Signature& signature, const Places& places) {
    auto** const given = call.values.make<PyObject*>(size_t(signature.count));
    if (!given || !bind(call, signature, given)) return nullptr;
    PyObject* const anchor = given[places.anchor];
    if (!PyList_Check(anchor) && !PyTuple_Check(anchor)) {
        if (given[places.club]) return refuse_call(call, "club= is for a call with lists; a ParallelTensor has one device here");
        return overload.call(call);
    }
    if (given[places.stream]) return refuse_call(call, "stream= is for one device; give a Club its streams");
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(anchor);
    if (count < 1 || count > kMaxParallelDevices) return refuse_call(call, "expected lists of 1 to 32 tensors");

    auto* const lists = call.values.make<TensorList>(size_t(signature.count));
    if (!lists || !read_lists(call, signature, given, int(count), lists)) return nullptr;
    const TensorList& parts = lists[places.anchor];
    int32_t devices[kMaxParallelDevices];
    for (int i = 0; i < count; ++i) devices[i] = parts.items[i].view.device;
    PyObject* const club =
        call.table.club(call.kernel, given[places.club], parts.items[0].view.device_type, devices, int(count));
    if (!club || !call.values.keep(club)) return nullptr;

    Step steps[kMaxParallelDevices];
    Batch own(steps);
    if (!call.batch) call.batch = &own;
    Batch& batch = *call.batch;
    batch.lists = lists;
    PyObject* results[kMaxParallelDevices] = {};
    const auto on_device = [&](int dev_idx) {
        auto** const args = call.values.make<PyObject*>(size_t(signature.count));
        if (!args) return;
        for (int i = 0; i < signature.count; ++i)
            args[i] = given[i] && signature.parameters[i].spread != Spread::same ? PyTuple_GET_ITEM(given[i], dev_idx) : given[i];
        args[places.club] = nullptr;
        args[places.stream] = call.table.club_stream(club, dev_idx);
        call.bound = args;
        call.dev_idx = dev_idx;
        results[dev_idx] = overload.call(call);
    };
    bool ok = true;
    for (int i = 0; i < count && ok; ++i) {
        on_device(i);
        ok = results[i] != nullptr;
    }
    batch.club = club;
    if (ok && !batch.collects && !call.prepares) ok = call.table.execute(call.kernel, club, batch.steps, batch.count, batch.tensors);
    PyObject* const result = ok ? gathered(call, results, int(count)) : nullptr;
    for (int i = 0; i < count; ++i) Py_XDECREF(results[i]);
    return result;
}

}  // namespace tkjit::glue
