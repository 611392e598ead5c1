"""Packages that provide kernels: tkjit finds them by their entry points and imports nothing."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import sys
from pathlib import Path

import pytest

import tkjit
from tkjit import SpecError, packages, registry
from tkjit.cli import main
from tkjit.kernel_objects import find_used, kernels_named
from tkjit.loader.variant_names import warmup_command

KERNEL = """
import tkjit
from tkjit import In, Tensor
{more}

@tkjit.kernel("__global__ void {name}(Globals g) {{}}", entry="{name}", grid=1, block=1)
def {name}(x: In[Tensor, "float32", "N"]):
    '''{doc}'''
    return x
"""
BROKEN = "raise RuntimeError('imported')\n"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a distribution with an entry point and spec files."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    before = set(sys.modules)

    def write(name: str, value: str, files: dict[str, str], distribution: str = "") -> Path:
        distribution = distribution or name
        info = site / f"{distribution}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{packages.GROUP}]\n{name} = {value}\n")
        for place, text in files.items():
            (site / place).parent.mkdir(parents=True, exist_ok=True)
            (site / place).write_text(text)
        packages._packages.cache_clear()
        return site

    yield write
    packages._packages.cache_clear()
    for module in set(sys.modules) - before:
        if str(getattr(sys.modules[module], "__file__", "")).startswith(str(site)):
            del sys.modules[module]


def kernel_text(name: str, doc: str = "From afar.", more: str = "") -> str:
    return KERNEL.format(name=name, doc=doc, more=more)


@pytest.fixture
def fake(install):
    """A package with one kernel, which raises an error if it is imported."""
    files = {"fake_kernels/__init__.py": BROKEN, "fake_kernels/low.py": kernel_text("whisper")}
    return install("fake", "fake_kernels", files)


# ---- names


def test_find_a_kernel_of_a_package(fake):
    kernel = tkjit.find("fake.whisper")
    assert kernel.name == "whisper" and kernel.specs[0].doc == "From afar."
    assert kernel.specs[0].module == "fake_kernels.low"
    assert "fake.whisper" in tkjit.kernels() and "whisper" not in tkjit.kernels()
    assert not {"fake_kernels", "fake_kernels.low"} & set(sys.modules)


def test_find_a_package_kernel_by_its_short_name(fake, tmp_path, monkeypatch):
    assert tkjit.find("whisper").specs[0].module == "fake_kernels.low"
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    (tmp_path / "whisper.py").write_text(kernel_text("whisper", "My own."))
    assert tkjit.find("whisper").specs[0].doc == "My own."
    assert tkjit.find("fake.whisper").specs[0].doc == "From afar."


def test_ambiguous_short_name_is_rejected(fake, install):
    install("other", "other", {"other/__init__.py": "", "other/loud.py": kernel_text("whisper")})
    with pytest.raises(SpecError, match=r"several packages have a kernel whisper: fake\.whisper, other\.whisper"):
        tkjit.find("whisper")
    assert tkjit.find("other.whisper").specs[0].module == "other.loud"


def test_spec_file_can_import_from_its_package(install):
    files = {"near/__init__.py": "", "near/sizes.py": "N = 3\n"}
    files["near/_more.py"] = "from .sizes import N\n"
    files["near/low.py"] = kernel_text("whisper", more="from . import _more\nfrom .sizes import N\nassert N == _more.N")
    install("near", "near", files)
    assert tkjit.find("near.whisper").name == "whisper"
    assert "near.sizes" in sys.modules and "near.low" not in sys.modules


def test_nested_package(install):
    files = {"acme/__init__.py": BROKEN, "acme/gpu/__init__.py": BROKEN, "acme/gpu/kernels/__init__.py": ""}
    install("acme", "acme.gpu.kernels", {**files, "acme/gpu/kernels/low.py": kernel_text("f")})
    assert tkjit.find("acme.f").specs[0].module == "acme.gpu.kernels.low"
    assert "acme" not in sys.modules


def test_single_module(install):
    install("one", "one_file", {"one_file.py": kernel_text("f"), "beside.py": kernel_text("g")})
    assert kernels_named(["one"]) == ("one.f",)
    assert tkjit.find("one.f").specs[0].module == "one_file"


def test_kernel_defined_in_two_files_is_rejected(install):
    install("fake", "fake", {"fake/__init__.py": "", "fake/a.py": kernel_text("f"), "fake/b.py": kernel_text("f")})
    with pytest.raises(SpecError, match=r"f is defined twice: .*a.py:\d+ and .*b.py:\d+"):
        tkjit.find("fake.f")


def test_bundled_kernel_is_found_without_reading_metadata(fake, monkeypatch):
    monkeypatch.setattr(packages, "packages", lambda: pytest.fail("reads metadata"))
    assert tkjit.find("axpy").name == "axpy"


def test_package_installed_later_is_found(fake, install):
    assert "later" not in packages.packages()
    site = install("later", "later", {"later/__init__.py": "", "later/a.py": kernel_text("f")})
    assert site and tkjit.find("later.f").name == "f"


def test_namespace_packages(install):
    install("deep", "goo.cloud.kern", {"goo/cloud/kern/__init__.py": "", "goo/cloud/kern/a.py": kernel_text("f")})
    assert tkjit.find("deep.f").specs[0].module == "goo.cloud.kern.a"
    install("flat", "acme.kern", {"acme/kern/a.py": kernel_text("f")})
    assert tkjit.find("flat.f").specs[0].module == "acme.kern.a"


def test_upgrade_that_keeps_size_and_modification_time_is_noticed(install):
    site = install("fake", "fake", {"fake/__init__.py": "", "fake/f.py": kernel_text("f", "Number one.")})
    path = site / "fake/f.py"
    status = path.stat()
    assert tkjit.find("fake.f").specs[0].doc == "Number one."
    (site / "fake/new").write_text(kernel_text("f", "Number two."))
    os.utime(site / "fake/new", ns=(status.st_atime_ns, status.st_mtime_ns))
    (site / "fake/new").replace(path)
    assert path.stat().st_mtime_ns == status.st_mtime_ns and path.stat().st_size == status.st_size
    assert tkjit.find("fake.f").specs[0].doc == "Number two."


def test_kernel_in_a_private_module_of_the_package_keeps_its_own_identity(install, monkeypatch):
    """The kernel in the private module can be imported like one of any other module."""
    files = {"p/__init__.py": "", "p/_own.py": kernel_text("f", "Own."), "p/k.py": kernel_text("f", "Brought.")}
    install("p", "p", files)
    assert importlib.import_module("p._own").f.specs[0].doc == "Own."
    assert registry.full_name("f", "p._own") is None and registry.full_name("f", "p.k") == "p.f"
    assert find_used("f", "p._own").specs[0].doc == "Own."


def test_operator_name_contains_the_package(fake):
    """An exported program then finds the operator, whichever kernels of that name were loaded before."""
    assert tkjit.find("fake.whisper").schema.startswith("tkjit::fake__whisper(")
    assert registry.name_for_torch("axpy", registry.SPEC_MODULES + ".axpy") == "axpy"


def test_name_in_the_cache():
    assert [registry.own_name(name) for name in ("relu", "my.relu", "a/b.py:relu")] == ["relu"] * 3


@pytest.mark.parametrize("text", ["x = " + "1+" * 30_000 + "1", "x = " + "-" * 50_000 + "1", "\x00", "def f(:"])
def test_unparsable_file_does_not_hide_other_packages(fake, install, text, capsys):
    install("odd", "odd", {"odd/__init__.py": "", "odd/deep.py": text})
    assert main(["list"]) == 0
    assert "odd.deep" in capsys.readouterr().out
    assert tkjit.find("whisper").name == "whisper"


def test_unreadable_directory_does_not_hide_other_packages(fake, install, monkeypatch):
    site = install("locked", "locked", {"locked/__init__.py": "", "locked/f.py": kernel_text("f")})
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != site / "locked" and access(path, mode))
    packages._packages.cache_clear()
    with pytest.raises(SpecError, match=rf"is in {site}/locked, which cannot be read"):
        tkjit.find("locked.f")
    assert tkjit.find("whisper").name == "whisper"


def test_pipe_is_not_read(fake):
    os.mkfifo(fake / "fake_kernels/pipe.py")
    assert "fake.whisper" in tkjit.kernels() and "fake.pipe" not in tkjit.kernels()


# ---- wrong names


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fake.whispers", r"no kernel is named 'fake.whispers'; did you mean fake.whisper\?"),
        ("whispers", r"did you mean fake.whisper\?"),
        ("fakes.whisper", r"no installed package provides kernels as 'fakes'; did you mean fake\?"),
        ("pytest.whisper", r"pytest is installed, but has no entry point: put \[project.entry-points"),
        ("qqq.whisper", r"no installed package provides kernels as 'qqq'; packages with kernels: .*fake"),
        ("..whisper", "no kernel is named"),
        (".whisper", "no kernel is named"),
        ("fake.", "no kernel is named"),
    ],
)
def test_wrong_name_is_rejected(fake, name, message):
    with pytest.raises(SpecError, match=message):
        tkjit.find(name)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("missing", "names no module: there is no missing"),
        ("fake_kernels.deeper", "names no module: there is no fake_kernels.deeper"),
        ("fake_kernels:kernels", "names an object"),
        ("json.decoder.x", "names no module: there is no json.decoder.x"),
        ("1/0", "names no module: there is no 1/0"),
    ],
)
def test_broken_package_does_not_hide_others(fake, install, capsys, value, problem):
    install("broken", value, {})
    with pytest.raises(SpecError, match=rf"broken: the entry point of broken 1.0, '.*', (.*)({problem})"):
        tkjit.find("broken.f")
    assert tkjit.find("fake.whisper").name == "whisper"
    assert "fake.whisper" in tkjit.kernels()
    assert main(["list", "--json"]) == 1
    listed = {kernel["name"]: kernel for kernel in json.loads(capsys.readouterr().out)}
    assert listed["broken"]["error"] and listed["broken"]["package"] == "broken 1.0"
    assert not listed["fake.whisper"]["error"]
    with pytest.raises(SpecError, match="broken: the entry point"):
        kernels_named(["broken"])


def test_two_distributions_with_one_entry_point_name_are_rejected(fake, install):
    install("fake", "fake_kernels", {}, distribution="rival")
    with pytest.raises(SpecError, match=r"fake: both .* and .* provide kernels under this name; remove one"):
        tkjit.find("fake.whisper")


def test_error_in_a_packages_spec_file_has_its_line(install):
    site = install("fake", "fake", {"fake/__init__.py": "", "fake/f.py": "\nraise ValueError('no')\n"})
    with pytest.raises(SpecError, match=rf"{site}/fake/f.py:2: ValueError: no"):
        tkjit.find("fake.f")


# ---- the commands


def test_list_imports_nothing(fake, capsys):
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    assert "\nFrom the package fake 1.0:\n\nfake.whisper" in printed and "From afar." in printed
    assert not {"fake_kernels", "fake_kernels.low"} & set(sys.modules)


def test_package_name_selects_all_its_kernels(fake):
    assert kernels_named(["fake", "axpy"]) == ("fake.whisper", "axpy")
    assert kernels_named(["whisper"]) == ("whisper",)
    with pytest.raises(SpecError, match="no kernel is named 'fakes'"):
        kernels_named(["fakes"])


def test_warmup_command_of_a_package_kernel(fake):
    assert warmup_command(tkjit.find("fake.whisper").specs[0]) == "python -m tkjit warmup fake.whisper"


def test_find_a_recorded_kernel_without_importing_its_package(fake):
    spec = tkjit.find("fake.whisper").specs[0]
    assert find_used("whisper", spec.module).specs[0].doc == "From afar."
    assert "fake_kernels" not in sys.modules


def test_package_kernel_can_be_pickled(fake):
    kernel = tkjit.find("fake.whisper")
    text = pickle.dumps(kernel)
    assert b"fake_kernels.low" in text


def test_stubs_of_a_package(fake, tmp_path, capsys):
    assert main(["stubs", "fake", "-o", str(tmp_path / "stubs")]) == 0
    stub = (tmp_path / "stubs/tkjit/__init__.pyi").read_text()
    assert 'Literal["fake.whisper"]' in stub
    compile(stub, "stub", "exec")


# ---- new


def test_new_writes_a_package(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "sums"]) == 0
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written >= {"sums/pyproject.toml", "sums/sums/__init__.py", "sums/sums/silu_mul.cu"}
    assert capsys.readouterr().out.split() == sorted(str(tmp_path / name) for name in written)
    text = "".join((tmp_path / name).read_text() for name in written)
    assert "my_kernels" not in text and "my-kernels" not in text
    assert main(["new", "sums"]) == 1
    assert "sums already exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my-kernels", "did you mean my_kernels?"),
        ("9a", "not a valid name"),
        ("class", "not a valid name"),
        ("../up", "not a valid name"),
        ("json", "json is the name of another module"),
        ("torch", "torch is the name of another module"),
        ("tests", "choose another name"),
        ("__", "not a valid name"),
        ("a" * 300, "cannot write"),
    ],
)
def test_new_rejects_invalid_package_names(tmp_path, monkeypatch, capsys, name, message):
    monkeypatch.chdir(tmp_path)
    assert main(["new", name]) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_new_reports_an_unwritable_directory(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["new", "sums", "-o", str(tmp_path / "file/sums")]) == 1
    assert "cannot write" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
