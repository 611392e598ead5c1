"""Settings: the effect and the default of each environment variable."""

import dataclasses
import inspect
import os
import pwd
import re
from pathlib import Path

import platformdirs
import pytest

from tkjit import config
from tkjit.config import Settings, size_of_text
from tkjit.errors import CacheError


def test_an_empty_environment():
    settings = Settings.from_environment({})
    assert settings == Settings(
        cache_root=Path(platformdirs.user_cache_dir("tkjit", appauthor=False)), search_path=os.defpath
    )
    assert settings.cache_root.is_absolute()
    assert settings.kernel_path == () and settings.cuda_home is None and settings.cxx is None


@pytest.mark.parametrize(
    "environ, name, value",
    [
        ({"TKJIT_CACHE": "/there"}, "cache_root", Path("/there")),
        ({"TKJIT_KERNEL_PATH": f"/a{os.pathsep}{os.pathsep}/b c"}, "kernel_path", (Path("/a"), Path("/b c"))),
        ({"TKJIT_KERNEL_PATH": ""}, "kernel_path", ()),
        ({"CUDA_HOME": "/cuda"}, "cuda_home", Path("/cuda")),
        ({"CUDA_PATH": "/cuda"}, "cuda_home", Path("/cuda")),
        ({"CUDA_HOME": "/home", "CUDA_PATH": "/path"}, "cuda_home", Path("/home")),
        ({"CUDA_HOME": ""}, "cuda_home", None),
        ({"CXX": "clang++"}, "cxx", "clang++"),
        ({"CXX": ""}, "cxx", None),
        ({"PATH": "/bin:/usr/bin"}, "search_path", "/bin:/usr/bin"),
        ({"CPATH": "/a", "NVCC_APPEND_FLAGS": "-g"}, "compiler_environment", "CPATH=/a\nNVCC_APPEND_FLAGS=-g"),
        ({"CPATH": "/a:/b", "CPLUS_INCLUDE_PATH": "/c"}, "header_path", (Path("/a"), Path("/b"), Path("/c"))),
        ({"TKJIT_CACHE_READONLY": f"/a{os.pathsep}/b c"}, "cache_layers", (Path("/a"), Path("/b c"))),
        ({"TKJIT_CACHE_READONLY": ""}, "cache_layers", ()),
        *(({"TKJIT_CACHE_SHARED": text}, "cache_shared", True) for text in ("1", "true", "YES", "on")),
        *(({"TKJIT_CACHE_SHARED": text}, "cache_shared", False) for text in ("0", "False", "no", "off", "")),
        *(({"TKJIT_JIT": text}, "jit", False) for text in ("0", "false", "no", "off")),
        *(({"TKJIT_JIT": text}, "jit", True) for text in ("1", "yes", "")),
        ({"TKJIT_CACHE_LIMIT": "10G"}, "cache_limit_bytes", 10 << 30),
        ({"TKJIT_CACHE_LIMIT": "0"}, "cache_limit_bytes", 0),
        ({"TKJIT_CACHE_LIMIT": ""}, "cache_limit_bytes", None),
        ({"TKJIT_RECORD": "/there/used.jsonl"}, "record", Path("/there/used.jsonl")),
        ({"TKJIT_RECORD": ""}, "record", None),
        ({"TKJIT_SIM_TRACE": "/there/trace"}, "sim_trace", "/there/trace"),
        ({"TKJIT_SIM_TRACE": "1"}, "sim_trace", "1"),
        ({"TORCH_CUDA_ARCH_LIST": "9.0a "}, "cuda_archs", "9.0a"),
        *(({"TKJIT_SIM_TRACE": text}, "sim_trace", "") for text in ("0", "")),
        *(({"TKJIT_SIM_DEBUG": text}, "sim_debug", text == "1") for text in ("0", "1", "")),
    ],
)
def test_each_variable(environ, name, value):
    assert getattr(Settings.from_environment(environ), name) == value


def test_the_cache_may_be_relative_or_in_the_home_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Settings.from_environment({"TKJIT_CACHE": "sub"}).cache_root == tmp_path / "sub"
    assert Settings.from_environment({"TKJIT_CACHE": "~/sub"}).cache_root == tmp_path / "home/sub"
    assert Settings.from_environment({"TKJIT_CACHE": ""}).cache_root.is_absolute()


def test_an_empty_home_is_that_of_the_password_file(monkeypatch):
    monkeypatch.setenv("HOME", "")
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert Settings.from_environment({}).cache_root == home / ".cache/tkjit"
    assert Settings.from_environment({"TKJIT_CACHE": "~/sub"}).cache_root == home / "sub"
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(CacheError, match="HOME is empty, and the user is unknown; set TKJIT_CACHE"):
        Settings.from_environment({})


def test_layers_and_records_may_be_relative_or_in_the_home_directory(monkeypatch, tmp_path):
    """A relative path refers to the directory in which the process started, even if it changes its directory later."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    settings = Settings.from_environment({"TKJIT_CACHE_READONLY": "a:~/b", "TKJIT_RECORD": "~/used.jsonl"})
    assert settings.cache_layers == (tmp_path / "a", tmp_path / "home/b")
    assert settings.record == tmp_path / "home/used.jsonl"
    assert Settings.from_environment({"TKJIT_RECORD": "used.jsonl"}).record == tmp_path / "used.jsonl"


@pytest.mark.parametrize("name", ["TKJIT_CACHE_SHARED", "TKJIT_JIT", "TKJIT_SIM_DEBUG"])
@pytest.mark.parametrize("text", ["2", "maybe", "-1", " "])
def test_what_is_neither_yes_nor_no(name, text):
    with pytest.raises(CacheError) as caught:
        Settings.from_environment({name: text})
    assert str(caught.value) == f"{name} is {text!r}; expected 1 or 0"


@pytest.mark.parametrize(
    "text, size_bytes",
    [
        ("500", 500),
        ("500M", 500 << 20),
        ("1.5T", 3 << 39),
        ("10k", 10 << 10),
        (" 2 GiB ", 2 << 30),
        ("2GB", 2 << 30),
        ("0.5K", 512),
    ],
)
def test_a_size(text, size_bytes):
    assert size_of_text(text, "--limit") == size_bytes


@pytest.mark.parametrize("text", ["much", "G", "-1G", "1X", "10 10", "nan", "inf", "1e999", "0x10", "B"])
def test_what_is_no_size(text):
    with pytest.raises(CacheError) as caught:
        Settings.from_environment({"TKJIT_CACHE_LIMIT": text})
    assert str(caught.value) == f"TKJIT_CACHE_LIMIT={text!r} is not a size; expected for example 500M or 10G"


def test_the_processs_own_environment_by_default(cache):
    assert Settings.from_environment().cache_root == cache
    assert not cache.exists()


def test_settings_are_a_frozen_value_of_documented_fields():
    settings = Settings(Path("/there"))
    assert hash(settings) == hash(Settings(Path("/there")))
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.cxx = "g++"
    documented = re.findall(r"^(\w+) : ", inspect.cleandoc(config.Settings.__doc__), re.MULTILINE)
    assert documented == [field.name for field in dataclasses.fields(Settings)]
