// One example of each C++ feature that garden.hpp lacks, for C++14 to C++20.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>
#if __cplusplus >= 201703L
#include <optional>
#include <string_view>
#endif

/// Outside of the bound namespaces.
struct Unbound {
    int count;
    double weight;
};

namespace features {

/// An aggregate.
struct Pair {
    int first;
    double second;
};

template <class T>
struct Kind {
    static const char* name() { return "any"; }
};
template <class T>
struct Kind<T*> {
    int level = 1;
    static const char* name() { return "pointer"; }
};
template <>
struct Kind<int> {
    static const char* name() { return "int"; }
};
template <template <class> class K, class T>
const char* kind_of(K<T>) {
    return K<T>::name();
}

template <class T, int n = 3>
struct Fixed {
    T data[n];
    static constexpr int count = n;
    T& operator()(int row, int column) { return data[row + column]; }
};

struct Convertible {
    operator int() const { return 42; }
    explicit operator bool() const { return false; }
};
inline std::ostream& operator<<(std::ostream& out, const Convertible&) { return out << "convertible"; }

struct Qualified {
    int value = 1;
    int& get() & { return value; }
    const int& get() const& { return value; }
    int take() && { return 7; }
};

struct Left {
    int x = 1;
    int common() { return 1; }
};
struct Right {
    int y = 2;
    int common() { return 2; }
};
struct Both : Left, Right {
    using Left::common;
};

struct Abstract {
    virtual ~Abstract() = default;
    virtual int number() = 0;
};
struct Derived : Abstract {
    int number() override { return 5; }
};
inline int number_of(Abstract& of) { return of.number(); }
inline Abstract& shared() {
    static Derived derived;
    return derived;
}

struct Outer {
    struct Inner {
        int depth = 4;
    };
    enum Mode { fast, slow };
    static constexpr double pi = 3.0;
    Mode mode = slow;
    Inner make() { return {}; }
};

union Number {
    int integer;
    float real;
};
/// height() is declared but never defined, as in some of Eigen's expressions.
struct Hollow {
    int depth = 2;
    int width() const { return 3; }
    int height() const;
};

template <class T>
struct Scaled {
    static T unit() { return T(1); }
    template <int factor>
    T times(T value) const { return value * factor; }
    template <int factor>
    static T multiple(T value) { return value * factor; }
};
struct Metres : Scaled<double> {};
using Feet = Scaled<float>;

/// A range whose iterators have a private type.
class Countdown {
    struct Cursor {
        int at;
        int operator*() const { return at; }
        Cursor& operator++() { return --at, *this; }
        bool operator!=(const Cursor& other) const { return at != other.at; }
    };
    int from_;

public:
    explicit Countdown(int from) : from_(from) {}
    Cursor begin() const { return {from_}; }
    Cursor end() const { return {0}; }
};
inline auto adder(int n) { return [n](int m) { return n + m; }; }
template <class Function>
auto twice_applied(const Function& function, int n) { return function(function(n)); }

enum Flags : unsigned char { read = 1, write = 2 };
constexpr int limit = 10;
inline int& counter() {
    static int value = 0;
    return value;
}

typedef std::vector<int> Integers;
using Words = std::vector<std::string>;
template <class T>
using Vector = std::vector<T>;

inline int sum(const Integers& of) {
    int found = 0;
    for (int one : of) found += one;
    return found;
}
inline int twice(int of) { return 2 * of; }
inline double twice(double of) { return 2 * of; }
inline int half(int of) { return of / 2; }
inline int apply(int (*function)(int), int to) { return function(to); }
template <class Function>
auto apply_to_four(Function function) {
    return function(4);
}
template <class T>
const T& largest(const T& first, const T& second) {
    return first < second ? second : first;
}
inline const std::string& same(const std::string& text) { return text; }
inline std::string describe(int first = 1, double second = 2.5, const std::string& third = "x" + std::string("y")) {
    return std::to_string(first) + " " + std::to_string(int(second * 2)) + " " + third;
}
inline void set(double& number, std::vector<double>& list) { number = 5, list.push_back(6); }
inline Words words() { return {"a", "bc"}; }
inline std::map<int, std::string> table() { return {{1, "one"}, {2, "two"}}; }
inline std::unique_ptr<Pair> make() { return std::unique_ptr<Pair>(new Pair{1, 2.5}); }
inline std::array<int, 3> three() { return {{7, 8, 9}}; }
inline std::tuple<int, double> both() { return std::tuple<int, double>(1, 2.5); }
inline std::vector<std::vector<double>> nested() { return {{1, 2}, {3}}; }
inline int* pointer() {
    static int held[] = {7, 8, 9};
    return held;
}
#if __cplusplus >= 201703L
inline std::optional<int> perhaps(bool is) { return is ? std::optional<int>(3) : std::nullopt; }
inline std::string_view view(std::string_view text) { return text; }
#endif

enum class Mode : int { slow, fast };
enum class Mode : int;  // a second declaration
struct Multiplied {
    enum Kind { none, some };
    int by(Kind kind = some, int times = 1) const { return int(kind) * times; }
};
template <class T>
int run(T count, Mode mode = Mode::fast, int times = 1) {
    return int(count) * int(mode) * times;
}
#define FEATURES_DEFAULT = 3
inline int hidden_default(int one FEATURES_DEFAULT, int two = 4) { return one * two; }

}  // namespace features
