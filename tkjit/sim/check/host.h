// A checked kernel's main program: it reads the arguments, launches once, and writes the findings.
//
//     checker INPUTS OUTPUTS FINDINGS_FD ORDER SEED TRACE_FD TIMEOUT_S VOLATILE_IS_ATOMIC
//
// If it looks for overflow, ORDER is 0 for the last block and 1 for the middle one.
#pragma once

#include "../runtime/fiber.h"
#include "../runtime/schedule.h"
#include "../runtime/trace.h"
#include "arguments.h"
#include "endings.h"
#include "findings.h"
#include "regions.h"
#ifdef TKJIT_SIM_MEMORY
#include "address_sanitizer.h"
#endif
#if defined(TKJIT_SIM_RACE) || defined(TKJIT_SIM_OVERFLOW)
#include "instrumentation.h"
#endif
#ifdef TKJIT_SIM_RACE
#include "race_detector.h"
#include "shadow.h"
#endif

#include <tkjit/arg.h>

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

extern "C" const char* tkjit_launch(const TkjitArg* args, int32_t device, void* stream);

namespace tkjit::sim::check {

#ifdef TKJIT_SIM_RACE
inline void begin() {
    find_constants();
    for (const auto& segment : own_memory().writable) {
        add_region(segment.begin, segment.bytes, Space::variable, "", false);
    }
}

inline void end() {
    for (const Region& region : regions) {
        if (region.is_output && region.starts_blank) race::report_unwritten(region);
    }
}
#elif defined(TKJIT_SIM_OVERFLOW)
inline void begin() {
    accesses.reserve(most_accesses + 1);
    handle(SIGALRM, on_time_is_up);
}
inline void end() { end_with_log(); }
#else
inline void begin() {
    pthread_attr_t attributes;
    void* lowest = nullptr;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &lowest, &host_stack_bytes);
    pthread_attr_destroy(&attributes);
    host_stack.lowest = static_cast<char*>(lowest);
    begin_memory_check();
}
inline void end() {}
#endif

inline int run(char** arguments) {
    findings_file = atoi(arguments[3]);
    schedule::order = static_cast<schedule::Order>(atoi(arguments[4]));
    schedule::state += static_cast<unsigned long long>(atoll(arguments[5])) * 7919;
    tkjit_sim_trace = atoi(arguments[6]);
    handle_signals(atoi(arguments[7]));
#ifdef TKJIT_SIM_RACE
    if (atoi(arguments[8])) race::kind_of_volatile = race::atomic;
#endif
#ifdef TKJIT_SIM_OVERFLOW
    log_path = arguments[2];
    schedule::runs_last_block = schedule::order == schedule::Order::forward;
    schedule::order = schedule::Order::forward;
#endif
    Arguments given;
    if (!given.read(arguments[1])) return 2;
    begin();
    if (const char* error = tkjit_launch(given.data(), 0, nullptr)) {
        Json json;
        json.text("kind", "fault").text("text", error);
#ifdef TKJIT_SIM_OVERFLOW
        json.number("launches", schedule::launches);
#endif
        write_line(json);
    } else {
        end();
    }
#ifndef TKJIT_SIM_OVERFLOW  // its tensors are huge
    if (!given.write_tensors(arguments[2])) return 2;
#endif
    write_line(Json().text("kind", "done"));
    return 0;
}

}  // namespace tkjit::sim::check

__attribute__((visibility("default"))) int main(int count, char** arguments) {
    return count == 9 ? tkjit::sim::check::run(arguments) : 2;
}
