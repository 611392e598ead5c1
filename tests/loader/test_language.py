"""All modules are compiled as C++20, whatever standard the installed torch uses for extensions (2.11 uses C++17)."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.loader.modules import GluePlan, LaunchProgramsPlan, OperatorsPlan, RuntimePlan

pytestmark = pytest.mark.compiles


@pytest.mark.parametrize("plan", [RuntimePlan, OperatorsPlan, LaunchProgramsPlan, GluePlan])
def test_the_last_std_flag_wins(plan):
    cxx = str(loader_for(Settings.from_environment()).toolchain.cxx.path)
    command = [cxx, "-std=c++17", *plan.cflags, "-fsyntax-only", "-x", "c++", "-"]
    subprocess.run(command, input="static_assert(__cplusplus >= 202002L);", text=True, check=True)


def test_load_inline_puts_tkjits_standard_last(runtime):
    (manifest,) = runtime.glob("v1/*/runtime/*/*/manifest.json")
    flags = json.loads(manifest.read_text())["cflags"]
    assert flags.endswith(" ".join(RuntimePlan.cflags)) and re.findall(r"-std=\S+", flags)[-1] == "-std=c++20"
