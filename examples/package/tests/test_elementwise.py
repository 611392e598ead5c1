"""Compares each kernel with its reference, and checks it for races and out-of-bounds accesses."""

import pytest
import tkjit

import my_kernels


@pytest.mark.parametrize("name", my_kernels.__all__)
def test_kernel_matches_its_reference(name):
    tkjit.testing.verify(getattr(my_kernels, name))


@pytest.mark.parametrize("name", my_kernels.__all__)
def test_kernel_passes_the_checker(name):
    tkjit.testing.check(getattr(my_kernels, name), types=["float32"])
