// torch's own header, with other registration macros. In a launcher they register nothing. Elsewhere they record the
// error of a block that cannot be registered; torch's own macros would end the process.
#pragma once

#include_next <torch/csrc/stable/library.h>

#undef STABLE_TORCH_LIBRARY
#undef STABLE_TORCH_LIBRARY_IMPL
#undef STABLE_TORCH_LIBRARY_FRAGMENT

#ifdef TKJIT_TORCH_IN_KERNEL
#define STABLE_TORCH_LIBRARY(name, variable) TKJIT_TORCH_UNUSED(name##_library, variable)
#define STABLE_TORCH_LIBRARY_IMPL(name, key, variable) TKJIT_TORCH_UNUSED(name##_##key, variable)
#define STABLE_TORCH_LIBRARY_FRAGMENT(name, variable) TKJIT_TORCH_UNUSED(name##_fragment, variable)
#else

#include <tkjit/torch/registrations.h>

namespace tkjit {
inline namespace torch_stand_in {

using StableLibrary = torch::stable::detail::StableLibrary;

struct StableLibraryInit {
    StableLibraryInit(StableLibrary::Kind kind, void (*define)(StableLibrary&), const char* space, const char* key, const char* file,
                      uint32_t line) {
        key = key_in_process(key);
        try {
            check(kind, space, key, file, line);
            auto* const library = new StableLibrary(kind, space, key, file, line);
            registrations().undo.push_back([library] { delete library; });
            define(*library);
        } catch (const std::exception& error) {
            if (registrations().error.empty()) registrations().error = error.what();
        }
    }

private:
    /// Throws if torch rejects the block, because the constructor of StableLibrary does not check.
    static void check(StableLibrary::Kind kind, const char* space, const char* key, const char* file, uint32_t line) {
        TorchLibraryHandle made = nullptr;
        if (kind == StableLibrary::Kind::IMPL) TORCH_ERROR_CODE_CHECK(aoti_torch_library_init_impl(space, key, file, line, &made));
        if (kind == StableLibrary::Kind::DEF) TORCH_ERROR_CODE_CHECK(aoti_torch_library_init_def(space, file, line, &made));
        if (kind == StableLibrary::Kind::FRAGMENT) TORCH_ERROR_CODE_CHECK(aoti_torch_library_init_fragment(space, file, line, &made));
        aoti_torch_delete_library_object(made);
    }
};

}  // inline namespace torch_stand_in
}  // namespace tkjit

#ifdef TKJIT_TORCH_WITHOUT_OPERATORS
#define TKJIT_TORCH_REGISTER_STABLE(kind, space, key, variable, number) TKJIT_TORCH_NOT_REGISTERED(variable, number)
#else
#define TKJIT_TORCH_REGISTER_STABLE(kind, space, key, variable, number)                                           \
    static void TKJIT_TORCH_UNIQUE(tkjit_register_, number)(torch::stable::detail::StableLibrary&);               \
    static const tkjit::StableLibraryInit TKJIT_TORCH_UNIQUE(tkjit_registered_, number)(                          \
        tkjit::StableLibrary::Kind::kind, &TKJIT_TORCH_UNIQUE(tkjit_register_, number), space, key, __FILE__, __LINE__); \
    static void TKJIT_TORCH_UNIQUE(tkjit_register_, number)([[maybe_unused]] torch::stable::detail::StableLibrary & variable)
#endif
#define STABLE_TORCH_LIBRARY(space, variable) TKJIT_TORCH_REGISTER_STABLE(DEF, C10_STRINGIZE(space), nullptr, variable, __COUNTER__)
#define STABLE_TORCH_LIBRARY_FRAGMENT(space, variable) TKJIT_TORCH_REGISTER_STABLE(FRAGMENT, C10_STRINGIZE(space), nullptr, variable, __COUNTER__)
#define STABLE_TORCH_LIBRARY_IMPL(space, key, variable) TKJIT_TORCH_REGISTER_STABLE(IMPL, C10_STRINGIZE(space), C10_STRINGIZE(key), variable, __COUNTER__)

#endif  // TKJIT_TORCH_IN_KERNEL
