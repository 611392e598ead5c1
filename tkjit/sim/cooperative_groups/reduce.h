// The simulator's `cooperative_groups/reduce.h`: reductions over the threads of a tile or a coalesced group.
#pragma once

#include "../cooperative_groups.h"
#include "operations.h"

namespace cooperative_groups {

/// Every thread gets the values of all threads, combined in the order of their ranks.
template <class Group, class T, class Combine>
inline T reduce(const Group& group, T value, Combine&& combine, detail::Site site = detail::Site::here()) {
    const auto combine_two = [&](const T& a, const T& b) -> T { return combine(a, b); };
    return tkjit::sim::reduce(group.whole(), detail::operation_of<Combine>(), value, combine_two, site);
}

}  // namespace cooperative_groups
