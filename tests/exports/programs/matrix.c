/* Computes a matrix product that the library allocates, makes a call that is rejected, and frees the tensors. */
#include <zoo.h>

#include <stdio.h>
#include <string.h>

static int failed(tkjit_error error) {
    if (!error) return 0;
    printf("%s\n", error);
    tkjit_free_error(error);
    return 1;
}

int main(void) {
    float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 1, 1};
    const int64_t a_sizes[] = {2, 3}, b_sizes[] = {3, 2};
    tkjit_tensor ta, tb, tc;
    int i;
    memset(&tc, 0, sizeof tc);
    if (failed(zoo_check_interface(ZOO_INTERFACE))) return 1;
    if (failed(tkjit_tensor_view(&ta, a, TKJIT_FLOAT32, tkjit_cpu(), 2, a_sizes, NULL))) return 1;
    if (failed(tkjit_tensor_view(&tb, b, TKJIT_FLOAT32, tkjit_cpu(), 2, b_sizes, NULL))) return 1;
    if (failed(zoo_gemm(&ta, &tb, &tc, NULL))) return 1;
    printf("(%d, %d):", (int)tc.sizes[0], (int)tc.sizes[1]);
    for (i = 0; i < 4; ++i) printf(" %g", ((float*)tc.data)[i]);
    printf("\n");
    if (!failed(zoo_gemm(&ta, &ta, &tc, NULL))) return 1;
    return failed(tkjit_tensor_free(&tc)) || failed(tkjit_tensor_free(&ta));
}
