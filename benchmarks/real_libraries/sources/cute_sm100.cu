// After a tutorial of CuTe for Blackwell, whose main function has been renamed.
void multiplied(const __half* a, const __half* b, __half* d, int m, int n, int k) {
    const auto rows_of = [](int rows, int cols) {
        return cute::make_layout(cute::make_shape(rows, cols), cute::make_stride(cols, cute::Int<1>{}));
    };
    float *c, *sums;
    cudaMalloc(&c, sizeof(float) * m * n);
    cudaMalloc(&sums, sizeof(float) * m * n);
    cudaMemset(c, 0, sizeof(float) * m * n);
    using Half = cutlass::half_t;
    gemm_host_f16xf16_f32_f32_tnt((const Half*)a, rows_of(m, k), (const Half*)b, rows_of(n, k), c, rows_of(m, n), sums,
                                  rows_of(m, n), 1.0f, 0.0f);
    for (int i = 0; i < m * n; ++i) d[i] = __float2half(sums[i]);  // the memory of the simulator is the host's
    cudaFree(c);
    cudaFree(sums);
}
