// Traits that determine how the fields of a globals struct and the parameters of an entry are filled and checked.
//
// Any type with the interface of a global layout is treated as one, so a field may have a tile library's type. The
// interface is a `dtype`, a `raw_ptr` and a constructor from a pointer and four extents. For an extent that the type
// fixes (`__b__`, `__d__`, `__r__` or `__c__` other than -1, as in ThunderKittens' kittens::gl) the constructor gets
// nullptr.
//
// A type with a member type `made_from`, which is a layout, is constructed from that layout: `using made_from =
// tkjit::strided<T, 2>` and a constructor that takes one.
#pragma once

#include <tkjit/element.h>
#include <tkjit/gl.h>
#include <tkjit/list.h>
#include <tkjit/pgl.h>
#include <tkjit/strided.h>

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace tkjit {

// The extents that a type fixes, -1 for those that it leaves open.
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

// Another library's parallel layout (kittens::pgl). Its type fixes the number of devices and whether it has multicast.
// The constructor takes the multicast pointer if there is one, then the pointers and four extents.
template <class P>
concept parallel_layout = requires {
    typename P::GL;
    { P::num_devices } -> std::convertible_to<int>;
    { P::multicast } -> std::convertible_to<bool>;
} && global_layout<typename P::GL>;

namespace detail {

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

template <class Field>
concept made_from_layout = requires { typename std::remove_cvref_t<Field>::made_from; };

// A placeholder for the type of a computed integer, which no call passes: the source may choose any integer type.
struct computed {};

// Converts an argument to a type that is neither a layout nor a number. tkjit/containers.h describes its members.
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

// The type that a spec uses for the items of a container, where every number is an int64_t or a double.
template <class T>
using spec_type = typename detail::spec_type_of<std::remove_cvref_t<T>>::type;

// Whether a field's type matches the spec: a tensor's type holds elements of `Element`, a scalar's is `Element`.
template <class Field, class Element>
constexpr bool holds() {
    using Value = std::remove_cvref_t<Field>;
    if constexpr (made_from_layout<Value>) {
        return holds<typename Value::made_from, Element>();
    } else if constexpr (std::is_same_v<Value, Element>) {
        return true;
    } else if constexpr (std::is_same_v<Element, computed>) {
        return std::is_integral_v<Value> && sizeof(Value) >= sizeof(int);
    } else if constexpr (detail::is_strided<Element>::value) {
        if constexpr (detail::is_strided<Value>::value)
            return std::is_same_v<std::remove_cv_t<typename Value::dtype>, typename Element::dtype> && Value::rank == Element::rank;
        else return std::is_pointer_v<Value> && holds<Value, typename Element::dtype>();  // strides are separate integers
    } else if constexpr (detail::is_strided<Value>::value) {
        return false;  // the spec has a contiguous tensor
    } else if constexpr (global_layout<Value> || parallel_layout<Value> || detail::is_own_parallel_layout<Value>::value) {
        return std::is_same_v<std::remove_cv_t<typename Value::dtype>, Element>;
    } else if constexpr (std::is_pointer_v<Value>) {
        using Pointee = std::remove_cv_t<std::remove_pointer_t<Value>>;
        return is_element<Pointee, Element> || std::is_void_v<Pointee>;
    } else if constexpr (std::is_integral_v<Value> && std::is_integral_v<Element>) {
        // long and long long are the same type for a caller
        return sizeof(Value) == sizeof(Element) && std::is_signed_v<Value> == std::is_signed_v<Element> &&
               std::is_same_v<Value, bool> == std::is_same_v<Element, bool>;
    } else if constexpr (requires { typename converter<Value>::as; }) {
        return std::is_same_v<spec_type<Value>, spec_type<Element>> || std::is_same_v<spec_type<Value>, optional<spec_type<Element>>>;
    } else {
        return std::is_same_v<Value, optional<Element>>;
    }
}

// Whether a function's parameters match these types in order. A host function may take the stream after them.
template <class Function, class... Elements>
struct takes_elements : std::false_type {};
template <class Result, class... Parameters, class... Elements>
    requires(sizeof...(Parameters) == sizeof...(Elements))
struct takes_elements<Result (*)(Parameters...), Elements...> : std::bool_constant<(holds<Parameters, Elements>() && ...)> {};
template <class Function, class... Elements>
constexpr bool takes() {
#ifdef __CUDACC_RTC__  // no host functions here
    return takes_elements<Function, Elements...>::value;
#else
    return takes_elements<Function, Elements...>::value || takes_elements<Function, Elements..., cudaStream_t>::value;
#endif
}

// The type of a function's first parameter, the struct: struct_of(&kernel<64>).
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

// Whether a member is a number of this type, or an array of `Count` of them.
template <class Member, class Element, size_t Count>
constexpr bool holds_items() {
    using Item = std::remove_all_extents_t<Member>;
    return holds<Item, Element>() && sizeof(Member) == Count * sizeof(Item);
}

// Whether an aggregate has exactly `Count` fields: it takes that many initialisers, but not one more. An array counts
// once for each element.
template <class Struct, size_t Count>
constexpr bool has_fields() {
    return detail::takes_initialisers<Struct>(std::make_index_sequence<Count>{}) &&
           !detail::takes_initialisers<Struct>(std::make_index_sequence<Count + 1>{});
}

// Like has_fields, for a struct that is passed by value. A struct with constructors, such as dim3, cannot be checked.
template <class Struct, size_t Count>
constexpr bool has_elements() {
    static_assert(std::is_trivially_copyable_v<Struct>, "a struct that is passed by value is copied byte by byte");
    if constexpr (std::is_aggregate_v<Struct>) return has_fields<Struct, Count>();
    else return true;
}

}  // namespace tkjit
