// Iterators that compute a value from an index. `Derived` has `at(index)`.
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>

namespace cub::detail {

template <class Derived, class Value, class Offset>
class IndexIterator {
  public:
    using difference_type = Offset;
    using value_type = Value;
    using pointer = const Value*;
    using reference = Value;
    using iterator_category = std::random_access_iterator_tag;

    Value operator*() const { return self().at(index); }
    template <class Distance>
    Value operator[](Distance n) const {
        return self().at(index + static_cast<Offset>(n));
    }
    template <class Distance>
    Derived operator+(Distance n) const {
        Derived moved = self();
        moved.index += static_cast<Offset>(n);
        return moved;
    }
    template <class Distance>
    Derived operator-(Distance n) const
        requires(!std::is_same_v<Distance, Derived>)
    {
        return *this + -static_cast<Offset>(n);
    }
    Offset operator-(const Derived& other) const { return index - other.index; }
    template <class Distance>
    Derived& operator+=(Distance n) {
        index += static_cast<Offset>(n);
        return static_cast<Derived&>(*this);
    }
    Derived& operator++() { return *this += 1; }
    Derived operator++(int) {
        const Derived old = self();
        index++;
        return old;
    }
    bool operator==(const IndexIterator& other) const { return index == other.index; }
    bool operator!=(const IndexIterator& other) const { return index != other.index; }

  private:
    const Derived& self() const { return static_cast<const Derived&>(*this); }

    Offset index = 0;
};

}  // namespace cub::detail
