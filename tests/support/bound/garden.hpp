// A small library with the usual contents of C++ headers, for tests of bindings.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace garden {

/// How a bed is watered.
enum class Water { none, drip, spray = 7 };
enum Season { spring, summer };

inline int living = 0;  // the number of Tree and Rooted objects

/// The sum of two numbers.
inline int add(int first, int second = 10) { return first + second; }
inline double add(double first, double second) { return first + second; }
inline std::string add(const std::string& first, const std::string& second) { return first + second; }

template <class T>
T twice(const T& value) {
    return value + value;
}
/// T cannot be deduced.
template <class T>
T zero() {
    return T(0);
}
template <class... T>
std::size_t count(const T&...) {
    return sizeof...(T);
}
inline std::size_t length(const char* text) { return text ? std::char_traits<char>::length(text) : 0; }
inline void increment(int& number) { ++number; }
inline void fill(double* values, std::size_t count, double value) {
    for (std::size_t i = 0; i < count; ++i) values[i] = value;
}
template <class It>
auto total(It first, It last) {
    typename std::iterator_traits<It>::value_type sum{};
    for (; first != last; ++first) sum += *first;
    return sum;
}
inline void fail(int kind) {
    switch (kind) {
        case 0: throw std::out_of_range("no such bed");
        case 1: throw std::invalid_argument("no such plant");
        case 2: throw std::bad_alloc();
        case 3: throw std::runtime_error("rain");
        case 4: throw 7;
    }
}

struct Point {
    double x = 0, y = 0;
    const int made = 1;
    Point() = default;
    Point(double x, double y) : x(x), y(y) {}
    double dot(const Point& other) const { return x * other.x + y * other.y; }
    Point operator+(const Point& other) const { return {x + other.x, y + other.y}; }
    Point& operator+=(const Point& other) { return x += other.x, y += other.y, *this; }
    bool operator==(const Point& other) const { return x == other.x && y == other.y; }
    bool operator<(const Point& other) const { return x < other.x; }
    Point operator-() const { return {-x, -y}; }
    double operator()(double scale) const { return scale * (x + y); }
};
inline Point operator*(double scale, const Point& point) { return {scale * point.x, scale * point.y}; }

struct Named {
    std::string name = "nameless";
    const std::string& get_name() const { return name; }
    static int legs(int animals) { return 4 * animals; }
};
struct Counted {
    int number = 3;
    int next() { return ++number; }
};
/// With two bases.
class Tree : public Named, public Counted {
public:
    explicit Tree(const std::string& of) : height(2.5) { name = of, ++living; }
    Tree(const Tree& other) : Named(other), Counted(other), height(other.height) { ++living; }
    Tree(Tree&& other) : Named(std::move(other)), Counted(other), height(other.height) { ++living; }
    ~Tree() { --living; }
    void deleted() = delete;
    double height;

private:
    int secret = 1;
    void hidden() {}
};

/// A container, which inherits its members from a base that depends on T.
template <class T>
struct Base {
    std::vector<T> held;
    Base() = default;
    template <class It>
    Base(It first, It last) : held(first, last) {}
    std::size_t size() const { return held.size(); }
    typename std::vector<T>::iterator begin() { return held.begin(); }
    typename std::vector<T>::iterator end() { return held.end(); }
    T& operator[](std::size_t i) { return held[i]; }
    const T& operator[](std::size_t i) const { return held[i]; }
    T& front() { return held.front(); }
    T* data() { return held.data(); }
    void resize(std::size_t size) { held.resize(size); }
};
template <class T, std::size_t n = 4>
struct Bed : Base<T> {
    using Base<T>::Base;
    static std::size_t rows() { return n; }
    Bed twice() const {
        Bed result(*this);
        for (T& value : result.held) value = value + value;
        return result;
    }
};
template <class T>
Bed<T> twice_of(const Bed<T>& bed) {
    return bed.twice();
}
template <class T>
using Beds = Bed<Bed<T>>;

/// Cannot be copied, moved or default-constructed.
struct Rooted {
    int depth;
    explicit Rooted(int depth) : depth(depth) { ++living; }
    Rooted(const Rooted&) = delete;
    ~Rooted() { --living; }
};
inline Rooted plant(int depth) { return Rooted(depth); }
inline Tree* grow(const char* name) { return new Tree(name); }
inline Tree* nothing() { return nullptr; }
inline double height_of_one(const Tree& tree) { return tree.height; }
inline double height_of(const Tree* tree) { return tree ? tree->height : 0; }
inline std::string take(Tree&& tree) { return Tree(std::move(tree)).name; }
inline Water next(Water water) { return water == Water::none ? Water::drip : Water::spray; }
inline const char* word() { return "rose"; }

namespace shed {
inline int tools() { return 12; }
inline namespace v2 {
struct Rake {
    int teeth() const { return 14; }
};
}  // namespace v2
}  // namespace shed

}  // namespace garden
