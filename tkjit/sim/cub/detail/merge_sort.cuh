// The base of the merge sorts of a block and of a warp. `Derived` has `sort(keys, values, before)`.
#pragma once

#include "../util_type.cuh"

namespace cub::detail {

template <class Derived, class KeyT, class ValueT, int N>
class MergeSort {
  public:
    template <class CompareOp>
    void Sort(KeyT (&keys)[N], CompareOp before) {
        self().sort(keys, nullptr, before);
    }
    template <class CompareOp>
    void Sort(KeyT (&keys)[N], ValueT (&values)[N], CompareOp before) {
        self().sort(keys, &values, before);
    }
    /// Sorts only the first `valid_items` keys. The others become `oob_default`, which must not precede a valid key.
    template <class CompareOp>
    void Sort(KeyT (&keys)[N], CompareOp before, int valid_items, KeyT oob_default) {
        fill(keys, valid_items, oob_default);
        self().sort(keys, nullptr, before);
    }
    template <class CompareOp, bool IsLastTile = true>
    void Sort(KeyT (&keys)[N], ValueT (&values)[N], CompareOp before, int valid_items, KeyT oob_default) {
        fill(keys, valid_items, oob_default);
        self().sort(keys, &values, before);
    }
    template <class... Arguments>
    void StableSort(KeyT (&keys)[N], Arguments&&... arguments) {
        Sort(keys, static_cast<Arguments&&>(arguments)...);
    }

  private:
    Derived& self() { return static_cast<Derived&>(*this); }
    void fill(KeyT (&keys)[N], int valid_items, const KeyT& other) {
        for (int i = 0; i < N; i++) {
            if (self().first_item() + i >= valid_items) keys[i] = other;
        }
    }
};

}  // namespace cub::detail
