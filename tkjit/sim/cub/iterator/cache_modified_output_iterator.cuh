// cub::CacheModifiedOutputIterator: writes with a hint for caches.
#pragma once

#include "../thread/thread_store.cuh"

#include <cstddef>
#include <iterator>

namespace cub {

template <CacheStoreModifier Modifier, class ValueType, class OffsetT = std::ptrdiff_t>
class CacheModifiedOutputIterator {
    struct Reference {
        ValueType* address;
        ValueType operator=(ValueType value) const {
            ThreadStore<Modifier>(address, value);
            return value;
        }
    };

  public:
    using difference_type = OffsetT;
    using value_type = void;
    using pointer = void;
    using reference = Reference;
    using iterator_category = std::random_access_iterator_tag;

    CacheModifiedOutputIterator(ValueType* address) : address(address) {}

    reference operator*() const { return {address}; }
    template <class Distance>
    reference operator[](Distance n) const {
        return {address + n};
    }
    template <class Distance>
    CacheModifiedOutputIterator operator+(Distance n) const {
        return address + n;
    }
    CacheModifiedOutputIterator& operator++() {
        ++address;
        return *this;
    }
    CacheModifiedOutputIterator operator++(int) { return address++; }

  private:
    ValueType* address;
};

}  // namespace cub
