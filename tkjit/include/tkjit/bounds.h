// TKJIT_SIM_BOUNDS=1: each index of a global layout is compared with its extents, and a kernel fails at one that is outside.
// Only the simulator compiles this.
#pragma once

#include <tkjit/arg.h>
#include <cuda_runtime.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace tkjit {

// What a layout is called in messages: the name of a field, and the place in a list of tensors.
struct Label {
    const char* name = "a layout";
    int item = -1;
};

namespace bounds {

// The arguments of the launch that this thread prepares, and what the spec calls them.
struct Named {
    const TkjitArg* args = nullptr;
    const char* const* names = nullptr;
    size_t count = 0;
};
inline thread_local Named named;

inline Label label_of(const TkjitArg& arg) {
    const auto address = reinterpret_cast<uintptr_t>(&arg);
    const auto position = [address](const TkjitArg* first) {
        return (address - reinterpret_cast<uintptr_t>(first)) / sizeof(TkjitArg);
    };
    if (position(named.args) < named.count) return {named.names[position(named.args)]};
    for (size_t i = 0; i < named.count; ++i) {  // a tensor of a list, which has no rank and a length
        if (named.args[i].rank) continue;
        const auto items = static_cast<const TkjitArg*>(named.args[i].data);
        if (position(items) < static_cast<uint64_t>(named.args[i].extents[0])) return {named.names[i], int(position(items))};
    }
    return {};
}

// An index as the kernel wrote it, and where it stands: an operator[] has no room for a second argument.
struct Index {
    long long value;
    bool is_huge = false;  // more than a long long holds
    sim::Site site;

    template <std::convertible_to<size_t> I>
    constexpr Index(I index, sim::Site site = sim::Site::here()) : value(static_cast<long long>(index)), site(site) {
        if constexpr (std::unsigned_integral<I>) is_huge = value < 0;
    }
};

constexpr const Index& first(const Index& index, const auto&...) { return index; }

// The layout's name with its place in a list.
struct Spelled {
    char text[96];
    explicit Spelled(const Label& label) {
        if (label.item < 0) std::snprintf(text, sizeof text, "%s", label.name);
        else std::snprintf(text, sizeof text, "%s[%d]", label.name, label.item);
    }
};

[[noreturn, gnu::noinline, gnu::cold]] inline void fail_absent(const Label& label, sim::Site site) {
    sim::fail(site, "%s is indexed, and the call left it out", Spelled(label).text);
}

[[noreturn, gnu::noinline, gnu::cold]] inline void fail_element(const Label& label, const Index& i, size_t numel) {
    const Spelled name(label);
    const auto extent = static_cast<unsigned long long>(numel);
    if (i.is_huge) sim::fail(i.site, "%s[%llu] is out of bounds: %s has %llu elements", name.text,
                             static_cast<unsigned long long>(i.value), name.text, extent);
    sim::fail(i.site, "%s[%lld] is out of bounds: %s has %llu elements", name.text, i.value, name.text, extent);
}

[[noreturn, gnu::noinline, gnu::cold]] inline void fail_axis(const Label& label, const char* axis, long long index,
                                                            long long extent, sim::Site site) {
    sim::fail(site, "%s: %s %lld is out of bounds: the extent is %lld", Spelled(label).text, axis, index, extent);
}

// Host code may index a layout too, whose memory is the CPU's; no thread could be blamed.
inline bool in_kernel() { return sim::current_thread != nullptr; }

}  // namespace bounds

// The names of a launch's arguments, which their layouts get when they are made.
template <size_t Count>
void name_fields(const TkjitArg* args, const char* const (&names)[Count]) {
    bounds::named = {args, names, Count};
}

}  // namespace tkjit
