// A product that CUTLASS's collective builder puts together.
#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/dispatch_policy.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

#include <stdexcept>

using Half = cutlass::half_t;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using Block = cute::Shape<cute::ROWS, cute::_128, cute::_64>;
using Blocks = cute::Shape<cute::_2, cute::_1, cute::_1>;
using Arch = cutlass::arch::ARCH;
using Tensors = cutlass::arch::OpClassTensorOp;
using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    Arch, Tensors, Block, Blocks, cutlass::epilogue::collective::EpilogueTileAuto, float, float, Half, Row, 8, Half,
    Row, 8, cutlass::epilogue::EPILOGUE>::CollectiveOp;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    Arch, Tensors, Half, Row, 8, Half, Column, 8, float, Block, Blocks,
    cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(Epilogue::SharedStorage))>,
    cutlass::gemm::SCHEDULE>::CollectiveOp;
using Product = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Product>;

void expect(cutlass::Status status) {
    if (status != cutlass::Status::kSuccess) throw std::runtime_error(cutlassGetStatusString(status));
}

void multiplied(const __half* a, const __half* b, __half* d, int m, int n, int k) {
    const auto packed = [](auto stride, int rows, int cols) {
        return cutlass::make_cute_packed_stride(stride, cute::make_shape(rows, cols, 1));
    };
    const auto by_a = packed(Product::StrideA(), m, k);
    const auto by_b = packed(Product::StrideB(), n, k);
    const auto by_d = packed(Product::StrideD(), m, n);
    const Gemm::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm,
                                    {m, n, k, 1},
                                    {(const Half*)a, by_a, (const Half*)b, by_b},
                                    {{1.0f, 0.0f}, (Half*)d, by_d, (Half*)d, by_d},
                                    {0, 4}};
    Gemm gemm;
    expect(gemm.can_implement(arguments));
    void* workspace = nullptr;
    cudaMalloc(&workspace, Gemm::get_workspace_size(arguments) + 1);
    expect(gemm.initialize(arguments, workspace));
    expect(gemm.run());
    cudaFree(workspace);
}
