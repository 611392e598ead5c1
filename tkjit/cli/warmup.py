"""``warmup``: compile ahead of time, so that later processes compile nothing."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tkjit.config import Settings
from tkjit.errors import SpecError, TkjitError
from tkjit.kernel import Kernel, find, kernels
from tkjit.loader import Loader, loader_for
from tkjit.progress import silence
from tkjit.spec import BY_NAME, variants_of
from tkjit.targets import Target, gpu_target


@dataclass(frozen=True)
class Job:
    """One thing to build."""

    what: str
    run: Callable[[], object]


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    job: Job
    seconds: float
    note: str
    error: TkjitError | None = None


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("warmup", help="compile kernels ahead of time")
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels; all if none is named")
    parser.add_argument("--arch", default="", metavar="90a,80", help="GPU architectures")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="the CPU too, or the GPUs of this machine")
    parser.add_argument("--types", default="", metavar="bfloat16", help="only variants of these dtypes")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="compilers at once")
    parser.set_defaults(run=_warmup)


def _warmup(arguments: argparse.Namespace) -> int:
    loader = loader_for(Settings.from_environment())
    if arguments.jobs < 1:
        raise SpecError("--jobs must be at least 1")
    types = [name for name in arguments.types.split(",") if name]
    if unknown := set(types) - BY_NAME.keys():
        raise SpecError(f"--types: unknown dtype {', '.join(sorted(unknown))}; known are {', '.join(BY_NAME)}")
    targets = _targets(arguments, loader)
    found = [find(name) for name in arguments.names or kernels()]
    jobs = [job for one in found for job in _jobs(loader, one, targets, types)]
    if len(jobs) == len(found):  # nothing but glue
        raise SpecError(f"no variant of {', '.join(one.name for one in found)} has only the dtypes {arguments.types}")
    start = time.monotonic()
    first = [Job("runtime", lambda: loader.runtime)]
    # the runtime comes alone: what is compiled after it is loaded through it before it is published
    outcomes = _run(first, 1)
    if outcomes[0].error is None:
        outcomes += _run(jobs, arguments.jobs)
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    for outcome in failed:
        print(f"\n{outcome.error}", file=sys.stderr)
    print(f"{len(outcomes) - len(failed)} ready, {len(failed)} failed, {time.monotonic() - start:.1f} s")
    return 1 if failed else 0


def _targets(arguments: argparse.Namespace, loader: Loader) -> list[Target]:
    """What the options name; the CPU and this machine's GPUs if they name nothing."""
    targets = [gpu_target(arch) for arch in arguments.arch.split(",") if arch]
    if arguments.device == "cpu" or (arguments.device is None and not targets):
        targets.append(loader.target("cpu"))
    if arguments.device == "cuda" or (arguments.device is None and not arguments.arch):
        import torch

        targets += {loader.target("cuda", device) for device in range(torch.cuda.device_count())}
    if not targets:
        raise SpecError("this machine has no GPU; name architectures with --arch, or --device cpu")
    return list(dict.fromkeys(targets))


def _jobs(loader: Loader, found: Kernel, targets: Sequence[Target], types: Sequence[str]) -> Iterator[Job]:
    yield Job(f"{found.name} glue", lambda: loader.glue(found.specs))
    for spec in found.specs:
        for target in targets:
            for variant in variants_of(spec, types):
                yield Job(
                    f"{spec.name} {target.name}{f' {variant}' if variant.values else ''}",
                    lambda spec=spec, variant=variant, target=target: loader.launcher(spec, variant, target),  # type: ignore[misc]
                )


def _run(jobs: Sequence[Job], workers: int) -> list[Outcome]:
    """Run jobs in threads, which wait for compilers; load_inline takes one call at a time and is the shorter part."""
    outcomes: list[Outcome] = []
    with silence(), _display(len(jobs)) as show, ThreadPoolExecutor(workers) as pool:
        try:
            for done in as_completed([pool.submit(_attempt, job) for job in jobs]):
                outcomes.append(done.result())
                show(outcomes[-1])
        except BaseException:  # Ctrl-C: the compilers that run get it too, those that have not begun never do
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return outcomes


def _attempt(job: Job) -> Outcome:
    start = time.monotonic()
    error, note = None, ""
    try:
        built = job.run()
        note = _note(getattr(built, "manifest", {}))
    except TkjitError as raised:
        error = raised
    return Outcome(job, time.monotonic() - start, note, error)


def _note(manifest: Any) -> str:
    """Registers, spills and shared memory, where ptxas said them."""
    units = {"registers": "registers", "spill_store_bytes": "B spilled", "shared_memory_bytes": "B shared memory"}
    return ", ".join(f"{manifest[key]} {unit}" for key, unit in units.items() if manifest.get(key))


@contextmanager
def _display(total: int) -> Iterator[Callable[[Outcome], None]]:
    """A line for each job; in a terminal a bar below them."""

    def line(outcome: Outcome) -> str:
        state = "failed" if outcome.error else f"{outcome.seconds:.1f} s"
        return f"{outcome.job.what:<44} {state:>8}  {outcome.note}".rstrip()

    if not sys.stdout.isatty():
        yield lambda outcome: print(line(outcome), flush=True)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    with Progress(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), transient=True) as progress:
        task = progress.add_task("", total=total)

        def show(outcome: Outcome) -> None:
            progress.console.print(line(outcome), markup=False, highlight=False)
            progress.advance(task)

        yield show
