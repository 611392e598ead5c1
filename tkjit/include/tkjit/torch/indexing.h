// torch::indexing: x.index({Slice(1, 3), None, "...", 2, mask}).
#pragma once

#include "functions.h"

namespace at {
inline namespace tkjit_stand_in {
namespace indexing {

constexpr std::nullopt_t None = std::nullopt;
struct EllipsisIndexType {};
constexpr EllipsisIndexType Ellipsis{};

struct Slice {
    Slice(std::optional<int64_t> start = std::nullopt, std::optional<int64_t> stop = std::nullopt, std::optional<int64_t> step = std::nullopt)
        : start(start), stop(stop), step(step.value_or(1)) {}
    std::optional<int64_t> start, stop;
    int64_t step;
};

struct TensorIndex {
    enum Kind { none, ellipsis, integer, boolean, slice, tensor };
    TensorIndex(std::nullopt_t) : kind(none) {}
    TensorIndex(EllipsisIndexType) : kind(ellipsis) {}
    TensorIndex(const char* text) : kind(ellipsis) {
        TORCH_CHECK_VALUE(std::string(text) == "...", "Expected \"...\" to represent an ellipsis index, but got \"", text, "\"");
    }
    template <class T, class = std::enable_if_t<std::is_integral<T>::value>>
    TensorIndex(T value) : kind(std::is_same<T, bool>::value ? boolean : integer), number(int64_t(value)) {}
    TensorIndex(Slice range) : kind(slice), range(range) {}
    TensorIndex(Tensor indices) : kind(tensor), indices(std::move(indices)) {}

    Kind kind;
    int64_t number = 0;
    Slice range;
    Tensor indices;
};

/// A view that applies all indices except tensors, and the tensors that index its dimensions.
struct Selection {
    Tensor view;
    c10::List<std::optional<Tensor>> tensors;
    bool has_tensors = false;
};
inline Selection select(const Tensor& from, c10::ArrayRef<TensorIndex> indices) {
    int64_t given = 0;  // number of dimensions that the indices cover
    for (const TensorIndex& index : indices) {
        const bool is_mask = index.kind == TensorIndex::tensor && (index.indices.scalar_type() == c10::kBool || index.indices.scalar_type() == c10::kByte);
        if (index.kind != TensorIndex::none && index.kind != TensorIndex::ellipsis && index.kind != TensorIndex::boolean)
            given += is_mask ? index.indices.dim() : 1;
    }
    TORCH_CHECK_INDEX(given <= from.dim(), "too many indices for tensor of dimension ", from.dim());
    Selection made{from, {}, false};
    int64_t at = 0;  // the next dimension of the view
    size_t slot = 0;  // the next entry of the list; a mask is one entry, however many dimensions it has
    const auto put = [&](const Tensor& indices) {
        made.tensors.resize(slot++);
        made.tensors.push_back(indices);
        made.has_tensors = true;
    };
    for (const TensorIndex& index : indices) switch (index.kind) {
            case TensorIndex::none: made.view = call<Tensor>("aten::unsqueeze", "", made.view, at++), ++slot; break;
            case TensorIndex::ellipsis: at += from.dim() - given, slot += size_t(from.dim() - given); break;
            case TensorIndex::integer: made.view = call<Tensor>("aten::select", "int", made.view, at, index.number); break;
            case TensorIndex::boolean:
                made.view = call<Tensor>("aten::unsqueeze", "", made.view, at);
                put(tensor(std::vector<int64_t>(size_t(index.number), 0)));
                ++at;
                break;
            case TensorIndex::slice:
                made.view = call<Tensor>("aten::slice", "Tensor", made.view, at++, index.range.start, index.range.stop, index.range.step);
                ++slot;
                break;
            case TensorIndex::tensor:
                put(index.indices);
                at += index.indices.scalar_type() == c10::kBool || index.indices.scalar_type() == c10::kByte ? index.indices.dim() : 1;
                break;
        }
    return made;
}

}  // namespace indexing

inline Tensor Tensor::index(c10::ArrayRef<indexing::TensorIndex> indices) const {
    const auto found = indexing::select(*this, indices);
    return found.has_tensors ? call<Tensor>("aten::index", "Tensor", found.view, found.tensors) : found.view;
}
inline Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> indices) const {
    return index(c10::ArrayRef<indexing::TensorIndex>(indices));
}
inline Tensor& Tensor::index_put_(c10::ArrayRef<indexing::TensorIndex> indices, const Tensor& values) const {
    const auto found = indexing::select(*this, indices);
    if (found.has_tensors) call<void>("aten::index_put_", "", found.view, found.tensors, values, false);
    else call<void>("aten::copy_", "", found.view, values, false);
    return const_cast<Tensor&>(*this);
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& values) const {
    return index_put_(c10::ArrayRef<indexing::TensorIndex>(indices), values);
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const c10::Scalar& value) const {
    const Tensor one = call<Tensor>("aten::scalar_tensor", "", value, std::optional<c10::ScalarType>(scalar_type()), std::optional<c10::Layout>(),
                                    std::optional<c10::Device>(device()), std::optional<bool>());
    return index_put_(indices, one);
}

}  // inline namespace tkjit_stand_in
}  // namespace at
