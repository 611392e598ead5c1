// A source that was not written for tkjit: it has a main, host code with <<<...>>>, and raw dynamic shared memory.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                             \
    do {                                                                        \
        cudaError_t status = (call);                                            \
        if (status != cudaSuccess) {                                            \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status)); \
            std::exit(1);                                                       \
        }                                                                       \
    } while (0)

// Reverses each row of n floats through shared memory.
__global__ void reverse_rows(const float *input, float *output, int n) {
    extern __shared__ float row[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) row[i] = input[blockIdx.x * n + i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) output[blockIdx.x * n + i] = row[n - 1 - i];
}

// The host function that the program calls.
void reverse(const float *input, float *output, int rows, int n, cudaStream_t stream) {
    reverse_rows<<<rows, 128, n * sizeof(float), stream>>>(input, output, n);
}

int main(int argc, char **argv) {
    const int rows = 4, n = argc > 1 ? std::atoi(argv[1]) : 1000;
    std::vector<float> host(rows * n);
    for (int i = 0; i < rows * n; ++i) host[i] = float(i);
    float *input, *output;
    CHECK(cudaMalloc(&input, host.size() * sizeof(float)));
    CHECK(cudaMalloc(&output, host.size() * sizeof(float)));
    CHECK(cudaMemcpy(input, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
    reverse(input, output, rows, n, nullptr);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host.data(), output, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
    std::printf("%f\n", host[0]);
    return 0;
}
