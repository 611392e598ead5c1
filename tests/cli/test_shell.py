"""The command line in a shell: names, standard streams, completion, JSON, and the files and modules that it reads."""

import json
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import asdict
from pathlib import Path

import pytest

import tkjit
from tkjit.cli import main
from tkjit.loader.record import Used

SCRIPT = Path(sysconfig.get_path("scripts")) / "tkjit"
MODULE = f"{sys.executable} -m tkjit"


def shell(line: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120, check=False, **options)


@pytest.mark.parametrize("program", [str(SCRIPT), MODULE])
def test_script_and_module_print_their_own_names(program):
    assert shell(f"{program} --version").stdout == f"tkjit {tkjit.__version__}\n"
    named = "tkjit" if program == str(SCRIPT) else "python -m tkjit"
    assert shell(f"{program} nonsense").stderr.startswith(f"usage: {named} [-h]")


# ---- standard streams


@pytest.mark.parametrize(
    "command", ["list", *(pytest.param(command, marks=pytest.mark.slow) for command in ("doctor", "show gemm"))]
)
def test_full_disk_is_reported(command):
    ended = shell(f"{MODULE} {command} > /dev/full")
    assert ended.returncode == 1
    assert ended.stderr == "tkjit: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize(("closed", "is_printed"), [(">&-", False), ("2>&-", True), ("<&- >&- 2>&-", False)])
def test_commands_work_with_closed_streams(closed, is_printed):
    ended = shell(f"{MODULE} show gemm {closed}")
    assert ended.returncode == 0 and ended.stderr == ""
    assert bool(ended.stdout) == is_printed


@pytest.mark.compiles
def test_compilers_do_not_write_into_open_files(cache_with_runtime, operators):
    """If standard output is closed, the first file that is opened could get its number."""
    operators(cache_with_runtime)
    assert shell(f"{MODULE} warmup axpy --device cpu --types float32 <&- >&- 2>&-").returncode == 0
    assert shell(f"{MODULE} cache verify").returncode == 0


def test_closed_pipe_is_not_an_error_message():
    ended = shell(f"{MODULE} list | head -1; exit ${{PIPESTATUS[0]}}")
    assert ended.stderr == "" and ended.stdout.startswith("add_layer_norm ")


@pytest.mark.parametrize("command", ["new sums", "bundle axpy -o there", "import a.cu"])
def test_removed_working_directory_is_reported(tmp_path, command):
    ended = shell(f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir ../gone && {MODULE} {command}")
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1 and ended.stderr.startswith("tkjit: ")


def test_characters_that_a_terminal_lacks_are_escaped(tmp_path):
    spec = 'import tkjit\n@tkjit.kernel("", entry="f", grid=1, block=1)\ndef lambda_(x: int):\n    """\u03bb"""\n'
    (tmp_path / "lambda_.py").write_text(spec, encoding="utf-8")
    ended = shell(f"TKJIT_KERNEL_PATH={tmp_path} PYTHONIOENCODING=ascii {MODULE} list")
    assert "lambda_ " in ended.stdout and "Traceback" not in ended.stderr


# ---- completion


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tkjit show gem", ["gemm", "gemm_all_reduce"]),
        ("tkjit cache list gem", ["gemm", "gemm_all_reduce"]),
        ("tkjit verify axpy --dev", ["--device"]),
        ("tkjit doc", ["doctor"]),
        ("tkjit completion z", ["zsh"]),
    ],
)
def test_bash_completes(line, expected):
    code = f"""
        PATH={SCRIPT.parent}:$PATH
        eval "$(tkjit completion bash)"
        COMP_LINE="{line}"; COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9
        read -a COMP_WORDS <<< "$COMP_LINE"; COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _python_argcomplete tkjit
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    assert [word.strip() for word in shell(code).stdout.splitlines()] == expected


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_code_is_valid(capsys, name):
    assert main(["completion", name]) == 0
    printed = capsys.readouterr().out
    assert "tkjit" in printed
    if found := shutil.which(name):
        subprocess.run([found, "-n", "-c", printed], check=True, timeout=60)


# ---- JSON


def test_list_prints_json(capsys):
    assert main(["list", "--json"]) == 0
    by_name = {kernel["name"]: kernel for kernel in json.loads(capsys.readouterr().out)}
    axpy = {"name": "axpy", "summary": "Computes alpha * x + y in place.", "error": "", "missing": [], "package": ""}
    assert by_name["axpy"] == axpy


def test_kernels_without_their_headers_are_listed_separately(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TKJIT_CACHE", str(tmp_path))
    monkeypatch.delenv("THUNDERKITTENS_ROOT", raising=False)
    assert main(["list"]) == 0
    ready, others = capsys.readouterr().out.split(
        "\nAvailable once their headers are installed (python -m tkjit headers add thunderkittens):\n\n"
    )
    assert "\naxpy " in f"\n{ready}" and "\ntk_rotary " not in ready
    assert "\ntk_rotary " in f"\n{others}" and "\naxpy " not in others


def test_doctor_prints_json(capsys):
    main(["doctor", "--json"])
    findings = {finding["what"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["Python"]["state"] == "ok" and sys.executable in findings["Python"]["text"]


# ---- files and modules


@pytest.mark.slow
def test_records_import_nothing_from_the_working_directory(tmp_path):
    (tmp_path / "theirs.py").write_text("open('was-imported', 'w').close()")
    (tmp_path / "used.jsonl").write_text(json.dumps(asdict(Used("k", "theirs", 0, (), "cpu", "x86-64-v3", ""))) + "\n")
    ended = shell(f"{MODULE} warmup --from-file used.jsonl", cwd=tmp_path)
    assert ended.returncode == 1 and not (tmp_path / "was-imported").exists()
    assert "set PYTHONPATH to its directory" in ended.stderr + ended.stdout


def test_stubs_finds_a_module_in_the_working_directory(tmp_path):
    (tmp_path / "mine.py").write_text("")
    ended = shell(f"{MODULE} stubs --module mine", cwd=tmp_path)
    assert "cannot be imported" not in ended.stderr


def test_invalid_sources_are_rejected(capsys, tmp_path):
    assert main(["import", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"tkjit: {tmp_path} is a directory; expected a CUDA source\n"
    deep = tmp_path / "deep.cu"
    deep.write_text(f"__global__ void f(float* x) {{ x[0] = {'(' * 100_000}1{')' * 100_000}; }}")
    assert main(["import", str(deep)]) == 1
    assert (
        capsys.readouterr().err == f"tkjit: {deep}: brackets are nested 100,001 deep; the parser supports up to 5,000\n"
    )
