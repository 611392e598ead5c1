// Parallel global layouts: the same extents on each of several devices.
#pragma once

#include <mittens/layout.h>

#include <cstddef>
#include <utility>

namespace mittens {

template <all_gl G, int NumDevices>
struct pgl {
    using GL = G;
    using dtype = typename G::dtype;
    static constexpr int num_devices = NumDevices;
    static constexpr bool multicast = false;

    GL gls[NumDevices];

    pgl() = delete;
    // `data` points to a pointer for each device.
    pgl(dtype** data, extent_argument<G::__b__> batch, extent_argument<G::__d__> depth, extent_argument<G::__r__> rows,
        extent_argument<G::__c__> cols)
        : pgl(std::make_index_sequence<NumDevices>{}, data, batch, depth, rows, cols) {}

    __host__ __device__ const GL& operator[](int device) const { return gls[device]; }

private:
    template <size_t... I, class... Extents>
    pgl(std::index_sequence<I...>, dtype** data, Extents... extents) : gls{GL(data[I], extents...)...} {}
};

}  // namespace mittens
