#include <LIBRARY.h>

#ifdef __cplusplus
extern "C" {
#endif
tkjit_error LIBRARY_from_torch(void* tensor, tkjit_tensor* to);
tkjit_error LIBRARY_to_torch(tkjit_tensor* from, void** tensor);
#ifdef __cplusplus
}
#endif
