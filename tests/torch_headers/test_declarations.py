"""The declarations that precede a source, based on the words in it and in its headers."""

from __future__ import annotations

from tkjit.torch_headers.declarations import declarations


def test_operators_in_the_source_and_in_its_headers(tmp_path):
    (tmp_path / "mine.h").write_text("inline torch::Tensor f(torch::Tensor x) { return x.cumsum(0); }\n")
    text = declarations('#include "mine.h"\ntorch::Tensor g(torch::Tensor x) { return f(x).logsumexp(0); }', [tmp_path])
    assert "cumsum" in text and "logsumexp" in text and "softmax" not in text


def test_headers_that_do_not_mention_torch_are_left_out(tmp_path):
    (tmp_path / "mine.h").write_text("inline float cumsum(float x) { return x; }\n")
    assert declarations('#include "mine.h"\n', [tmp_path]) == ""


def test_words_that_make_the_stand_ins_include_more():
    assert "#define TKJIT_TORCH_COMPLEX\n" in declarations("c10::complex<float> z;", ())
    assert "#define TKJIT_TORCH_CUBLAS\n" in declarations("cublasHandle_t handle;", ())
    assert "#define TKJIT_TORCH_LIBRARY\n" in declarations("TORCH_LIBRARY_IMPL(space, CPU, m) {}", ())
    assert "TKJIT_TORCH_LIBRARY" not in declarations("#include <torch/library.h>", ())


def test_init_function_of_a_module_is_exported():
    assert "struct _object* PyInit__C();" in declarations("PyObject* PyInit__C(void) { return nullptr; }", ())
    assert "PyInit" not in declarations("PyMODINIT_FUNC CONCAT(PyInit_, NAME)() {}", ())
    assert declarations("float x;", ()) == ""
