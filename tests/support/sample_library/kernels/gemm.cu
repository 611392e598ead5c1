// A matrix product that uses the library's kernel template, followed by a program and a Python binding.
#include <mittens.h>

using namespace mittens;

template <int Tile>
struct gemm_layout {
    using tile_type = tile_bf<Tile, Tile>;
    using global_layout = gl<__nv_bfloat16, 1, 1, -1, -1, tile_type>;
    struct globals {
        global_layout A, B, C;
    };
};

template <int _Tile = 16>
struct gemm_template {
    static constexpr int Tile = _Tile, threads = 64;
    using layout = gemm_layout<Tile>;
    struct shared {
        typename layout::tile_type a, b;
        tile_fl<Tile, Tile> sum;
    };
    static dim3 grid(int M, int N) { return dim3((N + Tile - 1) / Tile, (M + Tile - 1) / Tile); }

    __device__ static void run(const typename layout::globals& g, shared& s) {
        const int row = blockIdx.y * Tile, col = blockIdx.x * Tile;
        for (int i = threadIdx.x; i < Tile * Tile; i += blockDim.x) s.sum.data[i] = 0;
        for (int k = 0; k < g.A.cols(); k += Tile) {
            load(s.a, g.A, row, k);
            load(s.b, g.B, k, col);
            __syncthreads();
            for (int i = threadIdx.x; i < Tile * Tile; i += blockDim.x)
                for (int j = 0; j < Tile; ++j)
                    s.sum.data[i] += __bfloat162float(s.a(i / Tile, j)) * __bfloat162float(s.b(j, i % Tile));
            __syncthreads();
        }
        for (int i = threadIdx.x; i < Tile * Tile; i += blockDim.x) s.a.data[i] = __float2bfloat16(s.sum.data[i]);
        __syncthreads();
        store(g.C, s.a, row, col);
    }
};

template <class Gemm>
void run_once(__nv_bfloat16* a, __nv_bfloat16* b, __nv_bfloat16* c, int M, int N, int K) {
    using layout = typename Gemm::layout::global_layout;
    typename Gemm::layout::globals G{
        layout{a, nullptr, nullptr, M, K}, layout{b, nullptr, nullptr, K, N}, layout{c, nullptr, nullptr, M, N}};
    dim3 grid(Gemm::grid(M, N));
    dim3 block(mittens::threads_v<Gemm>);
    mittens::kernel<Gemm><<<grid, block>>>(G);
}

int main() {
    run_once<gemm_template<16>>(nullptr, nullptr, nullptr, 64, 64, 64);
    return 0;
}

#ifdef MITTENS_BINDINGS
#include <torch/extension.h>
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("gemm", [](at::Tensor a, at::Tensor b, at::Tensor c) {});
}
#endif
