// A club: a group of threads, one for each device. In a step, each thread executes its device's part of one task, such
// as a launch, at the same time as the others.
//
// The caller's thread does the first device's part, since it would otherwise only wait. Then it does every part that no
// thread has begun yet, because launching on a GPU takes less time than waking a thread. A part that waits does not delay
// the start of the other parts. A club with one device needs no thread and no lock. Between steps the workers sleep on a
// futex. A woken worker wakes at most two others, so the caller needs only one system call to start them all. No worker
// is woken for a part that is already done. After a fork, the child has none of its parent's threads and starts
// its own.
#pragma once

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

// The reason for this pragma is in runtime.cpp.
#pragma GCC push_options
#pragma GCC optimize("Og")

namespace tkjit::runtime {

inline int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr size_t kMostDevices = 32;

// The progress of a step. The simulator reads it in the middle of a kernel.
class Progress {
public:
    std::atomic<bool> failed{false};  // a part has failed, so the others need not wait for it
    std::atomic<uint32_t> left{0};    // the number of parts that have not ended

    void begin(size_t devices) {
        failed.store(false, std::memory_order_relaxed);
        for (size_t i = 0; i < devices; ++i) reported_ns_[i].store(0, std::memory_order_relaxed);
        ended_ns_.store(0, std::memory_order_relaxed);
        devices_ = devices;
        left.store(uint32_t(devices), std::memory_order_relaxed);
    }
    // Called by a part whose threads have done nothing but wait for several seconds.
    void waits_in_vain(int dev_idx) { reported_ns_[size_t(dev_idx)].store(now_ns()); }
    void goes_on(int dev_idx) { reported_ns_[size_t(dev_idx)].store(0); }
    void ends(int dev_idx) {
        ended_ns_.store(now_ns());
        reported_ns_[size_t(dev_idx)].store(kEnded);
    }
    // Whether no part is left that could end the wait: every part has either ended or just reported that it only waits,
    // and the last part ended long enough ago for the others to have noticed.
    bool is_deadlock() const {
        const int64_t now = now_ns();
        if (now - ended_ns_.load() < kToNoticeNs) return false;
        for (size_t i = 0; i < devices_; ++i) {
            const int64_t reported = reported_ns_[i].load();
            if (reported != kEnded && now - reported > kFreshNs) return false;
        }
        return true;
    }

private:
    static constexpr int64_t kEnded = INT64_MAX;
    static constexpr int64_t kFreshNs = 500'000'000;       // a waiting launch reports every 50 ms
    static constexpr int64_t kToNoticeNs = 1'000'000'000;  // time for the others to notice what the last part wrote

    size_t devices_ = 0;
    std::atomic<int64_t> reported_ns_[kMostDevices] = {};  // when a part last reported that it only waits, or 0
    std::atomic<int64_t> ended_ns_{0};                     // when the last part ended
};

// The part of a step that the current thread is executing.
struct RunningPart {
    RunningPart(Progress& step, int dev_idx) : step(step), dev_idx(dev_idx), around(current) { current = this; }
    ~RunningPart() { current = around; }
    RunningPart(const RunningPart&) = delete;
    RunningPart& operator=(const RunningPart&) = delete;

    inline static thread_local RunningPart* current = nullptr;

    Progress& step;
    const int dev_idx;
    RunningPart* const around;  // the enclosing part, if another club's step began this one
};

inline std::atomic<unsigned> forks{0};

inline void futex_wait(std::atomic<uint32_t>& word, uint32_t value) {
    while (word.load(std::memory_order_acquire) == value)
        syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
// Waits once, for at most 50 ms, because the caller also has to check for interrupts.
inline void futex_wait_a_while(std::atomic<uint32_t>& word, uint32_t value) {
    const timespec patience{0, 50'000'000};
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, &patience, nullptr, 0);
}
inline void futex_wake(std::atomic<uint32_t>& word, int count) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

class Club {
public:
    // Executes one device's part of a step. Returns an error's text or null, and must not throw.
    using Part = std::function<const char*(int dev_idx)>;

    explicit Club(int devices) : devices_(devices) {
        static const int watching = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
        (void)watching;
    }
    ~Club() { close(); }
    Club(const Club&) = delete;
    Club& operator=(const Club&) = delete;

    int devices() const { return devices_; }

    // Executes each device's part of a step, waits for all of them, and returns a text for each device: its error, or
    // an empty text. Call this without the GIL. While it waits, it calls `interrupted`, which decides whether to abort
    // the waiting parts.
    //
    // With `own_threads`, each part is executed only by its device's own thread; for the first device, that is the
    // caller's thread.
    std::vector<std::string> execute(const Part& part, bool (*interrupted)(), bool own_threads = false) {
        std::vector<std::string> errors(static_cast<size_t>(devices_));
        if (devices_ == 1) {
            const char* const error = RunningPart::current ? part(0) : do_alone(part);
            errors[0] = error ? error : "";
            return errors;
        }
        if (in_step_of == this) throw std::runtime_error("a club's step cannot begin another step of the same club");
        std::shared_ptr<State> held;
        std::unique_lock<std::mutex> lock;
        do {  // repeats if another thread has just closed the state
            held = own_state();
            lock = std::unique_lock(held->stepping);
        } while (held->ends.load());
        State& state = *held;
        state.part = &part;
        state.errors = &errors;
        state.progress.begin(size_t(devices_));
        const uint32_t step = state.step.fetch_add(1, std::memory_order_acq_rel) + 1;
        wake(state, 1, step);
        do_part(state, 0);
        for (int i = 1; i < devices_ && !own_threads; ++i)
            if (claim(state, i, step)) do_part(state, i);
        std::atomic<uint32_t>& waited_for = state.progress.left;
        for (uint32_t left; (left = waited_for.load(std::memory_order_acquire)) != 0;) {
            futex_wait_a_while(waited_for, left);
            if (waited_for.load(std::memory_order_acquire) == left && interrupted()) state.progress.failed.store(true);
        }
        return errors;
    }

    // Waits for the current step, then ends the threads. The next step starts them again.
    void close() {
        if (in_step_of == this) throw std::runtime_error("a club's step cannot close the club");
        std::shared_ptr<State> state;
        {
            const std::lock_guard lock(starting());
            state = std::move(state_);
        }
        if (!state) return;
        if (state->of_fork != forks.load()) {
            forget(std::move(state));
            return;
        }
        const std::lock_guard lock(state->stepping);
        end(*state);
    }

    // Rejects all further steps, because their parts might call into an interpreter that is shutting down.
    static void end_all() { all_ended.store(true); }

private:
    struct State {
        explicit State(size_t devices) : called(devices), begun(devices) {}

        std::mutex stepping;
        std::atomic<uint32_t> step{0};
        std::atomic<bool> ends{false};
        Progress progress;  // of the current step
        const Part* part = nullptr;
        std::vector<std::string>* errors = nullptr;  // of the current step
        const unsigned of_fork = forks.load();
        std::vector<std::atomic<uint32_t>> called;  // by device: the last step for which its worker was woken
        std::vector<std::atomic<uint32_t>> begun;   // by device: the last step whose part a thread has begun
        std::vector<std::thread> workers;
    };

    // Wakes a worker if no thread has begun its part. Otherwise wakes the workers that this worker would have woken:
    // worker i wakes workers 2 i and 2 i + 1.
    static void wake(State& state, size_t worker, uint32_t step) {
        if (worker >= state.called.size()) return;
        if (is_later(step, state.begun[worker].load(std::memory_order_relaxed))) {
            if (raise(state.called[worker], step)) futex_wake(state.called[worker], 1);
            return;
        }
        wake(state, 2 * worker, step);
        wake(state, 2 * worker + 1, step);
    }

    static void end(State& state) {
        state.ends.store(true);
        for (auto& called : state.called) {
            called.fetch_add(1, std::memory_order_release);
            futex_wake(called, 1);
        }
        for (auto& worker : state.workers) worker.join();
    }

    static bool is_later(uint32_t step, uint32_t than) { return int32_t(step - than) > 0; }

    // Advances a word to a step, and returns whether it did. A thread that is late with an older step changes nothing.
    static bool raise(std::atomic<uint32_t>& word, uint32_t step) {
        uint32_t before = word.load(std::memory_order_relaxed);
        while (is_later(step, before))
            if (word.compare_exchange_weak(before, step, std::memory_order_acq_rel)) return true;
        return false;
    }

    // Claims a device's part of a step for the calling thread. Returns false if another thread has begun that part.
    static bool claim(State& state, int dev_idx, uint32_t step) { return raise(state.begun[size_t(dev_idx)], step); }

    // Guards state_. This is not a member, because a child must replace it: another thread may have held it during the
    // fork.
    static std::mutex& starting() {
        static std::mutex mutex;
        static unsigned of_fork = forks.load();
        if (of_fork != forks.load()) {
            of_fork = forks.load();
            new (&mutex) std::mutex;
        }
        return mutex;
    }

    // Leaks the parent's state in a forked child, where its threads cannot be joined and its mutex cannot be destroyed.
    static void forget(std::shared_ptr<State> state) {
        for (auto& worker : state->workers) worker.detach();
        new std::shared_ptr<State>(std::move(state));
    }

    std::shared_ptr<State> own_state() {
        if (all_ended.load()) {
            await_end();
            throw std::runtime_error("the interpreter is shutting down and has ended its clubs");
        }
        const std::lock_guard lock(starting());
        if (state_ && state_->of_fork == forks.load()) return state_;
        if (state_) forget(std::move(state_));
        auto state = std::make_shared<State>(size_t(devices_));
        try {
            for (int i = 1; i < devices_; ++i) state->workers.emplace_back([this, &state = *state, i] { work(state, i); });
        } catch (const std::system_error&) {
            end(*state);
            throw;
        }
        state_ = std::move(state);
        return state_;
    }

    // Delays a daemon thread that calls during the interpreter's shutdown, so that the process ends before the thread
    // can print a traceback: if CPython cannot lock stderr for the traceback, it aborts the process.
    static void await_end() {
        constexpr auto patience = std::chrono::seconds(10);  // in case another thread does wait for this one
        static std::atomic<bool> has_waited{false};  // later calls do not wait
        if (syscall(SYS_gettid) == getpid() || has_waited.load()) return;
        std::this_thread::sleep_for(patience);
        has_waited.store(true);
    }

    void work(State& state, int dev_idx) {
        for (uint32_t seen = 0;;) {
            futex_wait(state.called[size_t(dev_idx)], seen);
            seen = state.called[size_t(dev_idx)].load(std::memory_order_acquire);
            if (state.ends.load()) return;
            const uint32_t step = state.step.load(std::memory_order_acquire);
            wake(state, 2 * size_t(dev_idx), step);
            wake(state, 2 * size_t(dev_idx) + 1, step);
            if (claim(state, dev_idx, step)) do_part(state, dev_idx);
        }
    }

    static const char* do_alone(const Part& part) {
        Progress progress;
        progress.begin(1);
        const RunningPart doing(progress, 0);
        return part(0);
    }

    void do_part(State& state, int dev_idx) {
        const Club* const club_around = in_step_of;
        in_step_of = this;
        {
            const RunningPart doing(state.progress, dev_idx);
            const char* const error = (*state.part)(dev_idx);
            (*state.errors)[size_t(dev_idx)] = error ? error : "";
            if (error) state.progress.failed.store(true);
        }
        in_step_of = club_around;
        state.progress.ends(dev_idx);
        if (state.progress.left.fetch_sub(1, std::memory_order_acq_rel) == 1) futex_wake(state.progress.left, 1);
    }

    inline static thread_local const Club* in_step_of = nullptr;
    inline static std::atomic<bool> all_ended{false};

    const int devices_;
    std::shared_ptr<State> state_;
};

}  // namespace tkjit::runtime

#pragma GCC pop_options
