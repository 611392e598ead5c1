template <typename T>
__global__ void silu_mul(const __grid_constant__ Globals g) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= g.gate.numel()) return;
    const float gate = float(g.gate[i]);
    g.y[i] = T(gate / (1.f + expf(-gate)) * float(g.up[i]));
}
