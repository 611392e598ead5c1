"""Programs in C and C++ that are compiled against an export, with strict flags and under sanitizers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tkjit
from tkjit.exports import build

pytestmark = pytest.mark.compiles
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
PROGRAMS = Path(__file__).parent / "programs"
MATRIX = """(2, 2): 4 5 10 11
gemm: b is (2, 3) float32 on cpu; expected (K=3, N) of a's type float32; dim 0 is 2, but K=3 from a
"""


def test_c_program_leaks_nothing(program):
    flags = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
    text = (PROGRAMS / "matrix.c").read_text()
    assert program(text, *flags, ASAN_OPTIONS="detect_leaks=1") == MATRIX
    assert program(text) == MATRIX


@pytest.mark.slow  # compiles an export once more
def test_library_passes_under_sanitizers(tmp_path, monkeypatch):
    """The library's own source is instrumented; the program passes overflowing extents, freed memory and huge sizes."""
    sanitize = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
    compiled, linked = build._compile_flags, build._link_command
    monkeypatch.setattr(build, "_compile_flags", lambda *given: [*compiled(*given), *sanitize])
    monkeypatch.setattr(
        build, "_link_command", lambda *given: [flag.replace("-z,defs,", "") for flag in linked(*given)] + sanitize
    )
    output = tkjit.export("softmax", name="small", output=tmp_path / "small", types=["float32"])
    built = tmp_path / "main"
    link = [f"-I{output}/include", f"-L{output}/lib", "-lsmall", f"-Wl,-rpath,{output}/lib"]
    source = str(PROGRAMS / "hostile.c")
    subprocess.run(["gcc", *STRICT, *sanitize, source, *link, "-o", str(built)], check=True)
    done = subprocess.run([built], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "12 refused"


def test_leak_would_be_detected(program):
    """``test_c_program_leaks_nothing`` can fail: an error that is not freed is a leak."""
    text = """
    #include <zoo.h>
    int main(void) {
        return zoo_check_interface(0) ? 0 : 1;
    }
    """
    with pytest.raises(AssertionError, match="LeakSanitizer: detected memory leaks"):
        program(text, "-fsanitize=address", ASAN_OPTIONS="detect_leaks=1")


def test_cpp_program(program):
    flags = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
    text = (PROGRAMS / "matrix.cpp").read_text()
    wanted = MATRIX + "softmax: x is not a tensor: it was never made, or was freed\n7 9\n2 4\n4011\n"
    assert program(text, *flags, cxx=True) == wanted
    assert program(text, "-std=c++20", cxx=True) == wanted


def test_library_defines_all_functions_of_its_headers(program, zoo_directory):
    headers = "".join((zoo_directory / "include" / name).read_text() for name in ("zoo.h", "zoo/tensors.h"))
    names = re.findall(r"^TKJIT_API .*?(\w+)\(", headers, re.MULTILINE)
    assert len(names) == 45
    listed = ", ".join(f"(function)&{name}" for name in names)
    program(
        "#include <zoo.h>\ntypedef void (*function)(void);\n"
        f"int main(void) {{ volatile function all[] = {{{listed}}}; return !all[0]; }}"
    )


def test_simulator_threads_block_signals(program):
    """A signal handler of the program or of Go's runtime never runs on a stack of the simulator's threads."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("kernels have no helper threads on one CPU; run this on a machine with two")
    text = (PROGRAMS / "signals.c").read_text()
    assert program(text, "-D_GNU_SOURCE", "-pthread") == "seen, blocked\n"


def test_two_exports_in_one_process(zoo_directory, tmp_path):
    """A tensor of one export is valid in the other, and either export can free it."""
    other = tkjit.export("axpy", name="other", output=tmp_path / "other", types=["float32"])
    built = tmp_path / "main"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-g", "-fsanitize=address"]
    directories = [zoo_directory, other]
    libraries = [f for d in directories for f in (f"-L{d}/lib", f"-l{d.name}", f"-Wl,-rpath,{d}/lib")]
    includes = [f"-I{d}/include" for d in directories]
    subprocess.run(["gcc", *flags, *includes, str(PROGRAMS / "two.c"), *libraries, "-o", str(built)], check=True)
    done = subprocess.run([built], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "3 3\naxpy: this library has no code for T=float16 on cpu; it has code for T=float32\n",
        "",
    )


def test_visible_symbols_and_needed_libraries(zoo_directory):
    """Only the library's functions are visible, each with a version. It needs neither Python, torch nor libstdc++."""
    library = zoo_directory / "lib/libzoo.so.1"
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in listed.splitlines()]
    shown = [name for name in names if not name.startswith(("ZOO_1", "TKJIT_1"))]
    assert all(name.endswith(("@@ZOO_1", "@@TKJIT_1")) for name in shown)
    assert {name.split("@")[0].split("_")[0] for name in shown} == {"zoo", "tkjit"}
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "Library soname: [libzoo.so.1]" in dynamic
    needed = {line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line}
    assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libdl.so.2", "libpthread.so.0", "librt.so.1"}


def test_pkg_config_finds_the_library(zoo_directory, tmp_path):
    if not shutil.which("pkg-config"):
        pytest.skip("no pkg-config; install it: apt-get install pkg-config")
    found = {**os.environ, "PKG_CONFIG_PATH": f"{zoo_directory}/lib/pkgconfig"}
    asked = ["pkg-config", "--cflags", "--libs", "zoo >= 1.0"]
    library = subprocess.run(asked, env=found, capture_output=True, text=True, check=True).stdout.split()
    subprocess.run(["gcc", str(PROGRAMS / "matrix.c"), *library, "-o", str(tmp_path / "main")], check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout == MATRIX


def test_cmake_finds_the_library(zoo_directory, tmp_path):
    if not shutil.which("cmake"):
        pytest.skip("no cmake; install it: apt-get install cmake")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(main C)\nfind_package(zoo 1.0 REQUIRED)\n"
        "add_executable(main main.c)\ntarget_link_libraries(main zoo::zoo)\n"
    )
    (tmp_path / "main.c").write_text((PROGRAMS / "matrix.c").read_text())
    configure = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build"), f"-DCMAKE_PREFIX_PATH={zoo_directory}"]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", str(tmp_path / "build")], check=True, capture_output=True)
    done = subprocess.run([tmp_path / "build/main"], capture_output=True, text=True, check=True)
    assert done.stdout == MATRIX
    newer = (tmp_path / "CMakeLists.txt").read_text().replace("zoo 1.0", "zoo 2.0")
    (tmp_path / "CMakeLists.txt").write_text(newer)
    assert subprocess.run(configure, capture_output=True).returncode != 0


def test_export_needs_no_cache_and_can_be_moved(zoo_directory, tmp_path, program):
    moved = tmp_path / "zoo"
    shutil.copytree(zoo_directory, moved, symlinks=True)
    text = (PROGRAMS / "matrix.c").read_text()
    assert program(text, directory=moved, TKJIT_CACHE="/nonexistent", HOME="/nonexistent", PATH="") == MATRIX
