// For rendered glue: a call's tensors, outputs and random numbers.
#pragma once

#include "glue_arguments.h"

#include <climits>
#include <new>

namespace tkjit::glue {

// ---- tensors -------------------------------------------------------------------------------------------------------

// Adds a tensor to the tensors that the launch uses. The view must live as long as the call.
inline bool note(Call& call, const char* name, PyObject* object, TensorView& view) {
    view.name = name;
    view.object = object;
    view.before = call.tensors;
    call.tensors = &view;
    call.ran_code |= view.ran_code;
    return true;
}

inline bool read(Call& call, const char* name, PyObject* object, TensorView& view) {
    if (!call.table.view(object, &view, &call.values)) view.problems = kNotATensor;
    if (!view.problems) return note(call, name, object, view) && naturally_aligned(call, view);
    if (is_not_ours()) return false;
    if (view.problems & call.detours) {
        call.detour = true;
        return false;
    }
    view.problems &= ~call.ignored;
    if (!view.problems) return note(call, name, object, view);
    if (!call.quiet) call.table.refuse_tensor(call.kernel, name, object, view);
    else PyErr_Clear();
    return false;
}

inline bool read(Call& call, const char* name, PyObject* object, int most, bool takes_none, TensorList& list) {
    if (!PyList_Check(object) && !PyTuple_Check(object)) return refuse_object(call, name, object, "a list of tensors");
    PyObject* const tensors = PySequence_Tuple(object);  // another thread may change the list during the call
    call.ran_code = true;                                // a list's class may have its own __iter__
    if (!tensors || !call.values.keep(tensors)) return false;
    const Py_ssize_t count = PyTuple_GET_SIZE(tensors);
    if (count < 1 || count > most) {
        char expected[64];
        PyOS_snprintf(expected, sizeof expected, most == INT_MAX ? "at least 1 tensor" : "1 to %d tensors", most);
        return refuse_object(call, name, object, expected);
    }
    list.items = call.values.make<TensorList::Item>(size_t(count));
    if (!list.items) return false;
    for (; list.count < count; ++list.count) {
        TensorList::Item& item = list.items[list.count];
        new (&item.view) TensorView;
        PyObject* const tensor = PyTuple_GET_ITEM(tensors, list.count);
        PyOS_snprintf(item.name, sizeof item.name, "%s[%d]", name, list.count);
        if (takes_none && tensor == Py_None) continue;
        item.object = tensor;
        if (!read(call, item.name, tensor, item.view)) return false;
        if (!list.first) list.first = &item;
    }
    return list.first || refuse_object(call, name, object, "a list with a tensor that is not None");
}

// Finds the device for a call without tensors.
inline bool place(const Call& call, const char* name, const TkjitArg& device, TensorView& on) {
    if (call.table.place(call.kernel, name, device, &on)) return true;
    if (call.quiet && !is_not_ours()) PyErr_Clear();
    return false;
}

// Owns a reference.
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
    PyObject* get() const { return object_; }
    PyObject* release() {
        PyObject* const object = object_;
        object_ = nullptr;
        return object;
    }

private:
    PyObject* object_ = nullptr;
};

// Allocates an output, and sets its object and the view that the launcher gets.
inline bool allocate(Call& call, const char* name, Object& object, TensorView& view, const Shape& shape, int32_t dtype,
                     const TensorView& like) {
    call.ran_code = true;  // torch releases the GIL, and the garbage collector may run
    bool guarded = false;
    PyObject* const tensor = call.table.empty(shape.sizes, shape.count, dtype, like, &guarded);
    if (!tensor) return false;
    object.own(tensor);
    if (call.prepares && PyList_Append(call.batch->written, tensor) != 0) return false;
    if (!call.table.view(tensor, &view, &call.values)) return false;
    view.guarded = guarded;
    return note(call, name, tensor, view);
}

// Reserves random numbers for a call, `draws` for each thread.
inline bool random(const Call& call, const char* name, PyObject* generator, Int draws, const TensorView& on, TkjitArg& arg) {
    if (call.prepares) {
        call.refuse(Refusal::argument, "%s: each launch draws new random numbers, so it cannot be prepared", name);
        return false;
    }
    if (draws.valid() && draws.value() >= 0) return call.table.random(call.kernel, name, generator, draws.value(), on, &arg);
    call.refuse(Refusal::shape, "%s: a thread would draw %lld numbers", name, static_cast<long long>(draws.value()));
    return false;
}

// Allocates scratch memory. It is like an output, but is released after the call or, for later launches, once they are
// made.
inline bool allocate_scratch(Call& call, const char* name, Object& object, TensorView& view, const Shape& shape, int32_t dtype,
                             const TensorView& like) {
    if (!allocate(call, name, object, view, shape, dtype, like)) return false;
    if (!call.batch) return true;
    if (!call.batch->held && !(call.batch->held = PyList_New(0))) return false;
    return PyList_Append(call.batch->held, object.get()) == 0;
}

// Converts an output to an array from the caller's framework, if that is not torch.
inline bool as_given(Call& call, Object& object, const TensorView& like) {
    if (!like.foreign) return true;
    if (call.batch && call.batch->lists) {  // nothing is launched yet
        auto* const later = call.values.make<Conversion>(1);
        if (!later) return false;
        *later = {object.get(), object_of(like), call.batch->conversions};
        call.batch->conversions = later;
        return true;
    }
    PyObject* const array = call.table.as_array(object.get(), object_of(like));
    if (!array) return false;
    Py_DECREF(object.release());
    object.own(array);
    return true;
}

}  // namespace tkjit::glue
