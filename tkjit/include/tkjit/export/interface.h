// Checks that a library matches the headers that a program was compiled with.
#pragma once

#include <tkjit/export/errors.h>

#include <string>
#include <string_view>

namespace tkjit::exported {

// `own` and `wanted` are lists of words such as "gemm=1f0c9a": one for each function as the header declares it, and one
// for the version of the common interface. The library must have all words that the program wants.
inline tkjit_error check_interface(const char* library, std::string_view own, const char* wanted) noexcept {
    return without_exceptions([&]() -> tkjit_error {
        const std::string who = std::string(library) + ": ";
        if (!wanted) return make_error(TKJIT_ARGUMENT_ERROR, who + "the interface is null");
        const std::string has = " " + std::string(own) + " ";
        std::string_view left = wanted;
        while (!left.empty()) {
            const std::string_view word = left.substr(0, left.find(' '));
            left.remove_prefix(word.size() + (word.size() < left.size()));
            if (word.empty() || has.find(" " + std::string(word) + " ") != std::string::npos) continue;
            const std::string name(word.substr(0, word.find('=')));
            const bool is_there = has.find(" " + name + "=") != std::string::npos;
            return make_error(TKJIT_ARGUMENT_ERROR, who + (is_there ? "the program was compiled for another " + name + " than this library has"
                                                                    : "this library has no " + name + ", for which the program was compiled") +
                                                        "; compile it again with the headers next to the library");
        }
        return nullptr;
    });
}

}  // namespace tkjit::exported
