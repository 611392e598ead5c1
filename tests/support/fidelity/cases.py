"""The list of all comparison kernels."""

from support.fidelity import floats, fp8, functions, integers, narrow, tensor_core, warps

CASES = [
    *integers.CASES,
    *floats.CASES,
    *functions.CASES,
    *narrow.CASES,
    *fp8.CASES,
    *tensor_core.CASES,
    *warps.CASES,
]
