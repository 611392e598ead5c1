"""Specs for real kernels in headers: ``python -m benchmarks.real_specs DIRECTORY...``.

A directory is a checkout of flashinfer (github.com/flashinfer-ai/flashinfer). Its norms and rotary embeddings
are host function templates that take pointers and strides; its own bindings call them through TVM FFI. Here each has a
spec. One variant of each is compiled, for sm_90a or the architecture in ``TORCH_CUDA_ARCH_LIST``, and loaded with
``dlopen``. The sources need cuRAND's headers (``python -m tkjit headers add curand``) and CCCL 3.1 or newer
(``--include``, from nvidia-cuda-cccl on PyPI).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import tkjit
from tkjit import In, InOut, Out, Strided, Tensor
from tkjit.compile.targets import gpu_target
from tkjit.config import Settings
from tkjit.errors import TkjitError
from tkjit.loader import loader_for
from tkjit.spec import variants_of

HALVES = ("float16", "bfloat16")


def norms(include: Sequence[Path]) -> Iterator[tkjit.Kernel]:
    """RMS norms over the last dim; rows can have any stride."""

    @tkjit.kernel(
        "#include <flashinfer/norm.cuh>\n",
        entry="flashinfer::norm::RMSNorm<T>",
        host=True,
        args=True,
        headers="curand",
        variants={"T": HALVES},
        include_dirs=include,
        fields="x weight y rows d x_stride y_stride eps enable_pdl",
        computed={"rows": "B", "d": "D", "x_stride": "x.stride(0)", "y_stride": "D"},
        constraints=["x.stride(1) == 1"],
    )
    def rmsnorm(
        x: In[Strided, "T", "B", "D"],
        weight: In[Tensor, "T", "D"],
        y: Out[Tensor, "T", "B", "D"],
        eps: float = 1e-5,
        enable_pdl: bool = False,
    ) -> Tensor:
        rms = x.float().square().mean(1, keepdim=True).add(eps).rsqrt()
        return (x * rms * weight).to(x.dtype)

    yield rmsnorm

    @tkjit.kernel(
        "#include <flashinfer/norm.cuh>\n",
        entry="flashinfer::norm::FusedAddRMSNorm<T>",
        host=True,
        args=True,
        headers="curand",
        variants={"T": HALVES},
        include_dirs=include,
        fields="x residual weight rows d x_stride residual_stride eps enable_pdl",
        computed={"rows": "B", "d": "D", "x_stride": "x.stride(0)", "residual_stride": "residual.stride(0)"},
        constraints=["x.stride(1) == 1", "residual.stride(1) == 1"],
    )
    def fused_add_rmsnorm(
        x: InOut[Strided, "T", "B", "D"],
        residual: InOut[Strided, "T", "B", "D"],
        weight: In[Tensor, "T", "D"],
        eps: float = 1e-5,
        enable_pdl: bool = False,
    ) -> None: ...

    yield fused_add_rmsnorm


def ropes(include: Sequence[Path]) -> Iterator[tkjit.Kernel]:
    """Rotary embeddings of queries and keys, from the positions of their rows."""
    strides = {f"{name}_stride_{axis}": f"{name}.stride({i})" for name in "qk" for i, axis in enumerate("nh")}
    strides |= {"q_out_stride_n": "HQ * D", "q_out_stride_h": "D", "k_out_stride_n": "HK * D", "k_out_stride_h": "D"}

    @tkjit.kernel(
        "#include <flashinfer/pos_enc.cuh>\n",
        entry="flashinfer::BatchQKApplyRotaryPosIds<T, I>",
        host=True,
        args=True,
        variants={"T": HALVES, "I": ("int32", "int64")},
        include_dirs=include,
        fields=f"q k q_rope k_rope pos_ids nnz q_heads k_heads rotary_dim head_dim {' '.join(strides)}"
        " interleave rope_scale rope_theta",
        computed={"nnz": "N", "q_heads": "HQ", "k_heads": "HK", "head_dim": "D", **strides},
        constraints=["q.stride(2) == 1", "k.stride(2) == 1"],
    )
    def rope(  # type: ignore[empty-body]
        q: In[Strided, "T", "N", "HQ", "D"],
        k: In[Strided, "T", "N", "HK", "D"],
        pos_ids: In[Tensor, "I", "N"],
        rotary_dim: tkjit.Scalar[int, "uint32_t"],
        q_rope: Out[Tensor, "T", "N", "HQ", "D"],
        k_rope: Out[Tensor, "T", "N", "HK", "D"],
        interleave: bool = False,
        rope_scale: float = 1.0,
        rope_theta: float = 1e4,
    ) -> tuple[Tensor, Tensor]: ...

    yield rope


FILES = {"include/flashinfer/norm.cuh": norms, "include/flashinfer/pos_enc.cuh": ropes}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_specs", description=__doc__.splitlines()[0])
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--include", nargs="*", type=Path, default=[], help="directories of headers")
    options = parser.parse_args(arguments)
    for directory in options.directories:
        include = [path.absolute() for path in (*options.include, directory / "include")]
        for file, kernels_of in FILES.items():
            if (directory / file).is_file():
                for kernel in kernels_of(include):
                    print(f"| {directory / file} | {kernel.name} | {_outcome(kernel)} |", flush=True)


def _outcome(kernel: tkjit.Kernel) -> str:
    """The number of lines of its spec, or the reason why it does not load."""
    spec = kernel.specs[0]
    target = gpu_target(os.environ.get("TORCH_CUDA_ARCH_LIST", "9.0a").replace(".", ""))
    loader = loader_for(Settings.from_environment())
    try:
        loader.open(loader.launcher_plan(spec, variants_of(spec)[0], target))
        loader.open_glue(kernel.specs, lambda: None)
    except (TkjitError, ImportError) as error:
        return f"no: {next(line for line in str(error).splitlines() if line)}"
    return f"yes, with a spec of {_lines_of(kernel.name)} lines"


def _lines_of(name: str) -> int:
    """The number of lines of a spec, from its decorator to the end of its function."""
    specs = Path(__file__).read_text().split("    @tkjit.kernel(\n")
    (text,) = (part for part in specs if f"    def {name}(" in part)
    return text[: text.index(" -> ")].count("\n") + 2


if __name__ == "__main__":
    main()
