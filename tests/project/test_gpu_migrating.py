"""Runs what docs/migrating.md says was written before, with the other systems."""

import pytest
from support.migrating import named, run

pytestmark = pytest.mark.gpu
PEERS = {"CuPy's `RawKernel`": "cupy", "Triton": "triton", "FlashInfer's JIT": "flashinfer"}


@pytest.mark.parametrize("example", named(before=True))
def test_before(gpu, example, tmp_path):
    if example.section in PEERS:
        pytest.importorskip(PEERS[example.section], reason=f"pip install {PEERS[example.section]} to run this")
    run(example, tmp_path, gpu)
