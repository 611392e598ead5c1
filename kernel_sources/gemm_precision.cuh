// The types that `precision=` chooses for float32 factors. Other types stay as they are.
#pragma once

#include <tkjit/tf32.cuh>

#include <type_traits>

template <class T>
using ieee = T;
template <class T>
using tf32 = std::conditional_t<std::is_same_v<T, float>, tkjit::tf32, T>;

/// The type of a factor in global memory.
template <class Factor>
using InMemory = std::conditional_t<std::is_same_v<Factor, tkjit::tf32>, float, Factor>;
