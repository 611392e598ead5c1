// The recurrence of Mamba's S6 layers. Each warp computes a channel of a sequence, one state after another. In a chunk of
// 256 elements, a state's recurrence is a scan of the maps x -> decay * x + input, first of a lane's own eight elements
// and then of the lanes' results.
//
// Sources: Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023; Blelloch, "Prefix Sums
// and Their Applications", 1990.
#include "selective_scan.cuh"

constexpr int kWarps = 4;

template <typename T>
__global__ void __launch_bounds__(32 * kWarps) selective_scan(const __grid_constant__ Globals g) {
    extern __shared__ float carried_by_warp[];
    const int n = g.u.cols(), states = g.A.cols(), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t number = size_t(blockIdx.x) * kWarps + warp;
    if (number >= size_t(g.u.depth()) * g.u.rows()) return;
    const unsigned sequence = number / g.u.rows();
    const Channel channel(g, sequence, number % g.u.rows());
    const unsigned group = channel.dim / unsigned(g.u.rows() / g.B.depth());
    const size_t matrix = (size_t(sequence) * g.B.depth() + group) * states * n;
    const float* const rates = g.A.raw_ptr + size_t(channel.dim) * states;
    float* const carried = carried_by_warp + 2 * warp * states;  // a chunk reads one half, and writes the other

    for (int state = lane; state < states; state += 32)
        carried[state] = g.initial_state ? g.initial_state[number * states + state] : 0.f;
    __syncwarp();
    for (unsigned first = 0, chunk = 0; first < n; first += kChunk, ++chunk) {
        const unsigned col = first + lane * kItems;
        const float* const from = carried + chunk % 2 * states;
        float* const to = carried + (chunk + 1) % 2 * states;
        float steps[kItems], inputs[kItems], y[kItems];
        read_items(inputs, g.u.raw_ptr + channel.first_of_row, col, n);
        channel.read_steps(steps, g.delta.raw_ptr, col, n);
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            y[i] = channel.skip * inputs[i];
            inputs[i] *= steps[i];
        }
        const T *b = g.B.raw_ptr + matrix, *c = g.C.raw_ptr + matrix;
        for (int state = 0; state < states; ++state, b += n, c += n) {
            float decay[kItems], added[kItems], weight[kItems], factor = 1.f, sum = 0.f;
            read_items(added, b, col, n);
            read_items(weight, c, col, n);
            const float rate = rates[state] * kLog2E;
#pragma unroll
            for (int i = 0; i < kItems; ++i) {
                decay[i] = exp2_of(steps[i] * rate);
                added[i] *= inputs[i];
                factor *= decay[i];
                sum = decay[i] * sum + added[i];
            }
            float h = scan_lanes<true>(factor, sum, from[state]);
#pragma unroll
            for (int i = 0; i < kItems; ++i) {
                h = decay[i] * h + added[i];
                y[i] += weight[i] * h;
            }
            if (lane == 31) to[state] = h;
        }
        if (g.z) {
            float z[kItems];
            read_items(z, g.z.raw_ptr + channel.first_of_row, col, n);
#pragma unroll
            for (int i = 0; i < kItems; ++i) y[i] *= silu::of(z[i]);
        }
        write_items(g.y.raw_ptr + channel.first_of_row, col, n, y);
        __syncwarp();
        float* const result = g.states.raw_ptr + (channel.number * g.states.rows() + chunk) * states;
        for (int state = lane; state < states; state += 32) result[state] = to[state];
    }
}
