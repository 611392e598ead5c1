// The operators of layers, rendered by tkjit. Each passes its tensors to a function of layers.h,
// which checks them and launches the kernel; torch allocates the outputs.
#include <tkjit/export/torch_stable.h>

#include <layers.h>

#include "registration.h"

#ifndef OPERATORS_NAMESPACE
#define OPERATORS_NAMESPACE TORCH_EXTENSION_NAME
#endif

namespace {

using namespace tkjit::operators;

void op_axpy(const Tensor& arg_x, const Tensor& arg_y, double arg_alpha) {
    const tkjit_tensor of_x = describe({"axpy", "x"}, arg_x);
    const tkjit_tensor of_y = describe({"axpy", "y"}, arg_y);
    check(layers_axpy(&of_x, &of_y, arg_alpha, stream_of(of_x.device)));
}

Tensor op_softmax(const Tensor& arg_x) {
    const tkjit_tensor of_x = describe({"softmax", "x"}, arg_x);
    tkjit_tensor of_y{};
    check(layers_softmax_shape(&of_x, &of_y));
    Tensor arg_y = allocate(of_y);
    check(layers_softmax(&of_x, &of_y, stream_of(of_x.device)));
    return arg_y;
}

void op_softmax_out(const Tensor& arg_x, const Tensor& arg_y) {
    const tkjit_tensor of_x = describe({"softmax", "x"}, arg_x);
    tkjit_tensor of_y = describe({"softmax", "y"}, arg_y);
    check(layers_softmax(&of_x, &of_y, stream_of(of_x.device)));
}

}  // namespace

STABLE_TORCH_LIBRARY_EXPAND(OPERATORS_NAMESPACE, library) {
    library.def("axpy(Tensor x, Tensor(a!) y, float alpha=1.0) -> ()");
    library.def("softmax(Tensor x) -> Tensor");
    library.def("softmax_out(Tensor x, Tensor(a!) y) -> ()");
}

#ifdef CPU_KERNEL
STABLE_TORCH_LIBRARY_IMPL_EXPAND(OPERATORS_NAMESPACE, CPU, library) {
    library.impl("axpy", TORCH_BOX(&op_axpy));
    library.impl("softmax", TORCH_BOX(&op_softmax));
    library.impl("softmax_out", TORCH_BOX(&op_softmax_out));
}
#endif

#ifdef CUDA_KERNEL
STABLE_TORCH_LIBRARY_IMPL_EXPAND(OPERATORS_NAMESPACE, CUDA, library) {
    library.impl("axpy", TORCH_BOX(&op_axpy));
    library.impl("softmax", TORCH_BOX(&op_softmax));
    library.impl("softmax_out", TORCH_BOX(&op_softmax_out));
}
#endif

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
