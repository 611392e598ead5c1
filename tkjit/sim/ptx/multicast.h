// PTX ISA, `multimem`: one address that stands for the same place on several devices.
#pragma once

#include "../detail/tensor_map.h"
#include "operands.h"

namespace tkjit::sim::ptx {

template <class T, unsigned count>
inline void multimem_ld_reduce(Reduction, T (&)[count], const char*, Site site = Site::here()) {
    fail(site, "multicast memory: the simulator has none");
}
template <class T, unsigned count>
inline void multimem_st(char*, const T (&)[count], Site site = Site::here()) {
    fail(site, "multicast memory: the simulator has none");
}
template <class T, unsigned count, class Operation>
inline void multimem_red(Operation, char*, const T (&)[count], Site site = Site::here()) {
    fail(site, "multicast memory: the simulator has none");
}

}  // namespace tkjit::sim::ptx
