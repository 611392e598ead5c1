// Launches in all forms that programs use. Each kernel writes 8 values, at `x[8 * k]`.
#include <cuda_runtime.h>
#include <device_launch_parameters.h>

template <typename Function>
__global__ void for_each(int n, Function function) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) function(i);
}

template <typename T, int factor = 4>
__global__ void fill(T* x, T value, int n = 8) {
    if (int(threadIdx.x) < n) x[threadIdx.x] = value * factor;
}

// overloads
__global__ void put(float* x, int value) { x[threadIdx.x] = value; }
__global__ void put(float* x, const float* value) { x[threadIdx.x] = value ? *value : -1.0f; }

struct Line {
    float slope[2];
    int offset;
};
static __global__ void line(Line l, float* x) { x[threadIdx.x] = l.slope[1] * threadIdx.x + l.offset; }

class Solver {
  public:
    template <typename T>
    void solve(T* x) const {
        Solver::template scaled<T, 3>(x);
    }

  private:
    template <typename T, int factor>
    static void scaled(T* x) {
        fill<T, factor><<<1, 8>>>(x, T(2));
    }
};

#define LAUNCH(kernel, threads, ...) kernel<<<1, threads>>>(__VA_ARGS__)

int launch_forms(float* x) {
    for_each<<<2, 4>>>(8, [=] __device__(int i) { x[i] = 10.0f * i; });  // deduced template arguments
    fill<float><<<1, 8>>>(&x[8], 2);                                     // default arguments of a template and of a function
    put<<<1, 8>>>(x + 16, 7);
    put<<<dim3(1, 1), 8, 0, 0>>>(x + 24, static_cast<const float*>(nullptr));
    line<<<1, 8>>>({{1, 0.5f}, 3}, x + 32);  // braces
    auto kernel = line;
    const size_t threads = 8;
    long blocks = 1;
    kernel<<<blocks, threads, 0, NULL>>>(Line{{0, 2}, 1}, x + 40);
    Solver().solve(x + 48);
    LAUNCH((fill<float, 5>), 8, x + 56, 1, 4);

    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = 8;
    cudaError_t error = cudaLaunchKernelEx(&config, fill<float, 6>, x + 64, 1.0f, 8);
    if (error != cudaSuccess) return error;
    float* last = x + 72;
    float value = 2.5f;
    int n = 8;
    void* arguments[] = {&last, &value, &n};
    error = cudaLaunchKernelExC(&config, (const void*)fill<float, 4>, arguments);
    if (error != cudaSuccess) return error;
    void* const chosen[] = {(void*)fill<float, 4>, (void*)fill<float, 6>};  // the cast discards their types
    last = x + 80;
    return cudaLaunchKernel(chosen[1], dim3(1), dim3(8), arguments, 0, 0);
}

cudaError_t launch_clusters(float* x) {
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 2;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 2;
    config.blockDim = 8;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, fill<float, 4>, x, 1.0f, 8);
}
