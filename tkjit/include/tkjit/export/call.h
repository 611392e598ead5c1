// The functions that an export's rendered code calls: they read and reject arguments, allocate outputs, and launch.
//
// The checks are the same as in Python's glue (tkjit/call/checks.h), with the same messages.
#pragma once

#include <tkjit/export/arguments.h>
#include <tkjit/export/interface.h>
#include <tkjit/export/library.h>
#include <tkjit/export/outputs.h>
#include <tkjit/export/pointers.h>

namespace tkjit::exported {

// ---- launching -----------------------------------------------------------------------------------------------------

// The kernel's code in this library: a launcher for each variant and target, null for those that were left out.
struct Code {
    const TkjitLaunch* launchers;  // [variant][target]
    const char* const* variants;   // "T=float32"
    int variant_count;
};

// The last variant that this thread asked for and that this library has no code for, or -1.
inline thread_local int missing_variant = -1;

// The launcher of a variant for the device of `on`.
template <size_t Count>
TkjitLaunch launcher(const Call& call, const Code& code, const Target (&targets)[Count], int variant, const TensorView& on) {
    const tkjit_device device = device_of(on);
    const int target = target_for(targets, int(Count), device);
    if (target < 0) return call.fail(TKJIT_LAUNCH_ERROR, std::string(call.kernel) + ": " + no_target_text(targets, int(Count), device)), nullptr;
    if (const TkjitLaunch launch = code.launchers[variant * int(Count) + target]) return launch;
    missing_variant = variant;
    std::string known;
    for (int i = 0; i < code.variant_count; ++i)
        if (code.launchers[i * int(Count) + target]) known += (known.empty() ? "" : "; ") + std::string(code.variants[i]);
    call.fail(TKJIT_LAUNCH_ERROR, std::string(call.kernel) + ": this library has no code for " + code.variants[variant] + " on " + device_text(device) +
                                      "; it has code for " + (known.empty() ? "none of its variants" : known));
    return nullptr;
}

template <size_t Count>
bool launch(const Call& call, TkjitLaunch launcher, const TkjitArg (&args)[Count], const TensorView& on) {
    const char* const error = launcher(args, on.device, call.stream);
    if (!error) return true;
    const char* const shapes = about_shapes(error);
    call.fail(shapes ? TKJIT_SHAPE_ERROR : TKJIT_LAUNCH_ERROR, std::string(call.kernel) + ": " + (shapes ? shapes : error));
    return false;
}

// Makes a whole call, and returns null or its error. `body` returns after it has set an error in `call`.
template <class Body>
tkjit_error make_call(const char* kernel, void* stream, bool asks, Body&& body) noexcept {
    return without_exceptions([&]() -> tkjit_error {
        Call call{kernel, stream, asks};
        try {
            body(call);
            return call.error;
        } catch (const Error& error) {
            tkjit_free_error(call.error);
            return make_error(error.kind, std::string(kernel) + ": " + error.what());
        }
    });
}

}  // namespace tkjit::exported
