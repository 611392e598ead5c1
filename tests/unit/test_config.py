"""Settings: what each environment variable sets, and what holds without it."""

import dataclasses
import os
import re
from pathlib import Path

import platformdirs
import pytest

from tkjit import config
from tkjit.config import Settings


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


def test_the_processs_own_environment_by_default(cache):
    assert Settings.from_environment().cache_root == cache
    assert not cache.exists()


def test_settings_are_a_frozen_value_of_documented_fields():
    settings = Settings(Path("/there"))
    assert hash(settings) == hash(Settings(Path("/there")))
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.cxx = "g++"
    documented = re.findall(r"^    (\w+) : ", config.Settings.__doc__, re.MULTILINE)
    assert documented == [field.name for field in dataclasses.fields(Settings)]
