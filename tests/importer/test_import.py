"""``python -m tkjit import``: parsing with libclang, and calls of the generated specs."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.sample_library.library import ROOT as MITTENS
from support.sampling import sample

import tkjit
from tkjit.cli import main
from tkjit.config import Settings
from tkjit.errors import ToolchainError
from tkjit.headers import find_root
from tkjit.spec import LIBRARIES, Spec

pytestmark = [pytest.mark.compiles, pytest.mark.usefixtures("clang")]
SETTINGS = Settings.from_environment()  # read before the tests get their own cache


Import = Callable[..., dict[str, Spec]]


@pytest.fixture
def importing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Import:
    """Return a function that imports a text or a file and returns the written specs by name."""

    def run(source: str | Path, *options: str) -> dict[str, Spec]:
        path = source if isinstance(source, Path) else tmp_path / "source.cu"
        if isinstance(source, str):
            path.write_text(source)
        output = tmp_path / "imported.py"
        status = main(["import", str(path), *options, "-o", str(output), "--force"])
        run.said = capsys.readouterr().err  # type: ignore[attr-defined]
        assert status == 0, run.said  # type: ignore[attr-defined]
        return specs_of(output)

    return run


def specs_of(path: Path) -> dict[str, Spec]:
    scope: dict = {}
    exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), scope)
    return {name: value.specs[0] for name, value in scope.items() if isinstance(value, tkjit.Kernel)}


def refused(path: Path, capsys, *options: str) -> str:
    assert main(["import", str(path), *options]) == 1
    return capsys.readouterr().err


def facts(spec: Spec) -> list[tuple[str, str, str, str]]:
    return [(f.name, f.direction, f.dtype, " ".join(map(str, f.dims))) for f in spec.fields]


# ---- plain arguments


VECTOR_ADD = """
__global__ void vector_add(const float* a, const float* b, float* c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
int main() {
    const int count = 1000, threads = 64;
    float *a, *b, *c;
    vector_add<<<(count + threads - 1) / threads, threads>>>(a, b, c, count);
}
"""


@pytest.mark.slow
def test_plain_arguments_become_parameters(importing):
    (spec,) = importing(VECTOR_ADD).values()
    assert facts(spec) == [
        ("a", "in", "float32", "a_size"),
        ("b", "in", "float32", "b_size"),
        ("c", "inout", "float32", "c_size"),
        ("n", "scalar", "int", ""),
    ]
    assert spec.args and spec.entry == "vector_add"
    assert "c may be Out" in importing.said and "n may follow from dims" in importing.said


@pytest.mark.slow
def test_libclangs_signal_handlers_are_removed(importing):
    importing(VECTOR_ADD)
    (caught,) = re.findall(r"SigCgt:\s*([0-9a-f]+)", Path("/proc/self/status").read_text())
    assert not int(caught, 16) & 1 << (signal.SIGTRAP - 1)  # only libclang would handle it


def test_an_imported_kernel_runs(tmp_path, monkeypatch, importing):
    source = VECTOR_ADD.replace("const int count = 1000, threads = 64;", "int threads = 64, count = 1000;")
    source = source.replace("int threads = 64, count = 1000;", "const int threads = 64; const int count = 1000;")
    (spec,) = importing(source).values()
    assert [str(part) for part in spec.grid] == ["(n + 64 - 1) // 64"] and str(spec.block[0]) == "64"
    (tmp_path / "vector_add.py").write_text((tmp_path / "imported.py").read_text())
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    a, b, c = torch.randn(1000), torch.randn(1000), torch.zeros(1000)
    assert tkjit.load("vector_add")(a, b, c, 1000) is c
    assert torch.equal(c, a + b)


@pytest.mark.slow
def test_element_types_become_dtypes(importing):
    pairs = {
        "double": "float64", "__half": "float16", "half": "float16", "__nv_bfloat16": "bfloat16",
        "__nv_fp8_e4m3": "float8_e4m3fn", "__nv_fp8_e5m2": "float8_e5m2", "bool": "bool", "uint8_t": "uint8",
        "int8_t": "int8", "short": "int16", "unsigned": "uint32", "int64_t": "int64", "size_t": "uint64",
    }  # fmt: skip
    parameters = ", ".join(f"const {cpp}* __restrict__ x{i}" for i, cpp in enumerate(pairs))
    headers = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n#include <cstdint>\n"
    (spec,) = importing(f"{headers}using other = float;\n__global__ void k({parameters}, other* y) {{}}").values()
    assert [f.dtype for f in spec.fields] == [*pairs.values(), "float32"]


# ---- structs


@pytest.mark.slow  # one more import that is compiled
def test_a_struct_of_tkjits_layouts_is_imported(importing):
    source = """
    #include <tkjit/gl.h>
    struct globals {
        tkjit::gl<float, 1, 1, -1, 64> x;
        tkjit::gl<__nv_bfloat16> y;
        const float scale;
        unsigned n;
    };
    __global__ void k(const __grid_constant__ globals g) {}
    """
    (spec,) = importing("#include <cuda_bf16.h>\n" + source).values()
    assert spec.struct == "globals"
    assert facts(spec) == [
        ("x", "in", "float32", "x_rows 64"),
        ("y", "inout", "bfloat16", "y_batch y_depth y_rows y_cols"),
        ("scale", "scalar", "float", ""),
        ("n", "scalar", "uint32_t", ""),
    ]
    assert spec.grid.text == "TODO" and "grid: the source does not launch it" in importing.said


@pytest.mark.slow  # one more import that is compiled
def test_a_struct_in_a_template_can_set_its_own_launch(importing):
    (spec,) = importing(MITTENS / "kernels/row_scale.cu", "-I", str(MITTENS / "include")).values()
    assert spec.entry == "row_scale<D>" and spec.struct == "auto" and dict(spec.variants) == {"D": (32, 128)}
    assert facts(spec)[:2] == [("x", "in", "float32", "x_rows D"), ("y", "inout", "float32", "y_rows D")]
    assert spec.grid == () and spec.block == () and spec.shared_memory is None
    x, y = torch.randn(3, 32), torch.empty(3, 32)
    tkjit.Kernel(spec)(x, y, 2.0)
    assert torch.equal(y, x.flip(1) * 2)


@pytest.mark.slow  # one more import that is compiled
def test_an_instance_of_a_librarys_kernel_template_is_imported(importing):
    """Its template argument is followed through host functions; missing headers of the binding do not matter."""
    (spec,) = importing(MITTENS / "kernels/gemm.cu", "-I", str(MITTENS / "include")).values()
    assert spec.name == "gemm" and spec.entry == "mittens::kernel<gemm_template<16>>"
    assert spec.struct == "gemm_layout<16>::globals"
    assert facts(spec) == [
        ("A", "in", "bfloat16", "A_rows A_cols"),
        ("B", "in", "bfloat16", "B_rows B_cols"),
        ("C", "inout", "bfloat16", "C_rows C_cols"),
    ]
    assert str(spec.block) == "mittens::threads_v<gemm_template<16>>"
    assert spec.grid.text == "TODO" and "grid: the source has dim3(gemm_template<16>::grid(M, N))" in importing.said


def test_the_user_can_choose_an_instance(importing):
    options = ("-I", str(MITTENS / "include"), "--instance", "mittens::kernel<gemm_template<32>>")
    (spec,) = importing(MITTENS / "kernels/gemm.cu", *options).values()
    assert spec.entry == "mittens::kernel<gemm_template<32>>" and spec.struct == "gemm_layout<32>::globals"


def test_dtypes_become_a_variant_and_integers_may_follow_the_struct(importing):
    (spec,) = importing(MITTENS / "kernels/residual.cu", "-I", str(MITTENS / "include")).values()
    assert spec.entry == "add_residual<T>" and dict(spec.variants) == {"T": ("float32", "bfloat16")}
    assert [f.dtype for f in spec.fields] == ["T", "T", "T", "int", "int", "int"]
    assert spec.trailing == ("rows_per_block_trailing",) and str(spec.block) == "NUM_THREADS"


@pytest.mark.slow
def test_layouts_in_a_nested_struct_become_parameters(importing):
    (spec,) = importing(MITTENS / "kernels/complex_product.cu", "-I", str(MITTENS / "include")).values()
    members = [(f.name, f.member) for f in spec.fields]
    assert members[:2] == [("x_real", "x.real"), ("x_imag", "x.imag")] and members[-1] == ("magnitude", "")


def test_a_device_function_launched_with_a_config_is_imported(importing):
    specs = importing(MITTENS / "kernels/row_sums.cu", "-I", str(MITTENS / "include"), "-D", "MITTENS_FLAVOUR=7")
    spec = specs["row_sums"]
    assert (spec.entry, spec.struct, spec.config) == ("row_sums::kernel", "row_sums::globals", "row_sums::config")
    assert dict(spec.defines) == {"MITTENS_FLAVOUR": "7"}
    x, sums = torch.randn(4, 50), torch.empty(4)
    tkjit.Kernel(spec)(x, sums)
    torch.testing.assert_close(sums, x.sum(1))


def test_a_launch_config_sets_the_cluster_and_pdl(importing):
    (spec,) = importing(MITTENS / "kernels/clustered.cu", "-I", str(MITTENS / "include")).values()
    assert (spec.entry, spec.struct, spec.cluster, spec.pdl) == ("copy", "copy_globals", (2,), True)
    assert spec.grid == () and spec.block == () and "TODO: grid" not in importing.said  # the struct sets them


@pytest.mark.slow
def test_a_parallel_layout_is_imported(importing):
    (spec,) = importing(MITTENS / "kernels/device_sums.cu", "-I", str(MITTENS / "include")).values()
    assert spec.num_devices == 2 and [name for name, _ in spec.computed] == ["dev_idx"]
    assert [(f.name, f.is_parallel, f.member) for f in spec.fields] == [("parts", True, ""), ("out_", False, "out")]


# ---- errors that are reported, and errors that do not matter


def test_a_source_without_kernels_is_reported(tmp_path, capsys):
    (tmp_path / "a.cu").write_text("int f(int x) { return x; }\nnamespace n { template <class T> void g(T); }")
    said = refused(tmp_path / "a.cu", capsys)
    assert said == "tkjit: a.cu has no __global__ function; its functions are: f(int x); template <T> n::g(T)\n"


def test_a_template_without_an_instance_is_reported(tmp_path, capsys):
    (tmp_path / "a.cu").write_text("template <class T, int N> __global__ void k(T* x) {}")
    assert 'template <T, N> k(T * x): no instance is launched here; give --instance "k<...>"' in refused(
        tmp_path / "a.cu", capsys
    )


def test_an_ambiguous_or_unknown_name_is_reported(tmp_path, capsys, importing):
    source = "namespace a { __global__ void k(float* x) {} } namespace b { __global__ void k(int* x) {} }"
    (tmp_path / "a.cu").write_text(source)
    assert "a.cu has several kernels k; give one of a::k, b::k" in refused(tmp_path / "a.cu", capsys, "--kernel", "k")
    assert "a.cu has no kernel m; it has a::k, b::k" in refused(tmp_path / "a.cu", capsys, "--kernel", "m")
    (spec,) = importing(source, "--kernel", "b::k").values()
    assert spec.entry == "b::k"


MISSING = """#include "not_here.h"
typedef c10::Half scalar;
typedef scalar* pointer;
struct traits { typedef missing_t value_type; };
struct globals { float* x; pointer y; };
struct base { int n; };
struct derived : base { float* y; };
struct empty {};
struct same : empty { float* y; };
template <class T> struct of : T { float* y; };
__global__ void elements(const scalar* x, float* y) {}
__global__ void number(traits::value_type n, float* x) {}
__global__ void member(globals g) {}
template <class T, class I = scalar> __global__ void argument(T* x, I n) {}
__global__ void inherits(derived g) {}
__global__ void inherits_template(of<base> g) {}
__global__ void inherits_nothing(same g) {}
__global__ void inherits_nothing_either(of<empty> g) {}
__global__ void whole(int n, float* x) {}
void run() { argument<pointer><<<1, 1>>>(nullptr, 1); argument<float><<<1, 1>>>(nullptr, 1); }
"""


def test_an_undeclared_type_is_an_open_question_and_not_an_int(importing, tmp_path):
    specs = importing(MISSING)
    assert set(specs) == {"inherits_nothing", "inherits_nothing_either", "whole"}
    text = " ".join((tmp_path / "imported.py").read_text().replace("#  ", "").split())
    assert "int32" not in text
    for said in (
        "elements: use of undeclared identifier 'c10' (source.cu:2)",
        "number: unknown type name 'missing_t' (source.cu:4)",
        "member: use of undeclared identifier 'c10' (source.cu:2)",
        "argument<pointer>: use of undeclared identifier 'c10' (source.cu:2)",
        "argument<float>: use of undeclared identifier 'c10' (source.cu:2)",
        "inherits: base is a base class, which no parameter of a spec describes",
        "inherits_template: T is a base class, which no parameter of a spec describes",
    ):
        assert f"# TODO: {said}" in text and said in importing.said


@pytest.mark.slow  # one more import that is compiled
def test_an_error_in_a_needed_declaration_is_reported(tmp_path, capsys):
    (tmp_path / "a.cu").write_text("int fine;\n__global__ void k(missing m) {}\n")
    assert "k: unknown type name 'missing' (a.cu:2)" in refused(tmp_path / "a.cu", capsys)
    (tmp_path / "a.cu").write_text("struct g {\n    none x;\n    float* y; };\n__global__ void k(g a) {}\n")
    assert "k: unknown type name 'none' (a.cu:2)" in refused(tmp_path / "a.cu", capsys)
    (tmp_path / "b.cu").write_text("template <class T> struct g { typename T::none x; };\n"
                                   "template <class T> __global__ void k(g<T> a) {}")  # fmt: skip
    errors = refused(tmp_path / "b.cu", capsys, "--instance", "k<int>")
    assert "k<int>: " in errors and "(b.cu:1)" in errors


@pytest.mark.slow
def test_errors_elsewhere_do_not_matter(importing):
    (spec,) = importing("#include <not/there.h>\nvoid broken() { undeclared(; }\n" + VECTOR_ADD).values()
    assert spec.name == "vector_add"


def test_a_missing_source_and_an_existing_output_are_reported(tmp_path, capsys, importing):
    assert "there is no such file" in refused(tmp_path / "none.cu", capsys)
    (tmp_path / "a.cu").write_text(VECTOR_ADD)
    (tmp_path / "a.py").write_text("kept")
    assert "exists; --force replaces it" in refused(tmp_path / "a.cu", capsys, "-o", str(tmp_path / "a.py"))
    assert (tmp_path / "a.py").read_text() == "kept"


ELEMENTS = [("80", "int32"), ("90a", "float32"), ("100a", "float64"), ("120f", "float64")]


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "element"), sample(ELEMENTS, "90a-float32", name="-".join))
def test_the_architecture_sets_macros_even_if_it_is_newer_than_clang(importing, tmp_path, monkeypatch, arch, element):
    """A library's macro for the architecture selects a type, whether or not clang knows the architecture."""
    (tmp_path / "kittens/include").mkdir(parents=True)
    (tmp_path / "kittens" / LIBRARIES["thunderkittens"].proof).write_text("#pragma once\n")
    monkeypatch.setenv("THUNDERKITTENS_ROOT", str(tmp_path / "kittens"))
    source = """
    #include "kittens.cuh"
    #if defined(KITTENS_BLACKWELL)
    using element = double;
    #elif defined(KITTENS_HOPPER)
    using element = float;
    #elif defined(KITTENS_AMPERE)
    using element = int;
    #endif
    __global__ void k(element* x) {}
    """
    (spec,) = importing(source, "--headers", "thunderkittens", "--arch", arch).values()
    assert spec.fields[0].dtype == element and [library.name for library in spec.headers] == ["thunderkittens"]


def test_the_spec_is_printed_to_standard_output(tmp_path, capsys):
    (tmp_path / "a.cu").write_text(VECTOR_ADD)
    assert main(["import", str(tmp_path / "a.cu")]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith('"""The kernels of a.cu') and '    "a.cu",\n' in printed.out
    assert printed.err.startswith("to be decided (")


def test_missing_libclang_is_reported(tmp_path, capsys, monkeypatch):
    import sys

    from tkjit.importer import clang

    clang._cindex.cache_clear()
    monkeypatch.setitem(sys.modules, "clang", None)
    (tmp_path / "a.cu").write_text(VECTOR_ADD)
    said = refused(tmp_path / "a.cu", capsys)
    assert said == f'tkjit: libclang is not installed; install it: {sys.executable} -m pip install "tkjit[import]"\n'
    clang._cindex.cache_clear()


def test_missing_headers_of_clang_are_reported(tmp_path, capsys, monkeypatch):
    from tkjit.importer import clang

    clang._resources.cache_clear()
    monkeypatch.setattr(clang, "_in_package", lambda name, version: [])
    if not any(Path(f"/usr/lib/{where}").is_dir() for where in ("llvm-18", "clang/18")):
        (tmp_path / "a.cu").write_text(VECTOR_ADD)
        assert "the headers of clang 18 are not found; install them: " in refused(tmp_path / "a.cu", capsys)
    clang._resources.cache_clear()


def test_the_path_of_the_source_is_relative_to_the_spec(tmp_path, capsys):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/a.cu").write_text(VECTOR_ADD)
    assert main(["import", str(tmp_path / "kernels/a.cu"), "-o", str(tmp_path / "a.py")]) == 0
    (spec,) = specs_of(tmp_path / "a.py").values()
    assert spec.sources[0][1].path == tmp_path / "kernels/a.cu"


# ---- ThunderKittens' own sources


@pytest.fixture(scope="module")
def kittens() -> Path:
    try:
        root = find_root(LIBRARIES["thunderkittens"], SETTINGS)
    except ToolchainError as error:
        pytest.skip(str(error))
    assert root is not None
    return root


@pytest.fixture
def of_kittens(importing, kittens, monkeypatch) -> Import:
    monkeypatch.setenv("THUNDERKITTENS_ROOT", str(kittens))

    def run(path: str, *options: str) -> dict[str, Spec]:
        specs = importing(kittens / "kernels" / path, "--headers", "thunderkittens", *options)
        assert all(spec.sources[0][1].place == f"<thunderkittens>/kernels/{path}" for spec in specs.values())
        return specs

    return run


def test_thunderkittens_gemm_is_imported(of_kittens):
    (spec,) = of_kittens("gemm/bf16_h100/bf16_h100_gemm.cu").values()
    assert spec.entry == "prototype::lcf::kernel<matmul_template<2, 4, 8>>"
    assert spec.struct == "matmul_layout<2, 4>::globals"
    assert facts(spec) == [
        ("A", "in", "bfloat16", "A_rows A_cols"),
        ("B", "in", "bfloat16", "B_rows B_cols"),
        ("C", "inout", "bfloat16", "C_rows C_cols"),
    ]
    assert str(spec.block).endswith("prototype::detail::NUM_THREADS_v<matmul_template<2, 4, 8>>")
    assert str(spec.shared_memory) == "MAX_SHARED_MEMORY - 1024"


def test_thunderkittens_layernorm_is_imported(of_kittens):
    (spec,) = of_kittens("layernorm/layernorm.cu").values()
    assert spec.entry == "layernorm_tk<1024>" and spec.struct == "norm_globals<1024>"
    assert [f.name for f in spec.fields] == (
        "x residual o o_resid norm_weight norm_bias n_tile_size n_per_tile n_per_tile_trailing".split()
    )
    assert spec.trailing == ("n_per_tile_trailing",) and str(spec.block) == "NUM_THREADS"
    assert str(spec.shared_memory) == "25480"


def test_thunderkittens_rotary_is_imported(of_kittens):
    """Its launches are in a template of the binding, under an ``#ifdef``."""
    (spec,) = of_kittens("rotary/rotary.cu").values()
    assert spec.entry.endswith("prototype::lcsf::kernel<rotary_template<D>>") and dict(spec.variants) == {
        "D": (64, 128)
    }
    dims = {f.name: [str(dim) for dim in f.dims] for f in spec.fields}
    assert dims["x"][-1] == "D" and dims["sin"] == ["sin_rows", "D // 2"]
    assert spec.order == tuple("o x sin cos batches".split())


def test_thunderkittens_attention_is_imported(of_kittens):
    specs = of_kittens("attention/mha_h100/mha_h100.cu")
    assert list(specs) == ["fwd_attend_ker", "bwd_attend_prep_ker", "bwd_attend_ker"]
    forward = specs["fwd_attend_ker"]
    assert forward.entry == "fwd_attend_ker<D, is_causal>"
    assert dict(forward.variants) == {"D": (64, 128), "is_causal": (True, False)}
    assert [(f.name, f.default) for f in forward.fields[-2:]] == [("D", 64), ("is_causal", True)]
    assert forward.order == tuple("q k v l o N hr".split())
    (spec,) = of_kittens("attention/mha_h100/mha_h100.cu", "--instance", "fwd_attend_ker<128, false>").values()
    assert spec.struct == "fwd_globals<128>" and str(spec.block) == "32 * NUM_WORKERS"


def test_thunderkittens_all_reduce_is_imported(of_kittens):
    """It includes the headers of a binding, which may be missing."""
    spec = of_kittens("parallel/all_reduce/all_reduce.cu")["all_reduce"]
    assert (spec.entry, spec.struct, spec.config) == (
        "all_reduce::kernel",
        "all_reduce::globals",
        "all_reduce::config",
    )
    assert spec.num_devices == 8 and [name for name, _ in spec.computed] == ["dev_idx"]
    assert [(f.name, f.is_parallel, f.dtype) for f in spec.fields] == [("tensor", True, "bfloat16")]


PYUTILS = r"""
struct Layout { using dtype = float; float* raw_ptr; Layout(float*, int*, int*, int*, int); };
struct globals {
    Layout x, y;
    dim3 grid() const;
    dim3 block() const;
};
__global__ void copy_kernel(const __grid_constant__ globals g) {}
template <int D> __global__ void scale_kernel(const __grid_constant__ globals g) {}
void run(globals g) {}

struct Module {};
template <auto Kernel, class... Members> void bind_kernel(Module&, const char*, Members...) {}
template <auto Function, class... Members> void bind_function(Module&, const char*, Members...) {}
void bind(Module& m) {
    bind_kernel<copy_kernel>(m, "copy", &globals::x, &globals::y);
    bind_kernel<scale_kernel<64>>(m, "scale", &globals::x, &globals::y);
    // bind_kernel<copy_kernel>(m, "commented", &globals::x, &globals::y);
    bind_function<run>(m, "run_both", &globals::x, &globals::y);
}
"""


def test_kernels_that_a_source_binds_have_the_names_of_the_binding(importing):
    specs = importing(PYUTILS)
    assert specs.keys() == {"copy", "scale", "run_both"}
    assert [(specs[name].entry, specs[name].host) for name in ("copy", "scale", "run_both")] == [
        ("copy_kernel", False),
        ("scale_kernel<64>", False),
        ("run", True),
    ]
    for one in specs.values():
        assert [f.name for f in one.fields] == ["x", "y"] and one.struct == "globals" and not one.grid
