// C++ objects in Python: their types, who owns them, and whether they may still be used.
#pragma once

#include "python_objects.h"

#include <tkjit/bind.h>

#include <cstdlib>
#include <cxxabi.h>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tkjit::bound {

inline std::string demangle(const char* name) {
    int status = 0;
    char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    std::string found = status == 0 ? text : name;
    std::free(text);
    return found;
}

struct Library;
struct Object;

/// A C++ type in a bound library. It is never freed, because its objects may outlive the library.
struct KnownType {
    Library* library;
    std::uint32_t number;  // unique within this process
    bind::Type described;
    std::string name;       // as typeid gives it
    PyTypeObject* python;   // the class of its objects
    PyObject* adapter;      // converts results for Python; null if Python gets the object itself
};

/// The types and living objects that belong to one set of headers.
struct Library {
    PyObject_HEAD
    PyObject* make_class;  // (number, name, form, protocols) -> class
    std::unordered_map<std::string, KnownType*>* types;
    Object* newest;  // the newest living object that Python owns
    bool is_stopped;
};

/// An object, or a reference to one.
struct Object {
    PyObject_HEAD
    void* address;
    KnownType* type;
    PyObject* owner;  // kept alive: the object that this may refer into, or a tuple of such objects
    PyObject* weak_references;
    Object* older;
    Object* newer;
    std::uint32_t generation;        // counts the calls that invalidate references into this object
    std::uint32_t owner_generation;  // the owner's generation when this object was made
    bool follows_owner;              // whether an invalidating call on the owner also invalidates this object
    bool is_owned;
    bool is_const;
    bool is_moved_from;
};

/// Records how an argument is passed: as `ptr(x)`, `char_ptr("N")`, `move(x)`, or as a constant. A constant has no
/// object: it is a C++ expression that the call evaluates, or an enumeration's value.
enum class Mark : int { pointer, characters, moved, constant };
struct Marked {
    PyObject_HEAD
    PyObject* target;  // null for a constant
    Mark mark;
    std::uint32_t constant;  // a position in `constants`
    long long value;         // for a constant from an enumeration
};

struct Constant {
    const Library* library;
    std::string type;
    bool has_value;
};
inline std::vector<Constant> constants;

inline std::vector<KnownType*> known_types;  // indexed by number
inline PyTypeObject* object_type = nullptr;
inline PyTypeObject* marked_type = nullptr;
inline PyTypeObject* library_type = nullptr;

inline bool is_object(PyObject* object) { return PyObject_TypeCheck(object, object_type); }

inline KnownType* known_type(Library* library, const bind::Type& type) {
    const char* name = type.info->name();
    if (type.size == 0 && *name == 'P') ++name;  // an undefined class is described by a pointer to it
    const auto found = library->types->find(name);
    if (found != library->types->end()) {
        KnownType* const known = found->second;
        if (!known->described.destroy) known->described.destroy = type.destroy;
        return known;
    }
    auto* const known = new KnownType{library, std::uint32_t(known_types.size()), type, name, nullptr, nullptr};
    known_types.push_back(known);
    library->types->emplace(known->name, known);
    return known;
}

/// Returns the Python class for a type, which is created just before its first object. Returns null if an exception is
/// set.
inline PyTypeObject* python_class(KnownType* type) {
    if (type->python) return type->python;
    PyObject* const made = PyObject_CallFunction(type->library->make_class, "IsiI", type->number, demangle(type->name.c_str()).c_str(),
                                                 int(type->described.form), type->described.protocols);
    if (!made) return nullptr;
    if (!PyType_Check(made) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(made), object_type)) {
        Py_DECREF(made);
        PyErr_SetString(PyExc_TypeError, "make_class: expected a subclass of Object");
        return nullptr;
    }
    if (type->python) Py_DECREF(made);  // another call has created it in the meantime
    else type->python = reinterpret_cast<PyTypeObject*>(made);
    return type->python;
}

inline void link(Object* object) {
    Library* const library = object->type->library;
    object->older = library->newest;
    object->newer = nullptr;
    if (library->newest) library->newest->newer = object;
    library->newest = object;
    Py_INCREF(library);
}

inline void unlink(Object* object) {
    Library* const library = object->type->library;
    if (object->newer) object->newer->older = object->older;
    else library->newest = object->older;
    if (object->older) object->older->newer = object->newer;
    Py_DECREF(library);
}

/// Destroys the C++ object if Python owns it.
inline void end_object(Object* object) {
    if (!object->is_owned) return;
    object->is_owned = false;
    if (object->type->described.destroy && !object->type->library->is_stopped) object->type->described.destroy(object->address);
    object->address = nullptr;
    unlink(object);
}

/// Makes a Python object for a C++ object. If that fails and Python would have owned the C++ object, destroys it.
inline PyObject* wrap(KnownType* type, void* address, bool is_owned, bool is_const) {
    PyTypeObject* const cls = python_class(type);
    PyObject* const made = cls ? cls->tp_alloc(cls, 0) : nullptr;
    if (!made) {
        if (is_owned && type->described.destroy) type->described.destroy(address);
        return nullptr;
    }
    auto* const object = reinterpret_cast<Object*>(made);
    object->address = address;
    object->type = type;
    object->is_owned = is_owned;
    object->is_const = is_const;
    if (is_owned) link(object);
    return made;
}

/// Makes one object depend on another object that it may refer into, and so keeps the other alive.
inline void set_owner(Object* object, PyObject* owner, bool follows) {
    object->owner = Py_NewRef(owner);
    if (follows && is_object(owner)) {
        object->follows_owner = true;
        object->owner_generation = reinterpret_cast<Object*>(owner)->generation;
    }
}

/// Drops owners that nothing else refers to. Otherwise a walk along a linked list would keep all its nodes alive.
inline void shorten_owners(Object* object) {
    while (object->follows_owner) {
        auto* const owner = reinterpret_cast<Object*>(object->owner);
        if (owner->is_owned || !owner->owner || owner->weak_references || Py_REFCNT(owner) != 1) return;
        object->owner = Py_NewRef(owner->owner);
        object->follows_owner = owner->follows_owner;
        object->owner_generation = owner->owner_generation;
        Py_DECREF(owner);
    }
}

/// Returns whether an object may be used. If not, an exception is set.
inline bool check_usable(Object* object) {
    if (!object->address) {
        const bool is_stopped = object->type && object->type->library->is_stopped;
        PyErr_SetString(PyExc_ReferenceError, is_stopped ? "the library of this object has been stopped" : "this object has no C++ object");
        return false;
    }
    if (object->is_moved_from) {
        PyErr_Format(PyExc_ReferenceError, "this %s has been moved from", demangle(object->type->name.c_str()).c_str());
        return false;
    }
    for (const Object* at = object; at->follows_owner;) {
        const auto* const owner = reinterpret_cast<const Object*>(at->owner);
        if (at->owner_generation != owner->generation || (!owner->address && !owner->owner)) {
            PyErr_Format(PyExc_ReferenceError, "this %s refers into a %s that has changed since (resized, cleared, assigned or moved)",
                         demangle(object->type->name.c_str()).c_str(), demangle(owner->type->name.c_str()).c_str());
            return false;
        }
        at = owner;
    }
    shorten_owners(object);
    return true;
}

}  // namespace tkjit::bound
