"""``report``: writes one HTML page about kernels, which needs nothing else to be read."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkjit import __version__
from tkjit.cli import doctor
from tkjit.cli.check import summary
from tkjit.cli.inspection import last_builds, spec_lines
from tkjit.config import Settings
from tkjit.errors import SpecError, TkjitError
from tkjit.kernel_objects import Kernel, find, kernels, kernels_named
from tkjit.loader import loader_for
from tkjit.loader.listing import resource_lines
from tkjit.system import files

if TYPE_CHECKING:
    from tkjit.benchmark.measurement import Measurement
    from tkjit.verify import Outcome

_TEMPLATE = Path(__file__).with_name("report.html")


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("report", help="write an HTML page about kernels: specs, builds and results")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="kernels, packages or FILE.py to describe (default: all kernels)"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("report.html"), metavar="FILE.html")
    parser.add_argument("--check", action="store_true", help="also check the kernels, and draw the findings")
    parser.add_argument("--verify", action="store_true", help="also compare the kernels with their references")
    parser.add_argument("--bench", action="store_true", help="also measure the kernels at their sizes=, and draw plots")
    parser.add_argument("--types", default="", metavar="bfloat16", help="run only variants of these dtypes")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="where --verify and --bench run (default: cpu)"
    )
    parser.set_defaults(run=_report)


@dataclass
class Described:
    """A kernel's part of the page.

    Parameters
    ----------
    error : str
        Why the kernel cannot be read, or why a part is missing.
    checked : str
        The summary of the check; empty if it did not run.
    plots : list of str
        SVG elements.
    """

    name: str
    signature: str = ""
    summary: str = ""
    doc: str = ""
    specs: list[list[str]] = field(default_factory=list)
    builds: list[str] = field(default_factory=list)
    rendered: list[tuple[str, str]] = field(default_factory=list)
    error: str = ""
    checked: str = ""
    findings: list[str] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    measured: list[Measurement] = field(default_factory=list)
    plots: list[str] = field(default_factory=list)

    @property
    def is_bad(self) -> bool:
        return bool(self.error or self.findings or any(one.problems for one in self.outcomes))


def _report(arguments: argparse.Namespace) -> int:
    if not arguments.output.absolute().parent.is_dir():
        raise SpecError(f"{arguments.output}: there is no directory {arguments.output.absolute().parent}")
    if arguments.check or arguments.bench:
        from tkjit.check.plot import check_can_plot

        check_can_plot(Path("plots.svg"))
    from jinja2 import Environment

    settings = Settings.from_environment()
    found = [_described(name, arguments) for name in kernels_named(arguments.names) or kernels()]
    environment = doctor.examine(settings, loader_for(settings).toolchain, doctor.driver_version())
    page = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_TEMPLATE.read_text())
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    text = page.render(kernels=found, environment=environment, version=__version__, date=date)
    files.write(arguments.output.absolute(), text.encode())
    print(f"{arguments.output}: {len(found)} kernels, {sum(one.is_bad for one in found)} with problems")
    return 1 if any(one.is_bad for one in found) else 0


def _described(name: str, arguments: argparse.Namespace) -> Described:
    """Describe a kernel, and run what the options ask for. An error in one part leaves the others."""
    one = Described(name)
    try:
        kernel = find(name)
        one.doc = kernel.__doc__ or ""
        one.signature, one.summary = one.doc.partition("\n")[0], kernel._summary
        if not isinstance(kernel, Kernel):
            return one
        one.specs = [spec_lines(spec) for spec in kernel.specs]
        rendered = kernel.render()
        one.rendered = [("glue.cpp", rendered.glue), ("launcher.cu", rendered.launcher)]
        types = [each for each in arguments.types.split(",") if each]
        if arguments.check:
            _check(one, kernel, types)
        if arguments.verify:
            _verify(one, types, arguments.device)
        if arguments.bench:
            _bench(one, kernel, types, arguments.device)
        for what, manifest in last_builds(kernel.name).items():
            one.builds += resource_lines(what, manifest) or [what]
    except TkjitError as error:
        one.error = str(error)
        print(f"{name}: {str(error).splitlines()[0]}", file=sys.stderr)
    return one


def _check(one: Described, kernel: Kernel, types: Sequence[str]) -> None:
    from markupsafe import Markup

    from tkjit.check import Options, check
    from tkjit.check.plot import svg_of

    options = Options(types=types)
    report = check(loader_for(Settings.from_environment()), kernel.specs, options)
    one.findings = [str(finding) for finding in report.findings]
    one.checked = f"{', '.join(options.modes)}: {summary(report)}"
    if (drawn := svg_of([*report.findings, *report.warnings], report.sources)) is not None:
        one.plots.append(Markup(drawn))  # matplotlib escapes its texts


def _verify(one: Described, types: Sequence[str], device: str) -> None:
    from tkjit.verify import Options, verify

    one.outcomes = list(verify([one.name], Options(device=device, types=types)))


def _bench(one: Described, kernel: Kernel, types: Sequence[str], device: str) -> None:
    from markupsafe import Markup

    from tkjit.benchmark.measure import measurements
    from tkjit.benchmark.plot import draw
    from tkjit.check.plot import svg_text

    if any(spec.benchmark.sizes for spec in kernel.specs):
        one.measured = list(measurements(one.name, (), types, device, inductor=False, rounds=9))
        one.plots.append(Markup(svg_text(draw(one.measured))))
