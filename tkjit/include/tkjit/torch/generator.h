// at::Generator of a CUDA device, with the state that kernels use for random numbers: a seed and an offset of Philox.
#pragma once

#include "cuda.h"

#include <ATen/cuda/PhiloxCudaState.h>

#include <mutex>

namespace at {
inline namespace tkjit_stand_in {

class CUDAGeneratorImpl {
public:
    explicit CUDAGeneratorImpl(Generator generator) : generator_(std::move(generator)) {}
    uint64_t current_seed() const { return ask("initial_seed"); }
    uint64_t seed() const { return current_seed(); }
    uint64_t philox_offset_per_thread() const { return ask("get_offset"); }
    void set_philox_offset_per_thread(uint64_t offset) const { tell("set_offset", offset); }
    /// Reserves up to ``increment`` random numbers for each thread of a kernel, and returns the seed and the offset.
    std::pair<uint64_t, uint64_t> philox_engine_inputs(uint64_t increment) const {
        const uint64_t offset = philox_offset_per_thread();
        set_philox_offset_per_thread(offset + (increment + 3) / 4 * 4);
        return {current_seed(), offset};
    }
    PhiloxCudaState philox_cuda_state(uint64_t increment) const {
        const auto [seed, offset] = philox_engine_inputs(increment);
        return {seed, offset};
    }
    std::mutex mutex_;

private:
    uint64_t ask(const char* name) const;
    void tell(const char* name, uint64_t value) const;
    Generator generator_;
};

#ifdef TKJIT_TORCH_IN_KERNEL
inline uint64_t CUDAGeneratorImpl::ask(const char*) const { return 0; }
inline void CUDAGeneratorImpl::tell(const char*, uint64_t) const {}
inline Generator default_cuda_generator(c10::DeviceIndex) { return {}; }
#elif defined(TKJIT_SIM)
// the simulator's device has no generator, so this uses torch's seed and one offset for the process
inline uint64_t CUDAGeneratorImpl::ask(const char* name) const {
    static uint64_t offset = 0;
    return in_python([&]() -> uint64_t {
        if (std::string(name) == "get_offset") return std::exchange(offset, offset + 4096);
        static PyObject* const initial_seed = pybind11::of_torch("initial_seed");
        return pybind11::cast<uint64_t>(pybind11::check(PyObject_CallObject(initial_seed, nullptr)));
    });
}
inline void CUDAGeneratorImpl::tell(const char*, uint64_t) const {}
inline Generator default_cuda_generator(c10::DeviceIndex) { return {}; }
#else
inline uint64_t CUDAGeneratorImpl::ask(const char* name) const {
    return in_python([&] {
        const auto method = pybind11::check(PyObject_GetAttrString(static_cast<PyObject*>(generator_.object()), name));
        return pybind11::cast<uint64_t>(pybind11::check(PyObject_CallObject(method.ptr(), nullptr)));
    });
}
inline void CUDAGeneratorImpl::tell(const char* name, uint64_t value) const {
    in_python([&] {
        const auto method = pybind11::check(PyObject_GetAttrString(static_cast<PyObject*>(generator_.object()), name));
        pybind11::check(PyObject_CallFunctionObjArgs(method.ptr(), pybind11::cast(value).ptr(), nullptr));
    });
}
/// ``torch.cuda.default_generators[device]``.
inline Generator default_cuda_generator(c10::DeviceIndex device) {
    return in_python([&] {
        const auto module = pybind11::check(PyImport_ImportModule("torch.cuda"));
        const auto all = pybind11::check(PyObject_GetAttrString(module.ptr(), "default_generators"));
        return pybind11::cast<Generator>(pybind11::check(PySequence_GetItem(all.ptr(), device)));
    });
}
#endif

/// The implementation of a generator, or of the default one. It lives until the thread's next call.
template <class Implementation>
Implementation* get_generator_or_default(const std::optional<Generator>& given, const Generator& otherwise) {
    thread_local std::unique_ptr<Implementation> last;
    last = std::make_unique<Implementation>(given && given->defined() ? *given : otherwise);
    return last.get();
}
template <class Implementation>
Implementation* check_generator(const std::optional<Generator>& given) {
    return get_generator_or_default<Implementation>(given, Generator());
}

}  // inline namespace tkjit_stand_in

namespace cuda {
namespace detail {
inline namespace tkjit_stand_in {
inline Generator getDefaultCUDAGenerator(c10::DeviceIndex device = -1) {
    return default_cuda_generator(device < 0 ? c10::cuda::current_device() : device);
}
}  // inline namespace tkjit_stand_in
}  // namespace detail
}  // namespace cuda
}  // namespace at
