// Checks whether an asynchronous copy may be issued. The copy's memory is checked when it is issued, not when it lands.
#pragma once

#include "../detail/site.h"

#include <stddef.h>

namespace tkjit::sim::check {

#if defined(TKJIT_SIM_MEMORY) || defined(TKJIT_SIM_OVERFLOW)
/// Returns false and writes a finding if the kernel must not use the memory.
bool may_use(const void* address, size_t bytes, const char* access, Site site);
#else
inline bool may_use(const void*, size_t, const char*, Site) { return true; }
#endif

inline bool may_copy(const void* destination, size_t bytes, const void* source, size_t source_bytes, Site site) {
    const bool reads = may_use(source, source_bytes, "read", site);
    return may_use(destination, bytes, "write", site) && reads;
}

}  // namespace tkjit::sim::check
