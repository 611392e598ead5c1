/* Prints microseconds per launch: by the launcher alone, and by an export's functions for tensors and for pointers.
 * Arguments: the launcher, and the number of calls in a run. */
#include <tkjit/arg.h>

#include <layers.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static int by_size(const void* a, const void* b) { return *(const double*)a > *(const double*)b ? 1 : -1; }

enum { N = 256, RUNS = 25 };

int main(int argc, char** argv) {
    static float x[N], y[N];
    const int64_t n = N;
    const long calls = argc > 2 ? atol(argv[2]) : 0;
    void* const library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    const TkjitLaunch launch = library ? (TkjitLaunch)dlsym(library, "tkjit_launch") : NULL;
    double bare[RUNS], checked[RUNS], pointers[RUNS];
    TkjitArg args[3];
    tkjit_tensor tx, ty;
    int run;
    long i;
    if (!launch) return 1;
    memset(args, 0, sizeof args);
    args[0].data = x;
    args[1].data = y;
    args[2].real = 0.5;
    for (i = 0; i < 3; ++i) args[i].present = 1;
    for (i = 0; i < 2; ++i) {
        args[i].rank = 1;
        args[i].extents[0] = N;
        args[i].dtype = TKJIT_FLOAT32;
    }
    if (tkjit_tensor_view(&tx, x, TKJIT_FLOAT32, tkjit_cpu(), 1, &n, NULL)) return 2;
    if (tkjit_tensor_view(&ty, y, TKJIT_FLOAT32, tkjit_cpu(), 1, &n, NULL)) return 2;
    for (run = 0; run < RUNS; ++run) {
        double start = now();
        for (i = 0; i < calls; ++i)
            if (launch(args, 0, NULL)) return 3;
        bare[run] = (now() - start) / calls;
        start = now();
        for (i = 0; i < calls; ++i)
            if (layers_axpy(&tx, &ty, 0.5, NULL)) return 4;
        checked[run] = (now() - start) / calls;
        start = now();
        for (i = 0; i < calls; ++i)
            if (layers_axpy_pointers(x, y, 0.5, N, TKJIT_FLOAT32, tkjit_cpu(), NULL)) return 5;
        pointers[run] = (now() - start) / calls;
    }
    qsort(bare, RUNS, sizeof *bare, by_size);
    qsort(checked, RUNS, sizeof *checked, by_size);
    qsort(pointers, RUNS, sizeof *pointers, by_size);
    printf("%f %f %f\n", bare[RUNS / 2], checked[RUNS / 2], pointers[RUNS / 2]);
    return 0;
}
