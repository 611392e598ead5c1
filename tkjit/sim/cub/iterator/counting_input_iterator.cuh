// cub::CountingInputIterator: consecutive numbers, without memory.
#pragma once

#include "../detail/index_iterator.cuh"

namespace cub {

template <class ValueType, class OffsetT = std::ptrdiff_t>
class CountingInputIterator
    : public detail::IndexIterator<CountingInputIterator<ValueType, OffsetT>, ValueType, OffsetT> {
  public:
    CountingInputIterator(const ValueType& first) : first(first) {}
    ValueType at(OffsetT index) const { return static_cast<ValueType>(first + index); }

  private:
    ValueType first;
};

}  // namespace cub
