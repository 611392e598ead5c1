"""axpy, gemm and softmax compile for three GPU generations, on a machine without a GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from support.sampling import sample

import tkjit
from tkjit import ToolchainError
from tkjit.compile.targets import gpu_target
from tkjit.spec import Variant, variants_of

pytestmark = pytest.mark.nvcc
ARCHS = ("80", "90a", "100a")
NAMES = ("axpy", "gemm", "softmax")
COMPILED = (
    *NAMES,
    *(
        "attention",
        "attention_gradient",
        "linear",
        "gated_linear",
        "matmul",
        "scaled_matmul",
        "grouped_matmul_gradient",
        "selective_scan",
    ),
    *("selective_scan_gradient", "linear_attention", "linear_attention_gradient"),
    "linear_attention_decay_gradient",
    *("rms_norm_gradient", "layer_norm_gradient", "rms_norm_fp8", "add_rms_norm_fp8", "layer_norm_fp8"),
)
OVERLOADS = ("attention", "attention_gradient")  # kernels whose second overload launches different code


@pytest.mark.slow
def test_warmup_compiles_all_variants_and_architectures():
    command = [sys.executable, "-m", "tkjit", "warmup", *NAMES, "--arch", ",".join(ARCHS), "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("sm_") == len(ARCHS) * sum(len(tkjit.find(name).variants) for name in NAMES)


@pytest.mark.parametrize("arch", sample(ARCHS, "90a"))
@pytest.mark.parametrize("name", sample(COMPILED, *NAMES))
def test_binary_has_one_architecture_and_no_spills(loader, sass, name, arch):
    check_binary(loader, sass, tkjit.find(name).specs[0], arch)


@pytest.mark.parametrize("arch", sample(ARCHS, "90a"))
@pytest.mark.parametrize("name", sample(OVERLOADS, "attention"))
def test_binary_of_an_overload_has_one_architecture_and_no_spills(loader, sass, name, arch):
    check_binary(loader, sass, tkjit.find(name).specs[1], arch)


def check_binary(loader, sass, spec, arch) -> None:
    entry = loader.launcher(spec, variants_of(spec)[1], gpu_target(arch))
    assert entry.manifest["registers"] > 0
    assert entry.manifest["spill_store_bytes"] == 0 and "serialized_wgmma" not in entry.manifest
    assert sass(entry.shared_object).splitlines()[0].endswith(f") for sm_{arch}")


# variants whose code differs in more than constants
HOPPER_VARIANTS = [
    *(("attention_gradient", {"T": "bfloat16", "D": depth}) for depth in (64, 128, 256)),
    *(("attention", {"T": "float16", "D": depth}) for depth in (64, 128, 256)),
    ("scaled_matmul", {"T": "float8_e4m3fn", "U": "float8_e5m2", "out_dtype": "bfloat16"}),
    ("scaled_matmul", {"T": "float8_e4m3fn", "U": "float8_e4m3fn", "out_dtype": "float32"}),
    *(("matmul", {"T": "float32", "precision": "tf32", "TA": 0, "TB": stored}) for stored in (0, 1)),
    ("matmul", {"T": "bfloat16", "precision": "ieee", "TA": 1, "TB": 0}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "values"), HOPPER_VARIANTS, ids=str)
def test_variant_for_hopper_has_no_spills(loader, name, values):
    entry = loader.launcher(tkjit.find(name).specs[0], Variant(tuple(values.items())), gpu_target("90a"))
    assert entry.manifest["stack_bytes"] == 0 and "serialized_wgmma" not in entry.manifest


@pytest.mark.parametrize("arch", sample(ARCHS, "90a"))
@pytest.mark.parametrize(
    ("dtype", "uses_tensor_cores"),
    [
        ("bfloat16", True),
        pytest.param("float16", True, marks=pytest.mark.slow),
        pytest.param("float32", False, marks=pytest.mark.slow),
    ],
)
def test_gemm_uses_tensor_cores_for_16_bit_types(loader, sass, arch, dtype, uses_tensor_cores):
    spec = tkjit.find("gemm").specs[0]
    entry = loader.launcher(spec, Variant((("T", dtype),)), gpu_target(arch))
    code = sass(entry.shared_object)
    instruction = "HGMMA.64x256x16" if arch == "90a" else "HMMA"
    assert (instruction in code) is uses_tensor_cores
    assert ("UTMALDG" in code) is (uses_tensor_cores and arch == "90a")
    assert ("FFMA" in code) is not uses_tensor_cores


def test_launch_without_a_driver_explains_the_failure(loader):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: test_gpu_kernels.py launches for real")
    import ctypes

    spec = tkjit.find("axpy").specs[0]
    opened = loader.open(loader.launcher_plan(spec, variants_of(spec)[0], gpu_target("90a")))
    launcher = ctypes.c_void_p(opened.loaded)
    function = ctypes.c_void_p.from_address(opened.loaded).value
    types = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p
    launch = ctypes.CFUNCTYPE(*types)(function)
    words = 19  # 64-bit words in a TkjitArg
    args = (ctypes.c_int64 * (3 * words))()
    args[1] = args[words + 1] = 1000  # the first extent of x and y
    error = launch(launcher, args, 0, None).decode()
    assert error.startswith("there is no CUDA driver: libcuda.so.1"), error
    assert error.endswith("; grid (4, 1, 1), block (256, 1, 1), 0 bytes of dynamic shared memory")


def test_a_launcher_of_nvcc_exports_its_flags(loader):
    import ctypes

    spec = tkjit.find("gemm").specs[0]
    library = ctypes.CDLL(str(loader.launcher(spec, variants_of(spec)[0], gpu_target("90a")).shared_object))
    assert ctypes.c_int32.in_dll(library, "tkjit_synchronous").value == 0
    assert ctypes.c_int32.in_dll(library, "tkjit_abi").value == 2


def test_unknown_architecture_error_lists_the_known_ones(loader):
    spec = tkjit.find("axpy").specs[0]
    with pytest.raises(ToolchainError, match=r"cannot compile for sm_77; it supports .*90a"):
        loader.launcher(spec, variants_of(spec)[0], gpu_target("77"))
    with pytest.raises(ToolchainError, match="'hopper' is not a GPU architecture"):
        gpu_target("hopper")


@pytest.mark.parametrize("compiler", sample(["nvcc", "nvrtc"], "nvrtc"))
def test_flags_with_arch_in_a_directory_name_change_nothing(loader, tmp_path, compiler):
    # load_inline drops all its own architecture flags when any flag contains these four letters
    directory = tmp_path / "research"
    directory.mkdir()
    (directory / "factor.h").write_text("#define FACTOR 2.0f\n")

    @tkjit.kernel(
        '#include "factor.h"\n__global__ void scale(float* x) { x[threadIdx.x] *= FACTOR; }\n',
        entry="scale",
        args=True,
        grid=1,
        block="N",
        include_dirs=[directory],
        compiler=compiler,
    )
    def scale(x: tkjit.InOut[tkjit.Tensor, "float32", "N"]) -> None: ...

    entry = loader.launcher(scale.specs[0], Variant(), gpu_target("90a"))
    flag = "-arch=sm_90a" if compiler == "nvrtc" else "-gencode=arch=compute_90a,code=sm_90a"
    assert flag in entry.manifest["command"]
