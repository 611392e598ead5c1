// Two warpgroups, one of which gives registers to the other.
#include <tkjit/gl.h>
#include <tkjit/registers.cuh>

__global__ void __launch_bounds__(256, 1) move_registers(const __grid_constant__ Globals g) {
    if (threadIdx.x < 128) {
        tkjit::decrease_registers<40>();
        g.y[threadIdx.x] = g.x[threadIdx.x] + 1;
    } else {
        tkjit::increase_registers<232>();
        g.y[threadIdx.x] = g.x[threadIdx.x] * 2;
    }
}
