//go:build libtorch

#include <ATen/ATen.h>

extern "C" void* zoo_test_ones(int rows, int cols) { return new at::Tensor(at::ones({rows, cols})); }

extern "C" double zoo_test_sum(void* tensor) {
    auto* const given = static_cast<at::Tensor*>(tensor);
    const double sum = given->sum().item<double>();
    delete given;
    return sum;
}
