// Wraps functions so that torch's dispatcher can call them through its stable C ABI. Arguments and results are
// StableIValues.
#pragma once

#include "launches.h"
#include "tensor.h"

#include <cstring>

namespace c10 {
inline namespace tkjit_stand_in {

/// The results of a function: none, one, or a tuple.
template <class R>
struct Results {
    static constexpr size_t count = 1;
    static std::string names() { return Passed<R>::name(); }
    static void give(const R& result, StableIValue* stack) { stack[0] = Passed<R>::give(result); }
};
template <class... R>
struct Results<std::tuple<R...>> {
    static constexpr size_t count = sizeof...(R);
    static std::string names() {
        std::string listed;
        int none[] = {0, (void(listed += (listed.empty() ? "" : ", ") + Passed<std::decay_t<R>>::name()), 0)...};
        (void)none;
        return "(" + listed + ")";
    }
    static void give(const std::tuple<R...>& results, StableIValue* stack) {
        give(results, stack, std::index_sequence_for<R...>());
    }

private:
    template <size_t... i>
    static void give(const std::tuple<R...>& results, StableIValue* stack, std::index_sequence<i...>) {
        int none[] = {0, (void(stack[i] = Passed<std::decay_t<R>>::give(std::get<i>(results))), 0)...};
        (void)none;
    }
};
template <>
struct Results<void> {
    static constexpr size_t count = 0;
    static std::string names() { return "()"; }
};

inline std::string schema_of(const std::string& name, const std::vector<std::string>& arguments, const std::string& results) {
    std::string listed;
    for (size_t i = 0; i < arguments.size(); ++i) listed += (i ? ", " : "") + arguments[i] + " _" + std::to_string(i);
    return name + "(" + listed + ") -> " + results;
}
inline void check_counts(uint64_t arguments, size_t taken, uint64_t results, size_t returned) {
    TORCH_CHECK(arguments == taken, "the schema has ", arguments, " arguments, but the function takes ", taken);
    TORCH_CHECK(results == returned, "the schema has ", results, " results, but the function returns ", returned);
}

inline void check_launches(const tkjit::Launches& launches) {
    if (const char* const error = launches.error()) throw Error(error);
}

using BoxedFunction = void (*)(StableIValue* stack, uint64_t arguments, uint64_t results);

template <class Signature>
class Boxed;
template <class R, class... A>
class Boxed<R(A...)> {
public:
    using Function = R (*)(A...);

    /// The entry through which the dispatcher calls a function. The C ABI stores no data with a function, so each
    /// function takes one of a fixed number of entries. Throws if there are more functions than entries.
    static BoxedFunction of(Function function) {
        for (size_t i = 0; i < entries; ++i) {
            if (!functions_[i]) functions_[i] = function;
            if (functions_[i] == function) return entry(i, std::make_index_sequence<entries>());
        }
        throw Error(str("more than ", entries, " operators with the same signature in a source"));
    }
    /// The schema that torch infers from a function.
    static std::string schema(const std::string& name) {
        return schema_of(name, {Passed<std::decay_t<A>>::name()...}, Results<std::decay_t<R>>::names());
    }

private:
    static constexpr size_t entries = 32;
    static inline Function functions_[entries] = {};

    template <size_t... i>
    static BoxedFunction entry(size_t at, std::index_sequence<i...>) {
        static constexpr BoxedFunction all[] = {&enter<i>...};
        return all[at];
    }
    template <size_t i>
    static void enter(StableIValue* stack, uint64_t arguments, uint64_t results) {
        check_counts(arguments, sizeof...(A), results, Results<std::decay_t<R>>::count);
        call(functions_[i], stack, std::index_sequence_for<A...>());
    }
    // not inlined, because each entry would get a copy
    template <size_t... i>
    [[gnu::noinline]] static void call(Function function, StableIValue* stack, std::index_sequence<i...>) {
        // braces guarantee evaluation from the first to the last
        std::tuple<typename Passed<std::decay_t<A>>::Held...> held{Passed<std::decay_t<A>>::take(stack[i])...};
        (void)held;
        const tkjit::Launches launches;
        if constexpr (std::is_void<R>::value) {
            function(static_cast<A>(std::get<i>(held))...);
            check_launches(launches);
        } else {
            const std::decay_t<R> made = function(static_cast<A>(std::get<i>(held))...);
            check_launches(launches);
            Results<std::decay_t<R>>::give(made, stack);
        }
    }
};

}  // inline namespace tkjit_stand_in
}  // namespace c10
