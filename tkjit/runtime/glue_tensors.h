// Rendered glue: a call's tensors, the constraints on them, and its outputs.
#pragma once

#include "glue_arguments.h"

#include <climits>
#include <new>

namespace tkjit::glue {

// ---- tensors -------------------------------------------------------------------------------------------------------

// A tensor among those that the launch uses: it lives as long as the call.
inline bool note(Call& call, const char* name, PyObject* object, TensorView& view) {
    view.name = name;
    view.object = object;
    view.before = call.tensors;
    call.tensors = &view;
    call.ran_code |= view.ran_code;
    return true;
}

inline bool aligned(const Call& call, const TensorView& view, unsigned bytes);

inline bool read(Call& call, const char* name, PyObject* object, TensorView& view) {
    if (!call.table.view(object, &view, &call.values)) view.problems = kNotATensor;
    if (!view.problems && view.dtype < TKJIT_COMPLEX64) return note(call, name, object, view);
    if (!view.problems)  // whose instructions need it
        return note(call, name, object, view) && aligned(call, view, view.dtype == TKJIT_COMPLEX64 ? 8 : 16);
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

// A list's tensors, each with its name for messages: "xs[2]".
struct TensorList {
    struct Item {
        TensorView view;
        PyObject* object;
        char name[64];
    };
    Item* items = nullptr;
    int count = 0;
};

inline bool read(Call& call, const char* name, PyObject* object, int most, TensorList& list) {
    if (!PyList_Check(object) && !PyTuple_Check(object)) return refuse_object(call, name, object, "a list of tensors");
    PyObject* const tensors = PySequence_Tuple(object);  // another thread may change the list during the call
    call.ran_code = true;                                // a list's own __iter__
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
        item.object = PyTuple_GET_ITEM(tensors, list.count);
        PyOS_snprintf(item.name, sizeof item.name, "%s[%d]", name, list.count);
        if (!read(call, item.name, item.object, item.view)) return false;
    }
    return true;
}

// What a tensor that was read is refused by: the dims, and the dtypes that are allowed. The result is the call's.
inline PyObject* mismatch(const Call& call, const TensorView& view, std::initializer_list<Dim> dims, bool leading,
                          const char* dtypes) {
    const Expected expected{dims.begin(), int(dims.size()), leading, dtypes, nullptr, -1};
    if (!call.quiet) call.table.refuse_mismatch(call.kernel, view.name, view.object, view, expected);
    return nullptr;
}

// The dims, and the argument whose dtype it must share, or that says it.
inline PyObject* mismatch(const Call& call, const TensorView& view, std::initializer_list<Dim> dims, bool leading,
                          const char* like, int64_t dtype) {
    const Expected expected{dims.begin(), int(dims.size()), leading, nullptr, like, int32_t(dtype)};
    if (!call.quiet) call.table.refuse_mismatch(call.kernel, view.name, view.object, view, expected);
    return nullptr;
}
inline PyObject* mismatch(const Call& call, const TensorView& view, std::initializer_list<Dim> dims, bool leading,
                          const char* like, const TensorView& other) {
    return mismatch(call, view, dims, leading, like, int64_t(other.dtype));
}

inline bool same_device(const Call& call, const char* name, const TensorView& view, const char* other,
                        const TensorView& other_view) {
    if (view.device_type == other_view.device_type && view.device == other_view.device) return true;
    if (!call.quiet) call.table.refuse_device(call.kernel, name, view.object, other, other_view.object);
    return false;
}

inline bool is_on(const Call& call, const char* name, const TensorView& view, const TensorView& on) {
    if (view.device_type == on.device_type && view.device == on.device) return true;
    if (!call.quiet) call.table.refuse_place(call.kernel, name, view.object, on);
    return false;
}

// Where a call runs that brings no tensor.
inline bool place(const Call& call, const char* name, const TkjitArg& device, TensorView& on) {
    if (call.table.place(call.kernel, name, device, &on)) return true;
    if (call.quiet && !is_not_ours()) PyErr_Clear();
    return false;
}

inline bool aligned(const Call& call, const TensorView& view, unsigned bytes) {
    if (reinterpret_cast<uintptr_t>(view.data) % bytes == 0) return true;
    if (!call.quiet)
        PyErr_Format(call.table.argument_error,
                     "%s: %s starts at an address that is not a multiple of %u bytes (a view with an offset?); "
                     "pass %s.clone()", call.kernel, view.name, bytes, view.name);
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

// Where a tensor's memory ends.
inline uintptr_t end_of(const TensorView& view) {
    return reinterpret_cast<uintptr_t>(view.data) + view.bytes;
}

inline bool shares_memory(const Call& call, const TensorView& view, const TensorView& other) {
    const auto begin = reinterpret_cast<uintptr_t>(view.data), other_begin = reinterpret_cast<uintptr_t>(other.data);
    if (!begin || !other_begin) return false;  // one that was not given, or is empty
    const uintptr_t end = end_of(view), other_end = end_of(other);
    const bool interleaved = begin < other_end && other_begin < end && begin != end && other_begin != other_end;
    return interleaved && (!(view.strided || other.strided) || call.table.overlap(view, other));
}

// All of it, element by element.
inline bool is_same_memory(const TensorView& view, const TensorView& other) {
    if (view.data != other.data || end_of(view) != end_of(other)) return false;
    if (!view.strided && !other.strided) return true;
    if (view.ndim != other.ndim) return false;
    int64_t next = 1;
    for (int i = view.ndim; i-- > 0; next *= view.sizes[i]) {
        if (view.sizes[i] != other.sizes[i]) return false;
        const int64_t stride = view.strided ? view.strides[i] : next, other_stride = other.strided ? other.strides[i] : next;
        if (view.sizes[i] != 1 && stride != other_stride) return false;
    }
    return true;
}

// A given output must not share memory with an argument: what the kernel has yet to read would be overwritten.
inline bool apart(const Call& call, const char* name, const TensorView& view, const char* other, const TensorView& other_view) {
    if (!shares_memory(call, view, other_view)) return true;
    if (!call.quiet)
        PyErr_Format(call.table.argument_error, "%s: the output %s shares memory with %s; give it memory of its own",
                     call.kernel, name, other);
    return false;
}

inline bool apart(const Call& call, const char* name, const TensorView& view, const char*, const TensorList& others) {
    for (int i = 0; i < others.count; ++i)
        if (!apart(call, name, view, others.items[i].name, others.items[i].view)) return false;
    return true;
}

// What is written in place may be an argument twice, but must not share a part of one: as torch's own operators.
inline bool whole_or_apart(const Call& call, const char* name, const TensorView& view, const char* other,
                           const TensorView& other_view) {
    if (!shares_memory(call, view, other_view) || is_same_memory(view, other_view)) return true;
    if (!call.quiet)
        PyErr_Format(call.table.argument_error,
                     "%s: unsupported operation: %s, which is written to, shares some of its memory with %s, and not all; "
                     "pass %s.clone()",
                     call.kernel, name, other, other);
    return false;
}

inline bool whole_or_apart(const Call& call, const char* name, const TensorView& view, const char*, const TensorList& others) {
    for (int i = 0; i < others.count; ++i)
        if (!whole_or_apart(call, name, view, others.items[i].name, others.items[i].view)) return false;
    return true;
}

template <class Other>
bool whole_or_apart(const Call& call, const char*, const TensorList& list, const char* other, const Other& others) {
    for (int i = 0; i < list.count; ++i)
        if (!whole_or_apart(call, list.items[i].name, list.items[i].view, other, others)) return false;
    return true;
}

inline bool empty(const TensorView& view) {
    for (int i = 0; i < view.ndim; ++i)
        if (view.sizes[i] == 0) return true;
    return false;
}

inline bool empty(const TensorList& list) {
    for (int i = 0; i < list.count; ++i)
        if (!empty(list.items[i].view)) return false;
    return true;
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

// Whether an extent is what a dim that is computed has to be.
inline bool equals(int64_t extent, Int dim) {
    return dim.valid() && extent == dim.value();
}

inline PyObject* unsatisfied(const Call& call, const char* text, std::initializer_list<Dim> values,
                             const char* how = "does not hold") {
    if (call.quiet) return nullptr;
    char where[256] = "";
    size_t used = 0;
    for (const Dim& dim : values)
        if (used < sizeof where)
            used += PyOS_snprintf(where + used, sizeof where - used, "%s%s=%lld", used ? ", " : "", dim.text,
                                  static_cast<long long>(dim.value));
    PyErr_Format(call.table.shape_error, "%s: the constraint %s %s (%s)", call.kernel, text, how, where);
    return nullptr;
}

inline bool satisfied(const Call& call, Int holds, const char* text, std::initializer_list<Dim> values) {
    if (holds.valid() && holds.value()) return true;
    unsatisfied(call, text, values, holds.valid() ? "does not hold" : "overflows or divides by zero");
    return false;
}

// An output's sizes, from its dims.
struct Shape {
    int64_t sizes[kMaxRank];
    int count = 0;

    // `what` is for messages: "output y".
    bool compute(const Call& call, const char* what, const Leading& leading, std::initializer_list<Int> dims) {
        const long long most = int(dims.size()) > kMaxDims ? kMaxRank : kMaxDims;  // a strided layout's, which has no others
        for (int i = 0; i < leading.count && count < most; ++i) sizes[count++] = leading.sizes[i];
        for (const Int dim : dims) {
            if (dim.valid() && dim.value() >= 0 && dim.value() <= INT32_MAX && count < most) {
                sizes[count++] = dim.value();
                continue;
            }
            if (!call.quiet)
                PyErr_Format(call.table.shape_error,
                             count == most ? "%s: the %s would have more than %lld dimensions"
                                           : "%s: an extent of the %s would be %lld",
                             call.kernel, what, count == most ? most : static_cast<long long>(dim.value()));
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
    PyObject* get() const { return object_; }
    PyObject* release() {
        PyObject* const object = object_;
        object_ = nullptr;
        return object;
    }

private:
    PyObject* object_ = nullptr;
};

// A new output: the object, and the view that the launcher gets.
inline bool allocate(Call& call, const char* name, Object& object, TensorView& view, const Shape& shape, int32_t dtype,
                     const TensorView& like) {
    call.ran_code = true;  // torch releases the GIL, and the collector may run
    PyObject* const tensor = call.table.empty(shape.sizes, shape.count, dtype, like);
    if (!tensor) return false;
    object.own(tensor);
    if (call.prepares && PyList_Append(call.batch->written, tensor) != 0) return false;
    return call.table.view(tensor, &view, &call.values) && note(call, name, tensor, view);
}

// The random numbers of a call, of which each thread takes `draws`.
inline bool random(const Call& call, const char* name, PyObject* generator, Int draws, const TensorView& on, TkjitArg& arg) {
    if (call.prepares) {
        PyErr_Format(call.table.argument_error, "%s: %s: each launch draws random numbers of its own, and cannot be prepared",
                     call.kernel, name);
        return false;
    }
    if (draws.valid() && draws.value() >= 0) return call.table.random(call.kernel, name, generator, draws.value(), on, &arg);
    PyErr_Format(call.table.shape_error, "%s: %s: a thread would draw %lld numbers", call.kernel, name,
                 static_cast<long long>(draws.value()));
    return false;
}

// Scratch: as an output, but let go of when the call is over. Launches that are made later need it until then.
inline bool allocate_scratch(Call& call, const char* name, Object& object, TensorView& view, const Shape& shape, int32_t dtype,
                             const TensorView& like) {
    if (!allocate(call, name, object, view, shape, dtype, like)) return false;
    if (!call.batch) return true;
    if (!call.batch->held && !(call.batch->held = PyList_New(0))) return false;
    return PyList_Append(call.batch->held, object.get()) == 0;
}

// An output as an array of the caller's framework, where that is not torch.
inline bool as_given(Call& call, Object& object, const TensorView& like) {
    if (!like.foreign) return true;
    if (call.batch && call.batch->lists) {  // nothing is launched yet
        auto* const later = call.values.make<Conversion>(1);
        if (!later) return false;
        *later = {object.get(), like.object, call.batch->conversions};
        call.batch->conversions = later;
        return true;
    }
    PyObject* const array = call.table.as_array(object.get(), like.object);
    if (!array) return false;
    Py_DECREF(object.release());
    object.own(array);
    return true;
}

// What a kernel writes to must not be read-only, as some arrays of NumPy's are, and all of JAX's.
inline bool writable(const Call& call, const TensorView& view) {
    if (!view.read_only) return true;
    if (!call.quiet)
        PyErr_Format(call.table.argument_error, "%s: %s is a read-only array, and the kernel writes to it; pass a copy",
                     call.kernel, view.name);
    return false;
}

// Of what is written each element has a place of its own; an expanded view has one for many.
inline bool distinct(const Call& call, const TensorView& view) {
    if (!call.table.overlaps_itself(view)) return true;
    if (!call.quiet)
        PyErr_Format(call.table.argument_error,
                     "%s: the kernel writes to %s, whose strides put several elements at one place (an expanded view?); "
                     "pass %s.clone()", call.kernel, view.name, view.name);
    return false;
}

}  // namespace tkjit::glue
