// The gradients of a selective scan. A block computes channels of one group, eight at a time, with a warp for each. It goes
// through the chunks from the last to the first, and computes a chunk's states again from those at its beginning. The
// gradients of B and C are sums over channels: over the warps in shared memory, then over the block's tiles of eight
// channels in global memory.
#include <tkjit/reduce.cuh>

#include "selective_scan.cuh"

constexpr int kWarps = 8;
constexpr int kPadded = kItems + 1;  // staggers the lanes' elements over the banks

/// One state's terms of the gradients of B and C in a chunk, for each warp.
struct Terms {
    using Elements = float[kWarps][32][kPadded];
    Elements of_b, of_c;

    /// Writes or adds the sum over the warps of this thread's element.
    static __device__ void add(float& to, const Elements& terms, bool is_first) {
        float sum = is_first ? 0.f : to;
#pragma unroll
        for (const auto& of_warp : terms) sum += of_warp[threadIdx.x / kItems][threadIdx.x % kItems];
        to = sum;
    }
};

/// A lane's eight elements of a chunk.
struct Items {
    float step[kItems], u[kItems], grad[kItems];  // the gradient of y before the gate
    float y[kItems], of_input[kItems] = {}, of_step[kItems] = {};

    template <class Globals>
    __device__ Items(const Globals& g, const Channel& channel, unsigned col, int n) {
        channel.read_steps(step, g.delta.raw_ptr, col, n);
        read_items(u, g.u.raw_ptr + channel.first_of_row, col, n);
        read_items(grad, g.grad_y.raw_ptr + channel.first_of_row, col, n);
        if (!g.z) return;
        float z[kItems];
        read_items(z, g.z.raw_ptr + channel.first_of_row, col, n);
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            grad[i] *= silu::of(z[i]);
            y[i] = channel.skip * u[i];
        }
    }

    /// Adds one state's terms to the gradients. `before` is the state before the chunk. `adjoint` is the gradient of the state
    /// after the chunk, and becomes that of the state before it. Returns the gradient of the rate.
    __device__ float add(float rate, const float (&b)[kItems], const float (&c)[kItems], float before, float& adjoint,
                         float* of_b, float* of_c) {
        float decay[kItems], previous[kItems], factor = 1.f, sum = 0.f, later = 0.f, of_rate = 0.f;
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            decay[i] = exp2_of(step[i] * (rate * kLog2E));
            factor *= decay[i];
            sum = decay[i] * sum + step[i] * u[i] * b[i];
        }
#pragma unroll
        for (int i = kItems - 1; i >= 0; --i) later = decay[i] * (c[i] * grad[i] + later);
        float h = scan_lanes<true>(factor, sum, before);
        adjoint = scan_lanes<false>(factor, later, adjoint);
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            previous[i] = h;
            h = decay[i] * h + step[i] * u[i] * b[i];
            y[i] += c[i] * h;
            of_c[i] = grad[i] * h;
        }
#pragma unroll
        for (int i = kItems - 1; i >= 0; --i) {
            const float of_h = c[i] * grad[i] + adjoint;
            of_b[i] = of_h * step[i] * u[i];
            of_input[i] += of_h * b[i];
            adjoint = decay[i] * of_h;
            of_rate += adjoint * previous[i] * step[i];
            of_step[i] += adjoint * previous[i] * rate;
        }
        return of_rate;
    }

    /// Writes the gradients of the elements, and adds those of the channel's D and bias.
    template <class Globals>
    __device__ void finish(const Globals& g, const Channel& channel, unsigned col, int n, float& of_skip, float& of_bias) {
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            of_step[i] += of_input[i] * u[i];
            if (channel.softplus) of_step[i] *= -expm1f(-step[i]);  // the derivative of softplus
            of_input[i] = of_input[i] * step[i] + channel.skip * grad[i];
            if (int(n - col) > i) of_bias += of_step[i];
            of_skip += grad[i] * u[i];
        }
        write_items(g.grad_u.raw_ptr + channel.first_of_row, col, n, of_input);
        write_items(g.grad_delta.raw_ptr + channel.first_of_row, col, n, of_step);
        if (!g.z || !g.grad_z) return;
        float z[kItems];
        read_items(z, g.z.raw_ptr + channel.first_of_row, col, n);
        read_items(grad, g.grad_y.raw_ptr + channel.first_of_row, col, n);
#pragma unroll
        for (int i = 0; i < kItems; ++i) y[i] *= grad[i] * silu::slope(z[i]);
        write_items(g.grad_z.raw_ptr + channel.first_of_row, col, n, y);
    }
};

template <typename T>
__global__ void __launch_bounds__(32 * kWarps, 2) selective_scan_gradient(const __grid_constant__ Globals g) {
    extern __shared__ float shared[];
    const int n = g.u.cols(), states = g.A.cols(), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned groups = g.B.depth(), dims = g.u.rows() / groups, tiles = (dims - 1) / kWarps + 1;
    const unsigned slices = g.grad_B.depth(), pair = blockIdx.x / slices, chunks = g.states.rows();
    Terms* const terms = reinterpret_cast<Terms*>(shared);  // two, so that one barrier for each state is enough
    float* const of_rates = reinterpret_cast<float*>(terms + 2) + warp * states;
    float* const adjoints = reinterpret_cast<float*>(terms + 2) + (kWarps + 2 * warp) * states;

    unsigned number = 0;  // of a state and chunk
    for (unsigned tile = blockIdx.x % slices; tile < tiles; tile += slices) {
        const unsigned dim = tile * kWarps + warp;
        const bool is_channel = dim < dims;  // the other warps have a channel without elements
        const int length = is_channel ? n : 0;
        const Channel channel(g, pair / groups, pair % groups * dims + (is_channel ? dim : 0));
        float of_skip = 0.f, of_bias = 0.f;
        for (int state = lane; state < states; state += 32) of_rates[state] = adjoints[state] = 0.f;
        __syncwarp();
        for (unsigned step = 0; step < chunks; ++step) {
            const unsigned chunk = chunks - 1 - step, first = chunk * kChunk, col = first + lane * kItems;
            const size_t first_state = (channel.number * chunks + chunk) * states;
            const float* const from = adjoints + step % 2 * states;  // a chunk reads one half, and writes the other
            float* const to = adjoints + (step + 1) % 2 * states;
            Items items(g, channel, col, length);
            size_t row = size_t(pair) * states * n, row_of_slice = size_t(blockIdx.x) * states * n;
            for (int state = 0; state < states; ++state, row += n, row_of_slice += n, ++number) {
                float b[kItems], c[kItems], of_b[kItems], of_c[kItems], rate = 0.f, before = 0.f, adjoint = 0.f;
                read_items(b, g.B.raw_ptr + row, col, length);
                read_items(c, g.C.raw_ptr + row, col, length);
                if (is_channel) {
                    rate = g.A[size_t(channel.dim) * states + state];
                    adjoint = from[state] + g.grad_states[first_state + state];
                    if (chunk > 0) before = g.states[first_state - states + state];
                    else if (g.initial_state) before = g.initial_state[channel.number * states + state];
                }
                const float of_rate = tkjit::warp_reduce<tkjit::Sum>(items.add(rate, b, c, before, adjoint, of_b, of_c));
                if (lane == 0) {
                    of_rates[state] += of_rate;
                    to[state] = adjoint;
                }
                Terms& own = terms[number % 2];
#pragma unroll
                for (int i = 0; i < kItems; ++i) {
                    own.of_b[warp][lane][i] = of_b[i];
                    own.of_c[warp][lane][i] = of_c[i];
                }
                __syncthreads();
                if (first + threadIdx.x >= n) continue;
                Terms::add(g.grad_B[row_of_slice + first + threadIdx.x], own.of_b, tile < slices);
                Terms::add(g.grad_C[row_of_slice + first + threadIdx.x], own.of_c, tile < slices);
            }
            items.finish(g, channel, col, length, of_skip, of_bias);
            __syncwarp();
        }
        of_skip = tkjit::warp_reduce<tkjit::Sum>(of_skip);
        of_bias = tkjit::warp_reduce<tkjit::Sum>(of_bias);
        if (!is_channel) continue;
        if (lane == 0) {
            g.grad_D[channel.number] = of_skip;
            g.grad_delta_bias[channel.number] = of_bias;
        }
        const float* const adjoint = adjoints + chunks % 2 * states;
        for (int state = lane; state < states; state += 32) {
            g.grad_A[channel.number * states + state] = of_rates[state];
            g.grad_initial_state[channel.number * states + state] = adjoint[state];
        }
        __syncwarp();
    }
}
