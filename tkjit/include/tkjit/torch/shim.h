// The functions of torch's stable C ABI that the stand-ins call. torch's headers for them cost nvcc five seconds.
//
// Functions named torch_* appeared in torch 2.10. They are weak, so that an extension loads with an older torch and can
// report which torch it needs. Functions that appeared in torch 2.13 may be null, so callers check.
#pragma once

#include <cstddef>
#include <cstdint>

#define TKJIT_WEAK __attribute__((weak))

extern "C" {
struct AtenTensorOpaque;  // an at::Tensor
using AtenTensorHandle = AtenTensorOpaque*;
using AOTITorchError = int32_t;
using StableIValue = uint64_t;

AOTITorchError aoti_torch_new_tensor_handle(AtenTensorHandle from, AtenTensorHandle* to);
AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle tensor);
AOTITorchError aoti_torch_is_defined(AtenTensorHandle tensor, bool* is);
AOTITorchError aoti_torch_get_data_ptr(AtenTensorHandle tensor, void** data);
AOTITorchError aoti_torch_get_dim(AtenTensorHandle tensor, int64_t* dim);
AOTITorchError aoti_torch_get_numel(AtenTensorHandle tensor, int64_t* count);
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle tensor, int64_t** sizes);
AOTITorchError aoti_torch_get_strides(AtenTensorHandle tensor, int64_t** strides);
AOTITorchError aoti_torch_get_storage_offset(AtenTensorHandle tensor, int64_t* offset);
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle tensor, int32_t* dtype);
AOTITorchError aoti_torch_get_device_type(AtenTensorHandle tensor, int32_t* type);
AOTITorchError aoti_torch_get_device_index(AtenTensorHandle tensor, int32_t* index);
AOTITorchError aoti_torch_get_layout(AtenTensorHandle tensor, int32_t* layout);
AOTITorchError aoti_torch_get_storage_size(AtenTensorHandle tensor, int64_t* bytes);
AOTITorchError aoti_torch_is_contiguous(AtenTensorHandle tensor, bool* is);
AOTITorchError aoti_torch_empty_strided(int64_t ndim, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                        int32_t device_type, int32_t device_index, AtenTensorHandle* made);
AOTITorchError aoti_torch_create_tensor_from_blob(void* data, int64_t ndim, const int64_t* sizes, const int64_t* strides,
                                                  int64_t storage_offset, int32_t dtype, int32_t device_type, int32_t device_index,
                                                  AtenTensorHandle* made);
struct DeviceGuardOpaque;
AOTITorchError aoti_torch_create_device_guard(int32_t device, DeviceGuardOpaque** guard);
AOTITorchError aoti_torch_delete_device_guard(DeviceGuardOpaque* guard);
AOTITorchError aoti_torch_device_guard_set_index(DeviceGuardOpaque* guard, int32_t device);
void aoti_torch_warn(const char* function, const char* file, uint32_t line, const char* text);
void aoti_torch_print_tensor_handle(AtenTensorHandle tensor, const char* message);
bool aoti_torch_grad_mode_is_enabled();
void aoti_torch_grad_mode_set_enabled(bool enabled);
TKJIT_WEAK AOTITorchError torch_call_dispatcher(const char* name, const char* overload, StableIValue* stack, uint64_t built_with);
uint64_t aoti_torch_abi_version();
TKJIT_WEAK AOTITorchError torch_parse_device_string(const char* text, uint32_t* type, int32_t* index);
AOTITorchError aoti_torch_item_float64(AtenTensorHandle tensor, double* value);
AOTITorchError aoti_torch_item_float32(AtenTensorHandle tensor, float* value);
AOTITorchError aoti_torch_item_int64(AtenTensorHandle tensor, int64_t* value);
AOTITorchError aoti_torch_item_int32(AtenTensorHandle tensor, int32_t* value);
AOTITorchError aoti_torch_item_bool(AtenTensorHandle tensor, bool* value);
size_t aoti_torch_dtype_element_size(int32_t dtype);
AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device, void** stream);

class TorchLibraryOpaque;
AOTITorchError aoti_torch_library_init_def(const char* space, const char* file, uint32_t line, TorchLibraryOpaque** made);
AOTITorchError aoti_torch_library_init_fragment(const char* space, const char* file, uint32_t line, TorchLibraryOpaque** made);
AOTITorchError aoti_torch_library_init_impl(const char* space, const char* key, const char* file, uint32_t line,
                                            TorchLibraryOpaque** made);
AOTITorchError aoti_torch_library_def(TorchLibraryOpaque* library, const char* schema);
AOTITorchError aoti_torch_library_impl(TorchLibraryOpaque* library, const char* name, void (*)(StableIValue*, uint64_t, uint64_t));
AOTITorchError aoti_torch_delete_library_object(TorchLibraryOpaque* library);

TKJIT_WEAK AOTITorchError torch_parallel_for(int64_t begin, int64_t end, int64_t grain_size, void (*run)(int64_t, int64_t, void*), void* context);
TKJIT_WEAK AOTITorchError torch_get_thread_idx(uint32_t* index);
TKJIT_WEAK AOTITorchError torch_get_num_threads(uint32_t* count);
TKJIT_WEAK AOTITorchError torch_get_current_cuda_blas_handle(void** handle);
TKJIT_WEAK AOTITorchError torch_set_current_cuda_stream(void* stream, int32_t device);
TKJIT_WEAK AOTITorchError torch_get_cuda_stream_from_pool(bool is_high_priority, int32_t device, void** stream);
AOTITorchError aoti_torch_cuda_caching_allocator_raw_alloc(uint64_t bytes, void** memory);
AOTITorchError aoti_torch_cuda_caching_allocator_raw_delete(void* memory);

struct StableListOpaque;
struct StringOpaque;
TKJIT_WEAK AOTITorchError torch_library_impl(TorchLibraryOpaque* library, const char* name, void (*)(StableIValue*, uint64_t, uint64_t),
                                  uint64_t version);
TKJIT_WEAK AOTITorchError torch_new_list_reserve_size(size_t size, StableListOpaque** list);
TKJIT_WEAK AOTITorchError torch_list_push_back(StableListOpaque* list, StableIValue element);
TKJIT_WEAK AOTITorchError torch_list_size(StableListOpaque* list, size_t* size);
TKJIT_WEAK AOTITorchError torch_list_get_item(StableListOpaque* list, size_t index, StableIValue* element);
TKJIT_WEAK AOTITorchError torch_delete_list(StableListOpaque* list);
TKJIT_WEAK AOTITorchError torch_new_string_handle(const char* data, size_t length, StringOpaque** made);
TKJIT_WEAK AOTITorchError torch_string_length(StringOpaque* text, size_t* length);
TKJIT_WEAK AOTITorchError torch_string_c_str(StringOpaque* text, const char** data);
TKJIT_WEAK AOTITorchError torch_delete_string(StringOpaque* text);
TKJIT_WEAK AOTITorchError torch_new_stable_ivalue(StableIValue** made);
TKJIT_WEAK AOTITorchError torch_delete_stable_ivalue(StableIValue* value);
AOTITorchError aoti_torch_aten_subtract_Tensor(AtenTensorHandle self, AtenTensorHandle other, double alpha,
                                               AtenTensorHandle* made);
TKJIT_WEAK const char* torch_exception_get_what_without_backtrace();
}
