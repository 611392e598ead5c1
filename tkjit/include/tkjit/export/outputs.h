// The outputs and scratch memory of a call.
#pragma once

#include <tkjit/export/arguments.h>
#include <tkjit/export/library.h>

namespace tkjit::exported {

// ---- outputs -------------------------------------------------------------------------------------------------------

// An output that the call allocates. It frees the memory, unless the call succeeds and passes the output to the caller.
class Object {
public:
    Object() = default;
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    ~Object() {
        if (tensor_.memory) tkjit_free_error(tkjit_tensor_free(&tensor_));
    }
    void borrow(const tkjit_tensor*) {}
    tkjit_tensor& tensor() { return tensor_; }
    Scratch& scratch() { return scratch_; }
    void release(tkjit_tensor* to) {
        if (tensor_.memory) *to = tensor_;
        tensor_ = {};
    }

private:
    tkjit_tensor tensor_{};
    Scratch scratch_;
};

inline tkjit_tensor shaped(const Shape& shape, int32_t dtype, const TensorView& like) {
    return described("an output", dtype, device_of(like), shape.count, shape.sizes);
}

inline bool has_place(const Call& call, const char* name, const void* output) {
    if (!output) call.refuse(Refusal::argument, "the argument %s is missing", name);
    return output;
}

// Answers a call that only asks for the shape of an output. The answer is a tensor without memory; if it is passed as
// an output later, that call allocates the memory. Returns false, with an error, if `output` owns memory.
inline bool answer(const Call& call, const char* name, tkjit_tensor* output, const Shape& shape, int32_t dtype, const TensorView& like) {
    if (output->abi == TKJIT_TENSOR_ABI && output->memory && !is_freed(*output)) {
        call.refuse(Refusal::argument, "%s owns memory, which would be lost; free it, or pass a zeroed tensor", name);
        return false;
    }
    *output = shaped(shape, dtype, like);
    return true;
}

// The output that the caller passed, or null if the call has to allocate it, because it is zeroed or has no memory yet.
inline const tkjit_tensor* given_output(const Call& call, const tkjit_tensor* output) {
    return call.asks || output->abi == 0 || (!output->data && !output->memory && tkjit_tensor_bytes(output) != 0) ? nullptr : output;
}

inline bool allocate(Call& call, const char* name, Object& object, TensorView& view, const Shape& shape, int32_t dtype, const TensorView& like) {
    object.tensor() = shaped(shape, dtype, like);
    allocate_for(object.tensor());
    return read(call, name, &object.tensor(), view);
}
inline bool allocate_scratch(Call& call, const char* name, Object& object, TensorView& view, const Shape& shape, int32_t dtype,
                             const TensorView& like) {
    tkjit_tensor tensor = shaped(shape, dtype, like);
    tensor.data = object.scratch().allocate(tensor.device, size_t(bytes_of_tensor(tensor)), call.stream);
    if (!read(call, name, &tensor, view)) return false;
    view.object = nullptr;  // `tensor` goes out of scope
    return true;
}

}  // namespace tkjit::exported
