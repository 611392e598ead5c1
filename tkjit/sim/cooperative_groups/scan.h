// The simulator's `cooperative_groups/scan.h`: prefix operations over the threads of a tile or a coalesced group.
#pragma once

#include "../cooperative_groups.h"
#include "operations.h"

namespace cooperative_groups {

/// Each thread gets the values of the ranks up to its own, combined in their order.
template <class Group, class T, class Combine>
inline T inclusive_scan(const Group& group, T value, Combine&& combine, detail::Site site = detail::Site::here()) {
    tkjit::sim::collective(
        group.whole(), detail::Operation::shuffle_up, value,
        [&](tkjit::sim::Lanes<T> lanes) {
            const T* before = nullptr;
            lanes.for_each([&](int, T& mine) {
                if (before) mine = combine(*before, mine);
                before = &mine;
            });
        },
        site);
    return value;
}
template <class Group, class T>
inline T inclusive_scan(const Group& group, T value, detail::Site site = detail::Site::here()) {
    return inclusive_scan(group, value, plus<T>(), site);
}

/// Like inclusive_scan, but without the thread's own value. Rank 0 gets `T()`.
template <class Group, class T, class Combine>
inline T exclusive_scan(const Group& group, T value, Combine&& combine, detail::Site site = detail::Site::here()) {
    const T inclusive = inclusive_scan(group, value, combine, site);
    const T before = group.shfl_up(inclusive, 1, site);
    return group.thread_rank() == 0 ? T() : before;
}
template <class Group, class T>
inline T exclusive_scan(const Group& group, T value, detail::Site site = detail::Site::here()) {
    return exclusive_scan(group, value, plus<T>(), site);
}

}  // namespace cooperative_groups
