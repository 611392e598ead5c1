// Thrust's iterators that compute values from other iterators or from an index.
#pragma once

#include "execution.h"
#include "values.h"

#include <cstddef>
#include <iterator>

namespace thrust {

namespace detail {

/// An iterator at a distance from its beginning. `Derived` has `at(distance)`.
template <class Derived, class Value, class Reference>
class facade {
  public:
    using value_type = Value;
    using reference = Reference;
    using pointer = void;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::random_access_iterator_tag;

    Reference operator*() const { return self().at(distance); }
    Reference operator[](difference_type n) const { return self().at(distance + n); }
    Derived& operator+=(difference_type n) {
        distance += n;
        return static_cast<Derived&>(*this);
    }
    Derived& operator-=(difference_type n) { return *this += -n; }
    Derived& operator++() { return *this += 1; }
    Derived& operator--() { return *this -= 1; }
    Derived operator++(int) {
        const Derived old = self();
        ++distance;
        return old;
    }
    friend Derived operator+(Derived iterator, difference_type n) { return iterator += n; }
    friend Derived operator+(difference_type n, Derived iterator) { return iterator += n; }
    friend Derived operator-(Derived iterator, difference_type n) { return iterator -= n; }
    friend difference_type operator-(const Derived& a, const Derived& b) { return a.place() - b.place(); }
    friend bool operator==(const Derived& a, const Derived& b) { return a.place() == b.place(); }
    friend bool operator!=(const Derived& a, const Derived& b) { return a.place() != b.place(); }
    friend bool operator<(const Derived& a, const Derived& b) { return a.place() < b.place(); }

    /// The position by which two iterators are compared.
    difference_type place() const { return distance + self().origin(); }
    difference_type origin() const { return 0; }

  private:
    const Derived& self() const { return static_cast<const Derived&>(*this); }

    difference_type distance = 0;
};

/// An iterator's position as a number, whose difference from another one in the same array is their distance.
template <class Iterator>
std::ptrdiff_t origin_of(const Iterator& iterator) {
    if constexpr (requires { iterator.place(); }) return iterator.place();
    else return &*iterator - static_cast<decltype(&*iterator)>(nullptr);
}

}  // namespace detail

template <class T, class System = void, class Traversal = void, class Difference = void>
class counting_iterator : public detail::facade<counting_iterator<T, System, Traversal, Difference>, T, T> {
  public:
    counting_iterator() = default;
    explicit counting_iterator(T first) : first(first) {}
    T at(std::ptrdiff_t n) const { return static_cast<T>(first + n); }
    std::ptrdiff_t origin() const { return static_cast<std::ptrdiff_t>(first); }

  private:
    T first{};
};
template <class T>
counting_iterator<T> make_counting_iterator(T first) {
    return counting_iterator<T>(first);
}

template <class T, class Index = void, class System = void>
class constant_iterator : public detail::facade<constant_iterator<T, Index, System>, T, T> {
  public:
    constant_iterator() = default;
    explicit constant_iterator(T value, std::ptrdiff_t index = 0) : value(value) { *this += index; }
    T at(std::ptrdiff_t) const { return value; }

  private:
    T value{};
};
template <class T>
constant_iterator<T> make_constant_iterator(T value) {
    return constant_iterator<T>(value);
}

class discard_iterator : public detail::facade<discard_iterator, std::ptrdiff_t, null_type> {
  public:
    struct Nothing {
        template <class T>
        const Nothing& operator=(const T&) const {
            return *this;
        }
    };
    Nothing operator*() const { return {}; }
    Nothing operator[](std::ptrdiff_t) const { return {}; }
    null_type at(std::ptrdiff_t) const { return {}; }
};
inline discard_iterator make_discard_iterator() { return {}; }

template <class Function, class Iterator, class Reference = void, class Value = void>
class transform_iterator
    : public detail::facade<transform_iterator<Function, Iterator, Reference, Value>,
                            std::decay_t<std::invoke_result_t<Function&, std::iter_reference_t<Iterator>>>,
                            std::invoke_result_t<Function&, std::iter_reference_t<Iterator>>> {
  public:
    static constexpr bool is_on_device = detail::is_on_device<Iterator>;

    transform_iterator() = default;
    transform_iterator(Iterator input, Function function) : input(input), function(function) {}
    explicit transform_iterator(Iterator input) : input(input) {}
    std::invoke_result_t<Function&, std::iter_reference_t<Iterator>> at(std::ptrdiff_t n) const {
        Function own = function;  // its operator() need not be const
        return own(input[n]);
    }
    std::ptrdiff_t origin() const { return detail::origin_of(input); }
    const Iterator& base() const { return input; }

  private:
    Iterator input{};
    Function function{};
};
template <class Function, class Iterator>
transform_iterator<Function, Iterator> make_transform_iterator(Iterator input, Function function) {
    return {input, function};
}

template <class Items, class Indices>
class permutation_iterator : public detail::facade<permutation_iterator<Items, Indices>, std::iter_value_t<Items>,
                                                   std::iter_reference_t<Items>> {
  public:
    static constexpr bool is_on_device = detail::is_on_device<Items> || detail::is_on_device<Indices>;

    permutation_iterator() = default;
    permutation_iterator(Items items, Indices indices) : items(items), indices(indices) {}
    decltype(auto) at(std::ptrdiff_t n) const { return items[indices[n]]; }
    std::ptrdiff_t origin() const { return detail::origin_of(indices); }

  private:
    Items items{};
    Indices indices{};
};
template <class Items, class Indices>
permutation_iterator<Items, Indices> make_permutation_iterator(Items items, Indices indices) {
    return {items, indices};
}

template <class Tuple>
class zip_iterator;
template <class... Iterators>
class zip_iterator<tuple<Iterators...>>
    : public detail::facade<zip_iterator<tuple<Iterators...>>, tuple<std::iter_value_t<Iterators>...>,
                            tuple<std::iter_reference_t<Iterators>...>> {
  public:
    static constexpr bool is_on_device = (detail::is_on_device<Iterators> || ...);

    zip_iterator() = default;
    zip_iterator(tuple<Iterators...> iterators) : iterators(iterators) {}
    tuple<std::iter_reference_t<Iterators>...> at(std::ptrdiff_t n) const {
        return std::apply([n](const auto&... each) { return tuple<std::iter_reference_t<Iterators>...>(each[n]...); },
                          iterators);
    }
    std::ptrdiff_t origin() const { return detail::origin_of(std::get<0>(iterators)); }
    const tuple<Iterators...>& get_iterator_tuple() const { return iterators; }

  private:
    tuple<Iterators...> iterators;
};
template <class... Iterators>
zip_iterator<tuple<Iterators...>> make_zip_iterator(tuple<Iterators...> iterators) {
    return {iterators};
}
template <class... Iterators>
zip_iterator<tuple<Iterators...>> make_zip_iterator(Iterators... iterators) {
    return {tuple<Iterators...>(iterators...)};
}

template <class Function>
struct zip_function {
    Function function;
    template <class Tuple>
    decltype(auto) operator()(Tuple&& arguments) const {
        return std::apply(function, static_cast<Tuple&&>(arguments));
    }
};
template <class Function>
zip_function<Function> make_zip_function(Function function) {
    return {function};
}

using std::reverse_iterator;
template <class Iterator>
std::reverse_iterator<Iterator> make_reverse_iterator(Iterator iterator) {
    return std::reverse_iterator<Iterator>(iterator);
}

template <class Iterator>
struct iterator_value {
    using type = std::iter_value_t<Iterator>;
};
template <class Iterator>
struct iterator_reference {
    using type = std::iter_reference_t<Iterator>;
};
template <class Iterator>
struct iterator_difference {
    using type = std::ptrdiff_t;
};
template <class Iterator>
using iterator_traits = std::iterator_traits<Iterator>;
template <class First, class Last>
std::ptrdiff_t distance(First first, Last last) {
    return last - first;
}
template <class Iterator, class Distance>
void advance(Iterator& iterator, Distance n) {
    iterator += n;
}
template <class Iterator>
Iterator next(Iterator iterator, std::ptrdiff_t n = 1) {
    return iterator + n;
}

}  // namespace thrust
