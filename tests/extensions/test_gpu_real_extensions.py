"""Third-party extensions agree with references on a GPU; see ``docs/explanation/real-kernels.md``."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.extension_references import FIELDS
from benchmarks.extension_references.cases import REFERENCES

DIRECTORY = os.environ.get("TKJIT_REAL_EXTENSIONS", "")
for field in FIELDS:
    importlib.import_module(f"benchmarks.extension_references.{field}")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not DIRECTORY, reason="set TKJIT_REAL_EXTENSIONS to a directory of checkouts with a manifest"),
]


@pytest.mark.parametrize("name", REFERENCES)
def test_extension_agrees_with_its_references(name):
    command = [
        sys.executable,
        "-m",
        "benchmarks.real_extension_references",
        DIRECTORY,
        "--only",
        name,
        "--device",
        "cuda",
    ]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
