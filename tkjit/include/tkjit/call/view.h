// A call's tensors as its checks see them. Independent of Python, because exported functions use it as well as glue.
#pragma once

#include <tkjit/arg.h>
#include <tkjit/expr.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace tkjit {

constexpr int kMaxDims = 4;               // of a global layout
constexpr int kMaxRank = TKJIT_MAX_RANK;  // of a strided layout
constexpr int64_t kUnbound = -1;

enum class DeviceType : int32_t { cpu, cuda, other };

// Reasons why a tensor cannot be passed to a kernel. A view without problems is strided, contiguous, plain memory.
enum Problem : uint32_t {
    kNotContiguous = 1 << 0,
    kRequiresGrad = 1 << 1,  // only while gradients are recorded
    kConjugate = 1 << 2,
    kNegative = 1 << 3,
    kNotStrided = 1 << 4,  // sparse, quantized, nested
    kMeta = 1 << 5,
    kNoStorage = 1 << 6,  // fake, functional and other wrapped tensors
    kTooManyDims = 1 << 7,
    kTooLarge = 1 << 8,  // an extent over 31 bits, if the kernel's fields hold extents as int
    kOtherDevice = 1 << 9,
    kNotATensor = 1 << 10,
    kFreed = 1 << 11,  // the storage was freed or shrunk under the tensor
    kWatched = 1 << 12,  // a torch subclass or mode must see the operation
    kAutocast = 1 << 13,  // a property of the thread, not of the tensor: torch.autocast is on
    kBackwards = 1 << 14,  // a negative stride
    kTooMuch = 1 << 15,    // more bytes than an address can count
};

// A snapshot of a tensor argument. It holds no reference, and the caller's code may still resize the tensor, so
// Table::confirm looks at `data` again before the launch.
struct TensorView {
    void* data = nullptr;
    size_t bytes = 0;  // from `data` to the end of the last element
    void* storage = nullptr;  // the c10::StorageImpl of a torch tensor, if the reader knows it
    int64_t sizes[kMaxRank];
    int64_t strides[kMaxRank];  // in elements; only set if `strided`
    int32_t ndim = 0;
    int32_t dtype = -1;  // TkjitDtype, -1 for any other dtype
    DeviceType device_type = DeviceType::cpu;
    int32_t device = 0;
    uint32_t problems = 0;
    bool foreign = false;  // an array of another framework
    bool read_only = false;
    bool strided = false;  // an instruction to the reader: accept any strides, and record them
    bool wide = false;     // an instruction to the reader: accept extents over 31 bits
    bool ran_code = false;  // Python code may have run while the tensor was read
    bool guarded = false;   // guard bytes follow it: an output on the CPU

    // The argument itself, its name, and the call's previous tensor. Set once the tensor has been accepted.
    void* object;  // a PyObject in Python's glue, a tkjit_tensor in an export
    const char* name;
    const TensorView* before;
};

// A dim as an error message shows it: its text in the spec, its value, and the argument that the value comes from.
struct Dim {
    const char* text;
    int64_t value;
    const char* by;

    Dim(const char* text, Int value = kUnbound, const char* by = nullptr) : text(text), value(value.value()), by(by) {}
};

// How a kernel uses a tensor argument. Messages suggest a copy only for `read`, because writes to a copy are lost. For
// `output` they suggest leaving it out, so that the call allocates it.
enum class Use { read, write, output };

// The dims that "..." has in this call. `count` is -1 until a tensor has set them.
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

// The expected properties of a tensor.
struct Expected {
    const Dim* dims;
    int count;
    const Leading* leading;  // the dims of the "..." before `dims`, or null if the spec has no "..."
    const char* dtypes;      // "float32 or bfloat16"
    const char* like;        // or: the argument whose dtype it must share
    int32_t like_dtype;
    Use use;
};

// The text of a launcher's error about extents, without its "shape: " prefix; null for any other error.
inline const char* about_shapes(const char* error) {
    static constexpr char mark[] = "shape: ";
    return std::strncmp(error, mark, sizeof mark - 1) == 0 ? error + sizeof mark - 1 : nullptr;
}

// ---- reading a view ------------------------------------------------------------------------------------------------

// Copies the sizes, because the tensor's own array may change or move before the launch.
inline void note_sizes(const int64_t* sizes, int32_t ndim, TensorView* view) {
    const int most = view->strided ? kMaxRank : kMaxDims;
    view->ndim = ndim;
    if (ndim > most) view->problems |= kTooManyDims;
    int64_t all = 0;
    for (int i = 0; i < ndim; ++i) {
        all |= sizes[i];
        if (i < most) view->sizes[i] = sizes[i];
    }
    if (all > INT32_MAX && !view->wide) view->problems |= kTooLarge;
}

// Records the strides, and returns the number of elements from the first to the last. Null strides mean row-major.
inline int64_t note_strides(const int64_t* strides, TensorView* view) {
    int64_t last = 0, next = 1, reach = 0;
    bool empty = false, wraps = false;
    for (int i = view->ndim; i-- > 0;) {
        view->strides[i] = strides ? strides[i] : next;
        if (view->strides[i] < 0 && view->sizes[i] > 1) view->problems |= kBackwards;
        wraps |= __builtin_mul_overflow(view->sizes[i] - 1, view->strides[i], &reach);
        wraps |= __builtin_add_overflow(last, reach, &last);
        empty |= view->sizes[i] == 0;
        wraps |= !strides && __builtin_mul_overflow(next, view->sizes[i], &next);
    }
    if (empty) return 0;
    if (wraps) view->problems |= kTooMuch;
    return last + !wraps;
}

// The bytes of `elements` elements. Records kTooMuch if their number does not fit in an address.
inline size_t noted_bytes(int64_t elements, int64_t bytes_of_one, TensorView* view) {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(elements, bytes_of_one, &bytes)) view->problems |= kTooMuch;
    return size_t(bytes);
}

// The number of elements of a row-major tensor.
inline int64_t noted_elements(const int64_t* sizes, int32_t ndim, TensorView* view) {
    int64_t elements = 1;
    bool wraps = false;
    for (int i = 0; i < ndim; ++i) {
        if (sizes[i] == 0) return 0;
        wraps |= __builtin_mul_overflow(elements, sizes[i], &elements);
    }
    if (wraps) view->problems |= kTooMuch;
    return elements;
}

// Whether the strides are row-major. Null strides count as row-major, and strides of extents of 1 do not matter.
inline bool is_contiguous(const int64_t* sizes, const int64_t* strides, int32_t ndim) {
    if (!strides) return true;
    uint64_t expected = 1;  // may wrap
    for (int i = ndim; i-- > 0; expected *= uint64_t(sizes[i])) {
        if (sizes[i] == 0) return true;
        if (sizes[i] != 1 && uint64_t(strides[i]) != expected) return false;
    }
    return true;
}

// Sets a launcher's argument to a tensor. It sets every member that is used, so that the caller need not clear its
// array of arguments first, which would take a tenth of a call's time.
inline void set(TkjitArg& arg, const TensorView& view) {
    arg.data = view.data;
    arg.dtype = view.dtype;
    arg.present = 1;
    arg.rank = view.ndim;
    if (!view.strided) {
        std::memcpy(arg.extents, view.sizes, kMaxDims * sizeof *arg.extents);  // copying too many does no harm
        if (!view.ndim) arg.extents[0] = 0;
        return;
    }
    std::memcpy(arg.extents, view.sizes, sizeof arg.extents);
    std::memcpy(arg.strides, view.strides, sizeof arg.strides);
}
inline void set(TkjitArg& arg, const TkjitArg& value) { arg = value; }
inline void set_number(TkjitArg& arg) {
    arg.rank = 0;
    arg.extents[0] = 0;
    arg.dtype = 0;
    arg.present = 1;
}
inline void set(TkjitArg& arg, double value) {
    arg.real = value;
    set_number(arg);
}
inline void set(TkjitArg& arg, int64_t value) {
    arg.integer = value;
    set_number(arg);
}
inline void set(TkjitArg& arg, bool value) { set(arg, int64_t(value)); }
inline void set_absent(TkjitArg& arg) { arg = {}; }
// Passes the address to which a host function writes a number.
inline void set_place(TkjitArg& arg, void* place) {
    arg.data = place;
    set_number(arg);
}

// ---- values --------------------------------------------------------------------------------------------------------

// Numbers, dtypes, devices, strings and lists as launcher arguments.
inline TkjitArg number_value(int64_t integer, int32_t dtype = 0) {
    TkjitArg arg{};
    arg.integer = integer;
    arg.dtype = dtype;
    arg.present = 1;
    return arg;
}
inline TkjitArg real_value(double real) {
    TkjitArg arg = number_value(0);
    arg.real = real;
    return arg;
}
inline TkjitArg text_value(const char* text) {
    TkjitArg arg = number_value(0);
    arg.data = const_cast<char*>(text);
    arg.extents[0] = int64_t(std::strlen(text));
    return arg;
}
template <size_t Count>
TkjitArg list_value(const TkjitArg (&items)[Count], int64_t count) {
    TkjitArg arg = number_value(0);
    arg.data = const_cast<TkjitArg*>(items);
    arg.extents[0] = count;
    return arg;
}

// The position of a text among the options, or -1.
inline int option_of(const TkjitArg& text, std::initializer_list<const char*> options) {
    int position = 0;
    for (const char* const option : options) {
        const auto length = size_t(text.extents[0]);
        if (std::strlen(option) == length && std::memcmp(option, text.data, length) == 0) return position;
        ++position;
    }
    return -1;
}

}  // namespace tkjit
