"""Headers of the CUDA runtime that sources include by name: constants, complex numbers, copies in a pipeline, NVTX."""

from __future__ import annotations

import cmath
import math

import pytest

from tkjit.cli import main

pytestmark = pytest.mark.compiles

_PROGRAM = """
#include <builtin_types.h>
#include <cuComplex.h>
#include <cuda_fp16.hpp>
#include <cuda_pipeline.h>
#include <host_defines.h>
#include <math_constants.h>
#include <nvToolsExt.h>
#include <sm_60_atomic_functions.h>
#include <vector_functions.h>
#include <vector_types.h>
#include <cstdio>

__global__ void reverse(const float4* x, float4* y) {
    __shared__ float4 tile[32];
    const int i = threadIdx.x;
    __pipeline_memcpy_async(&tile[i], &x[i], sizeof(float4), i == 3 ? 8 : 0);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[i] = tile[31 - i];
}

int main() {
    nvtxRangePush("all");
    float4 *x, *y;
    cudaMallocManaged(&x, 32 * sizeof(float4));
    cudaMallocManaged(&y, 32 * sizeof(float4));
    for (int i = 0; i < 32; i++) x[i] = make_float4(i, i, i, i);
    reverse<<<1, 32>>>(x, y);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    printf("%g %g %g\\n", y[0].x, y[28].y, y[28].z);
    const cuDoubleComplex a = make_cuDoubleComplex(3, -4), b = make_cuDoubleComplex(1e200, 2e200), c = cuCdiv(a, b);
    const cuComplex d = cuCfmaf(make_cuComplex(1, 2), make_cuComplex(3, 4), make_cuComplex(5, 6));
    printf("%.17g %.17g %g %g %g\\n", cuCreal(c), cuCimag(c), cuCabs(a), cuCrealf(d), cuCimagf(d));
    printf("%.17g %d %.9g\\n", CUDART_PI, CUDART_INF_F > CUDART_MAX_NORMAL_F, CUDART_SQRT_HALF_F);
    nvtxRangePop();
}
"""


def test_a_program_can_use_the_headers(tmp_path, session_cache, capfd):
    source = tmp_path / "main.cu"
    source.write_text(_PROGRAM)
    assert main(["run", str(source)]) == 0
    reversed_, complex_, constants = (line.split() for line in capfd.readouterr().out.splitlines())
    assert reversed_ == ["31", "3", "0"]
    quotient = (3 - 4j) / (1e200 + 2e200j)
    assert cmath.isclose(complex(float(complex_[0]), float(complex_[1])), quotient, rel_tol=1e-15)
    assert complex_[2:] == ["5", "0", "16"]
    assert (float(constants[0]), constants[1], float(constants[2])) == (math.pi, "1", pytest.approx(math.sqrt(0.5)))
