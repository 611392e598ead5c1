#include "flash_fwd_launch_template.h"

#include "flash_attention.h"

#include <stdexcept>

void prepare_varlen_num_blocks(Flash_fwd_params&, cudaStream_t, bool, int, int, bool) {
    throw std::runtime_error("all sequences have one length here");
}

void attended(const Number* q, const Number* k, const Number* v, Number* o, float* lse, int batches, int queries, int keys,
              int heads, int kv_heads) {
    auto p = parameters_of<Flash_fwd_params>(q, k, v, o, lse, batches, queries, keys, heads, kv_heads);
    p.tile_count_semaphore = (int*)allocated(sizeof(int));
    cudaMemset(p.tile_count_semaphore, 0, sizeof(int));
    using T = cutlass::bfloat16_t;
    run_flash_fwd<90, DIMS, DIMS, CLUSTER, T, T, CAUSAL, false, false, false, false, false, false, false, false, false>(p, nullptr);
    cudaFree(p.tile_count_semaphore);
}
