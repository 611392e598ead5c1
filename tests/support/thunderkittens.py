"""Test calls of ThunderKittens' kernels: sizes, realistic inputs, and tolerances."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import tkjit
from tkjit import registry

Inputs = dict[str, torch.Tensor]

DIRECTORY = registry.bundled_directory() / "thunderkittens"
# without those that are the old name of another
KERNELS = [name for name in sorted(registry.definitions(DIRECTORY)) if not tkjit.find(name).specs[0].deprecated]


@dataclass(frozen=True)
class Case:
    """One call.

    Parameters
    ----------
    dims : dict
        The spec's dims, and the parameters that choose a variant.
    tolerance : float
        The largest error of a row of a result, as a part of the row.
    prepare : callable or None
        What the kernel is meant for, of normal numbers: it takes the inputs by name and returns those that are others.
    """

    kernel: str
    dims: dict[str, int]
    tolerance: float = 0.01
    prepare: Callable[[Inputs], Inputs] | None = None

    def __str__(self) -> str:
        return f"{self.kernel}({', '.join(f'{name}={extent}' for name, extent in self.dims.items())})"

    @property
    def spec(self) -> tkjit.Spec:
        """The overload that takes these sizes."""
        specs = tkjit.find(self.kernel).specs
        return next(spec for spec in specs if all(each.evaluate(self.dims) for each in spec.constraints))

    def inputs(self, device: str = "cpu", seed: int = 0) -> Inputs:
        """The call's arguments: normal numbers, and zeros where the kernel adds to what is there."""
        generator = torch.Generator().manual_seed(seed)
        made = {}
        for field in self.spec.fields:
            if field.direction in ("out", "scalar"):
                continue
            shape = [dim.evaluate(self.dims) for dim in field.dims]
            values = torch.zeros(shape) if field.direction == "inout" else torch.randn(shape, generator=generator)
            if field.dtype == "float4_e2m1fn_x2":  # torch converts to and from them nowhere
                pairs = torch.randint(256, shape, generator=generator, dtype=torch.uint8)
                made[field.name] = pairs.view(torch.float4_e2m1fn_x2)
            else:
                made[field.name] = values.to(getattr(torch, field.dtype))
        made |= self.prepare(made) if self.prepare else {}
        return {name: values.to(device) for name, values in made.items()}

    @property
    def choices(self) -> dict[str, int]:
        """The call's numbers."""
        return {field.name: self.dims[field.name] for field in self.spec.fields if not field.is_tensor}

    def expected(self, inputs: Inputs) -> tuple[torch.Tensor, ...]:
        """What the reference gives; the inputs stay as they are."""
        own = {name: values.clone() for name, values in inputs.items()}
        return _all(tkjit.find(self.kernel).reference(**own, **self.choices))

    def errors(self, device: str) -> list[float]:
        """The error of each result of a call on a GPU."""
        inputs = self.inputs(device)
        expected = self.expected(inputs)
        results = _all(tkjit.load(self.kernel)(**inputs, **self.choices))
        return [error(got, right) for got, right in zip(results, expected, strict=True)]


@dataclass(frozen=True)
class CaseOf8:
    """One call over 8 devices.

    Parameters
    ----------
    shapes : dict
        Of each tensor, on each device.
    multicast : str
        The tensors that need a multicast address.
    zeros : str
        The tensors that begin as zeros.
    clears : str
        What has to be called behind it, with the same arguments.
    """

    kernel: str
    shapes: dict[str, tuple[int, ...]]
    multicast: str = ""
    zeros: str = ""
    clears: str = ""

    def __str__(self) -> str:
        return self.kernel

    @property
    def spec(self) -> tkjit.Spec:
        return tkjit.find(self.kernel).specs[0]

    def part(self, name: str, rank: int) -> torch.Tensor:
        """What a device brings."""
        number, field = next((i, field) for i, field in enumerate(self.spec.fields) if field.name == name)
        dtype = getattr(torch, field.dtype)
        if name in self.zeros.split():
            return torch.zeros(self.shapes[name], dtype=dtype)
        generator = torch.Generator().manual_seed(100 * rank + number)
        return torch.randn(self.shapes[name], generator=generator).to(dtype)

    def expected(self) -> dict[str, list[torch.Tensor]]:
        """What each device has afterwards of what is written, but for counts of barriers."""
        parts = {name: [self.part(name, rank) for rank in range(8)] for name in self.shapes}
        tkjit.find(self.kernel).reference(**parts)
        written = [f.name for f in self.spec.fields if f.direction == "inout" and f.name != "barrier"]
        return {name: parts[name] for name in written}


def arch_of(spec: tkjit.Spec) -> str:
    """The architecture that a spec's source is written for."""
    return spec.sources[0][0] or "90a"


def error(got: torch.Tensor, right: torch.Tensor) -> float:
    """The largest error of a row, as a part of the row; one near zero counts as a tenth of what rows are on average."""
    got, right = got.double(), right.double()
    size = right.square().mean(-1).sqrt().clamp(min=right.square().mean().sqrt().item() / 10)
    return ((got - right).square().mean(-1).sqrt() / size).max().item()


def _all(results: Any) -> tuple[torch.Tensor, ...]:
    return tuple(results) if isinstance(results, tuple) else (results,)


def _quantized(inputs: Inputs) -> Inputs:
    """Rows of 8-bit floats, and the scales by which they were divided."""
    made = {}
    for name in "AB":
        values = inputs[name].float()
        scale = values.abs().amax(1) / 448
        made |= {name: (values / scale[:, None]).to(inputs[name].dtype), f"scale_{name.lower()}": scale}
    return made


def _powers_of_two(inputs: Inputs) -> Inputs:
    """Scales of blocks of 8-bit floats, from an eighth to eight."""
    generator = torch.Generator().manual_seed(1)
    codes = {name: torch.randint(124, 131, inputs[name].shape, generator=generator) for name in ("A_sc", "B_sc")}
    return {name: each.to(torch.uint8).view(torch.float8_e8m0fnu) for name, each in codes.items()}


def _scales_in_pairs(inputs: Inputs) -> Inputs:
    """Scales of blocks of 4-bit floats, two in each number of 16 bits, and one for all blocks."""
    generator = torch.Generator().manual_seed(1)
    made = {}
    for name in "AB":
        scales = torch.rand(*inputs[f"{name}_sc"].shape[:2], 512, generator=generator) + 0.5
        made[f"{name}_sc"] = scales.to(torch.float8_e4m3fn).view(torch.float16)
        made[f"{name}_sc_global"] = torch.rand(1, generator=generator) + 0.5
    return made


def _weight(inputs: Inputs) -> Inputs:
    return {"rhs": inputs["rhs"] / inputs["rhs"].shape[1] ** 0.5}


def _tables(inputs: Inputs) -> Inputs:
    rows, half = inputs["cos"].shape
    angles = torch.outer(torch.arange(rows), 10000.0 ** -(torch.arange(half) / half))
    return {"cos": angles.cos().bfloat16(), "sin": angles.sin().bfloat16()}


def _gradients(causal: bool) -> Callable[[Inputs], Inputs]:
    def prepare(inputs: Inputs) -> Inputs:
        o, logsumexp = tkjit.find("tk_mha_forward").reference(inputs["q"], inputs["k"], inputs["v"], causal)
        return {"l": logsumexp, "d": tkjit.find("tk_mha_backward_prep").reference(inputs["og"], o)}

    return prepare


def _small_keys(inputs: Inputs) -> Inputs:
    return {name: inputs[name] / 4 for name in ("q", "k")}


def _maps(inputs: Inputs) -> Inputs:
    maps = {name: inputs[name] / 8 for name in ("qmap", "kmap")}
    return {**maps, "alphas": 3 * inputs["alphas"].sigmoid(), "betas": inputs["betas"].sigmoid()}


def _decays(inputs: Inputs) -> Inputs:
    k = inputs["k"] / 128**0.5
    return {"q": inputs["q"] / 128**0.5, "k": k, "k_split": k, "slopes": inputs["slopes"].sigmoid()}


def _steps(inputs: Inputs) -> Inputs:
    step = torch.nn.functional.softplus(inputs["A"] - 4)
    return {"A": -2 * step, "V": (inputs["V"] * step.mT).bfloat16()}


def _filters(points: int, behind: int = 132) -> Callable[[Inputs], Inputs]:
    def prepare(inputs: Inputs) -> Inputs:
        heads = inputs["kf_real"].shape[0] - behind
        filters = torch.randn(heads, points, generator=torch.Generator().manual_seed(1))
        made = runpy.run_path(str(DIRECTORY / "fftconv.py"))["matrices"](filters)
        return {**made, "kf_real": made["kf_real"][: heads + behind], "kf_imag": made["kf_imag"][: heads + behind]}

    return prepare


_HEADS = {"B": 2, "H": 4, "N": 384}
_GROUPED = {"B": 2, "H": 4, "G": 2, "N": 768}


def _tiles(rows: int, columns: int, depth: int) -> dict[str, int]:
    return {"M_tiles": rows, "N_tiles": columns, "K_tiles": depth}


CASES = (
    Case("tk_gemm", {"M": 384, "N": 512, "K": 192}),
    Case("tk_gemm_level_1", {"N": 96}, 1e-5),
    *(Case(f"tk_gemm_level_{level}", {"N": 96}) for level in (2, 3, 4)),
    *(Case(f"tk_gemm_level_{level}", {"N": 192}) for level in (5, 6, 7)),
    Case("tk_gemm_level_8", {"N": 512}),
    # an element that is rounded the other way is off by an eighth
    Case("tk_gemm_fp8", {"M": 384, "N": 512, "K": 256}, 0.05),
    Case("tk_gemm_fp8_scaled", {"M": 384, "N": 256, "K": 256}, 0.01, _quantized),
    Case("tk_gemm_b200_level_1", {"N": 96}, 1e-5),
    *(Case(f"tk_gemm_b200_level_{level}", {"N": 96}) for level in (2, 3, 4)),
    *(Case(f"tk_gemm_b200_level_{level}", {"N": 256}) for level in (5, 6, 7)),
    Case("tk_gemm_b200_level_8", {"N": 512}),
    Case("tk_gemm_b200_level_9", {"N": 1024}),
    Case("tk_gemm_b200", {"M": 1024, "N": 512, "K": 256}),
    Case("tk_gemm_fp8_b200", {"M": 1024, "N": 512, "K": 256}),
    Case("tk_gemm_mxfp8", {"M": 512, "N": 256, "K": 384, **_tiles(4, 2, 3)}, 0.01, _powers_of_two),
    Case("tk_gemm_nvfp4", {"M": 512, "N": 256, "pairs": 128, **_tiles(4, 2, 4)}, 0.01, _scales_in_pairs),
    Case("tk_mxfp8_quantize", {"M": 256, "K": 384}),
    Case("tk_mha_b300", {"B": 2, "H": 3, "Nq": 512, "Nk": 384}),
    Case("tk_mha_b300_causal", {"B": 2, "H": 3, "N": 1024}),
    *(Case("tk_mha_backward_prep", {**_GROUPED, "D": width}) for width in (64, 128)),
    *(
        Case("tk_mha_forward", {**_GROUPED, "D": width, "is_causal": causal})
        for causal in (False, True)
        for width in (64, 128)
    ),
    *(
        Case("tk_mha_backward", {**_GROUPED, "D": width, "is_causal": causal}, 0.02, _gradients(causal))
        for causal in (False, True)
        for width in (64, 128)
    ),
    *(Case("tk_mha_lcf", {**_HEADS, "D": width}) for width in (64, 128)),
    *(Case("tk_rotary", {"B": 5, "H": 3, "N": 256, "D": width}, 0.01, _tables) for width in (64, 128)),
    Case("tk_based", _HEADS, 0.02, _small_keys),
    Case("tk_hedgehog", _HEADS, 0.02, _maps),
    Case("tk_linear_attention", _HEADS, 0.02, _decays),
    Case("tk_mamba2", _HEADS, 0.02, _steps),
    # it sums in bfloat16
    Case("tk_layernorm", {"B": 3, "N": 64}, 0.04),
    Case("tk_fftconv_1024", {"B": 8, "H": 5, "P": 137}, 0.02, _filters(1024)),
    Case("tk_fftconv_4096", {"B": 3, "H": 5, "P": 137}, 0.02, _filters(4096)),
    Case("tk_fftconv_non_pc", {"batch": 4}, 0.02, _filters(4096, behind=0)),
    Case("tk_flux_gate", {"M": 256, "N": 384, "K": 192}, 0.01, _weight),
    *(Case("tk_flux_gelu", {"M": rows, "N": 384, "K": 192}, 0.01, _weight) for rows in (384, 256)),
)

_SEQUENCES = dict.fromkeys(("Q", "K0", "K1", "V0", "V1", "O", "O_block"), (2, 3, 384, 128))
_MATRICES = {"A": (512, 768), "B": (768, 512), "C": (512, 512)}  # more than the stages of a pipeline deep
CASES_OF_8 = (
    CaseOf8("tk_all_reduce", {"tensor": (64, 256)}, "tensor"),
    CaseOf8("tk_all_reduce_educational", {"d_data": (4096, 4096)}, "d_data"),
    CaseOf8("tk_all_gather", {"output": (256, 8 * 128), "input": (256, 128)}, "output"),
    CaseOf8("tk_reduce_scatter", {"output": (2, 16, 256), "input": (2, 16, 8 * 256)}, "input"),
    CaseOf8("tk_all_to_all", {"output": (2, 32, 8 * 16, 128), "input": (2, 8 * 32, 16, 128)}),
    CaseOf8("tk_ulysses_all_to_all", {"output": (2, 8 * 32, 16, 128), "input": (2, 32, 8 * 16, 128)}),
    *(
        CaseOf8(
            kernel, {**_SEQUENCES, "L": (2, 3, 384), "L_block": (2, 3, 384), "barrier": (2, 8)}, "barrier", "barrier"
        )
        for kernel in ("tk_ring_attention", "tk_ring_attention_reduction")
    ),
    *(
        CaseOf8(kernel, {"A": (2048, 512), "B": (512, 512), "C": (256, 512)}, zeros="C")
        for kernel in ("tk_gemm_reduce_scatter", "tk_gemm_reduce_scatter_b200")
    ),
    CaseOf8("tk_gemm_reduce_scatter_fp8_b200", {"a": (2048, 1024), "b": (512, 1024), "d": (256, 512)}, zeros="d"),
    *(
        CaseOf8(kernel, {**_MATRICES, "barrier": (2, 4, 2)}, "C barrier", "barrier", "tk_gemm_all_reduce_epilogue")
        for kernel in ("tk_gemm_all_reduce", "tk_gemm_all_reduce_lcsc")
    ),
    *(
        CaseOf8(
            kernel,
            {"A": (2048, 512), "B": (512, 512), "C": (2048, 512), "barrier": (2, 1, 8)},
            "A barrier",
            "barrier",
            f"{kernel}_epilogue",
        )
        for kernel in ("tk_all_gather_gemm", "tk_all_gather_gemm_b200", "tk_all_gather_gemm_fp8_b200")
    ),
)
