// The epilogue of a linear layer.
#pragma once

#include <tkjit/gl.h>

#include "activation.cuh"

/// Makes an element of the result from its sum: adds the bias of the column, and applies the activation.
template <class T, class Activation>
struct Finish {
    tkjit::gl<T, 1, 1, 1> bias;

    __device__ float operator()(float sum, int, int, int col) const {
        const float biased = bias && col < bias.cols() ? sum + float(bias[col]) : sum;
        return Activation::of(biased);
    }
};
