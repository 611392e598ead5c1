"""The servers that keep NVRTC loaded: they compile, and builds go on after a crash, Ctrl-C and a fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.waiting import wait_until

from tkjit.compile import nvrtc_server
from tkjit.compile.nvrtc import CHILD, ServedCommand
from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.system.process import working_in
from tkjit.system.start_time import start_time

pytestmark = pytest.mark.nvcc

SOURCE = "__global__ void f(float* x) { x[threadIdx.x] += 1.5f; }\n"
# takes NVRTC more than a minute
ENDLESS = """__global__ void f(float* x) {
#pragma unroll
    for (int i = 0; i < 1000000; i++) x[i * i] = sinf(x[i]);
}
"""


@pytest.fixture(scope="module")
def nvrtc(loader):
    return loader.toolchain.nvrtc


@pytest.fixture(autouse=True)
def no_server(monkeypatch):
    """Lets a test begin without a server, and ends its servers."""
    monkeypatch.setattr(nvrtc_server, "_idle", [])
    yield
    nvrtc_server._end_idle()


def command_of(nvrtc, directory: Path, source: str = SOURCE) -> ServedCommand:
    (directory / "f.cu").write_text(source)
    outputs = directory / "f.cubin", directory / "names"
    return ServedCommand(nvrtc.command(directory / "f.cu", *outputs, ["f"], ["-arch=sm_90a", "--no-cache"]))


def compiled(nvrtc, directory: Path, source: str = SOURCE):
    """Compile in the server. Return the exit status and the log."""
    with (directory / "log").open("w+b") as log:
        answer = nvrtc_server.run(command_of(nvrtc, directory, source), directory, os.environ, log)
        log.seek(0)
        return answer and answer[0], log.read().decode()


def server_pid() -> int:
    (server,) = nvrtc_server._idle
    return server.pid


def test_it_compiles_as_a_process_of_its_own_does(nvrtc, tmp_path):
    alone = subprocess.run(command_of(nvrtc, tmp_path), capture_output=True, text=True)
    outputs = [(tmp_path / name).read_bytes() for name in ("f.cubin", "names")]
    for name in ("f.cubin", "names"):
        (tmp_path / name).unlink()
    assert compiled(nvrtc, tmp_path) == (alone.returncode, alone.stdout) == (0, "")
    assert [(tmp_path / name).read_bytes() for name in ("f.cubin", "names")] == outputs


def test_an_error_has_the_same_text(nvrtc, tmp_path):
    wrong = SOURCE.replace("1.5f", "two")
    alone = subprocess.run(command_of(nvrtc, tmp_path, wrong), capture_output=True, text=True)
    assert compiled(nvrtc, tmp_path, wrong) == (alone.returncode, alone.stdout)
    assert alone.returncode == 1 and 'identifier "two" is undefined' in alone.stdout


def test_a_server_compiles_one_source_after_the_other(nvrtc, tmp_path):
    assert compiled(nvrtc, tmp_path) == (0, "")
    pid = server_pid()
    for number in range(3):
        assert compiled(nvrtc, tmp_path, SOURCE.replace("1.5", f"{number}.5")) == (0, "")
        assert server_pid() == pid


def test_threads_compile_at_the_same_time_and_few_servers_remain(nvrtc, tmp_path):
    directories = [tmp_path / str(number) for number in range(8)]
    for directory in directories:
        directory.mkdir()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda directory: compiled(nvrtc, directory), directories)) == [(0, "")] * 8
    assert 1 < len(nvrtc_server._idle) <= 4


def test_a_crash_is_reported_and_the_next_compilation_works(nvrtc, tmp_path):
    assert compiled(nvrtc, tmp_path) == (0, "")
    pid = server_pid()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(compiled, nvrtc, tmp_path, ENDLESS)
        wait_until(lambda: working_in(tmp_path) == [pid])
        os.kill(pid, signal.SIGSEGV)
        wait_until(lambda: working_in(tmp_path) not in ([], [pid]))  # a new server
        os.kill(*working_in(tmp_path), signal.SIGSEGV)
        assert answer.result()[0] == -signal.SIGSEGV
    assert compiled(nvrtc, tmp_path) == (0, "")
    assert server_pid() != pid


def test_an_idle_server_that_was_killed_is_replaced(nvrtc, tmp_path):
    assert compiled(nvrtc, tmp_path) == (0, "")
    pid = server_pid()
    os.kill(pid, signal.SIGKILL)
    assert compiled(nvrtc, tmp_path) == (0, "")
    assert server_pid() != pid


def test_a_library_that_cannot_be_opened_is_left_to_a_process_that_reports_it(tmp_path):
    command = ServedCommand([sys.executable, str(CHILD), "compile", str(tmp_path / "libnvrtc.so"), "a", "b", "c", "--"])
    with (tmp_path / "log").open("w+b") as log:
        assert nvrtc_server.run(command, tmp_path, os.environ, log) is None


def test_ctrl_c_ends_the_compilation(nvrtc, tmp_path):
    assert compiled(nvrtc, tmp_path) == (0, "")
    pid = server_pid()
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        wait_until(lambda: working_in(tmp_path))
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        compiled(nvrtc, tmp_path, ENDLESS)
    thread.join()
    assert working_in(tmp_path) == [] and start_time(pid) is None
    assert compiled(nvrtc, tmp_path) == (0, "")


def test_a_forked_child_starts_a_server_of_its_own(nvrtc, tmp_path):
    assert compiled(nvrtc, tmp_path) == (0, "")
    pid = server_pid()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = int(compiled(nvrtc, tmp_path) != (0, "") or server_pid() == pid)
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert compiled(nvrtc, tmp_path) == (0, "")
    assert server_pid() == pid


def test_a_server_ends_with_a_killed_parent(nvrtc, tmp_path):
    program = f"""
import os, time
from pathlib import Path
from tkjit.compile import nvrtc_server
directory = Path({str(tmp_path)!r})
command, log = {list(command_of(nvrtc, tmp_path))!r}, open(directory / "log", "w+b")
assert nvrtc_server.run(command, directory, os.environ, log)[0] == 0
print(nvrtc_server._idle[0].pid, flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    server = int(parent.stdout.readline())
    assert start_time(server) is not None
    parent.kill()
    parent.communicate()
    wait_until(lambda: start_time(server) is None)


def test_the_server_can_be_switched_off(monkeypatch, tmp_path):
    for text, served in (("0", False), ("1", True)):
        monkeypatch.setenv("TKJIT_COMPILER_SERVER", text)
        nvrtc = loader_for(Settings.from_environment()).toolchain.nvrtc
        assert isinstance(nvrtc.command(tmp_path, tmp_path, tmp_path, [], []), ServedCommand) == served
