// cub::ArgIndexInputIterator: another iterator's items, each with its index.
#pragma once

#include "../detail/index_iterator.cuh"
#include "../util_type.cuh"

namespace cub {

template <class InputIteratorT, class OffsetT = std::ptrdiff_t, class OutputValueT = value_t<InputIteratorT>>
class ArgIndexInputIterator
    : public detail::IndexIterator<ArgIndexInputIterator<InputIteratorT, OffsetT, OutputValueT>,
                                   KeyValuePair<OffsetT, OutputValueT>, OffsetT> {
  public:
    ArgIndexInputIterator(InputIteratorT input, OffsetT offset = 0) : input(input) { *this += offset; }
    KeyValuePair<OffsetT, OutputValueT> at(OffsetT index) const { return {index, input[index]}; }

  private:
    InputIteratorT input;
};

}  // namespace cub
