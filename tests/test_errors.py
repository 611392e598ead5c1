"""Exceptions: one base class, and matching built-in base classes."""

import pytest

import tkjit


@pytest.mark.parametrize(
    "kind, builtin",
    [
        (tkjit.SpecError, Exception),
        (tkjit.ToolchainError, Exception),
        (tkjit.CompileError, Exception),
        (tkjit.CacheError, Exception),
        (tkjit.ArgumentError, TypeError),
        (tkjit.ShapeError, ValueError),
        (tkjit.LaunchError, RuntimeError),
    ],
)
def test_each_error_is_a_tkjit_error_and_its_builtin_counterpart(kind, builtin):
    assert issubclass(kind, tkjit.TkjitError) and issubclass(kind, builtin)
    assert kind.__name__ in tkjit.__all__ and kind.__doc__


def test_warning_has_its_own_class():
    assert issubclass(tkjit.TkjitWarning, UserWarning) and "TkjitWarning" in tkjit.__all__
