"""Checks and verifies kernels in tests: functions and a pytest plugin.

Examples
--------
In a test, with ``pytest -p tkjit.testing`` or ``pytest_plugins = ["tkjit.testing"]`` in ``conftest.py``::

    def test_my_kernel_is_clean(check_kernel):
        check_kernel(my_kernel)  # sizes from its spec
        check_kernel(my_kernel, torch.randn(100), 2.0)  # or your own call

    def test_my_kernel_is_right():
        tkjit.testing.verify(my_kernel)  # compares with the body of its function
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tkjit.check import MODES, Options, Report
from tkjit.check import check as check_specs
from tkjit.check.cases import Case, case_of_call
from tkjit.config import Settings
from tkjit.errors import ArgumentError, TkjitError
from tkjit.kernel_objects import Kernel
from tkjit.kernel_objects.find import complete
from tkjit.loader import loader_for
from tkjit.spec import Spec
from tkjit.verify import Options as Verification
from tkjit.verify import Outcome
from tkjit.verify.call import call_kernels, planned

try:
    import pytest
except ModuleNotFoundError:  # only the fixture needs pytest
    pytest = None  # type: ignore[assignment]


class KernelCheckWarning(UserWarning):
    """Warns of code that works on the hardware but that the language leaves undefined."""


class KernelCheckError(AssertionError):
    """A check has found errors.

    Parameters
    ----------
    report : Report
        The findings.
    """

    def __init__(self, kernel: str, report: Report) -> None:
        count = len(report.findings)
        head = f"{kernel}: {count} finding{'' if count == 1 else 's'}"
        super().__init__("\n".join([head, *map(str, report.findings)]))
        self.report = report


def check(
    kernel: str | Kernel,
    *args: Any,
    modes: Sequence[str] = MODES,
    types: Sequence[str] = (),
    dims: dict[str, int] | None = None,
    seed: int = 0,
    timeout_s: float = 60.0,
    volatile: str = "race",
    strict: bool = False,
    **kwargs: Any,
) -> Report:
    """Run a kernel in the simulator's checked builds, with the given arguments or with sizes from its spec.

    Parameters
    ----------
    kernel : str or Kernel
        A kernel's name, or the kernel that the decorator returned.
    *args, **kwargs
        A call's arguments, with tensors on the CPU. The check does not change them.
    modes : sequence of str
        Any of ``memory``, ``race``, ``init``, ``order`` and ``overflow``; by default, all but the last, which takes no
        arguments of a call.
    types : sequence of str
        Only variants of these dtypes.
    dims : dict, optional
        Extents of dims and values of numbers, instead of generated ones.
    seed : int
        The seed of the inputs and of the random orders.
    timeout_s : float
        The time limit of each launch.
    volatile : str
        ``"race"``: races of volatile accesses are reported; ``"atomic"``: such accesses count as relaxed atomics.
    strict : bool
        Whether warnings fail the check. Otherwise each is issued as a ``KernelCheckWarning``, and is in the report.

    Returns
    -------
    Report
        A report without errors, which may contain warnings.

    Raises
    ------
    KernelCheckError
        If the check finds errors; an ``AssertionError`` with the findings.
    SpecError
        If no call can be generated; pass arguments.
    """
    checked = complete(kernel)
    options = Options(modes, types, dims or {}, seed, timeout_s, volatile=volatile, strict=strict)
    loader = loader_for(Settings.from_environment())
    specs, cases = (checked.specs, None) if not args and not kwargs else _of_call(checked, args, kwargs)
    report = check_specs(loader, specs, options, cases)
    if report.findings:
        raise KernelCheckError(checked.name, report)
    for warning in report.warnings:
        warnings.warn(f"{checked.name}: {warning}", KernelCheckWarning, stacklevel=2)
    return report


class KernelVerifyError(AssertionError):
    """A kernel's results differ from those of its reference.

    Parameters
    ----------
    outcomes : list of Outcome
        The outcomes of all calls.
    """

    def __init__(self, kernel: str, outcomes: list[Outcome]) -> None:
        wrong = [outcome for outcome in outcomes if not outcome.is_right]
        head = f"{kernel}: {len(wrong)} of {len(outcomes)} calls {'is' if len(wrong) == 1 else 'are'} wrong"
        super().__init__("\n".join([head, *(f"{each}: {each.verdict}" for each in wrong)]))
        self.outcomes = outcomes


def verify(
    kernel: str | Kernel,
    *,
    device: str = "cpu",
    types: Sequence[str] = (),
    dims: dict[str, Any] | None = None,
    seed: int = 0,
) -> list[Outcome]:
    """Call a kernel in this process with inputs generated from its spec, and compare the results with its reference.

    Parameters
    ----------
    kernel : str or Kernel
        A kernel's name, or the kernel that the decorator returned.
    device : {"cpu", "cuda"}
        The simulator, or the current GPU.
    types : sequence of str
        Only variants of these dtypes.
    dims : dict, optional
        Extents of dims, numbers and variants, instead of generated ones.
    seed : int
        The seed of the inputs' values.

    Returns
    -------
    list of Outcome
        One for each call.

    Raises
    ------
    KernelVerifyError
        If a result is wrong; an ``AssertionError`` that names the calls and elements.
    SpecError
        If the kernel has no reference, or no call can be generated.
    """
    Verification(device=device)
    verified = complete(kernel)
    loader = loader_for(Settings.from_environment())
    calls = planned(verified, types, dims or {}, seed, device)
    outcomes = list(call_kernels(calls, verified, loader, device))
    if not all(outcome.is_right for outcome in outcomes):
        raise KernelVerifyError(verified.name, outcomes)
    return outcomes


def _of_call(kernel: Kernel, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[tuple[Spec, ...], list[Case]]:
    """Return the overload that accepts a call's arguments, and the call as a ``Case``."""
    problems = []
    for spec in kernel.specs:
        positional = [f.name for f in spec.given if not f.keyword_only and f.direction != "out"]
        given = {**dict(zip(positional, args, strict=False)), **kwargs}
        missing = [f.name for f in spec.fields if f.is_required and f.name not in given]
        unknown = set(given) - {f.name for f in spec.given}
        if len(args) > len(positional) or missing or unknown:
            problems.append(f"missing {', '.join(missing)}" if missing else f"unknown {', '.join(sorted(unknown))}")
            continue
        try:
            return (spec,), [case_of_call(spec, given)]
        except TkjitError as error:  # the dtypes or shapes may fit another overload
            if len(kernel.specs) == 1:
                raise
            problems.append(str(error))
    raise ArgumentError(f"{kernel.name}: no overload takes these arguments: {'; '.join(problems) or 'too many'}")


if pytest is not None:

    @pytest.fixture(scope="session")
    def check_kernel() -> Callable[..., Report]:
        """``tkjit.testing.check``, which fails the test if it finds errors."""
        return check
