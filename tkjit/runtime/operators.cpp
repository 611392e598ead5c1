// Registers kernels as operators with PyTorch's dispatcher. It is compiled once per environment, when a call first
// needs it.
//
// An operator passes its arguments to its kernel's glue, so that there is only one parser, one set of checks and one
// text for each error. The operator itself only moves values from and to the stack of PyTorch's dispatcher, and records
// gradients.
#include "dtypes.h"
#include "glue.h"
#include "python_objects.h"
#include "table.h"

#include <pybind11/pybind11.h>
#include <torch/csrc/Generator.h>
#include <torch/library.h>

#include <memory>
#include <string>
#include <vector>

// From libtorch_python, whose header takes 6 s to compile.
PyObject* THPVariable_Wrap(const at::TensorBase& tensor);

namespace tkjit::operators {
namespace {

const Table* table = nullptr;

class Gil {
public:
    Gil() : state_(PyGILState_Ensure()) {}
    ~Gil() { PyGILState_Release(state_); }
    Gil(const Gil&) = delete;

private:
    PyGILState_STATE state_;
};

// Throws the current Python exception, which torch then passes back to Python. Only this needs pybind11, which takes
// half of the module's compile time.
[[noreturn]] void rethrow() { throw pybind11::error_already_set(); }
Owned checked(PyObject* object) {
    if (!object) rethrow();
    return Owned(object);
}

// ---- values --------------------------------------------------------------------------------------------------------

Owned to_python(const c10::IValue& value, const c10::Type& type) {
    if (type.kind() == c10::TypeKind::OptionalType)
        return value.isNone() ? checked(Py_NewRef(Py_None)) : to_python(value, *type.expectRef<c10::OptionalType>().getElementType());
    if (type.kind() == c10::ScalarTypeType::Kind) return checked(PyUnicode_FromString(dtype_name(dtype_of(value.toScalarType()))));
    if (value.isTensor()) {
        const at::Tensor& tensor = value.toTensor();
        return checked(tensor.defined() ? THPVariable_Wrap(tensor) : Py_NewRef(Py_None));
    }
    if (value.isDouble()) return checked(PyFloat_FromDouble(value.toDouble()));
    if (value.isBool()) return checked(PyBool_FromLong(value.toBool()));
    if (value.isInt()) return checked(PyLong_FromLongLong(value.toInt()));
    if (value.isSymInt()) return checked(PyLong_FromLongLong(value.toSymInt().guard_int(__FILE__, __LINE__)));
    if (value.isNone()) return checked(Py_NewRef(Py_None));
    if (value.isString()) return checked(PyUnicode_FromString(value.toStringRef().c_str()));
    if (value.isGenerator()) return checked(THPGenerator_Wrap(value.toGenerator()));
    if (value.isDevice()) return checked(PyUnicode_FromString(value.toDevice().str().c_str()));
    if (value.isList() || value.isTuple()) {
        const auto items = value.isList() ? value.toListRef().vec() : value.toTupleRef().elements().vec();
        Owned list = checked(PyList_New(Py_ssize_t(items.size())));
        for (size_t i = 0; i < items.size(); ++i)
            PyList_SET_ITEM(list.get(), Py_ssize_t(i), to_python(items[i], *c10::AnyType::get()).release());
        return list;
    }
    PyErr_Format(PyExc_TypeError, "a tkjit operator cannot take a value of type %s", value.tagKind().c_str());
    rethrow();
}

at::Tensor to_tensor(PyObject* object) {
    void* const impl = table->impl(object);
    if (!impl) rethrow();
    return at::Tensor(c10::intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl>::reclaim_copy(static_cast<c10::TensorImpl*>(impl)));
}

// Takes an operator's arguments off the stack, and converts them to Python objects.
class Arguments {
public:
    // Delegates to the other constructor, so that the destructor releases the converted objects if a conversion throws.
    Arguments(torch::jit::Stack& stack, const c10::FunctionSchema& schema) : Arguments() {
        const size_t count = schema.arguments().size();
        for (size_t i = 0; i < count; ++i)
            objects_.push_back(to_python(torch::jit::peek(stack, i, count), *schema.arguments()[i].real_type()).release());
        torch::jit::drop(stack, count);
    }
    ~Arguments() {
        for (PyObject* object : objects_) Py_DECREF(object);
    }
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;

    PyObject* const* data() const { return objects_.data(); }
    size_t count() const { return objects_.size(); }

private:
    Arguments() = default;

    c10::SmallVector<PyObject*, 16> objects_;
};

// ---- functions that are registered ----------------------------------------------------------------------------------

// How an operator calls its kernel. The references live until the process ends, as torch's registrations do.
struct Target {
    PyObject* cell;  // contains the kernel, and gets another one when the kernel is reloaded
    int overload;
    PyObject* keywords;         // a tuple of the names of the keyword arguments
    std::vector<int> returned;  // the positions of the results that the operator returns; -1 for a single result
};

class CallKernel final : public c10::OperatorKernel {
public:
    explicit CallKernel(Target target) : target_(std::move(target)) {}

    void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
        const c10::AutoGradMode no_grad(false);  // RecordGradient deals with gradients
        const Gil gil;
        const Arguments arguments(*stack, op.schema());
        const Owned cell = checked(PyCell_Get(target_.cell));
        // no glue is attached if the operator has only been used with fake tensors until now
        if (!reinterpret_cast<Dispatcher*>(cell.get())->entry)
            const Owned attached = checked(PyObject_CallMethod(cell.get(), "_ensure_glue", nullptr));
        const size_t positional = arguments.count() - size_t(PyTuple_GET_SIZE(target_.keywords));
        const Owned result = checked(call_overload(cell.get(), arguments.data(), positional));
        for (const int position : target_.returned)
            stack->emplace_back(to_tensor(position < 0 ? result.get() : PyTuple_GET_ITEM(result.get(), position)));
    }

private:
    // The tensors are plain here, so a direct call is possible.
    PyObject* call_overload(PyObject* dispatcher, PyObject* const* args, size_t positional) const {
        const glue::Contents& contents = *reinterpret_cast<Dispatcher*>(dispatcher)->entry->contents;
        glue::Call call = glue::call_of(dispatcher, contents.name, args, positional, target_.keywords);
        return contents.overloads[target_.overload].call(call);
    }

    Target target_;
};

// Runs before CallKernel. If a gradient has to be recorded, calls Python; otherwise redispatches without overhead.
class RecordGradient final : public c10::OperatorKernel {
public:
    explicit RecordGradient(PyObject* record, size_t outputs) : record_(record), outputs_(outputs) {}

    void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
        const size_t count = op.schema().arguments().size();
        if (!requires_gradient(*stack, count)) {
            op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
            return;
        }
        const Gil gil;
        const Arguments arguments(*stack, op.schema());
        const Owned result = checked(PyObject_Vectorcall(record_, arguments.data(), count, nullptr));
        const bool several = outputs_ > 1;
        if (several && (!PyTuple_Check(result.get()) || size_t(PyTuple_GET_SIZE(result.get())) != outputs_)) {
            PyErr_SetString(PyExc_RuntimeError, "tkjit: the function that records gradients must return a tuple of all outputs");
            rethrow();
        }
        for (size_t i = 0; i < outputs_; ++i)
            stack->emplace_back(to_tensor(several ? PyTuple_GET_ITEM(result.get(), Py_ssize_t(i)) : result.get()));
    }

private:
    static bool requires_gradient(torch::jit::Stack& stack, size_t count) {
        // torch enables reverse and forward mode separately; the recording function rejects forward mode
        const bool reverse = c10::GradMode::is_enabled();
        const bool forward = c10::AutogradState::get_tls_state().get_fw_grad_mode();
        if (!reverse && !forward) return false;
        const auto requires_it = [&](const at::Tensor& tensor) {
            return tensor.defined() && ((reverse && tensor.requires_grad()) || (forward && tensor._fw_grad(0).defined()));
        };
        for (size_t i = 0; i < count; ++i) {
            const c10::IValue& value = torch::jit::peek(stack, i, count);
            if (value.isTensor() && requires_it(value.toTensor())) return true;
            if (!value.isList()) continue;
            for (const c10::IValue& item : value.toListRef())  // also lists of optional tensors
                if (item.isTensor() && requires_it(item.toTensor())) return true;
        }
        return false;
    }

    PyObject* record_;
    size_t outputs_;
};

// ---- the module ----------------------------------------------------------------------------------------------------

// Leaked, because PyTorch's dispatcher is destroyed before the registrations could be undone at the end of the process.
torch::Library& library(c10::DispatchKey key) {
    return *new torch::Library(torch::Library::IMPL, "tkjit", key, __FILE__, __LINE__);
}

template <class Kernel>
torch::CppFunction boxed(Kernel kernel) {
    return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(std::move(kernel)));
}

template <class Body>
PyObject* none_unless_thrown(Body&& body) {
    try {
        body();
        Py_RETURN_NONE;
    } catch (const std::exception& error) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, error.what());
        return nullptr;
    }
}

// implement(name, cell, overload, keywords, returned)
PyObject* implement(PyObject*, PyObject* args) {
    const char* name;
    PyObject *cell, *keywords, *returned;
    int overload;
    if (!PyArg_ParseTuple(args, "sO!iO!O!", &name, &PyCell_Type, &cell, &overload, &PyTuple_Type, &keywords, &PyTuple_Type, &returned))
        return nullptr;
    return none_unless_thrown([&] {
        const Owned dispatcher = checked(PyCell_Get(cell));
        table = reinterpret_cast<Dispatcher*>(dispatcher.get())->table;
        std::vector<int> positions;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(returned); ++i)
            positions.push_back(int(PyLong_AsLong(PyTuple_GET_ITEM(returned, i))));
        const Target target{Py_NewRef(cell), overload, Py_NewRef(keywords), positions};
        using Key = c10::DispatchKey;
        // no kernel takes sparse, quantized or nested tensors; with these keys the glue can reject them
        for (const auto key : {Key::CPU, Key::CUDA, Key::SparseCPU, Key::SparseCUDA, Key::SparseCsrCPU, Key::SparseCsrCUDA,
                               Key::QuantizedCPU, Key::QuantizedCUDA, Key::NestedTensorCPU, Key::NestedTensorCUDA})
            library(key).impl(name, boxed(CallKernel(target)));
    });
}

// record_gradients(name, function, outputs)
PyObject* record_gradients(PyObject*, PyObject* args) {
    const char* name;
    PyObject* function;
    int outputs;
    if (!PyArg_ParseTuple(args, "sOi", &name, &function, &outputs)) return nullptr;
    return none_unless_thrown([&] {
        library(c10::DispatchKey::Autograd).impl(name, boxed(RecordGradient(Py_NewRef(function), size_t(outputs))));
    });
}

PyMethodDef methods[] = {
    {"implement", implement, METH_VARARGS, "Implement an operator with a kernel's overload."},
    {"record_gradients", record_gradients, METH_VARARGS, "Set the function with which an operator records gradients."},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef_Slot slots[] = {
    TKJIT_NEEDS_NO_GIL
    {0, nullptr},
};
PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, "tkjit_operators", nullptr, 0, methods, slots, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace tkjit::operators

TKJIT_MODULE(TORCH_EXTENSION_NAME, tkjit::operators::module_definition)
