"""In the simulator's object for x86-64-v3, only functions chosen at run time use the registers of x86-64-v4."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tkjit.compile.targets import cpu_target
from tkjit.config import Settings
from tkjit.loader import loader_for

pytestmark = [
    pytest.mark.compiles,
    pytest.mark.skipif(cpu_target().cpu_level != "x86-64-v3", reason="the CPU is older; run it on one with AVX2"),
    pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump; apt-get install binutils"),
]


def test_512_bit_registers_are_used_only_after_a_check_of_the_cpu():
    loader = loader_for(Settings.from_environment())
    if "clang" in loader.toolchain.cxx.version:
        pytest.skip("clang gets no wide functions; set CXX=g++")
    simulator = loader.env.simulator(loader.target("cpu"), "")
    code = subprocess.run(["objdump", "-dC", "--no-show-raw-insn", simulator], capture_output=True, text=True).stdout
    functions = re.split(r"^[0-9a-f]+ <", code, flags=re.MULTILINE)
    wide = {text.split(">:")[0] for text in functions if "%zmm" in text}
    assert len(wide) == 2 and all("multiply_thread_wide<" in name for name in wide), wide
