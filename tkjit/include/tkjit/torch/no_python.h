// Replaces tensor_values.h in a launcher, which compiles a source's host functions but calls none of them.
#pragma once

namespace at {
inline namespace tkjit_stand_in {

template <class R, class... A>
R call_in_python(const char* name, const char*, const A&...) {
    throw c10::Error(c10::str(name, ": a launcher cannot call torch's operators"));
}
struct Context {
    bool deterministicAlgorithms() const { return false; }
    bool allowTF32CuBLAS() const { return false; }
    void* lazyInitCUDA() const { return nullptr; }
    bool hasCUDA() const { return true; }
};
inline Context globalContext() { return {}; }
inline bool TensorBase::requires_grad() const { return false; }
inline bool TensorBase::is_leaf() const { return true; }
inline bool TensorBase::is_view() const { return false; }
inline void TensorBase::print() const {}
inline const Tensor& Tensor::set_requires_grad(bool) const { return *this; }
inline Tensor Tensor::grad() const { return {}; }
inline void Tensor::backward(const Tensor&, std::optional<bool>, bool) const {}
inline void Tensor::retain_grad() const {}
inline void Tensor::set_data(const Tensor&) const {}

}  // inline namespace tkjit_stand_in
}  // namespace at
