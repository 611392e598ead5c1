// Loads and stores by a group of threads. Item i of a thread is at `place(i)`.
#pragma once

namespace cub::detail {

/// The places of a thread's items among those of its group.
struct Blocked {
    int rank, items;
    int operator()(int i) const { return rank * items + i; }
};
struct Striped {
    int rank, threads;
    int operator()(int i) const { return i * threads + rank; }
};
struct WarpStriped {
    int rank, items;
    int operator()(int i) const { return rank / 32 * 32 * items + i * 32 + rank % 32; }
};

template <class Iterator, class T, int N, class Place>
void load(Iterator source, T (&items)[N], Place place) {
    for (int i = 0; i < N; i++) items[i] = source[place(i)];
}
/// Items from `end` on stay as they are.
template <class Iterator, class T, int N, class Place>
void load(Iterator source, T (&items)[N], Place place, int end) {
    for (int i = 0; i < N; i++) {
        if (place(i) < end) items[i] = source[place(i)];
    }
}
template <class Iterator, class T, int N, class Place, class Default>
void load(Iterator source, T (&items)[N], Place place, int end, Default other) {
    for (int i = 0; i < N; i++) items[i] = static_cast<T>(other);
    load(source, items, place, end);
}

template <class Iterator, class T, int N, class Place>
void store(Iterator destination, const T (&items)[N], Place place) {
    for (int i = 0; i < N; i++) destination[place(i)] = items[i];
}
template <class Iterator, class T, int N, class Place>
void store(Iterator destination, const T (&items)[N], Place place, int end) {
    for (int i = 0; i < N; i++) {
        if (place(i) < end) destination[place(i)] = items[i];
    }
}

/// Moves items through shared memory, with a barrier between writing and reading.
template <class Storage, class T, class Output, int N, class From, class To, class Barrier>
void exchange(Storage& storage, const T (&input)[N], Output (&output)[N], From from, To to, Barrier barrier) {
    for (int i = 0; i < N; i++) storage[from(i)].Alias() = input[i];
    barrier();
    for (int i = 0; i < N; i++) output[i] = storage[to(i)].Alias();
}

}  // namespace cub::detail
