"""Compilation: the dependencies of a successful build, and the files that a failed one keeps."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.waiting import wait_until

from tkjit.compile.compiler import LOG, Unit, _linked_files, _read_depfile, compile_binary
from tkjit.errors import REPRODUCE, CacheError, CompileError, ToolchainError
from tkjit.system.process import name_of, working_in
from tkjit.system.watchdog import watch

SOURCE = Path("/home/me/kernels/axpy.cu")

# ---- dependencies


@pytest.mark.parametrize(
    "text, names",
    [
        (
            "launcher.so: launcher.cu /usr/include/a.h \\\n  /usr/include/b.h\n",
            ["/usr/include/a.h", "/usr/include/b.h"],
        ),
        ("launcher.so : launcher.cu \\\n    /usr/include/a.h \n", ["/usr/include/a.h"]),
        ("launcher.so: /my\\ kernels/a\\ b.h /c.h\n", ["/c.h", "/my kernels/a b.h"]),
        ("launcher.so: /usr/lib/gcc/../include/a.h /usr/lib/include/a.h\n", ["/usr/lib/include/a.h"]),
        ("launcher.so: {staging}/launcher.cu {staging}/sub/x.h\n", []),
        # characters that g++ 12 escapes for make
        ("launcher.so: /c\\#/a.h /pay$$/b.h /x:y.h\n", ["/c#/a.h", "/pay$/b.h", "/x:y.h"]),
    ],
    ids="gxx nvcc spaces dots own make".split(),
)
def test_the_files_in_a_depfile_are_dependencies(tmp_path, text, names):
    depfile = tmp_path / "launcher.d"
    depfile.write_text(text.replace("{staging}", str(tmp_path)))
    assert [str(path) for path in _read_depfile(depfile, tmp_path)] == names


def test_the_libraries_that_a_linker_read_are_dependencies(tmp_path):
    for name in ("libfoo.so.1", "libfoo.a", "libfoobar.so", "libc.so.6", "sub/libbar.so"):
        (tmp_path / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lib" / name).write_text("")
    lib = tmp_path / "lib"
    log = (
        f"/usr/lib/crt1.o\n{lib}/libfoo.so.1\n{lib}/libfoobar.so\n{lib}/libc.so.6\n  {lib}/sub/../libfoo.a\n"
        f"{lib}/libfoo.so.gone\n{lib}/libfoo.so.1\n../lib/sub/libbar.so\nlibfoo.so: error: not found\n"
    )
    (tmp_path / "staging").mkdir()
    named = (lib / "libc.so.6", lib / "libfoo.a", lib / "libfoo.so.1", lib / "libfoobar.so", lib / "sub/libbar.so")
    assert _linked_files(log, ("foo", "bar"), tmp_path / "staging") == named
    # libraries that another library needs or that were passed as a path also count
    assert _linked_files(log, (), tmp_path / "staging") == named
    assert _linked_files(log, None, tmp_path / "staging") == ()
    # The compiler's version, which is in the key, stands for the system's libraries. So they are dependencies only if
    # the spec requests them by name.
    system = "/usr/lib/x86_64-linux-gnu/libc.a\n/lib/x86_64-linux-gnu/libm.so.6\n"
    assert _linked_files(system, (), tmp_path / "staging") == ()
    asked = _linked_files(system, ("m", ":libc.a"), tmp_path / "staging")
    assert set(asked) == {Path(line) for line in system.split() if Path(line).is_file()}


# ---- builds with a shell script as the compiler


@pytest.fixture
def unit(tmp_path):
    return Unit("axpy (T=float32) for sm_90a", "launcher.cu", "int i;\n", tmp_path / "entry/.failed", SOURCE)


@pytest.fixture
def staging(tmp_path):
    directory = tmp_path / "entry/.staging-1"
    directory.mkdir(parents=True)
    return directory


def shell(body: str):
    """A command whose $1, $2, $3 are the source, the output and the depfile."""
    return lambda *files: [["/bin/sh", "-c", body, "sh", *map(str, files)]]


OUTPUT = "launcher.so"
PTXAS = "echo \"ptxas info    : Compiling entry function 'f' for 'sm_90a'\"; echo Used 7 registers"
GOOD = 'cp "$1" "$2"; echo "launcher.so: $1 /usr/include/a.h" > "$3"; ' + PTXAS


def test_a_successful_build_returns_its_product(unit, staging):
    checked = []
    product = compile_binary(unit, staging, OUTPUT, shell(GOOD), checked.append)
    assert checked == [staging / "launcher.so"]
    assert product.shared_object == "launcher.so" and product.dependencies == (Path("/usr/include/a.h"),)
    assert product.facts["registers"] == 7 and product.facts["seconds"] >= 0
    assert product.facts["what"] == unit.name and "/bin/sh -c" in product.facts["command"]
    assert (staging / "launcher.cu").read_text() == "int i;\n"
    assert "Used 7 registers" in (staging / LOG).read_text()
    assert sorted(path.name for path in staging.iterdir()) == [LOG, "launcher.cu", "launcher.so"]
    assert not unit.failure_directory.exists()


def test_a_build_with_two_commands_stops_at_the_first_that_fails(unit, staging):
    both = lambda *files: [*shell(GOOD)(*files), *shell('echo linked >> "$2"')(*files)]  # noqa: E731
    product = compile_binary(unit, staging, "program", both)
    assert (staging / product.shared_object).read_text() == "int i;\nlinked\n"
    assert " && " in product.facts["command"]
    (staging / product.shared_object).unlink()
    failing = lambda *files: [*shell("echo 'error: no such thing'; exit 1")(*files), *both(*files)]  # noqa: E731
    with pytest.raises(CompileError, match="no such thing"):
        compile_binary(unit, staging, "program", failing)
    assert not (unit.failure_directory / "program").exists()


def test_a_build_depends_on_its_libraries_and_its_search_directories(unit, staging, tmp_path):
    library = tmp_path / "libfoo.so"
    library.write_text("")
    unit = replace(unit, libraries=("foo",), search=(tmp_path / "include",))
    product = compile_binary(unit, staging, OUTPUT, shell(f"{GOOD}; echo {library}"), lambda path: None)
    assert product.dependencies == (Path("/usr/include/a.h"), library)
    assert product.search == (tmp_path / "include",)


def test_the_peak_memory_of_the_compilers_largest_process_is_recorded(unit, staging):
    allocate = f"{sys.executable} -S -c 'x = b\"x\" * (100 << 20)'"
    product = compile_binary(unit, staging, OUTPUT, shell(f"{allocate}; {GOOD}"), lambda path: None)
    assert 100 << 20 <= product.facts["peak_memory_bytes"] < 150 << 20


def test_the_memory_of_the_building_process_does_not_count(unit, staging):
    ours = b"x" * (200 << 20)
    product = compile_binary(unit, staging, OUTPUT, shell(GOOD), lambda path: None)
    assert product.facts["peak_memory_bytes"] < len(ours) // 2


def test_an_interrupt_ends_the_compiler(unit, staging, monkeypatch):
    wait = subprocess.Popen.wait

    def interrupt(process):
        wait_until(lambda: "sleep" in map(name_of, working_in(staging)), what="the compiler is running")
        monkeypatch.setattr(subprocess.Popen, "wait", wait)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), watch(staging):
        monkeypatch.setattr(subprocess.Popen, "wait", interrupt)
        compile_binary(unit, staging, OUTPUT, shell("sleep 60; true"), lambda path: None)
    assert working_in(staging) == []


def test_a_killed_compiler_is_reported(unit, staging):
    with pytest.raises(CompileError, match="killed by signal 9; did it run out of memory"):
        compile_binary(unit, staging, OUTPUT, shell("kill -9 $$"), lambda path: None)


def test_a_compiler_runs_in_its_staging_directory(unit, staging):
    """The watchdog finds compilers by this directory, and leftovers are removed with it."""
    compile_binary(unit, staging, OUTPUT, shell(f"{GOOD}; pwd > where"), lambda path: None)
    assert (staging / "where").read_text().strip() == str(staging)


def test_a_failed_build_reports_error_log_and_command(unit, staging):
    command = shell('echo "axpy.cu:3:1: error: no such thing in $1" >&2; exit 1')
    with pytest.raises(CompileError) as caught:
        compile_binary(unit, staging, OUTPUT, command, lambda path: None)
    error = caught.value
    lines = str(error).splitlines()
    kept = unit.failure_directory / "launcher.cu"
    first = f"{SOURCE}:3:1: error: no such thing in {kept}"
    assert lines == [
        first,
        f"  compiling: {unit.name}",
        f"  whole log: {unit.failure_directory / LOG}",
        f"  reproduce: sh {unit.failure_directory / REPRODUCE}",
    ]
    assert error.log_path.read_text().startswith(error.command)
    assert "no such thing" in error.log and str(staging) not in error.log + error.command
    assert kept.read_text() == "int i;\n"


def test_a_compile_error_can_be_pickled(unit, staging):
    with pytest.raises(CompileError) as caught:
        compile_binary(unit, staging, OUTPUT, shell("echo no >&2; exit 1"), lambda path: None)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is CompileError and str(copy) == str(caught.value)
    assert (copy.log, copy.log_path, copy.command) == (caught.value.log, caught.value.log_path, caught.value.command)


def test_a_second_failure_replaces_the_files_of_the_first(unit, staging):
    for text in ("first", "second"):
        with pytest.raises(CompileError):
            compile_binary(unit, staging, OUTPUT, shell(f"echo {text} >&2; touch {text}; exit 1"), lambda path: None)
        (staging / "first").unlink(missing_ok=True)
    assert not (unit.failure_directory / "first").exists() and (unit.failure_directory / "second").exists()
    assert "second" in (unit.failure_directory / LOG).read_text()


def test_other_users_cannot_read_the_files_of_a_failed_build(unit, staging, monkeypatch):
    staging.chmod(0o700)
    copy, modes, before = shutil.copytree, [], os.umask(0)

    def look(source, target, **options):
        modes.append(target.stat().st_mode & 0o777)
        return copy(source, target, **options)

    monkeypatch.setattr(shutil, "copytree", look)
    try:
        with pytest.raises(CompileError):
            compile_binary(unit, staging, OUTPUT, shell("exit 1"), lambda path: None)
    finally:
        os.umask(before)
    assert [*modes, unit.failure_directory.stat().st_mode & 0o777] == [0o700, 0o700]


@pytest.mark.parametrize("place, function", [(shutil, "copytree"), (Path, "rename"), (Path, "mkdir")])
def test_a_failed_build_whose_files_cannot_be_kept_raises_the_same_error(unit, staging, monkeypatch, place, function):
    def refuse(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(place, function, refuse)
    with pytest.raises(CompileError, match="no such thing"):
        compile_binary(unit, staging, OUTPUT, shell("echo no such thing >&2; exit 1"), lambda path: None)
    assert [path.name for path in unit.failure_directory.parent.iterdir()] == [staging.name]


def test_a_shared_object_that_cannot_be_loaded_is_a_compile_error(unit, staging):
    def check(path):
        raise ImportError("undefined symbol: helper")

    with pytest.raises(CompileError, match="it compiled, but cannot be loaded: undefined symbol: helper"):
        compile_binary(unit, staging, OUTPUT, shell(GOOD), check)


def test_a_missing_compiler_is_reported(unit, staging):
    with pytest.raises(ToolchainError, match=r"/no/such/nvcc does not run: No such file or directory"):
        compile_binary(unit, staging, OUTPUT, lambda *files: [["/no/such/nvcc"]], lambda path: None)


def test_a_full_disk_is_an_error_of_the_cache(unit, staging):
    command = shell('echo "fatal error: error writing to a.o: No space left on device" >&2; exit 1')
    with pytest.raises(CacheError, match=r"no space left for compiling axpy .*set TKJIT_CACHE to another disk"):
        compile_binary(unit, staging, OUTPUT, command, lambda path: None)


def test_a_log_that_is_not_utf8_is_kept(unit, staging):
    with pytest.raises(CompileError, match=r"axpy.cu:1:1: error"):
        compile_binary(unit, staging, OUTPUT, shell(r"printf 'axpy.cu:1:1: error: \351\n'; exit 1"), lambda path: None)
