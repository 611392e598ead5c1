// The epilogue of a gated linear layer.
#pragma once

#include <tkjit/gl.h>

#include "activation.cuh"

/// Makes an element of the result from the sums of both weights: f(gate) * up, after it has added their biases.
template <class T, class Activation>
struct Finish {
    tkjit::gl<T, 1, 1, 1> gate_bias, up_bias;

    __device__ float operator()(float gate, float up, int, int, int col) const {
        if (gate_bias && col < gate_bias.cols()) gate += float(gate_bias[col]);
        if (up_bias && col < up_bias.cols()) up += float(up_bias[col]);
        return Activation::of(gate) * up;
    }
};
