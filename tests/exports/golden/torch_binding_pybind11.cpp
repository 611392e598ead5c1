// The operators of layers, rendered by tkjit. Each passes its tensors to a function of layers.h,
// which checks them and launches the kernel; torch allocates the outputs.
#include <tkjit/export/torch_pybind11.h>

#include <layers.h>

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

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("axpy", &op_axpy, py::arg("x"), py::arg("y"), py::arg("alpha") = 1.0);
    module.def("softmax", &op_softmax, py::arg("x"));
    module.def("softmax_out", &op_softmax_out, py::arg("x"), py::arg("y"));
}
