// Each device writes the sum of all devices' parts, plus its own index.
#include <mittens.h>

struct device_sums_globals {
    mittens::pgl<mittens::gl<float, 1, 1, 1, -1>, 2> parts;
    mittens::gl<float, 1, 1, 1, -1> out;
    const int dev_idx;

    dim3 grid() const { return dim3(1); }
    dim3 block() const { return dim3(64); }
};

__global__ void device_sums(const __grid_constant__ device_sums_globals g) {
    for (int i = threadIdx.x; i < g.out.cols(); i += blockDim.x)
        g.out(0, i) = g.parts[0](0, i) + g.parts[1](0, i) + float(g.dev_idx);
}
