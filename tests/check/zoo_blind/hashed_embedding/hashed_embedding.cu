#include <tkjit/gl.h>

// Knuth's multiplicative hash.
__device__ int bucket_of(int id, int buckets) {
    const unsigned hash = unsigned(id) * 2654435761u;
    return hash % unsigned(buckets);
}

__global__ void hashed_embedding(const __grid_constant__ Globals g) {
    const int row = blockIdx.x;
    const int bucket = bucket_of(g.ids[row], g.table.rows());
    for (int d = threadIdx.x; d < g.y.cols(); d += blockDim.x) g.y(row, d) = g.table(bucket, d);
}
