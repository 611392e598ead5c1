"""Unsupported constructs are explained, but only at places that the compiler's log names."""

import pytest

from tkjit.source.unsupported import why_not_on_the_cpu


@pytest.mark.parametrize("log", ["a.cu:9:1: error: expected ';'", "", "b.cu:2:1: error: 'tex3D' was not declared"])
def test_constructs_that_the_log_does_not_mention_are_ignored(log):
    source = "int x;\n// tex3D\ncudaTextureObject_t t;\n#include <cub/grid/grid_queue.cuh>\n"
    assert why_not_on_the_cpu(source, "a.cu", log) == ""


@pytest.mark.parametrize(
    "name, what",
    [("tex2D", "textures"), ("bmma_sync", "wmma")],
)
def test_a_name_that_the_simulator_lacks(name, what):
    log = f"a.cu:2:8: error: ‘{name}’ was not declared in this scope"  # noqa: RUF001
    message = why_not_on_the_cpu(f"int x;\nauto y = {name}();\n", "a.cu", log)
    assert message.startswith("a.cu:2 needs ") and what in message


@pytest.mark.parametrize(
    "header, named",
    [("cub/device/device_copy.cuh", True), ("cuda/latch", True), ("curand_kernel.h", True), ("custom.h", False)],
)
def test_a_header_that_the_simulator_lacks(header, named):
    source = f"// first\n#include <{header}>\n"
    message = why_not_on_the_cpu(source, "a.cu", f"a.cu:2:10: fatal error: {header}: No such file or directory")
    assert message.startswith(f"a.cu:2 includes <{header}>") if named else message == ""


def test_a_launch_that_was_not_rewritten_is_named():
    log = "{}:{}:7: error: expected primary-expression before '<' token\n    3 | f<<<1, 1>>>(x);\n      |  ^\n"
    macro = "#define ONE <<<1, 1>>>\nvoid g() { f ONE(x); }\n"
    assert why_not_on_the_cpu(macro, "a.cu", log.format("a.cu", 1)).startswith(
        "a.cu:1 launches with <<<...>>> in a form"
    )
    assert why_not_on_the_cpu(macro, "a.cu", "a.cu:9:1: error: expected ';'") == ""


@pytest.mark.parametrize(("namespace", "named"), [("nvcuda::wmma", True), ("cuda::device", False)])
def test_only_the_experimental_names_of_wmma_are_sub_byte_types(namespace, named):
    source = f"int x;\n{namespace}::experimental::u x;\n"
    message = why_not_on_the_cpu(source, "a.cu", f"a.cu:2:8: error: 'u' is no member of '{namespace}::experimental'")
    assert ("sub-byte types" in message) == named
