// axpy and softmax in C++17, exported by tkjit: a wrapper around layers.h.
//
// A function throws a tkjit::Error if it fails; its try_ form returns a tkjit::Result instead. Its _into
// form writes to outputs that you pass. A stream is a cudaStream_t of the tensors' device; null is the
// default stream.
#ifndef LAYERS_HPP
#define LAYERS_HPP

#include "layers.h"
#include "layers/tensors.hpp"

#include <tuple>

namespace layers {

using tkjit::Tensor;

// Throws if the library does not match this header.
inline void check_interface() {
    tkjit::check(layers_check_interface(LAYERS_INTERFACE));
}

// Computes alpha * x + y in place.
//
// Parameters
// ----------
// x : (N,) float32, bfloat16 or float16
// y : (N,) of x's dtype; overwritten and returned
// alpha : the factor of x
inline void axpy(const Tensor& x, Tensor& y, double alpha = 1.0, void* stream = nullptr) {
    tkjit::check(layers_axpy(x.get(), y.get(), alpha, stream));
}
inline tkjit::Result<tkjit::Done> try_axpy(const Tensor& x, Tensor& y, double alpha = 1.0,
    void* stream = nullptr) {
    return tkjit::result_of([&] { axpy(x, y, alpha, stream); return tkjit::Done{}; });
}

// Computes exp(x - max(x)) / sum(exp(x - max(x))) along the last dimension.
//
// Parameters
// ----------
// x : (..., N) float32, bfloat16 or float16; computed in float32
//
// Returns
// -------
// y : (..., N) of x's dtype; each row sums to 1
//
// Notes
// -----
// The maximum and the sum are found in one pass over the row. Source: Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018.
inline void softmax_into(const Tensor& x, Tensor& y, void* stream = nullptr) {
    tkjit::check(layers_softmax(x.get(), y.get(), stream));
}
inline Tensor softmax(const Tensor& x, void* stream = nullptr) {
    Tensor y;
    softmax_into(x, y, stream);
    return y;
}
inline tkjit::Result<Tensor> try_softmax(const Tensor& x, void* stream = nullptr) {
    return tkjit::result_of([&] { return softmax(x, stream); });
}

}  // namespace layers

#endif  // LAYERS_HPP
