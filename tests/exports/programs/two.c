/* Links two exports. A function of one takes a tensor that the other has allocated, and the export that is linked
 * first frees the tensors. */
#include <other.h>
#include <zoo.h>

#include <stdio.h>

int main(void) {
    const int64_t size = 3;
    tkjit_tensor x, y = {0}, half;
    tkjit_error error;
    int i;
    if (tkjit_tensor_new(&x, TKJIT_FLOAT32, tkjit_cpu(), 1, &size)) return 1;
    for (i = 0; i < 3; ++i) ((float*)x.data)[i] = 1;
    if (zoo_softmax(&x, &y, NULL)) return 2;
    if (other_axpy(&y, &x, 6, NULL)) return 3;
    printf("%g %g\n", ((float*)x.data)[0], ((float*)x.data)[2]);
    if (tkjit_tensor_new(&half, TKJIT_FLOAT16, tkjit_cpu(), 1, &size)) return 4;
    error = other_axpy(&half, &half, 1, NULL);
    printf("%s\n", error ? error : "fine");
    tkjit_free_error(error);
    return tkjit_tensor_free(&x) || tkjit_tensor_free(&y) || tkjit_tensor_free(&half) ? 5 : 0;
}
