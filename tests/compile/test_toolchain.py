"""The toolchain: search, version queries, rejected compilers, and command lines."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest
from support.fake_tools import GXX_12, NVCC_13, calls, printed_version, write_gxx, write_nvcc, write_tool

from tkjit import ToolchainError
from tkjit.cache import fingerprints
from tkjit.compile import toolchain
from tkjit.compile.flags import Flags
from tkjit.compile.targets import Target, arch_of_capability, cpu_target, gpu_target
from tkjit.compile.tool_memo import script_of
from tkjit.compile.toolchain import Toolchain
from tkjit.config import Settings


@pytest.fixture
def bin_directory(tmp_path, monkeypatch):
    """The only directory in which compilers are found; the machine's own are hidden."""
    access = toolchain.os.access
    monkeypatch.setattr(
        toolchain.os, "access", lambda path, mode: tmp_path in Path(path).parents and access(path, mode)
    )
    monkeypatch.setattr(toolchain, "_from_pypi", lambda tool: None)
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
    assert (tool.path, printed_version(tool.version), tool.origin) == (path, GXX_12, "PATH")


@pytest.mark.parametrize(
    "present, chosen", [(["c++", "g++"], "g++"), (["clang++", "c++"], "c++"), (["clang++"], "clang++")]
)
def test_compilers_are_tried_in_order(find, bin_directory, present, chosen):
    for name in present:
        write_gxx(bin_directory / name)
    assert find().cxx.path.name == chosen


def test_cxx_takes_precedence_over_gxx(find, bin_directory):
    write_gxx(bin_directory / "g++")
    mine = write_gxx(bin_directory / "my-g++", "my-g++ (GCC) 14.1.0")
    tool = find(cxx="my-g++").cxx
    assert (tool.path, printed_version(tool.version), tool.origin) == (mine, "my-g++ (GCC) 14.1.0", "CXX")
    assert find(cxx=str(mine)).cxx.path == mine


def test_without_a_compiler_the_error_contains_the_install_command(find):
    assert refusal(lambda: find().cxx) == "no C++ compiler; install one: apt-get install g++"


def test_a_missing_cxx_is_reported(find, bin_directory):
    write_gxx(bin_directory / "g++")
    assert refusal(lambda: find(cxx="icpx").cxx) == "no C++ compiler 'icpx' (CXX); set CXX to a program, or unset it"


def test_a_compiler_that_does_not_run_is_reported(find, bin_directory):
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
        ("clang++", "clang version 13.0.1", None),
    ],
)
def test_an_old_gxx_is_rejected(find, bin_directory, name, version, old):
    path = write_gxx(bin_directory / name, version)
    if old is None:
        assert printed_version(find(cxx=name).cxx.version) == version
    else:
        text = refusal(lambda: find(cxx=name).cxx)
        assert text == f"{path} is version {old}; g++ 11 or newer is needed; set CXX to another compiler, or unset it"


# ---- the memo


def test_a_version_is_queried_once_across_processes(find, bin_directory):
    write_gxx(bin_directory / "g++")
    first, second = find(), find()
    assert first.cxx == first.cxx == second.cxx
    assert len(calls(bin_directory)) == 1


def test_an_upgraded_compiler_is_queried_again(find, bin_directory):
    write_gxx(bin_directory / "g++")
    assert printed_version(find().cxx.version) == GXX_12
    write_gxx(bin_directory / "g++", "g++ (GCC) 14.1.0")
    assert printed_version(find().cxx.version) == "g++ (GCC) 14.1.0"
    assert len(calls(bin_directory)) == 2


def test_two_names_of_one_dispatcher_are_two_compilers(find, bin_directory, tmp_path):
    # like ccache, whose names are symbolic links to one program that checks by which name it was called
    dispatcher = write_tool(tmp_path / "lib/ccache", 'printf \'%s (GCC) 12.2.0\\n\' "$(basename "$0")"')
    for name in ("g++", "g++-12"):
        (bin_directory / name).symlink_to(dispatcher)
    assert printed_version(find(cxx="g++").cxx.version) == "g++ (GCC) 12.2.0"
    assert printed_version(find(cxx="g++-12").cxx.version) == "g++-12 (GCC) 12.2.0"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"x": 1}'])
def test_a_damaged_memo_is_rewritten(find, bin_directory, tmp_path, content):
    write_gxx(bin_directory / "g++")
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1/tools.json").write_text(content)
    assert printed_version(find().cxx.version) == printed_version(find().cxx.version) == GXX_12
    assert len(calls(bin_directory)) == 1


@pytest.mark.parametrize("shared, modes", [(False, {0o755, 0o644}), (True, {0o777, 0o666})])
def test_a_memo_has_the_permissions_of_the_cache(find, bin_directory, tmp_path, shared, modes):
    """The memo is the first file in the cache, and whoever can write to the cache decides which code is loaded."""
    write_gxx(bin_directory / "g++")
    before = os.umask(0)
    try:
        tools = Toolchain(
            Settings(tmp_path / "cache", search_path=str(bin_directory), cache_shared=shared),
            tmp_path / "cache/v1/tools.json",
        )
        assert printed_version(tools.cxx.version) == GXX_12
    finally:
        os.umask(before)
    written = [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]
    assert len(written) == 3 and {path.stat().st_mode & 0o777 for path in written} == modes


def test_a_memo_that_cannot_be_written_costs_a_process_each_time(find, bin_directory, tmp_path):
    write_gxx(bin_directory / "g++")
    (tmp_path / "v1").write_text("a file where the directory would be")
    assert printed_version(find().cxx.version) == printed_version(find().cxx.version) == GXX_12
    assert len(calls(bin_directory)) == 2


# ---- nvcc


def test_cuda_home_wins(find, bin_directory, tmp_path):
    write_nvcc(bin_directory / "nvcc")
    path = write_nvcc(tmp_path / "cuda/bin/nvcc")
    tool = find(cuda_home=tmp_path / "cuda").nvcc
    assert (tool.path, tool.origin) == (path, "CUDA_HOME")
    assert printed_version(tool.version) == "Cuda compilation tools, release 13.0, V13.0.88"


def test_a_cuda_home_without_nvcc_falls_back_to_path(find, bin_directory, tmp_path):
    path = write_nvcc(bin_directory / "nvcc")
    tool = find(cuda_home=tmp_path / "empty").nvcc
    assert (tool.path, tool.origin) == (path, "PATH")


def test_nvcc_from_pypi_comes_last(find, bin_directory, tmp_path, monkeypatch):
    pypi = write_nvcc(tmp_path / "site-packages/nvidia/cu13/bin/nvcc")
    monkeypatch.setattr(toolchain, "_from_pypi", lambda tool: pypi)
    assert find().nvcc.origin == "PyPI"
    write_nvcc(bin_directory / "nvcc")
    assert find().nvcc.origin == "PATH"


def test_without_nvcc_the_error_contains_the_install_command(find):
    text = refusal(lambda: find().nvcc)
    assert text.startswith("no nvcc in CUDA_HOME, on PATH, in /usr/local/cuda or from PyPI")
    assert text.endswith('pip install "tkjit[nvcc]"')


def test_the_toolkit_is_above_nvcc(find, bin_directory, tmp_path):
    write_nvcc(tmp_path / "cuda/bin/nvcc")
    assert find(cuda_home=tmp_path / "cuda").cuda_root == tmp_path / "cuda"


def test_the_toolkit_of_a_wrapped_nvcc_is_found(find, bin_directory, tmp_path):
    real = write_nvcc(tmp_path / "opt/cuda-13/bin/nvcc", root=str(tmp_path / "opt/cuda-13/bin/.."))
    write_tool(bin_directory / "nvcc", f'exec {real} "$@"')
    assert find().nvcc.path == bin_directory / "nvcc"
    assert find().cuda_root == tmp_path / "opt/cuda-13"
    assert find().cuda_root == tmp_path / "opt/cuda-13"
    assert len([call for call in calls(bin_directory) if "--dryrun" in call]) == 1


def test_the_toolkit_of_an_nvcc_that_does_not_print_it_is_guessed(find, bin_directory, tmp_path):
    write_tool(tmp_path / "cuda/bin/nvcc", f"printf '{NVCC_13}\\n'")
    assert find(cuda_home=tmp_path / "cuda").cuda_root == tmp_path / "cuda"


def test_architectures_with_suffixes_are_added(find, bin_directory):
    write_nvcc(bin_directory / "nvcc", codes="sm_75 sm_90 sm_100")
    assert find().gpu_archs == {"75", "90", "90a", "100", "100a", "100f"}


@pytest.mark.parametrize("arch", ["80", "90a", "103a", "100f"])
def test_a_supported_architecture_is_accepted(find, bin_directory, arch):
    write_nvcc(bin_directory / "nvcc")
    assert find().check_arch(Target(arch)) is None


@pytest.mark.parametrize("arch", ["50", "80a", "120", "90f"])
def test_the_error_of_an_unsupported_architecture_lists_the_others(find, bin_directory, arch):
    path = write_nvcc(bin_directory / "nvcc", codes="sm_100 sm_90 sm_80")
    text = refusal(lambda: find().check_arch(Target(arch)))
    assert text == f"{path} cannot compile for sm_{arch}; it supports 80, 90, 90a, 100, 100a, 100f"


# ---- targets


@pytest.mark.parametrize("given, arch", [("90a", "90a"), ("sm_90a", "90a"), ("80", "80"), ("sm_100f", "100f")])
def test_a_gpu_target_may_have_a_prefix(given, arch):
    target = gpu_target(given)
    assert target == Target(arch)
    assert target.name == f"sm_{arch}" and not target.is_cpu


@pytest.mark.parametrize("given", ["", "9", "hopper", "90b", "90A", "1000", "compute_90", "sm_", "90a ", "cpu", "٩٠"])
def test_other_texts_are_not_gpu_architectures(given):
    text = refusal(lambda: gpu_target(given))
    assert text == f"{given!r} is not a GPU architecture; expected for example 80, 90a or sm_100a"


@pytest.mark.parametrize(
    "capability, arch", [((8, 0), "80"), ((8, 9), "89"), ((9, 0), "90a"), ((10, 3), "103a"), ((12, 0), "120a")]
)
def test_the_architecture_of_a_device(capability, arch):
    assert arch_of_capability(*capability) == arch


def test_the_cpu_is_a_target():
    target = cpu_target()
    assert target.is_cpu and target.arch == "cpu"
    assert target.name == f"cpu-{target.cpu_level}" and target.cpu_level


# ---- headers, commands


def test_the_error_of_missing_python_headers_explains_how_to_install_them(find, tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    text = refusal(find().check_python_headers)
    assert text == f"no Python.h in {tmp_path}; install the headers of Python: reinstall {sys.executable} with them"
    (tmp_path / "Python.h").write_text("")
    assert find().check_python_headers() == tmp_path


@pytest.mark.parametrize(
    "cxx, name", [("ccache g++", "g++"), ("/usr/bin/ccache /opt/bin/g++", "/opt/bin/g++"), ("g++", "g++")]
)
def test_a_compiler_cache_in_cxx_is_ignored(cxx, name):
    assert toolchain._compiler_alone(cxx) == name


def test_a_compiler_with_arguments_is_rejected():
    assert "has arguments" in refusal(lambda: toolchain._compiler_alone("g++ -m64"))


FILES = Path("a b.cu"), Path("a.so"), Path("a.d")


def test_command_lines_have_their_parts_in_order(find, bin_directory, tmp_path):
    write_gxx(bin_directory / "g++")
    write_nvcc(bin_directory / "nvcc")
    tools = [f"-ccbin={bin_directory / 'g++'}", f"-L{tmp_path / 'lib'}"]
    tail = ["a b.cu", "-o", "a.so"]
    flags = Flags(("-O2",), ("-I/x",))
    on_a_gpu = find().command(Target("80"), flags, *FILES)
    assert on_a_gpu == [
        *(str(bin_directory / "nvcc"), "-O2", *tools, "-I/x"),
        *("-MD", "-MF", "a.d", "-x", "cu", *tail),
    ]
    on_the_cpu = find().command(Target("cpu"), flags, *FILES)
    assert on_the_cpu == [str(bin_directory / "g++"), "-O2", "-I/x", "-MD", "-MF", "a.d", "-x", "c++", *tail]


def test_libraries_come_after_the_source(find, bin_directory):
    """A static library is only searched for symbols that are already needed."""
    write_gxx(bin_directory / "g++")
    command = find().command(Target("cpu"), Flags(("-O2",), link=("-lfoo",)), *FILES)
    assert command[-3:] == ["-x", "none", "-lfoo"]


@pytest.mark.parametrize("flags", [Flags((), link=("-lfoo",)), Flags(("-lfoo",))], ids=["link", "compile"])
@pytest.mark.parametrize(
    "target, trace", [(Target("80"), "-Xlinker=-t"), (Target("cpu"), "-Wl,-t")], ids=["gpu", "cpu"]
)
def test_the_linker_lists_its_files_if_libraries_are_linked(find, bin_directory, flags, target, trace):
    write_gxx(bin_directory / "g++")
    write_nvcc(bin_directory / "nvcc")
    assert trace in find().command(target, flags, *FILES)
    assert trace not in find().command(target, Flags(("-lineinfo",), link=("-L/lib",)), *FILES)


# ---- the tools' part of keys


def test_versions_are_those_of_the_compilers_in_use(find, bin_directory):
    write_gxx(bin_directory / "g++")
    write_nvcc(bin_directory / "nvcc")
    nvcc = "Cuda compilation tools, release 13.0, V13.0.88"

    def versions(target: Target | None = None) -> tuple:
        return tuple((name, printed_version(version)) for name, version in find().versions(target))

    assert versions() == (("cxx", GXX_12),)
    assert versions(Target("cpu")) == (("compiler", GXX_12), ("cxx", GXX_12))
    assert versions(Target("90a")) == (("compiler", nvcc), ("cxx", GXX_12))


@pytest.mark.parametrize("name", ["g++", "nvcc"])
def test_a_script_with_the_same_version_but_another_text_is_another_compiler(find, bin_directory, name):
    """For example, a wrapper may add a flag. Scripts that nvcc uses as its host compiler count as well."""
    write_gxx(bin_directory / "g++")
    write_nvcc(bin_directory / "nvcc")
    path, before = bin_directory / name, find().versions(Target("90a"))
    status, text = path.stat(), path.read_text()
    assert find().versions(Target("90a")) == before
    path.write_text(text.replace("/calls", "/other"))  # with the same length and the same time
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = find().versions(Target("90a"))
    changed = [part for (part, was), (_, now) in zip(before, after, strict=True) if was != now]
    assert changed == [{"g++": "cxx", "nvcc": "compiler"}[name]]


def test_only_a_scripts_text_is_read(tmp_path):
    (tmp_path / "program").write_bytes(b"\x7fELF")
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert script_of(tmp_path / "program") == script_of(tmp_path / "none") == b""
    assert script_of(tmp_path / "script") == b"#!/bin/sh\n"


@pytest.mark.parametrize("digest", ["0123456789abcdef", "c1a0b8f3d2e45f60"])
def test_a_scripts_digest_is_not_mistaken_for_a_version(digest):
    for version, package in (
        ("g++ (Debian 12.2.0-14+deb12u1) 12.2.0", "libgcc-12-dev"),
        ("g++-11 (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", "libgcc-11-dev"),
        ("Debian clang version 14.0.6", "libclang-rt-14-dev"),
    ):
        assert toolchain.install_address_sanitizer(f"{version} (script:{digest})") == f"apt-get install {package}"


@pytest.mark.parametrize(
    "version",
    [
        "g++ (GCC) 14.1.1 20240522",
        "g++ (Alpine 13.2.1_git20240309) 13.2.1 20240309",
        "g++ (SUSE Linux) 13.2.1 20240206 [revision 67ac78caf31f7cb3202177e6428a46d829b70f23]",
        "g++ (conda-forge gcc 13.2.0-7) 13.2.0",
        "clang version 18.1.8 (Fedora 18.1.8-1.fc40)",
    ],
)
def test_the_sanitizers_package_is_unknown_for_other_compilers(version):
    assert "with your system's package manager" in toolchain.install_address_sanitizer(version)


def test_there_are_no_versions_if_a_compiler_is_missing(find, bin_directory):
    assert find().versions() is None and find().versions(Target("cpu")) is None
    write_gxx(bin_directory / "g++")
    assert find().versions(Target("90a")) is None and find().versions(Target("cpu")) is not None
    assert find(cxx="icpx").versions() is None


def test_there_are_no_versions_if_the_compiler_is_too_old(find, bin_directory):
    write_gxx(bin_directory / "g++", "g++ (GCC) 8.5.0")
    assert find().versions() is None


def test_anchors_contain_the_toolkit_only_for_gpus(find, bin_directory, tmp_path):
    write_gxx(bin_directory / "g++")
    write_nvcc(bin_directory / "nvcc")
    tools = find()
    assert tools.anchors(Target("90a")) == {"tkjit": toolchain.PACKAGE, "toolkit": tmp_path}
    # earlier queries do not affect a key
    assert tools.anchors() == tools.anchors(Target("cpu")) == {"tkjit": toolchain.PACKAGE}


def state(paths: list[str]) -> list[bytes]:
    return [fingerprints.state_of(path) for path in paths]


def test_searched_paths_reveal_a_compiler_that_takes_precedence(tmp_path, bin_directory, monkeypatch):
    """The searched paths include files that do not exist, because a compiler may appear in an earlier directory."""
    places = [tmp_path / name for name in ("first", "second", "third")]
    for place in places:
        place.mkdir()
    write_gxx(places[1] / "g++")
    write_nvcc(places[1] / "nvcc")
    settings = Settings(tmp_path, search_path=os.pathsep.join(map(str, places)))
    tools = Toolchain(settings, tmp_path / "v1/tools.json")

    for target, name, counts in (
        (None, "g++", True),
        (None, "nvcc", False),
        (Target("cpu"), "g++", True),
        (Target("90a"), "nvcc", True),
    ):
        before = state(tools.searched_paths(target))
        write_gxx(places[0] / name)
        assert (state(tools.searched_paths(target)) != before) == counts
        after = state(tools.searched_paths(target))
        (places[2] / name).write_text("it comes after the one that is found")
        assert state(tools.searched_paths(target)) == after
        for place in (places[0], places[2]):
            (place / name).unlink()


def test_a_compiler_that_is_replaced_while_a_process_runs_is_noticed(find, bin_directory):
    write_gxx(bin_directory / "g++")
    tools = find()
    assert "12.2.0" in dict(tools.versions())["cxx"]
    (bin_directory / "g++").unlink()
    write_gxx(bin_directory / "g++", "g++ (Debian 13.1.0-1) 13.1.0 and so another length")
    assert "13.1.0" in dict(tools.versions())["cxx"]


def test_a_memo_in_an_inaccessible_directory_is_no_error(find, bin_directory, monkeypatch):
    write_gxx(bin_directory / "g++")

    def refuse(self, *arguments, **options):
        raise PermissionError(13, "Permission denied")

    for name in ("mkdir", "touch", "write_text", "unlink", "exists"):
        monkeypatch.setattr(Path, name, refuse)
    assert find().versions() is not None
