// The errors of an export: texts on the heap, preceded by their kind.
#pragma once

#include <tkjit/call/checks.h>
#include <tkjit/export/tensors.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace tkjit::exported {

// Precedes each text. Any library of this version can free an error, whichever library made it.
struct ErrorHeader {
    uint32_t kind;
    uint32_t is_on_heap;
};

// The error for when no memory is left to make one.
inline struct {
    ErrorHeader header{TKJIT_MEMORY_ERROR, false};
    char text[16] = "out of memory";
} out_of_memory;

inline ErrorHeader& header_of(tkjit_error error) { return reinterpret_cast<ErrorHeader*>(error)[-1]; }

inline tkjit_error make_error(int kind, const char* text) noexcept {
    const size_t size = std::strlen(text) + 1;
    auto* const header = static_cast<ErrorHeader*>(std::malloc(sizeof(ErrorHeader) + size));
    if (!header) return out_of_memory.text;
    *header = {uint32_t(kind), true};
    return static_cast<char*>(std::memcpy(header + 1, text, size));
}
inline tkjit_error make_error(int kind, const std::string& text) noexcept { return make_error(kind, text.c_str()); }

// An exception with the kind of the error that it becomes.
class Error : public std::runtime_error {
public:
    Error(int kind, const std::string& text) : std::runtime_error(text), kind(kind) {}
    const int kind;
};

// Calls `body` and turns exceptions into errors, because no exception may reach C.
template <class Body>
tkjit_error without_exceptions(Body&& body) noexcept {
    try {
        return body();
    } catch (const Error& error) {
        return make_error(error.kind, error.what());
    } catch (const std::bad_alloc&) {
        return out_of_memory.text;
    } catch (const std::exception& error) {
        return make_error(TKJIT_LAUNCH_ERROR, error.what());
    }
}

}  // namespace tkjit::exported

extern "C" {
TKJIT_EXPORT int tkjit_error_kind(tkjit_error error) { return error ? int(tkjit::exported::header_of(error).kind) : 0; }
TKJIT_EXPORT tkjit_error tkjit_error_new(int kind, const char* text) {
    return tkjit::exported::make_error(kind, text ? text : "an error without a text");
}
TKJIT_EXPORT void tkjit_free_error(tkjit_error error) {
    if (error && tkjit::exported::header_of(error).is_on_heap) std::free(&tkjit::exported::header_of(error));
}
}
