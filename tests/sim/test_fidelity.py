"""On the CPU, the kernels of the GPU comparison give the results of NumPy and PyTorch."""

import pytest
from support.fidelity.case import Case, differences
from support.fidelity.cases import CASES
from support.sampling import sample

pytestmark = pytest.mark.compiles
QUICK = "integer_intrinsics matrices mma_fp8 registers warp_functions"


@pytest.mark.parametrize("case", sample(CASES, *QUICK.split(), name=lambda case: case.name))
def test_the_simulator_gives_the_expected_results(case: Case):
    results = case.run("cpu")
    expected = case.expected(*case.inputs())
    wrong = {
        name: text
        for name, wanted in expected.items()
        if (text := differences(results[name], wanted, case.expected_bounds.get(name)))
    }
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
