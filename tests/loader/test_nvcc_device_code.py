"""Device code through NVRTC: which sources it compiles, which ones need nvcc, and what keys and entries contain."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.define import define
from support.sampling import sample

import tkjit
from tkjit import CompileError, ToolchainError
from tkjit.cache.entry import read_dependencies, read_manifest
from tkjit.cli import main
from tkjit.compile.targets import gpu_target
from tkjit.config import Settings
from tkjit.loader import Loader, loader_for
from tkjit.spec import Variant
from tkjit.spec.variants import variants_of

pytestmark = pytest.mark.nvcc
HOPPER = gpu_target("90a")
TENSOR = '(x: InOut[Tensor, "float32", "N"])'
SHAPE = {"grid": 1, "block": 32, "args": True}


def build(loader: Loader, source: str | Path, entry: str = "f", signature: str = TENSOR, **options):
    kernel = define(source, signature, entry=entry, **{**SHAPE, **options})
    return loader.launcher(kernel.specs[0], Variant(), HOPPER)


def f(body: str, before: str = "") -> str:
    return f"{before}\n__global__ void f(float* x) {{ {body} }}\n"


# features of device code, all of which NVRTC compiles
ACCEPTED = {
    "the standard library": f(
        "static_assert(std::is_same_v<std::decay_t<const int&>, int>); assert(x != nullptr);"
        "x[0] = std::max(std::sqrt(x[1]), std::numeric_limits<float>::lowest()) + float(uint64_t(M_PI)) + INT_MAX;",
        "".join(
            f"#include <{name}>\n"
            for name in "algorithm cassert cfloat climits cmath concepts cstddef cstdint cstdio limits type_traits "
            "utility stdint.h math.h assert.h float.h limits.h stddef.h stdio.h cuda_runtime.h".split()
        ),
    ),
    "libcu++ and cooperative groups": f(
        "cooperative_groups::this_grid().sync(); cuda::atomic_ref<float, cuda::thread_scope_device>(x[0]).fetch_add(1);"
        "static_assert(cuda::std::is_same_v<cuda::std::int64_t, int64_t> && sizeof(cuda::std::size_t) == 8);",
        "".join(f"#include <{name}>\n" for name in ("cooperative_groups.h", "cuda/atomic", "cuda/std/cstdint")),
    ),
    "types": f("x[0] = float(__half(1)) + float(__nv_bfloat16(2));", "#include <cuda_fp16.h>\n#include <cuda_bf16.h>"),
    "constants": f("x[0] = two[threadIdx.x % 2] + t;", "__constant__ float two[2] = {1, 2};\n__device__ float t;"),
    "printf": f('printf("%f\\n", x[0]);'),
    "assert": f("assert(x[0] > 0);", "#include <cassert>"),
    "macros in pragmas": f("\n#pragma unroll COUNT\nfor (int i = 0; i < COUNT; ++i) x[i] = i;", "#define COUNT 4"),
    "helpers without annotations": f(
        "x[0] = twice(x[1]) + Pair{1, 2}.sum() + [](float y) { return y; }(3);",
        "inline float twice(float y) { return 2 * y; }\n"
        "struct Pair { float a, b; constexpr float sum() const { return a + b; } };",
    ),
    "an unused template": f("x[0] = 1;", "template <class T> __global__ void other(T* x) { T::no_such_thing(); }"),
    "shared memory": f("extern __shared__ float shared[]; shared[threadIdx.x] = x[threadIdx.x]; x[0] = shared[1];"),
    "inline PTX": f('unsigned id; asm volatile("mov.u32 %0, %%laneid;" : "=r"(id)); x[0] = id;'),
    "launch bounds": "__global__ __launch_bounds__(256, 2) void f(float* __restrict__ x) { x[0] = 1; }",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("source", ACCEPTED.values(), ids=ACCEPTED)
def test_nvrtc_compiles_device_code(loader, source):
    manifest = build(loader, source, compiler="nvrtc", shared_memory=1024).manifest
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["nvrtc"]) and manifest["registers"] > 0
    assert "why_nvcc" not in manifest


def test_nvrtc_compiles_a_name_that_a_parameter_chooses(loader):
    source = "struct one { static constexpr int number = 1; };\ntemplate <class Op> " + f("x[0] = Op::number;").lstrip()
    signature = '(x: InOut[Tensor, "float32", "N"], op: str = "one")'
    kernel = define(source, signature, entry="f<op>", variants={"op": ("one",)}, compiler="nvrtc", **SHAPE)
    assert loader.launcher(kernel.specs[0], Variant((("op", "one"),)), HOPPER).manifest["registers"] > 0


# sources that need nvcc, by the reason for it, which tkjit finds in the source or in NVRTC's log
NEEDS_NVCC = {
    "it has host code: <<<": (f("x[0] = 1;") + "inline void go(float* x) { f<<<1, 32>>>(x); }", {}),
    "it has host code: main": (f("x[0] = 1;") + "int main() { return 0; }", {}),
    "it includes <vector>": (f("x[0] = 1;", "#include <vector>"), {}),
    "its flag --compress-mode=size is only for nvcc": (f("x[0] = 1;"), {"flags": ["--compress-mode=size"]}),
    "it uses std::tuple, which tkjit does not provide": (f("x[0] = 1; (void)sizeof(std::tuple<int>);"), {}),
    "it uses cudaGetLastError, which is only for host code": (
        f("x[0] = 1;") + "inline void go() { cudaGetLastError(); }",
        {},
    ),
    "it is linked with m": (f("x[0] = 1;"), {"libraries": "m"}),
    "its launch is computed in C++": (f("x[0] = 1;") + "constexpr int blocks = 3;", {"grid": tkjit.CExpr("blocks")}),
}


QUICK_REASONS = ("it has host code: main", "its launch is computed in C++")


@pytest.mark.parametrize("reason", sample(NEEDS_NVCC, *QUICK_REASONS))
def test_nvcc_compiles_sources_that_nvrtc_cannot(loader, reason):
    source, options = NEEDS_NVCC[reason]
    manifest = build(loader, source, **options).manifest
    assert manifest["why_nvcc"].startswith(reason) and "nvrtc" not in manifest


def test_nvcc_compiles_a_source_whose_header_includes_a_host_header(loader, tmp_path):
    (tmp_path / "own.h").write_text("#include <vector>\n")
    entry = loader.launcher(
        define(f("x[0] = 1;", '#include "own.h"'), TENSOR, entry="f", include_dirs=tmp_path, **SHAPE).specs[0],
        Variant(),
        HOPPER,
    )
    assert entry.manifest["why_nvcc"] == "it includes vector, which NVRTC does not find"
    assert not {"kernel.cubin", "kernel.names", "launcher.json"} & {path.name for path in entry.directory.iterdir()}


@pytest.mark.slow
def test_show_prints_the_compiler(loader, tmp_path, monkeypatch, capsys):
    (tmp_path / "alone.cu").write_text(f("x[0] = 1;"))
    (tmp_path / "hosted.cu").write_text(f("x[0] = 1;", "#include <vector>"))
    for name in ("alone", "hosted"):
        spec = f'import tkjit\nfrom tkjit import InOut, Tensor\n\n@tkjit.kernel("{name}.cu", entry="f", args=True, '
        spec += f'grid=1, block=32)\ndef {name}(x: InOut[Tensor, "float32", "N"]) -> None: ...\n'
        (tmp_path / f"{name}.py").write_text(spec)
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    assert main(["warmup", "alone", "hosted", "--arch", "90a"]) == 0
    capsys.readouterr()
    assert main(["show", "alone"]) == 0 and re.search(
        r"B static shared memory; by NVRTC 1\d\.\d", capsys.readouterr().out
    )
    assert main(["show", "hosted"]) == 0 and "; by nvcc, since it includes <vector>" in capsys.readouterr().out


def test_requesting_nvrtc_for_a_source_that_needs_nvcc_is_an_error(loader):
    with pytest.raises(ToolchainError, match=r"cannot be compiled with NVRTC, which .* asks for: it includes <vector>"):
        build(loader, f("x[0] = 1;", "#include <vector>"), compiler="nvrtc")
    source = f("x[0] = 1;") + "inline void go() { cudaGetLastError(); }"
    with pytest.raises(CompileError, match='identifier "cudaGetLastError" is undefined'):
        build(loader, source, compiler="nvrtc")


@pytest.mark.slow
def test_the_user_can_choose_the_compiler(loader, monkeypatch):
    source = f("x[0] = 5;")
    assert "nvrtc" not in build(loader, source, compiler="nvcc").manifest
    monkeypatch.setenv("TKJIT_COMPILER", "nvcc")
    assert "nvrtc" not in build(loader_for(Settings.from_environment()), source).manifest
    monkeypatch.setenv("TKJIT_COMPILER", "nvrtc")
    assert "nvrtc" in build(loader_for(Settings.from_environment()), source).manifest
    with pytest.raises(tkjit.CacheError, match="TKJIT_COMPILER is 'gcc'; expected nvcc or nvrtc"):
        Settings.from_environment({"TKJIT_COMPILER": "gcc"})
    with pytest.raises(tkjit.SpecError, match="compiler is 'gcc'; expected 'nvcc' or 'nvrtc'"):
        define(source, TENSOR, entry="f", **SHAPE, compiler="gcc")


def test_an_error_is_reported_on_the_users_line(loader, tmp_path):
    (tmp_path / "wrong.cu").write_text("// first\n__global__ void f(float* x) {\n    x[0] = undefined_name;\n}\n")
    with pytest.raises(CompileError) as error:
        build(loader, tmp_path / "wrong.cu")
    expected = f'{tmp_path}/wrong.cu(3): error: identifier "undefined_name" is undefined'
    assert str(error.value).startswith(expected)
    assert "nvrtc_child.py" in error.value.command  # no other compiler was tried


def test_the_parameters_must_match_the_spec(loader):
    with pytest.raises(CompileError, match=r"the parameters of f; the spec of feature_\d+ says otherwise"):
        build(loader, "__global__ void f(int* x) {}")
    with pytest.raises(CompileError, match="the parameters of f"):
        build(loader, "__global__ void f(float* x, int n) {}")


def test_the_entrys_resources_are_separate_from_other_kernels(loader):
    other = """
__global__ void other(float* x) {
    __shared__ float s[99];
    s[threadIdx.x] = x[0];
    __syncthreads();
    x[1] = s[threadIdx.x ^ 1];
}"""
    manifest = build(loader, f("x[0] = 1;") + other, compiler="nvrtc").manifest
    assert manifest["shared_memory_bytes"] == 0
    assert manifest["other_kernels"]["other(float*)"]["shared_memory_bytes"] == 396


def test_every_header_is_a_dependency(loader, tmp_path):
    """Headers inside any ``#if`` count, and so does a header that appears in an earlier directory."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "second/value.h").write_text("#define VALUE 1\n")
    (tmp_path / "rtc.h").write_text('#  include /* here */ \\\n  "deep.h"\n')
    (tmp_path / "deep.h").write_text("#define DEEP 1\n")
    (tmp_path / "k.cu").write_text(
        '#if __CUDACC_RTC__\n#include "rtc.h"\n#endif\n#include <value.h>\n' + f("x[0] = VALUE + DEEP;")
    )
    kernel = define(
        tmp_path / "k.cu",
        TENSOR,
        entry="f",
        include_dirs=[tmp_path / "first", tmp_path / "second"],
        compiler="nvrtc",
        **SHAPE,
    )

    def entry() -> Path:
        return loader.launcher(kernel.specs[0], Variant(), HOPPER).shared_object

    built = entry()
    assert entry() == built
    recorded = read_dependencies(built.parent, read_manifest(built.parent))["files"]
    for name in ("rtc.h", "deep.h", "stand_ins/nvrtc/math.h", "tkjit/field_types.h"):
        assert any(path.endswith(f"/{name}") for path in recorded), name
    (tmp_path / "deep.h").write_text("#define DEEP 22\n")
    changed = entry()
    assert changed != built
    (tmp_path / "first/value.h").write_text("#define VALUE 333\n")
    assert entry() not in (changed, built)


def test_a_parameter_with_a_struct_of_the_source_is_an_error(loader):
    """The host code cannot fill the struct, and the parameters do not match the spec."""
    with pytest.raises(CompileError, match="the parameters of f") as error:
        build(loader, "struct Own { int a; };\n__global__ void f(Own own) {}")
    assert "nvrtc_child.py" in error.value.command


@pytest.mark.parametrize(
    "name", sample(["axpy", "softmax", "all_gather", "all_reduce", "all_reduce_one_shot", "reduce_scatter"], "axpy")
)
def test_nvrtc_and_nvcc_produce_the_same_machine_code_for_bundled_kernels(sass, name):
    """If both compilers have the same version, the machine code is the same.

    softmax is the exception, because it indexes shared memory: nvcc computes such addresses with 32 bits, and NVRTC
    with 64, which no option changes. For softmax, only the numbers of instructions and registers are the same.
    """
    spec = tkjit.find(name).specs[0]
    settings = Settings.from_environment()
    codes, registers = [], []
    for compiler in ("nvrtc", "nvcc"):
        loader = loader_for(replace(settings, compiler=compiler))
        entry = loader.launcher(spec, variants_of(spec)[0], gpu_target("80"))
        assert ("nvrtc" in entry.manifest) == (compiler == "nvrtc")
        registers.append(entry.manifest["registers"])
        codes.append(_instructions(sass(entry.shared_object)))
    versions = loader.toolchain.nvrtc.version, loader.toolchain.nvcc.version
    if versions[0] not in versions[1]:
        pytest.skip(f"NVRTC is {versions[0]} and nvcc {versions[1]}: install those of one version")
    if name == "softmax":
        assert codes[0][0] == codes[1][0] and len(codes[0][1]) == len(codes[1][1]) and registers[0] == registers[1]
    else:
        assert codes[0] == codes[1]


def _instructions(listing: str) -> tuple[str, list[str]]:
    """The name of a kernel, and its instructions without their addresses."""
    instructions = re.findall(r"/\*[0-9a-f]{4,}\*/\s+([^;]+);", listing)
    assert instructions
    return listing.splitlines()[0], instructions
