// From a launcher's arguments to the fields of a globals struct.
//
// Any type with the interface of a global layout is filled, so a field may have another tile library's type: it has a
// `dtype` and a `raw_ptr`, and is made from a pointer and four extents, where an extent that its type fixes (`__b__`,
// `__d__`, `__r__`, `__c__` other than -1, the convention of ThunderKittens' kittens::gl) is given as nullptr.
#pragma once

#include <tkjit/arg.h>
#include <tkjit/element.h>
#include <tkjit/error_text.h>
#include <tkjit/expr.h>
#include <tkjit/gl.h>
#include <tkjit/list.h>
#include <tkjit/pgl.h>
#include <tkjit/strided.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace tkjit {

// The extents that a type fixes, -1 where it leaves them open.
template <class G>
struct static_extents {
    static constexpr int value[4] = {-1, -1, -1, -1};
};
template <class G>
    requires requires { G::__b__, G::__d__, G::__r__, G::__c__; }
struct static_extents<G> {
    static constexpr int value[4] = {G::__b__, G::__d__, G::__r__, G::__c__};
};
template <class T, int Batch, int Depth, int Rows, int Cols>
struct static_extents<gl<T, Batch, Depth, Rows, Cols>> {
    static constexpr int value[4] = {Batch, Depth, Rows, Cols};
};

template <class T, int Batch, int Depth, int Rows, int Cols>
struct static_extents<pgl<T, Batch, Depth, Rows, Cols>> {
    static constexpr int value[4] = {Batch, Depth, Rows, Cols};
};

template <class G>
concept global_layout = requires(const G& layout) {
    typename G::dtype;
    layout.raw_ptr;
} && std::is_pointer_v<decltype(G::raw_ptr)>;

// Another library's parallel layout (kittens::pgl): its type fixes the number of devices and whether it multicasts, and it
// is made from the pointers and four extents, behind the multicast pointer where it has one.
template <class P>
concept parallel_layout = requires {
    typename P::GL;
    { P::num_devices } -> std::convertible_to<int>;
    { P::multicast } -> std::convertible_to<bool>;
} && global_layout<typename P::GL>;

namespace detail {

template <int Static>
constexpr auto extent(int64_t value) {
    if constexpr (Static >= 0) return nullptr;
    else return int(value);
}

template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<optional<T>> : std::true_type {};
template <class T>
struct is_own_layout : std::false_type {};
template <class T, int Batch, int Depth, int Rows, int Cols>
struct is_own_layout<gl<T, Batch, Depth, Rows, Cols>> : std::true_type {};
template <class T>
struct is_own_parallel_layout : std::false_type {};
template <class T, int Batch, int Depth, int Rows, int Cols>
struct is_own_parallel_layout<pgl<T, Batch, Depth, Rows, Cols>> : std::true_type {};
template <class T>
struct is_strided : std::false_type {};
template <class T, int Rank, class Axes>
struct is_strided<strided<T, Rank, Axes>> : std::true_type {};

}  // namespace detail

// What the argument of a list, and that of a parallel layout, points to.
inline const TkjitArg* items_of(const TkjitArg& arg) { return static_cast<const TkjitArg*>(arg.data); }
// The first of its tensors that is there, which one is.
inline const TkjitArg& first_of(const TkjitArg& list) {
    const TkjitArg* item = items_of(list);
    while (!item->present) ++item;
    return *item;
}
inline const TkjitParallel& parallel_of(const TkjitArg& arg) { return *static_cast<const TkjitParallel*>(arg.data); }

// A tensor's extent by the axes of a global layout (batch, depth, rows, cols), before the tensor's own it is 1.
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
// The multicast pointer; on the CPU one is made for a type that asks for it.
inline void* multicast_of(const TkjitParallel& parallel) {
#ifdef TKJIT_SIM
    if (!parallel.multicast) return sim::multicast_address(parallel.data, parallel.count);
#endif
    return parallel.multicast;
}
}  // namespace detail

// An error text if a tensor contradicts what its field's type fixes, else null.
template <class Field>
const char* check_extents(const TkjitArg& arg, const char* name) {
    if constexpr (parallel_layout<Field>) {
        const TkjitParallel& parallel = parallel_of(arg);
        if (parallel.count != int(Field::num_devices))
            return error_text("shape: %s is on %d devices; its type fixes %d", name, int(parallel.count), int(Field::num_devices));
        if (Field::multicast && !detail::multicast_of(parallel))
            return error_text("%s has no multicast pointer, which its type asks for; make it a "
                              "tkjit.ParallelTensor(..., multicast=True) on hardware that has it", name);
        return check_extents<typename Field::GL>(arg, name);
    } else if constexpr (detail::is_strided<Field>::value) {
        // whose rank the spec's dims have said
    } else if constexpr (global_layout<Field>) {
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

// An integer that no call gives, as an argument.
inline TkjitArg integer_arg(Int value) {
    TkjitArg arg{};
    arg.integer = value.value();
    arg.present = 1;
    return arg;
}

// An error text if such an integer has no value, or none that a member of its type holds.
template <class Member>
const char* check_computed(Int value, const char* name) {
    using Integer = std::conditional_t<std::is_integral_v<Member>, std::remove_cv_t<Member>, int>;
    using Limits = std::numeric_limits<Integer>;
    const bool fits = sizeof(Integer) == sizeof(int64_t) ? Limits::is_signed || value.value() >= 0
                                                        : value.value() >= int64_t(Limits::min()) && value.value() <= int64_t(Limits::max());
    if (value.valid() && fits) return nullptr;
    if (!value.valid()) return error_text("shape: %s: overflow or division by zero", name);
    return error_text("shape: %s would be %lld, which %d bits do not hold", name, static_cast<long long>(value.value()),
                      int(8 * sizeof(Integer)));
}

// What a spec says of an integer that no call gives: its type is the source's to choose.
struct computed {};

// How a type that is no layout and no number is made of an argument (tkjit/containers.h): `from`, and `as`.
template <class T>
struct converter;

namespace detail {

template <class T>
struct spec_type_of {
    using type = T;
};
template <std::floating_point T>
struct spec_type_of<T> {
    using type = double;
};
template <std::integral T>
    requires(!std::is_same_v<T, bool>)
struct spec_type_of<T> {
    using type = int64_t;
};
template <class T>
    requires requires { typename converter<T>::as; }
struct spec_type_of<T> {
    using type = typename converter<T>::as;
};

}  // namespace detail

// The type that a spec has for what a container holds: it knows int64_t and double alone.
template <class T>
using spec_type = typename detail::spec_type_of<std::remove_cvref_t<T>>::type;

// The field of type `Field` that an argument gives.
template <class Field>
std::remove_cvref_t<Field> convert(const TkjitArg& arg) {
    using Value = std::remove_cvref_t<Field>;
    if constexpr (detail::is_own_layout<Value>::value) {
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
        Value made;  // the runtime has refused more devices
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

// The integer that no call gives: check_computed has seen it.
template <class Field>
std::remove_cvref_t<Field> convert(Int value) {
    return static_cast<std::remove_cvref_t<Field>>(value.value());
}

template <class T, int MaxLength>
struct converter<list<T, MaxLength>> {
    static list<T, MaxLength> from(const TkjitArg& arg) {
        list<T, MaxLength> made;  // the glue has refused a longer one
        const TkjitArg* const items = items_of(arg);
        for (made.count = 0; made.count < arg.extents[0]; ++made.count) made.items[made.count] = convert<T>(items[made.count]);
        return made;
    }
};

// Whether a field's type holds elements of `Element` (a tensor) or is `Element` (a scalar): what the spec says of it.
template <class Field, class Element>
constexpr bool holds() {
    using Value = std::remove_cvref_t<Field>;
    if constexpr (std::is_same_v<Value, Element>) {
        return true;
    } else if constexpr (std::is_same_v<Element, computed>) {
        return std::is_integral_v<Value> && sizeof(Value) >= sizeof(int);
    } else if constexpr (detail::is_strided<Element>::value) {
        if constexpr (detail::is_strided<Value>::value)
            return std::is_same_v<std::remove_cv_t<typename Value::dtype>, typename Element::dtype> && Value::rank == Element::rank;
        else return std::is_pointer_v<Value> && holds<Value, typename Element::dtype>();  // the strides come as integers
    } else if constexpr (detail::is_strided<Value>::value) {
        return false;  // of a field that is contiguous
    } else if constexpr (global_layout<Value> || parallel_layout<Value> || detail::is_own_parallel_layout<Value>::value) {
        return std::is_same_v<std::remove_cv_t<typename Value::dtype>, Element>;
    } else if constexpr (std::is_pointer_v<Value>) {
        using Pointee = std::remove_cv_t<std::remove_pointer_t<Value>>;
        return is_element<Pointee, Element> || std::is_void_v<Pointee>;
    } else if constexpr (std::is_integral_v<Value> && std::is_integral_v<Element>) {
        // long and long long are one type to a caller
        return sizeof(Value) == sizeof(Element) && std::is_signed_v<Value> == std::is_signed_v<Element> &&
               std::is_same_v<Value, bool> == std::is_same_v<Element, bool>;
    } else if constexpr (requires { typename converter<Value>::as; }) {
        return std::is_same_v<spec_type<Value>, spec_type<Element>> || std::is_same_v<spec_type<Value>, optional<spec_type<Element>>>;
    } else {
        return std::is_same_v<Value, optional<Element>>;
    }
}

// Whether a function's parameters hold these elements, in order; a host function may take the stream after them.
template <class Function, class... Elements>
struct takes_elements : std::false_type {};
template <class Result, class... Parameters, class... Elements>
    requires(sizeof...(Parameters) == sizeof...(Elements))
struct takes_elements<Result (*)(Parameters...), Elements...> : std::bool_constant<(holds<Parameters, Elements>() && ...)> {};
template <class Function, class... Elements>
constexpr bool takes() {
    return takes_elements<Function, Elements...>::value || takes_elements<Function, Elements..., cudaStream_t>::value;
}

// The struct that a function takes first: struct_of(&kernel<64>).
template <class Result, class First, class... Rest>
constexpr std::type_identity<std::remove_cvref_t<First>> struct_of(Result (*)(First, Rest...)) {
    return {};
}

namespace detail {

struct any_field {
    template <class T>
    operator T() const;
};

template <class Struct, size_t... I>
constexpr bool takes_initialisers(std::index_sequence<I...>) {
    return requires { Struct{(void(I), any_field{})...}; };
}

}  // namespace detail

// Whether an aggregate has exactly so many fields: it takes that many initialisers, and not one more. (Fewer it may not
// take either, where a field cannot be left out. An array counts as its elements.)
template <class Struct, size_t Count>
constexpr bool has_fields() {
    return detail::takes_initialisers<Struct>(std::make_index_sequence<Count>{}) &&
           !detail::takes_initialisers<Struct>(std::make_index_sequence<Count + 1>{});
}

}  // namespace tkjit
