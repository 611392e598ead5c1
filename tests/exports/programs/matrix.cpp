// The calls of matrix.c in C++; also tensors that own their memory, exceptions, result objects and views.
#include <zoo.hpp>

#include <cstdio>
#include <numeric>
#if __cplusplus >= 202002L
#include <span>
#endif

using tkjit::Tensor;

int main() {
    zoo::check_interface();
    const Tensor a = Tensor::of<float>({1, 2, 3, 4, 5, 6}, {2, 3}), b = Tensor::of<float>({1, 0, 0, 1, 1, 1}, {3, 2});
    Tensor c = zoo::gemm(a, b);
    std::printf("(%d, %d):", int(c.sizes()[0]), int(c.sizes()[1]));
    for (const float element : c.span<float>()) std::printf(" %g", element);
    auto refused = zoo::try_gemm(a, a);
    std::printf("\n%s\n", refused ? "fine" : refused.error().what());
    try {
        zoo::softmax(Tensor());
    } catch (const tkjit::Error& error) {
        std::printf("%s\n", error.kind() == TKJIT_ARGUMENT_ERROR ? error.what() : "another kind");
    }
    float memory[] = {1, 2}, more[] = {5, 5};
    Tensor y = Tensor::view(more, {2});
    zoo::axpy(Tensor::view(memory, {2}), y, 2);
    std::printf("%g %g\n", more[0], more[1]);
    const Tensor one = Tensor::view(memory, {2});
    auto sum = zoo::try_add({&one, nullptr, &one}).value();
    auto elements = sum.span<float>();
#if __cplusplus >= 202002L
    const std::span<float> seen = elements;
    std::printf("%g %g\n", seen[0], seen[1]);
#else
    std::printf("%g %g\n", elements[0], elements[1]);
#endif
    Tensor moved = std::move(sum);
    std::printf("%d\n", int(zoo::describe(moved, "four", moved.dtype(), tkjit_cuda(0))) - 100);
}
