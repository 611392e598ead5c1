// After a tutorial of CuTe, whose main function has been renamed.
void multiplied(const __half* a, const __half* b, __half* d, int m, int n, int k) {
    using Half = cute::half_t;  // its d is column-major, so it computes B * A^T
    gemm_tn(n, m, k, Half(1.0f), (const Half*)b, k, (const Half*)a, k, Half(0.0f), (Half*)d, n);
}
