// The operations of launch programs, and the checks that a program is safe to run.
//
// A program is a sequence of words: operations, each followed by its operands. Operations compute integers on a stack,
// fill the kernel's parameters from the call's arguments, and set the shape of the launch. There are no jumps, so one
// pass over a program, when it is opened, checks all of its indices and offsets.
#pragma once

#include "table.h"

#include <tkjit/arg.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

// The reason for this pragma is in runtime.cpp.
#pragma GCC push_options
#pragma GCC optimize("Og")

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

inline constexpr int64_t max_parameter_bytes = 32764;  // the driver's limit
inline constexpr size_t max_parameters = 1024;
inline constexpr int stack_size = 32, max_locals = 128;

// A launch program, and what the launches of its kernel have.
struct Program {
    const std::vector<int64_t>& words;
    size_t texts;                            // the number of texts for error messages
    const std::vector<int64_t>& parameters;  // the offset of each parameter of the kernel
    int64_t bytes;                           // of all parameters
    int64_t arguments;                       // the number of arguments of a launch
};

class ProgramChecker {
public:
    explicit ProgramChecker(const Program& program) : program_(program) {}

    void check() const {
        if (program_.bytes < 0 || program_.bytes > max_parameter_bytes || program_.parameters.size() > max_parameters)
            fail("it has too many parameters");
        for (const int64_t offset : program_.parameters)
            if (offset < 0 || offset >= program_.bytes) fail("a parameter is outside of the block");
        check_range(0, int64_t(program_.words.size()), program_.arguments, program_.bytes);
    }

private:
    [[noreturn]] static void fail(const char* reason) {
        throw std::invalid_argument(std::string("the launch program cannot be run: ") + reason);
    }

    // Checks the operations between two words for `arguments` arguments and parameters of `bytes` bytes.
    void check_range(int64_t at, int64_t end, int64_t arguments, int64_t bytes) const {
        int depth = 0;
        while (at < end) {
            const int64_t code = program_.words[size_t(at++)];
            if (code < 0 || code >= int64_t(Operation::count)) fail("it has an unknown operation");
            const OperationShape& known = operation_shapes[code];
            if (at + known.operands > end) fail("it ends within an operation");
            const int64_t* const x = &program_.words[size_t(at)];
            at += known.operands;
            const auto operation = static_cast<Operation>(code);
            check_operands(operation, x, arguments, bytes);
            depth -= known.takes < 0 ? int(x[0]) : known.takes;
            if (depth < 0) fail("it takes more integers than it has");
            depth += known.puts;
            if (depth > stack_size) fail("an expression in it is too deep");
            if (operation == Operation::each) {
                if (x[3] < 0 || at + x[3] > end) fail("it ends within a list");
                check_range(at, at + x[3], 1, x[2]);
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
        const auto message = [&](int64_t index) { within(index, int64_t(program_.texts), "it has no such text"); };
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

    const Program& program_;
};

// Throws std::invalid_argument if the program could access other memory than its own.
inline void check_program(const Program& program) { ProgramChecker(program).check(); }

}  // namespace tkjit::runtime

#pragma GCC pop_options
