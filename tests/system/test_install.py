"""Suggested commands for installing missing packages."""

import sys

import pytest

from tkjit.system import install


def test_pip_command_uses_the_running_python(monkeypatch):
    assert install.pip_install("tkjit[gpu]", "ninja") == f'{sys.executable} -m pip install "tkjit[gpu]" ninja'
    assert install.pip_install("torch>=2.11").endswith('install "torch>=2.11"')
    monkeypatch.setattr(sys, "executable", "/a place/python")
    assert install.pip_install("ninja") == "'/a place/python' -m pip install ninja"


def test_uv_is_suggested_without_pip(monkeypatch):
    monkeypatch.setattr(install.PathFinder, "find_spec", lambda name: None)
    assert install.pip_install("ninja") == f"uv pip install --python {sys.executable} ninja"


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("ID=debian\n", "apt-get install g++"),
        ('NAME="Linux Mint"\nID=linuxmint\nID_LIKE="ubuntu debian"\n', "apt-get install g++"),
        ("ID=fedora\n", "dnf install gcc-c++"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install gcc-c++"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "zypper install gcc-c++"),
        ("ID=arch\n", "pacman -S gcc"),
        ("ID=nixos\n", "install g++ with your system's package manager"),
        ("", "install g++ with your system's package manager"),
        ("no equals sign\n\n=\n", "install g++ with your system's package manager"),
    ],
)
def test_command_of_the_distribution(monkeypatch, release, expected):
    monkeypatch.setattr(install, "_os_release", lambda: release)
    assert install.system_install("g++") == expected
