//go:build libtorch

// Converts between at::Tensor and tkjit_tensor through DLPack, without a copy. The result keeps the memory alive.
#include "libtorch.h"

#include <ATen/DLConvertor.h>

namespace {

// Calls a function. If libtorch throws an exception, returns an error with its text, for tkjit_free_error() to free.
template <class Body>
tkjit_error returning_errors(Body&& body) {
    try {
        return body();
    } catch (const std::exception& error) {
        return tkjit_error_new(TKJIT_ARGUMENT_ERROR, error.what());
    }
}

}  // namespace

tkjit_error LIBRARY_from_torch(void* tensor, tkjit_tensor* to) {
    return returning_errors([&]() -> tkjit_error {
        if (!tensor || !static_cast<at::Tensor*>(tensor)->defined())
            return tkjit_error_new(TKJIT_ARGUMENT_ERROR, "FromTorch: the tensor is null, or undefined");
        DLManagedTensorVersioned* const managed = at::toDLPackVersioned(*static_cast<at::Tensor*>(tensor));
        const tkjit_error error = tkjit_tensor_from_dlpack(to, managed);
        if (error) managed->deleter(managed);
        return error;
    });
}

tkjit_error LIBRARY_to_torch(tkjit_tensor* from, void** tensor) {
    return returning_errors([&]() -> tkjit_error {
        DLManagedTensorVersioned* managed = nullptr;
        if (const tkjit_error error = tkjit_tensor_to_dlpack(from, &managed)) return error;
        try {
            *tensor = new at::Tensor(at::fromDLPackVersioned(managed));
        } catch (...) {
            managed->deleter(managed);
            throw;
        }
        return nullptr;
    });
}
