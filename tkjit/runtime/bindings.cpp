// The module through which Python calls bound C++. It is compiled once per environment, when you first bind something.
//
// It owns every bound object that Python holds. Types are identified by typeid's name, which is the same in all shared
// objects.
#include "bound_calls.h"

#include <dlfcn.h>
#include <structmember.h>

namespace tkjit::bound {
namespace {

template <class T>
T& as(PyObject* object) {
    return *reinterpret_cast<T*>(object);
}

// ---- objects -------------------------------------------------------------------------------------------------------

/// Returns whether an object has only one reference, and can be destroyed without running code from a user's class.
bool ends_quietly(PyObject* object) {
    return is_object(object) && Py_REFCNT(object) == 1 && !Py_TYPE(object)->tp_finalize && !as<Object>(object).weak_references;
}

void free_object(PyObject* self) {
    auto& object = as<Object>(self);
    PyTypeObject* const cls = Py_TYPE(self);
    if (object.weak_references) PyObject_ClearWeakRefs(self);
    end_object(&object);
    PyObject* owner = std::exchange(object.owner, nullptr);
    cls->tp_free(self);
    Py_DECREF(cls);
    // one by one, because recursion along a long chain of owners would overflow the stack
    while (owner && ends_quietly(owner)) {
        as<Object>(owner).follows_owner = false;
        PyObject* const next = std::exchange(as<Object>(owner).owner, nullptr);
        Py_DECREF(owner);
        owner = next;
    }
    Py_XDECREF(owner);
}

PyMemberDef object_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Object, weak_references), READONLY, nullptr},
    {},
};
PyType_Slot object_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(free_object)},
    {Py_tp_members, object_members},
    {Py_tp_doc, const_cast<char*>("A C++ object, or a reference to one.")},
    {},
};
PyType_Spec object_spec{"tkjit.bindings.Object", sizeof(Object), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, object_slots};

// ---- marked arguments ----------------------------------------------------------------------------------------------

void free_marked(PyObject* self) {
    PyTypeObject* const cls = Py_TYPE(self);
    Py_XDECREF(as<Marked>(self).target);
    cls->tp_free(self);
    Py_DECREF(cls);
}
/// Looks up a method on an object that is moved from: `move(x).release()` means `std::move(x).release()`.
PyObject* marked_attribute(PyObject* self, PyObject* name) {
    PyObject* const own = PyObject_GenericGetAttr(self, name);
    const auto& marked = as<Marked>(self);
    if (own || marked.mark != Mark::moved || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
    PyErr_Clear();
    const Owned found(PyObject_GetAttr(marked.target, name));
    if (!found || !PyMethod_Check(found.get())) return found ? Py_NewRef(found.get()) : nullptr;
    return PyMethod_New(PyMethod_GET_FUNCTION(found.get()), self);
}
PyType_Slot marked_slots[] = {
    {Py_tp_getattro, reinterpret_cast<void*>(marked_attribute)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_marked)},
    {Py_tp_doc, const_cast<char*>("An argument that is passed as a pointer, as a C string, or to be moved from.")},
    {},
};
PyType_Spec marked_spec{"tkjit.bindings.Marked", sizeof(Marked), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        marked_slots};

/// Makes a constant from (subclass of Marked, library, C++ expression). For an enumeration's value, the text is the
/// enumeration's type, and an additional item holds the value's number.
PyObject* make_constant(PyObject*, PyObject* args) {
    PyObject *cls = nullptr, *library = nullptr;
    const char* text = nullptr;
    PyObject* value = nullptr;
    if (!PyArg_ParseTuple(args, "O!O!s|O!", &PyType_Type, &cls, library_type, &library, &text, &PyLong_Type, &value)) return nullptr;
    auto* const type = reinterpret_cast<PyTypeObject*>(cls);
    if (!PyType_IsSubtype(type, marked_type)) return PyErr_Format(PyExc_TypeError, "expected a subclass of Marked, got %s", type->tp_name);
    PyObject* const made = type->tp_alloc(type, 0);
    if (!made) return nullptr;
    as<Marked>(made).mark = Mark::constant;
    if (value) as<Marked>(made).value = static_cast<long long>(PyLong_AsUnsignedLongLongMask(value));
    const auto* const of = &as<Library>(library);
    std::uint32_t at = 0;
    while (at < constants.size() && (constants[at].library != of || constants[at].type != text || constants[at].has_value != (value != nullptr))) ++at;
    if (at == constants.size()) constants.push_back({of, text, value != nullptr});
    as<Marked>(made).constant = at;
    return made;
}

template <Mark mark>
PyObject* make_marked(PyObject*, PyObject* target) {
    if (mark == Mark::characters ? !PyUnicode_Check(target) : !is_object(target))
        return PyErr_Format(PyExc_TypeError, mark == Mark::characters ? "char_ptr: expected a str, got %s" : "expected a C++ object, got %s",
                            Py_TYPE(target)->tp_name);
    PyObject* const made = marked_type->tp_alloc(marked_type, 0);
    if (!made) return nullptr;
    as<Marked>(made).target = Py_NewRef(target);
    as<Marked>(made).mark = mark;
    return made;
}

// ---- compiled calls ------------------------------------------------------------------------------------------------

void free_compiled(PyObject* self) {
    PyTypeObject* const cls = Py_TYPE(self);
    Py_XDECREF(as<CompiledCall>(self).library);
    cls->tp_free(self);
    Py_DECREF(cls);
}
PyObject* result_name(PyObject* self, void*) {
    return PyUnicode_FromString(demangle(as<CompiledCall>(self).result->name.c_str()).c_str());
}
PyObject* result_form(PyObject* self, void*) { return PyLong_FromLong(long(as<CompiledCall>(self).entry.form)); }
PyGetSetDef compiled_getters[] = {
    {"result_name", result_name, nullptr, "The C++ type of the result, without its reference.", nullptr},
    {"result_form", result_form, nullptr, "How the result is returned: bind.h's Form.", nullptr},
    {},
};
PyType_Slot compiled_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(free_compiled)},
    {Py_tp_getset, compiled_getters},
    {Py_tp_doc, const_cast<char*>("A compiled call.")},
    {},
};
PyType_Spec compiled_spec{"tkjit.bindings.CompiledCall", sizeof(CompiledCall), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, compiled_slots};

// ---- functions -----------------------------------------------------------------------------------------------------

PyObject* new_function(PyTypeObject* cls, PyObject* args, PyObject* kwargs) {
    static const char* const names[] = {"name", "miss", "documentation", "brief", "invalidates", "owns_results", "constructor", nullptr};
    PyObject *name = nullptr, *miss = nullptr, *documentation = Py_None;
    int brief = 0, invalidates = 0, owns_results = 0, constructor = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UO|O$pppp", const_cast<char**>(names), &name, &miss, &documentation, &brief,
                                     &invalidates, &owns_results, &constructor))
        return nullptr;
    PyObject* const made = cls->tp_alloc(cls, 0);
    if (!made) return nullptr;
    auto& function = as<Function>(made);
    function.vectorcall = call_function;
    function.name = Py_NewRef(name);
    function.miss = Py_NewRef(miss);
    function.documentation = Py_NewRef(documentation);
    function.rows = new std::vector<Row>();
    function.pace = Pace();
    function.is_brief = brief;
    function.invalidates = invalidates;
    function.owns_results = owns_results;
    function.is_constructor = constructor;
    // before Python 3.12, a class that is defined in Python does not inherit this flag
    if (cls->tp_call == PyVectorcall_Call) cls->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    return made;
}

int traverse_function(PyObject* self, visitproc visit, void* arg) {
    auto& function = as<Function>(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(function.miss);
    Py_VISIT(function.documentation);
    return 0;
}
int clear_function(PyObject* self) {
    Py_CLEAR(as<Function>(self).miss);
    Py_CLEAR(as<Function>(self).documentation);
    return 0;
}
void free_function(PyObject* self) {
    PyTypeObject* const cls = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear_function(self);
    auto& function = as<Function>(self);
    Py_XDECREF(function.name);
    if (function.rows)
        for (const Row& row : *function.rows) Py_DECREF(row.call);
    delete function.rows;
    cls->tp_free(self);
    Py_DECREF(cls);
}

PyObject* add_row(PyObject* self, PyObject* args) {
    PyObject *types = nullptr, *call = nullptr;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &types, compiled_type, &call)) return nullptr;
    Row row;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i) {
        const unsigned long type = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(types, i));
        if (PyErr_Occurred()) return nullptr;
        row.types.push_back(std::uint32_t(type));
    }
    row.call = reinterpret_cast<CompiledCall*>(Py_NewRef(call));
    as<Function>(self).rows->push_back(std::move(row));
    Py_RETURN_NONE;
}
PyObject* get_name(PyObject* self, void*) { return Py_NewRef(as<Function>(self).name); }
PyObject* get_documentation(PyObject* self, void*) { return Py_NewRef(as<Function>(self).documentation); }
PyObject* bind_method(PyObject* self, PyObject* object, PyObject*) {
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

PyMethodDef function_methods[] = {
    {"add", add_row, METH_VARARGS, "Add a compiled call for arguments of these types, given by their numbers."},
    {},
};
PyGetSetDef function_getters[] = {
    {"__name__", get_name, nullptr, nullptr, nullptr},
    {"__doc__", get_documentation, nullptr, nullptr, nullptr},
    {},
};
PyMemberDef function_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Function, vectorcall), READONLY, nullptr},
    {},
};
PyType_Slot function_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(new_function)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_function)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_function)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_function)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_methods, function_methods},
    {Py_tp_getset, function_getters},
    {Py_tp_members, function_members},
    {},
};
PyType_Slot method_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(free_function)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_function)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_function)},
    {Py_tp_descr_get, reinterpret_cast<void*>(bind_method)},
    {},
};
PyType_Spec function_spec{"tkjit.bindings.Function", sizeof(Function), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC, function_slots};
PyType_Spec method_spec{"tkjit.bindings.Method", sizeof(Function), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_METHOD_DESCRIPTOR, method_slots};

// ---- libraries -----------------------------------------------------------------------------------------------------

PyObject* new_library(PyTypeObject* cls, PyObject* args, PyObject*) {
    PyObject* make_class = nullptr;
    if (!PyArg_ParseTuple(args, "O", &make_class)) return nullptr;
    PyObject* const made = cls->tp_alloc(cls, 0);
    if (!made) return nullptr;
    as<Library>(made).make_class = Py_NewRef(make_class);
    as<Library>(made).types = new std::unordered_map<std::string, KnownType*>();
    return made;
}
void free_library(PyObject* self) {
    PyTypeObject* const cls = Py_TYPE(self);
    Py_XDECREF(as<Library>(self).make_class);
    // the types are not freed, because their classes may be in use
    cls->tp_free(self);
    Py_DECREF(cls);
}

PyObject* open_unit(PyObject* self, PyObject* path) {
    auto& library = as<Library>(self);
    PyObject* encoded = nullptr;
    if (!PyUnicode_FSConverter(path, &encoded)) return nullptr;
    const Owned file(encoded);
    // never closed, because objects of its types may live until the process ends
    void* const opened = dlopen(PyBytes_AS_STRING(encoded), RTLD_NOW | RTLD_LOCAL);
    if (!opened) {
        const std::string text = dlerror(), sign = "undefined symbol: ";
        const std::size_t at = text.find(sign);
        if (at == std::string::npos) return PyErr_Format(PyExc_ImportError, "%s", text.c_str());
        return PyErr_Format(PyExc_ImportError, "no library defines %s; is one missing from libraries=?", demangle(text.c_str() + at + sign.size()).c_str());
    }
    const auto* const unit = static_cast<const bind::Unit*>(dlsym(opened, "tkjit_bind_unit"));
    if (!unit || unit->abi != bind::abi_version) return PyErr_Format(PyExc_ImportError, "%S is not a unit of bound calls of this version", path);
    PyObject* const calls = PyList_New(Py_ssize_t(unit->count));
    for (std::uint32_t i = 0; calls && i < unit->count; ++i) {
        PyObject* made = Py_NewRef(Py_None);
        if (unit->entries[i].run) {
            Py_DECREF(made);
            made = compiled_type->tp_alloc(compiled_type, 0);
            if (!made) {
                Py_DECREF(calls);
                return nullptr;
            }
            auto& call = as<CompiledCall>(made);
            call.entry = unit->entries[i];
            call.result = known_type(&library, *call.entry.type);
            call.library = reinterpret_cast<Library*>(Py_NewRef(self));
            call.number = number_of(*call.entry.type->info);
        }
        PyList_SET_ITEM(calls, Py_ssize_t(i), made);
    }
    return calls;
}

PyObject* describe(PyObject* self, PyObject* args) {
    if (!PyTuple_Check(args)) return PyErr_Format(PyExc_TypeError, "describe: expected a tuple");
    const Py_ssize_t count = PyTuple_GET_SIZE(args);
    Owned list(PyList_New(count));
    for (Py_ssize_t i = 0; list && i < count; ++i) {
        Argument argument;
        if (!read(PyTuple_GET_ITEM(args, i), argument)) return nullptr;
        PyObject* const described = describe_type(argument.type, &as<Library>(self));
        if (!described) return nullptr;
        PyList_SET_ITEM(list.get(), i, described);
    }
    return list.release();
}

PyObject* adapt_type(PyObject*, PyObject* args) {
    unsigned int number = 0;
    PyObject* adapter = nullptr;
    if (!PyArg_ParseTuple(args, "IO", &number, &adapter)) return nullptr;
    if (number >= known_types.size()) return PyErr_Format(PyExc_IndexError, "no type has the number %u", number);
    Py_XSETREF(known_types[number]->adapter, adapter == Py_None ? nullptr : Py_NewRef(adapter));
    Py_RETURN_NONE;
}

PyObject* destroy_objects(PyObject* self, PyObject*) {
    auto& library = as<Library>(self);
    while (library.newest) {  // in reverse order, as at the end of a C++ scope
        Object* const object = library.newest;
        const Owned held(Py_NewRef(reinterpret_cast<PyObject*>(object)));
        end_object(object);
    }
    Py_RETURN_NONE;
}
PyObject* close_library(PyObject* self, PyObject*) {
    as<Library>(self).is_stopped = true;
    Py_RETURN_NONE;
}
PyMethodDef library_methods[] = {
    {"open", open_unit, METH_O, "Load a unit. Return the list of its calls, with None for each that has not been compiled."},
    {"describe", describe, METH_O, "Return (number, how it is passed, C++ type) for each argument, or None if it has no type."},
    {"adapt", adapt_type, METH_VARARGS, "Set the callable that converts results of a type, which is given by its number."},
    {"destroy_objects", destroy_objects, METH_NOARGS, "Destroy every object that Python owns, the newest first."},
    {"close", close_library, METH_NOARGS, "Reject all further calls."},
    {},
};
PyType_Slot library_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(new_library)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_library)},
    {Py_tp_methods, library_methods},
    {},
};
PyType_Spec library_spec{"tkjit.bindings.Types", sizeof(Library), 0, Py_TPFLAGS_DEFAULT, library_slots};

// ---- functions of the module -----------------------------------------------------------------------------------------

Object* usable(PyObject* given) {
    if (!is_object(given)) return PyErr_Format(PyExc_TypeError, "expected a C++ object, got %s", Py_TYPE(given)->tp_name), nullptr;
    auto* const object = reinterpret_cast<Object*>(given);
    return check_usable(object) ? object : nullptr;
}

template <class T>
T value_at(const Object* object) {
    T value;
    std::memcpy(&value, object->address, sizeof value);
    return value;
}

/// Returns the number that a C++ reference refers to.
PyObject* load(PyObject*, PyObject* given) {
    const Object* const object = usable(given);
    if (!object) return nullptr;
    const std::size_t size = object->type->described.size;
    const bool is_signed = object->type->described.form != bind::Form::natural;
    switch (object->type->described.form) {
        case bind::Form::boolean: return PyBool_FromLong(value_at<bool>(object));
        case bind::Form::character: return PyUnicode_DecodeLatin1(static_cast<const char*>(object->address), 1, nullptr);
        case bind::Form::real:
            return PyFloat_FromDouble(size == sizeof(float)    ? double(value_at<float>(object))
                                      : size == sizeof(double) ? value_at<double>(object)
                                                               : double(value_at<long double>(object)));
        case bind::Form::integer:
        case bind::Form::natural:
        case bind::Form::enumeration:
            switch (size) {
                case 1: return PyLong_FromLong(is_signed ? long(value_at<std::int8_t>(object)) : long(value_at<std::uint8_t>(object)));
                case 2: return PyLong_FromLong(is_signed ? long(value_at<std::int16_t>(object)) : long(value_at<std::uint16_t>(object)));
                case 4: return PyLong_FromLongLong(is_signed ? (long long)(value_at<std::int32_t>(object)) : (long long)(value_at<std::uint32_t>(object)));
                case 8: return is_signed ? PyLong_FromLongLong(value_at<std::int64_t>(object)) : PyLong_FromUnsignedLongLong(value_at<std::uint64_t>(object));
                default: break;
            }
            [[fallthrough]];
        default: return PyErr_Format(PyExc_TypeError, "%s is not a number", object->type->name.c_str());
    }
}

PyObject* set_error(PyObject*, PyObject* cls) {
    Py_XSETREF(error_class, Py_NewRef(cls));
    Py_RETURN_NONE;
}

PyObject* set_number_types(PyObject*, PyObject* classes) {
    for (std::size_t i = 0; i < std::size(elements); ++i)
        if (PyObject* const found = PyDict_GetItemString(classes, elements[i].text))
            Py_XSETREF(number_types[i], reinterpret_cast<PyTypeObject*>(Py_NewRef(found)));
    Py_RETURN_NONE;
}

PyObject* set_before_call(PyObject*, PyObject* callback) {
    Py_XSETREF(before_call, callback == Py_None ? nullptr : Py_NewRef(callback));
    Py_RETURN_NONE;
}

PyMethodDef module_methods[] = {
    {"load", load, METH_O, "Return the number that a reference refers to."},
    {"set_error", set_error, METH_O, "Set the exception class for C++ exceptions that have no counterpart in Python."},
    {"set_number_types", set_number_types, METH_O, "Set the classes of numbers that keep their C++ type, by the name of that type."},
    {"set_before_call", set_before_call, METH_O, "Set a function to call before each call, or None."},
    {"ptr", make_marked<Mark::pointer>, METH_O, nullptr},
    {"char_ptr", make_marked<Mark::characters>, METH_O, nullptr},
    {"move", make_marked<Mark::moved>, METH_O, nullptr},
    {"constant", make_constant, METH_VARARGS, "Make an argument from a C++ expression, which the call evaluates, or from a value of an enumeration."},
    {},
};
PyModuleDef module_definition{PyModuleDef_HEAD_INIT, "bindings", nullptr, -1, module_methods, nullptr, nullptr, nullptr, nullptr};

PyTypeObject* add_type(PyObject* module, PyType_Spec& spec, PyTypeObject* base = nullptr) {
    const Owned bases(base ? PyTuple_Pack(1, base) : nullptr);
    PyObject* const made = PyType_FromSpecWithBases(&spec, bases.get());
    if (!made || PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(made)) != 0) return nullptr;
    return reinterpret_cast<PyTypeObject*>(made);
}

}  // namespace
}  // namespace tkjit::bound

PyMODINIT_FUNC PyInit_bindings() {
    using namespace tkjit::bound;
    PyObject* const module = PyModule_Create(&module_definition);
    if (!module) return nullptr;
    known_types.reserve(64);
    if (!(object_type = add_type(module, object_spec)) || !(marked_type = add_type(module, marked_spec)) ||
        !(compiled_type = add_type(module, compiled_spec)) || !(function_type = add_type(module, function_spec)) ||
        !(method_type = add_type(module, method_spec, function_type)) || !(library_type = add_type(module, library_spec)))
        return nullptr;
    error_class = Py_NewRef(PyExc_RuntimeError);
    return module;
}
