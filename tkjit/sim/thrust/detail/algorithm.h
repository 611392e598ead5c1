// The declaration of an algorithm: a struct in detail::algorithms works on iterators, and a function calls it with or
// without a policy.
#pragma once

#include "execution.h"
#include "iterators.h"
#include "values.h"

#include <cstddef>

#define TKJIT_SIM_THRUST(name)                                                                              \
    template <class... Arguments>                                                                           \
    decltype(auto) name(Arguments&&... arguments) {                                                         \
        return detail::dispatch(detail::algorithms::name(), static_cast<Arguments&&>(arguments)...);        \
    }
