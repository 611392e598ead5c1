// Tensors, errors and results in C++17: a wrapper around tensors.h that all libraries exported by tkjit share.
#ifndef TKJIT_TENSORS_HPP
#define TKJIT_TENSORS_HPP

#include "tensors.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tkjit {

// An error; its kind is TKJIT_ARGUMENT_ERROR, TKJIT_SHAPE_ERROR, TKJIT_LAUNCH_ERROR or TKJIT_MEMORY_ERROR.
class Error : public std::runtime_error {
public:
    Error(int kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
    int kind() const noexcept { return kind_; }

private:
    int kind_;
};

// Converts a C error, and frees it.
inline std::optional<Error> taken(tkjit_error error) {
    if (!error) return std::nullopt;
    std::optional<Error> made(std::in_place, tkjit_error_kind(error), error);
    tkjit_free_error(error);
    return made;
}
inline void check(tkjit_error error) {
    if (auto made = taken(error)) throw *made;
}

// A value or an error, for code that does not use exceptions.
template <class T>
class Result {
public:
    Result(T value) : content_(std::move(value)) {}
    Result(Error error) : content_(std::move(error)) {}

    bool has_value() const noexcept { return content_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    const Error& error() const { return std::get<1>(content_); }
    T& operator*() & { return std::get<0>(content_); }
    T&& operator*() && { return std::get<0>(std::move(content_)); }
    T* operator->() { return &std::get<0>(content_); }
    // Throws the error, if there is one.
    T& value() & {
        if (!has_value()) throw error();
        return **this;
    }
    T&& value() && {
        if (!has_value()) throw error();
        return std::get<0>(std::move(content_));
    }

private:
    std::variant<T, Error> content_;
};

// Calls a function, and turns its value or the error that it throws into a Result.
template <class Body>
auto result_of(Body&& body) -> Result<decltype(body())> {
    try {
        return body();
    } catch (const Error& error) {
        return error;
    }
}
struct Done {};

using Device = tkjit_device;
using Sizes = std::vector<std::int64_t>;

// A view of contiguous elements. In C++20, a Span converts to a std::span.
template <class T>
class Span {
public:
    using element_type = T;
    Span() = default;
    Span(T* data, std::size_t size) : data_(data), size_(size) {}
    T* data() const { return data_; }
    std::size_t size() const { return size_; }
    T* begin() const { return data_; }
    T* end() const { return data_ + size_; }
    T& operator[](std::size_t i) const { return data_[i]; }

private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

// The items of a list, which must live as long as the call. A default-constructed list selects the parameter's default.
template <class T>
class Items {
public:
    Items() = default;
    Items(std::initializer_list<T> items) : Items(items.begin(), items.size()) {}
    template <class Container, class = decltype(std::declval<const Container&>().data())>
    Items(const Container& items) : Items(items.data(), items.size()) {}
    const T* data() const { return data_; }
    std::size_t size() const { return size_; }

private:
    Items(const T* data, std::size_t size) : data_(data ? data : none()), size_(size) {}
    static const T* none() {
        static const T item{};
        return &item;
    }
    const T* data_ = nullptr;
    std::size_t size_ = 0;
};

template <class T>
constexpr tkjit_dtype dtype_of() {
    if constexpr (std::is_same_v<T, bool>) return TKJIT_BOOL;
    else if constexpr (std::is_same_v<T, std::uint8_t>) return TKJIT_UINT8;
    else if constexpr (std::is_same_v<T, std::int8_t>) return TKJIT_INT8;
    else if constexpr (std::is_same_v<T, std::uint16_t>) return TKJIT_UINT16;
    else if constexpr (std::is_same_v<T, std::int16_t>) return TKJIT_INT16;
    else if constexpr (std::is_same_v<T, std::uint32_t>) return TKJIT_UINT32;
    else if constexpr (std::is_same_v<T, std::int32_t>) return TKJIT_INT32;
    else if constexpr (std::is_same_v<T, std::uint64_t>) return TKJIT_UINT64;
    else if constexpr (std::is_same_v<T, std::int64_t>) return TKJIT_INT64;
    else if constexpr (std::is_same_v<T, float>) return TKJIT_FLOAT32;
    else {
        static_assert(std::is_same_v<T, double>, "this C++ type has no known dtype; pass the dtype, such as TKJIT_BFLOAT16");
        return TKJIT_FLOAT64;
    }
}

// A tensor that owns its memory, or a view of the caller's memory, which must outlive it. It can be moved but not copied.
class Tensor {
public:
    Tensor() : tensor_{} {}
    Tensor(Tensor&& other) noexcept : tensor_(std::exchange(other.tensor_, tkjit_tensor{})) {}
    Tensor& operator=(Tensor&& other) noexcept {
        const Tensor before(std::move(*this));  // frees the old memory at the end
        tensor_ = std::exchange(other.tensor_, tkjit_tensor{});
        return *this;
    }
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;
    ~Tensor() { tkjit_free_error(tkjit_tensor_free(&tensor_)); }

    // A new tensor with uninitialised memory.
    static Tensor empty(tkjit_dtype dtype, const Sizes& sizes, Device device = tkjit_cpu()) {
        Tensor made;
        check(tkjit_tensor_new(&made.tensor_, dtype, device, std::int32_t(sizes.size()), sizes.data()));
        return made;
    }
    static Tensor view(void* data, tkjit_dtype dtype, const Sizes& sizes, Device device = tkjit_cpu(), const Sizes& strides = {}) {
        if (!strides.empty() && strides.size() != sizes.size())
            throw Error(TKJIT_SHAPE_ERROR, "Tensor::view: expected as many strides as extents");
        Tensor made;
        check(tkjit_tensor_view(&made.tensor_, data, dtype, device, std::int32_t(sizes.size()), sizes.data(),
                                strides.empty() ? nullptr : strides.data()));
        return made;
    }
    template <class T>
    static Tensor view(T* data, const Sizes& sizes, Device device = tkjit_cpu()) {
        return view(static_cast<void*>(data), dtype_of<T>(), sizes, device);
    }
    // A new tensor on the CPU with a copy of these elements.
    template <class T>
    static Tensor of(const std::vector<T>& elements, const Sizes& sizes) {
        Tensor made = empty(dtype_of<T>(), sizes);
        if (std::int64_t(elements.size() * sizeof(T)) != tkjit_tensor_bytes(made.get()))
            throw Error(TKJIT_SHAPE_ERROR,
                        "Tensor::of: got " + std::to_string(elements.size()) + " elements; expected as many as the extents need");
        std::size_t i = 0;
        for (T& element : made.span<T>()) element = elements[i++];
        return made;
    }

    // A copy on a device, which is complete when this returns.
    Tensor to(Device device, void* stream = nullptr) const {
        Tensor made = empty(dtype(), sizes(), device);
        check(tkjit_tensor_copy(made.get(), get(), stream));
        return made;
    }

    tkjit_dtype dtype() const { return tensor_.dtype; }
    Device device() const { return tensor_.device; }
    Sizes sizes() const { return Sizes(tensor_.sizes, tensor_.sizes + tensor_.ndim); }
    Sizes strides() const { return Sizes(tensor_.strides, tensor_.strides + tensor_.ndim); }
    void* data() const { return tensor_.data; }
    // The elements of a row-major tensor on the CPU.
    template <class T>
    Span<T> span() const {
        if (tensor_.dtype != dtype_of<std::remove_const_t<T>>() || tensor_.device.type != TKJIT_CPU)
            throw Error(TKJIT_ARGUMENT_ERROR, std::string("Tensor::span: the tensor is ") + tkjit_dtype_name(tensor_.dtype) +
                                                  (tensor_.device.type == TKJIT_CPU ? " on cpu" : " on a GPU"));
        if (!tkjit_tensor_is_contiguous(&tensor_)) throw Error(TKJIT_ARGUMENT_ERROR, "Tensor::span: the tensor is not contiguous");
        if (tensor_.read_only && !std::is_const_v<T>) throw Error(TKJIT_ARGUMENT_ERROR, "Tensor::span: the tensor is read-only");
        return {static_cast<T*>(tensor_.data), std::size_t(tkjit_tensor_bytes(&tensor_)) / sizeof(T)};
    }

    const tkjit_tensor* get() const { return &tensor_; }
    tkjit_tensor* get() { return &tensor_; }

private:
    tkjit_tensor tensor_;
};

// A seed for random numbers, and the offset in its sequence at which a call begins, a multiple of 4.
struct Seed {
    std::uint64_t seed, offset;
};

// Converts a list of tensors for C. A missing tensor becomes null.
template <class Pointer>
std::vector<const tkjit_tensor*> pointers(const std::vector<Pointer>& tensors) {
    std::vector<const tkjit_tensor*> made;
    for (const Tensor* tensor : tensors) made.push_back(tensor ? tensor->get() : nullptr);
    return made;
}

}  // namespace tkjit

#endif  // TKJIT_TENSORS_HPP
