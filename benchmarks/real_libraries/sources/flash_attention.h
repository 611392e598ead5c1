// The parameters of FlashAttention-3 for contiguous matrices (batch, sequence, head, DIMS), as its host code sets them.
#pragma once

#include "flash.h"

#include <math.h>

using Number = __nv_bfloat16;

inline void* allocated(size_t bytes) {
    void* memory = nullptr;
    cudaMalloc(&memory, bytes);
    return memory;
}

template <class Parameters>
Parameters parameters_of(const Number* q, const Number* k, const Number* v, const Number* o, const float* lse, int batches,
                         int queries, int keys, int heads, int kv_heads) {
    const auto rounded = [](int rows) { return (rows + 127) / 128 * 128; };
    Parameters p = {};
    p.q_ptr = (void*)q, p.k_ptr = (void*)k, p.v_ptr = (void*)v, p.o_ptr = (void*)o, p.softmax_lse_ptr = (void*)lse;
    p.q_head_stride = p.k_head_stride = p.v_head_stride = p.o_head_stride = DIMS;
    p.q_row_stride = p.o_row_stride = heads * DIMS;
    p.k_row_stride = p.v_row_stride = kv_heads * DIMS;
    p.q_batch_stride = p.o_batch_stride = queries * p.q_row_stride;
    p.k_batch_stride = p.v_batch_stride = keys * p.k_row_stride;
    p.v_dim_stride = 1;
    p.b = p.b_k = batches, p.h = heads, p.h_k = kv_heads;
    p.seqlen_q = queries, p.seqlen_k = keys, p.seqlen_q_rounded = rounded(queries), p.seqlen_k_rounded = rounded(keys);
    p.total_q = batches * queries, p.total_k = batches * keys;
    p.d = p.dv = p.d_rounded = p.dv_rounded = DIMS;
    p.scale_softmax = 1 / sqrtf(DIMS);
    p.is_bf16 = true, p.is_causal = CAUSAL;
    p.window_size_left = keys - 1, p.window_size_right = CAUSAL ? 0 : queries - 1;
    p.p_dropout = p.rp_dropout = 1, p.num_splits = 1;
    p.arch = 90, p.num_sm = 4;
    return p;
}
