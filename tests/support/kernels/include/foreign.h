// Another library's layout: a pointer and four extents, three of which the type fixes.
#pragma once
#include <cstddef>

namespace foreign {

template <class T, int Cols>
struct rows {
    using dtype = T;
    static constexpr int __b__ = 1, __d__ = 1, __r__ = -1, __c__ = Cols;
    T* raw_ptr;
    int height, width = Cols;

    rows(T* data, std::nullptr_t, std::nullptr_t, int count, std::nullptr_t) : raw_ptr(data), height(count) {}
};

}  // namespace foreign
