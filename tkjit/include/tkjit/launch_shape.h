// The parts that launches through the CUDA runtime, the driver and the simulator share: the shape, and the checks of the
// arguments.
#pragma once

#include <tkjit/arg.h>
#include <tkjit/convert.h>
#include <tkjit/error_text.h>
#include <tkjit/expr.h>
#include <cuda_runtime.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace tkjit {

// A grid, a block and the bytes of dynamic shared memory, each checked against the hardware's limits.
struct LaunchShape {
    dim3 grid, block;
    size_t shared_memory_bytes = 0;
    dim3 cluster;                    // blocks of a cluster, unless the source sets them by __cluster_dims__
    bool cooperative = false;        // all blocks run at once, and may wait for each other
    bool overlaps = false;           // may begin before the previous launch has ended (programmatic dependent launch)
    bool empty = false;              // a grid without blocks: nothing to launch
    const char* error = nullptr;

    void set_grid(Int x, Int y = 1, Int z = 1) {
        grid = dim3(extent("grid x", x, 2147483647), extent("grid y", y, 65535), extent("grid z", z, 65535));
        empty = x.value() == 0 || y.value() == 0 || z.value() == 0;
    }
    void set_block(Int x, Int y = 1, Int z = 1) {
        block = dim3(extent("block x", x, 1024), extent("block y", y, 1024), extent("block z", z, 64));
        const Int threads = x * y * z;
        if (!error && (threads.value() < 1 || threads.value() > 1024)) fail("threads a block", threads.value(), 1024);
    }
    // A value that the source computes in C++.
    template <std::same_as<dim3> D>  // a plain dim3 parameter would be ambiguous: numbers convert to both dim3 and Int
    void set_grid(D value) { set_grid(Int(value.x), Int(value.y), Int(value.z)); }
    template <std::same_as<dim3> D>
    void set_block(D value) { set_block(Int(value.x), Int(value.y), Int(value.z)); }
    void set_shared_memory(Int bytes) { shared_memory_bytes = extent("shared_memory", bytes, 232448); }

    bool clustered() const { return cluster.x * cluster.y * cluster.z > 1; }

private:
    unsigned extent(const char* what, Int value, int64_t limit) {
        if (error) return 0;
        if (!value.valid()) {
            error = error_text("%s: overflow or division by zero", what);
        } else if (value.value() < 0 || value.value() > limit) {
            fail(what, value.value(), limit);
        }
        return static_cast<unsigned>(value.value());
    }
    void fail(const char* what, int64_t value, int64_t limit) {
        const char* advice = "";
        if (value > limit && what[0] == 'b') advice = ": take more blocks instead, block=1024 and a grid of cdiv(size, 1024)";
        if (value > limit && what[0] == 's') advice = " bytes a block: keep only a tile of the data there, not all of it";
        error = error_text("%s is %lld; the limit is %lld%s", what, static_cast<long long>(value), static_cast<long long>(limit), advice);
    }
};

// Sets an error if the grid was rounded down to 0 blocks, unless a tensor has no elements.
inline void check_blocks(LaunchShape& shape, bool has_elements, const char* grid) {
    if (!shape.error && shape.empty && has_elements)
        shape.error = error_text("grid is 0 blocks, %s; // rounds down, and cdiv rounds up", grid);
}
inline void check_blocks(LaunchShape& shape, const TkjitArg* args, std::initializer_list<int> tensors, const char* grid) {
    if (shape.error || !shape.empty) return;
    bool has_elements = true;
    for (const int i : tensors) has_elements &= numel(args[i]).value() != 0;
    check_blocks(shape, has_elements, grid);
}

// An error text, followed by the shape of the launch.
inline const char* with_shape(const char* error, const LaunchShape& shape) {
    const dim3 grid = shape.grid, block = shape.block;
    return error_text("%s; grid (%u, %u, %u), block (%u, %u, %u), %zu bytes of dynamic shared memory", error, grid.x, grid.y,
                      grid.z, block.x, block.y, block.z, shape.shared_memory_bytes);
}

// An error text if an argument does not fit the type of its parameter, else null.
template <class Parameter>
const char* check_argument(const TkjitArg& arg, const char* name) {
    if constexpr (std::is_integral_v<Parameter> && !std::is_same_v<Parameter, bool>)
        return sizeof(Parameter) < sizeof arg.integer ? check_computed<Parameter>(arg.integer, name) : nullptr;
    else return check_extents<Parameter>(arg, name);
}

// Calls check_argument for each parameter, and returns the first error, or null. `names` has the parameters' names,
// but none for a stream, which comes last.
template <class... Parameters>
const char* check_parameters(const TkjitArg* args, std::initializer_list<const char*> names) {
    const char* error = nullptr;
    size_t i = 0;
    const auto check = [&]<class Parameter>() {
        if (!error && i < names.size()) error = check_argument<Parameter>(args[i], names.begin()[i]);
        ++i;
    };
    (check.template operator()<std::remove_cvref_t<Parameters>>(), ...);
    return error;
}

}  // namespace tkjit
