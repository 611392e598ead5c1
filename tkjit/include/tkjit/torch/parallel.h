// at::parallel_for on torch's threads.
#pragma once

#include "check.h"

#include <algorithm>
#include <exception>
#include <mutex>

namespace at {
namespace internal {
constexpr int64_t GRAIN_SIZE = 32768;
}
inline namespace tkjit_stand_in {

/// Calls ``run(begin, end)`` for parts of a range in several threads, and rethrows an exception of any of them.
template <class F>
void parallel_for(const int64_t begin, const int64_t end, const int64_t grain_size, const F& run) {
    struct Call {
        const F& run;
        std::exception_ptr error;
        std::mutex lock;
    } call{run, nullptr, {}};
    const auto part = [](int64_t first, int64_t last, void* context) {
        Call& call = *static_cast<Call*>(context);
        try {
            call.run(first, last);
        } catch (...) {
            const std::lock_guard<std::mutex> held(call.lock);
            call.error = std::current_exception();
        }
    };
    if (begin < end) c10::check_call(torch_parallel_for(begin, end, std::max<int64_t>(grain_size, 1), part, &call), "parallel_for");
    if (call.error) std::rethrow_exception(call.error);
}
template <class T, class F, class Join>
T parallel_reduce(const int64_t begin, const int64_t end, const int64_t grain_size, const T identity, const F& run, const Join& join) {
    T total = identity;
    std::mutex lock;
    parallel_for(begin, end, grain_size, [&](int64_t first, int64_t last) {
        const T part = run(first, last, identity);
        const std::lock_guard<std::mutex> held(lock);
        total = join(total, part);
    });
    return total;
}
inline int get_num_threads() {
    uint32_t count = 0;
    c10::check_call(torch_get_num_threads(&count), "get_num_threads");
    return int(count);
}
inline int get_thread_num() {
    uint32_t index = 0;
    c10::check_call(torch_get_thread_idx(&index), "get_thread_num");
    return int(index);
}
inline int64_t divup(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // inline namespace tkjit_stand_in
}  // namespace at
