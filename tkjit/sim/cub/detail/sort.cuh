// Sorting the items of a block or a warp. One thread sorts the items of all threads.
#pragma once

#include "../util_type.cuh"

#include <algorithm>

namespace cub::detail {

/// The bits by which a radix sort orders a key. +0 and -0 are the same key.
template <class Key>
auto radix_bits(const Key& key, int begin_bit, int end_bit) {
    using Number = NumericTraits<Key>;
    using Bits = typename Number::UnsignedBits;
    Bits bits;
    __builtin_memcpy(&bits, static_cast<const void*>(&key), sizeof bits);
    if (Number::CATEGORY == FLOATING_POINT && bits == Number::HIGH_BIT) bits = 0;
    bits = static_cast<Bits>(Number::TwiddleIn(bits) >> begin_bit);
    const int count = end_bit - begin_bit;
    return count < static_cast<int>(sizeof(Bits) * 8) ? static_cast<Bits>(bits & ((Bits{1} << count) - 1)) : bits;
}

/// Whether a key comes before another.
struct RadixOrder {
    int begin_bit, end_bit;
    bool descending;

    template <class Key>
    bool operator()(const Key& a, const Key& b) const {
        if (begin_bit >= end_bit) return false;
        const auto bits_a = radix_bits(a, begin_bit, end_bit), bits_b = radix_bits(b, begin_bit, end_bit);
        return descending ? bits_b < bits_a : bits_a < bits_b;
    }
};

/// Storage for the keys, the values or the ranks of `Items` items, one of these at a time.
template <class Key, class Value, int Items>
union SortStorage {
    static_assert(Items <= 65536, "at most 65536 items can be sorted, because ranks have 16 bits");
    Uninitialized<Key> keys[Items];
    Uninitialized<Value> values[Items];
    unsigned short ranks[Items];
};

/// Sorts the keys in the storage stably, and replaces them by their ranks.
template <class Key, class Value, int Items, class Before>
void replace_by_ranks(SortStorage<Key, Value, Items>& storage, Before before) {
    unsigned short order[Items];
    for (int i = 0; i < Items; i++) order[i] = static_cast<unsigned short>(i);
    std::sort(order, order + Items, [&](unsigned short a, unsigned short b) {
        const Key &key_a = storage.keys[a].Alias(), &key_b = storage.keys[b].Alias();
        return before(key_a, key_b) || (!before(key_b, key_a) && a < b);
    });
    for (int rank = 0; rank < Items; rank++) storage.ranks[order[rank]] = static_cast<unsigned short>(rank);
}

/// Sorts the items of a group of threads, in blocked order. `barrier` waits for the group. Afterwards, a thread's
/// item i is the one at position `to(i)` of the sorted order.
template <class Key, class Value, int Items, int N, class Before, class Barrier, class To>
void sort_items(SortStorage<Key, Value, Items>& storage, int rank, Key (&keys)[N], Value (*values)[N], Before before,
                Barrier barrier, To to) {
    int ranks[N];
    for (int i = 0; i < N; i++) storage.keys[rank * N + i].Alias() = keys[i];
    barrier();
    if (rank == 0) replace_by_ranks(storage, before);
    barrier();
    for (int i = 0; i < N; i++) ranks[i] = storage.ranks[rank * N + i];
    barrier();
    for (int i = 0; i < N; i++) storage.keys[ranks[i]].Alias() = keys[i];
    barrier();
    for (int i = 0; i < N; i++) keys[i] = storage.keys[to(i)].Alias();
    if (values == nullptr) return;
    barrier();
    for (int i = 0; i < N; i++) storage.values[ranks[i]].Alias() = (*values)[i];
    barrier();
    for (int i = 0; i < N; i++) (*values)[i] = storage.values[to(i)].Alias();
}

}  // namespace cub::detail
