// A callback from the simulator, in the launching thread, to the code that opened the launcher. It decides whether the
// launch continues.
#pragma once

#include <stdint.h>

namespace tkjit::sim {

/// Whether a launch waits for other devices.
enum class Waits : int32_t {
    no,
    for_devices,  // a thread has waited for another device
    in_vain,      // for seconds, threads of the launch have done nothing but wait
};

enum class Verdict : int32_t {
    go_on,
    interrupted,  // abort the launch: after Ctrl-C, or because a device that it waits for has failed
    deadlock,     // abort the launch and report where it waits: nothing is left that could end the wait
};

using Judge = Verdict (*)(Waits);

}  // namespace tkjit::sim
