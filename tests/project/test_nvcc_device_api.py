"""Every line of ``docs/reference/device-api.md`` compiles for Hopper."""

from __future__ import annotations

import pytest
from support.device_api import GROUPS, headers_kernel, members_kernel

from tkjit.compile.targets import gpu_target
from tkjit.spec import Variant

pytestmark = pytest.mark.nvcc
HOPPER = gpu_target("90a")


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(section, id=section.name, marks=() if section is GROUPS[0] else pytest.mark.slow)
        for section in GROUPS
    ],
)
def test_the_lines_of_a_section_compile(loader, section):
    kernel = members_kernel(section, list(section.rows))
    assert loader.launcher(kernel.specs[0], Variant(), HOPPER).manifest["spill_store_bytes"] == 0


@pytest.mark.slow
def test_every_header_compiles(loader):
    assert loader.launcher(headers_kernel().specs[0], Variant(), HOPPER).shared_object.exists()
