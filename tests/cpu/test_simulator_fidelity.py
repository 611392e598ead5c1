"""The kernels with which a GPU is compared to the simulator give, on the CPU, what NumPy and PyTorch compute."""

import pytest
from fidelity.case import Case, differences
from fidelity.cases import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_simulator_is_right(case: Case):
    results = case.run("cpu")
    expected = case.expected(*case.inputs())
    wrong = {
        name: text
        for name, wanted in expected.items()
        if (text := differences(results[name], wanted, case.expected_bounds.get(name)))
    }
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
