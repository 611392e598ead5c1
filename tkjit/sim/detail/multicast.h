// Multicast addresses. Each refers to the same location in several devices' memory. There is no memory at the address
// itself: `multimem` instructions and tensor maps look up the parts.
#pragma once

#include "site.h"

#include <stdint.h>

namespace tkjit::sim {

inline constexpr unsigned most_multicast_devices = 16;

struct Multicast {
    unsigned devices;
    char* parts[most_multicast_devices];

    /// Returns the location on one device that the address refers to.
    char* on(unsigned device, const void* address) const {
        return parts[device] + (reinterpret_cast<uintptr_t>(address) & 0xffffffffu);
    }
};

/// Returns a multicast address for these parts, or null if there are too many.
void* multicast_address(void* const* parts, int devices);

/// Returns the parts that an address refers to, or null if it is an ordinary address.
const Multicast* find_multicast(const void* address);

/// Like the function above, but ends the launch if the address is an ordinary one.
const Multicast& multicast_at(const void* address, unsigned bytes, Site site);

}  // namespace tkjit::sim
