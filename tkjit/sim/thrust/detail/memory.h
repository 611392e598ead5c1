// Thrust's pointers and vectors. A device's memory is the host's, so references to it are ordinary ones.
#pragma once

#include "../../cuda_runtime.h"

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <vector>

namespace thrust {

template <class T>
using device_reference = T&;

template <class T>
class device_ptr {
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using difference_type = std::ptrdiff_t;
    using pointer = device_ptr;
    using reference = T&;
    using iterator_category = std::random_access_iterator_tag;

    device_ptr() = default;
    device_ptr(std::nullptr_t) {}
    explicit device_ptr(T* address) : address(address) {}
    template <class U>
        requires std::is_convertible_v<U*, T*>
    device_ptr(const device_ptr<U>& other) : address(other.get()) {}

    T* get() const { return address; }
    T& operator*() const { return *address; }
    T* operator->() const { return address; }
    T& operator[](difference_type n) const { return address[n]; }
    explicit operator bool() const { return address != nullptr; }

    device_ptr& operator+=(difference_type n) {
        address += n;
        return *this;
    }
    device_ptr& operator-=(difference_type n) { return *this += -n; }
    device_ptr& operator++() { return *this += 1; }
    device_ptr& operator--() { return *this -= 1; }
    device_ptr operator++(int) { return device_ptr(address++); }
    device_ptr operator--(int) { return device_ptr(address--); }
    friend device_ptr operator+(device_ptr a, difference_type n) { return a += n; }
    friend device_ptr operator+(difference_type n, device_ptr a) { return a += n; }
    friend device_ptr operator-(device_ptr a, difference_type n) { return a -= n; }
    template <class U>
    difference_type operator-(const device_ptr<U>& other) const {
        return address - other.get();
    }
    template <class U>
    bool operator==(const device_ptr<U>& other) const {
        return address == other.get();
    }
    template <class U>
    auto operator<=>(const device_ptr<U>& other) const {
        return address <=> other.get();
    }

  private:
    T* address = nullptr;
};

template <class T>
device_ptr<T> device_pointer_cast(T* address) {
    return device_ptr<T>(address);
}
template <class T>
device_ptr<T> device_pointer_cast(const device_ptr<T>& pointer) {
    return pointer;
}
template <class T>
T* raw_pointer_cast(T* address) {
    return address;
}
template <class T>
T* raw_pointer_cast(const device_ptr<T>& pointer) {
    return pointer.get();
}
template <class T>
T& raw_reference_cast(T& reference) {
    return reference;
}

template <class T>
device_ptr<T> device_malloc(std::size_t count) {
    T* address = nullptr;
    cudaMalloc(&address, count * sizeof(T));
    return device_ptr<T>(address);
}
template <class T>
void device_free(device_ptr<T> pointer) {
    cudaFree(pointer.get());
}

namespace detail {

/// A vector whose iterators and pointers have the types `Iterator` and `ConstIterator`.
template <class T, class Iterator, class ConstIterator>
class vector {
  public:
    using value_type = T;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using reference = T&;
    using const_reference = const T&;
    using iterator = Iterator;
    using const_iterator = ConstIterator;
    using pointer = Iterator;
    using const_pointer = ConstIterator;
    using reverse_iterator = std::reverse_iterator<iterator>;
    using const_reverse_iterator = std::reverse_iterator<const_iterator>;

    vector() = default;
    explicit vector(size_type count) : items(count) {}
    vector(size_type count, const T& value) : items(count, Item{value}) {}
    vector(std::initializer_list<T> values) { assign(values.begin(), values.end()); }
    template <class First>
        requires(!std::is_integral_v<First>)
    vector(First first, First last) {
        assign(first, last);
    }
    template <class U, class I, class C>
    vector(const vector<U, I, C>& other) {
        assign(other.begin(), other.end());
    }
    template <class U>
    vector(const std::vector<U>& other) {
        assign(other.begin(), other.end());
    }
    template <class U, class I, class C>
    vector& operator=(const vector<U, I, C>& other) {
        assign(other.begin(), other.end());
        return *this;
    }
    template <class U>
    vector& operator=(const std::vector<U>& other) {
        assign(other.begin(), other.end());
        return *this;
    }

    template <class First>
        requires(!std::is_integral_v<First>)
    void assign(First first, First last) {
        items.clear();
        for (; first != last; ++first) items.push_back(Item{static_cast<T>(*first)});
    }
    void assign(size_type count, const T& value) { items.assign(count, Item{value}); }

    iterator begin() { return iterator(raw()); }
    iterator end() { return begin() + difference_type(size()); }
    const_iterator begin() const { return cbegin(); }
    const_iterator end() const { return cend(); }
    const_iterator cbegin() const { return const_iterator(raw()); }
    const_iterator cend() const { return cbegin() + difference_type(size()); }
    reverse_iterator rbegin() { return reverse_iterator(end()); }
    reverse_iterator rend() { return reverse_iterator(begin()); }
    pointer data() { return begin(); }
    const_pointer data() const { return begin(); }

    T& operator[](size_type i) { return items[i].value; }
    const T& operator[](size_type i) const { return items[i].value; }
    T& front() { return items.front().value; }
    const T& front() const { return items.front().value; }
    T& back() { return items.back().value; }
    const T& back() const { return items.back().value; }

    size_type size() const { return items.size(); }
    size_type capacity() const { return items.capacity(); }
    bool empty() const { return items.empty(); }
    void resize(size_type count, const T& value = T()) { items.resize(count, Item{value}); }
    void reserve(size_type count) { items.reserve(count); }
    void shrink_to_fit() { items.shrink_to_fit(); }
    void clear() { items.clear(); }
    void push_back(const T& value) { items.push_back(Item{value}); }
    void pop_back() { items.pop_back(); }
    void swap(vector& other) { items.swap(other.items); }
    iterator erase(const_iterator first, const_iterator last) {
        const difference_type at = first - cbegin();
        items.erase(items.begin() + at, items.begin() + (last - cbegin()));
        return begin() + at;
    }
    iterator erase(const_iterator place) { return erase(place, place + 1); }
    iterator insert(const_iterator place, const T& value) {
        const difference_type at = place - cbegin();
        items.insert(items.begin() + at, Item{value});
        return begin() + at;
    }
    template <class First>
        requires(!std::is_integral_v<First>)
    iterator insert(const_iterator place, First first, First last) {
        const difference_type at = place - cbegin();
        for (difference_type i = at; first != last; ++first, ++i) items.insert(items.begin() + i, Item{static_cast<T>(*first)});
        return begin() + at;
    }

  private:
    struct Item {  // because std::vector<bool> has no array
        T value = T();
    };
    T* raw() { return reinterpret_cast<T*>(items.data()); }
    const T* raw() const { return reinterpret_cast<const T*>(items.data()); }

    std::vector<Item> items;
};

template <class T, class I, class C, class U, class J, class D>
bool operator==(const vector<T, I, C>& a, const vector<U, J, D>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); i++) {
        if (!(a[i] == b[i])) return false;
    }
    return true;
}

}  // namespace detail

template <class T, class Allocator = void>
class device_vector : public detail::vector<T, device_ptr<T>, device_ptr<const T>> {
  public:
    using detail::vector<T, device_ptr<T>, device_ptr<const T>>::vector;
    using detail::vector<T, device_ptr<T>, device_ptr<const T>>::operator=;
};
template <class T, class Allocator = void>
class host_vector : public detail::vector<T, T*, const T*> {
  public:
    using detail::vector<T, T*, const T*>::vector;
    using detail::vector<T, T*, const T*>::operator=;
};
template <class T, class Allocator = void>
using universal_vector = host_vector<T, Allocator>;

template <class T>
class device_allocator {
  public:
    using value_type = T;
};

}  // namespace thrust
