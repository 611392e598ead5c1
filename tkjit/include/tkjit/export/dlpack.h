// DLPack 1.x: the layout of its structs, which is the whole interface, and conversions from and to tensors.
#pragma once

#include <tkjit/export/memory.h>

namespace tkjit::exported::dlpack {

struct Device {
    int32_t type, index;
};
struct DataType {
    uint8_t code, bits;
    uint16_t lanes;
};
struct Tensor {
    void* data;
    Device device;
    int32_t ndim;
    DataType dtype;
    int64_t* shape;
    int64_t* strides;
    uint64_t byte_offset;
};

constexpr int32_t kCpu = 1, kCuda = 2;
constexpr uint32_t kMajor = 1, kMinor = 1;
constexpr uint64_t kReadOnly = 1;

// In the order of TkjitDtype: the type code, the bits of a number and the numbers in an element.
constexpr DataType kTypes[TKJIT_DTYPE_COUNT] = {
    {6, 8, 1},  {1, 8, 1},  {0, 8, 1},   {1, 16, 1}, {0, 16, 1}, {1, 32, 1}, {0, 32, 1},
    {1, 64, 1}, {0, 64, 1}, {2, 16, 1},  {4, 16, 1}, {2, 32, 1}, {2, 64, 1}, {10, 8, 1},  // float8_e4m3fn
    {12, 8, 1}, {14, 8, 1}, {17, 4, 2},  {5, 64, 1}, {5, 128, 1},
};

}  // namespace tkjit::exported::dlpack

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void* context;
    void (*deleter)(DLManagedTensorVersioned* self);
    uint64_t flags;
    tkjit::exported::dlpack::Tensor tensor;
};

namespace tkjit::exported {

inline tkjit_tensor from_dlpack(const tkjit_tensor* into, DLManagedTensorVersioned* managed) {
    constexpr const char* function = "tkjit_tensor_from_dlpack";
    const auto refuse = [&](const std::string& text) { throw Error(TKJIT_ARGUMENT_ERROR, std::string(function) + ": " + text); };
    if (!into || !managed) refuse(into ? "managed is null" : "tensor is null");
    if (managed->major != dlpack::kMajor) refuse("a tensor of DLPack " + std::to_string(managed->major) + "; expected version 1");
    const dlpack::Tensor& shown = managed->tensor;
    int32_t dtype = 0;
    const auto is_other = [&](const dlpack::DataType& type) {
        return type.code != shown.dtype.code || type.bits != shown.dtype.bits || type.lanes != shown.dtype.lanes;
    };
    while (dtype < TKJIT_DTYPE_COUNT && is_other(dlpack::kTypes[dtype])) ++dtype;
    if (dtype == TKJIT_DTYPE_COUNT)
        refuse("a tensor of the DLPack type " + std::to_string(shown.dtype.code) + " of " + std::to_string(shown.dtype.bits) + " bits");
    if (shown.device.type != dlpack::kCpu && shown.device.type != dlpack::kCuda)
        refuse("a tensor of the DLPack device " + std::to_string(shown.device.type) + "; expected cpu or cuda");
    const bool on_cpu = shown.device.type == dlpack::kCpu;
    const tkjit_device device{on_cpu ? TKJIT_CPU : TKJIT_CUDA, on_cpu ? 0 : shown.device.index};
    tkjit_tensor tensor = described(function, dtype, device, shown.ndim, shown.shape, shown.strides);
    tensor.data = static_cast<char*>(shown.data) + shown.byte_offset;
    tensor.read_only = managed->flags & dlpack::kReadOnly;
    own(tensor, managed, [](void* context) {
        auto* const given = static_cast<DLManagedTensorVersioned*>(context);
        if (given->deleter) given->deleter(given);
    });
    return tensor;
}

inline DLManagedTensorVersioned* to_dlpack(const tkjit_tensor& tensor) {
    struct Managed {
        DLManagedTensorVersioned head;
        tkjit_tensor tensor;
    };
    auto* const managed = new Managed{{}, tensor};
    tkjit_tensor& own = managed->tensor;
    const bool on_cpu = tensor.device.type == TKJIT_CPU;
    const dlpack::Device device{on_cpu ? dlpack::kCpu : dlpack::kCuda, on_cpu ? 0 : tensor.device.index};
    managed->head = {dlpack::kMajor, dlpack::kMinor, managed,
                     [](DLManagedTensorVersioned* self) {
                         auto* const all = static_cast<Managed*>(self->context);
                         tkjit_free_error(tkjit_tensor_free(&all->tensor));
                         delete all;
                     },
                     tensor.read_only ? dlpack::kReadOnly : 0,
                     {tensor.data, device, tensor.ndim, dlpack::kTypes[tensor.dtype], own.sizes, own.strides, 0}};
    return &managed->head;
}

}  // namespace tkjit::exported
