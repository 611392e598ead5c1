// What the rendered functions of an export call: reading arguments, refusing them, allocating outputs, launching.
//
// The checks themselves are those of Python's glue (tkjit/call/checks.h), with the same texts.
#pragma once

#include <tkjit/export/arguments.h>
#include <tkjit/export/interface.h>
#include <tkjit/export/library.h>
#include <tkjit/export/outputs.h>
#include <tkjit/export/pointers.h>

namespace tkjit::exported {

// ---- launching -----------------------------------------------------------------------------------------------------

// The kernel's code in this library: a launcher for each variant and target, null where one was left out.
struct Code {
    const TkjitLaunch* launchers;  // [variant][target]
    const char* const* variants;   // "T=float32"
    int variant_count;
};

// The variant that this thread asked for last and that the library has no code for; -1 for none.
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

// A whole call: null, or its error. `body` returns null where it has refused.
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
