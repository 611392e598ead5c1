// py::class_ and py::enum_.
#pragma once

#include "python_functions.h"

#include <typeindex>
#include <unordered_map>

namespace pybind11 {
inline namespace tkjit_stand_in {

/// A Python object of a bound class: shares the C++ object.
struct Instance {
    PyObject_HEAD
    std::shared_ptr<void> held;
};
inline std::unordered_map<std::type_index, PyTypeObject*>& bound_classes() {
    static auto* const all = new std::unordered_map<std::type_index, PyTypeObject*>;
    return *all;
}
inline PyTypeObject* bound_class(std::type_index type) {
    const auto found = bound_classes().find(type);
    if (found != bound_classes().end()) return found->second;
    PyErr_Format(PyExc_TypeError, "%s is not bound to Python", type.name());
    throw error_already_set();
}

template <class T>
struct Reader<std::shared_ptr<T>> {
    static std::string name() {
        const object name = check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(bound_class(typeid(T))), "__name__"));
        return utf8(name.ptr());
    }
    static bool read(PyObject* given, std::shared_ptr<T>& to) {
        if (!PyObject_TypeCheck(given, bound_class(typeid(T)))) return false;
        to = std::static_pointer_cast<T>(reinterpret_cast<Instance*>(given)->held);
        return to != nullptr;
    }
};
template <class T>
struct Writer<std::shared_ptr<T>> {
    static object write(const std::shared_ptr<T>& value) {
        if (!value) return none();
        PyTypeObject* const type = bound_class(typeid(T));
        object made = check(PyType_GenericAlloc(type, 0));
        new (&reinterpret_cast<Instance*>(made.ptr())->held) std::shared_ptr<void>(value);
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
struct Writer<std::unique_ptr<T>> {
    static object write(std::unique_ptr<T> value) { return cast(std::shared_ptr<T>(std::move(value))); }
};

/// What ``__init__`` puts a C++ object into.
template <class T>
struct SelfOf {
    PyObject* object = nullptr;
    void set(std::shared_ptr<T> made) const { reinterpret_cast<Instance*>(object)->held = std::move(made); }
    void set(std::unique_ptr<T> made) const { set(std::shared_ptr<T>(std::move(made))); }
    void set(T* made) const { set(std::shared_ptr<T>(made)); }
    void set(T made) const { set(std::make_shared<T>(std::move(made))); }
};
template <class T>
struct Reader<SelfOf<T>> {
    static std::string name() { return "self"; }
    static bool read(PyObject* given, SelfOf<T>& to) {
        to.object = given;
        return PyObject_TypeCheck(given, bound_class(typeid(T)));
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

template <class T, class... Options>
class class_ {
public:
    template <class Module, class... Extra>
    class_(const Module& module, const char* name, const Extra&...) {
        static std::string whole;  // the type refers to it
        const object in = check(PyObject_GetAttrString(module.ptr(), "__name__"));
        whole = std::string(pybind11::utf8(in.ptr())) + "." + name;
        PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&free)}, {Py_tp_new, reinterpret_cast<void*>(&make)}, {0, nullptr}};
        PyType_Spec spec{whole.c_str(), int(sizeof(Instance)), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
        type_ = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpec(&spec)).release());
        bound_classes()[typeid(T)] = type_;
        if (PyObject_SetAttrString(module.ptr(), name, ptr()) != 0) throw error_already_set();
    }
    PyObject* ptr() const { return reinterpret_cast<PyObject*>(type_); }

    template <class... A, class... Extra>
    class_& def(init_of<A...>, const Extra&... extra) {
        return def_init([](A... arguments) { return std::make_shared<T>(std::forward<A>(arguments)...); }, extra...);
    }
    template <class F, class... Extra>
    class_& def(init_by<F> by, const Extra&... extra) {
        return def_init(by.make, extra...);
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
        return def_property(name, getter(get), none());
    }
    template <class Get, class Set, class... Extra>
    class_& def_property(const char* name, Get get, Set set, const Extra&...) {
        return def_property(name, getter(get), setter(set));
    }
    template <class V, class C, class... Extra>
    class_& def_readonly(const char* name, V C::*member, const Extra&...) {
        return def_property(name, getter([member](T& self) -> V { return self.*member; }), none());
    }
    template <class V, class C, class... Extra>
    class_& def_readwrite(const char* name, V C::*member, const Extra&...) {
        return def_property(name, getter([member](T& self) -> V { return self.*member; }),
                            setter([member](T& self, V value) { self.*member = std::move(value); }));
    }

private:
    template <class F, class... Extra>
    class_& def_init(F make, const Extra&... extra) {
        add_function(ptr(), make_function("__init__", SignatureOf<F>::template init<SelfOf<T>>(std::move(make)), true, extra...), true);
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
    template <class F>
    object setter(F set) {
        return python_function(make_function("set", std::move(set), true).release());
    }
    class_& def_property(const char* name, const object& get, const object& set) {
        const object type = check(PyObject_GetAttrString(check(PyImport_ImportModule("builtins")).ptr(), "property"));
        const object property = check(PyObject_CallFunctionObjArgs(type.ptr(), get.ptr(), set.ptr(), nullptr));
        if (PyObject_SetAttrString(ptr(), name, property.ptr()) != 0) throw error_already_set();
        return *this;
    }
    static PyObject* make(PyTypeObject* type, PyObject*, PyObject*) {
        PyObject* const made = PyType_GenericAlloc(type, 0);
        if (made) new (&reinterpret_cast<Instance*>(made)->held) std::shared_ptr<void>();
        return made;
    }
    static void free(PyObject* self) {
        PyTypeObject* const type = Py_TYPE(self);
        reinterpret_cast<Instance*>(self)->held.~shared_ptr();
        reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
        Py_DECREF(type);
    }

    PyTypeObject* type_ = nullptr;
};

/// An enumeration, which becomes an ``enum.IntEnum`` at the end of the statement.
template <class T>
class enum_ {
public:
    template <class Module, class... Extra>
    enum_(const Module& module, const char* name, const Extra&...) : module_(pybind11::new_reference(module.ptr())), name_(name), values_(check(PyDict_New())) {}
    enum_(const enum_&) = delete;
    enum_& value(const char* name, T value, const char* = nullptr) {
        if (PyDict_SetItemString(values_.ptr(), name, cast(int64_t(value)).ptr()) != 0) throw error_already_set();
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
    object values_;
    bool are_exported_ = false;
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
