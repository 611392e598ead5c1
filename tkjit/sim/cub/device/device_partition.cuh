// cub::DevicePartition: the chosen items first, then the others.
#pragma once

#include "../detail/device.cuh"

#include <cstdint>

namespace cub {

/// The chosen items keep their order; the others follow in reverse order.
struct DevicePartition {
    template <class In, class Flags, class Out, class Count>
    static cudaError_t Flagged(void* temp, size_t& bytes, In in, Flags flags, Out out, Count num_selected,
                               std::int64_t num_items, cudaStream_t = nullptr,
                               detail::Site site = detail::Site::here()) {
        const auto chosen = [=](std::int64_t i) { return static_cast<bool>(flags[i]); };
        return partition(temp, bytes, in, out, num_selected, num_items, chosen, site);
    }
    template <class In, class Out, class Count, class SelectOp>
    static cudaError_t If(void* temp, size_t& bytes, In in, Out out, Count num_selected, std::int64_t num_items,
                          SelectOp op, cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        const auto chosen = [=](std::int64_t i) mutable { return static_cast<bool>(op(in[i])); };
        return partition(temp, bytes, in, out, num_selected, num_items, chosen, site);
    }
    /// Makes three parts, each in the order of the input, and returns the counts of the first two.
    template <class In, class First, class Second, class Rest, class Counts, class FirstOp, class SecondOp>
    static cudaError_t If(void* temp, size_t& bytes, In in, First first, Second second, Rest rest, Counts num_selected,
                          std::int64_t num_items, FirstOp is_first, SecondOp is_second, cudaStream_t = nullptr,
                          detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            auto in_first = is_first;
            auto in_second = is_second;
            std::int64_t firsts = 0, seconds = 0, others = 0;
            for (std::int64_t i = 0; i < num_items; i++) {
                const value_t<In> item = in[i];
                if (in_first(item)) first[firsts++] = item;
                else if (in_second(item)) second[seconds++] = item;
                else rest[others++] = item;
            }
            num_selected[0] = static_cast<detail::output_t<Counts, std::int64_t>>(firsts);
            num_selected[1] = static_cast<detail::output_t<Counts, std::int64_t>>(seconds);
        });
    }

  private:
    template <class In, class Out, class Count, class Chosen>
    static cudaError_t partition(void* temp, size_t& bytes, In in, Out out, Count num_selected, std::int64_t num_items,
                                 Chosen chosen, detail::Site site) {
        return detail::on_device(temp, bytes, site, [=] {
            auto is_chosen = chosen;
            std::int64_t count = 0, end = num_items;
            for (std::int64_t i = 0; i < num_items; i++) {
                if (is_chosen(i)) out[count++] = in[i];
                else out[--end] = in[i];
            }
            *num_selected = static_cast<detail::output_t<Count, std::int64_t>>(count);
        });
    }
};

}  // namespace cub
