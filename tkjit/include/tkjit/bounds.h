// Bounds checks: compares each index of a global layout with its extents, and stops the kernel at an index out of bounds.
// Only the simulator compiles this header; the checker does not, because it finds bad accesses by itself.
#pragma once

#include <tkjit/arg.h>
#include <cuda_runtime.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <type_traits>

namespace tkjit {

// The name of a layout in messages: its field's name, and its position if the field is a list of tensors.
struct Label {
    const char* name = "a layout";
    int item = -1;
    bool is_absent = false;  // an optional field that the call left out
};

namespace bounds {

// The arguments of the launch that this thread prepares, and their names in the spec.
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
    for (size_t i = 0; i < named.count; ++i) {  // `arg` may be a tensor in a list; a list's rank is 0
        if (named.args[i].rank) continue;
        const auto items = static_cast<const TkjitArg*>(named.args[i].data);
        if (position(items) < static_cast<uint64_t>(named.args[i].extents[0]))
            return {named.names[i], int(position(items)), !arg.present};
    }
    return {};
}

// An index as the kernel wrote it, with its line in the source, because operator[] takes only one argument.
struct Index {
    long long value;
    bool is_huge = false;  // too large for a long long
    sim::Site site;

    template <std::convertible_to<size_t> I>
    constexpr Index(I index, sim::Site site = sim::Site::here()) : value(static_cast<long long>(index)), site(site) {
        if constexpr (std::unsigned_integral<I>) is_huge = value < 0;
    }
};

// A single comparison in the wider of the two types, which also catches negative indices. Most accesses need no other.
constexpr bool exceeds(std::integral auto index, std::integral auto extent) {
    using Unsigned = std::make_unsigned_t<std::common_type_t<decltype(index), decltype(extent)>>;
    return static_cast<Unsigned>(index) >= static_cast<Unsigned>(extent);
}

// Index 0 of an empty extent is allowed: for a matrix without columns, &x(row, 0) is a pointer that nobody reads.
constexpr bool is_outside(long long index, unsigned long long extent) {
    return exceeds(index, extent) && (index != 0 || extent != 0);
}

// Host code may also index a layout, because the memory is the CPU's; then there is no thread to blame.
inline bool in_kernel() { return sim::current_thread != nullptr; }

// Whether the kernel fails at this index; called once the cheap comparison has failed.
inline bool is_refused(long long index, unsigned long long extent, const Label& label) {
    return in_kernel() && (label.is_absent || is_outside(index, extent));
}

// The layout's name, with its position in a list.
struct Spelled {
    char text[96];
    explicit Spelled(const Label& label) {
        if (label.item < 0) std::snprintf(text, sizeof text, "%s", label.name);
        else std::snprintf(text, sizeof text, "%s[%d]", label.name, label.item);
    }
};

// Labels are passed by value. If the address of a layout escaped, the compiler would have to assume that any store of the
// kernel may change it, and would read the extents again after each store.

inline void require_present(Label label, sim::Site site) {
    if (!label.is_absent) return;
    const Spelled name(label);
    sim::fail(site, "%s is indexed, but the call left it out; check if (g.%s) first", name.text, name.text);
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

// `bound` is the member that returns the extent.
[[noreturn, gnu::noinline, gnu::cold]] inline void fail_axis(Label label, const char* axis, long long index, long long extent,
                                                            const char* bound, sim::Site site, const char* end = " first") {
    require_present(label, site);
    sim::fail(site, "%s: %s %lld is out of bounds: the extent is %lld; compare it with %s%s", Spelled(label).text, axis, index,
              extent, bound, end);
}

[[noreturn, gnu::noinline, gnu::cold]] inline void fail_row_or_col(Label label, int row, int col, long long rows, int cols,
                                                                  sim::Site site) {
    const bool is_swapped = !is_outside(row, cols) && !is_outside(col, rows);  // only a guess: x(rows(), 0) looks the same
    const char* const order = is_swapped ? " first; or are the two swapped? The row comes first: (row, col)" : " first";
    if (is_outside(row, rows)) fail_axis(label, "row", row, rows, "rows()", site, order);
    fail_axis(label, "col", col, cols, "cols()", site, order);
}

}  // namespace bounds

// Names a launch's arguments. Layouts take their label from these names when they are constructed.
template <size_t Count>
void name_fields(const TkjitArg* args, const char* const (&names)[Count]) {
    bounds::named = {args, names, Count};
}

}  // namespace tkjit
