"""Common mistakes in a spec: the error explains what to change in the spec, followed by the compiler's error."""

import pytest
import torch

import tkjit
from tkjit import In, InOut, Out, Tensor

pytestmark = pytest.mark.compiles
TEMPLATE = "template <typename T> __global__ void relu(const __grid_constant__ Globals g) {}"
PLAIN = "__global__ void add(const float* x, float* y, int n) {}"
RANDOM = "#include <curand_kernel.h>\n__global__ void draw(Globals g) {}"


def error_of(source: str, entry: str, **options) -> tkjit.TkjitError:
    @tkjit.kernel(source, entry=entry, grid=1, block=1, **options)
    def kernel(x: In[Tensor, "float32", "N"], y: InOut[Tensor, "float32", "N"]) -> None: ...

    with pytest.raises((tkjit.CompileError, tkjit.ToolchainError)) as caught:
        kernel(torch.ones(1), torch.ones(1))
    return caught.value


@pytest.mark.parametrize(
    ("source", "entry", "options", "expected"),
    [
        (TEMPLATE, "rellu<float>", {}, "kernel: the source has no __global__ function rellu; it has relu<typename T>("),
        (TEMPLATE, "relu", {}, 'kernel: relu is a template, <typename T>; write entry="relu<T>"'),
        (PLAIN, "add", {}, "kernel: add(const float* x, float* y, int n) takes plain arguments instead of a struct"),
        (PLAIN, "add", {"args": True}, "kernel: add(const float* x, float* y, int n) has 3 parameters, but the spec"),
        (
            TEMPLATE,
            "relu<T>",
            {},
            'kernel: T in entry="relu<T>" is not a variant; declare it, as in variants={"T": ("float32", "bfloat16")}',
        ),
    ],
)
def test_a_wrong_entry_is_explained(session_cache, source, entry, options, expected):
    error = error_of(source, entry, **options)
    assert isinstance(error, tkjit.CompileError)
    assert error.summary.startswith(expected) and "error: " in error.summary and error.summary in str(error)


def test_a_missing_header_that_can_be_installed_is_explained(session_cache, monkeypatch):
    monkeypatch.delenv("CURAND_ROOT", raising=False)
    text = str(error_of(RANDOM, "draw"))
    assert 'add headers="curand" to the spec and install them: python -m tkjit headers add curand' in text


def test_the_module_testing_needs_no_separate_import(fresh):
    assert fresh.run("import tkjit; print(tkjit.testing.verify.__name__)") == "verify\n"
    with pytest.raises(AttributeError, match="module 'tkjit' has no attribute 'testing_'"):
        tkjit.testing_  # noqa: B018


@pytest.mark.slow
@pytest.mark.nvcc
@pytest.mark.parametrize("compiler", ["nvcc", "nvrtc"])
def test_a_wrong_entry_is_explained_for_a_gpu(session_cache, fresh, compiler):
    code = f"""
import tkjit
from tkjit.compile.targets import gpu_target
from tkjit.config import Settings
from tkjit.loader import loader_for
@tkjit.kernel({TEMPLATE!r}, entry="rellu<float>", grid=1, block=1)
def kernel(x: tkjit.InOut[tkjit.Tensor, "float32", "N"]) -> None: ...
loader, spec = loader_for(Settings.from_environment()), kernel.specs[0]
try:
    loader.find_or_build(loader.launcher_plan(spec, tkjit.spec.variants_of(spec)[0], gpu_target("90a")))
except tkjit.CompileError as error:
    print(error.summary.splitlines()[0])
"""
    printed = fresh.run(code, TKJIT_COMPILER=compiler)
    assert printed.startswith("kernel: the source has no __global__ function rellu; it has relu<typename T>(")


def kernel_of(body: str, head: str = "__global__ void", **options):
    source = f"{head} f(const __grid_constant__ Globals g) {{ {body} }}"

    @tkjit.kernel(source, **{"entry": "f", "grid": 1, "block": 32, **options})
    def f(x: In[Tensor, "float32", "M", "N"], y: Out[Tensor, "float32", "M", "N"]) -> Tensor: ...

    return f


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (kernel_of("g.y[0, 1] = 1;"), r"f: inline\.cu:1: \.y\[0, 1\] has one index, the last, .*; \.y\(0, 1\) has two"),
        (
            kernel_of("", "__device__ void"),
            r"f: inline\.cu:1: f\(.*Globals g\) is not a kernel; write __global__ before it",
        ),
    ],
)
def test_a_mistake_that_compiles_is_rejected(session_cache, kernel, message):
    with pytest.raises(tkjit.SpecError, match=message):
        kernel(torch.ones(2, 3))


def test_a_grid_that_is_rounded_down_to_zero_is_rejected(session_cache):
    kernel = kernel_of("g.y[threadIdx.x] = 1;", grid="N // 32")
    with pytest.raises(tkjit.LaunchError, match="f: grid is 0 blocks, N // 32; // rounds down, and cdiv rounds up"):
        kernel(torch.ones(2, 31))
    assert kernel(torch.ones(1, 32)).tolist() == [[1.0] * 32]
    assert kernel(torch.ones(2, 0)).numel() == 0


def test_an_error_is_raised_once(session_cache):
    """The compiler's error is not its cause, because the text already contains it."""
    error = error_of(PLAIN, "addd", args=True)
    assert error.__cause__ is None and error.__suppress_context__
