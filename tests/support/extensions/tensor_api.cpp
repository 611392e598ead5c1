// An extension's uses of tensors; see tests/extensions/test_tensor_api.py.
#include <torch/extension.h>
#include <ATen/Parallel.h>
#include <ATen/TensorUtils.h>
using namespace torch::indexing;

torch::Tensor arithmetic(torch::Tensor x, double a) {
    auto y = (x * a + 1 - x / 2.0).pow(2);
    y += 3;
    y -= x;
    return torch::where(y > 2, y, -y);
}
std::vector<torch::Tensor> indexed(torch::Tensor x) {
    auto written = x.clone();
    written.index_put_({Slice(0, 2), 1}, 7.0);
    written[0][0] = 5;
    return {x.index({None, "...", 0}), x.index({Slice(None, None, 2)}), x.index({x.sum(1) > 0}), x.index({torch::tensor({1, 0}), Slice(1)}),
            x.index({Ellipsis, -1}), written};
}
std::vector<torch::Tensor> made(torch::Tensor like) {
    return {torch::full({2, 3}, 2.5, like.options().dtype(torch::kDouble)), torch::arange(5, torch::kInt), torch::empty_like(like).zero_(),
            torch::tensor({1.5, 2.5}), torch::linspace(0, 1, 5), torch::ones({2}, torch::dtype(torch::kBool)),
            torch::empty({2, 3, 4, 4}, torch::TensorOptions().memory_format(torch::MemoryFormat::ChannelsLast))};
}
std::string about(torch::Tensor x) {
    TORCH_CHECK(x.dtype() == torch::kFloat32 && x.dtype() != at::kHalf, "not float32");
    return c10::str(x.dtype().name(), " ", x.scalar_type(), " ", x.suggest_memory_format() == at::MemoryFormat::ChannelsLast, " ",
                    x.is_non_overlapping_and_dense(), " ", x.is_contiguous(at::MemoryFormat::ChannelsLast), " ", x.device(), " ", x.type());
}
torch::Tensor old_dispatch(torch::Tensor x) {
    AT_DISPATCH_FLOATING_TYPES(x.type(), "old", [&] { x.data<scalar_t>()[0] = sizeof(scalar_t); });
    return x;
}
std::vector<torch::Tensor> sums(torch::Tensor a, torch::Tensor b) { return {a + b, a - b, torch::tensor(2) + torch::tensor({0.5}).sum()}; }
int64_t counted(int64_t n) {
    std::atomic<int64_t> sum{0};
    at::parallel_for(0, n, 1, [&](int64_t first, int64_t last) { for (int64_t i = first; i < last; ++i) sum += i; });
    return sum;
}
void fails_in_parallel() {
    at::parallel_for(0, 8, 1, [](int64_t, int64_t) { TORCH_CHECK_VALUE(false, "in a thread"); });
}
void checked(torch::Tensor x) {
    at::TensorArg arg(x, "x", 1);
    at::checkDim("checked", arg, 2);
    at::checkScalarType("checked", arg, at::kFloat);
}
bool asks(torch::Tensor x) { torch::NoGradGuard guard; return (x * x).requires_grad() || !x.requires_grad(); }
void warns() { TORCH_WARN("mind the ", 3) }
torch::Tensor wrong(torch::Tensor x) { return x.view({-1, 5}); }
torch::Tensor wrong_number(torch::Tensor x) { return x.clamp(c10::optional<at::Scalar>(), c10::optional<at::Scalar>()); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("arithmetic", &arithmetic);
    m.def("indexed", &indexed);
    m.def("made", &made);
    m.def("about", &about);
    m.def("old_dispatch", &old_dispatch);
    m.def("sums", &sums);
    m.def("counted", &counted);
    m.def("fails_in_parallel", &fails_in_parallel);
    m.def("checked", &checked);
    m.def("asks", &asks);
    m.def("warns", &warns);
    m.def("wrong", &wrong);
    m.def("wrong_number", &wrong_number);
}
