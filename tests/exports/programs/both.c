/* Uses a library with code for GPUs on a machine without a GPU. */
#include <both.h>

#include <stdio.h>

int main(void) {
    float x[] = {1, 2}, y[] = {1, 1};
    tkjit_error error = both_axpy_pointers(x, y, 2, 2, TKJIT_FLOAT32, tkjit_cpu(), NULL);
    if (error) return 1;
    printf("%g %g\n", y[0], y[1]);
    error = both_axpy_pointers(x, y, 2, 2, TKJIT_FLOAT32, tkjit_cuda(0), NULL);
    if (!error) return 2;
    printf("%s\n", error);
    tkjit_free_error(error);
    return 0;
}
