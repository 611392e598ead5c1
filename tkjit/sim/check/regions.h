// The memory that a checked kernel may use, by name: tensors, shared memory, and the source's variables.
#pragma once

#include "findings.h"

#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

extern "C" char __start_tkjit_registers[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_tkjit_registers[] __attribute__((weak, visibility("hidden")));

namespace tkjit::sim::check {

enum class Space { tensor, dynamic_shared, static_shared, variable };

inline const char* space_name(Space space) {
    static const char* const names[] = {"tensor", "dynamic shared memory", "shared memory", "variable"};
    return names[static_cast<int>(space)];
}

struct Region {
    uintptr_t begin, end;
    Space space;
    std::string name;   // of a tensor
    bool starts_blank;  // its bytes are undefined until they are written
    bool is_output;     // the kernel should write all of it

    bool contains(uintptr_t address) const { return begin <= address && address < end; }
};

inline std::vector<Region> regions;  // sorted by address; none overlaps another
inline std::mutex regions_lock;      // the OS threads of cooperative blocks reserve their windows concurrently

inline bool begins_after(uintptr_t address, const Region& region) { return address < region.begin; }

/// Returns the region that contains an address, or null for memory that threads cannot share: their stacks and the
/// simulator's own memory.
inline const Region* region_of(uintptr_t address) {
    static size_t last = 0;
    if (last < regions.size() && regions[last].contains(address)) return &regions[last];
    if (address - reinterpret_cast<uintptr_t>(__start_tkjit_registers) <
        size_t(__stop_tkjit_registers - __start_tkjit_registers)) {
        return nullptr;
    }
    const auto after = std::upper_bound(regions.begin(), regions.end(), address, begins_after);
    if (after == regions.begin() || !after[-1].contains(address)) return nullptr;
    last = size_t(after - regions.begin()) - 1;
    return &regions[last];
}

/// Returns the region that contains an address, or else the nearest one. Returns null if all are too far away.
inline const Region* nearest_region(uintptr_t address) {
    constexpr uintptr_t too_far = 64 << 20;
    const std::lock_guard guard(regions_lock);
    const Region* nearest = nullptr;
    uintptr_t least = too_far;
    for (const Region& region : regions) {
        const uintptr_t distance = region.contains(address)    ? 0
                                   : address < region.begin ? region.begin - address
                                                            : address - region.end;
        if (distance < least) {
            least = distance;
            nearest = &region;
        }
    }
    return nearest;
}

/// Adds the region that contains an address, or the nearest one, to a finding.
inline void add_nearest(Json& json, uintptr_t address) {
    const Region* const near = nearest_region(address);
    if (near == nullptr) return;
    json.text("space", space_name(near->space)).text("name", near->name);
    json.number("offset", static_cast<long long>(address - near->begin));
    json.number("size", static_cast<long long>(near->end - near->begin));
}

/// Forgets the regions in memory that is about to be divided differently.
inline void remove_regions(const void* begin, size_t bytes) {
    const auto first = reinterpret_cast<uintptr_t>(begin);
    const std::lock_guard guard(regions_lock);
    std::erase_if(regions, [&](const Region& region) {
        return region.begin == first || (region.begin < first + bytes && first < region.end);
    });
}

/// Adds a region, replacing any that overlap it, because freed memory may be used again.
inline void add_region(const void* begin, size_t bytes, Space space, const std::string& name, bool starts_blank,
                       bool is_output = false) {
    const auto first = reinterpret_cast<uintptr_t>(begin);
    const uintptr_t end = first + bytes;
    remove_regions(begin, bytes);
    const std::lock_guard guard(regions_lock);
    if (bytes == 0) return;
    const auto after = std::upper_bound(regions.begin(), regions.end(), first, begins_after);
    regions.insert(after, {first, end, space, name, starts_blank, is_output});
}

/// Records that all of a region is defined.
inline void set_written(const Region& region) { regions[static_cast<size_t>(&region - regions.data())].starts_blank = false; }

/// The program's own memory: its global variables, and its thread-local variables, which are the kernel's static shared
/// memory (in these builds the simulator has no thread-local variables).
struct OwnMemory {
    void* shared = nullptr;
    size_t shared_bytes = 0;
    struct Segment { void* begin; size_t bytes; };
    std::vector<Segment> writable;
};

inline OwnMemory own_memory() {
    OwnMemory found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* data) {
            OwnMemory& memory = *static_cast<OwnMemory*>(data);
            for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr)& header = info->dlpi_phdr[i];
                if (header.p_type == PT_TLS && info->dlpi_tls_data) {
                    memory.shared = info->dlpi_tls_data;
                    memory.shared_bytes = header.p_memsz;
                } else if (header.p_type == PT_LOAD && header.p_flags & PF_W) {
                    void* const begin = reinterpret_cast<void*>(info->dlpi_addr + header.p_vaddr);
                    memory.writable.push_back({begin, header.p_memsz});
                }
            }
            return 1;  // the first object is the program itself
        },
        &found);
    return found;
}

// ---- constant memory

struct Range { uintptr_t begin, end; };
inline std::vector<Range> constants;

/// Finds the sections of `__constant__` variables that are not const (detail/language.h) in the program's own file,
/// which is not position-independent. Const variables are in memory that no program can write.
inline void find_constants() {
    const int file = open("/proc/self/exe", O_RDONLY);
    if (file < 0) return;
    const auto read_at = [file](void* to, size_t bytes, size_t offset) {
        return pread(file, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
    };
    ElfW(Ehdr) header;
    std::vector<ElfW(Shdr)> sections;
    std::string names;
    if (read_at(&header, sizeof(header), 0) && header.e_shstrndx < header.e_shnum) {
        sections.resize(header.e_shnum);
        if (!read_at(sections.data(), sections.size() * sizeof(ElfW(Shdr)), header.e_shoff)) sections.clear();
    }
    if (!sections.empty()) {
        const ElfW(Shdr)& table = sections[header.e_shstrndx];
        names.resize(table.sh_size);
        if (!read_at(names.data(), names.size(), table.sh_offset)) sections.clear();
    }
    close(file);
    for (const ElfW(Shdr)& section : sections) {
        const std::string name = names.c_str() + section.sh_name;
        if (name.rfind("tkjit_constant_", 0) == 0) constants.push_back({section.sh_addr, section.sh_addr + section.sh_size});
    }
}

inline bool is_constant(uintptr_t address) {
    for (const Range& one : constants) {
        if (one.begin <= address && address < one.end) return true;
    }
    return false;
}

}  // namespace tkjit::sim::check
