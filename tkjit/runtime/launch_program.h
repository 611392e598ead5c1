// Runs launch programs: descriptions of a launch, made by tkjit/render/launch_program.py, that need no compiler.
//
// A program is a sequence of words: operations, each followed by its operands. Operations compute integers on a stack,
// fill the kernel's parameters from the call's arguments, and set the shape of the launch. There are no jumps, so one
// pass over a program, when it is opened, checks all of its indices and offsets.
#pragma once

#include "driver_launch.h"

#include <tkjit/arg.h>
#include <tkjit/convert.h>
#include <tkjit/expr.h>
#include <tkjit/launch_shape.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tkjit::runtime {

// Each operation: its name, the number of its operands, and how many integers it takes from the stack and puts there.
// An operand `arg` is an argument's index, `offset` one in the parameters, `text` the index of an error message's text.
#define TKJIT_OPERATIONS(X) \
    X(number, 1, 0, 1)                    /* value */ \
    X(local, 1, 0, 1)                     /* index */ \
    X(set_local, 1, 1, 0)                 /* index */ \
    X(integer, 1, 0, 1)                   /* arg */ \
    X(extent, 2, 0, 1)                    /* arg, dim */ \
    X(extent_from_end, 2, 0, 1)           /* arg, dims from the end */ \
    X(extent_of_first, 2, 0, 1)           /* arg, dim; of the first tensor that a list has */ \
    X(extent_from_end_of_first, 2, 0, 1)  /* arg, dims from the end */ \
    X(stride, 2, 0, 1)                    /* arg, dim */ \
    X(padded_extent, 2, 0, 1)             /* arg, axis */ \
    X(numel, 1, 0, 1)                     /* arg */ \
    X(device_index, 1, 0, 1)              /* arg */ \
    X(device_count, 1, 0, 1)              /* arg */ \
    X(add, 0, 2, 1) \
    X(subtract, 0, 2, 1) \
    X(multiply, 0, 2, 1) \
    X(divide, 0, 2, 1) \
    X(remainder, 0, 2, 1) \
    X(negate, 0, 1, 1) \
    X(less, 0, 2, 1) \
    X(less_equal, 0, 2, 1) \
    X(greater, 0, 2, 1) \
    X(greater_equal, 0, 2, 1) \
    X(equal, 0, 2, 1) \
    X(not_equal, 0, 2, 1) \
    X(minimum, 0, 2, 1) \
    X(maximum, 0, 2, 1) \
    X(cdiv, 0, 2, 1) \
    X(store_pointer, 2, 0, 0)             /* arg, offset */ \
    X(store_integer, 3, 0, 0)             /* arg, offset, bytes */ \
    X(store_real, 3, 0, 0)                /* arg, offset, bytes */ \
    X(store_presence, 2, 0, 0)            /* arg, offset */ \
    X(store_count, 3, 0, 0)               /* arg, offset, bytes */ \
    X(store_layout, 3, 0, 0)              /* arg, offset of the pointer, offset of the four extents */ \
    X(store_padded_extents, 2, 0, 0)      /* arg, offset */ \
    X(store_extents, 3, 0, 0)             /* arg, offset, rank */ \
    X(store_strides, 3, 0, 0)             /* arg, offset, rank */ \
    X(store_pointers, 2, 0, 0)            /* arg, offset */ \
    X(store_multicast_pointer, 2, 0, 0)   /* arg, offset */ \
    X(store_device_count, 3, 0, 0)        /* arg, offset, bytes */ \
    X(store_computed, 4, 1, 0)            /* offset, bytes, is signed, text */ \
    X(check_integer, 4, 0, 0)             /* arg, bytes, is signed, text */ \
    X(each, 4, 0, 0)                      /* arg, offset, item's bytes, words that follow and are run for each item */ \
    X(grid, 1, -1, 0)                     /* number of dims */ \
    X(block, 1, -1, 0)                    /* number of dims */ \
    X(shared_memory, 0, 1, 0) \
    X(cluster, 3, 0, 0)                   /* x, y, z */ \
    X(overlaps, 0, 0, 0) \
    X(cooperative, 0, 0, 0) \
    X(check_blocks, 1, 1, 0)              /* text; takes 0 if a tensor has no elements */

enum class Operation : int64_t {
#define X(name, operands, takes, puts) name,
    TKJIT_OPERATIONS(X)
#undef X
    count
};
struct OperationShape {
    const char* name;
    int operands, takes, puts;  // takes is -1 if the first operand is the number
};
inline constexpr OperationShape operation_shapes[] = {
#define X(name, operands, takes, puts) {#name, operands, takes, puts},
    TKJIT_OPERATIONS(X)
#undef X
};

// A launcher whose device code is a cubin and whose host code is a launch program.
class ProgramLauncher : public TkjitLauncher {
public:
    // `parameters` has the offset of each of the kernel's parameters in a block of `bytes` bytes; `arguments` is the number
    // of arguments that a launch passes. Throws std::invalid_argument if the program could access other memory.
    ProgramLauncher(driver::CubinKernel&& kernel, std::vector<int64_t> words, std::vector<std::string> texts,
                    std::vector<int64_t> parameters, int64_t bytes, int64_t arguments)
        : TkjitLauncher{launch_program}, kernel_(std::move(kernel)), words_(std::move(words)), texts_(std::move(texts)),
          parameters_(std::move(parameters)), bytes_(bytes), arguments_(arguments) {
        if (bytes < 0 || bytes > max_bytes) fail("it has too many parameters");
        for (const int64_t offset : parameters_)
            if (offset < 0 || offset >= bytes) fail("a parameter is outside of the block");
        if (parameters_.size() > max_parameters) fail("it has too many parameters");
        check(0, int64_t(words_.size()), arguments_, bytes_);
    }

private:
    static constexpr int64_t max_bytes = 32764;  // the driver's limit
    static constexpr size_t max_parameters = 1024;
    static constexpr int stack_size = 32, max_locals = 128;

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

    [[noreturn]] static void fail(const char* reason) {
        throw std::invalid_argument(std::string("the launch program cannot be run: ") + reason);
    }

    static const char* launch_program(const TkjitLauncher* self, const TkjitArg* args, int32_t device, void* stream) {
        return const_cast<ProgramLauncher*>(static_cast<const ProgramLauncher*>(self))->launch_with(args, device, stream);
    }

    const char* launch_with(const TkjitArg* args, int32_t device, void* stream) {
        alignas(128) char block[max_bytes + 4];
        void* pointers[max_parameters + 1];
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

    // Checks the operations between two words for `arguments` arguments and parameters of `bytes` bytes.
    void check(int64_t at, int64_t end, int64_t arguments, int64_t bytes) const {
        int depth = 0;
        while (at < end) {
            const int64_t code = words_[size_t(at++)];
            if (code < 0 || code >= int64_t(Operation::count)) fail("it has an unknown operation");
            const OperationShape& known = operation_shapes[code];
            if (at + known.operands > end) fail("it ends within an operation");
            const int64_t* const x = &words_[size_t(at)];
            at += known.operands;
            const auto operation = static_cast<Operation>(code);
            check_operands(operation, x, arguments, bytes);
            depth -= known.takes < 0 ? int(x[0]) : known.takes;
            if (depth < 0) fail("it takes more integers than it has");
            depth += known.puts;
            if (depth > stack_size) fail("an expression in it is too deep");
            if (operation == Operation::each) {
                if (x[3] < 0 || at + x[3] > end) fail("it ends within a list");
                check(at, at + x[3], 1, x[2]);
                at += x[3];
            }
        }
        if (depth != 0) fail("it leaves integers on the stack");
    }

    void check_operands(Operation operation, const int64_t* x, int64_t arguments, int64_t bytes) const {
        const auto within = [](int64_t value, int64_t limit, const char* what) {
            if (value < 0 || value >= limit) fail(what);
        };
        const auto arg = [&](int64_t index) { within(index, arguments, "it uses an argument that a call does not pass"); };
        const auto place = [&](int64_t offset, int64_t size) {
            if (size <= 0 || offset < 0 || size > bytes || offset > bytes - size) fail("it writes outside of the parameters");
        };
        const auto size = [](int64_t value) {
            if (value != 1 && value != 2 && value != 4 && value != 8) fail("it has an integer of an unknown size");
        };
        const auto message = [&](int64_t index) { within(index, int64_t(texts_.size()), "it has no such text"); };
        switch (operation) {
            using enum Operation;
            case local:
            case set_local: within(x[0], max_locals, "it has too many names"); break;
            case extent:
            case extent_of_first:
            case stride: arg(x[0]), within(x[1], TKJIT_MAX_RANK, "it uses a dim that no tensor has"); break;
            case extent_from_end:
            case extent_from_end_of_first: arg(x[0]), within(x[1] - 1, TKJIT_MAX_RANK, "it uses a dim that no tensor has"); break;
            case padded_extent: arg(x[0]), within(x[1], 4, "it uses an axis that no layout has"); break;
            case integer:
            case numel:
            case device_index:
            case device_count: arg(x[0]); break;
            case store_pointer:
            case store_multicast_pointer: arg(x[0]), place(x[1], sizeof(void*)); break;
            case store_integer:
            case store_count:
            case store_device_count: arg(x[0]), size(x[2]), place(x[1], x[2]); break;
            case store_real:
                arg(x[0]), place(x[1], x[2]);
                if (x[2] != sizeof(float) && x[2] != sizeof(double)) fail("it has a float of an unknown size");
                break;
            case store_presence: arg(x[0]), place(x[1], 1); break;
            case store_layout: arg(x[0]), place(x[1], sizeof(void*)), place(x[2], 4 * sizeof(int)); break;
            case store_padded_extents: arg(x[0]), place(x[1], 4 * sizeof(int)); break;
            case store_extents:
            case store_strides: {
                const int64_t item = operation == store_extents ? sizeof(int) : sizeof(int64_t);
                arg(x[0]), within(x[2] - 1, TKJIT_MAX_RANK, "it uses a dim that no tensor has"), place(x[1], item * x[2]);
                break;
            }
            case store_pointers: arg(x[0]), place(x[1], sizeof(void*) * kMaxParallelDevices); break;
            case store_computed: size(x[1]), place(x[0], x[1]), message(x[3]); break;
            case check_integer: arg(x[0]), size(x[1]), message(x[3]); break;
            case each: arg(x[0]), place(x[1], x[2]); break;
            case grid:
            case block: within(x[0] - 1, 3, "it has more than three dims"); break;
            case Operation::check_blocks: message(x[0]); break;
            default: break;
        }
    }

    driver::CubinKernel kernel_;
    const std::vector<int64_t> words_;
    const std::vector<std::string> texts_;
    const std::vector<int64_t> parameters_;
    const int64_t bytes_, arguments_;
};

}  // namespace tkjit::runtime
