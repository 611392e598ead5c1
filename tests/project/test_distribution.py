"""The sdist builds a wheel without a network, and the wheel has everything that a user needs."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.compiles


def run(*command: str, directory: Path = ROOT, **variables: str) -> str:
    done = subprocess.run(command, cwd=directory, env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory into which the wheel is installed that was built from the sdist."""
    place = tmp_path_factory.mktemp("distribution")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(place))
    (sdist,) = place.glob("tkjit-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    source = next(path for path in place.iterdir() if path.is_dir())
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    run(*pip, "wheel", *offline, "-w", str(place), str(source))
    (wheel,) = place.glob("tkjit-*-py3-none-any.whl")
    run(*pip, "install", *offline, "--target", str(place / "site"), str(wheel))
    return place / "site"


def test_the_installed_command_runs_a_bundled_kernel(site, cache_with_runtime, tmp_path):
    variables = {"PYTHONPATH": str(site)}
    call = "x = torch.ones(3); print(tkjit.load('axpy')(x, x.clone()).sum())"
    program = f"import tkjit, torch; print(tkjit.__file__); {call}"
    printed = run(sys.executable, "-c", program, directory=tmp_path, **variables)
    assert str(site) in printed and "tensor(6.)" in printed
    assert "softmax" in run(str(site / "bin/tkjit"), "list", directory=tmp_path, **variables)


def test_new_writes_its_templates_from_an_installed_package(site, tmp_path):
    for arguments in (["new", "mine", "--like", "axpy"], ["new", "package"]):
        run(str(site / "bin/tkjit"), *arguments, directory=tmp_path, PYTHONPATH=str(site))
    assert (tmp_path / "mine/mine.cu").is_file() and (tmp_path / "package/pyproject.toml").is_file()


def test_every_file_of_the_package_is_in_the_wheel(site):
    tracked = run("git", "ls-files", "tkjit", "kernel_sources").split()
    places = [site / (path if path.startswith("tkjit/") else f"tkjit/{path}") for path in tracked]
    assert len(places) > 500 and [place for place in places if not place.is_file()] == []
