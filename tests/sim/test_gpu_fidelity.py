"""A GPU and the simulator agree on the same random inputs.

Conversions, integers, IEEE arithmetic and matrix moves agree bit for bit, and other operations within the documented
errors.
"""

from __future__ import annotations

import pytest
import torch
from support.fidelity.case import Case, differences
from support.fidelity.cases import CASES

pytestmark = pytest.mark.gpu


# the compute capabilities that cases need beyond sm_80
CAPABILITIES = {"mma_fp8": (8, 9), "matrices": (9, 0), "registers": (9, 0)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_gpu_agrees_with_the_simulator(gpu, case: Case):
    needed = CAPABILITIES.get(case.name, (8, 0))
    if torch.cuda.get_device_capability(gpu) < needed:
        pytest.skip(f"{case.name} needs compute capability {needed}")
    on_cpu, on_gpu = case.run("cpu"), case.run(gpu)
    wrong = {
        name: text
        for name, wanted in on_cpu.items()
        if (text := differences(on_gpu[name], wanted, case.device_bounds.get(name)))
    }
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
