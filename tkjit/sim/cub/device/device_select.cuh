// cub::DeviceSelect: copies the selected items, in their order.
#pragma once

#include "../detail/device.cuh"

#include <cstdint>

namespace cub {

namespace detail {

/// Copies the items whose index is chosen. Also works in place: an item is read before its place is written.
template <class In, class Out, class Count, class Chosen>
cudaError_t select(void* temp, size_t& bytes, In in, Out out, Count num_selected, std::int64_t num_items, Chosen chosen,
                   Site site) {
    return on_device(temp, bytes, site, [=] {
        auto is_chosen = chosen;
        std::int64_t count = 0;
        for (std::int64_t i = 0; i < num_items; i++) {
            if (is_chosen(i)) out[count++] = in[i];
        }
        *num_selected = static_cast<output_t<Count, std::int64_t>>(count);
    });
}

}  // namespace detail

struct DeviceSelect {
    template <class In, class Flags, class Out, class Count>
    static cudaError_t Flagged(void* temp, size_t& bytes, In in, Flags flags, Out out, Count num_selected,
                               std::int64_t num_items, cudaStream_t = nullptr,
                               detail::Site site = detail::Site::here()) {
        const auto chosen = [=](std::int64_t i) { return static_cast<bool>(flags[i]); };
        return detail::select(temp, bytes, in, out, num_selected, num_items, chosen, site);
    }
    template <class Data, class Flags, class Count>
    static cudaError_t Flagged(void* temp, size_t& bytes, Data data, Flags flags, Count num_selected,
                               std::int64_t num_items, cudaStream_t = nullptr,
                               detail::Site site = detail::Site::here()) {
        return Flagged(temp, bytes, data, flags, data, num_selected, num_items, nullptr, site);
    }

    template <class In, class Out, class Count, class SelectOp>
    static cudaError_t If(void* temp, size_t& bytes, In in, Out out, Count num_selected, std::int64_t num_items,
                          SelectOp op, cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        const auto chosen = [=](std::int64_t i) mutable { return static_cast<bool>(op(in[i])); };
        return detail::select(temp, bytes, in, out, num_selected, num_items, chosen, site);
    }
    template <class Data, class Count, class SelectOp>
    static cudaError_t If(void* temp, size_t& bytes, Data data, Count num_selected, std::int64_t num_items, SelectOp op,
                          cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return If(temp, bytes, data, data, num_selected, num_items, op, nullptr, site);
    }
    template <class In, class Flags, class Out, class Count, class SelectOp>
    static cudaError_t FlaggedIf(void* temp, size_t& bytes, In in, Flags flags, Out out, Count num_selected,
                                 std::int64_t num_items, SelectOp op, cudaStream_t = nullptr,
                                 detail::Site site = detail::Site::here()) {
        const auto chosen = [=](std::int64_t i) mutable { return static_cast<bool>(op(flags[i])); };
        return detail::select(temp, bytes, in, out, num_selected, num_items, chosen, site);
    }

    /// Selects the first item of each run of equal ones.
    template <class In, class Out, class Count>
    static cudaError_t Unique(void* temp, size_t& bytes, In in, Out out, Count num_selected, std::int64_t num_items,
                              cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        const auto chosen = [=](std::int64_t i) { return i == 0 || !(in[i] == in[i - 1]); };
        return detail::select(temp, bytes, in, out, num_selected, num_items, chosen, site);
    }
    /// Selects the first key of each run of equal ones, and its value.
    template <class KeysIn, class ValuesIn, class KeysOut, class ValuesOut, class Count, class NumItems,
              class EqualityOp>
        requires(!std::is_convertible_v<EqualityOp, cudaStream_t>)
    static cudaError_t UniqueByKey(void* temp, size_t& bytes, KeysIn keys, ValuesIn values, KeysOut keys_out,
                                   ValuesOut values_out, Count num_selected, NumItems num_items, EqualityOp equal,
                                   cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            auto is_equal = equal;
            NumItems count = 0;
            for (NumItems i = 0; i < num_items; i++) {
                if (i > 0 && is_equal(keys[i - 1], keys[i])) continue;
                keys_out[count] = keys[i];
                values_out[count++] = values[i];
            }
            *num_selected = count;
        });
    }
    template <class KeysIn, class ValuesIn, class KeysOut, class ValuesOut, class Count, class NumItems>
    static cudaError_t UniqueByKey(void* temp, size_t& bytes, KeysIn keys, ValuesIn values, KeysOut keys_out,
                                   ValuesOut values_out, Count num_selected, NumItems num_items,
                                   cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return UniqueByKey(temp, bytes, keys, values, keys_out, values_out, num_selected, num_items, Equality(), nullptr,
                           site);
    }
};

}  // namespace cub
