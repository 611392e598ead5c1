// Reads the arguments of a call: tensors, lists of tensors, numbers and other values.
#pragma once

#include <tkjit/export/call_state.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <new>
#include <type_traits>

namespace tkjit::exported {

// ---- tensors -------------------------------------------------------------------------------------------------------

// Rejects an invalid tensor.
inline bool refuse_tensor(const Call& call, const char* name, const tkjit_tensor& tensor) {
    call.fail(TKJIT_ARGUMENT_ERROR, std::string(call.kernel) + ": " + name + " is " + problem_of(tensor));
    return false;
}

inline bool read(const Call& call, const char* name, const tkjit_tensor* given, TensorView& view) {
    view.name = name;
    view.object = const_cast<tkjit_tensor*>(given);
    if (!given) return call.refuse(Refusal::argument, "the argument %s is missing", name), false;
    if (const bool is_plain = given->abi == TKJIT_TENSOR_ABI && !is_freed(*given) && uint32_t(given->ndim) <= TKJIT_MAX_NDIM &&
                              uint32_t(given->dtype) < TKJIT_DTYPE_COUNT;
        !is_plain)
        return refuse_tensor(call, name, *given);
    for (int i = 0; i < given->ndim; ++i)
        if (given->sizes[i] < 0) return refuse_tensor(call, name, *given);
    view.dtype = given->dtype;
    view.device_type = given->device.type == TKJIT_CPU ? DeviceType::cpu : given->device.type == TKJIT_CUDA ? DeviceType::cuda : DeviceType::other;
    view.device = view.device_type == DeviceType::cpu ? 0 : given->device.index;
    view.read_only = given->read_only;
    if (view.device_type == DeviceType::other) view.problems |= kOtherDevice;
    note_sizes(given->sizes, given->ndim, &view);
    if (view.strided) {
        if (!view.problems) view.bytes = noted_bytes(note_strides(given->strides, &view), bytes_of(view.dtype), &view);
    } else {
        if (!is_contiguous(given->sizes, given->strides, given->ndim)) view.problems |= kNotContiguous;
        view.bytes = noted_bytes(noted_elements(given->sizes, given->ndim, &view), bytes_of(view.dtype), &view);
    }
    if (view.problems) {
        bool shape = false;
        const std::string who = std::string(call.kernel) + ": " + name + " is " + text_of(*given);
        std::string text = texts::of_array(view, who, &shape);
        if (is_for_torch && view.problems == kNotContiguous)
            text = texts::not_contiguous(who, name, texts::tuple(given->strides, given->ndim));
        call.fail(shape ? TKJIT_SHAPE_ERROR : TKJIT_ARGUMENT_ERROR, text);
        return false;
    }
    view.data = view.bytes ? given->data : nullptr;
    if (view.bytes && !view.data) return refuse_object(call, name, text_of(*given) + " without memory: its data is null", "a tensor");
    return aligned(call, view, unsigned(bytes_of(view.dtype)));
}

struct Tensors {
    const tkjit_tensor* const* items;
    int64_t count;
};

inline bool read(Call& call, const char* name, Tensors given, int most, bool takes_none, TensorList& list) {
    if (given.count < 1 || given.count > most || !given.items) {
        const std::string expected = most == INT_MAX ? "at least 1 tensor" : "1 to " + std::to_string(most) + " tensors";
        return refuse_object(call, name, given.items ? std::to_string(given.count) + " tensors" : "null", expected.c_str());
    }
    list.items = call.values.make<TensorList::Item>(size_t(given.count));
    for (; list.count < given.count; ++list.count) {
        TensorList::Item& item = list.items[list.count];
        new (&item.view) TensorView;
        std::snprintf(item.name, sizeof item.name, "%s[%d]", name, list.count);
        const tkjit_tensor* const tensor = given.items[list.count];
        if (takes_none && !tensor) continue;
        item.object = const_cast<tkjit_tensor*>(tensor);
        if (!read(call, item.name, tensor, item.view)) return false;
        if (!list.first) list.first = &item;
    }
    return list.first || refuse_object(call, name, "a list of nulls", "a list with a tensor");
}

inline tkjit_device device_of(const TensorView& view) {
    return {view.device_type == DeviceType::cpu ? TKJIT_CPU : TKJIT_CUDA, view.device};
}

// ---- numbers and values --------------------------------------------------------------------------------------------

// Wraps a number that was passed by value so that it can be used like a pointer, because read() accepts both.
template <class T>
struct Given {
    T value;
    explicit operator bool() const { return true; }
    const T& operator*() const { return value; }
};

inline std::string shown(int64_t value) { return std::to_string(value) + " (int)"; }

template <class Source>
bool read(const Call&, const char*, const Source& given, double& value) {
    value = *given;
    return true;
}
template <class Source>
bool read(const Call&, const char*, const Source& given, bool& value) {
    value = *given;
    return true;
}
template <class Source>
bool read(const Call& call, const char* name, const Source& given, int64_t& value, int64_t low, int64_t high) {
    value = *given;
    if (value >= low && value <= high) return true;
    const std::string expected = "an int from " + std::to_string(low) + " to " + std::to_string(high);
    return refuse_object(call, name, shown(value), expected.c_str());
}

inline TkjitArg value_of(int64_t number) { return number_value(number); }
inline TkjitArg value_of(double number) { return real_value(number); }
inline TkjitArg value_of(bool truth) { return number_value(truth); }
inline TkjitArg value_of(const char* text) { return text_value(text); }

// A dtype argument, which chooses a variant or is passed on, and a device argument.
struct Dtype {
    tkjit_dtype value;
    explicit operator bool() const { return true; }
};
struct Place {
    tkjit_device value;
    explicit operator bool() const { return true; }
};
template <class T>
struct Items {
    const T* items;
    int64_t count;
    explicit operator bool() const { return items; }
};

inline bool read(const Call& call, const char* name, const char* given, const char*, const char* expected, int64_t, TkjitArg& arg) {
    if (!given) return refuse_object(call, name, "null", expected);
    arg = text_value(given);
    return true;
}
inline bool read(const Call& call, const char* name, Dtype given, const char*, const char*, int64_t, TkjitArg& arg) {
    if (given.value < 0 || given.value >= TKJIT_DTYPE_COUNT)
        return refuse_object(call, name, "the unknown dtype " + std::to_string(given.value), "a dtype");
    arg = number_value(given.value);
    return true;
}
inline bool read(const Call& call, const char* name, Place given, const char*, const char* expected, int64_t, TkjitArg& arg) {
    const tkjit_device device = given.value;
    if (device.type != TKJIT_CPU && device.type != TKJIT_CUDA) return refuse_object(call, name, device_text(device), expected);
    arg = number_value(device.index, device.type);
    return true;
}
// Whether a list with this type code (tkjit/spec/values.py) accepts a number: the items of Lj have 32 bits.
inline bool is_taken(const char* code, int64_t number) { return code[1] != 'j' || number == int32_t(number); }
template <class T>
bool read(Call& call, const char* name, Items<T> given, [[maybe_unused]] const char* code, const char* expected, int64_t most, TkjitArg& arg) {
    if (given.count < 0 || (given.count && !given.items))
        return refuse_object(call, name, given.items ? std::to_string(given.count) + " items" : "null", expected);
    if (most && given.count > most)
        return refuse_object(call, name, std::to_string(given.count) + " items", ("at most " + std::to_string(most) + " items").c_str());
    auto* const items = call.values.make<TkjitArg>(size_t(given.count));
    for (int64_t i = 0; i < given.count; ++i) {
        if constexpr (std::is_same_v<T, int64_t>)
            if (!is_taken(code, given.items[i])) return refuse_object(call, name, "with the item " + shown(given.items[i]), expected);
        items[i] = value_of(given.items[i]);
    }
    arg = number_value(0);
    arg.data = items;
    arg.extents[0] = given.count;
    return true;
}
inline bool refuse_object(const Call& call, const char* name, Dtype given, const char* expected) {
    return refuse_object(call, name, std::string(dtype_name(given.value)) + " (tkjit_dtype)", expected);
}

inline bool refuse_text(const Call& call, const char* name, const char* given, const char* expected) {
    return refuse_object(call, name, given ? "'" + std::string(given) + "' (str)" : "null", expected);
}

// The device of a call without tensors.
inline bool place(const Call& call, const char* name, const TkjitArg& device, TensorView& on) {
    on.name = name;
    on.device_type = device.dtype == TKJIT_CPU ? DeviceType::cpu : DeviceType::cuda;
    on.device = on.device_type == DeviceType::cpu ? 0 : int32_t(device.integer);
    if (on.device < 0) return refuse_object(call, name, "cuda without an index", "cpu or cuda:0");
    return true;
}

// The random numbers of a call: a seed, and the position in its sequence at which the call begins.
struct Seed {
    uint64_t seed, offset;
};
inline bool random(const Call& call, const char* name, Seed given, Int draws, const TensorView&, TkjitArg& arg) {
    if (!draws.valid() || draws.value() < 0) {
        call.refuse(Refusal::shape, "%s: a thread would draw %lld numbers", name, static_cast<long long>(draws.value()));
        return false;
    }
    if (given.offset % 4) return refuse_object(call, name, shown(int64_t(given.offset)), "an offset that is a multiple of 4");
    arg = number_value(int64_t(given.seed));
    arg.extents[0] = int64_t(given.offset);
    return true;
}

}  // namespace tkjit::exported
