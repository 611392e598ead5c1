// cub::DeviceRunLengthEncode: runs of equal items.
#pragma once

#include "../detail/device.cuh"

#include <cstdint>

namespace cub {

struct DeviceRunLengthEncode {
    template <class In, class Unique, class Counts, class NumRuns>
    static cudaError_t Encode(void* temp, size_t& bytes, In in, Unique unique, Counts counts, NumRuns num_runs,
                              std::int64_t num_items, cudaStream_t = nullptr,
                              detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            std::int64_t runs = 0;
            for_each_run(in, num_items, [&](std::int64_t begin, std::int64_t end) {
                unique[runs] = in[begin];
                counts[runs++] = static_cast<detail::output_t<Counts, std::int64_t>>(end - begin);
            });
            *num_runs = static_cast<detail::output_t<NumRuns, std::int64_t>>(runs);
        });
    }
    /// Finds the beginnings and lengths of the runs of more than one item.
    template <class In, class Offsets, class Lengths, class NumRuns>
    static cudaError_t NonTrivialRuns(void* temp, size_t& bytes, In in, Offsets offsets, Lengths lengths,
                                      NumRuns num_runs, std::int64_t num_items, cudaStream_t = nullptr,
                                      detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            std::int64_t runs = 0;
            for_each_run(in, num_items, [&](std::int64_t begin, std::int64_t end) {
                if (end - begin < 2) return;
                offsets[runs] = static_cast<detail::output_t<Offsets, std::int64_t>>(begin);
                lengths[runs++] = static_cast<detail::output_t<Lengths, std::int64_t>>(end - begin);
            });
            *num_runs = static_cast<detail::output_t<NumRuns, std::int64_t>>(runs);
        });
    }

  private:
    template <class In, class Visit>
    static void for_each_run(In in, std::int64_t num_items, Visit visit) {
        for (std::int64_t begin = 0, end; begin < num_items; begin = end) {
            for (end = begin + 1; end < num_items && in[end] == in[end - 1];) end++;
            visit(begin, end);
        }
    }
};

}  // namespace cub
