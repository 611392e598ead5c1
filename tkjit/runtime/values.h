// Reads values that are neither tensors nor numbers, by the codes of tkjit/spec/values.py:
//
//   i int   j int of 32 bits   f float   b bool   s str   t dtype   d device   Lx list of x   Sx set   Dkv dict   Tnxy.. tuple of n
//   Rx:float,w:float[4]; struct with these members
#pragma once

#include "refusals.h"
#include "table.h"

#include <cstdlib>
#include <cstring>
#include <vector>

namespace tkjit::runtime {

// Skips the type at the beginning of a code.
inline const char* after(const char* code) {
    switch (*code++) {
        case 'L': case 'S': return after(code);
        case 'D': return after(after(code));
        case 'T': {
            int count = *code++ - '0';
            while (count--) code = after(code);
            return code;
        }
        default: return code;
    }
}

class ValueReader {
public:
    explicit ValueReader(Values& values) : values_(values) {}

    bool read(PyObject* object, const char* code, TkjitArg& arg) {
        arg.present = 1;
        switch (*code) {
            case 'i': return read_int(object, arg);
            case 'j': return read_int(object, arg) && arg.integer == int32_t(arg.integer);
            case 'f': return read_float(object, arg);
            case 'b': arg.integer = object == Py_True; return PyBool_Check(object);
            case 's': return read_string(object, arg);
            case 't': return read_dtype(object, arg);
            case 'd': return read_device(object, arg);
            case 'L':
                if (PyIndex_Check(object) && (code[1] == 'i' || code[1] == 'j')) return read_one(object, code + 1, arg);
                return (PyList_Check(object) || PyTuple_Check(object)) && read_items(object, code + 1, false, arg);
            case 'S': return PyAnySet_Check(object) && read_items(object, code + 1, false, arg);
            case 'T': {
                const bool fits = PyTuple_Check(object) && PyTuple_GET_SIZE(object) == code[1] - '0';
                return fits && read_items(object, code + 2, true, arg);
            }
            case 'D': return PyDict_Check(object) && read_dict(object, code + 1, arg);
            case 'R': return read_struct(object, code + 1, arg);
            default: return false;
        }
    }

private:
    static bool read_int(PyObject* object, TkjitArg& arg) {
        if (PyBool_Check(object) || !PyIndex_Check(object)) return false;
        arg.integer = PyNumber_AsSsize_t(object, PyExc_OverflowError);
        return arg.integer != -1 || !PyErr_Occurred();
    }

    static bool read_float(PyObject* object, TkjitArg& arg) {
        if (PyUnicode_Check(object) || PyComplex_Check(object)) return false;
        arg.real = PyFloat_AsDouble(object);
        return arg.real != -1.0 || !PyErr_Occurred();
    }

    // Copies the string, because another thread may drop it from its list while a kernel runs without the GIL.
    bool read_string(PyObject* object, TkjitArg& arg) {
        if (!PyUnicode_Check(object)) return false;
        Py_ssize_t size = 0;
        const char* const text = PyUnicode_AsUTF8AndSize(object, &size);
        char* const copy = text ? values_.make<char>(size_t(size) + 1) : nullptr;
        if (!copy) return false;
        std::memcpy(copy, text, size_t(size));
        arg.data = copy;
        arg.extents[0] = size;
        return true;
    }

    // Reads a torch.dtype, a NumPy dtype, or a dtype's name.
    static bool read_dtype(PyObject* object, TkjitArg& arg) {
        const std::string name = dtype_text(object);
        for (arg.integer = 0; arg.integer < TKJIT_DTYPE_COUNT; ++arg.integer)
            if (name == dtype_name(int32_t(arg.integer))) return true;
        return false;
    }

    static std::string dtype_text(PyObject* object) {
        if (PyUnicode_Check(object)) return text_of(object);
        if (std::strcmp(Py_TYPE(object)->tp_name, "torch.dtype") == 0) return text_of(object).substr(6);  // after "torch."
        const bool is_type = PyType_Check(object);  // numpy.float32, and not numpy.dtype("float32")
        PyObject* const owner = is_type ? object : reinterpret_cast<PyObject*>(Py_TYPE(object));
        if (text_of(attribute(owner, "__module__")).rfind("numpy", 0) != 0) return {};
        const std::string name = text_of(attribute(object, is_type ? "__name__" : "name"));
        return name == "bool_" ? "bool" : name;
    }

    // Reads a torch.device, a device's name, or the number of a GPU.
    static bool read_device(PyObject* object, TkjitArg& arg) {
        if (PyLong_Check(object) && !PyBool_Check(object)) {
            arg.dtype = TKJIT_CUDA;
            return read_int(object, arg) && arg.integer >= 0 && arg.integer < 1000;
        }
        if (!PyUnicode_Check(object) && std::strcmp(Py_TYPE(object)->tp_name, "torch.device") != 0) return false;
        const std::string text = text_of(object);
        const std::string type = text.substr(0, text.find(':'));
        if (type != "cpu" && type != "cuda") return false;
        arg.dtype = type == "cpu" ? TKJIT_CPU : TKJIT_CUDA;
        arg.integer = -1;
        if (type.size() == text.size()) return true;
        const std::string index = text.substr(type.size() + 1);
        if (index.empty() || index.size() > 3 || index.find_first_not_of("0123456789") != std::string::npos) return false;
        arg.integer = std::stoi(index);
        return true;
    }

    // Reads a single number as a list with one item. torch's int[2] likewise uses a single number for all items.
    bool read_one(PyObject* object, const char* code, TkjitArg& arg) {
        auto* const item = values_.make<TkjitArg>(1);
        if (!item || !read(object, code, *item)) return false;
        arg.data = item;
        arg.extents[0] = 1;
        return true;
    }

    bool read_items(PyObject* object, const char* code, bool each_its_own, TkjitArg& arg) {
        const Owned sequence(PySequence_Tuple(object));  // a copy that no other thread changes
        if (!sequence) return false;
        const Py_ssize_t count = PyTuple_GET_SIZE(sequence.get());
        auto* const items = values_.make<TkjitArg>(size_t(count));
        if (!items) return false;
        for (Py_ssize_t i = 0; i < count; ++i) {
            if (!read(PyTuple_GET_ITEM(sequence.get(), i), code, items[i])) return false;
            if (each_its_own) code = after(code);
        }
        arg.data = items;
        arg.extents[0] = count;
        return true;
    }

    bool read_dict(PyObject* object, const char* code, TkjitArg& arg) {
        const Owned pairs(PyDict_Items(object));
        if (!pairs) return false;
        const Py_ssize_t count = PyList_GET_SIZE(pairs.get());
        auto* const items = values_.make<TkjitArg>(2 * size_t(count));
        if (!items) return false;
        const char* const value_code = after(code);
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject* const pair = PyList_GET_ITEM(pairs.get(), i);
            if (!read(PyTuple_GET_ITEM(pair, 0), code, items[2 * i])) return false;
            if (!read(PyTuple_GET_ITEM(pair, 1), value_code, items[2 * i + 1])) return false;
        }
        arg.data = items;
        arg.extents[0] = count;
        return true;
    }

    // ---- structs

    struct Member {
        std::string name, type;
        Py_ssize_t array = 0;  // how many elements it has; 0 for a number
    };

    static std::vector<Member> members_of(const char* code) {
        std::vector<Member> members(1);
        std::string* part = &members.back().name;
        for (; *code != ';'; ++code) {
            if (*code == ',') part = &members.emplace_back().name;
            else if (*code == ':') part = &members.back().type;
            else if (*code == '[') members.back().array = std::strtol(code + 1, nullptr, 10);
            else if (members.back().array == 0) *part += *code;
        }
        return members;
    }

    // Reads a struct from a sequence of its members, a dict, a NumPy record, or an object with the members as
    // attributes.
    bool read_struct(PyObject* object, const char* code, TkjitArg& arg) {
        const std::vector<Member> members = members_of(code);
        Py_ssize_t count = 0;
        for (const Member& member : members) count += member.array ? member.array : 1;
        auto* item = values_.make<TkjitArg>(size_t(count));
        if (!item) return false;
        arg.data = item;
        arg.extents[0] = count;
        if (PyUnicode_Check(object) || PyBytes_Check(object)) return false;
        const bool is_record = is_record_of_numpy(object);
        if (PySequence_Check(object) && !PyDict_Check(object) && !is_record) {
            const Owned sequence(PySequence_Tuple(object));  // a copy that no other thread changes
            if (!sequence || PyTuple_GET_SIZE(sequence.get()) != Py_ssize_t(members.size())) return false;
            for (size_t i = 0; i < members.size(); ++i)
                if (!read_member(PyTuple_GET_ITEM(sequence.get(), Py_ssize_t(i)), members[i], item)) return false;
            return true;
        }
        if (PyDict_Check(object) && PyDict_Size(object) != Py_ssize_t(members.size())) return false;
        for (const Member& member : members) {
            const Owned name(PyUnicode_FromString(member.name.c_str()));
            if (!name) return false;
            const Owned value(is_record || PyDict_Check(object) ? PyObject_GetItem(object, name.get()) : PyObject_GetAttr(object, name.get()));
            if (!value || !read_member(value.get(), member, item)) return false;
        }
        return true;
    }

    static bool is_record_of_numpy(PyObject* object) {
        if (!has(object, "dtype")) return false;
        const Owned dtype = attribute(object, "dtype");
        return has(dtype.get(), "names") && attribute(dtype.get(), "names").get() != Py_None;
    }

    bool read_member(PyObject* object, const Member& member, TkjitArg*& item) {
        if (!member.array) return read_number(object, member.type, *item++);
        const TkjitArg* const end = item + member.array;
        return read_elements(object, member.type, item, end) && item == end;
    }

    // Reads the numbers in an array with any number of dims.
    bool read_elements(PyObject* object, const std::string& type, TkjitArg*& item, const TkjitArg* end) {
        if (!PySequence_Check(object) || PyUnicode_Check(object)) return item < end && read_number(object, type, *item++);
        const Owned sequence(PySequence_Tuple(object));
        if (!sequence) {  // an array without dims
            PyErr_Clear();
            return item < end && read_number(object, type, *item++);
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sequence.get()); ++i)
            if (!read_elements(PyTuple_GET_ITEM(sequence.get(), i), type, item, end)) return false;
        return true;
    }

    static bool read_number(PyObject* object, const std::string& type, TkjitArg& arg) {
        arg.present = 1;
        if (type == "float" || type == "double") return read_float(object, arg);
        if (type == "bool") {
            const int truth = PyObject_IsTrue(object);
            arg.integer = truth == 1;
            return truth >= 0;
        }
        return read_int(object, arg) && fits(arg.integer, type);
    }

    // Whether a number fits in a C++ integer type.
    static bool fits(int64_t number, const std::string& type) {
        const bool is_unsigned = type[0] == 'u' || type == "size_t";
        const size_t digits = type.find_first_of("123468");
        const int bits = digits != std::string::npos ? std::atoi(type.c_str() + digits) : type == "int" ? 32 : 64;
        if (is_unsigned) return number >= 0 && (bits == 64 || number < int64_t(1) << bits);
        return bits == 64 || (number >= -(int64_t(1) << (bits - 1)) && number < int64_t(1) << (bits - 1));
    }

    Values& values_;
};

inline bool read_value(PyObject* object, const char* code, Values* values, TkjitArg* arg) {
    try {
        if (ValueReader(*values).read(object, code, *arg)) return true;
    } catch (const Raised&) {  // the object's own code raised an exception, so it is not of this type
    } catch (const std::exception&) {
    }
    return false;
}

}  // namespace tkjit::runtime
