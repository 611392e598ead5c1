"""The dtypes of fields, with their names in Python and in C++."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DType:
    """One element type.

    Parameters
    ----------
    name : str
        torch's name: ``bfloat16``.
    cpp : str
        The CUDA C++ type: ``__nv_bfloat16``.
    size_bytes : int
        Size of one element.
    header : str
        The header that declares ``cpp``; empty for a built-in type.
    """

    name: str
    cpp: str
    size_bytes: int
    header: str = ""


# In the order of the C enumeration TkjitDtype (include/tkjit/arg.h): a dtype's position is its enumerator's value.
DTYPES: tuple[DType, ...] = (
    DType("bool", "bool", 1),
    DType("uint8", "uint8_t", 1),
    DType("int8", "int8_t", 1),
    DType("uint16", "uint16_t", 2),
    DType("int16", "int16_t", 2),
    DType("uint32", "uint32_t", 4),
    DType("int32", "int32_t", 4),
    DType("uint64", "uint64_t", 8),
    DType("int64", "int64_t", 8),
    DType("float16", "__half", 2, "cuda_fp16.h"),
    DType("bfloat16", "__nv_bfloat16", 2, "cuda_bf16.h"),
    DType("float32", "float", 4),
    DType("float64", "double", 8),
    DType("float8_e4m3fn", "__nv_fp8_e4m3", 1, "cuda_fp8.h"),
    DType("float8_e5m2", "__nv_fp8_e5m2", 1, "cuda_fp8.h"),
    DType("float8_e8m0fnu", "__nv_fp8_e8m0", 1, "cuda_fp8.h"),
    DType("float4_e2m1fn_x2", "__nv_fp4x2_e2m1", 1, "cuda_fp4.h"),  # extents count pairs, as in torch
    DType("complex64", "float2", 8),  # the type of cuFloatComplex: real part first, as in torch
    DType("complex128", "double2", 16),
)
BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in DTYPES}

# Maps the C++ types of scalar fields to the range of an integer type, or None for other types.
SCALAR_TYPES: dict[str, tuple[int, int] | None] = {
    "bool": None,
    "float": None,
    "double": None,
    "int": (-(2**31), 2**31 - 1),
    **{f"int{bits}_t": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": (0, 2**bits - 1) for bits in (8, 16, 32)},
    "uint64_t": (0, 2**63 - 1),  # the largest value of expressions, which are signed; no extent is larger
    "size_t": (0, 2**63 - 1),
}


def enumerator(dtype: DType) -> str:
    """Return the dtype's name in the C enumeration: ``TKJIT_BFLOAT16``."""
    return f"TKJIT_{dtype.name.upper()}"
