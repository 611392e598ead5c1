"""The registry: search order, and the errors for unknown names and broken spec files."""

import os
import sys
from pathlib import Path

import pytest

import tkjit
from tkjit import SpecError, registry
from tkjit.config import Settings
from tkjit.kernel_objects import find_used, kernels_named
from tkjit.loader.variant_names import warmup_command
from tkjit.spec import Source

KERNEL = """
import tkjit
from tkjit import In, Tensor

@tkjit.kernel("__global__ void {name}(Globals g) {{}}", entry="{name}", grid=1, block=1)
def {name}(x: In[Tensor, "float32", "N"]):
    '''{doc}'''
"""


def write_kernel(directory: Path, name: str, doc: str = "A test's.") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.py"
    path.write_text(KERNEL.format(name=name, doc=doc))
    return path


def test_bundled_kernels_are_found():
    assert {"axpy", "softmax", "gemm"} <= set(tkjit.kernels())
    for name in ("axpy", "softmax", "gemm"):
        assert tkjit.find(name).name == name


def test_names_are_sorted():
    assert list(tkjit.kernels()) == sorted(tkjit.kernels())


def test_user_directory_takes_precedence(kernels_here):
    path = write_kernel(kernels_here, "axpy", "My own.")
    write_kernel(kernels_here, "mine")
    assert tkjit.find("axpy").specs[0].doc == "My own."
    assert "mine" in tkjit.kernels()
    assert registry.kernel_files(Settings.from_environment())["axpy"] == path


def test_first_directory_on_the_path_takes_precedence(tmp_path, monkeypatch):
    for place in ("one", "two"):
        write_kernel(tmp_path / place, "mine", f"Number {place}.")
    monkeypatch.setenv("TKJIT_KERNEL_PATH", os.pathsep.join(str(tmp_path / place) for place in ("one", "two")))
    assert tkjit.find("mine").specs[0].doc == "Number one."


def test_missing_directory_is_not_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path / "missing"))
    assert tkjit.find("axpy").name == "axpy"
    assert "axpy" in tkjit.kernels()


def test_only_importable_public_file_names_are_listed(kernels_here):
    for name in ("_helper", "not-a-name", "2fast"):
        (kernels_here / f"{name}.py").write_text("raise RuntimeError")
    (kernels_here / "notes.txt").write_text("")
    assert not {"_helper", "not-a-name", "2fast", "notes"} & set(tkjit.kernels())


def test_similar_name_is_suggested():
    with pytest.raises(SpecError, match=r"no kernel is named 'axpi'; did you mean axpy\?"):
        tkjit.find("axpi")
    with pytest.raises(SpecError, match=r"did you mean .*gemm"):
        tkjit.load("gem")


def test_error_without_a_similar_name_explains_where_to_look(kernels_here):
    with pytest.raises(SpecError) as caught:
        tkjit.find("qqqqqq")
    elsewhere = (
        "pass FILE.py:qqqqqq for a kernel in a file; python -m tkjit list shows the kernels that a name alone loads"
    )
    assert str(caught.value) == f"no kernel is named 'qqqqqq'; {elsewhere}"


@pytest.mark.parametrize("name", ["", "../axpy", "axpy.py", "axpy/", "/etc/passwd", "a b"])
def test_path_is_not_accepted_as_a_name(name):
    with pytest.raises(SpecError, match="no kernel is named"):
        tkjit.find(name)


def test_file_that_does_not_define_its_kernel_is_rejected(kernels_here):
    path = write_kernel(kernels_here, "other").rename(kernels_here / "mine.py")
    with pytest.raises(SpecError) as caught:
        tkjit.find("mine")
    assert str(path) in str(caught.value) and "defines no 'mine'" in str(caught.value)


def test_function_without_the_decorator_is_rejected(kernels_here):
    (kernels_here / "mine.py").write_text("def mine(): ...\n")
    with pytest.raises(SpecError, match=r"mine is defined as .*; decorate its function with @tkjit.kernel"):
        tkjit.find("mine")


@pytest.mark.parametrize(
    "text, message",
    [
        ("\nraise ValueError('broken')\n", "2: ValueError: broken"),
        ("\n\ndef f(\n", "3: SyntaxError: '(' was never closed"),
        ("\n\ndef f(x=1, y): ...\n", "3: SyntaxError: "),
        ("raise SyntaxError\n", "1: SyntaxError"),
        ("assert False\n", "1: AssertionError; tkjit imports this file, so put calls of its kernels under if __name__"),
        ("x = LIMIT\n", "1: NameError: name 'LIMIT' is not defined"),
        ("\ndims = dict(grid=N)\n", "2: NameError: name 'N' is not defined; write dims as strings"),
        ("\ncompile('def f(', 'helper.py', 'exec')\n", "2: SyntaxError: '(' was never closed (helper.py, line 1)"),
    ],
)
def test_error_in_a_spec_file_is_reported_with_its_line(kernels_here, text, message):
    path = kernels_here / "mine.py"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        tkjit.find("mine")
    assert str(caught.value).startswith(f"{path}:{message}")
    assert caught.value.__cause__ is not None


def test_file_is_run_once_until_it_is_edited(kernels_here):
    path = write_kernel(kernels_here, "mine", "First.")
    first = tkjit.find("mine")
    assert tkjit.find("mine") is first
    write_kernel(kernels_here, "mine", "Other.")  # the file keeps its size
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
    assert tkjit.find("mine").specs[0].doc == "Other."


def test_source_is_relative_to_the_spec_file(kernels_here):
    (kernels_here / "mine.py").write_text(
        KERNEL.format(name="mine", doc="").replace('"__global__ void mine(Globals g) {}"', '"mine.cu"')
    )
    assert tkjit.find("mine").specs[0].sources[0][1].path == kernels_here / "mine.cu"


def test_spec_file_is_not_left_in_sys_modules(kernels_here):
    write_kernel(kernels_here, "mine")
    before = set(sys.modules)
    tkjit.find("mine")
    assert not {name for name in set(sys.modules) - before if "mine" in name}


def test_find_a_kernel_by_file_and_name(tmp_path, monkeypatch):
    path = write_kernel(tmp_path / "anywhere", "mine", "Of a file.")
    name = f"{path}:mine"
    kernel = tkjit.find(name)
    assert kernel.specs[0].doc == "Of a file." and kernel.name == "mine"
    assert warmup_command(kernel.specs[0]) == f"python -m tkjit warmup {name}"
    assert find_used("mine", kernel.specs[0].module).specs[0].doc == "Of a file."
    monkeypatch.chdir(path.parent)
    assert tkjit.find("mine.py:mine") is kernel
    assert kernels_named(["mine.py", "axpy"]) == ("mine.py:mine", "axpy")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine.py", r"mine.py is a file; its kernels are mine.py:mine"),
        ("mine.py:other", r"defines no 'other'; it defines mine"),
        ("missing.py:mine", r"no kernel is named 'missing.py:mine': there is no file missing.py"),
    ],
)
def test_wrong_file_or_name_is_reported(tmp_path, monkeypatch, name, message):
    write_kernel(tmp_path, "mine")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match=message):
        tkjit.find(name)


def test_similar_name_is_suggested_for_a_missing_source(tmp_path):
    (tmp_path / "scale.cu").write_text("")
    (tmp_path / "gemm.cu").write_text("")
    for missing, message in (
        ("scale_kernel.cu", r"No such file or directory; did you mean scale.cu\?"),
        ("x.cu", "directory$"),
    ):
        with pytest.raises(SpecError, match=f"cannot read the source {tmp_path / missing}: .*{message}"):
            Source(path=tmp_path / missing).read()


def test_adjacent_source_is_suggested_to_a_spec_without_one(tmp_path):
    path = write_kernel(tmp_path, "mine")
    text = path.read_text()
    path.write_text(text[: text.index('"__global__')] + text[text.index("entry=") :])
    (tmp_path / "mine.cu").write_text("")
    with pytest.raises(SpecError, match=r'no source; .*mine.cu is next to the spec file: @tkjit.kernel\("mine.cu"'):
        tkjit.find(f"{path}:mine")


def test_cuda_source_and_missing_file_suffix_are_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    with pytest.raises(
        SpecError, match=r"relu\.cu is a CUDA source; name the kernel by its spec, a Python file: FILE\.py:NAME"
    ):
        tkjit.find("relu.cu")
    (tmp_path / "kernels.py").write_text("@tkjit.kernel('relu.cu', entry='relu')\n")
    with pytest.raises(SpecError, match=r"relu\.cu is a CUDA source; name its spec instead: kernels\.py"):
        tkjit.find("relu.cu")
    with pytest.raises(SpecError, match=r"no kernel is named 'mine'; did you mean mine\.py\?"):
        tkjit.find("mine")
