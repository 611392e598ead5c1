// Reductions and scans of a thread's own items.
#pragma once

namespace cub::detail {

template <class T, int N, class Op>
T reduce_items(const T (&items)[N], Op op) {
    T total = items[0];
    for (int i = 1; i < N; i++) total = op(total, items[i]);
    return total;
}

/// Turns items into their inclusive sums. `input` and `output` may be the same.
template <class T, int N, class Op>
void scan_items_inclusively(const T (&input)[N], T (&output)[N], Op op, bool has_prefix, const T& prefix) {
    T running = has_prefix ? op(prefix, input[0]) : input[0];
    output[0] = running;
    for (int i = 1; i < N; i++) output[i] = running = op(running, input[i]);
}

/// Turns items into their exclusive sums. Without a prefix, the first output stays as it is.
template <class T, int N, class Op>
void scan_items_exclusively(const T (&input)[N], T (&output)[N], Op op, bool has_prefix, const T& prefix) {
    T running = has_prefix ? op(prefix, input[0]) : input[0];
    if (has_prefix) output[0] = prefix;
    for (int i = 1; i < N; i++) {
        const T next = op(running, input[i]);
        output[i] = running;
        running = next;
    }
}

}  // namespace cub::detail
