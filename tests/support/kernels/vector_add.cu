// A complete program that was not written for tkjit: memory, copies, a launch, events, output.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                                   \
    do {                                                                                              \
        const cudaError_t status = (call);                                                            \
        if (status != cudaSuccess) {                                                                  \
            std::printf("%s:%d: %s failed: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status)); \
            return 1;                                                                                 \
        }                                                                                             \
    } while (0)

__constant__ float scale;
__device__ int elements_added;

__global__ void vector_add(const float* a, const float* b, float* c, int n) {
    const int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        c[i] = scale * (a[i] + b[i]);
        atomicAdd(&elements_added, 1);
    }
    if (i == 0) printf("kernel: %d threads a block\n", blockDim.x);
}

int main(int argc, char** argv) {
    const int n = argc > 1 ? std::atoi(argv[1]) : 50000;
    const size_t bytes = n * sizeof(float);
    std::vector<float> a(n), b(n), c(n, -1.0f);
    for (int i = 0; i < n; ++i) {
        a[i] = 0.5f * i;
        b[i] = 1.0f - i;
    }

    int devices = 0, device = -1;
    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaGetDevice(&device));
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, device));
    std::printf("%d device, warps of %d\n", devices, properties.warpSize);

    float *device_a = NULL, *device_b = NULL, *device_c = NULL;
    CHECK(cudaMalloc((void**)&device_a, bytes));
    CHECK(cudaMalloc((void**)&device_b, bytes));
    CHECK(cudaMalloc(&device_c, bytes));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaMemcpyAsync(device_a, a.data(), bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(device_b, b.data(), bytes, cudaMemcpyHostToDevice, stream));
    const float two = 2.0f;
    const int none = 0;
    CHECK(cudaMemcpyToSymbol(scale, &two, sizeof two));
    CHECK(cudaMemcpyToSymbol(elements_added, &none, sizeof none));

    const int threads = 256, blocks = (n + threads - 1) / threads;
    CHECK(cudaEventRecord(start, stream));
    vector_add<<<blocks, threads, 0, stream>>>(device_a, device_b, device_c, n);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(stop, stream));
    CHECK(cudaStreamSynchronize(stream));

    float milliseconds = -1.0f;
    CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    CHECK(cudaMemcpy(c.data(), device_c, bytes, cudaMemcpyDeviceToHost));
    int added = 0;
    CHECK(cudaMemcpyFromSymbol(&added, elements_added, sizeof added));
    for (int i = 0; i < n; ++i) {
        if (c[i] != 2.0f * (a[i] + b[i])) {
            std::printf("wrong at %d: %f\n", i, c[i]);
            return 1;
        }
    }
    std::printf("%d elements, %s\n", added, milliseconds > 0.0f ? "timed" : "not timed");

    // more threads than a block may have: the launch fails, and nothing is written
    vector_add<<<1, 2048>>>(device_a, device_b, device_c, n);
    const cudaError_t refused = cudaGetLastError();
    std::printf("%s, then %s\n", cudaGetErrorName(refused), cudaGetErrorName(cudaPeekAtLastError()));

    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_c));
    std::printf("done\n");
    return 0;
}
