// Each index of a global layout is compared with its extents, and a kernel fails at one that is outside. Only the simulator
// compiles this, and under TKJIT_SIM_BOUNDS=0 not even that.
#pragma once

#include <tkjit/arg.h>
#include <cuda_runtime.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <type_traits>

namespace tkjit {

// What a layout is called in messages: the name of a field, and the place in a list of tensors.
struct Label {
    const char* name = "a layout";
    int item = -1;
    bool is_absent = false;  // an optional field that the call left out
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
    if (position(named.args) < named.count) return {named.names[position(named.args)], -1, !arg.present};
    for (size_t i = 0; i < named.count; ++i) {  // a tensor of a list, which has no rank and a length
        if (named.args[i].rank) continue;
        const auto items = static_cast<const TkjitArg*>(named.args[i].data);
        if (position(items) < static_cast<uint64_t>(named.args[i].extents[0]))
            return {named.names[i], int(position(items)), !arg.present};
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

// All that most indices need: one comparison, of as many bits as they have.
constexpr bool exceeds(std::integral auto index, std::integral auto extent) {
    using Unsigned = std::make_unsigned_t<std::common_type_t<decltype(index), decltype(extent)>>;
    return static_cast<Unsigned>(index) >= static_cast<Unsigned>(extent);
}

// Of an empty extent the first index is allowed: &x(row, 0) of a matrix without columns is a pointer that nobody reads.
constexpr bool is_outside(long long index, unsigned long long extent) {
    return exceeds(index, extent) && (index != 0 || extent != 0);
}

// Host code may index a layout too, whose memory is the CPU's; no thread could be blamed.
inline bool in_kernel() { return sim::current_thread != nullptr; }

// Whether a kernel fails at an index that exceeds its extent.
inline bool is_refused(long long index, unsigned long long extent, const Label& label) {
    return in_kernel() && (label.is_absent || is_outside(index, extent));
}

// The layout's name with its place in a list.
struct Spelled {
    char text[96];
    explicit Spelled(const Label& label) {
        if (label.item < 0) std::snprintf(text, sizeof text, "%s", label.name);
        else std::snprintf(text, sizeof text, "%s[%d]", label.name, label.item);
    }
};

// Labels are passed by value: a struct whose address is known may be changed by every store of the kernel, and its extents
// would be read again after each.

inline void require_present(Label label, sim::Site site) {
    if (!label.is_absent) return;
    const Spelled name(label);
    sim::fail(site, "%s is indexed, and the call left it out; if (g.%s) asks for it first", name.text, name.text);
}

[[noreturn, gnu::noinline, gnu::cold]] inline void fail_element(Label label, Index i, size_t numel) {
    require_present(label, i.site);
    const Spelled name(label);
    char index[24];
    if (i.is_huge) std::snprintf(index, sizeof index, "%llu", static_cast<unsigned long long>(i.value));
    else std::snprintf(index, sizeof index, "%lld", i.value);
    sim::fail(i.site, "%s[%s] is out of bounds: %s has %llu elements; compare the index with numel() first", name.text, index,
              name.text, static_cast<unsigned long long>(numel));
}

// `bound` is the member that has the extent.
[[noreturn, gnu::noinline, gnu::cold]] inline void fail_axis(Label label, const char* axis, long long index, long long extent,
                                                            const char* bound, sim::Site site, const char* end = " first") {
    require_present(label, site);
    sim::fail(site, "%s: %s %lld is out of bounds: the extent is %lld; compare it with %s%s", Spelled(label).text, axis, index,
              extent, bound, end);
}

[[noreturn, gnu::noinline, gnu::cold]] inline void fail_row_or_col(Label label, int row, int col, long long rows, int cols,
                                                                  sim::Site site) {
    const bool is_swapped = !is_outside(row, cols) && !is_outside(col, rows);  // perhaps: x(rows(), 0) looks like it, too
    const char* const order = is_swapped ? " first; or are the two swapped? The row comes first: (row, col)" : " first";
    if (is_outside(row, rows)) fail_axis(label, "row", row, rows, "rows()", site, order);
    fail_axis(label, "col", col, cols, "cols()", site, order);
}

}  // namespace bounds

// The names of a launch's arguments, which their layouts get when they are made.
template <size_t Count>
void name_fields(const TkjitArg* args, const char* const (&names)[Count]) {
    bounds::named = {args, names, Count};
}

}  // namespace tkjit
