// cub::DiscardOutputIterator: discards all values.
#pragma once

#include <cstddef>
#include <iterator>

namespace cub {

template <class OffsetT = std::ptrdiff_t>
class DiscardOutputIterator {
    struct Nothing {
        template <class T>
        const Nothing& operator=(const T&) const {
            return *this;
        }
    };

  public:
    using difference_type = OffsetT;
    using value_type = void;
    using pointer = void;
    using reference = Nothing;
    using iterator_category = std::random_access_iterator_tag;

    explicit DiscardOutputIterator(OffsetT offset = 0) : offset(offset) {}

    Nothing operator*() const { return {}; }
    template <class Distance>
    Nothing operator[](Distance) const {
        return {};
    }
    template <class Distance>
    DiscardOutputIterator operator+(Distance n) const {
        return DiscardOutputIterator(offset + static_cast<OffsetT>(n));
    }
    DiscardOutputIterator& operator++() {
        offset++;
        return *this;
    }
    DiscardOutputIterator operator++(int) { return DiscardOutputIterator(offset++); }
    OffsetT operator-(DiscardOutputIterator other) const { return offset - other.offset; }

  private:
    OffsetT offset;
};

}  // namespace cub
