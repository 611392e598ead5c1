"""Runs the examples of docs/howto/migrating.md that use tkjit."""

import pytest
import torch
from support.migrating import EXAMPLES, named, run

from tkjit import ToolchainError


def test_each_system_has_both():
    assert len({example.section for example in EXAMPLES}) == 8
    assert sum(example.is_before for example in EXAMPLES) == 7  # ThunderKittens' example is C++, so it is not included


@pytest.mark.compiles
@pytest.mark.parametrize("example", named(before=False))
def test_now(example, tmp_path):
    needs_headers = "thunderkittens" in example.code
    try:
        run(example, tmp_path, "cuda" if torch.cuda.is_available() else "cpu")
    except ToolchainError:
        if not needs_headers:
            raise
        pytest.skip("needs ThunderKittens' headers: python -m tkjit headers add thunderkittens")
