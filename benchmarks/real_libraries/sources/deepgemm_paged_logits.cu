// The same for keys in pages, in two launches: the first one distributes the pages over the blocks of the second.
#include <deep_gemm/impls/sm90_fp8_paged_mqa_logits.cuh>
#include <deep_gemm/scheduler/sm90_paged_mqa_logits.cuh>

#include "deepgemm.h"

using namespace deep_gemm;

void scored(const Fp8* q, const Fp8* pages, const float* scales, const float* weights, const int* lengths, const int* table,
            float* logits, int sequences, int page_count, int pages_per_sequence) {
    constexpr int heads = 64, dims = 128, page = 64, split = 256, stages = 3, blocks = 2;
    uint32_t* schedule;
    cudaMalloc(&schedule, (blocks + 1) * 2 * sizeof(uint32_t));
    const auto plan = &sched::sm90_paged_mqa_logits_metadata<32, split, blocks, false>;
    launch(plan, 1, 32, 1, 32 * sizeof(uint32_t), uint32_t(sequences), 1u, false, (const uint32_t*)lengths,
           (const uint32_t*)nullptr, schedule);
    const auto kernel = &sm90_fp8_paged_mqa_logits<1, heads, dims, page, false, false, stages, stages, split, 128, 512, float>;
    // more than the kernel needs: DeepGEMM's host code computes the exact size
    launch(kernel, blocks, 640, 1, 220 << 10, uint32_t(sequences), uint32_t(pages_per_sequence * page),
           uint32_t(pages_per_sequence), (const uint32_t*)lengths, logits, (const uint32_t*)table, (const uint32_t*)nullptr,
           (const uint32_t*)schedule, map_of(q, sequences * heads, dims, heads),
           map_of(CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, pages, page, dims, dims, page, dims, CU_TENSOR_MAP_SWIZZLE_128B, page_count),
           plain_map_of(scales, page_count, page, 1, page), plain_map_of(weights, sequences, heads, 1, heads));
    cudaFree(schedule);
}
