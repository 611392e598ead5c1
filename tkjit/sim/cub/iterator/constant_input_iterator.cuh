// cub::ConstantInputIterator: repeats one value.
#pragma once

#include "../detail/index_iterator.cuh"

namespace cub {

template <class ValueType, class OffsetT = std::ptrdiff_t>
class ConstantInputIterator
    : public detail::IndexIterator<ConstantInputIterator<ValueType, OffsetT>, ValueType, OffsetT> {
  public:
    ConstantInputIterator(ValueType value, OffsetT offset = 0) : value(value) { *this += offset; }
    ValueType at(OffsetT) const { return value; }

  private:
    ValueType value;
};

}  // namespace cub
