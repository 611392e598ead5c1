// py::class_ and py::enum_.
#pragma once

#include "python_functions.h"

#include <typeindex>
#include <unordered_map>

namespace pybind11 {
inline namespace tkjit_stand_in {

/// A Python object of a bound class. It shares ownership of the C++ object.
struct Instance {
    PyObject_HEAD
    std::shared_ptr<void> held;
    const std::type_info* type;  // of the C++ object
};
/// A bound class, and its bound base class.
struct Bound {
    PyTypeObject* type = nullptr;
    const std::type_info* base = nullptr;
    void* (*to_base)(void*) = nullptr;
};
inline std::unordered_map<std::type_index, Bound>& bound_classes() {
    static auto* const all = new std::unordered_map<std::type_index, Bound>;
    return *all;
}
inline const Bound& bound_class(const std::type_info& type) {
    const auto found = bound_classes().find(type);
    if (found != bound_classes().end()) return found->second;
    throw type_error(std::string(type.name()) + " is not bound to Python");
}
inline Instance& instance(PyObject* object) { return *reinterpret_cast<Instance*>(object); }
/// Returns an instance's C++ object as a ``wanted*``; null before ``__init__``, or if its class has no such base.
inline void* held_as(const Instance& from, const std::type_info& wanted) {
    void* found = from.held.get();
    for (const std::type_info* type = from.type; found && *type != wanted;) {
        const Bound& bound = bound_class(*type);
        if (!bound.base) return nullptr;
        found = bound.to_base(found);
        type = bound.base;
    }
    return found;
}

template <class T>
struct Reader<std::shared_ptr<T>> {
    static std::string name() { return utf8(check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(bound_class(typeid(T)).type), "__name__")).ptr()); }
    static bool read(PyObject* given, std::shared_ptr<T>& to) {
        if (!PyObject_TypeCheck(given, bound_class(typeid(T)).type)) return false;
        const Instance& from = instance(given);
        to = std::shared_ptr<T>(from.held, static_cast<T*>(held_as(from, typeid(T))));
        return to != nullptr;
    }
};
template <class T>
struct Writer<std::shared_ptr<T>> {
    static object write(const std::shared_ptr<T>& value) {
        if (!value) return none();
        object made = check(PyType_GenericAlloc(bound_class(typeid(T)).type, 0));
        new (&instance(made.ptr()).held) std::shared_ptr<void>(std::const_pointer_cast<std::remove_const_t<T>>(value));
        instance(made.ptr()).type = &typeid(T);
        return made;
    }
};
/// An argument of a bound class, by value, reference or pointer.
template <class T>
struct Held {
    std::shared_ptr<T> object;
    operator T&() const { return *object; }
    operator T*() const { return object.get(); }
};
template <class T>
struct Reader<Held<T>> {
    static std::string name() { return Reader<std::shared_ptr<T>>::name(); }
    static bool read(PyObject* given, Held<T>& to) { return Reader<std::shared_ptr<T>>::read(given, to.object); }
};
template <class T>
struct Kept<T, std::enable_if_t<is_bound_type<T>>> {
    using type = Held<T>;
};
template <class T>
struct Kept<T*, std::enable_if_t<is_bound_type<T>>> {
    using type = Held<T>;
};
template <class T>
struct Writer<T, std::enable_if_t<is_bound_type<T>>> {
    static object write(const T& value) { return cast(std::make_shared<T>(value)); }
};
template <class T>
struct ResultOf<std::unique_ptr<T>> {
    static object write(std::unique_ptr<T> made, return_value_policy, handle) { return pybind11::cast(std::shared_ptr<T>(std::move(made))); }
};
/// Casts an object that Python does not own. With ``reference_internal``, ``parent`` owns the object and is kept alive.
template <class T>
object cast_reference(T* made, return_value_policy policy, handle parent) {
    if (!made) return none();
    if (policy != return_value_policy::reference_internal) return pybind11::cast(std::shared_ptr<T>(made, [](T*) {}));
    const auto kept = std::make_shared<object>(pybind11::new_reference(parent.ptr()));
    return pybind11::cast(std::shared_ptr<T>(kept, made));
}
template <class T>
struct ResultOf<T*, std::enable_if_t<is_bound_type<std::remove_const_t<T>>>> {
    static object write(T* made, return_value_policy policy, handle parent) {
        switch (policy) {
            case return_value_policy::automatic:
            case return_value_policy::take_ownership: return pybind11::cast(std::shared_ptr<T>(made));
            case return_value_policy::copy:
            case return_value_policy::move: return made ? pybind11::cast(*made) : none();
            default: return cast_reference(made, policy, parent);
        }
    }
};
template <class T>
struct ResultOf<T&, std::enable_if_t<is_bound_type<std::remove_const_t<T>>>> {
    static object write(T& made, return_value_policy policy, handle parent) {
        const bool is_reference = policy == return_value_policy::reference || policy == return_value_policy::reference_internal;
        return is_reference ? cast_reference(&made, policy, parent) : pybind11::cast<std::remove_const_t<T>>(made);
    }
};

/// The instance that ``__init__`` fills with a C++ object.
template <class T>
struct SelfOf {
    PyObject* object = nullptr;
    void set(std::shared_ptr<T> made) const {
        instance(object).held = std::move(made);
        instance(object).type = &typeid(T);
    }
    void set(std::unique_ptr<T> made) const { set(std::shared_ptr<T>(std::move(made))); }
    void set(T* made) const { set(std::shared_ptr<T>(made)); }
    void set(T made) const { set(std::make_shared<T>(std::move(made))); }
};
template <class T>
struct Reader<SelfOf<T>> {
    static std::string name() { return "self"; }
    static bool read(PyObject* given, SelfOf<T>& to) {
        to.object = given;
        return PyObject_TypeCheck(given, bound_class(typeid(T)).type);
    }
};

template <class... A>
struct init_of {};
template <class... A>
init_of<A...> init() {
    return {};
}
template <class F>
struct init_by {
    F make;
};
template <class F, class = decltype(&F::operator())>
init_by<F> init(F make) {
    return {std::move(make)};
}
template <class R, class... A>
init_by<R (*)(A...)> init(R (*make)(A...)) {
    return {make};
}

/// The functions to pickle objects: ``get`` makes a state from an object, and ``set`` an object from a state.
template <class Get, class Set>
struct pickle_by {
    Get get;
    Set set;
};
template <class Get, class Set>
pickle_by<Get, Set> pickle(Get get, Set set) {
    return {std::move(get), std::move(set)};
}

/// The base class among the options of ``class_``, or void. The other options, such as holders, are ignored.
template <class T, class... Options>
struct BaseOf {
    using type = void;
};
template <class T, class First, class... Others>
struct BaseOf<T, First, Others...> {
    static constexpr bool is_base = std::is_base_of<First, T>::value && !std::is_same<First, T>::value;
    using type = std::conditional_t<is_base, First, typename BaseOf<T, Others...>::type>;
};

template <class T, class... Options>
class class_ : public handle {
    using Base = typename BaseOf<T, Options...>::type;

public:
    template <class Module, class... Extra>
    class_(const Module& module, const char* name, const Extra&...) {
        static std::string whole;  // the type refers to it
        const object in = check(PyObject_GetAttrString(module.ptr(), "__name__"));
        whole = std::string(pybind11::utf8(in.ptr())) + "." + name;
        PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&free)}, {Py_tp_new, reinterpret_cast<void*>(&make)}, {0, nullptr}};
        PyType_Spec spec{whole.c_str(), int(sizeof(Instance)), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
        Bound bound;
        object bases;
        if constexpr (!std::is_void<Base>::value) {
            bases = pybind11::make_tuple(handle(reinterpret_cast<PyObject*>(bound_class(typeid(Base)).type)));
            bound.base = &typeid(Base);
            bound.to_base = [](void* from) -> void* { return static_cast<Base*>(static_cast<T*>(from)); };
        }
        object_ = check(PyType_FromSpecWithBases(&spec, bases.ptr())).release();
        bound.type = reinterpret_cast<PyTypeObject*>(object_);
        bound_classes()[typeid(T)] = bound;
        check_status(PyObject_SetAttrString(module.ptr(), name, ptr()));
    }

    template <class... A, class... Extra>
    class_& def(init_of<A...>, const Extra&... extra) {
        return def_made("__init__", [](A... arguments) { return std::make_shared<T>(std::forward<A>(arguments)...); }, extra...);
    }
    template <class F, class... Extra>
    class_& def(init_by<F> by, const Extra&... extra) {
        return def_made("__init__", by.make, extra...);
    }
    template <class Get, class Set, class... Extra>
    class_& def(pickle_by<Get, Set> by, const Extra&...) {
        def("__getstate__", by.get);
        return def_made("__setstate__", by.set);
    }
    template <class R, class C, class... A, class... Extra>
    class_& def(const char* name, R (C::*method)(A...), const Extra&... extra) {
        return def(name, [method](T& self, A... arguments) -> R { return (self.*method)(std::forward<A>(arguments)...); }, extra...);
    }
    template <class R, class C, class... A, class... Extra>
    class_& def(const char* name, R (C::*method)(A...) const, const Extra&... extra) {
        return def(name, [method](T& self, A... arguments) -> R { return (self.*method)(std::forward<A>(arguments)...); }, extra...);
    }
    template <class F, class... Extra>
    class_& def(const char* name, F function, const Extra&... extra) {
        add_function(ptr(), make_function(name, std::move(function), true, extra...), true);
        return *this;
    }
    template <class F, class... Extra>
    class_& def_static(const char* name, F function, const Extra&... extra) {
        add_function(ptr(), make_function(name, std::move(function), false, extra...), false);
        return *this;
    }
    template <class Get, class... Extra>
    class_& def_property_readonly(const char* name, Get get, const Extra&...) {
        return set_property(name, getter(get), none());
    }
    template <class Get, class Set, class... Extra>
    class_& def_property(const char* name, Get get, Set set, const Extra&...) {
        return set_property(name, getter(get), setter(set));
    }
    template <class V, class C, class... Extra>
    class_& def_readonly(const char* name, V C::*member, const Extra&...) {
        return set_property(name, getter_of(member), none());
    }
    template <class V, class C, class... Extra>
    class_& def_readwrite(const char* name, V C::*member, const Extra&...) {
        return set_property(name, getter_of(member), setter([member](T& self, V value) { self.*member = std::move(value); }));
    }

private:
    template <class F, class... Extra>
    class_& def_made(const char* name, F make, const Extra&... extra) {
        add_function(ptr(), make_function(name, SignatureOf<F>::template init<SelfOf<T>>(std::move(make)), true, extra...), true);
        return *this;
    }
    template <class F>
    object getter(F get) {
        if constexpr (std::is_member_function_pointer<F>::value) {
            return getter([get](T& self) { return (self.*get)(); });
        } else {
            return python_function(make_function("get", std::move(get), true).release());
        }
    }
    /// Makes a getter. It returns a reference that keeps the object alive if the member's type is bound, else a copy.
    template <class V, class C>
    object getter_of(V C::*member) {
        if constexpr (is_bound_type<V>) return getter([member](const std::shared_ptr<T>& self) { return std::shared_ptr<V>(self, &(self.get()->*member)); });
        else return getter([member](T& self) -> V { return self.*member; });
    }
    template <class F>
    object setter(F set) {
        return python_function(make_function("set", std::move(set), true).release());
    }
    class_& set_property(const char* name, const object& get, const object& set) {
        const object type = check(PyObject_GetAttrString(check(PyImport_ImportModule("builtins")).ptr(), "property"));
        const object property = check(PyObject_CallFunctionObjArgs(type.ptr(), get.ptr(), set.ptr(), nullptr));
        check_status(PyObject_SetAttrString(ptr(), name, property.ptr()));
        return *this;
    }
    static PyObject* make(PyTypeObject* type, PyObject*, PyObject*) {
        PyObject* const made = PyType_GenericAlloc(type, 0);
        if (made) new (&instance(made).held) std::shared_ptr<void>();
        return made;
    }
    static void free(PyObject* self) {
        PyTypeObject* const type = Py_TYPE(self);
        instance(self).held.~shared_ptr();
        reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
        Py_DECREF(type);
    }
};

/// A Python exception type for a C++ exception.
template <class E>
class exception : public object {
public:
    template <class Module>
    exception(const Module& module, const char* name, handle base = PyExc_Exception) {
        const std::string whole = object(module.attr("__name__")).template cast<std::string>() + "." + name;
        *static_cast<object*>(this) = check(PyErr_NewException(whole.c_str(), base.ptr(), nullptr));
        module.attr(name) = static_cast<const object&>(*this);
    }
    void operator()(const char* text) const { PyErr_SetString(ptr(), text); }
};
/// Makes an exception type. From now on, a C++ exception ``E`` is raised in Python as this type.
template <class E, class Module>
exception<E>& register_exception(const Module& module, const char* name, handle base = PyExc_Exception) {
    static auto* const made = new exception<E>(module, name, base);
    register_exception_translator([](std::exception_ptr thrown) {
        try {
            std::rethrow_exception(std::move(thrown));
        } catch (const E& error) {
            (*made)(error.what());
        }
    });
    return *made;
}

/// An enumeration. It becomes an ``enum.IntEnum`` at the end of the statement.
template <class T>
class enum_ {
public:
    template <class Module, class... Extra>
    enum_(const Module& module, const char* name, const Extra&...) : module_(pybind11::new_reference(module.ptr())), name_(name) {}
    enum_(const enum_&) = delete;
    enum_& value(const char* name, T value, const char* = nullptr) {
        check_status(PyDict_SetItemString(values_.ptr(), name, cast(int64_t(value)).ptr()));
        return *this;
    }
    enum_& export_values() {
        are_exported_ = true;
        return *this;
    }
    ~enum_() {
        const object type = pybind11::object(make());
        if (type.ptr()) bound_enums()[typeid(T)] = pybind11::new_reference(type.ptr());
        else PyErr_WriteUnraisable(module_.ptr());
    }

private:
    PyObject* make() {
        const object base(PyImport_ImportModule("enum"));
        const object made(base.ptr() ? PyObject_CallMethod(base.ptr(), "IntEnum", "sO", name_.c_str(), values_.ptr()) : nullptr);
        if (!made.ptr() || PyObject_SetAttrString(module_.ptr(), name_.c_str(), made.ptr()) != 0) return nullptr;
        PyObject *key = nullptr, *value = nullptr;
        for (Py_ssize_t i = 0; are_exported_ && PyDict_Next(values_.ptr(), &i, &key, &value);) {
            const object member(PyObject_GetAttr(made.ptr(), key));
            if (!member.ptr() || PyObject_SetAttr(module_.ptr(), key, member.ptr()) != 0) return nullptr;
        }
        return pybind11::new_reference(made.ptr());
    }

    object module_;
    std::string name_;
    dict values_;
    bool are_exported_ = false;
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
