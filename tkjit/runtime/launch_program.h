// Runs launch programs: descriptions of a launch, made by tkjit/render/launch_program.py, that need no compiler.
#pragma once

#include "driver_launch.h"
#include "launch_operations.h"

#include <tkjit/arg.h>
#include <tkjit/convert.h>
#include <tkjit/expr.h>
#include <tkjit/launch_shape.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace tkjit::runtime {

// A launcher whose device code is a cubin and whose host code is a launch program.
class ProgramLauncher : public TkjitLauncher {
public:
    // `parameters` has the offset of each of the kernel's parameters in a block of `bytes` bytes; `arguments` is the number
    // of arguments that a launch passes. Throws std::invalid_argument if the program could access other memory.
    ProgramLauncher(driver::CubinKernel&& kernel, std::vector<int64_t> words, std::vector<std::string> texts,
                    std::vector<int64_t> parameters, int64_t bytes, int64_t arguments)
        : TkjitLauncher{launch_program}, kernel_(std::move(kernel)), words_(std::move(words)), texts_(std::move(texts)),
          parameters_(std::move(parameters)), bytes_(bytes) {
        check_program({words_, texts_.size(), parameters_, bytes, arguments});
    }

private:
    // Memory for integers that are written before they are read.
    template <int Size>
    union Integers {
        Integers() {}
        Int values[Size];
    };

    // The state of one launch.
    struct Run {
        LaunchShape shape;
        Integers<stack_size> stack;
        Integers<max_locals> locals;
    };

    static const char* launch_program(const TkjitLauncher* self, const TkjitArg* args, int32_t device, void* stream) {
        return const_cast<ProgramLauncher*>(static_cast<const ProgramLauncher*>(self))->launch_with(args, device, stream);
    }

    const char* launch_with(const TkjitArg* args, int32_t device, void* stream) {
        alignas(128) char block[max_parameter_bytes + 4];
        void* pointers[max_parameters];
        std::memset(block, 0, size_t(bytes_));
        Run run;
        if (const char* const error = execute(run, words_.data(), words_.data() + words_.size(), args, block)) return error;
        for (size_t i = 0; i < parameters_.size(); ++i) pointers[i] = block + parameters_[i];
        return kernel_.launch(run.shape, device, stream, pointers);
    }

    // Runs the operations between two words. Returns an error text, or null. Within `each`, `args` are one item of the list
    // and `base` is its memory.
    const char* execute(Run& run, const int64_t* at, const int64_t* end, const TkjitArg* args, char* base) const {
        LaunchShape& shape = run.shape;
        Int* top = run.stack.values;  // the next free place
        const auto push = [&](Int value) { *top++ = value; };
        const auto pop = [&] { return *--top; };
        const auto binary = [&](auto operation) {
            const Int right = pop(), left = pop();
            push(operation(left, right));
        };
        while (at != end) {
            const auto operation = static_cast<Operation>(*at++);
            const int64_t* const x = at;
            at += operation_shapes[size_t(operation)].operands;
            switch (operation) {
                using enum Operation;
                case number: push(x[0]); break;
                case local: push(run.locals.values[x[0]]); break;
                case set_local: run.locals.values[x[0]] = pop(); break;
                case integer: push(args[x[0]].integer); break;
                case extent: push(args[x[0]].extents[x[1]]); break;
                case extent_from_end: push(args[x[0]].extents[args[x[0]].rank - x[1]]); break;
                case extent_of_first: push(first_of(args[x[0]]).extents[x[1]]); break;
                case extent_from_end_of_first: {
                    const TkjitArg& first = first_of(args[x[0]]);
                    push(first.extents[first.rank - x[1]]);
                    break;
                }
                case stride: push(args[x[0]].strides[x[1]]); break;
                case padded_extent: push(tkjit::padded_extent(args[x[0]], int(x[1]))); break;
                case numel: push(tkjit::numel(args[x[0]])); break;
                case device_index: push(parallel_of(args[x[0]]).dev_idx); break;
                case device_count: push(parallel_of(args[x[0]]).count); break;
                case add: binary([](Int a, Int b) { return a + b; }); break;
                case subtract: binary([](Int a, Int b) { return a - b; }); break;
                case multiply: binary([](Int a, Int b) { return a * b; }); break;
                case divide: binary([](Int a, Int b) { return a / b; }); break;
                case remainder: binary([](Int a, Int b) { return a % b; }); break;
                case negate: push(-pop()); break;
                case less: binary([](Int a, Int b) { return a < b; }); break;
                case less_equal: binary([](Int a, Int b) { return a <= b; }); break;
                case greater: binary([](Int a, Int b) { return a > b; }); break;
                case greater_equal: binary([](Int a, Int b) { return a >= b; }); break;
                case equal: binary([](Int a, Int b) { return a == b; }); break;
                case not_equal: binary([](Int a, Int b) { return a != b; }); break;
                case minimum: binary([](Int a, Int b) { return min(a, b); }); break;
                case maximum: binary([](Int a, Int b) { return max(a, b); }); break;
                case Operation::cdiv: binary([](Int a, Int b) { return -(-a / b); }); break;
                case store_pointer: store(base + x[1], args[x[0]].data); break;
                case store_integer: store_bytes(base + x[1], args[x[0]].integer, x[2]); break;
                case store_real:
                    if (x[2] == sizeof(float)) store(base + x[1], float(args[x[0]].real));
                    else store(base + x[1], args[x[0]].real);
                    break;
                case store_presence: store(base + x[1], args[x[0]].present != 0); break;
                case store_count: store_bytes(base + x[1], args[x[0]].extents[0], x[2]); break;
                case store_layout:
                    store(base + x[1], args[x[0]].data);
                    store_padded(base + x[2], args[x[0]]);
                    break;
                case store_padded_extents: store_padded(base + x[1], args[x[0]]); break;
                case store_extents:
                    for (int64_t dim = 0; dim < x[2]; ++dim) store(base + x[1] + 4 * dim, int(args[x[0]].extents[dim]));
                    break;
                case store_strides: std::memcpy(base + x[1], args[x[0]].strides, sizeof(int64_t) * size_t(x[2])); break;
                case store_pointers: {
                    const TkjitParallel& parallel = parallel_of(args[x[0]]);
                    std::memcpy(base + x[1], parallel.data, sizeof(void*) * size_t(parallel.count));
                    break;
                }
                case store_multicast_pointer: store(base + x[1], parallel_of(args[x[0]]).multicast); break;
                case store_device_count: store_bytes(base + x[1], parallel_of(args[x[0]]).count, x[2]); break;
                case store_computed: {
                    const Int value = pop();
                    if (const char* const error = check_integer_of(value, x[1], x[2], text(x[3]))) return error;
                    store_bytes(base + x[0], value.value(), x[1]);
                    break;
                }
                case check_integer:
                    if (const char* const error = check_integer_of(args[x[0]].integer, x[1], x[2], text(x[3]))) return error;
                    break;
                case each: {
                    const TkjitArg& list = args[x[0]];
                    for (int64_t i = 0; i < list.extents[0]; ++i) {  // the glue has rejected longer lists
                        char* const item = base + x[1] + i * x[2];
                        if (const char* const error = execute(run, at, at + x[3], &items_of(list)[i], item)) return error;
                    }
                    at += x[3];
                    break;
                }
                case grid: {
                    top -= x[0];
                    shape.set_grid(top[0], x[0] > 1 ? top[1] : Int(1), x[0] > 2 ? top[2] : Int(1));
                    break;
                }
                case block: {
                    top -= x[0];
                    shape.set_block(top[0], x[0] > 1 ? top[1] : Int(1), x[0] > 2 ? top[2] : Int(1));
                    break;
                }
                case shared_memory: shape.set_shared_memory(pop()); break;
                case cluster: shape.cluster = dim3(unsigned(x[0]), unsigned(x[1]), unsigned(x[2])); break;
                case overlaps: shape.overlaps = true; break;
                case cooperative: shape.cooperative = true; break;
                case Operation::check_blocks: tkjit::check_blocks(shape, pop().value() != 0, text(x[0])); break;
                case count: break;
            }
        }
        return nullptr;
    }

    template <class T>
    static void store(char* to, const T& value) {
        std::memcpy(to, &value, sizeof value);
    }
    static void store_padded(char* to, const TkjitArg& tensor) {
        int extents[4];
        for (int axis = 0; axis < 4; ++axis) extents[axis] = int(tkjit::padded_extent(tensor, axis));
        store(to, extents);
    }
    // Stores the lowest bytes of an integer.
    static void store_bytes(char* to, int64_t value, int64_t bytes) { std::memcpy(to, &value, size_t(bytes)); }

    static const char* check_integer_of(Int value, int64_t bytes, int64_t is_signed, const char* name) {
        switch (is_signed ? bytes : -bytes) {
            case 1: return check_computed<int8_t>(value, name);
            case 2: return check_computed<int16_t>(value, name);
            case 4: return check_computed<int32_t>(value, name);
            case 8: return check_computed<int64_t>(value, name);
            case -1: return check_computed<uint8_t>(value, name);
            case -2: return check_computed<uint16_t>(value, name);
            case -4: return check_computed<uint32_t>(value, name);
            default: return check_computed<uint64_t>(value, name);
        }
    }

    const char* text(int64_t index) const { return texts_[size_t(index)].c_str(); }

    driver::CubinKernel kernel_;
    const std::vector<int64_t> words_;
    const std::vector<std::string> texts_;
    const std::vector<int64_t> parameters_;
    const int64_t bytes_;
};

}  // namespace tkjit::runtime
