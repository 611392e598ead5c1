// Rotates each pair (i, i + D / 2) of a row by its position times the pair's frequency, in place. One thread per pair.
#include <tkjit/gl.h>

__global__ void rotary(const __grid_constant__ Globals g) {
    const int half = g.x.cols() / 2, heads = g.x.rows();
    const int position = blockIdx.x;
    for (int index = threadIdx.x; index < heads * half; index += blockDim.x) {
        const int head = index / half, i = index % half;
        float& first = g.x(0, position, head, i);
        float& second = g.x(0, position, head, i + half);
        const float c = g.cosine(position, i), s = g.sine(position, i);
        const float a = first, b = second;
        first = a * c - b * s;
        second = b * c + a * s;
    }
}
