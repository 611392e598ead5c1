// The errors of an export: texts on the heap, with their kind in front.
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

// In front of each text. Whichever library made it, another of this version may free it.
struct ErrorHeader {
    uint32_t kind;
    uint32_t is_on_heap;
};

// For the error that no memory is left for.
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

// An error with its kind, on its way to where it becomes a text.
class Error : public std::runtime_error {
public:
    Error(int kind, const std::string& text) : std::runtime_error(text), kind(kind) {}
    const int kind;
};

// Calls what returns an error, or throws: no exception may reach C.
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
