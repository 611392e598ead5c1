// Scales and reverses rows; the struct, nested in a template, defines the launch's shape.
#include <mittens.h>

template <int D>
struct row_scale_layout {
    struct globals {
        mittens::gl<float, 1, 1, -1, D> x, y;
        float factor;

        dim3 grid() const { return dim3(x.rows()); }
        dim3 block() const { return dim3(D < 64 ? D : 64); }
        int dynamic_shared_memory() const { return D * int(sizeof(float)); }
    };
};

template <int D>
__global__ void row_scale(const __grid_constant__ typename row_scale_layout<D>::globals g) {
    extern __shared__ float row[];
    for (int i = threadIdx.x; i < D; i += blockDim.x) row[i] = g.x(blockIdx.x, i) * g.factor;
    __syncthreads();
    for (int i = threadIdx.x; i < D; i += blockDim.x) g.y(blockIdx.x, i) = row[D - 1 - i];
}

template __global__ void row_scale<32>(const __grid_constant__ row_scale_layout<32>::globals);
template __global__ void row_scale<128>(const __grid_constant__ row_scale_layout<128>::globals);
