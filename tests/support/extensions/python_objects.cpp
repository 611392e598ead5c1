// An extension's uses of Python objects and NumPy arrays; see tests/extensions/test_python_objects.py.
#include <torch/extension.h>
#include <pybind11/numpy.h>

namespace py = pybind11;

struct Shape : torch::CustomClassHolder {
    virtual ~Shape() = default;
    virtual int corners() const { return 0; }
    std::string name = "shape";
};
struct Point {
    int x = 1;
};
struct Square : Shape {
    int corners() const override { return 4; }
    Point origin;
    Point& at() { return origin; }
};
int corners_of(const Shape& shape) { return shape.corners(); }

float total(py::array_t<float, py::array::c_style | py::array::forcecast> a) {
    const py::buffer_info info = a.request();
    const float* const elements = static_cast<float*>(info.ptr);
    return std::accumulate(elements, elements + info.size, 0.0f);
}
py::array_t<double> outer(py::array_t<double> a, py::array_t<double> b) {
    const auto x = a.unchecked<1>(), y = b.unchecked<1>();
    py::array_t<double> made({x.shape(0), y.shape(0)});
    auto to = made.mutable_unchecked<2>();
    for (py::ssize_t i = 0; i < x.shape(0); ++i)
        for (py::ssize_t j = 0; j < y.shape(0); ++j) to(i, j) = x(i) * y(j);
    return made;
}
py::array_t<int> view() {
    auto* const owned = new std::vector<int>{1, 2, 3};
    const py::capsule owner(owned, [](void* pointer) { delete static_cast<std::vector<int>*>(pointer); });
    return py::array_t<int>({3}, {sizeof(int)}, owned->data(), owner);
}
py::list objects(py::dict pairs, py::list items, py::object text) {
    py::list made;
    for (auto pair : pairs) made.append(py::make_tuple(pair.first, pair.second));
    for (py::handle item : items) {
        if (py::isinstance<py::int_>(item)) made.append(item.cast<int>() + 1);
        else made.append(py::repr(item));
    }
    made.append(text.attr("upper")());
    made.append(py::module_::import("math").attr("hypot")(3, 4).cast<double>());
    py::dict last;
    last["first"] = items[0];
    last["none"] = py::none();
    made.append(last);
    return made;
}
std::string raises(int which) {
    if (which == 0) throw py::value_error("a value");
    if (which == 1) throw py::key_error("a key");
    try {
        py::module_::import("no_such_module");
    } catch (py::error_already_set& error) {
        if (which == 2 && error.matches(PyExc_ImportError)) return error.what();
        throw;
    }
    return "";
}

struct OutOfRange : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct Other : std::exception {};
enum class Mode { first, second };

// containers, and the attributes of any object
py::dict containers(py::iterable items, py::sequence pair, py::object owner) {
    py::set seen;
    for (const py::handle& item : items) seen.add(item);
    py::dict found;
    found["seen"] = seen;
    found["size"] = seen.size() + pair.size() + py::len(pair);
    found["has"] = py::make_tuple(py::hasattr(owner, "x"), py::hasattr(owner, "y"), seen.contains(1));
    found["got"] = py::make_tuple(py::getattr(owner, "x"), py::getattr(owner, "y", 8));
    py::setattr(owner, "y", 9);
    py::delattr(owner, "x");
    found["repr"] = py::repr(pair[1]);
    found["is"] = py::make_tuple(py::isinstance<py::tuple>(pair), py::isinstance<py::int_>(pair));
    return found;
}
py::tuple bounds(py::slice of, size_t length) {
    size_t start = 0, stop = 0, step = 0, count = 0;
    of.compute(length, &start, &stop, &step, &count);
    return py::make_tuple(start, stop, step, count);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    py::enum_<Mode>(m, "Mode", py::arithmetic(), py::module_local()).value("first", Mode::first).value("second", Mode::second);
    py::register_exception<OutOfRange>(m, "OutOfRange", PyExc_LookupError);
    py::register_exception_translator([](std::exception_ptr thrown) {
        try {
            std::rethrow_exception(thrown);
        } catch (const Other&) {
            PyErr_SetString(PyExc_BufferError, "another");
        }
    });
    m.def("throw", [](int kind) {
        if (kind == 0) throw OutOfRange("too far");
        if (kind == 1) throw Other();
        throw py::value_error("own");
    });
    m.def("containers", &containers);
    m.def("bounds", &bounds);
    m.def("adder", [](int n) { return py::cpp_function([n](int x) { return x + n; }, py::arg("x")); });
    py::class_<Shape>(m, "Shape").def(py::init<>()).def("corners", &Shape::corners).def_readwrite("name", &Shape::name);
    py::class_<Point>(m, "Point", py::module_local())
        .def(py::init<>())
        .def_readwrite("x", &Point::x)
        .def(py::pickle([](const Point& p) { return py::make_tuple(p.x); },
                        [](py::tuple state) {
                            Point p;
                            p.x = state[0].cast<int>();
                            return p;
                        }));
    py::class_<Square, Shape>(m, "Square")
        .def(py::init<>())
        .def_readwrite("origin", &Square::origin)
        .def("at", &Square::at, py::return_value_policy::reference_internal)
        .def("copied", &Square::at);
    m.def("corners_of", &corners_of);
    m.def("corners_of_all", [](const std::vector<Square>& squares) {
        std::vector<Point> origins;
        for (const Square& square : squares) origins.push_back(square.origin);
        return std::make_pair(squares.size() * 4, origins);
    });
    m.def("total", &total);
    m.def("outer", &outer);
    m.def("view", &view);
    m.def("copied", [] {
        const std::vector<int64_t> values{4, 5};
        return py::array_t<int64_t>(values.size(), values.data());
    });
    m.def("fill", [](py::array_t<int> a) { std::iota(a.mutable_data(), a.mutable_data() + a.size(), 0); });
    m.def("kind", [](py::array_t<double>) { return "double"; });
    m.def("kind", [](py::array_t<int>) { return "int"; });
    m.def("kind", [](double) { return "float"; });
    m.def("objects", &objects);
    m.def("any", [](int a, py::args others, py::kwargs named) { return py::make_tuple(a, others, named); }, py::arg("a"));
    m.def("raises", &raises);
    m.def("exact", [](double x) { return x; }, py::arg("x").noconvert());
    m.def("call", [](py::function f, float x) { return f(x, py::arg("y") = 2).cast<float>(); });
    m.def("bytes", [](py::bytes given) { return py::bytes(std::string(given) + "!"); });
    m.def("constant", [](at::optional<const at::Tensor>& x) { return x.has_value(); });
    m.def("tensor", [](at::Tensor x) { return x; });
    m.def("complex", [](c10::complex<double> x) { return x * 2.0; });
    m.attr("version") = "1";
}
