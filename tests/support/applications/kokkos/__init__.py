"""The applications of Kokkos Kernels, a library that Debian packages."""

from __future__ import annotations

from pathlib import Path

INCLUDE = Path("/usr/include/trilinos")
IS_INSTALLED = all((INCLUDE / name).is_file() for name in ("Kokkos_Core.hpp", "KokkosBlas.hpp"))
MATRICES = (Path(__file__).parent / "matrices.hpp").read_text()
INSTALL = "apt-get install libtrilinos-kokkos-kernels-dev libtrilinos-kokkos-dev"
OPTIONS = {
    "include_dirs": [INCLUDE],
    "libraries": ["trilinos_kokkoscore", "trilinos_kokkoskernels"],
    "start": "Kokkos::initialize",
    "stop": "Kokkos::finalize",
}
NAMESPACES = ["Kokkos", "KokkosSparse", "KokkosBlas", "matrices"]
MATRIX = "double", "int", "Kokkos::DefaultExecutionSpace", None, "int"
HANDLE = "int", "int", "double", *["Kokkos::DefaultExecutionSpace"] * 3
