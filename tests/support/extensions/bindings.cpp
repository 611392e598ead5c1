// Functions, classes and enumerations that an extension binds to Python; see tests/extensions/test_bindings.py.
#define Py_LIMITED_API 0x03090000
#include <Python.h>
#include <torch/extension.h>
#include <map>

enum class Mode { add, mul };
struct Scaler {
    explicit Scaler(int by) : by(by) {}
    torch::Tensor run(torch::Tensor x, Mode mode) const { return mode == Mode::add ? x + by : x * by * scale; }
    int by;
    float scale = 1;
};
int number(int a) { return a; }
std::string text(std::string a) { return a + "!"; }
std::map<std::string, torch::Tensor> doubled(std::map<std::string, torch::Tensor> x) {
    for (auto& [name, value] : x) value = value * 2;
    return x;
}
Scaler twice(const Scaler& a) { return Scaler(a.by * 2); }
torch::Tensor shaped(torch::Tensor x, torch::IntArrayRef& sizes) { return x.reshape(sizes); }
double all(c10::Scalar number, at::ScalarType dtype, torch::Device device, std::pair<int, bool> pair, std::array<int, 2> two) {
    return number.toDouble() + (dtype == at::kDouble) + device.is_cpu() + pair.first + pair.second + two[0] + two[1];
}

struct Square : torch::autograd::Function<Square> {
    static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx, torch::Tensor x, double k, torch::optional<torch::Tensor> more) {
        ctx->saved_data["k"] = k;
        ctx->save_for_backward({x});
        auto y = x * x * k;
        return {more.has_value() ? y + more.value() : y, x.sum()};
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list gradients) {
        const auto x = ctx->get_saved_variables()[0];
        return {gradients[0] * x * 2 * ctx->saved_data["k"].toDouble() + gradients[1], torch::Tensor(), torch::Tensor()};
    }
};
torch::Tensor square(torch::Tensor x, double k, torch::optional<torch::Tensor> more) { return Square::apply(x, k, more)[0]; }
static auto registry = torch::RegisterOperators().op("tkjit_test_bindings::square", &square);

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.doc() = "Bindings.";
    py::enum_<Mode>(m, "Mode").value("add", Mode::add).value("mul", Mode::mul).export_values();
    py::class_<Scaler, std::shared_ptr<Scaler>>(m, "Scaler")
        .def(py::init<int>(), py::arg("by"))
        .def("run", &Scaler::run, py::arg("x"), py::arg("mode") = Mode::add)
        .def_readwrite("scale", &Scaler::scale)
        .def_property_readonly("by", [](const Scaler& self) { return self.by; })
        .def("__repr__", [](const Scaler& self) { return "Scaler(" + std::to_string(self.by) + ")"; });
    m.def("either", &number, "a number");
    m.def("either", &text);
    const int captured = 5;
    m.def("captures", [captured](torch::Tensor x, int y) { return x + captured + y; }, py::call_guard<py::gil_scoped_release>(), py::arg("x"),
          py::arg("y") = 2);
    m.def("dtype_or", [](at::ScalarType dtype, c10::Device device) { return std::make_pair(dtype, device); },
          py::arg("dtype") = torch::kHalf, py::arg("device") = torch::Device(torch::kCPU));
    m.def("wide", [](uint64_t n) { return n; });
    m.def("which", [](int) { return 0; });
    m.def("which", [](torch::Tensor) { return 1; });
    m.def("doubled", &doubled);
    m.def("twice", &twice);
    m.def("shaped", &shaped);
    m.def("all", &all);
    m.def("square", &square, py::arg("x"), py::arg("k"), py::arg("more") = py::none());
    m.attr("__version__") = "1.0";
    m.def_submodule("inner", "An inner module.").def("number", &number);
}
