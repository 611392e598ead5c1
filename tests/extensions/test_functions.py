"""Finding the functions of a source, for the module of sources that do not define one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkjit.extensions.functions import functions_of, lines_of
from tkjit.extensions.modules import with_module
from tkjit.extensions.sources import Extension, Source


@pytest.mark.parametrize(
    ("source", "schema"),
    [
        ("void f(torch::Tensor x) { }", "f(Tensor(a!) x) -> ()"),
        ("void f(torch::Tensor& out, const torch::Tensor& x) { }", "f(Tensor(a!) out, Tensor x) -> ()"),
        ("void f(at::Tensor const& x, Tensor& out) { }", "f(Tensor x, Tensor(b!) out) -> ()"),
        ("Tensor f(Tensor x, int64_t n, double by, bool is) { }", "f(Tensor x, int n, float by, bool is) -> Tensor"),
        ("static inline at::Tensor f(at::Tensor x) { }", "f(Tensor x) -> Tensor"),
        ("Tensor f(std::optional<torch::Tensor> x) { }", "f(Tensor? x) -> Tensor"),
        ("Tensor f(const c10::optional<at::Tensor>& x) { }", "f(Tensor? x) -> Tensor"),
        ("void f(const std::optional<torch::stable::Tensor>& x, Tensor& y) { }", "f(Tensor? x, Tensor(b!) y) -> ()"),
        ("Tensor f(std::vector<at::Tensor> x, at::IntArrayRef n) { }", "f(Tensor[] x, int[] n) -> Tensor"),
        ("Tensor f(std::string_view s, const std::string& t) { }", "f(str s, str t) -> Tensor"),
        ("Tensor f(std::optional<std::vector<int64_t>> n) { }", "f(int[]? n) -> Tensor"),
        ("Tensor f(unsigned int n, unsigned m, long long k) { }", "f(int n, int m, int k) -> Tensor"),
        ("std::tuple<Tensor, int64_t, Tensor> f() { }", "f() -> (Tensor, int, Tensor)"),
        ("std::vector<at::Tensor> f(Tensor x) { }", "f(Tensor x) -> Tensor[]"),
        ("Tensor f(Tensor x, float by = 1.0f) { }", "f(Tensor x, float by) -> Tensor"),
        ("using ptr_t = int64_t; Tensor f(ptr_t p) { }", "f(int p) -> Tensor"),
        ("typedef std::vector<at::Tensor> List; Tensor f(List p) { }", "f(Tensor[] p) -> Tensor"),
        ("__host__ Tensor f(at::ScalarType t) { }", "f(ScalarType t) -> Tensor"),
        ("[[nodiscard]] auto n() -> int { } Tensor f(Tensor) { }", "f(Tensor arg0) -> Tensor"),
    ],
)
def test_schema_of_a_function(source, schema):
    assert [function.schema for function in functions_of(source)] == [schema]


@pytest.mark.parametrize(
    "source",
    [
        "template <class T> Tensor f(Tensor x) { }",
        "struct S { Tensor f(Tensor x) { } };",
        "Tensor S::f(Tensor x) { }",
        "Tensor operator+(Tensor a, Tensor b) { }",
        "Tensor f(Tensor x);",
        "Tensor f(Tensor* x) { }",
        "Tensor f(Tensor x, Mine y) { }",
        "Tensor f(Tensor&& x) { }",
        "Tensor f(Tensor x) { } Tensor f(Tensor x, int n) { }",
        "int f(int n) { }",
        "__global__ void f(Tensor x) { }",
        "__device__ void f(Tensor x) { }",
        "Tensor f(Tensor x, int n[3]) { }",
    ],
)
def test_functions_that_a_module_cannot_expose(source):
    assert functions_of(source) == []


def test_names_include_namespaces():
    source = "namespace a::b { namespace { Tensor f(Tensor x) { } } inline namespace c { Tensor g(Tensor x) { } } }"
    assert [function.name for function in functions_of(source)] == ["a::b::f", "a::b::c::g"]


def test_lines_of_one_file():
    text = '# 1 "/a/b.cu"\none\n# 1 "/a/c.h" 1\ntwo\n# 2 "/a/b.cu" 2\nthree\n'
    assert lines_of(Path("/a/b.cu"), text) == "one\nthree"


def test_module_of_two_sources():
    sources = (Source("a.cu", Path("/x"), '#include "a.cu"\n'), Source("b.cpp", Path("/x"), '#include "b.cpp"\n'))
    functions = [
        functions_of("Tensor f(Tensor x, int n = 3) { }"),
        functions_of("namespace n { Tensor g(Tensor x) { } }"),
    ]
    first, second = with_module(Extension("both", sources), functions).sources
    chosen = "static_cast<Tensor (*)(Tensor, int)>(&f)"
    arguments = 'pybind11::arg("x"), pybind11::arg("n") = 3'
    assert f'm.def("f", {chosen}, pybind11::whole_doc{{"f(Tensor x, int n) -> Tensor"}}, {arguments});' in first.text
    assert "void tkjit_functions_0(pybind11::module_& m) {" in first.text
    assert "    tkjit_functions_0(m);" in second.text and "    n::tkjit_add_1_0(m);" in second.text
    assert "PYBIND11_MODULE" not in first.text and second.text.count("PYBIND11_MODULE") == 1
