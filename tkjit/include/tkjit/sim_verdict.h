// A callback from the simulator to the opener of a launcher, in the launching thread. It decides if the launch
// continues.
#pragma once

#include <stdint.h>

namespace tkjit::sim {

/// Whether a launch waits for other devices.
enum class Waits : int32_t {
    no,
    for_devices,  // a thread has waited for another one
    in_vain,      // and for seconds nothing has happened in the launch but that
};

enum class Verdict : int32_t {
    go_on,
    interrupted,  // give the launch up: a Ctrl-C, or what it waits for has failed
    deadlock,     // give it up, and say where: nobody is left who could end the waiting
};

using Judge = Verdict (*)(Waits);

}  // namespace tkjit::sim
