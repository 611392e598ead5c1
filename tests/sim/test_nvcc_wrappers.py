"""Every wrapper and intrinsic compiles for Hopper, and each wrapper becomes the instruction it is named for."""

from __future__ import annotations

import pytest
from support.fidelity.case import Case
from support.fidelity.cases import CASES
from support.sampling import sample

from tkjit.compile.targets import gpu_target
from tkjit.spec import Variant

pytestmark = pytest.mark.nvcc
HOPPER = gpu_target("90a")
INSTRUCTIONS = {
    "mma_f16": ["HMMA.1688.F32", "HMMA.1688.F16", "HMMA.16816.F32.BF16", "HMMA.16816.F32 ", "HMMA.16816.F16"],
    "mma_fp8": ["HMMA.16816.F32", "F2FP.F16.E4M3", "F2FP.F16.E5M2"],  # sm_90 has 8-bit products only in wgmma
    "mma_int8": ["IMMA.8816.S8.U8", "IMMA.16816.S8.S8", "IMMA.16832.U8.S8", "IMMA.16832.S8.S8.SAT"],
    "mma_tf32": ["HMMA.1684.F32.TF32", "HMMA.1688.F32.TF32"],
    "matrices": ["LDSM.16.M88.4", "LDSM.16.MT88.2", "STSM.16.M88.4", "STSM.16.MT88.2", "LDGSTS"],
    "registers": ["USETMAXREG.DEALLOC", "USETMAXREG.TRY_ALLOC"],
}


@pytest.mark.slow
@pytest.mark.parametrize("case", sample(CASES, *INSTRUCTIONS, "warp_functions", name=lambda case: case.name))
def test_a_case_compiles_to_the_expected_instructions(loader, sass, case: Case):
    entry = loader.launcher(case.kernel.specs[0], Variant(), HOPPER)
    code = sass(entry.shared_object) if case.name in INSTRUCTIONS else ""
    missing = [instruction for instruction in INSTRUCTIONS.get(case.name, ()) if instruction not in code]
    assert not missing, f"{missing} are not among {sorted({w for w in code.split() if 'MMA' in w or 'SM' in w})}"
