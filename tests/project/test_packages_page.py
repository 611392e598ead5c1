"""The package of ``docs/howto/packages.md`` is the one that ``tkjit new`` writes; it builds, installs and runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tkjit.cli.new import example_directory

PAGE = (Path(__file__).parents[2] / "docs/howto/packages.md").read_text()
FILES = dict(re.findall(r"^`([\w./]+)`[^\n]*:\n\n```\w+\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
CALL = """
import sys, torch, tkjit
gate, up = torch.randn(3, 70), torch.randn(3, 70)
silu_mul = tkjit.load("my_kernels.silu_mul")
torch.testing.assert_close(silu_mul(gate, up), torch.nn.functional.silu(gate) * up)
assert "my_kernels" not in sys.modules
import my_kernels
assert torch.equal(my_kernels.silu_mul(gate, up), silu_mul(gate, up))
x = torch.randn(())
assert torch.equal(tkjit.load("my_kernels.squared_relu")(x), x.relu() ** 2)
"""


def test_the_page_has_the_files():
    assert len(FILES) == 5
    assert {name: (example_directory() / name).read_text() for name in FILES} == FILES


def run(*command: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write the package with the command, build it, and install it in two directories; return both."""
    place = tmp_path_factory.mktemp("package")
    written, sites = place / "written", [place / "first/site", place / "second/site"]
    run(sys.executable, "-m", "tkjit", "new", "my_kernels", "-o", str(written))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(place), str(written))
    (wheel,) = place.glob("my_kernels-0.1.0-py3-none-any.whl")
    for site in sites:
        run(*pip, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel))
    return sites


@pytest.mark.slow
@pytest.mark.compiles
def test_it_runs_where_it_is_installed_and_elsewhere_from_the_same_entries(sites, cache_with_runtime, tmp_path):
    first, second = ({"PYTHONPATH": str(site)} for site in sites)
    run(sys.executable, "-c", CALL, **first)
    run(sys.executable, "-c", CALL, **first)
    # compiling is forbidden, so this finds the entries only if the keys do not depend on the package's directory
    run(sys.executable, "-c", CALL, TKJIT_JIT="0", **second)


@pytest.mark.slow  # compiles a package's kernels four times
@pytest.mark.compiles
def test_the_commands_take_its_name(sites, cache_with_runtime, operators, tmp_path):
    operators(cache_with_runtime)
    first, second = ({"PYTHONPATH": str(site)} for site in sites)
    tkjit = [sys.executable, "-m", "tkjit"]
    listed = {entry["name"]: entry["summary"] for entry in json.loads(run(*tkjit, "list", "--json", **first))}
    assert listed["my_kernels.silu_mul"] == "Computes silu(gate) * up."
    bundle = tmp_path / "bundle"
    chosen = ["--device", "cpu", "--types", "float32"]
    run(*tkjit, "bundle", "my_kernels", *chosen, "-o", str(bundle), **first)
    run(
        sys.executable,
        "-c",
        CALL,
        TKJIT_CACHE=str(tmp_path / "empty"),
        TKJIT_CACHE_READONLY=str(bundle),
        TKJIT_JIT="0",
        **second,
    )
    verified = json.loads(run(*tkjit, "verify", "my_kernels", "--types", "float32", "--json", **first))
    assert {entry["kernel"] for entry in verified} == {"silu_mul", "squared_relu"}
    assert all(entry["is_right"] for entry in verified)
    assert (
        "nothing found"
        in subprocess.run(
            [*tkjit, "check", "my_kernels.squared_relu", "--types", "float32", "--memory"],
            env={**os.environ, **first},
            capture_output=True,
            text=True,
            check=True,
        ).stderr
    )
