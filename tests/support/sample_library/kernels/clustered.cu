// A copy that can be launched in clusters, or overlapping the launch before it.
#include <mittens.h>

struct copy_globals {
    static constexpr int CLUSTER_SIZE = 2;
    mittens::gl<float, 1, 1, 1, -1> x, y;

    dim3 grid() { return dim3((y.cols() + 31) / 32); }
    dim3 block() { return dim3(32); }
};

__global__ void copy(const __grid_constant__ copy_globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.y.cols()) g.y(0, i) = g.x(0, i);
}

#ifdef MITTENS_PROGRAM
int main() {
    copy_globals g = copy_globals_of_a_file();
    LaunchConfig<true, true> launch_config(g.grid(), g.block(), 0, nullptr, copy_globals::CLUSTER_SIZE);
    cudaLaunchKernelEx(launch_config, copy, g);
}
#endif
