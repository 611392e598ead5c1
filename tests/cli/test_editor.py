"""``editor``: clangd finds no error in the sources of kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from clang import cindex

from tkjit.cli import editor, main
from tkjit.compile.targets import cpu_target
from tkjit.importer.clang import _resources
from tkjit.kernel_objects import find, kernels

SPEC = """
import tkjit
from tkjit import In, Out, Tensor

@tkjit.kernel("{source}", entry="twice<T>", grid=1, block="N", variants={{"T": ("float32", "bfloat16")}})
def twice(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor: ...
"""
SOURCE = """
template <typename T>
__global__ void twice(Globals g) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = g.x[threadIdx.x];
    __syncthreads();
    g.y[threadIdx.x] = T(2.f * tile[threadIdx.x]);
}
"""


def errors(database: Path) -> list[str]:
    found = []
    for entry in json.loads(database.read_text()):
        arguments = ["-resource-dir", str(_resources()), *entry["arguments"][1:-1]]
        parsed = cindex.Index.create().parse(entry["file"], arguments)
        found += [str(each) for each in parsed.diagnostics if each.severity >= cindex.Diagnostic.Warning]
    return found


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "twice.py").write_text(SPEC.format(source="sources/twice.cu"))
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/twice.cu").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_kernel_has_no_errors_until_one_is_made(project):
    assert main(["editor", "twice.py"]) == 0
    database = project / "compile_commands.json"
    assert errors(database) == []
    assert (project / ".clangd").exists() and (project / ".tkjit/.gitignore").read_text() == "*\n"
    source = project / "sources/twice.cu"
    source.write_text(source.read_text().replace("g.x[", "g.z["))
    (error,) = errors(database)
    assert "no member named 'z' in 'Globals'" in error and "twice.cu:5" in error


def test_entries_of_others_and_settings_stay(project):
    other = {"directory": "/x", "file": "/x/y.cpp", "command": "g++ y.cpp"}
    (project / "compile_commands.json").write_text(json.dumps([other]))
    (project / ".clangd").write_text("mine")
    assert main(["editor", "twice.py"]) == main(["editor", "twice.py"]) == 0
    written = json.loads((project / "compile_commands.json").read_text())
    assert written[0] == other and len(written) == 2
    assert (project / ".clangd").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "database", "message"),
    [
        (["-o", "sources"], "[]", "choose a directory above it"),  # from a spec whose source is elsewhere
        (["-o", "missing"], "[]", "there is no directory missing"),
        ([], "{", "cannot be read as a compilation database"),
        ([], "{}", "is not a list of commands"),
    ],
)
def test_bad_input_changes_nothing(project, capsys, arguments, database, message):
    if "sources" in arguments:
        (project / "twice.cu").write_text(SOURCE)
        (project / "twice.py").write_text(SPEC.format(source="twice.cu"))
    (project / "compile_commands.json").write_text(database)
    assert main(["editor", "twice.py", *arguments]) == 1
    assert message in capsys.readouterr().err
    assert (project / "compile_commands.json").read_text() == database and not (project / ".tkjit").exists()


def test_a_source_in_the_spec_has_no_file(project, capsys):
    (project / "inline.py").write_text(SPEC.format(source=SOURCE.replace("\n", " ")))
    assert main(["editor", "inline.py"]) == 1
    assert "no kernel has its source in a file" in capsys.readouterr().err


CHOSEN = ("gemm", "attention", "all_reduce", "selective_scan")
OTHERS = [name for name in kernels() if name not in CHOSEN and not find(name).specs[0].headers]


@pytest.mark.parametrize("name", [*CHOSEN, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_a_bundled_kernel_has_no_errors(tmp_path, name):
    target = cpu_target()
    sources = editor._sources([find(name)])
    entries = [editor._entry(path, spec, target, tmp_path / f"{path.stem}.h") for path, spec in sources]
    (tmp_path / "commands.json").write_text(json.dumps(entries))
    assert entries and errors(tmp_path / "commands.json") == []
