template <typename T>
__global__ void squared_relu(const __grid_constant__ Globals g) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= g.x.numel()) return;
    const float positive = fmaxf(float(g.x[i]), 0.f);
    g.y[i] = T(positive * positive);
}
