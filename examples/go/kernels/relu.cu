template <class T>
__global__ void relu(const __grid_constant__ Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.x.batch() * g.x.depth() * g.x.rows() * g.x.cols()) g.y[i] = float(g.x[i]) > 0.f ? g.x[i] : T(0.f);
}
