// Attention of one head, softmax(q k^T / sqrt(D)) v, with a running softmax. Each warp computes one query, and the four
// queries of a block share tiles of 32 keys and values. A lane computes one key's score and two elements of the result.
#include <tkjit/gl.h>

constexpr unsigned kAllLanes = 0xffffffff;
constexpr int kWarpSize = 32, kQueries = 4, kKeys = 32, kThreads = kQueries * kWarpSize;
constexpr int kDim = 64, kElements = kDim / kWarpSize;

__global__ void attention(const __grid_constant__ Globals g) {
    __shared__ float queries[kQueries][kDim], keys[kKeys][kDim + 1], values[kKeys][kDim], weights[kQueries][kKeys];
    const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
    const int query = blockIdx.x * kQueries + warp, key_count = g.k.rows();
    const bool is_query = query < g.q.rows();
    for (int i = lane; i < kDim; i += kWarpSize) queries[warp][i] = is_query ? g.q(query, i) : 0.f;

    float largest = -INFINITY, total = 0.f, result[kElements] = {};
    for (int first = 0; first < key_count; first += kKeys) {
        for (int i = threadIdx.x; i < kKeys * kDim; i += kThreads) {
            const int key = i / kDim, element = i % kDim;
            const bool inside = first + key < key_count;
            keys[key][element] = inside ? g.k(first + key, element) : 0.f;
            values[key][element] = inside ? g.v(first + key, element) : 0.f;
        }
        __syncthreads();

        float score = 0.f;
        for (int i = 0; i < kDim; i++) score += queries[warp][i] * keys[lane][i];
        score = first + lane < key_count ? score * rsqrtf(kDim) : -INFINITY;
        float new_largest = fmaxf(largest, score);
        for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
            new_largest = fmaxf(new_largest, __shfl_xor_sync(kAllLanes, new_largest, offset));
        }
        const float weight = __expf(score - new_largest), correction = __expf(largest - new_largest);
        float sum = weight;
        for (int offset = kWarpSize / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
        total = total * correction + sum;
        largest = new_largest;

        weights[warp][lane] = weight;
        __syncwarp();  // all lanes have written their weights
        for (int e = 0; e < kElements; e++) {
            result[e] *= correction;
            for (int key = 0; key < kKeys; key++) result[e] += weights[warp][key] * values[key][lane + e * kWarpSize];
        }
        __syncthreads();  // keys, values and weights may be overwritten
    }
    if (!is_query) return;
    for (int e = 0; e < kElements; e++) g.o(query, lane + e * kWarpSize) = result[e] / total;
}
