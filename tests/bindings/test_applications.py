"""The applications of the WAYOUT paper return the same numbers in Python as in C++."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.applications import DIRECTORY, NAMES, Application, kokkos

pytestmark = pytest.mark.compiles

FAST = {"histogram", "cg_solve"}


def cases(kind: str) -> list:
    return [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in NAMES[kind]]


def printed(application: Application, n: int, directory: Path) -> dict[str, list[float]]:
    """Return the names and numbers that a C++ program prints."""
    binary = directory / application.name
    subprocess.run(application.compile_command(binary), check=True)
    lines = subprocess.check_output([binary, str(n)], text=True).splitlines()
    return {line.split()[0]: [float(word) for word in line.split()[1:]] for line in lines}


@pytest.mark.slow  # compiles Thrust's headers
@pytest.mark.parametrize("name", cases("thrust"))
def test_thrust_matches_cpp(name, tmp_path):
    application = Application("thrust", name)
    expected = printed(application, 1000, tmp_path)
    found = {key: np.ravel(value).tolist() for key, value in application.run(application.bind(), 1000).items()}
    assert found == expected
    assert sum(map(len, found.values())) > 1


@pytest.mark.skipif(not kokkos.IS_INSTALLED, reason=f"no Kokkos Kernels; {kokkos.INSTALL}")
@pytest.mark.parametrize("name", cases("kokkos"))
def test_kokkos_matches_cpp(name, tmp_path, fresh):
    application = Application("kokkos", name)
    # in its own process, because Kokkos can be started only once
    found = json.loads(
        fresh.run(f"""
import json, sys
sys.path.insert(0, {str(DIRECTORY.parents[1])!r})
import numpy
from support.applications import Application
application = Application("kokkos", {name!r})
results = application.run(application.bind(), 1000)
print(json.dumps({{key: numpy.ravel(value).tolist() for key, value in results.items()}}))
""")
    )
    expected = printed(application, 1000, tmp_path)
    assert found.keys() == expected.keys()
    for key, numbers in expected.items():
        # both add in the same order, but rounding differs if a compiler contracts or vectorises differently
        message = f"{application.module.__doc__} {key}"
        np.testing.assert_allclose(found[key], numbers, rtol=1e-10, atol=1e-12, err_msg=message)
