// cub::TransformInputIterator: applies a function to another iterator's items.
#pragma once

#include "../detail/index_iterator.cuh"

namespace cub {

template <class ValueType, class ConversionOp, class InputIteratorT, class OffsetT = std::ptrdiff_t>
class TransformInputIterator
    : public detail::IndexIterator<TransformInputIterator<ValueType, ConversionOp, InputIteratorT, OffsetT>, ValueType,
                                   OffsetT> {
  public:
    TransformInputIterator(InputIteratorT input, ConversionOp op) : input(input), op(op) {}
    ValueType at(OffsetT index) const {
        ConversionOp conversion = op;
        return conversion(input[index]);
    }

  private:
    InputIteratorT input;
    ConversionOp op;
};

}  // namespace cub
