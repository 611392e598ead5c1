#include "flash_bwd_launch_template.h"

#include "flash_attention.h"

void differentiated(const Number* q, const Number* k, const Number* v, const Number* o, const float* lse, const Number* of_o,
                    Number* of_q, Number* of_k, Number* of_v, int batches, int queries, int keys, int heads) {
    auto p = parameters_of<Flash_bwd_params>(q, k, v, o, lse, batches, queries, keys, heads, heads);
    p.do_ptr = (void*)of_o, p.dq_ptr = of_q, p.dk_ptr = of_k, p.dv_ptr = of_v;
    p.do_head_stride = p.dq_head_stride = p.dk_head_stride = p.dv_head_stride = DIMS;
    p.do_row_stride = p.dq_row_stride = p.q_row_stride, p.dk_row_stride = p.dv_row_stride = p.k_row_stride;
    p.do_batch_stride = p.dq_batch_stride = p.q_batch_stride, p.dk_batch_stride = p.dv_batch_stride = p.k_batch_stride;
    const size_t rows = size_t(batches) * heads * p.seqlen_q_rounded;
    p.dsoftmax_sum = allocated(rows * sizeof(float));
    p.softmax_lse_log2_ptr = allocated(rows * sizeof(float));
    p.dq_accum_ptr = allocated(rows * DIMS * sizeof(float));
    p.tile_count_semaphore = (int*)allocated(sizeof(int));
    cudaMemset(p.tile_count_semaphore, 0, sizeof(int));
    RUN<90, cutlass::bfloat16_t, false>(p, nullptr);
    cudaFree(p.dsoftmax_sum);
    cudaFree(p.softmax_lse_log2_ptr);
    cudaFree(p.dq_accum_ptr);
    cudaFree(p.tile_count_semaphore);
}
