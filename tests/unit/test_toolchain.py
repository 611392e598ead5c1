"""The toolchain: which compilers are found, asked how often, refused why, and called with which flags."""

from __future__ import annotations

import re
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from tkjit import ToolchainError, toolchain
from tkjit.config import Settings
from tkjit.expr import Expr
from tkjit.spec import Field, Source, Spec
from tkjit.targets import Target, arch_of_capability, cpu_target, gpu_target
from tkjit.toolchain import Flags, Toolchain

GXX_12 = "g++ (Debian 12.2.0-14+deb12u1) 12.2.0"
NVCC_13 = (
    "nvcc: NVIDIA (R) Cuda compiler driver\\nCopyright (c) 2005-2025 NVIDIA Corporation\\n"
    "Built on Wed_Aug_20_01:58:59_PM_PDT_2025\\nCuda compilation tools, release 13.0, V13.0.88\\n"
    "Build cuda_13.0.r13.0/compiler.36424714_0"
)


def write_tool(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "$0 $*" >> {path.parent}/calls\n{body}\n')
    path.chmod(0o755)
    return path


def write_gxx(path: Path, version: str = GXX_12) -> Path:
    return write_tool(path, f"printf '{version}\\nCopyright (C) 2022\\n'")


def write_nvcc(path: Path, root: str = "", codes: str = "sm_80 sm_90 sm_100 sm_103") -> Path:
    listed = codes.replace(" ", "\\n")
    return write_tool(
        path,
        f"case $1 in --version) printf '{NVCC_13}\\n';; --list-gpu-code) printf '{listed}\\n';;\n"
        f"  --dryrun) echo '#$ TOP={root or path.parent / '..'}' >&2;; esac",
    )


def calls(directory: Path) -> list[str]:
    return (directory / "calls").read_text().splitlines() if (directory / "calls").exists() else []


@pytest.fixture
def bin_directory(tmp_path, monkeypatch):
    """The only directory in which compilers are found: this machine's own are out of sight."""
    access = toolchain.os.access
    monkeypatch.setattr(
        toolchain.os, "access", lambda path, mode: tmp_path in Path(path).parents and access(path, mode)
    )
    monkeypatch.setattr(toolchain, "_nvcc_from_pypi", lambda: None)
    directory = tmp_path / "bin"
    directory.mkdir()
    return directory


@pytest.fixture
def find(bin_directory, tmp_path):
    def make(**settings) -> Toolchain:
        return Toolchain(Settings(tmp_path, search_path=str(bin_directory), **settings), tmp_path / "v1/tools.json")

    return make


def refusal(ask) -> str:
    with pytest.raises(ToolchainError) as caught:
        ask()
    return str(caught.value)


# ---- the C++ compiler


def test_gxx_is_found_on_path(find, bin_directory):
    path = write_gxx(bin_directory / "g++")
    tool = find().cxx
    assert (tool.path, tool.version, tool.origin) == (path, GXX_12, "PATH")


@pytest.mark.parametrize(
    "present, chosen", [(["c++", "g++"], "g++"), (["clang++", "c++"], "c++"), (["clang++"], "clang++")]
)
def test_which_compiler_is_taken(find, bin_directory, present, chosen):
    for name in present:
        write_gxx(bin_directory / name)
    assert find().cxx.path.name == chosen


def test_cxx_is_taken_before_gxx(find, bin_directory):
    write_gxx(bin_directory / "g++")
    mine = write_gxx(bin_directory / "my-g++", "my-g++ (GCC) 14.1.0")
    tool = find(cxx="my-g++").cxx
    assert (tool.path, tool.version, tool.origin) == (mine, "my-g++ (GCC) 14.1.0", "CXX")
    assert find(cxx=str(mine)).cxx.path == mine


def test_no_compiler_says_what_to_install(find):
    assert refusal(lambda: find().cxx) == "no C++ compiler; install one: apt-get install g++"


def test_a_cxx_that_is_not_there_is_named(find, bin_directory):
    write_gxx(bin_directory / "g++")
    assert refusal(lambda: find(cxx="icpx").cxx) == "no C++ compiler 'icpx' (CXX); install one: apt-get install g++"


def test_a_compiler_that_does_not_run(find, bin_directory):
    write_tool(bin_directory / "g++", "exit 3")
    assert f"{bin_directory / 'g++'} does not run" in refusal(lambda: find().cxx)
    (bin_directory / "g++").write_text("#!/there/is/no/such/shell\n")
    assert f"{bin_directory / 'g++'} does not run" in refusal(lambda: find().cxx)


@pytest.mark.parametrize(
    "name, version, old",
    [
        ("g++", "g++ (Ubuntu 9.4.0-1ubuntu1~20.04.2) 9.4.0", "9"),
        ("g++", "g++ (GCC) 8.5.0 20210514 (Red Hat 8.5.0-10)", "8"),
        ("g++-10", "g++-10 (Debian 10.2.1-6) 10.2.1 20210110", "10"),
        ("c++", "c++ (GCC) 4.8.5 20150623 (Red Hat 4.8.5-44)", "4"),
        ("x86_64-linux-gnu-g++-10", "x86_64-linux-gnu-g++-10 (Debian 10.2.1-6) 10.2.1 20210110", "10"),
        ("x86_64-conda-linux-gnu-c++", "x86_64-conda-linux-gnu-c++ (conda-forge gcc 9.5.0-19) 9.5.0", "9"),
        ("g++", GXX_12, None),
        ("g++", "g++ (GCC) 11.1.0", None),
        ("g++-13", "g++-13 (Ubuntu 13.1.0-8ubuntu1~22.04) 13.1.0", None),
        ("g++", "g++ (crosstool-NG 1.26.0.120_4d36f27) 13.2.0", None),
        ("clang++", "Debian clang version 14.0.6", None),
        ("clang++", "clang version 9.0.1", None),
    ],
)
def test_an_old_gxx_is_refused(find, bin_directory, name, version, old):
    path = write_gxx(bin_directory / name, version)
    if old is None:
        assert find(cxx=name).cxx.version == version
    else:
        text = refusal(lambda: find(cxx=name).cxx)
        assert text == f"{path} is version {old}; g++ 11 or newer is needed: apt-get install g++"


# ---- what is remembered of a tool


def test_a_version_is_asked_once_across_processes(find, bin_directory):
    write_gxx(bin_directory / "g++")
    first, second = find(), find()
    assert first.cxx == first.cxx == second.cxx
    assert len(calls(bin_directory)) == 1


def test_an_upgraded_compiler_is_asked_again(find, bin_directory):
    write_gxx(bin_directory / "g++")
    assert find().cxx.version == GXX_12
    write_gxx(bin_directory / "g++", "g++ (GCC) 14.1.0")
    assert find().cxx.version == "g++ (GCC) 14.1.0"
    assert len(calls(bin_directory)) == 2


def test_two_names_of_one_dispatcher_are_two_compilers(find, bin_directory, tmp_path):
    # as ccache does it: symbolic links to one program, which looks at the name it is called by
    dispatcher = write_tool(tmp_path / "lib/ccache", 'printf \'%s (GCC) 12.2.0\\n\' "$(basename "$0")"')
    for name in ("g++", "g++-12"):
        (bin_directory / name).symlink_to(dispatcher)
    assert find(cxx="g++").cxx.version == "g++ (GCC) 12.2.0"
    assert find(cxx="g++-12").cxx.version == "g++-12 (GCC) 12.2.0"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"x": 1}'])
def test_a_damaged_memo_is_written_anew(find, bin_directory, tmp_path, content):
    write_gxx(bin_directory / "g++")
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1/tools.json").write_text(content)
    assert find().cxx.version == find().cxx.version == GXX_12
    assert len(calls(bin_directory)) == 1


def test_a_memo_that_cannot_be_written_costs_a_process_each_time(find, bin_directory, tmp_path):
    write_gxx(bin_directory / "g++")
    (tmp_path / "v1").write_text("a file where the directory would be")
    assert find().cxx.version == find().cxx.version == GXX_12
    assert len(calls(bin_directory)) == 2


# ---- nvcc


def test_cuda_home_wins(find, bin_directory, tmp_path):
    write_nvcc(bin_directory / "nvcc")
    path = write_nvcc(tmp_path / "cuda/bin/nvcc")
    tool = find(cuda_home=tmp_path / "cuda").nvcc
    assert (tool.path, tool.origin) == (path, "CUDA_HOME")
    assert tool.version == "Cuda compilation tools, release 13.0, V13.0.88"


def test_a_cuda_home_without_nvcc_falls_back_to_path(find, bin_directory, tmp_path):
    path = write_nvcc(bin_directory / "nvcc")
    tool = find(cuda_home=tmp_path / "empty").nvcc
    assert (tool.path, tool.origin) == (path, "PATH")


def test_nvcc_from_pypi_comes_last(find, bin_directory, tmp_path, monkeypatch):
    pypi = write_nvcc(tmp_path / "site-packages/nvidia/cu13/bin/nvcc")
    monkeypatch.setattr(toolchain, "_nvcc_from_pypi", lambda: pypi)
    assert find().nvcc.origin == "PyPI"
    write_nvcc(bin_directory / "nvcc")
    assert find().nvcc.origin == "PATH"


def test_no_nvcc_says_what_to_install(find):
    text = refusal(lambda: find().nvcc)
    assert text.startswith("no nvcc in CUDA_HOME, on PATH, in /usr/local/cuda or from PyPI")
    assert text.endswith('pip install "tkjit[nvcc]"')


def test_the_toolkit_lies_above_nvcc(find, bin_directory, tmp_path):
    write_nvcc(tmp_path / "cuda/bin/nvcc")
    assert find(cuda_home=tmp_path / "cuda").cuda_root == tmp_path / "cuda"


def test_the_toolkit_of_an_nvcc_behind_a_wrapper(find, bin_directory, tmp_path):
    real = write_nvcc(tmp_path / "opt/cuda-13/bin/nvcc", root=str(tmp_path / "opt/cuda-13/bin/.."))
    write_tool(bin_directory / "nvcc", f'exec {real} "$@"')
    assert find().nvcc.path == bin_directory / "nvcc"
    assert find().cuda_root == tmp_path / "opt/cuda-13"
    assert find().cuda_root == tmp_path / "opt/cuda-13"
    assert len([call for call in calls(bin_directory) if "--dryrun" in call]) == 1


def test_the_toolkit_of_an_nvcc_that_says_nothing(find, bin_directory, tmp_path):
    write_tool(tmp_path / "cuda/bin/nvcc", f"printf '{NVCC_13}\\n'")
    assert find(cuda_home=tmp_path / "cuda").cuda_root == tmp_path / "cuda"


def test_architectures_with_those_of_own_features(find, bin_directory):
    write_nvcc(bin_directory / "nvcc", codes="sm_75 sm_90 sm_100")
    assert find().gpu_archs == {"75", "90", "90a", "100", "100a", "100f"}


@pytest.mark.parametrize("arch", ["80", "90a", "103a", "100f"])
def test_a_known_architecture(find, bin_directory, arch):
    write_nvcc(bin_directory / "nvcc")
    assert find().check_arch(Target(arch)) is None


@pytest.mark.parametrize("arch", ["50", "80a", "120", "90f"])
def test_an_unknown_architecture_is_refused_with_those_known(find, bin_directory, arch):
    path = write_nvcc(bin_directory / "nvcc", codes="sm_100 sm_90 sm_80")
    text = refusal(lambda: find().check_arch(Target(arch)))
    assert text == f"{path} cannot compile for sm_{arch}; it knows 80, 90, 90a, 100, 100a, 100f"


# ---- targets


@pytest.mark.parametrize("given, arch", [("90a", "90a"), ("sm_90a", "90a"), ("80", "80"), ("sm_100f", "100f")])
def test_gpu_target(given, arch):
    target = gpu_target(given)
    assert target == Target(arch)
    assert target.name == f"sm_{arch}" and not target.is_cpu


@pytest.mark.parametrize("given", ["", "9", "hopper", "90b", "90A", "1000", "compute_90", "sm_", "90a ", "cpu", "٩٠"])
def test_what_is_no_gpu_architecture(given):
    text = refusal(lambda: gpu_target(given))
    assert text == f"{given!r} is not a GPU architecture; expected the like of 80, 90a, sm_100a"


@pytest.mark.parametrize(
    "capability, arch", [((8, 0), "80"), ((8, 9), "89"), ((9, 0), "90a"), ((10, 3), "103a"), ((12, 0), "120a")]
)
def test_the_architecture_of_a_device(capability, arch):
    assert arch_of_capability(*capability) == arch


def test_the_cpu_is_a_target():
    target = cpu_target()
    assert target.is_cpu and target.arch == "cpu"
    assert target.name == f"cpu-{target.cpu_level}" and target.cpu_level


# ---- headers, flags, commands


def test_missing_python_headers_say_what_to_install(find, tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    text = refusal(find().check_python_headers)
    assert text == f"no Python.h in {tmp_path}; install the headers of Python: apt-get install python3-dev"
    (tmp_path / "Python.h").write_text("")
    assert find().check_python_headers() == tmp_path


SPEC = Spec(
    name="f",
    entry="f",
    fields=(Field("x", "in", "float32", dims=(Expr("N"),)),),
    order=("x",),
    sources=(("", Source(text="{}")),),
    grid=(Expr("1"),),
    block=(Expr("1"),),
    flags=("-lineinfo", "-DMINE", "-Xptxas=-O1"),
    defines=(("TILE", "64"),),
    include_dirs=(Path("/headers"),),
    libraries=("cublas",),
    std="c++17",
)


def test_the_flags_for_a_gpu(find, bin_directory, tmp_path):
    write_gxx(bin_directory / "g++")
    write_nvcc(bin_directory / "nvcc")
    flags = find().flags(SPEC, Target("90a"), Path("/home/research"))
    assert [flag for flag in flags.compile if "gencode" in flag] == ["-gencode=arch=compute_90a,code=sm_90a"]
    assert not [flag for flag in flags.compile if flag.startswith("-arch")]
    assert {"-std=c++17", "-cudart=static", "-shared", "-DTILE=64", *SPEC.flags} <= set(flags.compile)
    includes = [f"-I{toolchain.INCLUDE}", "-I/home/research", "-I/headers"]
    assert flags.paths == (f"-ccbin={bin_directory / 'g++'}", *includes, f"-L{tmp_path / 'lib'}")
    assert flags.link == ("-lcublas",)


def test_the_flags_for_the_cpu_need_no_nvcc(find, bin_directory):
    write_gxx(bin_directory / "g++")
    flags = find().flags(SPEC, Target("cpu", "x86-64-v3"), None)
    assert {"-std=c++17", "-march=x86-64-v3", "-shared", "-fPIC", "-DTILE=64", "-DMINE"} <= set(flags.compile)
    assert flags.paths == (f"-I{toolchain.INCLUDE}", f"-I{toolchain.SIMULATOR}", "-I/headers")
    assert not {"-lineinfo", "-Xptxas=-O1"} & set(flags.compile)
    assert flags.link == ("-lcublas",)


def test_of_a_specs_flags_every_compiler_gets_the_preprocessors_and_the_linkers(find, bin_directory):
    write_gxx(bin_directory / "g++")
    given = ("-include", "chrono", "-lineinfo", "-L/lib", "-Wl,-rpath,/lib", "-isystem", "/x", "-Xptxas=-O1", "-lfoo")
    flags = find().flags(replace(SPEC, flags=given, libraries=()), Target("cpu", "x86-64-v3"), None)
    assert flags.compile[-4:] == ("-include", "chrono", "-isystem", "/x")
    assert flags.link == ("-L/lib", "-Wl,-rpath,/lib", "-lfoo")


@pytest.mark.parametrize(
    "cxx, name", [("ccache g++", "g++"), ("/usr/bin/ccache /opt/bin/g++", "/opt/bin/g++"), ("g++", "g++")]
)
def test_a_compiler_cache_is_left_out(cxx, name):
    assert toolchain._compiler_alone(cxx) == name


def test_a_compiler_with_arguments_is_refused():
    assert "has arguments" in refusal(lambda: toolchain._compiler_alone("g++ -m64"))


def test_the_order_of_flags_is_always_the_same(find, bin_directory):
    write_gxx(bin_directory / "g++")
    write_nvcc(bin_directory / "nvcc")
    for target in (Target("80"), Target("cpu", "x86-64-v3")):
        assert find().flags(SPEC, target, None) == find().flags(SPEC, target, None)


def test_commands(find, bin_directory):
    write_gxx(bin_directory / "g++")
    write_nvcc(bin_directory / "nvcc")
    files = Path("a b.cu"), Path("a.so"), Path("a.d")
    tail = ["-MD", "-MF", "a.d", "-x", "LANGUAGE", "a b.cu", "-o", "a.so"]
    for target, tool, language in ((Target("80"), "nvcc", "cu"), (Target("cpu"), "g++", "c++")):
        command = find().command(target, Flags(("-O2",), ("-I/x",)), *files)
        assert command == [
            str(bin_directory / tool),
            "-O2",
            "-I/x",
            *(language if t == "LANGUAGE" else t for t in tail),
        ]
    command = find().command(Target("cpu"), Flags(("-O2",), link=("-lfoo",)), *files)
    assert command[-3:] == ["-x", "none", "-lfoo"]  # behind the source, which a static library has to be


def test_the_install_commands_name_what_pyproject_offers():
    text = (toolchain.PACKAGE.parent / "pyproject.toml").read_text()
    assert re.search(r"^nvcc = \[", text, re.MULTILINE)
    assert toolchain.INSTALL_NVCC == 'pip install "tkjit[nvcc]"'
