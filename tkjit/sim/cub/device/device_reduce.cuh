// cub::DeviceReduce.
#pragma once

#include "../detail/device.cuh"

namespace cub {

namespace detail {

/// Returns the extremum of `input[begin]` to `input[end - 1]` and its index, counted from `begin`, or {1, empty} if the
/// range is empty.
template <class Index, class T, class Iterator, class Size, class Better>
KeyValuePair<Index, T> best_of(Iterator input, Size begin, Size end, Better better, T empty) {
    if (begin >= end) return {Index(1), empty};
    KeyValuePair<Index, T> best(0, input[begin]);
    for (Size i = begin + 1; i < end; i++) {
        const T value = input[i];
        if (better(value, best.value)) best = {static_cast<Index>(i - begin), value};
    }
    return best;
}

struct Less {
    template <class T>
    bool operator()(const T& a, const T& b) const { return a < b; }
};
struct Greater {
    template <class T>
    bool operator()(const T& a, const T& b) const { return b < a; }
};

template <class Pair>
using pair_value_t = decltype(std::declval<Pair&>().value);
template <class Pair>
using pair_key_t = decltype(std::declval<Pair&>().key);

}  // namespace detail

struct DeviceReduce {
    template <class In, class Out, class ReductionOp, class T, class NumItems>
    static cudaError_t Reduce(void* temp, size_t& bytes, In in, Out out, NumItems num_items, ReductionOp op, T init,
                              cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] { *out = detail::sum_up(in, NumItems(0), num_items, op, init); });
    }
    template <class In, class Out, class NumItems>
    static cudaError_t Sum(void* temp, size_t& bytes, In in, Out out, NumItems num_items, cudaStream_t = nullptr,
                           detail::Site site = detail::Site::here()) {
        return Reduce(temp, bytes, in, out, num_items, cub::Sum(), detail::output_t<Out, value_t<In>>{}, nullptr, site);
    }
    template <class In, class Out, class NumItems>
    static cudaError_t Min(void* temp, size_t& bytes, In in, Out out, NumItems num_items, cudaStream_t = nullptr,
                           detail::Site site = detail::Site::here()) {
        return Reduce(temp, bytes, in, out, num_items, cub::Min(), Traits<value_t<In>>::Max(), nullptr, site);
    }
    template <class In, class Out, class NumItems>
    static cudaError_t Max(void* temp, size_t& bytes, In in, Out out, NumItems num_items, cudaStream_t = nullptr,
                           detail::Site site = detail::Site::here()) {
        return Reduce(temp, bytes, in, out, num_items, cub::Max(), Traits<value_t<In>>::Lowest(), nullptr, site);
    }
    template <class In, class Out, class ReductionOp, class TransformOp, class T, class NumItems>
    static cudaError_t TransformReduce(void* temp, size_t& bytes, In in, Out out, NumItems num_items, ReductionOp op,
                                       TransformOp transform, T init, cudaStream_t = nullptr,
                                       detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            auto reduction = op;
            detail::accumulator_t<ReductionOp, T, std::invoke_result_t<const TransformOp&, value_t<In>>> total = init;
            for (NumItems i = 0; i < num_items; i++) total = reduction(total, transform(in[i]));
            *out = total;
        });
    }

    /// The output is a KeyValuePair of the index and the value.
    template <class In, class Out, class NumItems>
        requires std::integral<NumItems>
    static cudaError_t ArgMin(void* temp, size_t& bytes, In in, Out out, NumItems num_items, cudaStream_t = nullptr,
                              detail::Site site = detail::Site::here()) {
        return arg(temp, bytes, in, out, num_items, detail::Less(), Traits<value_t<In>>::Max(), site);
    }
    template <class In, class Out, class NumItems>
        requires std::integral<NumItems>
    static cudaError_t ArgMax(void* temp, size_t& bytes, In in, Out out, NumItems num_items, cudaStream_t = nullptr,
                              detail::Site site = detail::Site::here()) {
        return arg(temp, bytes, in, out, num_items, detail::Greater(), Traits<value_t<In>>::Lowest(), site);
    }
    /// The extremum and its index have separate outputs.
    template <class In, class Out, class Index>
    static cudaError_t ArgMin(void* temp, size_t& bytes, In in, Out out, Index index, std::int64_t num_items,
                              cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return arg(temp, bytes, in, out, index, num_items, detail::Less(), Traits<value_t<In>>::Max(), site);
    }
    template <class In, class Out, class Index>
    static cudaError_t ArgMax(void* temp, size_t& bytes, In in, Out out, Index index, std::int64_t num_items,
                              cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return arg(temp, bytes, in, out, index, num_items, detail::Greater(), Traits<value_t<In>>::Lowest(), site);
    }

    /// Writes one sum for each run of equal keys.
    template <class KeysIn, class KeysOut, class ValuesIn, class SumsOut, class CountOut, class ReductionOp,
              class NumItems>
    static cudaError_t ReduceByKey(void* temp, size_t& bytes, KeysIn keys, KeysOut unique, ValuesIn values,
                                   SumsOut sums, CountOut num_runs, ReductionOp op, NumItems num_items,
                                   cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            auto reduction = op;
            NumItems runs = 0;
            for (NumItems i = 0; i < num_items; runs++) {
                const value_t<KeysIn> key = keys[i];
                detail::accumulator_t<ReductionOp, value_t<ValuesIn>, value_t<ValuesIn>> total = values[i];
                for (i++; i < num_items && key == keys[i]; i++) total = reduction(total, values[i]);
                unique[runs] = key;
                sums[runs] = total;
            }
            *num_runs = runs;
        });
    }

  private:
    template <class In, class Out, class NumItems, class Better>
    static cudaError_t arg(void* temp, size_t& bytes, In in, Out out, NumItems num_items, Better better,
                           value_t<In> empty, detail::Site site) {
        using Pair = detail::output_t<Out, KeyValuePair<int, value_t<In>>>;
        return detail::on_device(temp, bytes, site, [=] {
            *out = detail::best_of<detail::pair_key_t<Pair>, detail::pair_value_t<Pair>>(in, NumItems(0), num_items, better,
                                                                                        empty);
        });
    }
    template <class In, class Out, class Index, class Better>
    static cudaError_t arg(void* temp, size_t& bytes, In in, Out out, Index index, std::int64_t num_items,
                           Better better, value_t<In> empty, detail::Site site) {
        return detail::on_device(temp, bytes, site, [=] {
            const auto best = detail::best_of<std::int64_t, value_t<In>>(in, std::int64_t(0), num_items, better, empty);
            *out = best.value;
            *index = static_cast<value_t<Index>>(best.key);
        });
    }
};

}  // namespace cub
