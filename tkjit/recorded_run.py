"""Turns the record of a run into plans, to build them ahead of time or to check that the cache has them all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.errors import CacheError, SpecError, TkjitError

if TYPE_CHECKING:
    from tkjit.loader import Loader, Plan
    from tkjit.loader.record import Used


def plans_of_kernels(loader: Loader, used: Sequence[Used]) -> tuple[list[Plan], dict[str, TkjitError]]:
    """Return the plans of the variants that a run used, and an error for each variant that is not found here."""
    plans: list[Plan] = []
    failed: dict[str, TkjitError] = {}
    for use in used:
        values = ", ".join(f"{name}={value}" for name, value in use.variant)
        try:
            plans += _plans_of(loader, use)
        except TkjitError as error:
            failed[f"{use.name}{f' ({values})' if values else ''} for {use.target.name}"] = error
    return plans, failed


def _plans_of(loader: Loader, used: Used) -> list[Plan]:
    from tkjit.kernel_objects import find_used
    from tkjit.spec import Variant, variants_of

    kernel = find_used(used.name, used.module)
    variant = Variant(used.variant)
    spec = kernel.specs[used.overload] if used.overload < len(kernel.specs) else None
    if spec is None or variant not in variants_of(spec):
        raise SpecError(f"{used.name} has no variant {variant} in overload {used.overload} here; record the run again")
    return [loader.glue_plan(kernel.specs), loader.launcher_plan(spec, variant, used.target)]


def plans_of_file(loader: Loader, path: Path) -> tuple[list[Plan], dict[str, TkjitError]]:
    """Return the plans of everything that a run used, and an error for each part that is not found here.

    Raises
    ------
    CacheError
        If the file cannot be read.
    """
    from tkjit.bindings.recorded_calls import plans_of as plans_of_calls
    from tkjit.bindings.recorded_calls import read_calls
    from tkjit.extensions.load import plans_of as plans_of_extension
    from tkjit.extensions.record import read_extensions
    from tkjit.loader.record import read_record

    used, calls, extensions = read_record(path), read_calls(path), read_extensions(path)
    plans, failed = plans_of_kernels(loader, used)
    if used:
        plans.insert(0, loader.runtime_plan)
    if calls:
        plans += plans_of_calls(loader, calls)
    for recorded in extensions:
        try:
            plans += plans_of_extension(loader, recorded)
        except TkjitError as error:
            failed[f"the extension {recorded.extension.name}"] = error
    return plans, failed


def require(path: str | Path) -> None:
    """Check that the cache has everything that a run used, for example before a server takes its first request.

    Nothing is compiled or launched. Entries that only the remote cache has are fetched.

    Parameters
    ----------
    path : str or Path
        A file that ``TKJIT_RECORD`` or ``python -m tkjit warmup --record`` wrote. It lists kernels, extensions in
        torch's API, and calls of bound libraries.

    Raises
    ------
    CacheError
        If something would be compiled at its first use, with a line for each such build. Also if the file cannot be
        read.
    """
    from tkjit.config import Settings
    from tkjit.loader import loader_for

    loader = loader_for(Settings.from_environment())
    plans, failed = plans_of_file(loader, Path(path))
    missing = {what: str(error) for what, error in failed.items()}
    for plan in plans:
        try:
            if loader.find_or_fetch(plan) is None:
                missing[plan.what] = "not in the cache"
        except TkjitError as error:
            missing[plan.what] = str(error)
    if missing:
        lines = "\n".join(f"  {what}: {why}" for what, why in missing.items())
        raise CacheError(
            f"{len(missing)} of the builds that {path} needs would be compiled at their first use:\n{lines}\n"
            f"Build them ahead of time: python -m tkjit warmup --from-file {path}"
        )
