"""Host functions that take torch tensors, as kernels: calls, tracing and schemas. They run in the simulator."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch

import tkjit
from tkjit import ArgumentError, SpecError
from tkjit.cli import main

pytestmark = [
    pytest.mark.compiles,
    pytest.mark.skipif(torch.cuda.is_available(), reason="needs the simulator: run it with CUDA_VISIBLE_DEVICES empty"),
]

SOURCE = """
#include <torch/extension.h>

template <class T>
__global__ void norm_kernel(T* out, const T* x, const T* weight, float epsilon, int n) {
    float sum = 0;
    const T* const row = x + blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += 32) sum += float(row[i]) * float(row[i]);
    for (int lane = 16; lane; lane /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lane);
    const float scale = rsqrtf(sum / n + epsilon);
    for (int i = threadIdx.x; i < n; i += 32)
        out[blockIdx.x * n + i] = T(float(row[i]) * scale * (weight ? float(weight[i]) : 1.f));
}
// CUDA has functions of this name as well
void norm(torch::Tensor& out, const torch::Tensor& x, const std::optional<torch::Tensor>& weight, double epsilon) {
    TORCH_CHECK(x.dim() == 2, "x must have 2 dims");
    TORCH_CHECK_VALUE(epsilon > 0, "epsilon must be positive");
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "norm", [&] {
        norm_kernel<scalar_t><<<x.size(0), 32>>>(out.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(),
                                                 weight ? weight->data_ptr<scalar_t>() : nullptr, epsilon, x.size(1));
    });
}
namespace own {
using List = std::vector<torch::Tensor>;
std::tuple<torch::Tensor, int64_t> normed(const List& rows, double epsilon) {
    auto out = torch::empty_like(rows[0]);
    norm(out, rows[0], std::nullopt, epsilon);
    return {out, int64_t(rows.size())};
}
}  // namespace own
torch::Tensor made(const torch::Tensor& x) {
    auto out = torch::empty_like(x);
    norm(out, x, std::nullopt, 1e-6);
    return out;
}
torch::Tensor same(const torch::Tensor& x) { return x.view({-1}); }
"""
SCHEMA = "norm(Tensor! out, Tensor x, Tensor? weight, float epsilon=1e-06) -> ()"


def reference(x, weight=None, epsilon=1e-6):
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)
    return y if weight is None else y * weight


def kernel(entry, **options):
    return tkjit.kernel(SOURCE, host=True, entry=entry, **options)


@kernel("norm", schema=SCHEMA)
def host_norm(out, x, weight=None, epsilon=1e-6):
    """Root mean square norm.

    Of rows."""
    out.copy_(reference(x, weight, epsilon))


@kernel("made")
def host_made(x):
    return reference(x)


@kernel("made")
def host_made_without_a_body(x): ...


@pytest.fixture
def x():
    return torch.randn(3, 40)


def test_call(x):
    out, weight = torch.empty_like(x), torch.randn(40)
    before = out._version
    assert host_norm(out, x, weight) is None
    assert torch.allclose(out, reference(x, weight), atol=1e-6)
    assert out._version > before, "autograd must know that its values have changed"
    host_norm(x=x.double(), out=(out := torch.empty_like(x).double()), epsilon=0.5)
    assert torch.allclose(out, reference(x.double(), epsilon=0.5), atol=1e-6)
    assert torch.allclose(host_made(x), host_made.reference(x), atol=1e-6)


def test_attributes():
    listed = "Tensor(a!) out, Tensor x, Tensor? weight=None, float epsilon=1e-06"
    assert host_norm.schema == f"tkjit::host_norm({listed}) -> ()"
    assert list(host_norm.signature.parameters) == ["out", "x", "weight", "epsilon"]
    assert host_norm.signature.parameters["epsilon"].default == 1e-6
    assert host_norm._summary == "Root mean square norm." and "Of rows." in inspect.getdoc(host_norm)
    assert host_made.schema == "tkjit::host_made(Tensor x) -> Tensor"
    assert repr(host_made) == "<tkjit kernel host_made: made of inline.cu>"
    assert host_norm.variants == ()


def test_operator_can_be_compiled(x):
    torch.library.opcheck(host_norm.operator.default, (torch.empty_like(x), x, torch.randn(40), 1e-5))
    torch.library.opcheck(host_made.operator.default, (x,))
    doubled = torch.compile(lambda x: 2 * host_made(x), backend="aot_eager", fullgraph=True)
    assert torch.allclose(doubled(x), 2 * reference(x), atol=1e-6)

    def both(x, weight):
        out = torch.empty_like(x)
        host_norm(out, x, weight=weight)
        return out + 1

    weight = torch.randn(40)
    compiled = torch.compile(both, backend="aot_eager", fullgraph=True)
    assert torch.allclose(compiled(x, weight), reference(x, weight) + 1, atol=1e-6)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        host_made(x.requires_grad_()).sum().backward()


def test_warming_builds_it_ahead_of_time(x):
    with tkjit.warming() as warm:
        made = host_made(x)
    (name,) = warm.names
    assert name.startswith(f"the extension {host_made._extension_name} for cpu-") and made.shape == host_made(x).shape
    assert host_made.warm_up().wait() is None


def test_kernel_without_a_body_runs_but_cannot_be_traced(x):
    assert torch.allclose(host_made_without_a_body(x), reference(x), atol=1e-6)
    with pytest.raises(SpecError, match="host_made_without_a_body has no reference"):
        _ = host_made_without_a_body.reference
    with pytest.raises(Exception, match="its function has no body that computes the shapes of its results"):
        torch.compile(host_made_without_a_body, backend="aot_eager", fullgraph=True)(x)


def test_lists_namespaces_and_tuples(x):
    @kernel("own::normed")
    def host_listed(rows, epsilon): ...

    out, count = host_listed([x, x], 1e-6)
    assert torch.allclose(out, reference(x), atol=1e-6) and count == 2
    assert host_listed.schema == "tkjit::host_listed(Tensor[] rows, float epsilon) -> (Tensor, int)"


def test_schema_from_another_file(tmp_path, x):
    (tmp_path / "bindings.cpp").write_text(
        'TORCH_LIBRARY(mine, ops) {\n  // norm(int x) -> ()\n  ops.def(\n      "norm(Tensor! result, Tensor x, "\n'
        '      "Tensor? weight, float epsilon) -> ()");\n  ops.def("other(Tensor x) -> ()", &other);\n}\n'
    )

    @kernel("norm", schema_from=tmp_path / "bindings.cpp")
    def host_registered(result, x, weight=None, epsilon=1e-6): ...

    host_registered(out := torch.empty_like(x), x)
    assert torch.allclose(out, reference(x), atol=1e-6)

    @kernel("made", schema_from=tmp_path / "bindings.cpp")
    def host_unregistered(x): ...

    with pytest.raises(SpecError, match=r"bindings.cpp registers no operator made; it registers norm, other"):
        host_unregistered(x)


def test_errors_keep_their_torch_types(x):
    with pytest.raises(RuntimeError, match="x must have 2 dims"):
        host_norm(torch.empty_like(x), x[0])
    with pytest.raises(ValueError, match="epsilon must be positive"):
        host_norm(torch.empty_like(x), x, epsilon=-1.0)
    with pytest.raises(ArgumentError, match="missing a required argument: 'x'"):
        host_norm(x)
    with pytest.raises(ArgumentError, match="no tensor is given"):
        host_norm(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("entry", "options", "text"),
    [
        ("norm", {"schema": "norm(Tensor! out, Tensor x) -> ()"}, "the schema has 2 arguments, but norm takes 4"),
        ("norm", {"schema": SCHEMA.replace("float", "str").split("=")[0] + ") -> ()"}, "epsilon is str .* takes float"),
        (
            "norm",
            {"schema": SCHEMA.replace("-> ()", "-> Tensor")},
            "returns Tensor, but norm returns nothing",
        ),
        ("norm", {"schema": SCHEMA.replace("float epsilon=1e-06", "int epsilon")}, "epsilon is int .* takes float"),
        ("norm", {"schema": "norm(Tensr x) -> ()"}, "schema= is 'norm"),
        ("nothing", {}, "has no host function nothing that tkjit can call; it has norm"),
        ("norm", {"schema_from": "nothing.cpp"}, "schema_from= is .*nothing.cpp: No such file"),
        ("made", {"schema": "made(Tensor y) -> Tensor"}, "takes x, which the schema lacks; it has y"),
    ],
)
def test_schema_that_contradicts_the_function_is_rejected(entry, options, text, x):
    def host_wrong(x): ...

    with pytest.raises(SpecError, match=text):
        kernel(entry, **options)(host_wrong)(x)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"grid": "N"}, "grid= is not for a host function"),
        ({"schema": "f() -> ()", "schema_from": "x.cpp"}, "exclude each other"),
    ],
)
def test_unsuitable_options_are_rejected(options, text):
    with pytest.raises(SpecError, match=text):
        kernel("norm", **options)(lambda x: ...)


def test_returning_an_argument_is_rejected(x):
    @kernel("same")
    def host_same(x): ...

    with pytest.raises(ArgumentError, match="returned one of its arguments or a view of it"):
        host_same(x)


@pytest.mark.slow  # compiles an extension
def test_spec_file(tmp_path, monkeypatch, x):
    source = "torch::Tensor made(const torch::Tensor& x) { return x + x; }"  # quick to compile
    (tmp_path / "norm.cu").write_text(f"#include <torch/extension.h>\n{source}\n")
    (tmp_path / "file_norm.py").write_text(
        'import tkjit\n\n\n@tkjit.kernel("norm.cu", host=True, entry="made")\ndef file_norm(x):\n    """A norm."""\n'
    )
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    loaded = tkjit.load("file_norm")
    assert torch.equal(loaded(x), 2 * x)
    assert loaded._changed_files() == ()
    (tmp_path / "norm.cu").write_text(f"#include <torch/extension.h>\n{source.replace('x + x', 'x - x')}\n")
    assert loaded._changed_files() == (tmp_path / "norm.cu",)
    assert torch.equal(tkjit.load("file_norm")(x), 0 * x)
    with pytest.raises(SpecError, match=r"file_norm is the host function made of norm.cu, which has no spec"):
        _ = loaded.specs


def test_copying_and_pickling_return_the_kernel(x):
    assert copy.deepcopy(host_made) is host_made
    again = pickle.loads(pickle.dumps(host_made))
    assert torch.equal(again(x), host_made(x))


@pytest.mark.slow  # compiles an extension
def test_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "shown.cu").write_text(
        "#include <torch/extension.h>\ntorch::Tensor made(torch::Tensor x) { return x; }\n"
    )
    (tmp_path / "shown.py").write_text(
        'import tkjit\n\n\n@tkjit.kernel("shown.cu", host=True, entry="made")\ndef shown(x):\n    """What it does."""\n'
    )
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    for command in (["list"], ["show", "shown"], ["stubs", "-o", str(tmp_path / "stubs")]):
        assert main(command) == 0
    printed = capsys.readouterr().out
    assert "What it does." in printed and "schema: tkjit::shown(Tensor x) -> Tensor" in printed
    assert "shown" not in (tmp_path / "stubs/tkjit/__init__.pyi").read_text()
    assert main(["why", "shown", "--device", "cpu"]) == 1
    assert "miss  shown.cu of the extension tkjit_host_shown" in capsys.readouterr().out
    for _ in range(2):  # the extension's functions, two objects and module, and the runtime
        assert main(["warmup", "shown", "--device", "cpu"]) == 0
    assert "5 ready (5 from the cache), 0 failed" in capsys.readouterr().out
    assert main(["why", "shown", "--device", "cpu"]) == 0 and main(["show", "shown"]) == 0
    printed = capsys.readouterr().out
    assert "hit   shown.cu of the extension tkjit_host_shown" in printed
    assert "shown.cu of the extension tkjit_host_shown: with tkjit's headers for torch" in printed
    assert main(["bundle", "shown", "--device", "cpu", "-o", str(tmp_path / "bundle")]) == 0


@pytest.mark.slow  # compiles an extension
def test_own_module_must_expose_the_function(x):
    own = '\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("other", &made); }\n'

    @tkjit.kernel(SOURCE + own, host=True, entry="made")
    def host_hidden(x): ...

    with pytest.raises(SpecError, match=r"the module that inline.cu defines has no made"):
        host_hidden(x)
