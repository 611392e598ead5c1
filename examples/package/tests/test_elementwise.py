"""Every kernel is its reference, and accesses only what is its own."""

import pytest
import tkjit

import my_kernels


@pytest.mark.parametrize("name", my_kernels.__all__)
def test_a_kernel_is_its_reference(name):
    tkjit.testing.verify(getattr(my_kernels, name))


@pytest.mark.parametrize("name", my_kernels.__all__)
def test_a_kernel_is_clean(name):
    tkjit.testing.check(getattr(my_kernels, name), types=["float32"])
