// Views of tensors, and torch's operators through its dispatcher. Included by tensor.h.
#pragma once

#include "tensor.h"

namespace at {
inline namespace tkjit_stand_in {

// ---- views: the same memory, by other sizes and strides

inline Tensor Tensor::as_strided(IntArrayRef sizes, IntArrayRef strides, int64_t added_offset) const {
    AtenTensorHandle found = nullptr;
    TORCH_CHECK(sizes.size() == strides.size(), "as_strided: as many sizes as strides are needed");
    check_call(aoti_torch__reinterpret_tensor(handle(), int64_t(sizes.size()), sizes.data(), strides.data(), added_offset, &found), "as_strided");
    return Tensor(found);
}
inline Tensor Tensor::transpose(int64_t a, int64_t b) const {
    auto sizes = this->sizes().vec(), strides = this->strides().vec();
    std::swap(sizes[position(a)], sizes[position(b)]);
    std::swap(strides[position(a)], strides[position(b)]);
    return as_strided(sizes, strides);
}
inline Tensor Tensor::t() const {
    TORCH_CHECK(dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is ", dim(), "D");
    return dim() < 2 ? *this : transpose(0, 1);
}
inline Tensor Tensor::permute(IntArrayRef order) const {
    TORCH_CHECK(int64_t(order.size()) == dim(), "permute: expected ", dim(), " dims, got ", order.size());
    std::vector<int64_t> sizes, strides;
    for (const int64_t i : order) {
        sizes.push_back(size(i));
        strides.push_back(stride(i));
    }
    return as_strided(sizes, strides);
}
inline Tensor Tensor::unsqueeze(int64_t i) const {
    auto sizes = this->sizes().vec(), strides = this->strides().vec();
    const int64_t count = dim() + 1, at = i < 0 ? i + count : i;
    TORCH_CHECK_INDEX(at >= 0 && at < count, "Dimension out of range (expected to be in range of [", -count, ", ", count - 1, "], but got ", i, ")");
    strides.insert(strides.begin() + at, at < dim() ? sizes[size_t(at)] * strides[size_t(at)] : 1);
    sizes.insert(sizes.begin() + at, 1);
    return as_strided(sizes, strides);
}
inline Tensor Tensor::squeeze(int64_t i) const {
    if (size(i) != 1) return *this;
    auto sizes = this->sizes().vec(), strides = this->strides().vec();
    sizes.erase(sizes.begin() + int64_t(position(i)));
    strides.erase(strides.begin() + int64_t(position(i)));
    return as_strided(sizes, strides);
}
inline Tensor Tensor::narrow(int64_t i, int64_t start, int64_t length) const {
    TORCH_CHECK(start >= 0 && length >= 0 && start + length <= size(i), "start (", start, ") + length (", length, ") exceeds dimension size (", size(i), ").");
    auto sizes = this->sizes().vec();
    sizes[position(i)] = length;
    return as_strided(sizes, strides(), start * stride(i));
}
inline Tensor Tensor::slice(int64_t i, int64_t start, int64_t end, int64_t step) const {
    TORCH_CHECK(step > 0, "slice step must be positive");
    const int64_t count = size(i);
    const auto within = [&](int64_t at) { return std::min(std::max(at < 0 ? at + count : at, int64_t(0)), count); };
    const int64_t first = within(start), behind = std::max(within(end), first);
    auto sizes = this->sizes().vec(), strides = this->strides().vec();
    sizes[position(i)] = (behind - first + step - 1) / step;
    strides[position(i)] *= step;
    return as_strided(sizes, strides, first * stride(i));
}
inline Tensor Tensor::select(int64_t i, int64_t index) const {
    const int64_t count = size(i), at = index < 0 ? index + count : index;
    TORCH_CHECK_INDEX(at >= 0 && at < count, "select(): index ", index, " out of range for tensor of size ", sizes(), " at dimension ", i);
    auto sizes = this->sizes().vec(), strides = this->strides().vec();
    sizes.erase(sizes.begin() + int64_t(position(i)));
    strides.erase(strides.begin() + int64_t(position(i)));
    return as_strided(sizes, strides, at * stride(i));
}
inline Tensor Tensor::expand(IntArrayRef wanted) const {
    const size_t added = wanted.size() - size_t(dim());
    TORCH_CHECK(wanted.size() >= size_t(dim()), "expand: fewer dims than the tensor has");
    std::vector<int64_t> sizes = wanted.vec(), strides(wanted.size(), 0);
    for (size_t i = added; i < wanted.size(); ++i) {
        const int64_t own = size(int64_t(i - added));
        if (sizes[i] == -1) sizes[i] = own;
        TORCH_CHECK(own == sizes[i] || own == 1, "The expanded size of the tensor (", sizes[i], ") must match the existing size (", own, ") at non-singleton dimension ", i);
        strides[i] = own == 1 ? 0 : stride(int64_t(i - added));
    }
    return as_strided(sizes, strides);
}
inline std::vector<Tensor> Tensor::chunk(int64_t count, int64_t i) const {
    TORCH_CHECK(count > 0, "chunk expects `chunks` to be greater than 0, got: ", count);
    const int64_t all = size(i), each = std::max((all + count - 1) / count, int64_t(1));
    std::vector<Tensor> parts;
    for (int64_t start = 0; start < all; start += each) parts.push_back(narrow(i, start, std::min(each, all - start)));
    return parts;
}
inline Tensor Tensor::flatten(int64_t start, int64_t end) const {
    if (dim() == 0) return reshape({1});
    std::vector<int64_t> sizes;
    const int64_t first = int64_t(position(start)), last = int64_t(position(end));
    for (int64_t i = 0; i < dim(); ++i) i > first && i <= last ? void(sizes.back() *= size(i)) : sizes.push_back(size(i));
    return reshape(sizes);
}

// ---- torch's operators

/// An argument on the dispatcher's stack, which takes it over.
inline StableIValue stacked(const Tensor& tensor) {
    AtenTensorHandle owned = nullptr;
    check_call(aoti_torch_new_tensor_handle(tensor.handle(), &owned), "new_tensor_handle");
    return StableIValue(reinterpret_cast<uintptr_t>(owned));
}
inline StableIValue stacked(int64_t value) { return StableIValue(value); }
inline StableIValue stacked(bool value) { return StableIValue(value); }
inline StableIValue stacked(std::nullopt_t) { return 0; }
/// A list, of what `stack_one` makes of each value.
template <class List, class StackOne>
StableIValue stacked_list(const List& values, const StackOne& stack_one) {
    TORCH_CHECK(torch_new_list_reserve_size, "this version of torch passes no lists through its C ABI");
    // an undefined tensor is refused before there are handles, which a list does not own
    if constexpr (std::is_same_v<std::decay_t<decltype(*values.begin())>, Tensor>)
        for (const Tensor& tensor : values) tensor.handle();
    StableListOpaque* made = nullptr;
    check_call(torch_new_list_reserve_size(values.size(), &made), "list");
    std::unique_ptr<StableListOpaque, void (*)(StableListOpaque*)> list(made, [](StableListOpaque* owned) { torch_delete_list(owned); });
    for (const auto& value : values) check_call(torch_list_push_back(made, stack_one(value)), "list");
    list.release();
    return StableIValue(reinterpret_cast<uintptr_t>(made));
}
inline StableIValue stacked(IntArrayRef values) {
    return stacked_list(values, [](int64_t value) { return stacked(value); });
}
inline StableIValue stacked(const std::vector<Tensor>& tensors) {
    return stacked_list(tensors, [](const Tensor& tensor) { return stacked(tensor); });
}
/// A value on the stack as one that the operator takes as optional.
inline StableIValue as_optional(StableIValue value) {
    StableIValue* made = nullptr;
    if (torch_new_stable_ivalue) check_call(torch_new_stable_ivalue(&made), "optional");
    else made = new StableIValue;
    *made = value;
    return StableIValue(reinterpret_cast<uintptr_t>(made));
}
template <class T>
StableIValue stacked_optional(const T& value) {
    return as_optional(stacked(value));
}

/// The results of an operator: ``call_operator<1>("aten::sort", "", {stacked(x), ...})``.
template <size_t results>
std::array<Tensor, results> call_operator(const char* name, const char* overload, std::initializer_list<StableIValue> arguments) {
    std::vector<StableIValue> stack(arguments);
    stack.resize(std::max(stack.size(), results));
    check_call(aoti_torch_call_dispatcher(name, overload, stack.data()), name);
    std::array<Tensor, results> made;
    for (size_t i = 0; i < results; ++i) made[i] = Tensor(reinterpret_cast<AtenTensorHandle>(uintptr_t(stack[i])));
    return made;
}

inline std::tuple<Tensor, Tensor> max(const Tensor& from, int64_t dim, bool keepdim = false) {
    auto [values, indices] = call_operator<2>("aten::max", "dim", {stacked(from), stacked(dim), stacked(keepdim)});
    return {values, indices};
}
inline std::tuple<Tensor, Tensor> min(const Tensor& from, int64_t dim, bool keepdim = false) {
    auto [values, indices] = call_operator<2>("aten::min", "dim", {stacked(from), stacked(dim), stacked(keepdim)});
    return {values, indices};
}
inline std::tuple<Tensor, Tensor> Tensor::sort(int64_t dim, bool descending) const {
    auto [values, indices] = call_operator<2>("aten::sort", "", {stacked(*this), stacked(dim), stacked(descending)});
    return {values, indices};
}
inline std::tuple<Tensor, Tensor> Tensor::sort(std::optional<bool> stable, int64_t dim, bool descending) const {
    const StableIValue is_stable = stacked_optional(stable.value_or(false));
    auto [values, indices] = call_operator<2>("aten::sort", "stable", {stacked(*this), is_stable, stacked(dim), stacked(descending)});
    return {values, indices};
}
inline Tensor Tensor::argsort(int64_t dim, bool descending) const { return std::get<1>(sort(dim, descending)); }
inline Tensor Tensor::max() const { return call_operator<1>("aten::max", "", {stacked(*this)})[0]; }
inline Tensor Tensor::min() const { return call_operator<1>("aten::min", "", {stacked(*this)})[0]; }
#define TKJIT_TORCH_DEFINED(name)                                                                              \
    inline Tensor Tensor::name() const { return call_operator<1>("aten::" #name, "", {stacked(*this)})[0]; } \
    inline Tensor name(const Tensor& of) { return of.name(); }
TKJIT_TORCH_UNARY(TKJIT_TORCH_DEFINED)
#undef TKJIT_TORCH_DEFINED
inline Tensor Tensor::index_select(int64_t dim, const Tensor& index) const {
    return call_operator<1>("aten::index_select", "", {stacked(*this), stacked(dim), stacked(index)})[0];
}
inline Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0) {
    return call_operator<1>("aten::cat", "", {stacked(tensors), stacked(dim)})[0];
}
inline Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0) {
    return call_operator<1>("aten::stack", "", {stacked(tensors), stacked(dim)})[0];
}
inline Tensor Tensor::sum() const { return call_operator<1>("aten::sum", "", {stacked(*this), stacked(std::nullopt)})[0]; }
inline Tensor Tensor::sum(IntArrayRef dims, bool keepdim) const {
    return call_operator<1>("aten::sum", "dim_IntList", {stacked(*this), stacked_optional(dims), stacked(keepdim), stacked(std::nullopt)})[0];
}
inline Tensor Tensor::mul(const Tensor& by) const { return call_operator<1>("aten::mul", "Tensor", {stacked(*this), stacked(by)})[0]; }
inline Tensor Tensor::div(const Tensor& by) const { return call_operator<1>("aten::div", "Tensor", {stacked(*this), stacked(by)})[0]; }
inline Tensor Tensor::matmul(const Tensor& other) const { return call_operator<1>("aten::matmul", "", {stacked(*this), stacked(other)})[0]; }
inline Tensor matmul(const Tensor& a, const Tensor& b) { return a.matmul(b); }
inline Tensor mm(const Tensor& a, const Tensor& b) { return a.matmul(b); }
inline Tensor sum(const Tensor& of) { return of.sum(); }
/// ``a - factor * b``: sums and differences take a number besides, which the dispatcher's C ABI cannot pass.
inline Tensor minus(const Tensor& a, const Tensor& b, double factor) {
    TORCH_CHECK(aoti_torch_aten_subtract_Tensor, "this version of torch adds no tensors through its C ABI");
    AtenTensorHandle made = nullptr;
    check_call(aoti_torch_aten_subtract_Tensor(a.handle(), b.handle(), factor, &made), "subtract");
    return Tensor(made);
}
inline Tensor Tensor::add(const Tensor& other) const { return minus(*this, other, -1); }
inline Tensor Tensor::sub(const Tensor& other) const { return minus(*this, other, 1); }
inline const Tensor& Tensor::add_(const Tensor& other) const { return copy_(add(other)); }
inline const Tensor& Tensor::sub_(const Tensor& other) const { return copy_(sub(other)); }
inline const Tensor& Tensor::mul_(const Tensor& by) const { return copy_(mul(by)); }
inline const Tensor& Tensor::div_(const Tensor& by) const { return copy_(div(by)); }
inline Tensor operator+(const Tensor& a, const Tensor& b) { return a.add(b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return a.sub(b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return a.mul(b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return a.div(b); }

}  // inline namespace tkjit_stand_in
}  // namespace at
