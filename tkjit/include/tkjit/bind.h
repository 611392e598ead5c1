// The interface between a compiled expression and the module that calls it. C++14, without Python.
//
// An expression's unit defines a function for each call and lists an Entry for it. The compiler deduces the type of the
// result, so the entry also describes that type: its name, and how to destroy an object of it.
//
// Each translation unit compiles the headers below, so there are few. <string> includes the needed parts of <iterator>
// and <memory>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#if __cplusplus >= 201703L
#include <string_view>
#endif
#include <type_traits>
#include <typeinfo>
#include <utility>

namespace tkjit {
namespace bind {

constexpr std::uint32_t abi_version = 5;

/// How a result is returned.
enum class Form : std::int32_t {
    nothing,
    boolean,
    character,
    integer,
    natural,  // an unsigned integer
    real,
    complex,
    text,       // std::string, or const char*
    object,     // a new object, which the caller owns
    reference,  // an object that the caller does not own
    pointer,    // the same, or null
    enumeration,  // only for types: the values of an enumeration are objects
};

/// The operations of an object that Python has syntax for.
enum Protocol : std::uint32_t {
    has_size = 1,
    has_range = 2,      // begin() and end()
    has_subscript = 4,  // operator[] with an integer
    has_call = 8,       // operator() with one or two integers
    has_truth = 16,     // a conversion to bool, implicit or explicit
    has_equality = 32,
    has_extents = 64,     // extent(i), stride(i) and a constant rank
    owns_contents = 128,  // has a non-trivial destructor and is not an iterator
};

/// A C++ type.
struct Type {
    const std::type_info* info;  // its name is the same in all shared objects; describes T* if T is incomplete
    std::size_t size;
    Form form;  // of a value that is passed to a call
    std::uint32_t protocols;
    void (*destroy)(void*);  // null if the type cannot be destroyed
};

/// A result; its Form determines which members are set.
struct Result {
    union {
        std::int64_t integer;
        std::uint64_t natural;
        double real;
        void* object;
        const char* text;
    };
    union {
        double imaginary;
        std::size_t length;
    };
    void* storage;  // of a text, or null; `release` frees it
    void (*release)(void*);
};

/// Thrown if a container has no element with this index. The module that catches it formats the message, which keeps that
/// code out of the units.
struct BadIndex {
    std::ptrdiff_t index;
    std::size_t size;
};

/// One call, which may throw. `run` is null for an optional expression that does not compile.
struct Entry {
    void (*run)(void* const* arguments, Result* result);
    const Type* type;  // of the result, or of the object that a reference refers to
    Form form;
    bool is_const;
};

/// A shared object exports this as tkjit_bind_unit.
struct Unit {
    std::uint32_t abi;
    std::uint32_t count;
    const Entry* entries;
};

// ---- arguments -----------------------------------------------------------------------------------------------------

/// A Python str.
struct Text {
    const char* data;
    std::size_t size;
    std::string string() const { return std::string(data, size); }
};

/// A NumPy array, or another contiguous buffer.
template <class T>
struct Array {
    T* data;
    std::ptrdiff_t count;
    const std::ptrdiff_t* extents;
    T* begin() const { return data; }
    T* end() const { return data + count; }
};

/// An argument that the C++ code makes itself: an object of an empty class, or a function.
struct Constant {};

/// A Python str as std::string.
struct String {
    std::string value;
};

/// An argument of a declared type. It lives until the result has been passed on, because the result may refer to it.
template <class A>
struct Held {
    void* argument;
    explicit Held(void* argument) : argument(argument) {}
    A get() const { return static_cast<A>(*static_cast<std::remove_reference_t<A>*>(argument)); }
};
template <>
struct Held<String&> {
    String kept;
    explicit Held(void* argument) : kept{static_cast<const Text*>(argument)->string()} {}
    String& get() { return kept; }
};

template <class A>
Held<A> hold(void* argument) {
    return Held<A>(argument);
}

// ---- types ---------------------------------------------------------------------------------------------------------

template <class...>
struct Voided {
    using type = void;
};
template <class... T>
using void_t = typename Voided<T...>::type;

/// The size of a type, or 0 if it has none.
template <class T, class = void>
struct SizeOf : std::integral_constant<std::size_t, 0> {};
template <class T>
struct SizeOf<T, void_t<std::enable_if_t<std::is_object<T>::value>, decltype(sizeof(T))>> : std::integral_constant<std::size_t, sizeof(T)> {};

#define TKJIT_BIND_PROTOCOL(name, ...)                                       \
    template <class T, class = void>                                        \
    struct name : std::false_type {};                                       \
    template <class T>                                                      \
    struct name<T, void_t<decltype(__VA_ARGS__)>> : std::true_type {};

TKJIT_BIND_PROTOCOL(HasSize, static_cast<std::size_t>(std::declval<const T&>().size()))
TKJIT_BIND_PROTOCOL(HasRange, std::declval<T&>().begin() != std::declval<T&>().end())
TKJIT_BIND_PROTOCOL(HasSubscript, std::declval<T&>()[0])
TKJIT_BIND_PROTOCOL(HasCall, std::declval<T&>()(0))
TKJIT_BIND_PROTOCOL(HasCallOfTwo, std::declval<T&>()(0, 0))
TKJIT_BIND_PROTOCOL(HasEquality, std::declval<const T&>() == std::declval<const T&>())
TKJIT_BIND_PROTOCOL(HasDereference, *std::declval<T&>())
TKJIT_BIND_PROTOCOL(HasExtents, std::declval<T&>().extent(0) + std::declval<T&>().stride(0) + int(T::rank))
#undef TKJIT_BIND_PROTOCOL

template <class T, std::size_t = SizeOf<T>::value>
struct OwnsContents : std::integral_constant<bool, !std::is_trivially_destructible<T>::value> {};
template <class T>
struct OwnsContents<T, 0> : std::false_type {};

template <class T, bool = std::is_class<T>::value || std::is_union<T>::value>
struct Protocols {
    static constexpr std::uint32_t value = 0;
};
template <class T>
struct Protocols<T, true> {
    static constexpr std::uint32_t value =
        (HasSize<T>::value ? has_size : 0) | (HasRange<T>::value ? has_range : 0) |
        (HasSubscript<T>::value ? has_subscript : 0) | (HasCall<T>::value || HasCallOfTwo<T>::value ? has_call : 0) |
        (std::is_constructible<bool, T&>::value ? has_truth : 0) | (HasEquality<T>::value ? has_equality : 0) |
        (HasExtents<T>::value ? has_extents : 0) |
        (OwnsContents<T>::value && !HasDereference<T>::value ? owns_contents : 0);
};

template <class T>
struct Protocols<T*, false> {
    static constexpr std::uint32_t value = has_truth | (SizeOf<T>::value ? has_subscript : 0);
};

template <class T>
void destroy(void* object) {
    delete static_cast<T*>(object);
}
template <class T>
constexpr std::enable_if_t<SizeOf<T>::value && std::is_destructible<T>::value && !std::is_array<T>::value, void (*)(void*)>
destroyer(int) {
    return &destroy<T>;
}
template <class T>
constexpr void (*destroyer(long))(void*) {
    return nullptr;
}

/// How a value of this type is passed to Python: as a Python value, or as an object.
template <class T>
constexpr Form form_of() {
    return std::is_void<T>::value                 ? Form::nothing
           : std::is_same<T, bool>::value         ? Form::boolean
           : std::is_same<T, char>::value         ? Form::character
           : std::is_floating_point<T>::value     ? Form::real
           : std::is_enum<T>::value               ? Form::enumeration
           : !std::is_integral<T>::value          ? Form::object
           : std::is_signed<T>::value             ? Form::integer
                                                  : Form::natural;
}

template <class T, bool is_incomplete = std::is_class<T>::value && SizeOf<T>::value == 0>
struct TypeOf {
    static const Type type;
};
template <class T, bool is_incomplete>
const Type TypeOf<T, is_incomplete>::type{&typeid(T), SizeOf<T>::value, form_of<T>(), Protocols<T>::value, destroyer<T>(0)};

/// A class that is declared but not defined.
template <class T>
struct TypeOf<T, true> {
    static const Type type;
};
template <class T>
const Type TypeOf<T, true>::type{&typeid(T*), 0, Form::object, 0, nullptr};

/// The iterator of a container, for calls that are compiled together with the container's constructor.
struct None {};
template <class T, class = void>
struct BeginOf {
    using type = None;
};
template <class T>
struct BeginOf<T, void_t<decltype(std::declval<T&>().begin())>> {
    using type = decltype(std::declval<T&>().begin());
};

// ---- results -------------------------------------------------------------------------------------------------------

inline void put_text(Result& result, std::string&& text) {
    std::string* const kept = new std::string(std::move(text));
    result.text = kept->data();
    result.length = kept->size();
    result.storage = kept;
    result.release = [](void* storage) { delete static_cast<std::string*>(storage); };
}

template <class T>
inline std::enable_if_t<std::is_integral<T>::value> put_number(Result& result, T value) {
    if (std::is_signed<T>::value) result.integer = static_cast<std::int64_t>(value);
    else result.natural = static_cast<std::uint64_t>(value);
}
template <class T>
inline std::enable_if_t<std::is_floating_point<T>::value> put_number(Result& result, T value) {
    result.real = static_cast<double>(value);
}

/// A result of a declared type: its form in Python, and how to return it. The primary template is for objects by value.
template <class R, class = void>
struct Returned {
    using Referred = std::remove_cv_t<R>;
    static constexpr Form form = Form::object;
    static constexpr bool is_const = false;
    template <class Call>
    static void put(Result& result, const Call& call) {
        result.object = new Referred(call());
    }
};

template <class R>
struct Returned<R, std::enable_if_t<std::is_void<R>::value>> {
    using Referred = void;
    static constexpr Form form = Form::nothing;
    static constexpr bool is_const = false;
    template <class Call>
    static void put(Result&, const Call& call) {
        call();
    }
};

/// Numbers, by value or by const reference.
template <class R>
struct Returned<R, std::enable_if_t<std::is_arithmetic<std::remove_reference_t<R>>::value &&
                                    (!std::is_lvalue_reference<R>::value || std::is_const<std::remove_reference_t<R>>::value)>> {
    using Referred = std::remove_cv_t<std::remove_reference_t<R>>;
    static constexpr Form form = form_of<Referred>();
    static constexpr bool is_const = false;
    template <class Call>
    static void put(Result& result, const Call& call) {
        put_number<Referred>(result, call());
    }
};

template <class R>
struct Returned<R, std::enable_if_t<std::is_same<std::decay_t<R>, std::string>::value &&
                                    (!std::is_lvalue_reference<R>::value || std::is_const<std::remove_reference_t<R>>::value)>> {
    using Referred = std::string;
    static constexpr Form form = Form::text;
    static constexpr bool is_const = false;
    template <class Call>
    static void put(Result& result, const Call& call) {
        put_text(result, std::string(call()));
    }
};

template <class R>
struct Returned<R, std::enable_if_t<std::is_same<std::decay_t<R>, const char*>::value>> {
    using Referred = std::string;
    static constexpr Form form = Form::text;
    static constexpr bool is_const = false;
    template <class Call>
    static void put(Result& result, const Call& call) {
        const char* const text = call();
        if (text) put_text(result, text);
        else result.text = nullptr;
    }
};

/// A text with static lifetime.
struct Literal {
    const char* text;
};
template <>
struct Returned<Literal, void> {
    using Referred = std::string;
    static constexpr Form form = Form::text;
    static constexpr bool is_const = false;
    template <class Call>
    static void put(Result& result, const Call& call) {
        result.text = call().text;
        result.length = std::char_traits<char>::length(result.text);
    }
};

#if __cplusplus >= 201703L
template <class R>
struct Returned<R, std::enable_if_t<std::is_same<std::decay_t<R>, std::string_view>::value>> {
    using Referred = std::string_view;
    static constexpr Form form = Form::text;
    static constexpr bool is_const = false;
    template <class Call>
    static void put(Result& result, const Call& call) {
        put_text(result, std::string(call()));
    }
};
#define TKJIT_BIND_IS_VIEW(...) std::is_same<std::decay_t<__VA_ARGS__>, std::string_view>::value
#else
#define TKJIT_BIND_IS_VIEW(...) false
#endif

/// Lvalue references to objects, and to values that can be assigned.
template <class R>
struct Returned<R, std::enable_if_t<std::is_lvalue_reference<R>::value &&
                                    !(std::is_const<std::remove_reference_t<R>>::value &&
                                      (std::is_arithmetic<std::remove_reference_t<R>>::value ||
                                       std::is_same<std::decay_t<R>, std::string>::value)) &&
                                    !std::is_same<std::decay_t<R>, const char*>::value && !TKJIT_BIND_IS_VIEW(R)>> {
    using Referred = std::remove_cv_t<std::remove_reference_t<R>>;
    static constexpr Form form = Form::reference;
    static constexpr bool is_const = std::is_const<std::remove_reference_t<R>>::value;
    template <class Call>
    static void put(Result& result, const Call& call) {
        result.object = const_cast<void*>(static_cast<const volatile void*>(__builtin_addressof(call())));
    }
};

/// Rvalue references: the object is moved or copied.
template <class R>
struct Returned<R, std::enable_if_t<std::is_rvalue_reference<R>::value && !std::is_arithmetic<std::remove_reference_t<R>>::value &&
                                    !std::is_same<std::decay_t<R>, std::string>::value && !TKJIT_BIND_IS_VIEW(R)>>
    : Returned<std::remove_cv_t<std::remove_reference_t<R>>> {};

/// The result of a constructor, which is an object even if it is a number.
template <class T>
struct Boxed {
    T* made;
};
template <class T>
struct Returned<Boxed<T>, void> {
    using Referred = T;
    static constexpr Form form = Form::object;
    static constexpr bool is_const = false;
    template <class Call>
    static void put(Result& result, const Call& call) {
        result.object = call().made;
    }
};

/// Pointers to objects of classes. Other pointers are ordinary values.
template <class T>
struct Returned<T*, std::enable_if_t<std::is_class<T>::value>> {
    using Referred = std::remove_cv_t<T>;
    static constexpr Form form = Form::pointer;
    static constexpr bool is_const = std::is_const<T>::value;
    template <class Call>
    static void put(Result& result, const Call& call) {
        result.object = const_cast<Referred*>(call());
    }
};

/// The C++ type of a number after a round trip through Python: unchanged, except that wide characters become int.
template <class T>
using Number = std::conditional_t<std::is_same<T, wchar_t>::value || std::is_same<T, char16_t>::value || std::is_same<T, char32_t>::value, int, T>;

/// How a call receives the result of another call: as if Python had passed it from one to the other.
template <Form form, class T, bool is_const>
struct Passed {
    using type = std::conditional_t<is_const, const T, T>&;
};
template <class T, bool is_const>
struct Passed<Form::boolean, T, is_const> {
    using type = bool&&;
};
template <class T, bool is_const>
struct Passed<Form::integer, T, is_const> {
    using type = Number<T>&&;
};
template <class T, bool is_const>
struct Passed<Form::natural, T, is_const> : Passed<Form::integer, T, is_const> {};
template <class T, bool is_const>
struct Passed<Form::real, T, is_const> {
    using type = T&&;
};
template <class T, bool is_const>
struct Passed<Form::text, T, is_const> {
    using type = String&;
};
template <class T, bool is_const>
struct Passed<Form::character, T, is_const> : Passed<Form::text, T, is_const> {};
template <class T, bool is_const>
struct Passed<Form::nothing, T, is_const> {
    using type = std::nullptr_t&&;
};
template <class Function>
struct ResultOf;
template <class R, class... A>
struct ResultOf<R (*)(A...)> {
    using type = typename Passed<Returned<R>::form, typename Returned<R>::Referred, Returned<R>::is_const>::type;
};
/// The type of the objects that a function returns, or refers to.
template <class Function>
struct ReferredOf;
template <class R, class... A>
struct ReferredOf<R (*)(A...)> {
    using type = typename Returned<R>::Referred;
};
template <class P>
std::enable_if_t<!std::is_same<P, String&>::value, P> pass(std::remove_reference_t<P>& argument) {
    return static_cast<P>(argument);
}
template <class P>
std::enable_if_t<std::is_same<P, String&>::value, std::string&&> pass(String& argument) {
    return std::move(argument.value);
}

// ---- entries -------------------------------------------------------------------------------------------------------

template <class Function, Function function>
struct Caller;
template <class R, class... A, R (*function)(A...)>
struct Caller<R (*)(A...), function> {
    using Result_ = Returned<R>;

    static void call(Result& result, Held<A>... held) {
        Result_::put(result, [&]() -> R { return function(held.get()...); });
    }
    template <std::size_t... i>
    static void call_with(void* const* arguments, Result& result, std::index_sequence<i...>) {
        (void)arguments;
        call(result, hold<A>(arguments[i])...);  // nvcc cannot expand a cast
    }
    static void run(void* const* arguments, Result* result) {
        call_with(arguments, *result, std::index_sequence_for<A...>());
    }
    static constexpr Entry entry() {
        return {&run, &TypeOf<typename Result_::Referred>::type, Result_::form, Result_::is_const};
    }
};

/// An entry for an expression that need not compile. It is empty if `Expression::call` does not accept these arguments.
template <class Expression, class... A>
constexpr auto optional_entry(int) -> decltype(Expression::template call<A...>(std::declval<A>()...), Entry()) {
    using R = decltype(Expression::template call<A...>(std::declval<A>()...));
    return Caller<R (*)(A...), &Expression::template call<A...>>::entry();
}
template <class Expression, class... A>
constexpr Entry optional_entry(long) {
    return {nullptr, nullptr, Form::nothing, false};
}

// ---- expressions ---------------------------------------------------------------------------------------------------

/// An index as in Python, for a container with a size: a negative index counts from the end.
template <class T, class I>
std::enable_if_t<HasSize<T>::value && std::is_integral<I>::value && std::is_signed<I>::value, std::size_t> at(const T& object, I index) {
    const std::size_t size = static_cast<std::size_t>(object.size());
    const std::size_t found = index < 0 ? size + static_cast<std::size_t>(static_cast<std::ptrdiff_t>(index)) : static_cast<std::size_t>(index);
    if (found >= size) throw BadIndex{static_cast<std::ptrdiff_t>(index), size};
    return found;
}
template <class T, class I>
std::enable_if_t<!(HasSize<T>::value && std::is_integral<std::remove_reference_t<I>>::value && std::is_signed<std::remove_reference_t<I>>::value), I&&>
at(const T&, I&& index) {
    return static_cast<I&&>(index);
}

/// The form in which Python gets a container's element: numbers and texts by value, even if C++ returns a proxy for them;
/// anything else as the expression returns it.
template <class T, class = void>
struct ElementOf {
    using type = void;
};
template <class T>
struct ElementOf<T, void_t<typename T::value_type>> {
    using type = std::remove_cv_t<typename T::value_type>;
};
template <class It, class = void>
struct PointedTo {
    using type = void;
};
template <class It>
struct PointedTo<It, void_t<typename std::iterator_traits<It>::value_type>> {
    using type = std::remove_cv_t<typename std::iterator_traits<It>::value_type>;
};
template <class Element, class R>
using Value = std::conditional_t<
    (std::is_arithmetic<Element>::value || std::is_same<Element, std::string>::value) && std::is_convertible<R, Element>::value,
    Element,
    std::conditional_t<std::is_arithmetic<std::remove_reference_t<R>>::value || std::is_same<std::decay_t<R>, std::string>::value,
                       std::remove_cv_t<std::remove_reference_t<R>>, R>>;

template <class R>
Value<void, R> value(R&& result) {
    return static_cast<R&&>(result);
}
/// Like value(), for anything that is not a function.
template <class R>
std::enable_if_t<!std::is_function<std::remove_reference_t<R>>::value, Value<void, R>> constant(R&& result) {
    return static_cast<R&&>(result);
}
template <class T, class I>
auto item(T& object, I&& index) -> Value<typename ElementOf<T>::type, decltype(object[at(object, static_cast<I&&>(index))])> {
    return object[at(object, static_cast<I&&>(index))];
}
template <class It>
auto dereferenced(It& iterator) -> Value<typename PointedTo<It>::type, decltype(*iterator)> {
    return *iterator;
}

/// The raw pointer of contiguous elements: the pointer itself, or the `get()` of a fancy pointer.
template <class P>
P* plain(P* pointer) {
    return pointer;
}
template <class P>
auto plain(const P& pointer) -> decltype(pointer.get()) {
    return pointer.get();
}
template <class T>
std::uintptr_t address_of_elements(T& object) {
    return reinterpret_cast<std::uintptr_t>(plain(object.data()));
}
/// The name that typeid gives to a pointer to the elements. The name of the element type itself would lack the const.
template <class T>
Literal pointer_to_elements(T& object) {
    return {typeid(decltype(plain(object.data()))).name()};
}

template <class A, class Function>
constexpr auto accepts(const Function& function, int) -> decltype(function(std::declval<A>()), true) {
    return true;
}
template <class A, class Function>
constexpr bool accepts(const Function&, long) {
    return false;
}

/// A container from a buffer: constructed from begin and end, or from a pointer and a length.
template <class T, class E>
std::enable_if_t<std::is_constructible<T, E*, E*>::value, Boxed<T>> from_array(const Array<E>& array) {
    return {new T(array.begin(), array.end())};
}
template <class T, class E>
std::enable_if_t<!std::is_constructible<T, E*, E*>::value, Boxed<T>> from_array(const Array<E>& array) {
    return {new T(array.data, array.count)};
}

}  // namespace bind
}  // namespace tkjit

// only if the bound headers use complex numbers
#if defined _GLIBCXX_COMPLEX || defined _LIBCPP_COMPLEX
#include <tkjit/bind_complex.h>
#endif

/// Whether a class or its base has a method or a field of this name. If so, the name is ambiguous in `Both`.
#define TKJIT_BIND_HAS_MEMBER(member, ...)                                                              \
    [] {                                                                                                \
        struct Other {                                                                                  \
            int member;                                                                                 \
        };                                                                                              \
        struct Both : __VA_ARGS__, Other {};                                                            \
        const auto take_member = [](auto* both) -> decltype(void(&std::remove_pointer_t<decltype(both)>::member)) {}; \
        return !tkjit::bind::accepts<Both*>(take_member, 0);                                            \
    }()
