// The parts of torch::nn::functional that sources use: padding, linear layers and activations.
#pragma once

#include "tensor.h"

#include <type_traits>

namespace torch {
inline namespace tkjit_stand_in {
/// The modes ``torch::kReflect`` and so on, as the names that operators take.
namespace enumtype {
struct Name {
    const char* text;
};
}  // namespace enumtype
inline constexpr enumtype::Name kConstant{"constant"}, kReflect{"reflect"}, kReplicate{"replicate"}, kCircular{"circular"};
}  // inline namespace tkjit_stand_in

namespace nn {
namespace functional {
inline namespace tkjit_stand_in {

class PadFuncOptions {
public:
    PadFuncOptions(std::vector<int64_t> pad) : pad_(std::move(pad)) {}
    PadFuncOptions& mode(enumtype::Name mode) {
        mode_ = mode;
        return *this;
    }
    PadFuncOptions& value(double value) {
        value_ = value;
        return *this;
    }

private:
    friend at::Tensor pad(const at::Tensor& input, const PadFuncOptions& options);
    std::vector<int64_t> pad_;
    enumtype::Name mode_ = kConstant;
    double value_ = 0;
};
inline at::Tensor pad(const at::Tensor& input, const PadFuncOptions& options) {
    const std::string mode = options.mode_.text;
    const std::optional<double> value = mode == "constant" ? std::optional<double>(options.value_) : std::nullopt;
    return at::call<at::Tensor>("aten::pad", "", input, at::IntArrayRef(options.pad_), mode, value);
}
inline at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias = {}) {
    return at::call<at::Tensor>("aten::linear", "", input, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
}
inline at::Tensor relu(const at::Tensor& input) { return at::call<at::Tensor>("aten::relu", "", input); }
inline at::Tensor silu(const at::Tensor& input) { return at::call<at::Tensor>("aten::silu", "", input); }
inline at::Tensor softmax(const at::Tensor& input, int64_t dim) {
    return at::call<at::Tensor>("aten::softmax", "int", input, dim, std::optional<at::ScalarType>());
}

}  // inline namespace tkjit_stand_in
}  // namespace functional
}  // namespace nn
}  // namespace torch
