"""The registry: search order, and the error for an unknown name."""

import os
import sys
from pathlib import Path

import pytest

import tkjit
from tkjit import SpecError, registry
from tkjit.config import Settings
from tkjit.kernel import find_used, kernels_named
from tkjit.loader.labels import warmup_command
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


def test_the_bundled_kernels_are_found():
    assert {"axpy", "softmax", "gemm"} <= set(tkjit.kernels())
    for name in ("axpy", "softmax", "gemm"):
        assert tkjit.find(name).name == name


def test_names_are_sorted():
    assert list(tkjit.kernels()) == sorted(tkjit.kernels())


def test_the_users_own_directory_comes_first(kernels_here):
    path = write_kernel(kernels_here, "axpy", "My own.")
    write_kernel(kernels_here, "mine")
    assert tkjit.find("axpy").specs[0].doc == "My own."
    assert "mine" in tkjit.kernels()
    assert registry.kernel_files(Settings.from_environment())["axpy"] == path


def test_of_two_directories_the_first_wins(tmp_path, monkeypatch):
    for place in ("one", "two"):
        write_kernel(tmp_path / place, "mine", f"Number {place}.")
    monkeypatch.setenv("TKJIT_KERNEL_PATH", os.pathsep.join(str(tmp_path / place) for place in ("one", "two")))
    assert tkjit.find("mine").specs[0].doc == "Number one."


def test_a_directory_that_is_not_there_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path / "missing"))
    assert tkjit.find("axpy").name == "axpy"
    assert "axpy" in tkjit.kernels()


def test_only_files_that_can_be_a_kernels_are_listed(kernels_here):
    for name in ("_helper", "not-a-name", "2fast"):
        (kernels_here / f"{name}.py").write_text("raise RuntimeError")
    (kernels_here / "notes.txt").write_text("")
    assert not {"_helper", "not-a-name", "2fast", "notes"} & set(tkjit.kernels())


def test_a_near_name_is_suggested():
    with pytest.raises(SpecError, match=r"no kernel is named 'axpi'; did you mean axpy\?"):
        tkjit.find("axpi")
    with pytest.raises(SpecError, match=r"did you mean .*gemm"):
        tkjit.load("gem")


def test_without_a_near_name_there_is_where_to_look(kernels_here):
    with pytest.raises(SpecError) as caught:
        tkjit.find("qqqqqq")
    elsewhere = "one in a file is FILE.py:qqqqqq, and python -m tkjit list shows those that need no file"
    assert str(caught.value) == f"no kernel is named 'qqqqqq'; {elsewhere}"


@pytest.mark.parametrize("name", ["", "../axpy", "axpy.py", "axpy/", "/etc/passwd", "a b"])
def test_a_name_is_not_a_path(name):
    with pytest.raises(SpecError, match="no kernel is named"):
        tkjit.find(name)


def test_a_file_that_does_not_define_its_kernel(kernels_here):
    path = write_kernel(kernels_here, "other").rename(kernels_here / "mine.py")
    with pytest.raises(SpecError) as caught:
        tkjit.find("mine")
    assert str(path) in str(caught.value) and "defines no 'mine'" in str(caught.value)


def test_a_function_without_the_decorator(kernels_here):
    (kernels_here / "mine.py").write_text("def mine(): ...\n")
    with pytest.raises(SpecError, match=r"mine is defined as .*; decorate its function with @tkjit.kernel"):
        tkjit.find("mine")


@pytest.mark.parametrize(
    "text, said",
    [
        ("\nraise ValueError('broken')\n", "2: ValueError: broken"),
        ("\n\ndef f(\n", "3: SyntaxError: '(' was never closed"),
        ("\n\ndef f(x=1, y): ...\n", "3: SyntaxError: "),
        ("raise SyntaxError\n", "1: SyntaxError"),
        ("assert False\n", "1: AssertionError; this imports the file, so calls of its kernels stand under if __name__"),
        ("x = LIMIT\n", "1: NameError: name 'LIMIT' is not defined"),
        ("\ndims = dict(grid=N)\n", "2: NameError: name 'N' is not defined; a spec has dims as text"),
        ("\ncompile('def f(', 'helper.py', 'exec')\n", "2: SyntaxError: '(' was never closed (helper.py, line 1)"),
    ],
)
def test_an_error_in_a_spec_file_is_said_with_its_line(kernels_here, text, said):
    path = kernels_here / "mine.py"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        tkjit.find("mine")
    assert str(caught.value).startswith(f"{path}:{said}")
    assert caught.value.__cause__ is not None


def test_a_file_is_run_once_until_it_is_edited(kernels_here):
    path = write_kernel(kernels_here, "mine", "First.")
    first = tkjit.find("mine")
    assert tkjit.find("mine") is first
    write_kernel(kernels_here, "mine", "Other.")  # as long as before
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
    assert tkjit.find("mine").specs[0].doc == "Other."


def test_the_source_lies_beside_the_spec(kernels_here):
    (kernels_here / "mine.py").write_text(
        KERNEL.format(name="mine", doc="").replace('"__global__ void mine(Globals g) {}"', '"mine.cu"')
    )
    assert tkjit.find("mine").specs[0].sources[0][1].path == kernels_here / "mine.cu"


def test_a_spec_file_is_not_left_in_sys_modules(kernels_here):
    write_kernel(kernels_here, "mine")
    before = set(sys.modules)
    tkjit.find("mine")
    assert not {name for name in set(sys.modules) - before if "mine" in name}


def test_a_kernel_of_any_file(tmp_path, monkeypatch):
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
    ("name", "said"),
    [
        ("mine.py", r"mine.py is a file; its kernels are mine.py:mine"),
        ("mine.py:other", r"defines no 'other'; it defines mine"),
        ("missing.py:mine", r"no kernel is named 'missing.py:mine': there is no file missing.py"),
    ],
)
def test_a_file_that_is_named_wrongly(tmp_path, monkeypatch, name, said):
    write_kernel(tmp_path, "mine")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match=said):
        tkjit.find(name)


def test_a_source_that_is_not_there_has_a_near_name(tmp_path):
    (tmp_path / "scale.cu").write_text("")
    (tmp_path / "gemm.cu").write_text("")
    for missing, said in (
        ("scale_kernel.cu", r"No such file or directory; did you mean scale.cu\?"),
        ("x.cu", "directory$"),
    ):
        with pytest.raises(SpecError, match=f"cannot read the source {tmp_path / missing}: .*{said}"):
            Source(path=tmp_path / missing).read()


def test_a_source_beside_a_spec_that_names_none(tmp_path):
    path = write_kernel(tmp_path, "mine")
    text = path.read_text()
    path.write_text(text[: text.index('"__global__')] + text[text.index("entry=") :])
    (tmp_path / "mine.cu").write_text("")
    with pytest.raises(SpecError, match=r'no source; .*; mine.cu lies beside it: @tkjit.kernel\("mine.cu", ...\)'):
        tkjit.find(f"{path}:mine")


def test_a_source_and_a_file_without_its_ending(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    with pytest.raises(
        SpecError, match=r"relu\.cu is a source; a kernel is named by its spec, a Python file: FILE\.py:NAME"
    ):
        tkjit.find("relu.cu")
    with pytest.raises(SpecError, match=r"no kernel is named 'mine'; did you mean mine\.py\?"):
        tkjit.find("mine")
