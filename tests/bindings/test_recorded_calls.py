"""Recorded calls that are compiled ahead of time, and bindings modules that are shipped."""

from __future__ import annotations

import subprocess
import sys

import pytest
from bindings.conftest import HEADERS

from tkjit.cli import main
from tkjit.config import environment_with

pytestmark = pytest.mark.compiles

# the iterators of Steps have a private type
SOURCE = """
namespace garden {
class Steps {
    struct At {
        int step;
        int operator*() const { return step; }
        At& operator++() { return --step, *this; }
        bool operator!=(const At& other) const { return step != other.step; }
    };

public:
    At begin() const { return {2}; }
    At end() const { return {0}; }
};
}
"""
PROGRAM = f"""
import numpy, tkjit
garden = tkjit.bind("garden.hpp", namespaces="garden", include_dirs=[{str(HEADERS)!r}], source={SOURCE!r})
bed = garden.Bed(int)([1, 2, 3])
tree = garden.Tree("oak")
print(garden.total(bed.begin(), bed.end()), garden.Water.drip, tree.get_name(), numpy.asarray(bed), tree.number)
print(*garden.Steps())
"""
PRINTED = "6 garden::Water::drip oak [1 2 3] 3\n2 1\n"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The file in which a run of the program has recorded its calls."""
    path = tmp_path_factory.mktemp("record") / "calls.json"
    cache = tmp_path_factory.mktemp("cache")
    done = run(TKJIT_RECORD=str(path), TKJIT_CACHE=str(cache))
    assert done.stdout == PRINTED
    return path


def run(**environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=environment_with(**environment), capture_output=True, text=True)


def test_recorded_calls_are_compiled_ahead_of_time(recorded, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TKJIT_CACHE", str(tmp_path / "cache"))
    refused = run(TKJIT_JIT="0")
    assert "declarations of garden (once) is not in the cache" in refused.stderr
    assert "build it ahead of time: python -m tkjit warmup --record" in refused.stderr
    assert main(["warmup", "--from-file", str(recorded)]) == 0
    assert run(TKJIT_JIT="0").stdout == PRINTED
    assert main(["why", "--from-file", str(recorded)]) == 0
    wrong = tmp_path / "calls.json"
    wrong.write_text(recorded.read_text().replace("garden::total", "garden::totals"))
    assert main(["why", "--from-file", str(wrong)]) == 1
    assert "garden::totals" in capsys.readouterr().out
    assert main(["warmup", "--from-file", str(recorded)]) == 0
    assert " 0 failed" in capsys.readouterr().out.splitlines()[-1]
    assert main(["bundle", "--from-file", str(recorded), "-o", str(tmp_path / "bundle")]) == 0
    elsewhere = {"TKJIT_CACHE": str(tmp_path / "empty"), "TKJIT_CACHE_READONLY": str(tmp_path / "bundle")}
    assert run(TKJIT_JIT="0", PATH="/nowhere", **elsewhere).stdout == PRINTED
    assert not list((tmp_path / "bundle").rglob("*.gch"))


@pytest.mark.slow  # compiles calls
def test_wrong_call_fails_alone(recorded, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TKJIT_CACHE", str(tmp_path / "cache"))
    wrong = tmp_path / "calls.json"
    wrong.write_text(recorded.read_text().replace("garden::total", "garden::totals"))
    assert main(["warmup", "--from-file", str(wrong)]) == 1
    printed = capsys.readouterr()
    assert "totals" in printed.err and " 1 failed" in printed.out
    wrong.write_text('{"headers": {"headers": []}, "call": {}}')
    assert main(["warmup", "--from-file", str(wrong)]) == 1
    assert "calls.json:1 is not a line that TKJIT_RECORD" in capsys.readouterr().err
    assert main(["bundle", "-o", str(tmp_path / "bundle")]) == 1
    assert "name at least one kernel, or pass --from-file" in capsys.readouterr().err


@pytest.mark.slow  # compiles every call of a library
def test_bindings_module_and_package(recorded, tmp_path, capsys):
    options = ["garden.hpp", "-n", "garden", "-I", str(HEADERS), "-D", "AHEAD=1"]
    assert main(["bind", *options, "-o", str(tmp_path / "my_garden.py")]) == 0
    assert main(["bind", *options, "--used", str(recorded), "-o", str(tmp_path / "packed_garden")]) == 0
    code = "import my_garden, packed_garden; print(my_garden.add(1, 2), packed_garden.Point(1.0, 2.0).y)"
    printed = subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True)
    assert printed == "3 2.0\n"
    stubs = [tmp_path / "my_garden.pyi", tmp_path / "packed_garden" / "__init__.pyi"]
    all_stubs, used_stubs = (path.read_text() for path in stubs)
    assert "def add(first: float, second: float) -> float: ..." in all_stubs
    assert (
        'class Tree:\n    """With two bases."""\n' in used_stubs
        and "def __init__(self, of: str) -> None: ..." in used_stubs
    )
    assert "def get_name(self) -> str: ..." in used_stubs and "class Point" not in used_stubs
    assert (tmp_path / "packed_garden" / "calls.json").read_text() == recorded.read_text()
    for stub in stubs:
        done = subprocess.run([sys.executable, "-m", "mypy", stub], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    capsys.readouterr()
    assert main(["bind", "garden.hpp", "-I", str(HEADERS), "-o", str(tmp_path / "my-garden.py")]) == 1
    assert "'my-garden' is not a valid Python module name" in capsys.readouterr().err
    assert main(["bind", "nowhere.hpp", "-o", str(tmp_path / "nowhere.py")]) == 1
    assert not (tmp_path / "nowhere.py").exists()
