// Reads Python's arguments for C++. Each argument gets an address, and a number for its type, which selects the
// compiled call.
#pragma once

#include "bound_objects.h"

#include <climits>
#include <cstring>

namespace tkjit::bound {

// Type numbers for arguments that are not objects. A buffer's number encodes its element type, dimensions and whether
// it is read-only.
enum : std::uint32_t { none_type = 1, bool_type, int_type, float_type, str_type, complex_type, characters_type };
constexpr std::uint32_t first_scalar = 0x100, first_array = 0x1000, first_constant = 0x10000, first_object = 0x100000;
constexpr std::uint32_t object_flags = 3;  // bits: const, moved, pointer
constexpr int most_dimensions = 8;
constexpr Py_ssize_t most_arguments = 16;

/// An element type for buffers: its format in Python's struct module, and its C++ type.
struct Element {
    const char* format;
    const char* text;
};
constexpr Element elements[] = {
    {"?", "bool"},         {"b", "signed char"},        {"B", "unsigned char"},
    {"h", "short"},        {"H", "unsigned short"},     {"i", "int"},
    {"I", "unsigned int"}, {"l", "long"},               {"L", "unsigned long"},
    {"q", "long long"},    {"Q", "unsigned long long"}, {"f", "float"},
    {"d", "double"},       {"g", "long double"},        {"Zf", "std::complex<float>"},
    {"Zd", "std::complex<double>"}, {"c", "char"},
};

inline int element_of(const char* format) {
    if (!format) return 2;
    if (*format == '@' || *format == '=' || *format == '<') ++format;
    for (int i = 0; i < int(std::size(elements)); ++i)
        if (std::strcmp(elements[i].format, format) == 0) return i;
    return -1;
}

/// The Python classes for numbers that keep their C++ type, in the order of `elements`. Null for int, double and other
/// elements.
inline PyTypeObject* number_types[std::size(elements)] = {};

/// If an object is a number that keeps its C++ type, returns the index of that type in `elements`, otherwise -1.
inline int element_of_number(PyObject* given) {
    for (int i = 0; i < int(std::size(elements)); ++i)
        if (Py_TYPE(given) == number_types[i]) return i;
    return -1;
}

/// One argument, as a compiled call takes it.
struct Argument {
    std::uint32_t type = 0;
    void* address = nullptr;  // of the value
    union {
        bool boolean;
        int integer;
        long long natural;
        float single;
        double real;
        double complex[2];
        void* pointer;
        bind::Text text;
        bind::Array<void> array;
        long double largest;
    } value;
    Py_buffer buffer;  // unused if its obj is null

    Argument() : value{} { buffer.obj = nullptr; }
    Argument(const Argument&) = delete;
    ~Argument() {
        if (buffer.obj && PyGILState_Check()) PyBuffer_Release(&buffer);  // see Owned
    }
    PyObject* object = nullptr;  // borrowed; the bound object, or null
};

inline bool read_object(Object* object, std::uint32_t flags, Argument& to) {
    if (!check_usable(object)) return false;
    to.type = first_object + (object->type->number << object_flags) + flags + (object->is_const ? 1 : 0);
    to.object = reinterpret_cast<PyObject*>(object);
    to.address = object->address;
    if (flags & 4) {
        to.value.pointer = object->address;
        to.address = &to.value;
    }
    return true;
}

inline bool read_text(PyObject* text, std::uint32_t type, Argument& to) {
    Py_ssize_t size = 0;
    const char* const data = PyUnicode_AsUTF8AndSize(text, &size);
    if (!data) return false;
    to.type = type;
    to.value.text = {data, std::size_t(size)};
    to.address = &to.value;
    return true;
}

inline bool read_buffer(PyObject* given, Argument& to) {
    if (PyObject_GetBuffer(given, &to.buffer, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
        PyErr_Clear();
        to.buffer.obj = nullptr;
        return true;  // the type stays 0, so Python handles the argument
    }
    const int element = element_of(to.buffer.format);
    if (element < 0 || to.buffer.ndim > most_dimensions) return true;
    if (to.buffer.ndim == 0) {
        if (std::size_t(to.buffer.itemsize) > sizeof to.value) return true;
        std::memcpy(&to.value, to.buffer.buf, std::size_t(to.buffer.itemsize));
        to.type = first_scalar + std::uint32_t(element);
        to.address = &to.value;
        return true;
    }
    if (!PyBuffer_IsContiguous(&to.buffer, 'C')) {
        PyErr_SetString(PyExc_ValueError, "an array is not contiguous; pass numpy.ascontiguousarray(x)");
        return false;
    }
    to.type = first_array + (std::uint32_t(element) << 4 | std::uint32_t(to.buffer.readonly != 0) << 3 | std::uint32_t(to.buffer.ndim - 1));
    to.value.array = {to.buffer.buf, to.buffer.len / to.buffer.itemsize, to.buffer.shape};
    to.address = &to.value;
    return true;
}

/// Reads a number that keeps its C++ type. C++ reads an integer of any size from the value's first bytes.
inline void read_number(PyObject* given, int element, Argument& to) {
    to.type = first_scalar + std::uint32_t(element);
    to.address = &to.value;
    if (PyLong_Check(given)) {
        to.value.natural = static_cast<long long>(PyLong_AsUnsignedLongLongMask(given));
    } else if (*elements[element].format == 'f') {
        to.value.single = float(PyFloat_AS_DOUBLE(given));
    } else {
        to.value.largest = PyFloat_AS_DOUBLE(given);
    }
}

/// Reads an argument. If C++ has no type for the argument, its type stays 0. Returns false if an exception is set.
inline bool read(PyObject* given, Argument& to) {
    if (is_object(given)) return read_object(reinterpret_cast<Object*>(given), 0, to);
    if (PyLong_CheckExact(given)) {
        int overflow = 0;
        const long number = PyLong_AsLongAndOverflow(given, &overflow);
        if (overflow || number > INT_MAX || number < INT_MIN) {
            PyErr_Format(PyExc_OverflowError, "%S does not fit into a C++ int; pass numpy.int64(...) or another NumPy type", given);
            return false;
        }
        to.type = int_type;
        to.value.integer = int(number);
        to.address = &to.value;
        return true;
    }
    if (PyFloat_CheckExact(given)) {
        to.type = float_type;
        to.value.real = PyFloat_AS_DOUBLE(given);
        to.address = &to.value;
        return true;
    }
    if (PyBool_Check(given)) {
        to.type = bool_type;
        to.value.boolean = given == Py_True;
        to.address = &to.value;
        return true;
    }
    if (PyLong_Check(given) || PyFloat_Check(given)) {
        if (const int element = element_of_number(given); element >= 0) {
            read_number(given, element, to);
            return true;
        }
    }
    if (given == Py_None) {
        to.type = none_type;
        to.address = &to.value;
        return true;
    }
    if (PyUnicode_Check(given)) return read_text(given, str_type, to);
    if (PyObject_TypeCheck(given, marked_type)) {
        const auto* const marked = reinterpret_cast<Marked*>(given);
        if (marked->mark == Mark::constant) {
            to.type = first_constant + marked->constant;
            to.value.natural = marked->value;  // C++ reads as many of its bytes as the type has
            to.address = &to.value;
            return true;
        }
        if (marked->mark == Mark::characters) return read_text(marked->target, characters_type, to);
        return read_object(reinterpret_cast<Object*>(marked->target), marked->mark == Mark::pointer ? 4 : 2, to);
    }
    if (PyComplex_CheckExact(given)) {
        const Py_complex value = PyComplex_AsCComplex(given);
        to.type = complex_type;
        to.value.complex[0] = value.real;
        to.value.complex[1] = value.imag;
        to.address = &to.value;
        return true;
    }
    if (PyObject_CheckBuffer(given) && !PyBytes_Check(given)) return read_buffer(given, to);
    return true;
}

/// Describes an argument's type number: (number, how the argument is passed, C++ type). The second item is "object",
/// "array", "text" and so on.
inline PyObject* describe_type(std::uint32_t type, const Library* library) {
    const char* how = "";
    std::string text;
    switch (type) {
        case 0: Py_RETURN_NONE;
        case none_type: text = "std::nullptr_t"; break;
        case bool_type: text = "bool"; break;
        case int_type: text = "int"; break;
        case float_type: text = "double"; break;
        case str_type: text = "std::string", how = "text"; break;
        case complex_type: text = "std::complex<double>"; break;
        case characters_type: text = "const char*", how = "characters"; break;
        default:
            if (type >= first_object) {
                const KnownType* const known = known_types[(type - first_object) >> object_flags];
                text = demangle(known->name.c_str());
                static const char* const ways[] = {"object", "const", "moved", "const moved", "pointer", "const pointer"};
                how = known->library == library ? ways[(type - first_object) & 7] : "foreign";
            } else if (type >= first_constant) {
                const Constant& constant = constants[type - first_constant];
                text = constant.type;
                how = constant.library != library ? "foreign" : constant.has_value ? "" : "constant";
            } else if (type >= first_array) {
                text = elements[(type - first_array) >> 4].text;
                how = (type - first_array) & 8 ? "const array" : "array";
            } else {
                text = elements[type - first_scalar].text;
            }
    }
    return Py_BuildValue("(Iss)", type, how, text.c_str());
}

}  // namespace tkjit::bound
