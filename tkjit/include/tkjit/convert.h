// Converts a launcher's arguments to the fields of a globals struct.
#pragma once

#include <tkjit/arg.h>
#include <tkjit/error_text.h>
#include <tkjit/expr.h>
#include <tkjit/field_types.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace tkjit {

namespace detail {

template <int Static>
constexpr auto extent(int64_t value) {
    if constexpr (Static >= 0) return nullptr;
    else return int(value);
}

}  // namespace detail

// The items of a list argument.
inline const TkjitArg* items_of(const TkjitArg& arg) { return static_cast<const TkjitArg*>(arg.data); }
// The first tensor of a list that is present; at least one must be.
inline const TkjitArg& first_of(const TkjitArg& list) {
    const TkjitArg* item = items_of(list);
    while (!item->present) ++item;
    return *item;
}
inline const TkjitParallel& parallel_of(const TkjitArg& arg) { return *static_cast<const TkjitParallel*>(arg.data); }

// A tensor's extent along an axis of a global layout (batch, depth, rows, cols), or 1 if the tensor lacks the axis.
inline int64_t padded_extent(const TkjitArg& arg, int axis) {
    const int dim = arg.rank - 4 + axis;
    return dim >= 0 ? arg.extents[dim] : arg.present;
}
inline Int numel(const TkjitArg& arg) {
    Int product = arg.present;
    for (int dim = 0; dim < arg.rank; ++dim) product = product * arg.extents[dim];
    return product;
}

namespace detail {
// The multicast pointer. The simulator makes one if it is missing.
inline void* multicast_of(const TkjitParallel& parallel) {
#ifdef TKJIT_SIM
    if (!parallel.multicast) return sim::multicast_address(parallel.data, parallel.count);
#endif
    return parallel.multicast;
}
}  // namespace detail

// An error text if an extent does not fit in the layout's int, else null.
inline const char* check_int_extents(const TkjitArg& arg, const char* name) {
    for (int dim = 0; dim < arg.rank; ++dim)
        if (arg.extents[dim] > INT32_MAX)
            return error_text("shape: %s has an extent of %lld, but its layout holds extents of 31 bits; take a pointer and "
                              "64-bit integers", name, static_cast<long long>(arg.extents[dim]));
    return nullptr;
}

// An error text if a tensor does not match the extents or devices that its field's type fixes, else null.
template <class Field>
const char* check_extents(const TkjitArg& arg, const char* name) {
    if constexpr (made_from_layout<Field>) {
        return check_extents<typename Field::made_from>(arg, name);
    } else if constexpr (parallel_layout<Field>) {
        const TkjitParallel& parallel = parallel_of(arg);
        if (parallel.count != int(Field::num_devices))
            return error_text("shape: %s is on %d devices; its type fixes %d", name, int(parallel.count), int(Field::num_devices));
        if (Field::multicast && !detail::multicast_of(parallel))
            return error_text("%s has no multicast pointer, which its type asks for; make it a "
                              "tkjit.ParallelTensor(..., multicast=True) on hardware that has it", name);
        return check_extents<typename Field::GL>(arg, name);
    } else if constexpr (detail::is_strided<Field>::value) {
        return check_int_extents(arg, name);  // the glue has checked the rank
    } else if constexpr (global_layout<Field>) {
        if (const char* error = check_int_extents(arg, name)) return error;
        static constexpr const char* axes[4] = {"batch", "depth", "rows", "cols"};
        for (int axis = 0; axis < 4; ++axis) {
            const int fixed = static_extents<Field>::value[axis];
            if (fixed < 0 || !arg.present || padded_extent(arg, axis) == fixed) continue;
            return error_text("shape: %s has %s=%lld; its type fixes %d", name, axes[axis],
                              static_cast<long long>(padded_extent(arg, axis)), fixed);
        }
    }
    return nullptr;
}

// Makes an argument from a computed integer, which the caller does not pass.
inline TkjitArg integer_arg(Int value) {
    TkjitArg arg{};
    arg.integer = value.value();
    arg.present = 1;
    return arg;
}

// An error text if a computed integer is invalid or does not fit in the member, else null.
template <class Member>
const char* check_computed(Int value, const char* name) {
    using Integer = std::conditional_t<std::is_integral_v<Member>, std::remove_cv_t<Member>, int>;
    using Limits = std::numeric_limits<Integer>;
    const bool fits = sizeof(Integer) == sizeof(int64_t) ? Limits::is_signed || value.value() >= 0
                                                        : value.value() >= int64_t(Limits::min()) && value.value() <= int64_t(Limits::max());
    if (value.valid() && fits) return nullptr;
    if (!value.valid()) return error_text("shape: %s: overflow or division by zero", name);
    return error_text("shape: %s would be %lld, which does not fit in %d bits", name, static_cast<long long>(value.value()),
                      int(8 * sizeof(Integer)));
}

// Makes a field of type `Field` from an argument.
template <class Field>
std::remove_cvref_t<Field> convert(const TkjitArg& arg) {
    using Value = std::remove_cvref_t<Field>;
    if constexpr (made_from_layout<Value>) {
        return Value(convert<typename Value::made_from>(arg));
    } else if constexpr (detail::is_own_layout<Value>::value) {
        Value made{static_cast<typename Value::dtype*>(arg.data), {}};
        for (int axis = 0; axis < 4; ++axis) made.extents[axis] = int(padded_extent(arg, axis));
#ifdef TKJIT_SIM_BOUNDS
        made.label = bounds::label_of(arg);
#endif
        return made;
    } else if constexpr (detail::is_strided<Value>::value) {
        Value made;
        made.raw_ptr = static_cast<typename Value::dtype*>(arg.data);
        for (int axis = 0; axis < Value::rank; ++axis) {
            made.extents[axis] = int(arg.extents[axis]);
            made.strides[axis] = arg.strides[axis];
        }
#ifdef TKJIT_SIM_BOUNDS
        made.label = bounds::label_of(arg);
#endif
        return made;
    } else if constexpr (detail::is_own_parallel_layout<Value>::value) {
        const TkjitParallel& parallel = parallel_of(arg);
        Value made;  // the runtime has rejected too many devices
        made.multicast_ptr = static_cast<typename Value::dtype*>(parallel.multicast);
        for (made.count = 0; made.count < parallel.count; ++made.count)
            made.pointers[made.count] = static_cast<typename Value::dtype*>(parallel.data[made.count]);
        for (int axis = 0; axis < 4; ++axis) made.extents[axis] = int(padded_extent(arg, axis));
#ifdef TKJIT_SIM_BOUNDS
        made.label = bounds::label_of(arg);
#endif
        return made;
    } else if constexpr (parallel_layout<Value>) {
        using Element = typename Value::GL::dtype;
        constexpr const int(&fixed)[4] = static_extents<typename Value::GL>::value;
        const TkjitParallel& parallel = parallel_of(arg);
        Element* pointers[Value::num_devices];
        for (int i = 0; i < int(Value::num_devices); ++i) pointers[i] = static_cast<Element*>(parallel.data[i]);
        const auto make = [&](auto... first) {
            return Value(first..., detail::extent<fixed[0]>(padded_extent(arg, 0)), detail::extent<fixed[1]>(padded_extent(arg, 1)),
                         detail::extent<fixed[2]>(padded_extent(arg, 2)), detail::extent<fixed[3]>(padded_extent(arg, 3)));
        };
        if constexpr (Value::multicast) return make(static_cast<Element*>(detail::multicast_of(parallel)), &pointers[0]);
        else return make(&pointers[0]);
    } else if constexpr (global_layout<Value>) {
        constexpr const int(&fixed)[4] = static_extents<Value>::value;
        return Value(static_cast<decltype(Value::raw_ptr)>(arg.data), detail::extent<fixed[0]>(padded_extent(arg, 0)),
                     detail::extent<fixed[1]>(padded_extent(arg, 1)), detail::extent<fixed[2]>(padded_extent(arg, 2)),
                     detail::extent<fixed[3]>(padded_extent(arg, 3)));
    } else if constexpr (std::is_pointer_v<Value>) {
        return static_cast<Value>(arg.data);
    } else if constexpr (detail::is_optional<Value>::value) {
        if (!arg.present) return {};
        return {convert<decltype(Value::value)>(arg), true};
    } else if constexpr (std::is_floating_point_v<Value>) {
        return static_cast<Value>(arg.real);
    } else if constexpr (std::is_same_v<Value, TkjitDevice>) {
        return {arg.dtype, int32_t(arg.integer)};
    } else if constexpr (requires { converter<Value>::from(arg); }) {
        return converter<Value>::from(arg);
    } else {
        static_assert(std::is_integral_v<Value> || std::is_enum_v<Value>,
                      "tkjit: a field must be a global layout, a pointer, a scalar or a container of tkjit/containers.h");
        return static_cast<Value>(arg.integer);
    }
}

// A computed integer as a field; check_computed has already accepted it.
template <class Field>
std::remove_cvref_t<Field> convert(Int value) {
    return static_cast<std::remove_cvref_t<Field>>(value.value());
}

// Fills a struct member from the next numbers: one for a scalar, one for each element of an array.
template <class Member>
void take(Member& member, const TkjitArg*& item) {
    if constexpr (std::is_array_v<Member>) {
        for (auto& element : member) take(element, item);
    } else {
        member = convert<Member>(*item++);
    }
}

// Fills an array member of the source's own struct from a list. Returns an error text if the lengths differ, else null.
template <class Array>
const char* fill_array(Array& array, const TkjitArg& arg, const char* name) {
    constexpr auto count = int64_t(sizeof(Array) / sizeof(std::remove_all_extents_t<Array>));
    if (arg.extents[0] != count)
        return error_text("shape: %s has %lld items; its array in the struct has %lld", name, static_cast<long long>(arg.extents[0]),
                          static_cast<long long>(count));
    const TkjitArg* item = items_of(arg);
    take(array, item);
    return nullptr;
}

template <class T, int MaxLength>
struct converter<list<T, MaxLength>> {
    static list<T, MaxLength> from(const TkjitArg& arg) {
        list<T, MaxLength> made;  // the glue has rejected longer lists
        const TkjitArg* const items = items_of(arg);
        for (made.count = 0; made.count < arg.extents[0]; ++made.count) made.items[made.count] = convert<T>(items[made.count]);
        return made;
    }
};

}  // namespace tkjit
