// cub::DeviceHistogram: counts samples by bins.
#pragma once

#include "../detail/device.cuh"

#include <cstdint>

namespace cub {

namespace detail {

/// The bin of a sample in even bins, or -1.
template <class Level>
struct EvenBins {
    int bins;
    Level lower, upper;

    template <class Sample>
    int operator()(Sample sample) const {
        using Common = std::common_type_t<Level, Sample>;
        const Common value = static_cast<Common>(sample);
        if (!(value >= static_cast<Common>(lower) && value < static_cast<Common>(upper))) return -1;
        if constexpr (std::is_integral_v<Common>) {
            using Wide = unsigned __int128;
            const Wide distance = static_cast<Wide>(value - static_cast<Common>(lower));
            return static_cast<int>(distance * static_cast<unsigned>(bins) / static_cast<Wide>(upper - lower));
        } else {
            const Common scale = static_cast<Common>(bins) / static_cast<Common>(upper - lower);
            const int bin = static_cast<int>((value - static_cast<Common>(lower)) * scale);
            return bin < bins ? bin : bins - 1;
        }
    }
};

/// The bin of a sample between increasing levels, or -1.
template <class Level>
struct RangeBins {
    int bins;
    const Level* levels;

    template <class Sample>
    int operator()(Sample sample) const {
        int bin = -1;
        for (int low = 0, high = bins + 1; low < high;) {
            const int middle = (low + high) / 2;
            if (sample < levels[middle]) high = middle;
            else bin = middle, low = middle + 1;
        }
        return bin < bins ? bin : -1;
    }
};

/// Counts rows of pixels with `Channels` samples, of which the first `Active` are counted.
template <int Channels, int Active, class Samples, class Counter, class Bins>
cudaError_t histogram(void* temp, size_t& bytes, Samples samples, Counter* const* histograms, const Bins* bins,
                      std::int64_t pixels, std::int64_t rows, size_t row_bytes, Site site) {
    return on_device(temp, bytes, site, [=] {
        for (int channel = 0; channel < Active; channel++) {
            Counter* const counts = histograms[channel];
            const Bins bin_of = bins[channel];
            for (int bin = 0; bin < bin_of.bins; bin++) counts[bin] = 0;
            for (std::int64_t row = 0; row < rows; row++) {
                const std::int64_t first = row * static_cast<std::int64_t>(row_bytes / sizeof(value_t<Samples>));
                for (std::int64_t pixel = 0; pixel < pixels; pixel++) {
                    const int bin = bin_of(samples[first + pixel * Channels + channel]);
                    if (bin >= 0) counts[bin] += 1;
                }
            }
        }
    });
}

}  // namespace detail

/// A histogram with `num_levels` levels has one bin fewer. Samples outside of the levels are not counted.
struct DeviceHistogram {
    template <class Samples, class Counter, class Level>
    static cudaError_t HistogramEven(void* temp, size_t& bytes, Samples samples, Counter* histogram, int num_levels,
                                     Level lower, Level upper, std::int64_t num_samples, cudaStream_t = nullptr,
                                     detail::Site site = detail::Site::here()) {
        return HistogramEven(temp, bytes, samples, histogram, num_levels, lower, upper, num_samples, 1, 0, nullptr, site);
    }
    template <class Samples, class Counter, class Level>
    static cudaError_t HistogramEven(void* temp, size_t& bytes, Samples samples, Counter* histogram, int num_levels,
                                     Level lower, Level upper, std::int64_t num_row_samples, std::int64_t num_rows,
                                     size_t row_stride_bytes, cudaStream_t = nullptr,
                                     detail::Site site = detail::Site::here()) {
        const detail::EvenBins<Level> bins{num_levels - 1, lower, upper};
        return detail::histogram<1, 1>(temp, bytes, samples, &histogram, &bins, num_row_samples, num_rows,
                                       row_stride_bytes, site);
    }
    template <class Samples, class Counter, class Level>
    static cudaError_t HistogramRange(void* temp, size_t& bytes, Samples samples, Counter* histogram, int num_levels,
                                      const Level* levels, std::int64_t num_samples, cudaStream_t = nullptr,
                                      detail::Site site = detail::Site::here()) {
        return HistogramRange(temp, bytes, samples, histogram, num_levels, levels, num_samples, 1, 0, nullptr, site);
    }
    template <class Samples, class Counter, class Level>
    static cudaError_t HistogramRange(void* temp, size_t& bytes, Samples samples, Counter* histogram, int num_levels,
                                      const Level* levels, std::int64_t num_row_samples, std::int64_t num_rows,
                                      size_t row_stride_bytes, cudaStream_t = nullptr,
                                      detail::Site site = detail::Site::here()) {
        const detail::RangeBins<Level> bins{num_levels - 1, levels};
        return detail::histogram<1, 1>(temp, bytes, samples, &histogram, &bins, num_row_samples, num_rows,
                                       row_stride_bytes, site);
    }

    template <int Channels, int Active, class Samples, class Counter, class Level>
    static cudaError_t MultiHistogramEven(void* temp, size_t& bytes, Samples samples, Counter* histograms[Active],
                                          const int num_levels[Active], const Level lower[Active],
                                          const Level upper[Active], std::int64_t num_pixels, cudaStream_t = nullptr,
                                          detail::Site site = detail::Site::here()) {
        detail::EvenBins<Level> bins[Active];
        for (int i = 0; i < Active; i++) bins[i] = {num_levels[i] - 1, lower[i], upper[i]};
        return detail::histogram<Channels, Active>(temp, bytes, samples, histograms, bins, num_pixels, 1, 0, site);
    }
    template <int Channels, int Active, class Samples, class Counter, class Level>
    static cudaError_t MultiHistogramRange(void* temp, size_t& bytes, Samples samples, Counter* histograms[Active],
                                           const int num_levels[Active], const Level* const levels[Active],
                                           std::int64_t num_pixels, cudaStream_t = nullptr,
                                           detail::Site site = detail::Site::here()) {
        detail::RangeBins<Level> bins[Active];
        for (int i = 0; i < Active; i++) bins[i] = {num_levels[i] - 1, levels[i]};
        return detail::histogram<Channels, Active>(temp, bytes, samples, histograms, bins, num_pixels, 1, 0, site);
    }
};

}  // namespace cub
