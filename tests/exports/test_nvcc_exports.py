"""Exports with code for GPUs, on a machine without one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import tkjit

pytestmark = pytest.mark.nvcc
PROGRAM = Path(__file__).parent / "programs/both.c"


@pytest.mark.slow
def test_library_for_gpus_also_runs_on_the_cpu(tmp_path, loader):
    """A library for GPUs links CUDA's runtime statically, and reports that there is no driver."""
    output = tkjit.export("axpy", name="both", output=tmp_path / "both", archs=["cpu", "90a", "80"], types=["float32"])
    library = output / "lib/libboth.so.1"
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "cudart" not in needed and "libcuda" not in needed
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{output}/include", f"-L{output}/lib", "-lboth"]
    built = tmp_path / "main"
    subprocess.run(["gcc", str(PROGRAM), *flags, f"-Wl,-rpath,{output}/lib", "-o", str(built)], check=True)
    done = subprocess.run([built], capture_output=True, text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0, done.stderr
    on_cpu, on_gpu = done.stdout.splitlines()
    assert on_cpu == "3 5" and on_gpu.startswith("axpy: cuda:0: ")


@pytest.mark.slow  # compiles an export twice
def test_library_for_the_cpu_passes_gpu_calls_on(tmp_path, loader):
    """Of two exports, programs call the shared functions of the first; without CUDA, it calls those of the other."""
    made = {
        name: tkjit.export("axpy", name=name, output=tmp_path / name, archs=archs, types=["float32"])
        for name, archs in {"plain": ["cpu"], "both": ["cpu", "90a"]}.items()
    }
    source, built = tmp_path / "main.c", tmp_path / "main"
    source.write_text(
        """
        #include <plain.h>
        #include <both.h>
        #include <stdio.h>
        int main(void) {
            const int64_t size = 3;
            tkjit_tensor x;
            void* stream = 0;
            puts(tkjit_tensor_new(&x, TKJIT_FLOAT32, tkjit_cuda(0), 1, &size));
            puts(tkjit_stream_new(tkjit_cuda(0), &stream));
            return both_axpy && plain_axpy ? tkjit_device_count() : 1;
        }
        """
    )
    flags = [
        f
        for name, path in made.items()
        for f in (f"-I{path}/include", f"-L{path}/lib", f"-l{name}", f"-Wl,-rpath,{path}/lib")
    ]
    subprocess.run(["gcc", "-Wno-address", str(source), "-Wl,--no-as-needed", *flags, "-o", str(built)], check=True)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([built], capture_output=True, text=True, env=environment)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2 and "for the CPU only" not in done.stdout
