// Multicast addresses: one stands for the same place in the memory of several devices. No memory lies there; what reads or
// writes one by `multimem` or a tensor map looks up the parts.
#pragma once

#include "site.h"

#include <stdint.h>

namespace tkjit::sim {

inline constexpr unsigned most_multicast_devices = 16;

struct Multicast {
    unsigned devices;
    char* parts[most_multicast_devices];

    /// A device's place of an address.
    char* on(unsigned device, const void* address) const {
        return parts[device] + (reinterpret_cast<uintptr_t>(address) & 0xffffffffu);
    }
};

/// An address for these parts; null if there are too many.
void* multicast_address(void* const* parts, int devices);

/// The parts of an address; null if it is an ordinary one.
const Multicast* find_multicast(const void* address);

/// The same; a launch whose address is an ordinary one fails.
const Multicast& multicast_at(const void* address, unsigned bytes, Site site);

}  // namespace tkjit::sim
