// The state of a call in an export: its error, and memory that lives until the call ends.
#pragma once

#include <tkjit/call/checks.h>
#include <tkjit/call/overlap.h>
#include <tkjit/export/memory.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

namespace tkjit::exported {

// Memory for the values of one call: the items of lists.
class Values {
public:
    Values() = default;
    Values(const Values&) = delete;
    Values& operator=(const Values&) = delete;
    ~Values() {
        while (last_) {
            Block* const before = last_->before;
            std::free(last_);
            last_ = before;
        }
    }
    // Returns zeroed memory.
    template <class T>
    T* make(size_t count) {
        auto* const block = static_cast<Block*>(std::calloc(1, sizeof(Block) + count * sizeof(T)));
        if (!block) throw std::bad_alloc();
        block->before = last_;
        last_ = block;
        return reinterpret_cast<T*>(block + 1);
    }

private:
    struct alignas(16) Block {
        Block* before;
    };
    Block* last_ = nullptr;
};

// Whether the library is part of a torch extension. Messages then also suggest a torch function that helps.
#ifdef TKJIT_EXPORT_TORCH
inline constexpr bool is_for_torch = true;
#else
inline constexpr bool is_for_torch = false;
#endif

struct Call {
    const char* kernel;
    void* stream;
    bool asks = false;  // the call only computes the shapes of the outputs
    mutable tkjit_error error = nullptr;
    Values values{};

    static constexpr bool quiet = false;

    // The functions that tkjit/call/checks.h needs.
    static bool overlap(const TensorView& view, const TensorView& other) { return tkjit::overlap(view, other); }
    static bool overlaps_itself(const TensorView& view) { return tkjit::overlaps_itself(view); }
    void fail(int kind, const std::string& text) const {
        if (!error) error = make_error(kind, text);
    }
    [[gnu::format(printf, 3, 4)]] void refuse(Refusal kind, const char* format, ...) const {
        va_list arguments, again;
        va_start(arguments, format);
        va_copy(again, arguments);
        std::string text(size_t(std::vsnprintf(nullptr, 0, format, arguments)), '\0');
        std::vsnprintf(text.data(), text.size() + 1, format, again);
        va_end(again);
        va_end(arguments);
        fail(int(kind), std::string(kernel) + ": " + text);
    }
    void refuse_mismatch(const TensorView& view, const Expected& expected) const {
        const bool dtype = texts::is_of_other_dtype(view, expected);
        const std::string why = dtype ? "" : texts::differing_extent(view, expected);
        const std::string remedy = is_for_torch ? texts::remedy(view, expected, dtype, texts::Framework::torch) : "";
        refuse_other(dtype ? TKJIT_ARGUMENT_ERROR : TKJIT_SHAPE_ERROR, view, texts::mismatch(expected) + why + remedy);
    }
    void refuse_device(const TensorView& view, const TensorView& other) const {
        const std::string where = texts::place(other.device_type, other.device);
        refuse_other(TKJIT_ARGUMENT_ERROR, view, where + ", where " + other.name + " is" + (is_for_torch ? texts::moved(view, where) : ""));
    }
    void refuse_place(const TensorView& view, const TensorView& on) const {
        refuse_other(TKJIT_ARGUMENT_ERROR, view, texts::place(on.device_type, on.device));
    }
    void refuse_constraint(const char* text, const char* how, const Dim* numbers, int count) const {
        fail(TKJIT_SHAPE_ERROR, texts::constraint(kernel, text, how, numbers, count));
    }

private:
    void refuse_other(int kind, const TensorView& view, const std::string& expected) const;
};

inline void Call::refuse_other(int kind, const TensorView& view, const std::string& expected) const {
    fail(kind, texts::wrong(kernel, view.name, text_of(*static_cast<const tkjit_tensor*>(view.object)), expected));
}

inline bool refuse_object(const Call& call, const char* name, const std::string& what, const char* expected) {
    call.fail(TKJIT_ARGUMENT_ERROR, texts::wrong(call.kernel, name, what, expected));
    return false;
}

}  // namespace tkjit::exported
