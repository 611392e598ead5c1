// The table of multicast addresses. Bits 48 and up of such an address are a mark that no pointer has, bits 32 to 47 are
// the table's index, and the rest is an offset.
#pragma once

#include "../detail/fault.h"
#include "../detail/multicast.h"
#include "../detail/site.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

namespace tkjit::sim {

inline constexpr uintptr_t multicast_mark = 0x7a4d;
inline constexpr unsigned most_multicasts = 256;  // a new one replaces the oldest

inline Multicast multicasts[most_multicasts];
inline unsigned multicast_count = 0;
inline pthread_mutex_t multicast_mutex = PTHREAD_MUTEX_INITIALIZER;

void* multicast_address(void* const* parts, int devices) {
    if (devices < 1 || devices > static_cast<int>(most_multicast_devices)) return nullptr;
    Multicast wanted{};
    wanted.devices = static_cast<unsigned>(devices);
    for (int i = 0; i < devices; i++) wanted.parts[i] = static_cast<char*>(parts[i]);
    pthread_mutex_lock(&multicast_mutex);
    const unsigned known = multicast_count < most_multicasts ? multicast_count : most_multicasts;
    unsigned entry = 0;
    while (entry < known && memcmp(&multicasts[entry], &wanted, sizeof(wanted)) != 0) entry++;
    if (entry == known) {
        entry = multicast_count++ % most_multicasts;
        multicasts[entry] = wanted;
    }
    pthread_mutex_unlock(&multicast_mutex);
    return reinterpret_cast<void*>(multicast_mark << 48 | static_cast<uintptr_t>(entry) << 32);
}

const Multicast* find_multicast(const void* address) {
    const auto bits = reinterpret_cast<uintptr_t>(address);
    return bits >> 48 == multicast_mark ? &multicasts[bits >> 32 & (most_multicasts - 1)] : nullptr;
}

const Multicast& multicast_at(const void* address, unsigned bytes, Site site) {
    const Multicast* const found = find_multicast(address);
    if (found == nullptr) fail(site, "multimem of %u bytes: %p is not a multicast address", bytes, address);
    return *found;
}

}  // namespace tkjit::sim
