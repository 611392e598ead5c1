// Non-numeric values for host functions: strings, and C++ containers of values or of tensors.
//
// A container's argument points to its items: `data` is an array of TkjitArg, and `extents[0]` is its length. A dict has
// alternating keys and values; a string has its characters. A function may keep what it receives, because values are
// copied; only a std::string_view refers to the caller's characters.
#pragma once

#include <tkjit/convert.h>

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tkjit {
namespace detail {

template <class Container>
Container filled(const TkjitArg& arg) {
    Container container;
    for (int64_t i = 0; i < arg.extents[0]; ++i)
        container.insert(container.end(), convert<typename Container::value_type>(items_of(arg)[i]));
    return container;
}

template <class Map>
Map filled_map(const TkjitArg& arg) {
    Map map;
    for (int64_t i = 0; i < arg.extents[0]; ++i)
        map.emplace(convert<typename Map::key_type>(items_of(arg)[2 * i]),
                    convert<typename Map::mapped_type>(items_of(arg)[2 * i + 1]));
    return map;
}

}  // namespace detail

// `from` makes the value. `as` is the corresponding type of a spec; a function's parameter is checked against it.
template <>
struct converter<std::string> {
    using as = std::string;
    static std::string from(const TkjitArg& arg) { return {static_cast<const char*>(arg.data), size_t(arg.extents[0])}; }
};
template <>
struct converter<std::string_view> {
    using as = std::string;
    static std::string_view from(const TkjitArg& arg) { return {static_cast<const char*>(arg.data), size_t(arg.extents[0])}; }
};
template <class T, class Allocator>
struct converter<std::vector<T, Allocator>> {
    using as = std::vector<spec_type<T>>;
    static std::vector<T, Allocator> from(const TkjitArg& arg) { return detail::filled<std::vector<T, Allocator>>(arg); }
};
template <class T, class... Rest>
struct converter<std::set<T, Rest...>> {
    using as = std::set<spec_type<T>>;
    static std::set<T, Rest...> from(const TkjitArg& arg) { return detail::filled<std::set<T, Rest...>>(arg); }
};
template <class T, class... Rest>
struct converter<std::unordered_set<T, Rest...>> {
    using as = std::set<spec_type<T>>;
    static std::unordered_set<T, Rest...> from(const TkjitArg& arg) { return detail::filled<std::unordered_set<T, Rest...>>(arg); }
};
template <class K, class V, class... Rest>
struct converter<std::map<K, V, Rest...>> {
    using as = std::map<spec_type<K>, spec_type<V>>;
    static std::map<K, V, Rest...> from(const TkjitArg& arg) { return detail::filled_map<std::map<K, V, Rest...>>(arg); }
};
template <class K, class V, class... Rest>
struct converter<std::unordered_map<K, V, Rest...>> {
    using as = std::map<spec_type<K>, spec_type<V>>;
    static std::unordered_map<K, V, Rest...> from(const TkjitArg& arg) {
        return detail::filled_map<std::unordered_map<K, V, Rest...>>(arg);
    }
};
template <class... T>
struct converter<std::tuple<T...>> {
    using as = std::tuple<spec_type<T>...>;
    static std::tuple<T...> from(const TkjitArg& arg) {
        return [&]<size_t... I>(std::index_sequence<I...>) {
            return std::tuple<T...>{convert<T>(items_of(arg)[I])...};
        }(std::index_sequence_for<T...>{});
    }
};
template <class A, class B>
struct converter<std::pair<A, B>> {
    using as = std::tuple<spec_type<A>, spec_type<B>>;
    static std::pair<A, B> from(const TkjitArg& arg) {
        return {convert<A>(items_of(arg)[0]), convert<B>(items_of(arg)[1])};
    }
};
template <class T>
struct converter<std::optional<T>> {
    using as = optional<spec_type<T>>;
    static std::optional<T> from(const TkjitArg& arg) {
        if (!arg.present) return std::nullopt;
        return convert<T>(arg);
    }
};

}  // namespace tkjit
