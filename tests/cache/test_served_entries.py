"""Lookups return the right entry after damage, after load failures, and after each change of a key."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
from itertools import product
from pathlib import Path

import pytest
import torch
from support.caches import CALL, RIGHT, Compiler, entries
from support.forking import Server
from support.sampling import sample
from support.static_library import write_static_library
from support.waiting import wait_until

from tkjit.cache import checked_json
from tkjit.cache.entry import DEPENDENCIES, MANIFEST, read_manifest
from tkjit.cache.recipe import digest_of_file

pytestmark = pytest.mark.compiles


def entry(root: Path, kind: str) -> Path:
    """Return the entry of the runtime, the glue or the launcher."""
    patterns = {"runtime": "runtime", "glue": "glue", "launcher": "cpu-*"}
    (found,) = root.glob(f"v1/*/{patterns[kind]}/*/[!.]*/{MANIFEST}")
    return found.parent


def shared_object(directory: Path) -> Path:
    return directory / read_manifest(directory)["shared_object"]


# ---- damage


def flip(path: Path, rng: random.Random) -> str:
    """Flip one bit of a file, and restore its times."""
    content, status = bytearray(path.read_bytes()), path.stat()
    place = rng.randrange(len(content))
    content[place] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return f"a bit of byte {place} of {path.name} was flipped"


def cut(path: Path, rng: random.Random) -> str:
    """Cut off the end of a file."""
    length = rng.randrange(path.stat().st_size)
    os.truncate(path, length)
    return f"{path.name} ends after {length} bytes"


def remove(path: Path, rng: random.Random) -> str:
    path.unlink()
    return f"{path.name} is gone"


def check_that_it_is_rebuilt_once(fresh: Server, compiler: Compiler, root: Path, bad: Path, what: str) -> None:
    before = compiler.compiled
    assert fresh.run(CALL) == RIGHT, what
    once = sorted([*before, "launcher" if "cpu-" in str(bad) else "module"])
    assert compiler.compiled == once, what
    assert list(bad.parent.glob(f".broken-{bad.name}-*")), f"{what}; the bad entry must be kept"
    assert fresh.run(CALL) == RIGHT, what
    assert compiler.compiled == once, f"{what}; the next call must not rebuild"
    assert len(entries(root)) == 3, what


def name_of(case: tuple) -> str:
    kind, file, damage = case
    return f"{kind}-{file}-{damage.__name__}"


DAMAGES = product(["glue", "launcher"], ["shared object", "manifest"], [flip, cut, remove])


@pytest.mark.parametrize(
    ("kind", "file", "damage"),
    sample(DAMAGES, "glue-manifest-cut", "launcher-shared object-flip", name=name_of),
)
def test_damaged_entry_is_rebuilt_once(kind, file, damage, rng, fresh, warmed, compiler):
    bad = entry(warmed, kind)
    what = f"{kind}: {damage(bad / MANIFEST if file == 'manifest' else shared_object(bad), rng)}"
    check_that_it_is_rebuilt_once(fresh, compiler, warmed, bad, what)


@pytest.mark.slow
def test_damaged_runtime_is_rebuilt_once(rng, fresh, warmed, compiler):
    """One kind of damage is enough, because each rebuild of the runtime takes 7 s, and all entries share this code."""
    bad = entry(warmed, "runtime")
    check_that_it_is_rebuilt_once(fresh, compiler, warmed, bad, f"runtime: {flip(shared_object(bad), rng)}")


def test_damaged_list_of_dependencies_is_not_trusted(rng, fresh, warmed, compiler):
    bad = entry(warmed, "launcher")
    what = flip(bad / DEPENDENCIES, rng)
    assert fresh.run(CALL) == RIGHT and compiler.compiled == [], "nothing has changed since the last comparison"
    os.utime(bad / MANIFEST)  # invalidates the warm record, so that contents are compared
    check_that_it_is_rebuilt_once(fresh, compiler, warmed, bad, what)


@pytest.mark.parametrize(
    ("kind", "lacks"),
    sample(product(["glue", "launcher"], ["library", "symbol"]), "launcher-library", name="-".join),
)
def test_intact_entry_that_cannot_be_loaded_is_rebuilt_once(kind, lacks, fresh, warmed, compiler, tmp_path):
    """For example, this machine may lack a library that was installed where the entry was built."""
    bad = entry(warmed, kind)
    path = shared_object(bad)
    link = ["g++", "-shared", "-x", "c++", os.devnull, "-o"]
    library = tmp_path / "libgone.so"
    subprocess.run([*link, library], check=True)
    needs = ["-x", "none", "-Wl,--no-as-needed", library] if lacks == "library" else []
    subprocess.run([*link, path, *needs], check=True)
    library.unlink()
    manifest = read_manifest(bad)
    checked_json.write(bad / MANIFEST, {**manifest, "files": {**manifest["files"], path.name: digest_of_file(path)}})
    check_that_it_is_rebuilt_once(fresh, compiler, warmed, bad, f"a {kind} that lacks a {lacks}")


@pytest.mark.slow
def test_verify_finds_damage_in_every_file(rng, fresh, warmed):
    assert fresh.tkjit("cache", "verify").printed() == "6 entries, 0 problems\n"
    files = [path for directory in entries(warmed) for path in directory.iterdir() if path.name != MANIFEST]
    assert {"build.log", "launcher.cu", "launcher.so", DEPENDENCIES} <= {path.name for path in files}
    for path in files:
        flip(path, rng)
    done = fresh.tkjit("cache", "verify")
    assert (done.code, done.stdout) == (1, f"6 entries, {len(files)} problems\n")
    assert sorted(done.stderr.splitlines()) == sorted(f"{path} has changed since it was written" for path in files)
    found = fresh.tkjit("cache", "verify", "--json")
    assert found.code == 1
    answer = json.loads(found.stdout)
    assert answer["entries"] == 6 and sorted(answer["problems"]) == sorted(done.stderr.splitlines())
    cut(entry(warmed, "glue") / MANIFEST, rng)
    assert "manifest.json cannot be read" in fresh.tkjit("cache", "verify").stderr


# ---- changes that make another entry

SPEC = """
import tkjit
from tkjit import InOut, Tensor

@tkjit.kernel("own.cu", entry="f", grid=1, block=1, {options})
def own(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...
"""
CALL_OWN = 'import torch, tkjit; print(tkjit.load("own")(torch.zeros(1)).item())'
WHY = ("why", "own", "--device", "cpu")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the directory of a kernel whose value comes from a header three includes deep."""
    directory = tmp_path / "kernels"
    (directory / "headers").mkdir(parents=True)
    (directory / "own.py").write_text(SPEC.format(options='include_dirs=["headers"], defines={"ADD": 0}'))
    (directory / "own.cu").write_text('#include "one.h"\n__global__ void f(Globals g) { g.x[0] = VALUE + ADD; }\n')
    (directory / "headers" / "one.h").write_text('#include "two.h"\n')
    (directory / "headers" / "two.h").write_text('#include "three.h"\n')
    (directory / "headers" / "three.h").write_text("#define VALUE 1\n")
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(directory))
    return directory


def differences(fresh: Server, *options: str, before: str = "", **environ: str) -> dict[str, list[tuple[str, str]]]:
    """Return the differences that ``why`` lists for each missing build, and check that its text and JSON agree."""
    done = fresh.tkjit(*WHY, *options, "--json", before=before, **environ)
    answers = [answer for answer in json.loads(done.stdout) if not answer["hit"]]
    assert done.code == (1 if answers else 0), done.stderr
    shown = fresh.tkjit(*WHY, *options, before=before, **environ).stdout
    by_build = {}
    for answer in answers:
        assert f"miss  {answer['what']}\n" in shown
        by_build[answer["what"]] = [(change["part"], change["text"]) for change in answer["differences"]]
        assert all(f"\n      {part}: {text}\n" in shown for part, text in by_build[answer["what"]])
        assert f"to build it: {answer['warmup']}\n" in shown
    return by_build


def replace(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


EDITS = {
    "a header three includes deep": (
        ("headers/three.h", "VALUE 1", "VALUE 5"),
        [("files", "<include-0>/three.h has changed")],
    ),
    "a define": (("own.py", '"ADD": 0', '"ADD": 4'), [("flags", "-[-DADD=0] +[-DADD=4]")]),
    "a flag": (("own.py", '"ADD": 0}', '"ADD": 0}, flags=["-UADD", "-DADD=4"]'), [("flags", "+[-UADD] +[-DADD=4]")]),
    "the source": (
        ("own.cu", "VALUE + ADD", "VALUE + 4"),
        [
            (
                "text",
                "2 lines differ, first -__global__ void f(Globals g) { g.x[0] = VALUE + ADD; }; "
                "+__global__ void f(Globals g) { g.x[0] = VALUE + 4; }",
            )
        ],
    ),
}


@pytest.mark.parametrize("edit", sample(EDITS, next(iter(EDITS))))
def test_edit_is_a_miss_and_why_shows_the_change(edit, fresh, cache_with_runtime, compiler, own):
    (name, before, after), expected = EDITS[edit]
    assert fresh.run(CALL_OWN) == "1.0\n"
    assert differences(fresh) == {}
    replace(own / name, before, after)
    (changes,) = differences(fresh).values()
    assert changes == expected
    assert fresh.run(CALL_OWN) == "5.0\n"
    assert compiler.compiled == ["launcher", "launcher", "module"]
    replace(own / name, after, before)
    assert fresh.run(CALL_OWN) == "1.0\n"
    assert compiler.compiled == ["launcher", "launcher", "module"], "the first build must still be there"


def test_header_edited_during_compilation_is_compiled_again(fresh, cache_with_runtime, compiler, own):
    compiler.hold_at_the_end("*launcher.cu*")
    call = fresh.start(CALL_OWN)
    wait_until(
        lambda: list(cache_with_runtime.glob("v1/*/cpu-*/*/.staging-*/dependencies.d")), 30, "the compiler has read it"
    )
    replace(own / "headers/three.h", "VALUE 1", "VALUE 2")
    compiler.release()
    assert call.printed() == "2.0\n"
    assert compiler.compiled == ["launcher", "launcher", "module"]
    assert fresh.run(CALL_OWN) == "2.0\n"
    replace(own / "headers/three.h", "VALUE 2", "VALUE 1")
    assert fresh.run(CALL_OWN) == "1.0\n", "the first compilation must not be kept under a wrong name"


def test_touched_or_moved_files_are_not_a_miss(fresh, cache_with_runtime, compiler, own, tmp_path, monkeypatch):
    assert fresh.run(CALL_OWN) == "1.0\n"
    for path in [*own.glob("*"), *own.glob("headers/*")]:
        os.utime(path)
    assert differences(fresh) == {} and fresh.run(CALL_OWN) == "1.0\n"
    moved = own.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(moved))
    cache = cache_with_runtime.rename(tmp_path / "another cache")
    monkeypatch.setenv("TKJIT_CACHE", str(cache))
    assert differences(fresh) == {} and fresh.run(CALL_OWN) == "1.0\n"
    assert compiler.compiled == ["launcher", "module"]


LINKING = """
import tkjit
from tkjit import InOut, Tensor

@tkjit.kernel("own.cu", entry="f", grid=1, block=1, flags=["-L{directory}"], libraries=["value"])
def own(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...
"""


@pytest.mark.slow
def test_replaced_static_library_is_a_miss(fresh, cache_with_runtime, compiler, own, tmp_path):
    (own / "own.py").write_text(LINKING.format(directory=tmp_path))
    (own / "own.cu").write_text("int value();\n__global__ void f(Globals g) { g.x[0] = value(); }\n")
    write_static_library(tmp_path, 1)
    assert fresh.run(CALL_OWN) == "1.0\n"
    write_static_library(tmp_path, 1)
    assert differences(fresh) == {} and fresh.run(CALL_OWN) == "1.0\n"
    write_static_library(tmp_path, 2)
    (changes,) = differences(fresh).values()
    assert changes == [("files", f"{tmp_path}/libvalue.a has changed")]
    assert fresh.run(CALL_OWN) == "2.0\n"
    assert compiler.compiled == ["launcher", "launcher", "module"]


@pytest.mark.slow
def test_other_version_of_a_tool_or_of_torch_is_a_miss(fresh, cache_with_runtime, compiler, own):
    assert fresh.run(CALL_OWN) == "1.0\n"
    version = subprocess.run([compiler.path, "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    changes = differences(fresh, before='import torch; torch.__version__ = "9.9.9"')
    assert len(changes) == 3 and set(map(tuple, changes.values())) == {(("torch", f"{torch.__version__} -> 9.9.9"),)}
    compiler.becomes("g++ (Another 99) 99.1")
    changes = differences(fresh)
    words = f"{version} -> g++ (Another 99) 99.1"
    module, launcher = [("cxx", words)], [("compiler", words), ("cxx", words)]
    assert sorted(changes.values()) == sorted([module, module, launcher])


@pytest.mark.slow
def test_other_python_or_architecture_is_a_miss(fresh, cache_with_runtime, own):
    assert fresh.run(CALL_OWN) == "1.0\n"
    assert fresh.tkjit(*WHY).code == 0
    another = 'from importlib import machinery; machinery.EXTENSION_SUFFIXES[0] = ".cpython-399-x86_64-linux-gnu.so"'
    why = [
        sys.executable,
        "-c",
        f"{another}; import sys; from tkjit.cli import main; sys.exit(main(sys.argv[1:]))",
        *WHY,
    ]
    done = subprocess.run(why, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("nothing like it was built here") == done.stdout.count("miss") == 3
    parts = [part for part, _ in next(iter(differences(fresh, "--arch", "90a").values()))]
    assert parts[0] == "architecture" and "flags" in parts


@pytest.mark.slow
def test_changed_environment_variable_of_compilers_is_a_miss(fresh, cache_with_runtime, own, tmp_path):
    assert fresh.run(CALL_OWN) == "1.0\n"
    changes = differences(fresh, CPATH=str(tmp_path))
    assert {part for differing in changes.values() for part, _ in differing} >= {"environment"}


@pytest.mark.slow
def test_virtual_environment_with_the_same_versions_is_a_hit(warmed, tmp_path):
    """The new environment's packages are links to this environment's, so only the paths differ."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (packages,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        (packages / path.name).symlink_to(path)
    call = f"{CALL}\nassert torch.__file__.startswith({str(packages)!r})"
    environ = {**os.environ, "TKJIT_JIT": "0"}
    done = subprocess.run([tmp_path / "venv/bin/python", "-c", call], env=environ, capture_output=True, text=True)
    assert done.stdout == RIGHT, done.stderr


# ---- write permissions


def test_cache_writable_by_strangers_is_rejected_unless_shared(fresh, warmed):
    warmed.chmod(0o777)
    refused = fresh.start(CALL).wait()
    assert refused.code == 1
    assert f"CacheError: {warmed} can be written by everybody, who could have put anything there" in refused.stderr
    assert "TKJIT_CACHE_SHARED=1" in refused.stderr
    assert fresh.run(CALL, TKJIT_CACHE_SHARED="1") == RIGHT
    warmed.chmod(0o755)
    launcher = entry(warmed, "launcher")
    launcher.chmod(0o777)
    for _ in range(2):
        refused = fresh.start(CALL).wait()
        assert refused.code == 1 and f"CacheError: {launcher} can be written by everybody" in refused.stderr
        os.utime(launcher / MANIFEST)  # invalidates the warm record, so that the second pass searches the cache


@pytest.mark.slow
def test_group_writable_umask_leaves_the_cache_closed_to_others(fresh, cache_with_runtime):
    assert fresh.run(f"import os; os.umask(0o002)\n{CALL}") == RIGHT
    writable = [path for path in cache_with_runtime.rglob("*") if path.is_dir() and path.stat().st_mode & 0o022]
    assert not writable
    assert fresh.run(CALL, TKJIT_JIT="0") == RIGHT


def test_damaged_entry_in_a_read_only_layer_is_not_used(rng, fresh, warmed, compiler, runtime, tmp_path):
    what = flip(shared_object(entry(warmed, "launcher")), rng)
    own = shutil.copytree(runtime, tmp_path / "own")
    before = {path: path.stat().st_mtime_ns for path in warmed.rglob("*")}
    assert fresh.run(CALL, TKJIT_CACHE=str(own), TKJIT_CACHE_READONLY=str(warmed)) == RIGHT, what
    assert compiler.compiled == ["launcher"], what
    assert {path: path.stat().st_mtime_ns for path in warmed.rglob("*")} == before, "nothing may be written there"
