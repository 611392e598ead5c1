"""Expansion of macros that contain launches by the C++ compiler's preprocessor."""

from __future__ import annotations

import shutil
from pathlib import Path

from tkjit.importer.launches import launches_of
from tkjit.importer.macros import expand_launches

CXX = Path(shutil.which("g++") or "g++")
DISPATCH = {
    "AT_DISPATCH_CASE": "#define AT_DISPATCH_CASE(dtype, ...) \\\n"
    "    case dtype: { using scalar_t [[maybe_unused]] = type_of<dtype>; return __VA_ARGS__(); }",
    "AT_DISPATCH_SWITCH": "#define AT_DISPATCH_SWITCH(dtype, name, ...) [&] { switch (dtype) { __VA_ARGS__ } }()",
    "AT_DISPATCH_FLOATING_TYPES": "#define AT_DISPATCH_FLOATING_TYPES(dtype, name, ...) \\\n"
    "    AT_DISPATCH_SWITCH(dtype, name, AT_DISPATCH_CASE(kDouble, __VA_ARGS__) AT_DISPATCH_CASE(kFloat, __VA_ARGS__))",
    "UNUSED": "#define UNUSED(x) x x",
    "WARP": "#define WARP 32",
}


def entries(source: str, known=DISPATCH) -> list[tuple[str, int]]:
    return [(launch.entry, launch.line) for launch in launches_of(expand_launches(source, known, CXX))]


def test_a_dispatch_gives_an_instance_for_each_dtype():
    source = """
void run(at::Tensor x) {
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "scale", [&] {
        scale<scalar_t><<<4, WARP>>>(x.data_ptr<scalar_t>());
    });
}"""
    assert entries(source) == [("scale<type_of<kDouble>>", 3), ("scale<type_of<kFloat>>", 3)]


def test_a_dispatch_around_a_call_of_a_launcher_is_expanded():
    source = """
template <class T> void launch(T* x) { scale<T><<<4, 32>>>(x); }
void run(at::Tensor x) { AT_DISPATCH_FLOATING_TYPES(x.dtype(), "scale", [&] { launch<scalar_t>(x.data_ptr()); }); }
"""
    assert [entry for entry, _ in entries(source)] == ["scale<type_of<kDouble>>", "scale<type_of<kFloat>>"]


def test_a_sources_own_macros_can_paste_names_and_define_functions():
    source = """
#define LAUNCH(n) add_##n<n><<<1, n>>>(x)
#define BIND(n)           \\
    void run_##n(float* x) { \\
        switch (n) {       \\
            case n: LAUNCH(n); \\
        }                  \\
    }

BIND(32)
BIND(64)
"""
    assert entries(source) == [("add_32<32>", 10), ("add_64<64>", 11)]


def test_constants_keep_their_names():
    source = "#define THREADS 128\n#define LAUNCH(k) k<<<1, THREADS>>>(x)\nvoid f() { LAUNCH(scale); }"
    (launch,) = launches_of(expand_launches(source, {}, CXX))
    assert dict(launch.parts)["block"].text == "THREADS"


def test_directives_and_line_numbers_are_kept():
    source = """
#define LAUNCH(k) k<<<1, 1>>>(x)
#ifdef NEVER
#include <nowhere.h>
void f() {
#else
void f(int n) {
#endif
    LAUNCH(scale);
}
"""
    assert entries(source) == [("scale", 9)]


def test_the_text_is_unchanged_without_a_compiler_or_if_a_macro_is_misused():
    source = "#define LAUNCH(k) k<<<1, 1>>>(x)\nvoid f() { scale<<<1, 1>>>(x); LAUNCH(other); }"
    assert expand_launches(source, {}, None).text == source
    assert expand_launches(source, {}, Path("/nowhere/g++")).text == source
    wrongly = "#define LAUNCH(k) k<<<1, 1>>>(x)\nvoid f() { scale<<<1, 1>>>(x); LAUNCH(other; }"
    assert entries(wrongly) == [("scale", 2)]


def test_a_text_without_macros_is_unchanged():
    source = "void f() { scale<<<1, 1>>>(x); }"
    assert expand_launches(source, DISPATCH, CXX).text is source
