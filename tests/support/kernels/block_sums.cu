// Block sums, with dynamic shared memory in templates, at namespace scope and in a macro, and several forms of launches.
#include <cuda_runtime.h>

#include <cstddef>

// Programs with templates wrap dynamic shared memory in a struct, because a name cannot have two types in one file.
template <class T>
struct SharedMemory {
    __device__ inline operator T*() {
        extern __shared__ int shared_words[];
        return (T*)shared_words;
    }
    __device__ inline operator const T*() const {
        extern __shared__ int shared_words[];
        return (T*)shared_words;
    }
};

template <class T, unsigned block_size, bool is_power_of_2>
__global__ void block_sum(const T* input, T* output, unsigned n) {
    T* shared = SharedMemory<T>();
    T sum = 0;
    for (unsigned i = blockIdx.x * block_size + threadIdx.x; is_power_of_2 || i < n; i += block_size * gridDim.x) {
        sum += input[i];
        if (is_power_of_2 && i + block_size * gridDim.x >= n) break;
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
#pragma unroll
    for (unsigned half = block_size / 2; half > 0; half >>= 1) {
        if (threadIdx.x < half) shared[threadIdx.x] = sum = sum + shared[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) output[blockIdx.x] = sum;
}

namespace staging {

/* One declaration for all functions in the namespace. */
extern __shared__ __align__(16) unsigned char bytes[];

template <typename T>
__device__ T* values(int offset) {
    return reinterpret_cast<T*>(&bytes[offset]);
}

__global__ void swap_halves(const float4* input, float4* output) {
    float4* front = values<float4>(0);
    float4* back = reinterpret_cast<float4*>(bytes + blockDim.x * sizeof(float4));
    front[threadIdx.x] = input[threadIdx.x];
    back[threadIdx.x] = input[blockDim.x + threadIdx.x];
    __syncthreads();
    output[threadIdx.x] = back[blockDim.x - 1 - threadIdx.x];
    output[blockDim.x + threadIdx.x] = front[blockDim.x - 1 - threadIdx.x];
}

// a parameter hides the name
__device__ __host__ inline float first(const float* bytes) { return bytes[0]; }

}  // namespace staging

#define ROWS_OF(type, name) extern __shared__ type name[][8]

__global__ void transpose_rows(const double* input, double* output) {
    ROWS_OF(double, rows);
    rows[threadIdx.y][threadIdx.x] = input[threadIdx.y * 8 + threadIdx.x];
    __syncthreads();
    output[threadIdx.y * 8 + threadIdx.x] = rows[threadIdx.x][threadIdx.y];
}

namespace turning {

// the same name with another type
__global__ void rotate(const int* input, int* output, int by) {
    extern __shared__ int rows[];
    __shared__ alignas(8) int count;
    if (threadIdx.x == 0) count = blockDim.x;
    rows[threadIdx.x] = input[threadIdx.x];
    __syncthreads();
    output[threadIdx.x] = rows[(threadIdx.x + by) % count];
}

}  // namespace turning

#define LAUNCH(kernel, ...) kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)

/// Sums each block; `output` has one value for each of `blocks`.
void sum_blocks(const float* input, float* output, int n, int blocks, cudaStream_t stream) {
    const dim3 grid(blocks), block(128);
    const size_t shared_bytes = block.x * sizeof(float);
    if ((n & (n - 1)) == 0 && n >= blocks * 128)
        block_sum<float, 1u << 7, (2 > 1)>
            <<<grid,  // blocks; >>>( is not the end
               block, block.x * sizeof(float), stream>>>(
                input, output, n);
    else
        LAUNCH((block_sum<float, 128, false>), input, output, n);
}

cudaError_t swap(const float* input, float* output, int n) {
    const int threads = n / 8;
    if (staging::first(input) < 0.0f) return cudaErrorInvalidValue;
    staging::swap_halves<<<1, threads, n * sizeof(float)>>>((const float4*)input, (float4*)output);
    return cudaGetLastError();
}

template <class T>
struct Runner {
    using Kernel = void (*)(const T*, T*);
    Kernel kernel;

    void run(const T* input, T* output) const {
        this->kernel<<<1, dim3(8, 8), 64 * sizeof(T)>>>(input, output);
    }
};

void transpose(const double* input, double* output) { Runner<double>{transpose_rows}.run(input, output); }

template <class T>
__global__ void fill(T* output, T value) {
    output[threadIdx.x] = value;
}

// a deduced template parameter, a kernel's address, and the runtime's launch function
void rotate_by(const int* input, int* output, int n, int by) {
    fill<<<1, n>>>(output, -1);
    const int* source = input;
    void* arguments[] = {&source, &output, &by};
    cudaLaunchKernel((const void*)turning::rotate, dim3(1), dim3(n), arguments, n * sizeof(int), 0);
}
