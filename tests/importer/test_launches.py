"""Launches in the text of host code: instances and shapes, with local names resolved."""

from __future__ import annotations

import pytest

from tkjit.importer.launches import launches_of
from tkjit.importer.model import Part


def entries(source: str) -> list[str]:
    return [launch.entry for launch in launches_of(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("void f() { k<<<1, 2>>>(x); }", ["k"]),
        ("void f() { n::k<float, (2 > 1)><<<1, 2>>>(x); }", ["n::k<float, (2>1)>"]),
        ("void f() { k<g<h<2>>><<<1, 2>>>(x); }", ["k<g<h<2>>>"]),
        ("void f() { constexpr size_t D = 1024; using t = g<D>; k<t><<<1, 2>>>(x); }", ["k<g<1024>>"]),
        ("template <class T> void f() { k<T><<<1, 2>>>(x); }", []),
        (
            "template <class T> void f() { k<T><<<1, 2>>>(x); } void g() { f<int>(); f<float>(); }",
            ["k<int>", "k<float>"],
        ),
        (
            "template <class T, int N> void f(int a) { k<g<T, N>><<<a, 2>>>(x); }"
            "template <int M> void g() { f<float, M>(3); } int main() { g<4>(); }",
            ["k<g<float, 4>>"],
        ),
        ("#ifdef OFF\nvoid f() { k<3><<<1, 2>>>(x); }\n#endif", ["k<3>"]),
        ('// k<1><<<1, 1>>>(x);\nconst char* s = "k<2><<<1, 1>>>(x)";', []),
        ("template __global__ void n::k<float, 2>(float*);\ntemplate <class T> void f();", ["n::k<float, 2>"]),
        ("void f() { if (a < b) k<<<1, 2>>>(x); else l<<<1, 2>>>(y); }", ["k", "l"]),
        ("template <int N> void f() { f<N - 1>(); k<N><<<1, 2>>>(x); } void g() { f<2>(); }", ["k<2>"]),
        ("void f() { table[i]<<<1, 2>>>(x); }", []),
        ("template <class C> void f() { cudaLaunchKernelEx(&c, k<C>, g); } void g() { f<t<3>>(); }", ["k<t<3>>"]),
        ("void f() { cudaLaunchKernelEx(&c, kernels[2], g); }", []),
        ("void f() { py::launch_kernel<n::config, n::globals, n::kernel>(g); }", ["n::kernel"]),
    ],
)
def test_the_instances_that_a_source_launches_are_found(source, expected):
    assert entries(source) == expected


def part(source: str, what: str = "grid") -> Part:
    (launch,) = launches_of(source)
    return dict(launch.parts)[what]


def test_local_names_in_a_launch_are_resolved():
    source = """
    void f(float* x, int count) {
        const int threads = 128;
        dim3 grid((count + threads - 1) / threads, 2);
        size_t bytes = threads * sizeof(float);
        k<<<grid, threads, bytes>>>(x, count);
    }"""
    assert part(source).text == "dim3((count + 128 - 1) / 128, 2)"
    assert part(source, "block").text == "128" and part(source, "shared_memory").text == "128 * sizeof(float)"
    (launch,) = launches_of(source)
    assert launch.arguments == ("x", "count") and launch.line == 6
    assert launch.text == "k<<<grid, threads, bytes>>>(x, count)"


def test_a_launch_config_is_read():
    source = """
    template <class C> void run(globals<C> g, int count) {
        LaunchConfig<true, C::PDL> config(dim3(count / 64), g.block(), 1024, 0, C::CLUSTER_SIZE);
        cudaLaunchKernelEx(config, k<C>, g);
    }
    int main() { run<shape<2>>(g, 4096); }"""
    (launch,) = launches_of(source)
    assert launch.entry == "k<shape<2>>" and launch.line == 4
    assert {what: part.text for what, part in launch.parts} == {
        "grid": "dim3(4096 / 64)",
        "block": "g.block()",
        "shared_memory": "1024",
        "cluster": "shape<2>::CLUSTER_SIZE",
        "pdl": "shape<2>::PDL",
    }
    more = "void f() { LaunchConfig<true, false> c(1, 2, 3, 0, dim3(4, 1, 1), 2); cudaLaunchKernelEx(c, k, g); }"
    assert dict(launches_of(more)[0].parts)["cluster"].text == "2"  # 4 is only the preferred size
    assert launches_of("void f() { Other<true> c(1, 2, 3); cudaLaunchKernelEx(c, k, g); }")[0].parts == ()


def test_components_of_a_dim3_are_evaluated():
    source = "void f(int n) { dim3 b(32, 8); k<<<(n + b.x * b.y * b.z - 1) / b.x, b>>>(x, n); }"
    assert part(source).text == "(n + 32 * 8 * 1 - 1) / 32"


def test_names_that_are_assigned_again_are_not_resolved():
    assert part("void f() { int n = 2; n += 1; k<<<n, 1>>>(x); }").text == "n"
    assert part("void f() { dim3 grid(2); grid.y = 3; k<<<grid, 1>>>(x); }").text == "grid"
    assert part("void f() { int n = 2; read(&n); k<<<n, 1>>>(x); }").text == "n"


def test_names_are_resolved_in_the_blocks_around_the_launch():
    assert part("void f() { { int n = 2; } { int n = 3; k<<<n, 1>>>(x); } }").text == "3"
    assert part("void f() { int n = 2; { int n = 3; } k<<<n, 1>>>(x); }").text == "2"
    assert part("void f() { switch (m) { case 1: int n = 3; k<<<n, 1>>>(x); } }").text == "3"
    assert part("void f() { CHECK(x) const int n = 3; k<<<n, 1>>>(x); }").text == "3"


def test_the_host_functions_own_numbers_are_borrowed():
    assert part("void f() { const int N = 4096; k<<<N / 64, 1>>>(g); }") == Part("4096 / 64", True, False, "N / 64")
    assert not part("void f() { k<<<4, 1>>>(g); }").borrowed
    caller = "void run(int n) { k<<<n / 64, 1>>>(g); } int main() { run(4096); }"
    assert part(caller).borrowed


def test_template_arguments_can_come_from_defaults_or_be_deduced():
    default = "template <class T, int N = 4> void f() { k<T, N><<<1, 2>>>(x); } void g() { f<int>(); }"
    assert entries(default) == ["k<int, 4>"]
    deduced = "template <int N, class T> void f(T* x) { k<N><<<1, 2>>>(x); } void g() { f<8>(x); }"
    assert entries(deduced) == ["k<8>"]
    assert entries(deduced.replace("k<N>", "k<N, T>")) == []  # T is unknown


def test_explicit_instantiations_of_a_host_function_are_followed():
    source = """
    template <int N> void run(float* x) { k<N><<<N, 32>>>(x); }
    template void run<4>(float*);
    template void run<8>(float*);
    """
    assert entries(source) == ["k<4>", "k<8>"]


def test_a_launch_through_a_local_pointer_is_found():
    assert entries("void f() { auto kernel = &n::k<2>; kernel<<<1, 2>>>(x); }") == ["n::k<2>"]
    assert entries("void f() { auto kernel = k; kernel<<<1, 2>>>(x); }") == ["k"]


def test_constant_template_arguments_are_evaluated():
    assert entries("void f() { k<(64) / 4, float><<<1, 2>>>(x); }") == ["k<16, float>"]


def test_arguments_of_a_launch_are_resolved_to_tensors_and_sizes():
    source = """
    void run(torch::Tensor x) {
        CHECK(x) const int rows = x.size(0);
        auto y = torch::empty_like(x);
        float* scratch;
        cudaMalloc(&scratch, rows * sizeof(float));
        k<<<rows, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), scratch, rows);
    }"""
    (launch,) = launches_of(source)
    assert launch.given == (
        "x",
        "torch::empty_like(x)",
        "scratch",
        "x.size(0)",
    )
    assert launch.called["x.size(0)"] == "rows" and launch.allocated == {"scratch": "rows * sizeof(float)"}
