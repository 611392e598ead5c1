// Functions of torch's C ABI that only its CUDA build has. An extension that referred to them could not be imported with
// another build, so each is looked up when it is called. The simulator has one device and one stream. The types match
// torch's declarations, which the same unit may contain.
struct DeviceGuardOpaque;
struct CUDAGuardOpaque;
struct CUDAStreamGuardOpaque;

#ifdef TKJIT_SIM

#include <cstdint>

// torch's own functions fail without a GPU, so these replace them
extern "C" {
int32_t aoti_torch_get_current_cuda_stream(int32_t, void** stream) {
    *stream = nullptr;
    return 0;
}
int32_t aoti_torch_create_device_guard(int32_t, DeviceGuardOpaque** guard) {
    *guard = nullptr;
    return 0;
}
int32_t aoti_torch_delete_device_guard(DeviceGuardOpaque*) { return 0; }
int32_t aoti_torch_device_guard_set_index(DeviceGuardOpaque*, int32_t) { return 0; }
int32_t aoti_torch_get_current_device_index(int32_t* index) {
    *index = 0;
    return 0;
}
// the device type that torch::stable::Tensor::is_cuda() compares with and kCUDA allocates on: here it is the CPU
int32_t aoti_torch_device_type_cuda() { return 0; }
}

#else

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace tkjit {
namespace {

void* find_in_torch(const char* name) {
    // torch has loaded the library; a lookup without it would find the function of this file
    void* const library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    void* const found = library ? dlsym(library, name) : nullptr;
    if (!found) throw std::runtime_error(std::string(name) + ": this build of torch has no CUDA");
    return found;
}

}  // namespace
}  // namespace tkjit

#define TKJIT_OF_CUDA(name, parameters, arguments)                                                         \
    extern "C" int32_t name parameters {                                                                   \
        static const auto found = reinterpret_cast<int32_t(*) parameters>(tkjit::find_in_torch(#name));     \
        return found arguments;                                                                            \
    }
TKJIT_OF_CUDA(aoti_torch_create_cuda_guard, (int32_t device, CUDAGuardOpaque** guard), (device, guard))
TKJIT_OF_CUDA(aoti_torch_delete_cuda_guard, (CUDAGuardOpaque* guard), (guard))
TKJIT_OF_CUDA(aoti_torch_cuda_guard_set_index, (CUDAGuardOpaque* guard, int32_t device), (guard, device))
TKJIT_OF_CUDA(aoti_torch_create_cuda_stream_guard,
              (void* stream, int32_t device, CUDAStreamGuardOpaque** guard), (stream, device, guard))
TKJIT_OF_CUDA(aoti_torch_delete_cuda_stream_guard, (CUDAStreamGuardOpaque* guard), (guard))
TKJIT_OF_CUDA(aoti_torch_get_current_cuda_stream, (int32_t device, void** stream), (device, stream))
TKJIT_OF_CUDA(aoti_torch_cuda_caching_allocator_raw_alloc, (uint64_t bytes, void** found_at), (bytes, found_at))
TKJIT_OF_CUDA(aoti_torch_cuda_caching_allocator_raw_delete, (void* at), (at))
TKJIT_OF_CUDA(torch_get_current_cuda_blas_handle, (void** handle), (handle))
TKJIT_OF_CUDA(torch_set_current_cuda_stream, (void* stream, int32_t device), (stream, device))
TKJIT_OF_CUDA(torch_get_cuda_stream_from_pool, (bool high, int32_t device, void** stream), (high, device, stream))
TKJIT_OF_CUDA(torch_cuda_stream_synchronize, (void* stream, int32_t device), (stream, device))
TKJIT_OF_CUDA(torch_c10_cuda_check_msg,
              (int32_t error, const char* file, const char* function, uint32_t line, bool device_assertions, char** message),
              (error, file, function, line, device_assertions, message))
extern "C" void torch_c10_cuda_free_error_msg(char* message) {
    static const auto found = reinterpret_cast<void (*)(char*)>(tkjit::find_in_torch("torch_c10_cuda_free_error_msg"));
    found(message);
}
#undef TKJIT_OF_CUDA

#endif
