// Divisions with each operand form of the x86 instruction, and faults before a barrier of the grid.
#include <cuda_runtime.h>
#include <limits.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

#ifdef __x86_64__
// y = {quotient, remainder}; `form` selects the operand form of the divisor.
__device__ volatile int divisor_32 = -1;
__global__ void least_by_minus_one(long long* y, int form, int divisor) {
    struct {
        long long room[40];
        volatile long long value[8];
        long long far[40];
    } lies{};
    for (auto& value : lies.value) value = divisor;
    int a = INT_MIN, d = -1;
    long long a8 = LLONG_MIN, d8 = -1;
    const long long index = 3;
    volatile int* const small = reinterpret_cast<volatile int*>(&lies.value[1]);
    volatile long long* const near = lies.value;
    switch (form) {
        case 0: asm volatile("idivl %2" : "+a"(a), "+d"(d) : "c"(divisor)); break;
        case 1: asm volatile("movl %2, %%r13d; idivl %%r13d" : "+a"(a), "+d"(d) : "r"(divisor) : "r13"); break;
        case 2: asm volatile("idivl (%2)" : "+a"(a), "+d"(d) : "c"(small)); break;
        case 3: asm volatile("idivl 8(%2)" : "+a"(a), "+d"(d) : "c"(small)); break;
        case 4: asm volatile("idivl -256(%2)" : "+a"(a), "+d"(d) : "c"(small + 64)); break;
        case 5: asm volatile("idivl 8(%2,%3,8)" : "+a"(a), "+d"(d) : "c"(near), "r"(index)); break;
        case 6: asm volatile("idivl -1024(%2,%3,8)" : "+a"(a), "+d"(d) : "c"(near + 128), "r"(index)); break;
        case 7: asm volatile("movq %2, %%r12; idivl (%%r12)" : "+a"(a), "+d"(d) : "c"(small) : "r12"); break;
        case 8: asm volatile("movq %2, %%r13; idivl 0(%%r13)" : "+a"(a), "+d"(d) : "c"(small) : "r13"); break;
        case 9: divisor_32 = divisor; asm volatile("idivl %2" : "+a"(a), "+d"(d) : "m"(divisor_32)); break;
        case 10:
            asm volatile("movq %3, %%r11; movq %2, %%r10; idivl 8(%%r10,%%r11,8)"
                         : "+a"(a), "+d"(d)
                         : "c"(near), "r"(index)
                         : "r10", "r11");
            break;
        case 11: asm volatile("idivq %2" : "+a"(a8), "+d"(d8) : "c"((long long)divisor)); break;
        case 12: asm volatile("idivq 8(%2)" : "+a"(a8), "+d"(d8) : "c"(near)); break;
        case 13: asm volatile("movq %2, %%r15; idivq %%r15" : "+a"(a8), "+d"(d8) : "c"((long long)divisor) : "r15"); break;
        case 14: {
            short a2 = SHRT_MIN, d2 = -1;
            asm volatile("idivw %2" : "+a"(a2), "+d"(d2) : "c"(short(divisor)));
            a = a2 == SHRT_MIN ? INT_MIN : 0, d = d2;
            break;
        }
    }
    const bool is_long = form >= 11 && form <= 13;
    y[2 * threadIdx.x] = is_long ? a8 : a;
    y[2 * threadIdx.x + 1] = is_long ? d8 : d;
}
EXPORT const char* run_least_by_minus_one(const unsigned* dims, size_t, long long* y, int form, int divisor) {
    return tkjit::sim::launch(least_by_minus_one, dim3(dims[0]), dim3(dims[3]), 0, y, form, divisor);
}
#endif

// One block of a grid fails while the others wait for it.
__global__ void fails_before_the_grid(int* y, int block) {
    if (int(blockIdx.x) == block && threadIdx.x == 5) y = nullptr;
    *(volatile int*)(y + (y ? blockIdx.x : 0)) = 1;
    tkjit::sim::sync_grid();
}
EXPORT const char* run_fails_before_the_grid(const unsigned* dims, size_t, int* y, int block) {
    return tkjit::sim::launch_cooperatively(fails_before_the_grid, dim3(dims[0]), dim3(dims[3]), 0, y, block);
}
