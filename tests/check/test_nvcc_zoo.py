"""The checker's test kernels compile for a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.sampling import sample

from tkjit.compile.targets import gpu_target
from tkjit.kernel_objects.loading import kernel_of_file
from tkjit.spec import variants_of

pytestmark = pytest.mark.nvcc
ZOO = Path(__file__).parent / "zoo"
NAMES = sorted(path.stem for path in ZOO.glob("*/*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", sample(NAMES, "bulk_scale", "gemm_warp_specialized", "spin_lock"))
def test_compiles(loader, name):
    spec = kernel_of_file(ZOO / name / f"{name}.py").specs[0]
    entry = loader.launcher(spec, variants_of(spec)[0], gpu_target("90a"))
    assert entry.manifest["registers"] > 0
    assert entry.manifest["spill_store_bytes"] == 0
