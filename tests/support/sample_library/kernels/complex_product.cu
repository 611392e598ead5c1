// The product of complex vectors, whose real and imaginary parts are separate layouts.
#include <mittens.h>

using vector = mittens::gl<float, 1, 1, 1, -1>;

struct complex_globals {
    mittens::cgl<vector> x, y;
    vector magnitude;
};

__global__ void complex_product(const __grid_constant__ complex_globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= g.magnitude.cols()) return;
    const float real = g.x.real(0, i) * g.y.real(0, i) - g.x.imag(0, i) * g.y.imag(0, i);
    const float imag = g.x.real(0, i) * g.y.imag(0, i) + g.x.imag(0, i) * g.y.real(0, i);
    g.magnitude(0, i) = real * real + imag * imag;
}
