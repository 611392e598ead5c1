// Operators with types that torch's C ABI cannot pass, and calls of operators by name; see
// tests/extensions/test_operators_by_name.py.
#include <torch/extension.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/multinomial.h>

using Tensors = c10::Dict<std::string, at::Tensor>;

at::Tensor scaled(const at::Tensor& x, at::Scalar by) { return x * by; }
Tensors each(const Tensors& given, int64_t by) {
    Tensors made;
    for (const auto& entry : given) made.insert(entry.key(), entry.value() * by);
    return made;
}
std::tuple<Tensors, at::Tensor> both(c10::Dict<std::string, std::vector<int64_t>> lists) {
    return {Tensors(), torch::tensor(lists.at("a"))};
}
at::Tensor plain(const at::Tensor& x, int64_t n) { return x * n; }
at::Tensor by_name(const at::Tensor& x) {
    static auto op = c10::Dispatcher::singleton()
                         .findSchemaOrThrow("tkjit_test_operators::plain", "")
                         .typed<at::Tensor(const at::Tensor&, int64_t)>();
    return op.call(x, 3);
}
at::Tensor in_place(at::Tensor x) {
    static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::relu_", "").typed<at::Tensor&(at::Tensor&)>();
    return op.call(x);
}
at::Tensor missing(const at::Tensor& x) {
    return c10::Dispatcher::singleton().findSchemaOrThrow("tkjit_test_operators::nothing", "").typed<at::Tensor(const at::Tensor&)>().call(x);
}

TORCH_LIBRARY(tkjit_test_operators, m) {
    m.def("scaled(Tensor x, Scalar by) -> Tensor");
    m.def("each", &each);
    m.def("both", &both);
    m.def("plain(Tensor x, int n) -> Tensor");
}
TORCH_LIBRARY_IMPL(tkjit_test_operators, CPU, m) {
    m.impl("scaled", &scaled);
    m.impl("plain", &plain);
}

namespace F = torch::nn::functional;
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("by_name", &by_name);
    m.def("in_place", &in_place);
    m.def("missing", &missing);
    m.def("padded", [](at::Tensor x) { return F::pad(x, F::PadFuncOptions({1, 2}).value(7)); });
    m.def("reflected", [](at::Tensor x) { return F::pad(x, F::PadFuncOptions({1, 2}).mode(torch::kReflect)); });
    m.def("linear", [](at::Tensor x, at::Tensor weight) { return F::linear(x, weight); });
    m.def("drawn", [](at::Tensor weights) { return at::multinomial(weights, 3, true) + weights.multinomial(3, true) + torch::randint(0, 1, {3}); });
    m.def("logged", [](int n) {
        LOG(INFO) << "n is " << n;
        CHECK_LT(n, 3) << "n is " << n;
        LOG_IF(WARNING, n < 0) << "n is " << n;
    });
    m.def("changed", [](at::Tensor x) {
        torch::autograd::increment_version(x);
        return x.storage().data_ptr().get() == x.data_ptr();
    });
}
