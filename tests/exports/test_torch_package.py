"""Kernels exported as the sources of a torch extension, which builds and runs without tkjit, with both bindings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import tomllib
from support.exportable import add, mix, noise, pick, turn
from support.exported_overloads import stretch
from support.named_variants import combine
from support.operators import parts, scale
from support.symbols import convolve
from support.torch_package import PACKAGE, build, export, run

import tkjit
from tkjit import Generator, In, InOut, Out, SpecError, Tensor, TkjitError
from tkjit.extensions.stable_abi import unstable_symbols
from tkjit.kernel_objects.loading import kernel_of_file

pytestmark = pytest.mark.compiles

KERNELS = ("gemm", "softmax", "axpy", mix, turn, pick, add, noise, scale, parts, combine, convolve, stretch)
F32 = "float32"


@pytest.fixture(scope="module", params=["stable", pytest.param("pybind11", marks=pytest.mark.slow)])
def package(request, tmp_path_factory) -> Path:
    return export(tmp_path_factory.mktemp(request.param) / PACKAGE, *KERNELS, binding=request.param)


@pytest.fixture(scope="module")
def built(package) -> Path:
    return build(package)


def test_tests_of_the_package_pass(package, built):
    shown = run(built, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(package / "tests"))
    passed = int(re.search(r"(\d+) passed", shown)[1])
    assert passed >= 15 and "failed" not in shown


@pytest.mark.slow
def test_package_does_not_need_tkjit(package, built):
    imports = re.findall(r"^(?:import|from) tkjit", "".join(p.read_text() for p in package.rglob("*.py")), re.MULTILINE)
    assert imports == []
    code = (
        "import sys; sys.modules['tkjit'] = None; import torch, layers; print(layers.softmax(torch.ones(2, 4))[0, 0])"
    )
    assert "0.25" in run(built, "-c", code)


def test_stable_binding_needs_only_stable_symbols(package, built):
    (library,) = built.glob(f"{PACKAGE}/_C*.so")
    is_stable = library.name == "_C.abi3.so"
    assert list(unstable_symbols(library)) == [] if is_stable else "_C.cpython" in library.name


# calls as text, which both tkjit and the package evaluate
REFUSALS = (
    "gemm(x(2, 3), x(4, 5))",
    "gemm(x(2, 3), x(3, 5, dtype=torch.float16))",
    "gemm(x(2, 3, dtype=torch.int8), x(3, 5, dtype=torch.int8))",
    "gemm(x(2, 3, 1), x(3, 5))",
    "gemm(x(1, 1, 1, 2, 3), x(3, 5))",
    "gemm(x(3, 2).t(), x(3, 5))",
    "gemm(x(2, 3), x(3, 5), c=x(2, 4))",
    "gemm(x(2, 3), x(3, 5), c=x(2, 5, dtype=torch.float64))",
    "axpy(shared[1:], shared[:-1])",
    "axpy(x(3), x(4))",
    "axpy(x(3, 2), x(3, 2))",
    "axpy(x(3, dtype=torch.float64), x(3, dtype=torch.float64))",
    "softmax(x(3, 4, dtype=torch.complex64))",
    "mix(x(3, 4), x(3), divisor=3)",
    "mix(x(3, 4), x(3), count=300)",
    "mix(x(3, 4), x(3), width=3)",
    "mix(x(200, 4), x(200))",
    "mix(x(3, 4), shared[1:4])",
    "mix(x(3, 4), x(3), x(5))",
    "turn(x(1, 1, 1))",
    "pick(x(4), [0, 1, 2, 3, 4])",
    "add([x(4), x(5)])",
    "scale(x(3).int())",
    "combine(x(3), mode='add')",
    "convolve(x(3), x(2), x(2, 2).int())",
    "convolve(x(3), x(3).double(), x(2, 2).int())",
)
PRELUDE = """
import torch
def x(*sizes, dtype=torch.float32):
    return torch.ones(*sizes, dtype=dtype)
shared = torch.ones(9)
"""


def test_errors_have_the_same_texts_as_in_tkjit(built):
    program = f"""{PRELUDE}
import json, layers
def refusal(call):
    try:
        eval("layers." + call)
    except RuntimeError as error:
        return str(error)
print(json.dumps([refusal(call) for call in {REFUSALS!r}]))
"""
    names: dict[str, Any] = {}
    exec(PRELUDE, names)
    names |= {kernel.name: kernel for kernel in map(tkjit.load, KERNELS)}
    expected = []
    for call in REFUSALS:
        with pytest.raises(TkjitError) as raised:
            eval(call, names)
        expected.append(str(raised.value))
    found = json.loads(run(built, "-c", program))
    assert found == [_counting_items(text) for text in expected]


def _counting_items(text: str) -> str:
    """Replace the items of a list, which errors in Python show, by their number, which errors in C show."""
    return text.replace("[0, 1, 2, 3, 4] (list)", "5 items")


def test_gradients_are_recorded_or_rejected(built):
    program = f"""{PRELUDE}
import layers
a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True)
torch.autograd.gradcheck(lambda a, b: layers.gemm(a, b), (a, b), eps=1e-2, atol=1e-2)
layers.scale(a[0], factor=3.0).sum().backward()
assert torch.equal(a.grad[0], torch.full((4,), 3.0))
for call in (lambda: layers.axpy(a[0], x(4)), lambda: layers.gemm(a, b, c=x(3, 5))):
    try:
        call()
    except RuntimeError as error:
        print(error)
"""
    shown = run(built, "-W", "ignore", "-c", program).splitlines()
    assert shown[0].startswith(
        "axpy: x is (4,) float32 on cpu and requires a gradient, which this kernel does not record"
    )
    assert shown[1].startswith("gemm: a is (3, 4) float32 on cpu and requires a gradient, which out= does not record")


def test_a_call_and_a_gradient_choose_an_overload(built):
    program = f"""{PRELUDE}
import layers
from torch.testing import assert_close
for x in (torch.randn(3, requires_grad=True), torch.randn(2, 3, requires_grad=True)):
    layers.stretch(x, 3.0).sum().backward()
    assert_close(x.grad, torch.full_like(x, 3.0))
assert_close(layers.stretch(factor=3.0, x=torch.ones(2, 3), divisor=1), torch.full((2, 3), 3.0))
assert_close(layers.stretch_overload1(torch.ones(2, 3), 3.0), torch.full((2, 3), 3.0))
out = torch.empty(3)
assert layers.stretch(torch.ones(3), y=out) is out
compiled = torch.compile(lambda x: layers.stretch(x, 2.0), fullgraph=True, backend="aot_eager")
assert_close(compiled(torch.ones(2, 3)), torch.full((2, 3), 2.0))
for arguments in ((torch.ones(2, 3),), (torch.ones(2, 3, dtype=torch.float64), 2.0), (torch.ones(3), 2.0, 1), ()):
    try:
        layers.stretch(*arguments)
    except TypeError as error:
        print(error)
"""
    shown = run(built, "-W", "ignore", "-c", program).splitlines()
    received = ["(float32 (2, 3))", "(float64 (2, 3), 2.0)", "(float32 (3,), 2.0, 1)", "()"]
    signatures = (
        "stretch(x: Tensor, factor: float = 2.0, *, y: Tensor | None = None) or "
        "stretch(x: Tensor, factor: float, divisor: int = 1, *, y: Tensor | None = None)"
    )
    assert shown == [f"stretch: no overload takes {one}; expected {signatures}" for one in received]


@pytest.mark.slow
def test_torch_compile_with_dynamic_shapes(built):
    program = """
import torch, layers
function = torch.compile(lambda a, b: layers.gemm(a, b).relu(), fullgraph=True, dynamic=True, backend="aot_eager")
for m in (3, 7):
    a, b = torch.randn(m, 4), torch.randn(4, 5)
    torch.testing.assert_close(function(a, b), (a @ b).relu())
compiled = torch.compile(lambda xs: layers.add(xs), fullgraph=True, backend="aot_eager")
assert torch.equal(compiled([None, torch.ones(4)]), torch.ones(4))
"""
    run(built, "-W", "ignore", "-c", program)


def test_old_torch_is_rejected(package, built):
    program = """
import torch
torch.__version__ = "2.10.1+cpu"
try:
    import layers
except ImportError as error:
    print(error)
"""
    shown = run(built, "-c", program).strip()
    is_stable = (package / "build.toml").exists()  # pip checks the version for a pybind11 module
    assert shown == ("layers needs PyTorch 2.11 or later; this is 2.10.1+cpu" if is_stable else "")


@pytest.mark.slow
def test_second_package_with_the_same_operator_is_rejected(built):
    """Of two packages that define the same operator, the second is rejected, and the error names the operator."""
    program = """
import torch
torch.library.define("layers::axpy", "(Tensor x) -> ()")
try:
    import layers
except (ImportError, RuntimeError) as error:
    print(error)
"""
    assert "layers::axpy" in run(built, "-c", program)


def test_random_numbers_come_from_the_torch_generator(built):
    program = """
import torch, layers
torch.manual_seed(3)
first, second = layers.noise(torch.ones(8)), layers.noise(torch.ones(8))
torch.manual_seed(3)
again = layers.noise(torch.ones(8))
assert torch.equal(first, again) and not torch.equal(first, second)
"""
    run(built, "-c", program)


@pytest.mark.slow
def test_load_inline_builds_the_same_module(tmp_path):
    directory = export(tmp_path / PACKAGE, "softmax", binding="pybind11")
    program = "from load_inline import layers; import torch; print(layers.softmax(torch.ones(2, 4))[0, 0].item())"
    assert run(directory, "-c", program).split()[-1] == "0.25"


def test_package_has_the_layout_of_kernel_builder(tmp_path):
    directory = export(tmp_path / PACKAGE, "gemm", archs=("cpu", "80", "90a"))
    read = tomllib.loads((directory / "build.toml").read_text())
    assert read["general"] == {"name": PACKAGE, "version": 1, "edition": 5, "backends": ["cpu", "cuda"]}
    assert read["torch"]["stable-abi"] == {"cpu": "2.11", "cuda": "2.11"}
    listed = [*read["torch"]["src"], *(path for kernel in read["kernel"].values() for path in kernel["src"])]
    assert [path for path in listed if not (directory / path).is_file()] == []
    of_hopper = read["kernel"]["layers_cuda_gemm_float32_sm_90a"]
    assert of_hopper["cuda-capabilities"] == ["9.0a"] and of_hopper["backend"] == "cuda"
    for name in (
        "torch-ext/torch_binding.cpp",
        f"torch-ext/{PACKAGE}/__init__.py",
        "tests/test_layers.py",
        "README.md",
    ):
        assert (directory / name).is_file()


def test_only_an_export_is_replaced(tmp_path):
    directory = export(tmp_path / PACKAGE, "axpy")
    export(directory, "softmax")
    assert not list(directory.glob("*_cpu/axpy*"))
    (tmp_path / "own").mkdir()
    (tmp_path / "own/file").touch()
    with pytest.raises(tkjit.CacheError, match="is not an export"):
        export(tmp_path / "own", "axpy")


# ---- kernels and options that cannot be exported

SOURCE = "__global__ void twice(Globals g) { g.y[threadIdx.x] = 2 * g.x[threadIdx.x]; }"
LAUNCH = {"entry": "twice", "grid": 1, "block": "N"}
FACTORS = {"x": 2.0}


def gradient_with_a_table(grad_y):
    return grad_y * FACTORS["x"]


def doubled(function):
    return function


@doubled
def decorated(grad_y):
    return grad_y


def gradient_with_a_decorated_helper(grad_y):
    return decorated(grad_y)


def even(grad_y):
    return uneven(grad_y)


def uneven(grad_y):
    return even(grad_y)


def gradient_with_helpers_in_a_circle(grad_y):
    return even(grad_y)


another_name = even


def gradient_with_another_name(grad_y):
    return another_name(grad_y)


def gradient_by_a_kernel(grad_y):
    return tkjit.load("softmax")(grad_y)


@tkjit.kernel(SOURCE, **LAUNCH, backward=gradient_with_a_table)
def with_a_table(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor:
    """A gradient that uses a dict of its module."""


def with_gradient(function: Any) -> tkjit.Kernel:
    @tkjit.kernel(SOURCE, **LAUNCH, backward=function)
    def twice(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor: ...

    return twice


@tkjit.kernel(SOURCE, **LAUNCH, backward=gradient_by_a_kernel)
def with_tkjit(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor:
    """A gradient that calls tkjit."""


@tkjit.kernel(SOURCE, **LAUNCH, backward=lambda grad_y: grad_y)
def with_a_lambda(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor:
    """A gradient without a name."""


@tkjit.kernel('__global__ void pass() { asm("nop;"); }', entry="pass", grid=1, block=1, args=True)
def with_ptx(x: InOut[Tensor, F32, "N"]) -> Tensor:
    """Inline PTX."""


def test_kernel_that_a_gradient_calls_is_exported(tmp_path):
    made = export(tmp_path / PACKAGE, "gemm")
    text = (made / f"torch-ext/{PACKAGE}/__init__.py").read_text()
    assert 'grad_a = gemm(grad_c, b.T.contiguous()) if "a" in needed else None' in text


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (with_a_table, "its backward uses FACTORS, a dict that the package would lack"),
        (with_tkjit, "its backward uses tkjit, a module that the package would lack"),
        (with_gradient(gradient_with_a_decorated_helper), "its backward is not a plain function"),
        (with_gradient(gradient_with_helpers_in_a_circle), "which calls itself through other functions"),
        (with_gradient(gradient_with_another_name), "another_name, which is another name of the function even"),
        (with_a_lambda, "its backward is not a plain function; define it with def"),
        (with_ptx, "contain inline PTX, which tkjit adapts only while it builds; export for GPUs only: --arch 90a"),
    ],
)
def test_kernels_that_need_tkjit_are_rejected(tmp_path, kernel, text):
    with pytest.raises(SpecError, match=re.escape(text)):
        export(tmp_path / PACKAGE, kernel)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"languages": ["torch", "go"]}, "torch cannot be combined with go; make two exports"),
        ({"languages": ["torch"], "binding": "nanobind"}, "unknown binding 'nanobind'; expected stable or pybind11"),
        ({"languages": ["torch"], "name": "torch"}, "Python or torch has that name; choose another"),
        ({"languages": ["torch"], "name": "json"}, "Python or torch has that name; choose another"),
        (
            {"languages": ["torch"], "package": "other"},
            "is only for Go and Rust; leave it out, because a torch extension is named",
        ),
        ({"languages": ["go"], "binding": "pybind11"}, "the binding 'pybind11' is only for torch extensions"),
    ],
)
def test_bad_options_are_rejected(tmp_path, given, text):
    with pytest.raises(SpecError, match=re.escape(text)):
        tkjit.export("axpy", **{"name": "own", "output": tmp_path / "own", **given})
    assert list(tmp_path.iterdir()) == []


def test_kernel_without_an_operator_is_rejected(tmp_path):
    @tkjit.kernel("int count(tkjit::gl<float> x) { return x.cols(); }", entry="count", host=True, args=True)
    def count(x: In[Tensor, F32, "N"]) -> int:
        """A number."""

    with pytest.raises(SpecError, match="count has no operator: it returns a number"):
        export(tmp_path / PACKAGE, count)


# ---- unusual kernels: the rendered Python compiles, and keeps the meaning of each parameter


def written(directory: Path) -> str:
    """Compile all Python files of the package, and return the text of the module with its functions."""
    for path in directory.rglob("*.py"):
        compile(path.read_text(), str(path), "exec")
    return (directory / f"torch-ext/{PACKAGE}/__init__.py").read_text()


@tkjit.kernel("__global__ void odd(Globals g) {}", entry="odd", grid=1, block=1)
def odd(
    bias: In[Tensor, F32, "N"] | None,
    x: In[Tensor, F32, "N"],
    seed: int,
    first: In[Generator, 4],
    second: In[Generator, 4],
    weights: list[float] = (1.0, float("inf")),
    limit: float = float("-inf"),
    *,
    y: Out[Tensor, F32, "N"],
) -> Tensor:
    """Its documentation ends in a "quote\""""


@pytest.mark.parametrize("binding", ["stable", "pybind11"])
def test_unusual_parameters(tmp_path, binding):
    text = written(export(tmp_path / PACKAGE, odd, combine, binding=binding))
    assert 'weights: list[float] = (1.0, float("inf"))' in text and 'limit: float = float("-inf")' in text
    assert 'seed_of_first, offset_of_first = _draw("odd", first, x.device, 4)' in text
    assert "seed_of_first, offset_of_first, seed_of_second, offset_of_second)" in text
    fake = text[text.index("def _fake_odd(") :]
    assert fake.index("(N,) = x.shape") < fake.index("if bias is not None:")
    assert "mode: str = 'ops::Mode::add'" in text


def test_headers_with_the_same_name_stay_apart(tmp_path):
    kernels = []
    for name in ("one", "two"):
        directory = tmp_path / name / "src"
        directory.mkdir(parents=True)
        (directory / "util.h").write_text(f"// of {name}\n")
        (tmp_path / name / "shared.h").write_text("// shared\n")
        (directory / f"{name}.cu").write_text(
            f'#include "util.h"\n#include "../shared.h"\n__global__ void {name}(float* x) {{ x[0] = 1; }}\n'
        )
        (directory / f"{name}.py").write_text(
            "import tkjit\nfrom tkjit import InOut, Tensor\n\n\n"
            f'@tkjit.kernel("{name}.cu", entry="{name}", grid=1, block=1, args=True)\n'
            f'def {name}(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...\n'
        )
        kernels.append(kernel_of_file(directory / f"{name}.py"))
    directory = export(tmp_path / PACKAGE, *kernels)
    assert sorted(path.read_text() for path in directory.rglob("util.h")) == ["// of one\n", "// of two\n"]
    for source in json.loads((directory / "sources.json").read_text()):
        for place in source["include"]:
            if place.startswith("kernels/"):
                assert (directory / place / "util.h").is_file() and (directory / place / "../shared.h").is_file()


@tkjit.kernel("__global__ void w(float* x, float* y) {}", entry="w", grid=1, block=1, args=True)
def softmax_out(x: In[Tensor, F32, "N"], y: InOut[Tensor, F32, "N"]) -> Tensor: ...


SCALE_BY = 3.0


def helper_with_a_default(grad_y, by=SCALE_BY):
    return grad_y * by


def gradient_with_a_default(grad_y):
    return helper_with_a_default(grad_y)


def test_constants_of_a_helpers_defaults_are_copied(tmp_path):
    text = written(export(tmp_path / PACKAGE, with_gradient(gradient_with_a_default)))
    assert text.index("SCALE_BY = 3.0") < text.index("def helper_with_a_default(grad_y, by=SCALE_BY):")


def gradient_with_a_sum(grad_y):
    return sum([grad_y, grad_y])


def kernel_named_sum() -> tkjit.Kernel:
    @tkjit.kernel("__global__ void total(float* x) {}", entry="total", grid=1, block=1, args=True)
    def sum(x: InOut[Tensor, F32, "N"]) -> Tensor: ...

    return sum


def test_kernel_named_like_a_builtin_function(tmp_path):
    written(export(tmp_path / "plain", kernel_named_sum()))
    with pytest.raises(SpecError, match="its backward calls Python's sum, but a kernel has that name"):
        export(tmp_path / PACKAGE, kernel_named_sum(), with_gradient(gradient_with_a_sum))


def test_operators_with_the_same_name_are_rejected(tmp_path):
    with pytest.raises(SpecError, match="softmax_out cannot be exported: softmax also has a function softmax_out"):
        export(tmp_path / PACKAGE, "softmax", softmax_out)
