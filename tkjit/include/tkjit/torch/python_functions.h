// Makes C++ functions callable from Python, with positional and keyword arguments, defaults, overloads and exceptions.
#pragma once

#include "launches.h"
#include "python_values.h"

#include <functional>
#include <memory>
#include <optional>

namespace pybind11 {
inline namespace tkjit_stand_in {

/// The name of an argument, and its default.
struct arg {
    explicit arg(const char* name) : name(name) {}
    arg none(bool = true) const { return *this; }  // ignored: the argument's type determines whether it may be None
    arg noconvert(bool is = true) const {
        arg made = *this;
        made.converts = !is;
        return made;
    }
    template <class T>
    arg operator=(const T& value) const {
        arg made = *this;
        made.value = cast(value);
        return made;
    }
    arg operator=(std::nullopt_t) const {
        arg made = *this;
        made.value = pybind11::none();
        return made;
    }
    std::string name;
    object value;
    bool converts = true;
};
inline namespace literals {
inline arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals

template <class... T>
struct call_guard {};
enum class return_value_policy { automatic, automatic_reference, take_ownership, copy, move, reference, reference_internal };
struct kw_only {};
struct pos_only {};
struct is_operator {};
struct arithmetic {};  // ignored: all enumerations are arithmetic
struct module_local {  // ignored: bound classes are always local to their module
    explicit module_local(bool = true) {}
};
template <int nurse, int patient>
struct keep_alive {};  // ignored: objects of bound classes share ownership
struct doc {
    const char* text;
};

/// A docstring that already begins with the signature.
struct whole_doc {
    const char* text;
};

/// The arguments of ``def`` other than the function.
struct Extras {
    std::string doc;
    bool is_whole_doc = false;
    std::vector<arg> arguments;
    bool releases_gil = false;
    return_value_policy policy = return_value_policy::automatic;

    void take(const char* text) { doc = text; }
    void take(const std::string& text) { doc = text; }
    void take(const pybind11::doc& text) { doc = text.text; }
    void take(const whole_doc& text) { doc = text.text, is_whole_doc = true; }
    void take(const arg& one) { arguments.push_back(one); }
    template <class... T>
    void take(call_guard<T...>) {
        releases_gil = (std::is_same<T, gil_scoped_release>::value || ...);
    }
    template <int... i>
    void take(std::integer_sequence<int, i...>) {}
    void take(return_value_policy given) { policy = given; }
    void take(kw_only) {}
    void take(pos_only) {}
    void take(is_operator) {}
    template <int nurse, int patient>
    void take(keep_alive<nurse, patient>) {}
};

/// Whether an object already has the parameter's type. Overloads that need no conversion are preferred.
template <class T>
struct Exact {
    static bool is(PyObject*) { return true; }
};
template <>
struct Exact<double> {
    static bool is(PyObject* given) { return PyFloat_Check(given); }
};
template <>
struct Exact<float> : Exact<double> {};
template <class T>
struct Exact<std::optional<T>> {
    static bool is(PyObject* given) { return given == Py_None || Exact<T>::is(given); }
};

inline void check_launches(const tkjit::Launches& launches) {
    const char* const error = launches.error();
    if (!error) return;
    if (PyErr_Occurred()) throw error_already_set();  // Ctrl-C
    const object errors = pybind11::check(PyImport_ImportModule("tkjit.errors"));
    const object type = pybind11::check(PyObject_GetAttrString(errors.ptr(), "LaunchError"));
    PyErr_SetString(type.ptr(), error);
    throw error_already_set();
}

/// A C++ function, and its next overload.
class Function {
public:
    Function(std::string name, Extras extras, size_t count, bool has_self) : name(std::move(name)), extras(std::move(extras)), count(count) {
        auto& arguments = this->extras.arguments;
        if (arguments.empty())
            for (size_t i = has_self; i < count; ++i) arguments.emplace_back(("arg" + std::to_string(i - has_self)).c_str());
        if (has_self) arguments.insert(arguments.begin(), arg("self"));
        if (arguments.size() != count) throw c10::Error(this->name + ": expected a name for each argument");
    }
    virtual ~Function() = default;
    /// Returns the result, or nullopt if an argument has the wrong type; ``refusal`` then describes the argument.
    virtual std::optional<object> call(PyObject* const* given, bool converts, std::string& refusal) const = 0;
    /// The types of the arguments, followed by the type of the result.
    virtual std::vector<std::string> types() const = 0;

    /// ``name(x: torch.Tensor, n: int = 2) -> torch.Tensor``, followed by the author's docstring.
    std::string documentation() const {
        if (extras.is_whole_doc) return extras.doc;
        const std::vector<std::string> listed = types();
        std::string text = name + "(";
        for (size_t i = 0; i < count; ++i) {
            text += (i ? ", " : "") + extras.arguments[i].name + (extras.arguments[i].name == "self" ? "" : ": " + listed[i]);
            if (extras.arguments[i].value.ptr()) text += " = " + text_of(object(PyObject_Repr(extras.arguments[i].value.ptr())).ptr());
        }
        if (takes_args) text += count ? ", *args" : "*args";
        if (takes_kwargs) text += count || takes_args ? ", **kwargs" : "**kwargs";
        return text + ") -> " + listed.back() + "\n" + (extras.doc.empty() ? "" : "\n" + extras.doc + "\n");
    }
    /// The ``__doc__`` of all overloads; called for the first one.
    const char* shown_documentation() {
        shown_ = documentation();
        if (next) {
            size_t number = 0;
            shown_ = name + "(*args, **kwargs)\nOverloaded function.\n";
            for (const Function* each = this; each; each = each->next.get()) shown_ += "\n" + std::to_string(++number) + ". " + each->documentation();
        }
        return shown_.c_str();
    }

    const std::string name;
    Extras extras;
    /// The number of named arguments. ``py::args`` and ``py::kwargs`` follow them.
    size_t count;
    bool takes_args = false, takes_kwargs = false;
    std::unique_ptr<Function> next;
    PyMethodDef definition{};

private:
    std::string shown_;
};

/// The name of an argument's type in Python, or ``object`` for a class that is bound later.
template <class T>
std::string name_of_argument() {
    try {
        const std::string found = Reader<T>::name();
        return found == "Tensor" ? "torch.Tensor" : found;
    } catch (const std::exception&) {
        return "object";
    }
}
/// The name of a result's type in Python.
template <class T, class = void>
struct NameOfResult {
    static std::string name() { return "object"; }
};
template <class T>
struct NameOfResult<T, std::void_t<decltype(Reader<T>::name())>> {
    static std::string name() { return name_of_argument<T>(); }
};
template <>
struct NameOfResult<const char*, void> {
    static std::string name() { return "str"; }
};
template <class T>
struct NameOfResult<std::optional<T>, void> {
    static std::string name() { return NameOfResult<T>::name() + " | None"; }
};
template <class T>
struct NameOfResult<std::vector<T>, void> {
    static std::string name() { return "list[" + NameOfResult<T>::name() + "]"; }
};
template <class... T>
struct NameOfResult<std::tuple<T...>, void> {
    static std::string name() {
        std::string listed;
        ((listed += (listed.empty() ? "" : ", ") + NameOfResult<T>::name()), ...);
        return "tuple[" + listed + "]";
    }
};
template <class A, class B>
struct NameOfResult<std::pair<A, B>, void> : NameOfResult<std::tuple<A, B>> {};
template <class T, size_t N>
struct NameOfResult<std::array<T, N>, void> : NameOfResult<std::vector<T>> {};
template <class K, class V>
struct NameOfResult<std::map<K, V>, void> {
    static std::string name() { return "dict[" + NameOfResult<K>::name() + ", " + NameOfResult<V>::name() + "]"; }
};
template <class K, class V>
struct NameOfResult<std::unordered_map<K, V>, void> : NameOfResult<std::map<K, V>> {};
template <>
struct NameOfResult<void, void> {
    static std::string name() { return "None"; }
};

/// Converts a function's result to an object. python_classes.h adds pointers and references to bound classes.
template <class R, class = void>
struct ResultOf {
    static object write(const std::decay_t<R>& made, return_value_policy, handle) { return Writer<std::decay_t<R>>::write(made); }
};

template <class F, class R, class... A>
class FunctionOf final : public Function {
public:
    FunctionOf(std::string name, F function, Extras extras, bool has_self)
        : Function(std::move(name), std::move(extras), sizeof...(A) - has<args> - has<kwargs>, has_self), function_(std::move(function)) {
        takes_args = has<args>, takes_kwargs = has<kwargs>;
    }

    std::vector<std::string> types() const override {
        return {name_of_argument<typename Kept<std::decay_t<A>>::type>()..., NameOfResult<std::decay_t<R>>::name()};
    }
    std::optional<object> call(PyObject* const* given, bool converts, std::string& refusal) const override {
        return call_with(given, converts, refusal, std::index_sequence_for<A...>());
    }

private:
    template <class T>
    static constexpr size_t has = (std::is_same<std::decay_t<A>, T>::value || ...);

    template <size_t... i>
    std::optional<object> call_with([[maybe_unused]] PyObject* const* given, [[maybe_unused]] bool converts, [[maybe_unused]] std::string& refusal,
                                    std::index_sequence<i...>) const {
        std::tuple<typename Kept<std::decay_t<A>>::type...> read{};
        if (!(read_one(given[i], std::get<i>(read), i, converts, refusal) && ...)) return std::nullopt;
        const tkjit::Launches launches;
        const auto run = [&]() -> R {
            std::optional<gil_scoped_release> released;
            if (extras.releases_gil) released.emplace();
            return function_(static_cast<A>(std::get<i>(read))...);
        };
        if constexpr (std::is_void<R>::value) {
            run();
            check_launches(launches);
            return none();
        } else {
            object made = ResultOf<R>::write(run(), extras.policy, sizeof...(A) ? given[0] : nullptr);
            check_launches(launches);
            return made;
        }
    }
    template <class T>
    bool read_one(PyObject* given, T& to, size_t position, bool converts, std::string& refusal) const {
        const bool is_named = position < count;
        const bool is_wanted = (converts && (!is_named || extras.arguments[position].converts)) || Exact<T>::is(given);
        if (is_wanted && Reader<T>::read(given, to)) return true;
        refusal = (is_named ? extras.arguments[position].name : "*") + ": expected " + Reader<T>::name() + ", got " + type_name(given);
        return false;
    }

    mutable F function_;
};

using ExceptionTranslator = void (*)(std::exception_ptr);
/// The translators that a source has registered, the latest first. Each rethrows the exception and handles one type.
inline std::vector<ExceptionTranslator>& exception_translators() {
    static auto* const all = new std::vector<ExceptionTranslator>;
    return *all;
}
inline void register_exception_translator(ExceptionTranslator translator) {
    exception_translators().insert(exception_translators().begin(), translator);
}

/// Sets a Python exception of the type that torch would choose.
inline void translate_as_torch(std::exception_ptr thrown) {
    try {
        std::rethrow_exception(std::move(thrown));
    } catch (const error_already_set& error) {
        error.restore();
    } catch (const builtin_exception& error) {
        error.set_error();
    } catch (const c10::IndexError& error) {
        PyErr_SetString(PyExc_IndexError, error.what());
    } catch (const c10::ValueError& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const c10::TypeError& error) {
        PyErr_SetString(PyExc_TypeError, error.what());
    } catch (const c10::NotImplementedError& error) {
        PyErr_SetString(PyExc_NotImplementedError, error.what());
    } catch (const std::bad_alloc& error) {
        PyErr_SetString(PyExc_MemoryError, error.what());
    } catch (const std::out_of_range& error) {
        PyErr_SetString(PyExc_IndexError, error.what());
    } catch (const std::invalid_argument& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const std::domain_error& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    } catch (...) {
        PyErr_SetString(PyExc_RuntimeError, "a C++ exception of a type that is not std::exception");
    }
}
/// Turns the exception that is being handled into a Python exception.
inline void translate() {
    std::exception_ptr thrown = std::current_exception();
    for (const ExceptionTranslator translator : exception_translators()) {
        try {
            return translator(thrown);
        } catch (...) {
            thrown = std::current_exception();
        }
    }
    translate_as_torch(std::move(thrown));
}

/// Puts arguments and defaults into ``found``, in the parameters' order. Returns an empty text, or why they do not fit.
inline std::string put_in_order(const Function& function, PyObject* positional, PyObject* named, std::vector<object>& found) {
    const std::vector<arg>& arguments = function.extras.arguments;
    const size_t count = function.count, given = size_t(PyTuple_Size(positional));
    if (given > count && !function.takes_args)
        return "() takes " + std::to_string(count) + " arguments, but " + std::to_string(given) + " were given";
    found.assign(count, object());
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) {
        PyObject* const by_position = i < given ? PyTuple_GetItem(positional, Py_ssize_t(i)) : nullptr;
        PyObject* const by_name = named ? PyDict_GetItemString(named, arguments[i].name.c_str()) : nullptr;
        used += by_name != nullptr;
        if (by_name && by_position) return "() got " + arguments[i].name + " twice";
        found[i] = object(pybind11::new_reference(by_position ? by_position : by_name ? by_name : arguments[i].value.ptr()));
        if (!found[i]) return "(): " + arguments[i].name + " is missing";
    }
    if (function.takes_args) found.push_back(check(PyTuple_GetSlice(positional, Py_ssize_t(count), Py_ssize_t(given))));
    if (function.takes_kwargs) {
        const object others = named ? check(PyDict_Copy(named)) : check(PyDict_New());
        for (const arg& argument : arguments)
            if (others.contains(argument.name)) check_status(PyDict_DelItemString(others.ptr(), argument.name.c_str()));
        found.push_back(others);
        return "";
    }
    return !named || used == size_t(PyDict_Size(named)) ? "" : "() has no such argument: " + text_of(named);
}

inline constexpr const char* capsule_name = "tkjit.torch.function";

/// Calls the first overload that accepts the arguments. Overloads that need no conversion come first.
inline object call_first(const Function& first, PyObject* positional, PyObject* named) {
    std::string refusals;
    for (const bool converts : {false, true}) {
        if (!converts && !first.next) continue;
        refusals.clear();
        for (const Function* function = &first; function; function = function->next.get()) {
            std::vector<object> given;
            std::string refusal = put_in_order(*function, positional, named, given);
            if (refusal.empty()) {
                std::vector<PyObject*> pointers;
                for (const object& one : given) pointers.push_back(one.ptr());
                if (std::optional<object> made = function->call(pointers.data(), converts, refusal)) return *std::move(made);
                refusal = "(): " + refusal;
            }
            refusals += (refusals.empty() ? "" : "; ") + function->name + refusal;
        }
    }
    throw type_error(refusals);
}
inline PyObject* call_function(PyObject* capsule, PyObject* positional, PyObject* named) noexcept {
    try {
        return call_first(*static_cast<const Function*>(PyCapsule_GetPointer(capsule, capsule_name)), positional, named).release();
    } catch (...) {
        translate();
        return nullptr;
    }
}

/// Makes a Python function of an overload and the overloads after it. The function lives as long as the process.
inline object python_function(Function* first) {
    first->definition = {first->name.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&call_function)), METH_VARARGS | METH_KEYWORDS,
                         first->shown_documentation()};
    const object capsule = check(PyCapsule_New(first, capsule_name, nullptr));
    return check(PyCFunction_New(&first->definition, capsule.ptr()));
}
/// Adds a function to a module or class. If the owner has one of that name, ``function`` becomes an overload.
inline void add_function(PyObject* owner, std::unique_ptr<Function> function, bool is_method) {
    static auto* const known = new std::vector<std::pair<std::pair<PyObject*, std::string>, Function*>>;
    for (auto& [where, first] : *known)
        if (where.first == owner && where.second == function->name) {
            Function* last = first;
            while (last->next) last = last->next.get();
            last->next = std::move(function);
            first->definition.ml_doc = first->shown_documentation();
            return;
        }
    Function* const first = function.release();
    known->push_back({{owner, first->name}, first});
    object made = python_function(first);
    if (is_method) {  // built-in functions do not bind to an instance
        const object functools = check(PyImport_ImportModule("functools"));
        made = check(PyObject_CallMethod(functools.ptr(), "partialmethod", "O", made.ptr()));
    }
    check_status(PyObject_SetAttrString(owner, first->name.c_str(), made.ptr()));
}

/// The signature of a lambda or another callable.
template <class F>
struct SignatureOf : SignatureOf<decltype(&F::operator())> {};
template <class R, class... A>
struct SignatureOf<R (*)(A...)> {
    template <class F>
    using function = FunctionOf<F, R, A...>;
    /// An ``__init__`` that stores the object that `make` returns.
    template <class Self, class F>
    static auto init(F make) {
        return [make](Self self, A... arguments) { self.set(make(std::forward<A>(arguments)...)); };
    }
};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...)> : SignatureOf<R (*)(A...)> {};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...) const> : SignatureOf<R (*)(A...)> {};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...) noexcept> : SignatureOf<R (*)(A...)> {};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...) const noexcept> : SignatureOf<R (*)(A...)> {};
template <class R, class... A>
struct SignatureOf<R (*)(A...) noexcept> : SignatureOf<R (*)(A...)> {};

template <class F, class... Extra>
std::unique_ptr<Function> make_function(const char* name, F function, bool has_self, const Extra&... extra) {
    Extras extras;
    (extras.take(extra), ...);
    return std::make_unique<typename SignatureOf<F>::template function<F>>(name, std::move(function), std::move(extras), has_self);
}

/// A C++ function as a Python object.
class cpp_function : public function {
public:
    cpp_function() = default;
    template <class F, class... Extra>
    cpp_function(F made, const Extra&... extra) : function(python_function(make_function("", std::move(made), false, extra...).release())) {}
};

/// ``py::overload_cast<int>(&f)``.
template <class... A>
struct overload_cast_of {
    template <class R>
    constexpr auto operator()(R (*function)(A...)) const {
        return function;
    }
    template <class R, class C>
    constexpr auto operator()(R (C::*function)(A...)) const {
        return function;
    }
};
template <class... A>
constexpr overload_cast_of<A...> overload_cast{};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
