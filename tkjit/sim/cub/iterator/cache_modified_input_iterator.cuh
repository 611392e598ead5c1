// cub::CacheModifiedInputIterator: reads with a hint for caches.
#pragma once

#include "../thread/thread_load.cuh"

#include <cstddef>
#include <iterator>

namespace cub {

template <CacheLoadModifier Modifier, class ValueType, class OffsetT = std::ptrdiff_t>
class CacheModifiedInputIterator {
  public:
    using difference_type = OffsetT;
    using value_type = ValueType;
    using pointer = ValueType*;
    using reference = ValueType;
    using iterator_category = std::random_access_iterator_tag;

    CacheModifiedInputIterator(ValueType* address) : address(address) {}

    reference operator*() const { return ThreadLoad<Modifier>(address); }
    template <class Distance>
    reference operator[](Distance n) const {
        return *(*this + n);
    }
    template <class Distance>
    CacheModifiedInputIterator operator+(Distance n) const {
        return address + n;
    }
    template <class Distance>
    CacheModifiedInputIterator operator-(Distance n) const {
        return address - n;
    }
    difference_type operator-(CacheModifiedInputIterator other) const {
        return static_cast<difference_type>(address - other.address);
    }
    template <class Distance>
    CacheModifiedInputIterator& operator+=(Distance n) {
        address += n;
        return *this;
    }
    CacheModifiedInputIterator& operator++() { return *this += 1; }
    CacheModifiedInputIterator operator++(int) { return address++; }
    bool operator==(const CacheModifiedInputIterator& other) const { return address == other.address; }
    bool operator!=(const CacheModifiedInputIterator& other) const { return address != other.address; }

    ValueType* address;
};

}  // namespace cub
