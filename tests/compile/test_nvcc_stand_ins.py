"""Hand-written declarations for host code without a toolkit agree with the toolkit's headers."""

from __future__ import annotations

import re
import subprocess

import pytest

from tkjit.compile.flags import DRIVER, RUNTIME

pytestmark = pytest.mark.nvcc


def test_the_drivers_types_agree(loader, tmp_path):
    """The types and constants of a launch, and the signatures of the functions that are looked up by name."""
    api = (RUNTIME / "driver_launch.h").read_text()
    begin, end = api.index("using Result = int;"), api.index("inline constexpr int max_devices")
    names = re.findall(r"\(\*(cu\w+)\)\(", api)
    assert len(names) == 18
    alike = ""
    for name in names:
        toolkits = name.removesuffix("_v2")  # in cuda.h, the name without the suffix is a macro for this function
        alike += f'static_assert(alike<decltype(Api::{name}), decltype(&::{toolkits})>(), "{name}");\n'
    text = f"""
#include <cuda.h>
#include <cstddef>
#include <cstdint>
#include <type_traits>
namespace hand {{
{api[begin:end]}
template <class F> struct shape;
template <class R, class... P> struct shape<R (*)(P...)> {{
    static constexpr size_t count = sizeof...(P);
    static constexpr size_t sizes[] = {{sizeof(R), sizeof(P)...}};
}};
template <class A, class B> constexpr bool alike() {{
    if (shape<A>::count != shape<B>::count) return false;
    for (size_t i = 0; i <= shape<A>::count; ++i) if (shape<A>::sizes[i] != shape<B>::sizes[i]) return false;
    return true;
}}
{alike}
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig) && alignof(LaunchConfig) == alignof(CUlaunchConfig));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(offsetof(LaunchConfig, block_x) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, shared_memory_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(success == CUDA_SUCCESS);
static_assert(int(cluster_dimension) == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(int(cooperative) == CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
static_assert(int(programmatic_stream_serialization) == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(int(max_dynamic_shared_size_bytes) == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(int(non_portable_cluster_size_allowed) == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
static_assert(int(capture_relaxed) == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(int(capture_none) == CU_STREAM_CAPTURE_STATUS_NONE);
}}
"""
    compile_text(loader, tmp_path, text)


def test_the_cuda_runtimes_types_agree(loader, tmp_path):
    """Compares the size and alignment of a shape, and the values of errors."""
    ours = (DRIVER / "cuda_runtime.h").read_text().replace("#pragma once", "")
    errors = [line.split("=")[0].strip() for line in ours.split("enum cudaError_t {")[1].split("}")[0].split(",")[:-1]]
    assert len(errors) == 11
    text = "#include <cuda_runtime.h>\n"
    text += "".join(f"#undef {name}\n" for name in ("__host__", "__device__"))
    text += f"#include <stddef.h>\n#include <stdint.h>\nnamespace hand {{\n{ours}\n"
    text += "static_assert(sizeof(dim3) == sizeof(::dim3) && alignof(dim3) == alignof(::dim3));\n"
    text += "".join(f"static_assert(int({one}) == int(::{one}));\n" for one in errors)
    compile_text(loader, tmp_path, text + "}\n")


def compile_text(loader, directory, text: str) -> None:
    source = directory / "compare.cpp"
    source.write_text(text)
    include = loader.toolchain.cuda_root / "include"
    command = [loader.toolchain.cxx.path, "-std=c++20", "-fsyntax-only", f"-isystem{include}", source]
    child = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
