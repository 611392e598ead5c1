// A source that was not written for tkjit, with its own struct, launch shape, includes and main.
#include <cstdio>
#include <vector>

namespace scaling {

struct globals {
    float *x, *y;
    int n;
    float factor;

    static constexpr int threads = 64;
    dim3 grid() const { return dim3((n + threads - 1) / threads); }
    dim3 block() const { return dim3(threads); }
};

__global__ void scale(const __grid_constant__ globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.n) g.y[i] = g.factor * g.x[i];
}

}  // namespace scaling

int main(int argc, char** argv) {
    std::vector<float> host(argc);
    std::printf("%s %zu\n", argv[0], host.size());
    return 0;
}
