// The weighted sum over heads of relu(q k^T), for keys and values in fp8 with a scale each.
#include <deep_gemm/impls/sm90_fp8_mqa_logits.cuh>

#include "deepgemm.h"

using namespace deep_gemm;

void scored(const Fp8* q, const Fp8* keys, const float* scales, const float* weights, const int* starts, const int* ends,
            float* logits, int queries, int key_count) {
    constexpr int heads = 64, dims = 128, queries_of_block = 2, keys_of_block = 256, stages = 3, blocks = 2;
    const auto kernel = &sm90_fp8_mqa_logits<heads, dims, false, queries_of_block, keys_of_block, stages, stages, blocks, 128,
                                             512, float>;
    const size_t shared_bytes = stages * (queries_of_block * heads * (dims + 4) + keys_of_block * (dims + 4)) + 1024;
    launch(kernel, blocks, 640, 1, shared_bytes,
           uint32_t(queries), uint32_t(key_count), 0u, uint32_t(key_count), (uint32_t*)starts,
           (uint32_t*)ends, logits, map_of(q, queries * heads, dims, queries_of_block * heads),
           map_of(keys, key_count, dims, keys_of_block), plain_map_of(scales, 1, key_count, 1, keys_of_block),
           plain_map_of(weights, queries, heads, queries_of_block, heads));
}
