// The memory of tensors: who owns it, and whether it has been freed.
//
// A block records what was allocated and how to free it. Blocks are never returned to the system, so a tensor whose
// memory was freed can still read its block, and sees that its generation number has changed. The function pointers belong
// to the library that made the block, so that another library can free it through them.
#pragma once

#include <tkjit/export/devices.h>

#include <atomic>
#include <mutex>

namespace tkjit::exported {

struct Memory {
    std::atomic<uint64_t> generation;  // odd while in use
    void (*release)(Memory* memory);   // frees the data, but not the block
    void* data;
    tkjit_device device;
    void* context;  // belongs to the producer of the data, if that is not this library
    void (*free_context)(void* context);
    Memory* next;  // the next unused block
};

class Blocks {
public:
    Memory* take() {
        const std::lock_guard lock(mutex_);
        if (!unused_) grow();
        Memory* const memory = unused_;
        unused_ = memory->next;
        return memory;
    }
    void put(Memory* memory) {
        const std::lock_guard lock(mutex_);
        memory->next = unused_;
        unused_ = memory;
    }

private:
    static constexpr int kMany = 64;
    struct Slab {
        Slab* before;  // keeps all blocks reachable for leak checkers
        Memory blocks[kMany];
    };
    void grow() {
        auto* const slab = static_cast<Slab*>(std::calloc(1, sizeof(Slab)));
        if (!slab) throw std::bad_alloc();
        slab->before = slabs_;
        slabs_ = slab;
        for (Memory& memory : slab->blocks) {
            memory.next = unused_;
            unused_ = &memory;
        }
    }
    std::mutex mutex_;
    Memory* unused_ = nullptr;
    Slab* slabs_ = nullptr;
};
// Never destroyed: tensors may be freed while the process ends.
inline Blocks& blocks = *new Blocks;

inline void release(Memory* memory) {
    if (memory->free_context) memory->free_context(memory->context);
    else free_bytes(memory->device, memory->data);
    blocks.put(memory);
}

// Makes the tensor the owner of its data, with a new block.
inline void own(tkjit_tensor& tensor, void* context = nullptr, void (*free_context)(void*) = nullptr) {
    Memory* const memory = blocks.take();
    memory->release = release;
    memory->data = tensor.data;
    memory->device = tensor.device;
    memory->context = context;
    memory->free_context = free_context;
    tensor.memory = memory;
    tensor.generation = memory->generation.fetch_add(1, std::memory_order_acq_rel) + 1;
}

inline bool is_freed(const tkjit_tensor& tensor) {
    return tensor.memory && static_cast<const Memory*>(tensor.memory)->generation.load(std::memory_order_acquire) != tensor.generation;
}

// "(2, 3) float32 on cpu"
inline std::string text_of(const tkjit_tensor& tensor) {
    return texts::tuple(tensor.sizes, tensor.ndim) + " " + dtype_name(tensor.dtype) + " on " + device_text(tensor.device);
}

// The reason why a tensor is invalid, or an empty string.
inline std::string problem_of(const tkjit_tensor& tensor) {
    if (tensor.abi == 0) return "not a tensor: it was never made, or was freed";
    if (tensor.abi != TKJIT_TENSOR_ABI)
        return tensor.abi >> 16 == TKJIT_TENSOR_ABI >> 16
                   ? "a tensor of version " + std::to_string(tensor.abi & 0xffff) + " of tkjit's C interface; expected version " +
                         std::to_string(TKJIT_TENSOR_ABI & 0xffff)
                   : "not a tensor: its memory holds something else";
    if (is_freed(tensor)) return "already freed";
    if (tensor.ndim < 0 || tensor.ndim > TKJIT_MAX_NDIM)
        return "a tensor of " + std::to_string(tensor.ndim) + " dimensions; expected 0 to " + std::to_string(TKJIT_MAX_NDIM);
    for (int i = 0; i < tensor.ndim; ++i)
        if (tensor.sizes[i] < 0) return texts::tuple(tensor.sizes, tensor.ndim) + "; expected extents that are not negative";
    if (tensor.dtype < 0 || tensor.dtype >= TKJIT_DTYPE_COUNT) return "of the unknown dtype " + std::to_string(tensor.dtype);
    return {};
}

inline void check(const tkjit_tensor* tensor, const char* function, const char* name) {
    const std::string who = std::string(function) + ": " + name;
    if (!tensor) throw Error(TKJIT_ARGUMENT_ERROR, who + " is null");
    if (const std::string problem = problem_of(*tensor); !problem.empty()) throw Error(TKJIT_ARGUMENT_ERROR, who + " is " + problem);
}

inline void set_row_major(tkjit_tensor& tensor) {
    uint64_t next = 1;  // may wrap: bytes_of_tensor reports that
    for (int i = tensor.ndim; i-- > 0; next *= tensor.sizes[i] ? uint64_t(tensor.sizes[i]) : 1) tensor.strides[i] = int64_t(next);
}

// Fills in everything but the data; throws for invalid values.
inline tkjit_tensor described(const char* function, tkjit_dtype dtype, tkjit_device device, int32_t ndim, const int64_t* sizes,
                              const int64_t* strides = nullptr) {
    tkjit_tensor tensor{};
    tensor.abi = TKJIT_TENSOR_ABI;
    tensor.dtype = dtype;
    tensor.device = device;
    tensor.ndim = ndim;
    if (ndim > 0 && !sizes) throw Error(TKJIT_ARGUMENT_ERROR, std::string(function) + ": sizes is null");
    for (int i = 0; i < ndim && i < TKJIT_MAX_NDIM; ++i) tensor.sizes[i] = sizes[i];
    check(&tensor, function, "the tensor");
    if (!strides) set_row_major(tensor);
    else std::memcpy(tensor.strides, strides, size_t(ndim) * sizeof *strides);
    return tensor;
}

// The number of bytes from the first element to the end of the last.
inline int64_t bytes_of_tensor(const tkjit_tensor& tensor) {
    Int last = 0, count = 1;
    for (int i = 0; i < tensor.ndim; ++i) {
        if (tensor.sizes[i] == 0) return 0;
        if (tensor.strides[i] < 0 && tensor.sizes[i] > 1)
            throw Error(TKJIT_ARGUMENT_ERROR, texts::tuple(tensor.sizes, tensor.ndim) + " with a stride below zero");
        last = last + Int(tensor.sizes[i] - 1) * tensor.strides[i];
        count = count * tensor.sizes[i];
    }
    const Int bytes = (last + 1) * bytes_of(tensor.dtype);
    if (!bytes.valid() || !(count * bytes_of(tensor.dtype)).valid())
        throw Error(TKJIT_MEMORY_ERROR, texts::tuple(tensor.sizes, tensor.ndim) + " is more memory than there is");
    return bytes.value();
}

// The size in bytes of a tensor. Throws if the tensor is invalid or not contiguous.
inline size_t bytes_to_use(const tkjit_tensor* tensor, const char* function, const char* name) {
    check(tensor, function, name);
    const std::string who = std::string(function) + ": " + name;
    if (!is_contiguous(tensor->sizes, tensor->strides, tensor->ndim)) throw Error(TKJIT_ARGUMENT_ERROR, who + " is not contiguous");
    const int64_t bytes = bytes_of_tensor(*tensor);
    if (bytes && !tensor->data) throw Error(TKJIT_ARGUMENT_ERROR, who + " has no memory: its data is null");
    return size_t(bytes);
}

inline void allocate_for(tkjit_tensor& tensor) {
    tensor.data = allocate_bytes(tensor.device, size_t(bytes_of_tensor(tensor)));
    try {
        own(tensor);
    } catch (...) {
        free_bytes(tensor.device, tensor.data);
        throw;
    }
}

// Runs the body of an exported function, and turns exceptions into errors.
template <class Body>
tkjit_error returning_errors(Body&& body) noexcept {
    return without_exceptions([&]() -> tkjit_error {
        body();
        return nullptr;
    });
}

}  // namespace tkjit::exported
