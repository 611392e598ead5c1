"""The programs of ``docs/howto/export.md`` do what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tkjit

pytestmark = pytest.mark.compiles
PAGE = (Path(__file__).parents[2] / "docs/howto/export.md").read_text()
REFUSED = "gemm: b is (2, 3) float32 on cpu; expected (K=3, N) of a's type float32; dim 0 is 2, but K=3 from a\n"


def program(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("page") / "layers"
    return tkjit.export(
        "gemm", "softmax", name="layers", output=output, types=["float32"], languages=["cpp", "go", "rust"]
    )


def run(command: list[str], directory: Path) -> str:
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, env={**os.environ, "GOFLAGS": "-mod=mod"}
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


COMPILERS = {"c": "gcc -std=c99 -Wall -Wextra -Werror", "cpp": "g++ -std=c++17 -Wall -Wextra -Werror"}


@pytest.mark.parametrize("language", COMPILERS)
def test_c_and_cpp(language, layers, tmp_path):
    source = tmp_path / f"main.{language}"
    source.write_text(program(language))
    flags = [f"-I{layers}/include", f"-L{layers}/lib", "-llayers", f"-Wl,-rpath,{layers}/lib"]
    run([*COMPILERS[language].split(), str(source), *flags, "-o", "main"], tmp_path)
    printed = run(["./main"], tmp_path)
    assert printed == "4\n" if language == "c" else printed.endswith(REFUSED)


@pytest.mark.languages
def test_go(layers, tmp_path):
    if not (go := shutil.which("go")):
        pytest.skip("no Go; install it: apt-get install golang-go")
    shutil.copytree(layers, tmp_path / "layers", symlinks=True)
    (tmp_path / "main.go").write_text(program("go"))
    (tmp_path / "go.mod").write_text("module main\n\ngo 1.19\n\nrequire layers v0.0.0\n\nreplace layers => ./layers\n")
    assert run([go, "run", "."], tmp_path) == REFUSED + "6\n"


@pytest.mark.languages
def test_rust(layers, tmp_path):
    if not (cargo := shutil.which("cargo")):
        pytest.skip("no Rust; install it: apt-get install cargo")
    crate = Path(shutil.copytree(layers, tmp_path / "layers", symlinks=True))
    (crate / "examples").mkdir()
    (crate / "examples/main.rs").write_text(program("rust"))
    assert (
        run([cargo, "run", "--offline", "--quiet", "--example", "main"], crate) == "[4.0, 5.0, 10.0, 11.0]\n" + REFUSED
    )
