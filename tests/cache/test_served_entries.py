"""A lookup returns the right entry: after damage, after load failures, and after each change of a key."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
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
    """The entry of the runtime, the glue or the launcher."""
    patterns = {"runtime": "runtime", "glue": "glue", "launcher": "cpu-*"}
    (found,) = root.glob(f"v1/*/{patterns[kind]}/*/[!.]*/{MANIFEST}")
    return found.parent


def shared_object(directory: Path) -> Path:
    return directory / read_manifest(directory)["shared_object"]


# ---- damage


def flip(path: Path, rng: random.Random) -> str:
    """Change one bit of a file, and let its times be as they were."""
    content, status = bytearray(path.read_bytes()), path.stat()
    place = rng.randrange(len(content))
    content[place] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return f"a bit of byte {place} of {path.name} is another"


def cut(path: Path, rng: random.Random) -> str:
    """Lose the end of a file."""
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
    assert list(bad.parent.glob(f".broken-{bad.name}-*")), f"{what}, and it is kept for a person to look at"
    assert fresh.run(CALL) == RIGHT, what
    assert compiler.compiled == once, f"{what}, and it is mended"
    assert len(entries(root)) == 3, what


@pytest.mark.parametrize("damage", [flip, flip, cut, remove], ids=["flipped", "flipped again", "cut", "gone"])
@pytest.mark.parametrize("file", ["shared object", "manifest"])
@pytest.mark.parametrize("kind", ["glue", "launcher"])
def test_a_damaged_entry_is_built_again_once(kind, file, damage, rng, fresh, warmed, compiler):
    bad = entry(warmed, kind)
    what = f"{kind}: {damage(bad / MANIFEST if file == 'manifest' else shared_object(bad), rng)}"
    check_that_it_is_rebuilt_once(fresh, compiler, warmed, bad, what)


def test_a_damaged_runtime_is_built_again_once(rng, fresh, warmed, compiler):
    """Once is enough: it takes 7 s, and the ways are those of the others."""
    bad = entry(warmed, "runtime")
    check_that_it_is_rebuilt_once(fresh, compiler, warmed, bad, f"runtime: {flip(shared_object(bad), rng)}")


def test_a_damaged_list_of_dependencies_is_not_believed(rng, fresh, warmed, compiler):
    bad = entry(warmed, "launcher")
    what = flip(bad / DEPENDENCIES, rng)
    assert fresh.run(CALL) == RIGHT and compiler.compiled == [], "nothing has changed since the last comparison"
    os.utime(bad / MANIFEST)  # and now it is compared
    check_that_it_is_rebuilt_once(fresh, compiler, warmed, bad, what)


@pytest.mark.parametrize("kind", ["glue", "launcher"])
@pytest.mark.parametrize("lacks", ["library", "symbol"])
def test_an_entry_that_is_whole_and_cannot_be_loaded_is_built_again_once(
    kind, lacks, fresh, warmed, compiler, tmp_path
):
    """As on a machine without a library that there was where it was built."""
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


# ---- what makes another entry

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
    """The directory of a kernel whose value comes from a header three includes deep."""
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
    """What ``why`` says of each build that is missing; its text and its JSON say the same."""
    said = fresh.tkjit(*WHY, *options, "--json", before=before, **environ)
    answers = [one for one in json.loads(said.stdout) if not one["hit"]]
    assert said.code == (1 if answers else 0), said.stderr
    shown = fresh.tkjit(*WHY, *options, before=before, **environ).stdout
    found = {}
    for answer in answers:
        assert f"miss  {answer['what']}\n" in shown
        found[answer["what"]] = [(one["part"], one["text"]) for one in answer["differences"]]
        assert all(f"\n      {part}: {text}\n" in shown for part, text in found[answer["what"]])
        assert f"to build it: {answer['warmup']}\n" in shown
    return found


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


@pytest.mark.parametrize("edit", sample(EDITS, *list(EDITS)[:2]))
def test_an_edit_is_a_miss_that_says_what_has_changed(edit, fresh, cache_with_runtime, compiler, own):
    (name, before, after), expected = EDITS[edit]
    assert fresh.run(CALL_OWN) == "1.0\n"
    assert differences(fresh) == {}
    replace(own / name, before, after)
    (found,) = differences(fresh).values()
    assert found == expected
    assert fresh.run(CALL_OWN) == "5.0\n"
    assert compiler.compiled == ["launcher", "launcher", "module"]
    replace(own / name, after, before)
    assert fresh.run(CALL_OWN) == "1.0\n"
    assert compiler.compiled == ["launcher", "launcher", "module"], "the first build is still there"


def test_a_header_that_is_edited_while_it_is_compiled_is_compiled_again(fresh, cache_with_runtime, compiler, own):
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
    assert fresh.run(CALL_OWN) == "1.0\n", "what was compiled first has not been kept under a wrong name"


def test_touching_and_moving_is_no_miss(fresh, cache_with_runtime, compiler, own, tmp_path, monkeypatch):
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


def test_a_static_library_that_is_replaced_under_its_name_is_a_miss(fresh, cache_with_runtime, compiler, own, tmp_path):
    (own / "own.py").write_text(LINKING.format(directory=tmp_path))
    (own / "own.cu").write_text("int value();\n__global__ void f(Globals g) { g.x[0] = value(); }\n")
    write_static_library(tmp_path, 1)
    assert fresh.run(CALL_OWN) == "1.0\n"
    write_static_library(tmp_path, 1)
    assert differences(fresh) == {} and fresh.run(CALL_OWN) == "1.0\n"
    write_static_library(tmp_path, 2)
    (found,) = differences(fresh).values()
    assert found == [("files", f"{tmp_path}/libvalue.a has changed")]
    assert fresh.run(CALL_OWN) == "2.0\n"
    assert compiler.compiled == ["launcher", "launcher", "module"]


def test_another_version_of_a_tool_or_of_torch_is_a_miss(fresh, cache_with_runtime, compiler, own):
    assert fresh.run(CALL_OWN) == "1.0\n"
    version = subprocess.run([compiler.path, "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    found = differences(fresh, before='import torch; torch.__version__ = "9.9.9"')
    assert len(found) == 3 and set(map(tuple, found.values())) == {(("torch", f"{torch.__version__} -> 9.9.9"),)}
    compiler.becomes("g++ (Another 99) 99.1")
    found = differences(fresh)
    words = f"{version} -> g++ (Another 99) 99.1"
    module, launcher = [("cxx", words)], [("compiler", words), ("cxx", words)]
    assert sorted(found.values()) == sorted([module, module, launcher])


def test_another_python_or_architecture_is_a_miss(fresh, cache_with_runtime, own):
    assert fresh.run(CALL_OWN) == "1.0\n"
    assert fresh.tkjit(*WHY).code == 0
    another = 'from importlib import machinery; machinery.EXTENSION_SUFFIXES[0] = ".cpython-399-x86_64-linux-gnu.so"'
    why = [
        sys.executable,
        "-c",
        f"{another}; import sys; from tkjit.cli import main; sys.exit(main(sys.argv[1:]))",
        *WHY,
    ]
    said = subprocess.run(why, capture_output=True, text=True)
    assert said.returncode == 1, said.stderr
    assert said.stdout.count("nothing like it was built here") == said.stdout.count("miss") == 3
    parts = [part for part, _ in next(iter(differences(fresh, "--arch", "90a").values()))]
    assert parts[0] == "architecture" and "flags" in parts


def test_a_variable_that_compilers_read_is_a_miss(fresh, cache_with_runtime, own, tmp_path):
    assert fresh.run(CALL_OWN) == "1.0\n"
    found = differences(fresh, CPATH=str(tmp_path))
    assert {part for differing in found.values() for part, _ in differing} >= {"environment"}


def test_another_virtual_environment_of_the_same_versions_hits(warmed, tmp_path):
    """One whose packages are links to this one's: other paths, the same contents."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (packages,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        (packages / path.name).symlink_to(path)
    call = f"{CALL}\nassert torch.__file__.startswith({str(packages)!r})"
    environ = {**os.environ, "TKJIT_JIT": "0"}
    done = subprocess.run([tmp_path / "venv/bin/python", "-c", call], env=environ, capture_output=True, text=True)
    assert done.stdout == RIGHT, done.stderr


# ---- who can write there


def test_a_cache_that_strangers_can_write_to_is_refused_unless_that_is_meant(fresh, warmed):
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
        os.utime(launcher / MANIFEST)  # not by what was noted of it either


def test_a_umask_that_lets_the_group_write_makes_no_stranger(fresh, cache_with_runtime):
    assert fresh.run(f"import os; os.umask(0o002)\n{CALL}") == RIGHT
    writable = [path for path in cache_with_runtime.rglob("*") if path.is_dir() and path.stat().st_mode & 0o022]
    assert not writable
    assert fresh.run(CALL, TKJIT_JIT="0") == RIGHT


def test_a_damaged_entry_of_a_read_only_layer_is_not_served(rng, fresh, warmed, compiler, runtime, tmp_path):
    what = flip(shared_object(entry(warmed, "launcher")), rng)
    own = shutil.copytree(runtime, tmp_path / "own")
    before = {path: path.stat().st_mtime_ns for path in warmed.rglob("*")}
    assert fresh.run(CALL, TKJIT_CACHE=str(own), TKJIT_CACHE_READONLY=str(warmed)) == RIGHT, what
    assert compiler.compiled == ["launcher"], what
    assert {path: path.stat().st_mtime_ns for path in warmed.rglob("*")} == before, "nothing is written there"
