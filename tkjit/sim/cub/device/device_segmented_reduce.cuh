// cub::DeviceSegmentedReduce.
#pragma once

#include "device_reduce.cuh"

namespace cub {

/// Segment i has the items from `begins[i]` to before `ends[i]`.
struct DeviceSegmentedReduce {
    template <class In, class Out, class Begins, class Ends, class ReductionOp, class T>
    static cudaError_t Reduce(void* temp, size_t& bytes, In in, Out out, std::int64_t num_segments, Begins begins,
                              Ends ends, ReductionOp op, T init, cudaStream_t = nullptr,
                              detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            for (std::int64_t i = 0; i < num_segments; i++) {
                out[i] = detail::sum_up(in, std::int64_t(begins[i]), std::int64_t(ends[i]), op, init);
            }
        });
    }
    template <class In, class Out, class Begins, class Ends>
    static cudaError_t Sum(void* temp, size_t& bytes, In in, Out out, std::int64_t num_segments, Begins begins,
                           Ends ends, cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        const detail::output_t<Out, value_t<In>> zero{};
        return Reduce(temp, bytes, in, out, num_segments, begins, ends, cub::Sum(), zero, nullptr, site);
    }
    template <class In, class Out, class Begins, class Ends>
    static cudaError_t Min(void* temp, size_t& bytes, In in, Out out, std::int64_t num_segments, Begins begins,
                           Ends ends, cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        const auto init = Traits<value_t<In>>::Max();
        return Reduce(temp, bytes, in, out, num_segments, begins, ends, cub::Min(), init, nullptr, site);
    }
    template <class In, class Out, class Begins, class Ends>
    static cudaError_t Max(void* temp, size_t& bytes, In in, Out out, std::int64_t num_segments, Begins begins,
                           Ends ends, cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        const auto init = Traits<value_t<In>>::Lowest();
        return Reduce(temp, bytes, in, out, num_segments, begins, ends, cub::Max(), init, nullptr, site);
    }
    template <class In, class Out, class Begins, class Ends>
    static cudaError_t ArgMin(void* temp, size_t& bytes, In in, Out out, std::int64_t num_segments, Begins begins,
                              Ends ends, cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return arg(temp, bytes, in, out, num_segments, begins, ends, detail::Less(), Traits<value_t<In>>::Max(), site);
    }
    template <class In, class Out, class Begins, class Ends>
    static cudaError_t ArgMax(void* temp, size_t& bytes, In in, Out out, std::int64_t num_segments, Begins begins,
                              Ends ends, cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return arg(temp, bytes, in, out, num_segments, begins, ends, detail::Greater(), Traits<value_t<In>>::Lowest(), site);
    }

  private:
    template <class In, class Out, class Begins, class Ends, class Better>
    static cudaError_t arg(void* temp, size_t& bytes, In in, Out out, std::int64_t num_segments, Begins begins,
                           Ends ends, Better better, value_t<In> empty, detail::Site site) {
        using Pair = detail::output_t<Out, KeyValuePair<int, value_t<In>>>;
        return detail::on_device(temp, bytes, site, [=] {
            for (std::int64_t i = 0; i < num_segments; i++) {
                out[i] = detail::best_of<detail::pair_key_t<Pair>, detail::pair_value_t<Pair>>(
                    in, std::int64_t(begins[i]), std::int64_t(ends[i]), better, empty);
            }
        });
    }
};

}  // namespace cub
