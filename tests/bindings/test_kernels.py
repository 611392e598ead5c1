"""Calls each kernel of Kokkos Kernels once, and compares with NumPy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.applications import kokkos

pytestmark = [
    pytest.mark.compiles,
    pytest.mark.slow,
    pytest.mark.skipif(not kokkos.IS_INSTALLED, reason=f"no Kokkos Kernels; {kokkos.INSTALL}"),
]

TESTS = Path(__file__).parents[1]
NAMES = {
    "dense": "abs axpby axpy dot fill gemm gemv gesv iamax mult nrm1 nrm2 nrm2_squared nrm2w nrminf reciprocal scal "
    "sum update trmm trsm trtri",
    "sparse": "spmv spmv_struct spadd_symbolic spadd_numeric spgemm_symbolic spgemm_numeric trsv sptrsv_symbolic "
    "sptrsv_solve spiluk_symbolic spiluk_numeric gauss_seidel_symbolic gauss_seidel_numeric "
    "forward_sweep_gauss_seidel_apply symmetric_gauss_seidel_apply graph_color graph_color_distance2",
}


@pytest.mark.parametrize("kind", NAMES)
def test_kernels_match_numpy(kind, fresh):
    found = json.loads(
        fresh.run(f"""
import json, sys
sys.path.insert(0, {str(TESTS)!r})
import numpy
from support.applications.kokkos import kernels
print(json.dumps([[name, *(numpy.ravel(value).tolist() for value in values)]
                  for name, *values in kernels.results({kind!r})]))
""")
    )
    assert sorted(name for name, _, _ in found) == sorted(NAMES[kind].split())
    for name, values, expected in found:
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12, err_msg=name)
