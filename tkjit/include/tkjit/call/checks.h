// The checks of a call's tensors and of the shapes that it computes. Rendered code calls them, both in Python's glue and
// in exports, so each check and the format of its message is written once, here.
//
// `Call` is the caller's type. It has the call's `kernel`, the flag `quiet`, the storage `values`, and reports errors by:
//     refuse(kind, format, ...)                    any error; puts the kernel's name in front
//     refuse_mismatch(view, expected)              a tensor with wrong extents or a wrong dtype
//     refuse_device(view, other_view)              a tensor on another device than the first tensor
//     refuse_place(view, on)                       a tensor that is not where the call runs
//     refuse_constraint(text, how, values, count)
// A check that fails returns false or null. It has reported the error by then, unless the call is quiet.
#pragma once

#include <tkjit/call/view.h>

#include <initializer_list>

namespace tkjit {

// The Python exception that an error becomes (tkjit/errors.py), and the value of tkjit_error_kind() in C.
enum class Refusal { argument = 1, shape = 2 };

// The tensors of a list, each with its name for messages: "xs[2]". An absent item has a null object and an empty view.
struct TensorList {
    struct Item {
        TensorView view;
        void* object;
        char name[64];
    };
    Item* items = nullptr;
    int count = 0;
    const Item* first = nullptr;  // the first that is present
};

template <class Call>
bool set(TkjitArg& arg, const TensorList& list, Call& call) {
    auto* const items = call.values.template make<TkjitArg>(size_t(list.count));
    if (!items) return false;
    for (int i = 0; i < list.count; ++i) list.items[i].object ? set(items[i], list.items[i].view) : void(items[i] = {});
    arg = {};
    arg.data = items;
    arg.extents[0] = list.count;
    arg.present = 1;
    return true;
}

// ---- each tensor ---------------------------------------------------------------------------------------------------

// Reports a tensor that has the wrong dims or a dtype that is not allowed. Returns null, which the caller also returns.
template <class Call>
[[gnu::cold, gnu::noinline]] std::nullptr_t mismatch(const Call& call, const TensorView& view, std::initializer_list<Dim> dims,
                        const Leading* leading, Use use, const char* dtypes) {
    if (!call.quiet) call.refuse_mismatch(view, Expected{dims.begin(), int(dims.size()), leading, dtypes, nullptr, -1, use});
    return nullptr;
}

// Reports a tensor that has the wrong dims, or whose dtype differs from that of the argument `like`.
template <class Call>
[[gnu::cold, gnu::noinline]] std::nullptr_t mismatch(const Call& call, const TensorView& view, std::initializer_list<Dim> dims,
                        const Leading* leading, Use use, const char* like, int64_t dtype) {
    if (!call.quiet)
        call.refuse_mismatch(view, Expected{dims.begin(), int(dims.size()), leading, nullptr, like, int32_t(dtype), use});
    return nullptr;
}
template <class Call>
[[gnu::cold, gnu::noinline]] std::nullptr_t mismatch(const Call& call, const TensorView& view, std::initializer_list<Dim> dims,
                        const Leading* leading, Use use, const char* like, const TensorView& other) {
    return mismatch(call, view, dims, leading, use, like, int64_t(other.dtype));
}

template <class Call>
bool same_device(const Call& call, const TensorView& view, const TensorView& other) {
    if (view.device_type == other.device_type && view.device == other.device) return true;
    if (!call.quiet) call.refuse_device(view, other);
    return false;
}

template <class Call>
bool is_on(const Call& call, const TensorView& view, const TensorView& on) {
    if (view.device_type == on.device_type && view.device == on.device) return true;
    if (!call.quiet) call.refuse_place(view, on);
    return false;
}

template <class Call>
bool aligned(const Call& call, const TensorView& view, unsigned bytes) {
    if (reinterpret_cast<uintptr_t>(view.data) % bytes == 0) return true;
    if (!call.quiet)
        call.refuse(Refusal::argument,
                    "%s starts at an address that is not a multiple of %u bytes (a view with an offset?); pass a copy of %s",
                    view.name, bytes, view.name);
    return false;
}

// Checks the alignment that load and store instructions need for a complex number.
template <class Call>
bool naturally_aligned(const Call& call, const TensorView& view) {
    if (view.dtype == TKJIT_COMPLEX64) return aligned(call, view, 8);
    return view.dtype != TKJIT_COMPLEX128 || aligned(call, view, 16);
}

// Rejects read-only arrays that the kernel writes to. Some NumPy arrays and all JAX arrays are read-only.
template <class Call>
bool writable(const Call& call, const TensorView& view) {
    if (!view.read_only) return true;
    if (!call.quiet)
        call.refuse(Refusal::argument, "%s is a read-only array, and the kernel writes to it; pass a copy", view.name);
    return false;
}

// Rejects tensors that the kernel writes to if several elements share an address, as in an expanded view.
template <class Call>
bool distinct(const Call& call, const TensorView& view) {
    if (!call.overlaps_itself(view)) return true;
    if (!call.quiet)
        call.refuse(Refusal::argument,
                    "the kernel writes to %s, whose strides put several elements at one address (an expanded view?); "
                    "pass a copy of %s",
                    view.name, view.name);
    return false;
}

inline bool empty(const TensorView& view) {
    for (int i = 0; i < view.ndim; ++i)
        if (view.sizes[i] == 0) return true;
    return false;
}

inline bool empty(const TensorList& list) {
    for (int i = 0; i < list.count; ++i)
        if (list.items[i].object && !empty(list.items[i].view)) return false;
    return true;
}

// ---- memory that is shared -----------------------------------------------------------------------------------------

// The end of a tensor's memory.
inline uintptr_t end_of(const TensorView& view) {
    return reinterpret_cast<uintptr_t>(view.data) + view.bytes;
}

template <class Call>
bool shares_memory(const Call& call, const TensorView& view, const TensorView& other) {
    const auto begin = reinterpret_cast<uintptr_t>(view.data), other_begin = reinterpret_cast<uintptr_t>(other.data);
    if (!begin || !other_begin) return false;  // absent or empty
    const uintptr_t end = end_of(view), other_end = end_of(other);
    const bool interleaved = begin < other_end && other_begin < end && begin != end && other_begin != other_end;
    return interleaved && (!(view.strided || other.strided) || call.overlap(view, other));
}

// Whether both tensors have the same elements at the same addresses.
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

// An output that the caller passes must not share memory with an argument: the kernel could overwrite unread elements.
template <class Call>
bool apart(const Call& call, const char* name, const TensorView& view, const char* other, const TensorView& other_view) {
    if (!shares_memory(call, view, other_view)) return true;
    if (!call.quiet)
        call.refuse(Refusal::argument, "the output %s shares memory with %s; give it its own memory", name, other);
    return false;
}

template <class Call>
bool apart(const Call& call, const char* name, const TensorView& view, const char*, const TensorList& others) {
    for (int i = 0; i < others.count; ++i)
        if (others.items[i].object && !apart(call, name, view, others.items[i].name, others.items[i].view)) return false;
    return true;
}

// A tensor that is written in place may be passed twice, but must not share only a part of its memory with another
// argument. torch's operators have the same rule.
template <class Call>
bool whole_or_apart(const Call& call, const char* name, const TensorView& view, const char* other,
                    const TensorView& other_view) {
    if (!shares_memory(call, view, other_view) || is_same_memory(view, other_view)) return true;
    if (!call.quiet)
        call.refuse(Refusal::argument,
                    "unsupported operation: %s, which is written to, shares some but not all of its memory with %s; "
                    "pass a copy of %s",
                    name, other, other);
    return false;
}

template <class Call>
bool whole_or_apart(const Call& call, const char* name, const TensorView& view, const char*, const TensorList& others) {
    for (int i = 0; i < others.count; ++i)
        if (others.items[i].object && !whole_or_apart(call, name, view, others.items[i].name, others.items[i].view)) return false;
    return true;
}

template <class Call, class Other>
bool whole_or_apart(const Call& call, const char*, const TensorList& list, const char* other, const Other& others) {
    for (int i = 0; i < list.count; ++i)
        if (list.items[i].object && !whole_or_apart(call, list.items[i].name, list.items[i].view, other, others)) return false;
    return true;
}

// ---- dims ----------------------------------------------------------------------------------------------------------

// batch, depth, rows, cols and numel of a tensor, for expressions.
inline int64_t extent(const TensorView& view, int axis) {
    const int dim = view.ndim - kMaxDims + axis;
    return dim < 0 ? 1 : view.sizes[dim];
}
inline Int numel(const TensorView& view) {
    Int product = 1;
    for (int i = 0; i < view.ndim; ++i) product = product * view.sizes[i];
    return product;
}

// Whether an extent equals a computed dim.
inline bool equals(int64_t extent, Int dim) {
    return dim.valid() && extent == dim.value();
}

template <class Call>
[[gnu::cold, gnu::noinline]] std::nullptr_t unsatisfied(const Call& call, const char* text, std::initializer_list<Dim> values,
                           const char* how = "does not hold") {
    if (!call.quiet) call.refuse_constraint(text, how, values.begin(), int(values.size()));
    return nullptr;
}

template <class Call>
bool satisfied(const Call& call, Int holds, const char* text, std::initializer_list<Dim> values) {
    if (holds.valid() && holds.value()) return true;
    unsatisfied(call, text, values, holds.valid() ? "does not hold" : "overflows or divides by zero");
    return false;
}

// The value of a computed dim that chooses a variant; if it is invalid, a number that is no option.
inline int64_t value_or_least(Int value) { return value.valid() ? value.value() : INT64_MIN; }

// The sizes of an output, computed from its dims.
struct Shape {
    int64_t sizes[kMaxRank];
    int count = 0;
    bool wide = false;  // extents may exceed 31 bits

    // `what` is for messages: "output y".
    template <class Call>
    bool compute(const Call& call, const char* what, const Leading& leading, std::initializer_list<Int> dims) {
        const int most = int(dims.size()) > kMaxDims ? kMaxRank : kMaxDims;  // only a strided layout has more than kMaxDims
        for (int i = 0; i < leading.count && count < most; ++i) sizes[count++] = leading.sizes[i];
        for (const Int dim : dims) {
            if (dim.valid() && dim.value() >= 0 && (wide || dim.value() <= INT32_MAX) && count < most) {
                sizes[count++] = dim.value();
                continue;
            }
            if (call.quiet) return false;
            if (count == most) call.refuse(Refusal::shape, "the %s would have more than %d dimensions", what, most);
            else call.refuse(Refusal::shape, "an extent of the %s would be %lld", what, static_cast<long long>(dim.value()));
            return false;
        }
        return true;
    }
    bool matches(const TensorView& view) const {
        return view.ndim == count && std::memcmp(view.sizes, sizes, count * sizeof *sizes) == 0;
    }
};

}  // namespace tkjit
