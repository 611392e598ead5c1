// TORCH_LIBRARY, TORCH_LIBRARY_IMPL and TORCH_LIBRARY_FRAGMENT for functions of at::Tensor, through torch's stable C ABI.
#pragma once

namespace torch {
inline namespace tkjit_stand_in {

/// The base of classes that torch's own ``class_`` binds. Here it is an ordinary class for pybind11's ``class_``.
struct CustomClassHolder {
    virtual ~CustomClassHolder() = default;
};

}  // inline namespace tkjit_stand_in
}  // namespace torch

#ifdef TKJIT_TORCH_IN_KERNEL
#include "no_module.h"
#else

#include "boxed.h"
#include "dict.h"
#include "dispatcher.h"
#include "python_operators.h"
#include "registrations.h"
#ifdef TKJIT_SIM
#include <cuda_runtime.h>
#endif

namespace torch {
inline namespace tkjit_stand_in {

using c10::DispatchKey;

/// The registrations of one block in a source.
class Library {
public:
    enum Kind { DEF, IMPL, FRAGMENT };

    Library(Kind kind, const char* space, const char* key, const char* file, uint32_t line)
        : space_(space), key_(key ? tkjit::key_in_process(key) : ""), file_(file), line_(line) {
        c10::require_torch();
        TorchLibraryOpaque* made = nullptr;
        const AOTITorchError failed = kind == IMPL  ? aoti_torch_library_init_impl(space, tkjit::key_in_process(key), file, line, &made)
                                      : kind == DEF ? aoti_torch_library_init_def(space, file, line, &made)
                                                    : aoti_torch_library_init_fragment(space, file, line, &made);
        c10::check_call(failed, "TORCH_LIBRARY");
        made_.push_back(made);
    }
    Library(const Library&) = delete;
    void withdraw() {
        while (!made_.empty()) {
            aoti_torch_delete_library_object(made_.back());
            made_.pop_back();
        }
        in_python_.clear();
    }

    Library& def(const char* schema) {
        c10::check_call(aoti_torch_library_def(made_.front(), schema), schema);
        return *this;
    }
    /// Defines an operator for all devices. If ``schema`` is only a name, the schema is inferred from the function.
    template <class R, class... A>
    Library& def(const char* schema, R (*function)(A...)) {
        const std::string given = schema;
        const std::string name = given.substr(0, given.find('('));
        if (name == given)
            in_python_.push_back(std::make_unique<PythonLibrary>(space_, c10::Boxed<R(A...)>::schema(name)));
        else def(schema);
        return impl(name.c_str(), DispatchKey::CompositeImplicitAutograd, function);
    }
    template <class R, class... A>
    Library& impl(const char* name, R (*function)(A...)) {
        if constexpr (c10::NeedsPython<std::tuple<std::decay_t<R>, std::decay_t<A>...>>::value)
            return implement_in_python(key_.c_str(), name, function);
        else return implement(made_.front(), name, function);
    }
    template <class Key, class R, class... A>
    Library& impl(const char* name, Key key, R (*function)(A...)) {
        const char* const in_process = tkjit::key_in_process(c10::name_of(key));
        if constexpr (c10::NeedsPython<std::tuple<std::decay_t<R>, std::decay_t<A>...>>::value) {
            return implement_in_python(in_process, name, function);
        } else {
            TorchLibraryOpaque* made = nullptr;
            c10::check_call(aoti_torch_library_init_impl(space_.c_str(), in_process, file_, line_, &made), name);
            made_.push_back(made);
            return implement(made, name, function);
        }
    }
    template <class Lambda>
    auto def(const char* schema, const Lambda& lambda) -> decltype(+lambda, std::declval<Library&>()) {
        return def(schema, +lambda);
    }
    template <class Lambda>
    auto impl(const char* name, const Lambda& lambda) -> decltype(+lambda, std::declval<Library&>()) {
        return impl(name, +lambda);
    }

private:
    template <class R, class... A>
    Library& implement(TorchLibraryOpaque* in, const char* name, R (*function)(A...)) {
        const c10::BoxedFunction boxed = c10::Boxed<R(A...)>::of(function);
        c10::check_call(torch_library_impl(in, name, boxed, TORCH_ABI_VERSION), name);
        return note(name, c10::Boxed<R(A...)>::schema("f"));
    }
    /// Registers a function with types that the C ABI cannot pass.
    template <class R, class... A>
    Library& implement_in_python(const char* key, const char* name, R (*function)(A...)) {
        in_python_.push_back(std::make_unique<PythonLibrary>(space_, key, name, function));
        return note(name, c10::Boxed<R(A...)>::schema("f"));
    }
    Library& note(const char* name, const std::string& schema) {
        const std::string whole = std::string(name).find("::") == std::string::npos ? space_ + "::" + name : name;
        tkjit::registrations().functions += whole + " " + schema + "\n";
        return *this;
    }

    const std::string space_, key_;
    const char* const file_;
    const uint32_t line_;
    std::vector<TorchLibraryOpaque*> made_;
    std::vector<std::unique_ptr<PythonLibrary>> in_python_;
};

/// The predecessor of TORCH_LIBRARY: ``RegisterOperators().op("space::name", &function)``.
class RegisterOperators {
public:
    RegisterOperators() = default;
    template <class F>
    RegisterOperators(const std::string& schema, F function) {
        op(schema, function);
    }
    template <class F>
    RegisterOperators& op(const std::string& schema, F function) & {
        add(schema, function);
        return *this;
    }
    template <class F>
    RegisterOperators&& op(const std::string& schema, F function) && {
        add(schema, function);
        return std::move(*this);
    }

private:
    template <class F>
    static void add(const std::string& schema, F function) {
        try {
            const size_t colon = schema.find("::");
            TORCH_CHECK(colon != std::string::npos, "RegisterOperators: ", schema, " has no namespace");
            auto* const library = new Library(Library::FRAGMENT, schema.substr(0, colon).c_str(), nullptr, __FILE__, __LINE__);
            tkjit::registrations().undo.push_back([library] { library->withdraw(); });
            library->def(schema.substr(colon + 2).c_str(), function);
        } catch (const std::exception& error) {
            tkjit::fail_registration(schema.c_str(), error);
        }
    }
};

struct LibraryInit {
    LibraryInit(Library::Kind kind, void (*define)(Library&), const char* space, const char* key, const char* file, uint32_t line) {
        try {
            auto* const library = new Library(kind, space, key, file, line);
            tkjit::registrations().undo.push_back([library] { library->withdraw(); });
            define(*library);
        } catch (const std::exception& error) {
            tkjit::fail_registration(file, error);
        }
    }
};

}  // inline namespace tkjit_stand_in
}  // namespace torch

#ifdef TKJIT_TORCH_WITHOUT_OPERATORS
#define TKJIT_TORCH_REGISTER(kind, space, key, variable, number) TKJIT_TORCH_NOT_REGISTERED(variable, number)
#else
#define TKJIT_TORCH_REGISTER(kind, space, key, variable, number)                                                     \
    static void TKJIT_TORCH_UNIQUE(tkjit_register_, number)(torch::Library&);                                        \
    static const torch::LibraryInit TKJIT_TORCH_UNIQUE(tkjit_registered_, number)(                                   \
        torch::Library::kind, &TKJIT_TORCH_UNIQUE(tkjit_register_, number), space, key, __FILE__, __LINE__);          \
    static void TKJIT_TORCH_UNIQUE(tkjit_register_, number)([[maybe_unused]] torch::Library & variable)
#endif
#define TORCH_LIBRARY(space, variable) TKJIT_TORCH_REGISTER(DEF, #space, nullptr, variable, __COUNTER__)
#define TORCH_LIBRARY_FRAGMENT(space, variable) TKJIT_TORCH_REGISTER(FRAGMENT, #space, nullptr, variable, __COUNTER__)
#define TORCH_LIBRARY_IMPL(space, key, variable) \
    TKJIT_TORCH_REGISTER(IMPL, #space, #key, variable, __COUNTER__)
#define TORCH_FN(function) (&function)

#endif  // TKJIT_TORCH_IN_KERNEL
