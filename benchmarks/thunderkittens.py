"""Compiles ThunderKittens' kernels with tkjit: compiler figures, GPU verification, and cold build times.

``python -m benchmarks.thunderkittens`` prints a table and writes it into ``docs/howto/thunderkittens.md``.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import runpy
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

import tkjit
from benchmarks.harness import ROOT, Row, in_fresh_process, interleaved, report, timed
from tkjit.compile.flags import STAND_INS, Flags, launcher_flags
from tkjit.compile.targets import gpu_target
from tkjit.compile.toolchain import Toolchain
from tkjit.config import Settings
from tkjit.errors import TkjitError
from tkjit.headers import locate
from tkjit.headers.install import origin_of
from tkjit.loader import Loader, loader_for
from tkjit.spec import Spec, Variant, variants_of
from tkjit.verify.call import call_kernel

PAGE = ROOT / "docs/howto/thunderkittens.md"
BEGIN, END = "<!-- made by make thunderkittens: begin -->", "<!-- end -->"
COLD = "Cold builds,"
HELPERS = runpy.run_path(str(ROOT / "tests" / "support" / "thunderkittens.py"))
TARGET = gpu_target("90a")  # for cold builds
RUNS = 5
ALONE = "source_without_main.cuh"
_MAIN = re.compile(r'^(?:int main\(|#include "harness\.impl")', re.MULTILINE)


# ---- the table of kernels


@dataclass(frozen=True)
class Line:
    """A line of the table: one variant of one overload.

    Parameters
    ----------
    compiled : str
        ``"yes"``, or the reason why not.
    seconds, registers, spill_bytes : str
        The compiler's figures; empty if there are none.
    verified : str
        ``"yes"``, the errors that are too large, or ``"not run"``.
    """

    kernel: str
    source: str
    arch: str
    compiled: str
    seconds: str = ""
    registers: str = ""
    spill_bytes: str = ""
    verified: str = "not run"

    def __str__(self) -> str:
        named = f"`{self.kernel}`", f"`{self.source}`", f"`sm_{self.arch}`"
        figures = self.compiled, self.seconds, self.registers, self.spill_bytes, self.verified
        return f"| {' | '.join((*named, *figures))} |"


def lines() -> Iterator[Line]:
    """Compile every variant in an empty cache, one after another."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TKJIT_CACHE"] = cache  # also for the calls
        loader = loader_for(Settings.from_environment())
        loader.runtime  # noqa: B018  # so that its seconds do not count for the first kernel
        for name in HELPERS["KERNELS"]:
            for spec in tkjit.find(name).specs:
                for variant in variants_of(spec):
                    yield _line(loader, spec, variant)


def _line(loader: Loader, spec: Spec, variant: Variant) -> Line:
    kernel = spec.name + (f" ({variant})" if variant.values else "")
    if len(tkjit.find(spec.name).specs) > 1:
        kernel += f" {spec.constraints[0].text}"
    source = spec.sources[0][1].place.removeprefix("<thunderkittens>/kernels/")
    arch = HELPERS["arch_of"](spec)
    try:
        entry = loader.launcher(locate(spec, loader.settings), variant, gpu_target(arch))
    except TkjitError as error:
        return Line(kernel, source, arch, f"no: {str(error).splitlines()[0]}")
    took = entry.manifest
    seconds, registers = f"{took['seconds']:.1f}", str(took.get("registers", ""))
    spilled = str(took["spill_store_bytes"]) if "spill_store_bytes" in took else ""
    return Line(kernel, source, arch, "yes", seconds, registers, spilled, _verified(loader, spec, variant, arch))


def _verified(loader: Loader, spec: Spec, variant: Variant, arch: str) -> str:
    capability = "".join(map(str, torch.cuda.get_device_capability())) if torch.cuda.is_available() else ""
    if capability != arch.rstrip("af") or spec.is_parallel:
        return "not run"
    calls = [call for call in HELPERS["calls"](spec.name) if (call.spec, call.variant) == (spec, variant)]
    for call in calls:
        outcome = call_kernel(call, tkjit.find(spec.name), loader, "cuda")
        if not outcome.is_right:
            return f"no: {outcome.verdict} of {outcome}"
    return "yes" if calls else "not run"


# ---- cold builds


@dataclass(frozen=True)
class Launch:
    """A launch as users would write it for a source.

    Parameters
    ----------
    struct : str
        The globals struct; ``D`` is 1024.
    globals : str
        The struct's initializers, from ``void* const* p`` and ``const size_t* n``.
    members : str
        The struct's members, in order.
    launch : str
        Statements that launch the kernel with ``g`` on ``stream``.
    """

    struct: str
    globals: str
    members: str
    launch: str


_TEMPLATE = """
    constexpr int bytes = MAX_SHARED_MEMORY - 1024;
    cudaFuncSetAttribute(prototype::lcf::kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    const dim3 grid = T::grid(g.C.rows(), g.C.cols(), g.A.cols());
    prototype::lcf::kernel<T><<<grid, prototype::detail::NUM_THREADS_v<T>, bytes, stream>>>(g);
"""
_LAYERNORM = """
    cudaFuncSetAttribute(layernorm_tk<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, 25480);
    const dim3 grid(g.n_tile_size, g.x.batch());
    layernorm_tk<D><<<grid, NUM_THREADS, 25480, stream>>>(g, g.n_per_tile);
"""


def _layouts(dtype: str, *extents: str) -> str:
    return ", ".join(f"{{static_cast<{dtype}*>(p[{i}]), {numbers}}}" for i, numbers in enumerate(extents))


_MATRICES = ("nullptr, nullptr, n[0], n[2]", "nullptr, nullptr, n[2], n[1]", "nullptr, nullptr, n[0], n[1]")
LAUNCHES = {
    "tk_gemm": Launch(
        "matmul_layout<2, 4>::globals",
        _layouts("bf16", *_MATRICES),
        "A B C",
        f"using T = matmul_template<2, 4, 8>;{_TEMPLATE}",
    ),
    "tk_gemm_fp8": Launch(
        "matmul_layout::globals", _layouts("fp8e4m3", *_MATRICES), "A B C", f"using T = matmul_template<8>;{_TEMPLATE}"
    ),
    "tk_layernorm": Launch(
        "norm_globals<D>",
        f"{_layouts('bf16', *['n[0], 1u, n[1], 1024u'] * 4, *['1u, 1u, 1u, 1024u'] * 2)}, int(n[1] / 2), 2",
        "x residual o o_resid norm_weight norm_bias n_tile_size n_per_tile",
        _LAYERNORM,
    ),
}

# The code is in a template, because nvcc passes the text of templates to the host compiler unchanged. Outside of a
# template, nvcc writes the type of the struct itself, which it cannot do for every struct.
_AROUND = """\
#include "{included}"
template <int D> struct Around {{
    using Globals = {struct};
    static void run_on(Globals g, cudaStream_t stream) {{
        {launch}
    }}
    static void run(Globals g) {{ run_on(g, nullptr); }}
}};
"""
_IN_C = """
extern "C" int launch(void* const* p, const size_t* n, void* stream) {{
    Around<1024>::run_on({{{globals}}}, static_cast<cudaStream_t>(stream));
    return cudaGetLastError();
}}
"""
_IN_PYTHON = """
#include <pyutils/pyutils.cuh>
template <int D> void bind(pybind11::module_& m) {{
    using Globals = typename Around<D>::Globals;
    kittens::py::bind_function<Around<D>::run>(m, "{name}", {pointers});
}}
PYBIND11_MODULE({name}, m) {{ bind<1024>(m); }}
"""

_THROUGH_TKJIT = """
import time
import tkjit
from tkjit.config import Settings
from tkjit.headers import locate
from tkjit.loader import loader_for
from tkjit.spec import variants_of
from tkjit.compile.targets import gpu_target
settings = Settings.from_environment()
loader = loader_for(settings)
loader.runtime
spec = locate(tkjit.find("{name}").specs[0], settings)
start = time.perf_counter()
loader.launcher(spec, variants_of(spec)[0], gpu_target("90a"))
print(time.perf_counter() - start)
"""


def cold(settings: Settings) -> list[Row]:
    """Compare the build of a launcher by tkjit with builds of the source by nvcc.

    The peers are a launcher in C with the whole source, a launcher in C without the source's ``main`` and the launches
    there, and pybind11 as in the source.
    """
    rows = []
    for name, launch in LAUNCHES.items():
        spec = locate(tkjit.find(name).specs[0], settings)
        path = spec.sources[0][1].path
        assert path is not None, "a kernel of the library is a file"
        pointers = ", ".join(f"&Globals::{member}" for member in launch.members.split())
        values = {**asdict(launch), "source": path, "name": name, "pointers": pointers}
        flags = launcher_flags(spec, TARGET, path.parent)
        python = (sysconfig.get_path("include"), str(Path(torch.__file__).parent / "include"))
        own_paths = [path for path in flags.paths if str(STAND_INS) not in path]  # the stand-ins would replace pyutils
        with_python = flags._replace(paths=(*own_paths, *(f"-I{directory}" for directory in python)))
        whole_source, entry_alone = (_AROUND.format(**values, included=name) for name in (path, ALONE))
        by_nvcc = partial(_by_nvcc, settings, source=path)
        peers = {
            "nvcc, a launcher in C of the entry alone": partial(by_nvcc, entry_alone + _IN_C.format(**values), flags),
            "nvcc, a launcher in C": partial(by_nvcc, whole_source + _IN_C.format(**values), flags),
            "nvcc, pybind11 in the source": partial(by_nvcc, whole_source + _IN_PYTHON.format(**values), with_python),
        }
        ours, *theirs = interleaved([partial(_through_tkjit, name), *peers.values()], RUNS)
        rows += [
            Row(f"{name}, cold launcher", peer, ours, figure, "s", limit)
            for peer, figure, limit in zip(peers, theirs, (1.1, None, None), strict=True)
        ]
    return rows


def _through_tkjit(name: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        return in_fresh_process(_THROUGH_TKJIT.format(name=name), TKJIT_CACHE=cache)


def _by_nvcc(settings: Settings, text: str, flags: Flags, source: Path) -> float:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / ALONE).write_text(_without_main(source.read_text()))
        source = directory / "bare.cu"
        source.write_text(text)
        tools = Toolchain(settings, directory / "tools.json")
        command = tools.command(TARGET, flags, source, directory / "bare.so", directory / "bare.d")

        def compile_it() -> None:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")

        return timed(compile_it)


def _without_main(source: str) -> str:
    """A source up to its ``main`` or its harness, which are at its end."""
    found = _MAIN.search(source)
    if found is None:
        return source
    ends = [line for line in source[found.start() :].splitlines() if line.startswith("#endif")]
    return "\n".join([source[: found.start()], *ends, ""])


# ---- the page


def written(table: list[Line], commits: str) -> str:
    """The page's table of kernels."""
    count = sum(line.compiled == "yes" for line in table)
    verified = sum(line.verified == "yes" for line in table)
    parts = [
        f"{today()}, {commits}, nvcc {_nvcc_version()}.",
        f"{count} of {len(table)} compile; {verified} are verified on a GPU.",
        "",
        "| kernel | source | for | compiles | seconds | registers | bytes spilled | verified on a GPU |",
        "|---|---|---|---|---|---|---|---|",
        *map(str, table),
    ]
    return "\n".join(parts)


def compared(rows: list[Row], commits: str) -> str:
    """The page's table of cold builds."""
    parts = [
        f"{COLD} medians of {RUNS} runs taken in turns; {today()}, {commits}:",
        "",
        "| what | tkjit | peer | ratio | limit |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        limit = "" if row.limit is None else f"{row.limit}{'' if row.holds else ', passed'}"
        parts.append(f"| {row.what} | {row.ours:.2f} s | {row.peer}, {row.theirs:.2f} s | {row.ratio:.2f} | {limit} |")
    return "\n".join(parts)


def today() -> datetime.date:
    return datetime.datetime.now(datetime.timezone.utc).date()


def place_headers() -> Path:
    """Set the libraries' roots in the environment, because they may be in a cache that these builds do not use.

    Returns
    -------
    Path
        ThunderKittens' root.
    """
    libraries = locate(tkjit.find("tk_layernorm").specs[0], Settings.from_environment()).headers
    roots = {library.variable: str(library.root) for library in libraries if library.root}
    os.environ.update(roots)
    return Path(roots["THUNDERKITTENS_ROOT"])


def commits_of(root: Path, given: str) -> str:
    installed = re.search(r"\b[0-9a-f]{40}\b", origin_of(root))
    theirs = given or _git(root, "rev-parse", "HEAD") or (installed[0] if installed else "")
    changed = " with changes" if _git(ROOT, "status", "--porcelain", "--", ".", f":!{PAGE.relative_to(ROOT)}") else ""
    ours = f"tkjit {_git(ROOT, 'rev-parse', '--short', 'HEAD') or 'as installed'}{changed}"
    return f"{ours}, ThunderKittens {theirs[:8] or 'of an unknown commit'}"


def _git(directory: Path, *arguments: str) -> str:
    """The output of git; empty if the directory is not a checkout."""
    if not (directory / ".git").exists():
        return ""
    done = subprocess.run(["git", "-C", str(directory), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _nvcc_version() -> str:
    with tempfile.TemporaryDirectory() as name:
        version = Toolchain(Settings.from_environment(), Path(name) / "tools.json").nvcc.version
    found = re.search(r"V([\d.]+)", version)
    return found[1] if found else version


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.thunderkittens", description=__doc__)
    parser.add_argument("--commit", default="", help="ThunderKittens' commit, if its directory does not have it")
    parser.add_argument(
        "--only", choices=("table", "cold"), help="only the table, or only the comparison of cold builds"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the comparison to FILE")
    arguments = parser.parse_args()
    try:
        commits = commits_of(place_headers(), arguments.commit)
    except TkjitError as error:
        sys.exit(str(error))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    tables, _, after = rest.partition(END)
    first, _, second = tables.strip().partition(COLD)
    parts = [first.strip(), COLD + second]
    table = []
    if arguments.only != "cold":
        for line in lines():
            print(line, flush=True)
            table.append(line)
        parts[0] = written(table, commits)
    if arguments.only != "table":
        rows = cold(Settings.from_environment())
        report(rows, arguments.json)
        parts[1] = compared(rows, commits)
    PAGE.write_text("\n".join([before + BEGIN, parts[0], "", parts[1], END + after]))
    sys.exit(0 if all(line.compiled == "yes" and not line.verified.startswith("no:") for line in table) else 1)


if __name__ == "__main__":
    main()
