// The texts of rejected calls: what was received, what was expected, what to do. Each caller describes the received
// argument in its own terms.
#pragma once

#include <tkjit/call/dtypes.h>
#include <tkjit/call/view.h>

#include <string>

namespace tkjit::texts {

// "(512, 64)", "(3,)", as Python prints tuples.
inline std::string tuple(const int64_t* numbers, int count) {
    std::string text = "(";
    for (int i = 0; i < count; ++i) text += (i ? ", " : "") + std::to_string(numbers[i]);
    return text + (count == 1 ? ",)" : ")");
}

// "cpu", "cuda:0"
inline std::string place(DeviceType type, int device) {
    return type == DeviceType::cpu ? "cpu" : type == DeviceType::cuda ? "cuda:" + std::to_string(device) : "another device";
}

inline std::string wrong(const char* kernel, const char* name, const std::string& described, const std::string& expected) {
    return std::string(kernel) + ": " + name + " is " + described + "; expected " + expected;
}

// "(K=256, N)". A dim without a value is shown by its name, a literal dim as the number, and "..." as the sizes that
// another tensor gave it.
inline std::string dims(const Expected& expected) {
    std::string text;
    int count = 0;
    const auto add = [&](const std::string& dim) { text += (count++ ? ", " : "") + dim; };
    const bool is_open = expected.leading && expected.leading->count < 0;
    if (is_open) add("...");
    for (int i = 0; expected.leading && i < expected.leading->count; ++i) add(std::to_string(expected.leading->sizes[i]));
    for (int i = 0; i < expected.count; ++i) {
        const Dim& dim = expected.dims[i];
        const std::string value = std::to_string(dim.value);
        add(dim.value != kUnbound && value != dim.text ? std::string(dim.text) + "=" + value : dim.text);
    }
    return "(" + text + (count == 1 && !is_open ? ",)" : ")");
}

inline std::string dtypes(const Expected& expected) {
    if (!expected.like) return expected.dtypes;
    return std::string("of ") + expected.like + "'s type " + dtype_name(expected.like_dtype);
}

inline bool is_of_other_dtype(const TensorView& view, const Expected& expected) {
    if (expected.like) return view.dtype != expected.like_dtype;
    return (" " + dtypes(expected) + ",").find(std::string(" ") + dtype_name(view.dtype)) == std::string::npos;
}

// The dtype to convert to: "float32" of "float64, float32 or bfloat16", which has all values of 16-bit floats; else the first.
inline std::string wanted_dtype(const Expected& expected) {
    const std::string all = expected.dtypes;
    return all.find("float32") != std::string::npos ? "float32" : all.substr(0, all.find_first_of(" ,"));
}

// For a tensor whose annotation has only a dtype.
inline constexpr char no_dims[] = "its spec lists no dims, which means one number; \"...\" is any shape, \"N\" a vector";

// Why a shape does not match: the number of dimensions, or the first extent that differs and the argument that set it.
inline std::string differing_extent(const TensorView& view, const Expected& expected) {
    const int leading = view.ndim - expected.count;
    if (expected.count == 0 && !expected.leading) return std::string("; ") + no_dims;
    if (expected.leading ? leading < 0 : leading != 0) {
        const std::string has = std::to_string(view.ndim) + (view.ndim == 1 ? " dimension" : " dimensions");
        return std::string("; ") + view.name + " has " + has + ", but " + (expected.leading ? "at least " : "") +
               std::to_string(expected.count) + (expected.count == 1 ? " is" : " are") + " expected";
    }
    for (int i = 0; i < expected.count; ++i) {
        const Dim& dim = expected.dims[i];
        const std::string value = std::to_string(dim.value);
        const int64_t size = view.sizes[leading + i];
        if (dim.value == kUnbound || dim.value == size) continue;
        const std::string known = value == dim.text ? value : std::string(dim.text) + "=" + value;
        const std::string by = dim.by && std::string(dim.by) != dim.text ? std::string(" from ") + dim.by : "";
        return "; dim " + std::to_string(leading + i) + " is " + std::to_string(size) + ", but " + known + by;
    }
    return expected.leading ? "; the dims of \"...\" must be the same for all tensors" : "";
}

inline std::string mismatch(const Expected& expected) { return dims(expected) + " " + dtypes(expected); }

// The text of a constraint that does not hold, followed by the values: "(M=3, N=4)".
inline std::string constraint(const char* kernel, const char* text, const char* how, const Dim* values, int count) {
    std::string where;
    for (int i = 0; i < count; ++i) where += (i ? ", " : "") + std::string(values[i].text) + "=" + std::to_string(values[i].value);
    return std::string(kernel) + ": the constraint " + text + " " + how + " (" + where + ")";
}

// The problem of an array from an unknown framework, or an empty text. Sets `shape` if the problem is its extents.
inline std::string of_array(const TensorView& view, const std::string& who, bool* shape) {
    *shape = view.problems & (kTooManyDims | kTooLarge | kTooMuch);
    if (view.problems & kTooManyDims) {
        const int most = view.strided ? kMaxRank : kMaxDims;
        return who + ", of " + std::to_string(view.ndim) + " dimensions; expected at most " + std::to_string(most);
    }
    if (view.problems & kTooLarge) return who + "; an extent must fit in 31 bits, unless the kernel takes pointers (args=True)";
    if (view.problems & kTooMuch) return who + ", which is more memory than there is";
    if (view.problems & kOtherDevice) return who + "; expected cpu or cuda";
    if (view.problems & kBackwards) return who + " with a stride below zero; pass a copy";
    return view.problems & kNotContiguous ? who + ", which is not contiguous; pass a contiguous copy" : "";
}

// ---- what to do about it -------------------------------------------------------------------------------------------

// The framework whose methods a remedy suggests.
enum class Framework { torch, numpy, other };

// Whether a conversion loses at most precision. Complex to real and float to integer lose more.
inline bool keeps_values(int32_t dtype, const std::string& wanted) {
    const auto kind = [](const std::string& name) {
        if (name.rfind("complex", 0) == 0) return 2;
        return name.rfind("float", 0) == 0 || name == "bfloat16" ? 1 : 0;
    };
    return kind(dtype_name(dtype)) <= kind(wanted);
}

// Whether the tensor's leading dims can broadcast to the dims that "..." has in this call.
inline bool can_expand(const TensorView& view, const Expected& expected) {
    const Leading& leading = *expected.leading;
    const int own = view.ndim - expected.count, missing = leading.count - own;
    if (own < 0 || missing < 0 || leading.count < 1 || leading.matches(view, expected.count)) return false;
    for (int i = 0; i < expected.count; ++i) {
        const int64_t known = expected.dims[i].value;
        if (known != kUnbound && known != view.sizes[own + i]) return false;
    }
    for (int i = 0; i < own; ++i)
        if (view.sizes[i] != 1 && view.sizes[i] != leading.sizes[missing + i]) return false;
    return true;
}

// A suggestion that fixes the argument, or an empty text.
inline std::string remedy(const TensorView& view, const Expected& expected, bool dtype, Framework framework) {
    const std::string name = view.name;
    if (expected.use == Use::output) return "; leave " + name + " out to have it made";
    if (expected.use != Use::read) return "";
    const std::string wanted = expected.like ? dtype_name(expected.like_dtype) : wanted_dtype(expected);
    if (dtype && !keeps_values(view.dtype, wanted)) return "";
    if (dtype && framework == Framework::torch) return "; pass " + name + ".to(torch." + wanted + ")";
    const bool is_numpys = framework == Framework::numpy && wanted.rfind("float8", 0) != 0 && wanted != "bfloat16";
    if (dtype) return is_numpys ? "; pass " + name + ".astype(\"" + wanted + "\")" : "";
    if (expected.leading && framework == Framework::torch && can_expand(view, expected)) {
        std::string sizes;
        for (int i = 0; i < expected.leading->count; ++i) sizes += std::to_string(expected.leading->sizes[i]) + ", ";
        for (int i = expected.count; i > 0; --i) sizes += std::to_string(view.sizes[view.ndim - i]) + ", ";
        return "; pass " + name + ".expand(" + sizes.substr(0, sizes.size() - 2) + ").contiguous()";
    }
    const bool one = expected.count == 1 && !expected.leading && view.ndim > 1 && expected.dims->value == kUnbound;
    return one ? "; pass " + name + ".flatten(), or write \"...\" in the spec for any shape" : "";
}

// A suggestion that moves a torch tensor to `where`.
inline std::string moved(const TensorView& view, const std::string& where) {
    const std::string name = view.name;
    return "; " + name + " = " + name + ".to(\"" + where + "\") moves it";
}

inline std::string not_contiguous(const std::string& who, const std::string& name, const std::string& strides) {
    return who + " with strides " + strides + "; expected contiguous; pass " + name + ".contiguous(), which copies it";
}

}  // namespace tkjit::texts
