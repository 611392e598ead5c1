// c10::ArrayRef and related types: non-owning views of arrays, and lists.
#pragma once

#include "check.h"

#include <array>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <string_view>
#include <vector>

namespace c10 {
inline namespace tkjit_stand_in {

template <class T>
class ArrayRef {
public:
    using value_type = T;
    using iterator = const T*;
    using const_iterator = const T*;
    using size_type = size_t;

    constexpr ArrayRef() = default;
    constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
    constexpr ArrayRef(const T* begin, const T* end) : data_(begin), size_(size_t(end - begin)) {}
    constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
    ArrayRef(const std::vector<T>& from) : data_(from.data()), size_(from.size()) {}
    constexpr ArrayRef(const std::initializer_list<T>& from) : size_(from.size()) { data_ = std::begin(from); }
    template <size_t N>
    constexpr ArrayRef(const std::array<T, N>& from) : data_(from.data()), size_(N) {}
    template <size_t N>
    constexpr ArrayRef(const T (&from)[N]) : data_(from), size_(N) {}

    constexpr const T* data() const { return data_; }
    constexpr const T* begin() const { return data_; }
    constexpr const T* end() const { return data_ + size_; }
    constexpr const T* cbegin() const { return begin(); }
    constexpr const T* cend() const { return end(); }
    constexpr size_t size() const { return size_; }
    constexpr bool empty() const { return size_ == 0; }
    constexpr const T& operator[](size_t i) const { return data_[i]; }
    const T& at(size_t i) const {
        TORCH_CHECK(i < size_, "ArrayRef: invalid index Index = ", i, "; Length = ", size_);
        return data_[i];
    }
    constexpr const T& front() const { return data_[0]; }
    constexpr const T& back() const { return data_[size_ - 1]; }
    std::vector<T> vec() const { return {begin(), end()}; }
    ArrayRef slice(size_t first, size_t count) const {
        TORCH_CHECK(first + count <= size_, "ArrayRef: invalid slice, N = ", first, "; M = ", count, "; size = ", size_);
        return {data_ + first, count};
    }
    ArrayRef slice(size_t first) const { return slice(first, size_ - first); }
    bool equals(ArrayRef other) const {
        if (size_ != other.size_) return false;
        for (size_t i = 0; i < size_; ++i)
            if (!(data_[i] == other.data_[i])) return false;
        return true;
    }
    friend bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }
    friend bool operator!=(ArrayRef a, ArrayRef b) { return !a.equals(b); }
    friend std::ostream& operator<<(std::ostream& to, ArrayRef shown) {
        to << "[";
        for (size_t i = 0; i < shown.size(); ++i) to << (i ? ", " : "") << shown[i];
        return to << "]";
    }

private:
    const T* data_ = nullptr;
    size_t size_ = 0;
};
using IntArrayRef = ArrayRef<int64_t>;

template <class T>
class OptionalArrayRef {
public:
    OptionalArrayRef() = default;
    OptionalArrayRef(std::nullopt_t) {}
    OptionalArrayRef(ArrayRef<T> value) : value_(value) {}
    OptionalArrayRef(const std::vector<T>& value) : value_(ArrayRef<T>(value)) {}
    OptionalArrayRef(const T& value) : value_(ArrayRef<T>(value)) {}
    OptionalArrayRef(const std::initializer_list<T>& value) : value_(ArrayRef<T>(value)) {}
    OptionalArrayRef(const std::optional<ArrayRef<T>>& value) : value_(value) {}
    bool has_value() const { return value_.has_value(); }
    explicit operator bool() const { return has_value(); }
    const ArrayRef<T>& value() const { return value_.value(); }
    const ArrayRef<T>& operator*() const { return *value_; }
    const ArrayRef<T>* operator->() const { return &*value_; }
    operator const std::optional<ArrayRef<T>>&() const { return value_; }

private:
    std::optional<ArrayRef<T>> value_;
};
using OptionalIntArrayRef = OptionalArrayRef<int64_t>;

template <class T>
class List : public std::vector<T> {
public:
    using std::vector<T>::vector;
    List(const std::vector<T>& from) : std::vector<T>(from) {}
    T get(size_t i) const { return this->at(i); }
    void set(size_t i, T value) { this->at(i) = std::move(value); }
    const std::vector<T>& vec() const { return *this; }
};

template <class T, unsigned N = 0>
using SmallVector = std::vector<T>;
using DimVector = std::vector<int64_t>;

using IntList = IntArrayRef;
using SymInt = int64_t;
using SymFloat = double;
using SymIntArrayRef = IntArrayRef;
using string_view = std::string_view;

template <class T>
using optional = std::optional<T>;
using std::make_optional;
using std::nullopt;
using nullopt_t = std::nullopt_t;

}  // inline namespace tkjit_stand_in
}  // namespace c10
