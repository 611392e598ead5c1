// The simulator's `cooperative_groups/memcpy_async.h`: copies that a group's threads share, and wait for together. They
// land only when a thread waits for them (see detail/copy_queue.h).
#pragma once

#include "../cooperative_groups.h"

#include <stddef.h>
#include <stdint.h>

namespace cooperative_groups {
namespace detail {

/// The largest number of bytes that both addresses and the size are multiples of.
inline unsigned copy_piece(const void* destination, const void* source, size_t bytes) {
    const uintptr_t all = reinterpret_cast<uintptr_t>(destination) | reinterpret_cast<uintptr_t>(source) | bytes;
    return all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : 1;
}

}  // namespace detail

/// Copies bytes. Every thread of the group must call this with the same arguments.
template <class Group>
inline void memcpy_async(const Group& group, void* destination, const void* source, size_t bytes,
                         detail::Site site = detail::Site::here()) {
    const unsigned piece = detail::copy_piece(destination, source, bytes);
    for (size_t at = group.thread_rank() * piece; at < bytes; at += group.size() * piece) {
        tkjit::sim::issue_copy(static_cast<char*>(destination) + at, static_cast<const char*>(source) + at, piece,
                               piece, site);
    }
    tkjit::sim::commit_copies();
}

/// Copies as many elements as the smaller of the two counts.
template <class Group, class T>
inline void memcpy_async(const Group& group, T* destination, size_t destination_count, const T* source,
                         size_t source_count, detail::Site site = detail::Site::here()) {
    const size_t count = destination_count < source_count ? destination_count : source_count;
    memcpy_async(group, destination, source, count * sizeof(T), site);
}

/// Waits for all copies of the group.
template <class Group>
inline void wait(const Group& group, detail::Site site = detail::Site::here()) {
    tkjit::sim::wait_for_copies(0);
    group.sync(site);
}

/// Waits for all but the last `Pending` calls of memcpy_async.
template <unsigned Pending, class Group>
inline void wait_prior(const Group& group, detail::Site site = detail::Site::here()) {
    tkjit::sim::wait_for_copies(Pending);
    group.sync(site);
}

}  // namespace cooperative_groups
