"""Fuzzes calls with each reader of tensors. To run it by hand: ``python -m tests.runtime.fuzz.calls``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.compiles, pytest.mark.slow]
READERS = ("TensorImpl", "exchange API", "__dlpack__")
ROOT = Path(__file__).parents[2]
# only the runtime and the glue are instrumented, because the sanitizer does not know the fibers that kernels run in
INSTRUMENTING = """#!/bin/sh
case " $* " in *launcher*|*simulator*) exec g++ "$@";; esac
exec g++ -fsanitize=address -fno-omit-frame-pointer -g1 "$@"
"""


def fuzz(reader: str, count: int, **environ: str) -> None:
    """Make random calls in a new process, which also checks itself for leaks."""
    seed = os.environ.get("TKJIT_TEST_SEED", "1")
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "tests.runtime.fuzz.calls",
        "--seed",
        seed,
        "--count",
        str(count),
    ]
    done = subprocess.run(
        [*command, "--reader", reader], cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environ}
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("reader", READERS)
def test_random_calls(reader):
    fuzz(reader, 20_000)


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which the runtime and the glue are compiled with AddressSanitizer."""
    directory = tmp_path_factory.mktemp("sanitized")
    compiler = directory / "g++"
    compiler.write_text(INSTRUMENTING)
    compiler.chmod(0o755)
    # the C++ library is preloaded as well, because otherwise the sanitizer does not find its __cxa_throw
    names = ("libasan.so", "libstdc++.so.6")
    found = [subprocess.check_output(["g++", f"-print-file-name={name}"], text=True).strip() for name in names]
    if not all(map(os.path.isabs, found)):
        pytest.skip(
            "g++ has no AddressSanitizer; install the package of its version, as in apt-get install libgcc-12-dev"
        )
    return {
        "CXX": str(compiler),
        "TKJIT_CACHE": str(directory / "cache"),
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:abort_on_error=1:quarantine_size_mb=8",
    }


@pytest.mark.parametrize("reader", READERS)
def test_random_calls_under_address_sanitizer(reader, sanitized):
    fuzz(reader, 5_000, **sanitized)
