"""A short run of the fuzz of calls for each reader; by hand it is ``python -m tests.fuzz.calls``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

READERS = ("TensorImpl", "exchange API", "__dlpack__")


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_random_calls(reader):
    seed = os.environ.get("TKJIT_TEST_SEED", "1")
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.calls", "--seed", seed, "--count", "20000"]
    root = Path(__file__).parents[2]
    done = subprocess.run([*command, "--reader", reader], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
