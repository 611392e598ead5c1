// A bound function: finds the compiled call that fits the types of its arguments, and makes the call.
#pragma once

#include "bound_arguments.h"

#include <chrono>
#include <exception>
#include <new>
#include <stdexcept>

namespace tkjit::bound {

/// A compiled call, as an object that Python can hold.
struct CompiledCall {
    PyObject_HEAD
    bind::Entry entry;
    KnownType* result;
    Library* library;
    int number;  // the index in number_types of the class for its result; -1 if there is none
};

/// Returns the index in `number_types` for results of a type.
inline int number_of(const std::type_info& type) {
    const std::type_info* const known[] = {
        &typeid(bool),         &typeid(signed char),        &typeid(unsigned char), &typeid(short),     &typeid(unsigned short),
        &typeid(int),          &typeid(unsigned int),       &typeid(long),          &typeid(unsigned long), &typeid(long long),
        &typeid(unsigned long long), &typeid(float),        &typeid(double),        &typeid(long double),
    };
    for (int i = 0; i < int(std::size(known)); ++i)
        if (type == *known[i]) return number_types[i] ? i : -1;
    return -1;
}

/// A row of a function's table: a compiled call, and its argument types.
struct Row {
    std::vector<std::uint32_t> types;
    CompiledCall* call;
};

/// Measures whether a function's calls are short. It times the first calls, and every 256th call after them.
class Pace {
public:
    bool is_timed() const { return calls_ < first || calls_ % every == 0; }
    bool is_short() const { return calls_ >= first; }
    void count() { ++calls_; }
    void count(std::chrono::nanoseconds taken) { calls_ = taken < most ? calls_ + 1 : 0; }

private:
    static constexpr std::uint32_t first = 8, every = 256;
    static constexpr std::chrono::nanoseconds most{2000};
    std::uint32_t calls_ = 0;
};

struct Function {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject* name;
    PyObject* miss;  // (function, args, kwargs) -> result; called if no row fits
    PyObject* documentation;
    std::vector<Row>* rows;
    std::size_t last;   // the row that was used last
    Pace pace;
    bool is_brief;      // its calls are so short that the GIL stays held
    bool invalidates;   // invalidates references into its first argument
    bool owns_results;  // Python owns the pointers that it returns
    bool is_constructor;
};

inline PyTypeObject* function_type = nullptr;
inline PyTypeObject* method_type = nullptr;
inline PyTypeObject* compiled_type = nullptr;
inline PyObject* before_call = nullptr;  // called before each call while a batch has pending calls
inline PyObject* error_class = nullptr;  // tkjit.CppError

/// An exception that a call has thrown: the Python class for it, its C++ type and its text.
struct Error {
    enum class Kind { none, memory, index, value, overflow, other } kind = Kind::none;
    std::string type, text;

    /// Describes the exception that is currently being handled.
    void describe() noexcept {
        kind = Kind::other;
        try {
            try {
                throw;
            } catch (const bind::BadIndex& caught) {
                kind = Kind::index;
                text = "index " + std::to_string(caught.index) + " of " + std::to_string(caught.size) + " elements";
            } catch (const std::bad_alloc& caught) {
                set(Kind::memory, caught);
            } catch (const std::out_of_range& caught) {
                set(Kind::index, caught);
            } catch (const std::overflow_error& caught) {
                set(Kind::overflow, caught);
            } catch (const std::invalid_argument& caught) {
                set(Kind::value, caught);
            } catch (const std::domain_error& caught) {
                set(Kind::value, caught);
            } catch (const std::exception& caught) {
                set(Kind::other, caught);
            } catch (...) {
                text = "a C++ exception of a type that is not std::exception";
            }
        } catch (...) {  // no memory for the text
        }
    }

private:
    void set(Kind of, const std::exception& caught) {
        kind = of;
        type = typeid(caught).name();
        text = caught.what();
    }
};

inline void run(const bind::Entry& entry, void* const* arguments, bind::Result* result, Error* error) {
    try {
        entry.run(arguments, result);
    } catch (...) {
        error->describe();
    }
}

inline PyObject* raise(const Error& error) {
    PyObject* cls = error_class;
    switch (error.kind) {
        case Error::Kind::memory: cls = PyExc_MemoryError; break;
        case Error::Kind::index: cls = PyExc_IndexError; break;
        case Error::Kind::value: cls = PyExc_ValueError; break;
        case Error::Kind::overflow: cls = PyExc_OverflowError; break;
        default: break;
    }
    const std::string text = error.type.empty() ? error.text : demangle(error.type.c_str()) + ": " + error.text;
    const Owned message(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace"));
    if (message) PyErr_SetObject(cls, message.get());
    return nullptr;
}

inline PyObject* take_text(bind::Result& result) {
    if (!result.text) Py_RETURN_NONE;
    PyObject* const made = PyUnicode_DecodeUTF8(result.text, Py_ssize_t(result.length), "surrogateescape");
    if (result.release) result.release(result.storage);
    return made;
}

/// Gives a result the same owner as an argument of its type, for example if the result is an iterator's successor or a
/// copy.
inline void share_owner(Object* result, const Object* from) {
    if (!from->owner) return;
    result->owner = Py_NewRef(from->owner);
    result->follows_owner = from->follows_owner;
    result->owner_generation = from->owner_generation;
}

/// Returns the argument that has the result's type. Returns null if there is none, or if two refer into different
/// objects.
inline const Object* argument_of_same_type(const Object* result, const Argument* arguments, Py_ssize_t count) {
    const Object* found = nullptr;
    for (Py_ssize_t i = 0; i < count; ++i) {
        const auto* const from = reinterpret_cast<const Object*>(arguments[i].object);
        if (!from || from->type != result->type) continue;
        if (found && (from->owner != found->owner || from->owner_generation != found->owner_generation)) return nullptr;
        found = from;
    }
    return found;
}

/// Keeps alive the objects that a result may refer into.
inline void tie(PyObject* made, const Function& function, const CompiledCall& call, const Argument* arguments, Py_ssize_t count) {
    auto* const result = reinterpret_cast<Object*>(made);
    const bool is_method = Py_TYPE(&function) == method_type;
    if (count == 0) return;
    if (call.entry.form == bind::Form::object)
        if (const Object* const from = argument_of_same_type(result, arguments, is_method ? 1 : count)) return share_owner(result, from);
    // a result that owns its contents stays valid when the object that it came from changes
    const bool may_end = !(call.entry.form == bind::Form::object && (result->type->described.protocols & bind::owns_contents));
    if (is_method && arguments[0].object) return set_owner(result, arguments[0].object, may_end);
    Py_ssize_t objects = 0;
    for (Py_ssize_t i = 0; i < count; ++i) objects += arguments[i].object || arguments[i].buffer.obj;
    if (objects == 0) return;
    PyObject* const owners = PyTuple_New(objects);
    if (!owners) return PyErr_Clear();
    for (Py_ssize_t i = 0, at = 0; i < count; ++i) {
        PyObject* const owner = arguments[i].object ? arguments[i].object : arguments[i].buffer.obj;
        if (owner) PyTuple_SET_ITEM(owners, at++, Py_NewRef(owner));
    }
    result->owner = owners;
}

/// Converts a plain number to the class that keeps its C++ type, if there is such a class. Steals the given reference.
inline PyObject* keep_type(PyObject* plain, const CompiledCall& call) {
    if (!plain || call.number < 0) return plain;
    const Owned taken(plain);
    return PyObject_CallOneArg(reinterpret_cast<PyObject*>(number_types[call.number]), plain);
}

inline PyObject* to_python(bind::Result& result, Function& function, CompiledCall& call, const Argument* arguments, Py_ssize_t count) {
    const bind::Entry& entry = call.entry;
    switch (entry.form) {
        case bind::Form::nothing: Py_RETURN_NONE;
        case bind::Form::boolean: return PyBool_FromLong(result.integer != 0 || result.natural != 0);
        case bind::Form::character: {
            const char character = char(result.integer);
            return PyUnicode_DecodeLatin1(&character, 1, nullptr);
        }
        case bind::Form::integer: return keep_type(PyLong_FromLongLong(result.integer), call);
        case bind::Form::natural: return keep_type(PyLong_FromUnsignedLongLong(result.natural), call);
        case bind::Form::real: return keep_type(PyFloat_FromDouble(result.real), call);
        case bind::Form::complex: return PyComplex_FromDoubles(result.real, result.imaginary);
        case bind::Form::text: return take_text(result);
        case bind::Form::pointer:
            if (!result.object) Py_RETURN_NONE;
            [[fallthrough]];
        case bind::Form::reference:
        case bind::Form::object:
        case bind::Form::enumeration: break;
    }
    const bool is_owned = entry.form == bind::Form::object || (entry.form == bind::Form::pointer && function.owns_results);
    // operators such as `x += y` return their first argument
    if (!is_owned)
        for (Py_ssize_t i = 0; i < count; ++i) {
            auto* const from = reinterpret_cast<Object*>(arguments[i].object);
            if (from && from->address == result.object && from->type == call.result && from->is_const == entry.is_const)
                return Py_NewRef(arguments[i].object);
        }
    PyObject* const made = wrap(call.result, result.object, is_owned, entry.is_const);
    if (!made) return nullptr;
    tie(made, function, call, arguments, count);
    if (!call.result->adapter || function.is_constructor) return made;
    const Owned object(made);
    return PyObject_CallOneArg(call.result->adapter, made);
}

/// Returns whether this is Python's only thread, in which case no other thread can be waiting for the GIL.
inline bool is_only_thread() {
    PyThreadState* const newest = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    return newest && !PyThreadState_Next(newest);
}

/// Makes a call without the GIL. Brief functions keep the GIL, and so do short calls if this is Python's only thread.
inline void run_paced(Function& function, const bind::Entry& entry, void* const* arguments, bind::Result* result, Error* error) {
    Pace& pace = function.pace;
    const bool is_timed = pace.is_timed();
    if (function.is_brief || (!is_timed && pace.is_short() && is_only_thread())) {
        pace.count();
        return run(entry, arguments, result, error);
    }
    std::chrono::nanoseconds taken{};
    Py_BEGIN_ALLOW_THREADS
    const auto begin = is_timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    run(entry, arguments, result, error);
    if (is_timed) taken = std::chrono::steady_clock::now() - begin;
    Py_END_ALLOW_THREADS
    is_timed ? pace.count(taken) : pace.count();
}

inline PyObject* make_call(Function& function, CompiledCall& call, Argument* arguments, Py_ssize_t count) {
    if (call.library->is_stopped) {
        PyErr_SetString(PyExc_ReferenceError, "the library has been stopped");
        return nullptr;
    }
    void* addresses[most_arguments];
    for (Py_ssize_t i = 0; i < count; ++i) addresses[i] = arguments[i].address;
    bind::Result result{};
    Error error;
    run_paced(function, call.entry, addresses, &result, &error);
    for (Py_ssize_t i = 0; i < count; ++i) {
        auto* const object = reinterpret_cast<Object*>(arguments[i].object);
        if (object && arguments[i].type >= first_object && (arguments[i].type & 2) && !(arguments[i].type & 4)) {
            object->is_moved_from = true;
            ++object->generation;
        }
    }
    if (function.invalidates && count > 0 && arguments[0].object) ++reinterpret_cast<Object*>(arguments[0].object)->generation;
    if (error.kind != Error::Kind::none) return raise(error);
    return to_python(result, function, call, arguments, count);
}

inline CompiledCall* find_call(Function& function, const Argument* arguments, Py_ssize_t count) {
    std::vector<Row>& rows = *function.rows;
    const auto fits = [&](const Row& row) {
        if (Py_ssize_t(row.types.size()) != count) return false;
        for (Py_ssize_t i = 0; i < count; ++i)
            if (row.types[std::size_t(i)] != arguments[i].type) return false;
        return true;
    };
    if (function.last < rows.size() && fits(rows[function.last])) return rows[function.last].call;
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (fits(rows[i])) {
            function.last = i;
            return rows[i].call;
        }
    return nullptr;
}

/// Provides storage for a call's arguments. Up to 6 arguments, which is enough for most calls, are stored on the stack.
template <class Use>
PyObject* with_arguments(Py_ssize_t count, const Use& use) {
    if (count <= 2) {
        Argument few[2];
        return use(few);
    }
    if (count <= 6) {
        Argument few[6];
        return use(few);
    }
    std::vector<Argument> many(static_cast<std::size_t>(count));
    return use(many.data());
}

inline PyObject* call_missing(Function& function, PyObject* const* given, Py_ssize_t count, PyObject* names) {
    const Owned args(PyTuple_New(count));
    if (!args) return nullptr;
    for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(args.get(), i, Py_NewRef(given[i]));
    const Owned kwargs(PyDict_New());
    if (!kwargs) return nullptr;
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
        if (PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(names, i), given[count + i]) != 0) return nullptr;
    return PyObject_CallFunctionObjArgs(function.miss, reinterpret_cast<PyObject*>(&function), args.get(), kwargs.get(), nullptr);
}

inline PyObject* call_function(PyObject* callable, PyObject* const* given, std::size_t flags, PyObject* names) {
    auto& function = *reinterpret_cast<Function*>(callable);
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    if ((names && PyTuple_GET_SIZE(names) > 0) || count > most_arguments) return call_missing(function, given, count, names);
    return with_arguments(count, [&](Argument* arguments) -> PyObject* {
        for (Py_ssize_t i = 0; i < count; ++i)
            if (!read(given[i], arguments[i])) return nullptr;
        CompiledCall* const call = find_call(function, arguments, count);
        if (!call) return call_missing(function, given, count, nullptr);
        if (before_call) {
            const Owned callback(Py_NewRef(before_call));
            const Owned done(PyObject_CallNoArgs(callback.get()));
            if (!done) return nullptr;
            // read the arguments again, because the batch's calls, which the callback makes now, may have destroyed or
            // moved the objects that the arguments refer into
            return with_arguments(count, [&](Argument* now) -> PyObject* {
                for (Py_ssize_t i = 0; i < count; ++i)
                    if (!read(given[i], now[i])) return nullptr;
                return make_call(function, *call, now, count);
            });
        }
        return make_call(function, *call, arguments, count);
    });
}

}  // namespace tkjit::bound
