"""Maps C++ types, by clang's canonical names, to tkjit's dtypes and scalars."""

from __future__ import annotations

# The elements of pointers must have exactly these types. char and long long are missing because no dtype matches them.
# float2 is missing although specs use it for complex64, because most sources use a float2 as two floats.
_DTYPES = {
    "bool": "bool",
    "unsigned char": "uint8",
    "signed char": "int8",
    "unsigned short": "uint16",
    "short": "int16",
    "unsigned int": "uint32",
    "int": "int32",
    "unsigned long": "uint64",
    "long": "int64",
    "__half": "float16",
    "__nv_bfloat16": "bfloat16",
    "float": "float32",
    "double": "float64",
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    "__nv_fp8_e8m0": "float8_e8m0fnu",
    "__nv_fp4x2_e2m1": "float4_e2m1fn_x2",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
}
# Maps C++ number types to scalars; only the size and the sign of a number matter.
_SCALARS = {
    "bool": "bool",
    "float": "float",
    "double": 'Scalar[float, "double"]',
    "int": "int",
    "unsigned int": 'Scalar[int, "uint32_t"]',
    "long": 'Scalar[int, "int64_t"]',
    "unsigned long": 'Scalar[int, "size_t"]',
    "long long": 'Scalar[int, "int64_t"]',
    "unsigned long long": 'Scalar[int, "uint64_t"]',
    "short": 'Scalar[int, "int16_t"]',
    "unsigned short": 'Scalar[int, "uint16_t"]',
    "signed char": 'Scalar[int, "int8_t"]',
    "char": 'Scalar[int, "int8_t"]',
    "unsigned char": 'Scalar[int, "uint8_t"]',
}


def dtype_of_cpp(cpp: str) -> str:
    """Return the dtype of a C++ element type; empty if tkjit has none.

    >>> dtype_of_cpp("__nv_bfloat16"), dtype_of_cpp("float4")
    ('bfloat16', '')
    """
    return _DTYPES.get(cpp, "")


def annotation_of(cpp: str) -> str:
    """Return the annotation for a number in a spec; empty for a type that is not a number.

    >>> annotation_of("unsigned int")
    'Scalar[int, "uint32_t"]'
    """
    return _SCALARS.get(cpp, "")


def is_integer(cpp: str) -> bool:
    """Whether expressions may use a number of this type."""
    return cpp in _SCALARS and cpp not in ("bool", "float", "double")
