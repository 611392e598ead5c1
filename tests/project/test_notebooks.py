"""The notebooks run from top to bottom, pass their own checks, and show the expected outputs."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from support.sampling import sample

from tkjit.compile.targets import gpu_target
from tkjit.spec import Variant

pytestmark = pytest.mark.compiles
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
# for each notebook on bound libraries: the paths in /usr/include that it needs, and the Debian packages with them
NEEDED = {
    "thrust": {},
    "kokkos": {"trilinos": "libtrilinos-kokkos-kernels-dev libtrilinos-kokkos-dev"},
    "libraries": {
        "eigen3": "libeigen3-dev",
        "nanoflann.hpp": "libnanoflann-dev",
        "range/v3": "librange-v3-dev",
    },
}
# for each notebook that goes from a simple kernel to the bundled one: its own kernels, and a text that it prints
STEPS = {
    "gemm": (
        ("naive", "shared_tiles", "register_tiles", "tensor_cores", "pipeline", "ring"),
        "put __syncthreads() between them",
    ),
    "attention": (("naive", "online", "tensor_cores"), "two halves of the keys give the same output"),
}

# notebooks that show the same each time: how many pictures each has
SAME = {"race": 2, "training": 1, "devices": 1}


def _read(name):
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def _execute(name):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TKJIT_QUIET", "0")
        # an error in a cell raises CellExecutionError here
        return NotebookClient(_read(name), timeout=300, kernel_name="python3").execute()


def _code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _outputs(notebook):
    return [output for cell in _code(notebook) for output in cell.outputs]


def _written(notebook):
    """Return the texts that the cells write to standard error."""
    return [output.text for output in _outputs(notebook) if output.get("name") == "stderr"]


@pytest.fixture(scope="module")
def quickstart():
    return _execute("quickstart")


def test_each_notebook_is_executed_here():
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == {"quickstart", "hopper", *SAME, *STEPS, *NEEDED}


def test_quickstart_shows_two_plots(quickstart):
    pictures = [output for output in _outputs(quickstart) if "image/png" in output.get("data", {})]
    assert len(pictures) == 2


def test_a_build_is_one_line_that_says_what_and_how_long(quickstart):
    texts = [str(output.get("data", {}).get("text/plain", "")) for output in _outputs(quickstart)]
    builds = [text for text in texts if text.startswith("tkjit: ")]
    assert any("compiled smooth (T=float32) for cpu-" in text for text in builds)
    assert not [text for text in builds if "..." in text], "each line ends with what came of it"
    assert "" not in [output.get("data", {}).get("text/plain") for output in _outputs(quickstart)], "and no empty ones"


def test_quickstart_writes_nothing_to_standard_error(quickstart):
    assert not _written(quickstart)


def test_quickstart_has_the_outputs_of_its_cells(quickstart):
    assert _cells_with_results(quickstart) == _cells_with_results(_read("quickstart"))


@pytest.mark.parametrize("name", sample(SAME, "devices"))
def test_kept_outputs_are_current(name):
    executed, kept = _execute(name), _read(name)
    assert not _written(executed)
    assert [_shown(cell) for cell in _code(executed)] == [_shown(cell) for cell in _code(kept)]
    for notebook in (executed, kept):
        pictures = [
            output for output in _outputs(notebook) if {"image/png", "image/svg+xml"} & output.get("data", {}).keys()
        ]
        assert len(pictures) == SAME[name]


def _shown(cell):
    """Return what a cell prints and returns, without builds and pictures."""
    outputs = [output for output in cell.outputs if not _is_build(output)]
    return [output.get("text") or output.get("data", {}).get("text/plain") for output in outputs]


@pytest.mark.slow
def test_hopper_runs_on_the_cpu():
    executed = _execute("hopper")
    assert not _written(executed)
    assert [_shown(cell) for cell in _code(executed)] == [_shown(cell) for cell in _code(_read("hopper"))]
    shown = "".join(str(output) for output in _outputs(executed))
    assert "lacks 16 expected bytes" in shown and "ring(M=130, K=1000, N=264)" in shown
    assert "__device__ void produce" in shown


@pytest.mark.nvcc
@pytest.mark.slow
def test_hopper_compiles_for_hopper(loader):
    """Run the cells, which define the kernels, and compile each kernel."""
    namespace: dict = {}
    for cell in _code(_read("hopper")):
        exec(cell.source, namespace)
    for name in ("look", "in_turn", "ring"):
        (spec,) = namespace[name].specs
        assert loader.launcher(spec, Variant(), gpu_target("90a")).manifest["spill_store_bytes"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_each_step_agrees_with_torch(name):
    executed = _execute(name)
    assert not _written(executed)
    assert _cells_with_results(executed) == _cells_with_results(_read(name)), (
        "the kept outputs are those of the same cells"
    )
    kernels, printed = STEPS[name]
    shown = _printed(executed)
    for kernel in (*kernels, name):
        assert f"{kernel} agrees with " in shown
    assert printed in shown and "Its times say nothing about a GPU" in shown


@pytest.mark.nvcc
@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_each_step_compiles_for_hopper(name, loader, sass, monkeypatch):
    """Run the cells, compile each kernel, and draw the plot that a GPU's measurements get."""
    monkeypatch.setenv("TKJIT_MODEL_ARCH", "90a")  # a cell sets it
    namespace: dict = {}
    for cell in _code(_read(name)):
        exec(cell.source, namespace)
    kernels, _ = STEPS[name]
    for kernel in kernels:
        (spec,) = namespace[kernel].specs
        launcher = loader.launcher(spec, Variant(), gpu_target("90a"))
        assert launcher.manifest["spill_store_bytes"] == 0
        products = re.findall(r"HGMMA.*", sass(launcher.shared_object))
        assert (kernel == "ring") == bool(products)
        # ptxas marks the last product of a group with gsb0. If it serialises the products, it marks all of them.
        assert not products or not all("gsb0" in product for product in products)
    measurements = namespace["measurements"]
    (peer,) = measurements[0].peers
    namespace["show"](measurements, peer)
    plot = namespace["plt"]
    assert len(plot.gca().patches) == len(measurements)
    plot.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDED)
def test_bound_libraries(name):
    missing = {path: package for path, package in NEEDED[name].items() if not Path("/usr/include", path).exists()}
    if missing:
        pytest.skip(f"no {', '.join(missing)} in /usr/include; apt-get install {' '.join(missing.values())}")
    executed = _execute(name)
    assert not _written(executed)
    assert _cells_with_results(executed) == _cells_with_results(_read(name)), (
        "the kept outputs are those of the same cells"
    )


@pytest.mark.parametrize("name", ["quickstart", "hopper", *SAME, *STEPS, *NEEDED])
def test_kept_outputs_are_clean(name):
    notebook = _read(name)
    assert [cell.execution_count for cell in _code(notebook)] == list(range(1, len(_code(notebook)) + 1))
    assert not [cell for cell in notebook.cells if cell.metadata]
    assert not [output for output in _outputs(notebook) if _is_build(output)], "how long a build took differs"
    assert not re.search(r"/(home|root|tmp)/", str(_outputs(notebook))), "no path of a machine"


@pytest.mark.parametrize("name", STEPS)
def test_kept_outputs_have_no_times_of_the_simulator(name):
    assert not re.search(r"FLOP/s|\d (ms|us|s)\b", _printed(_read(name)))
    assert not [output for output in _outputs(_read(name)) if "image/png" in output.get("data", {})]


def _printed(notebook):
    return "".join(output.text for output in _outputs(notebook) if output.get("name") == "stdout")


def _cells_with_results(notebook):
    """Return for each code cell whether it shows anything but a build."""
    return [any(not _is_build(output) for output in cell.outputs) for cell in _code(notebook)]


def _is_build(output):
    return str(output.get("data", {}).get("text/plain", "")).startswith("tkjit: ")
