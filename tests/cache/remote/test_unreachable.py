"""A server that does not answer costs two seconds once a minute, but no build fails."""

from __future__ import annotations

import errno
import os
import resource
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from support.fake_builder import RECIPE, Builder, below, recipe_with_part
from support.remote_caches import http, path_of, reader, serving, statements, writer

from tkjit.cache.remote import packing
from tkjit.errors import CacheError, TkjitWarning
from tkjit.system import transfer

OTHER = recipe_with_part("flags", "-O2")


def silent(connection):
    connection.recv(65536)
    time.sleep(30)


def closing(connection):
    connection.recv(65536)


def failing(connection):
    connection.recv(65536)
    connection.sendall(http("500 Internal Server Error", b""))


def build_without(cache, header, recipe=RECIPE) -> float:
    """Build locally after one warning, and return the seconds that it took."""
    begun = time.monotonic()
    with pytest.warns(
        TkjitWarning, match=r"does not answer: .* compiled here, and the server is not asked again for 60 s"
    ):
        cache.build(recipe, builder := Builder(header))
    assert builder.calls == 1 and cache.lookup(recipe) is not None
    return time.monotonic() - begun


@pytest.mark.parametrize("answer", [silent, closing, failing])
def test_build_continues_without_the_server(machine, header, key, answer):
    with serving(answer) as url:
        cache = machine(reader(url, key))
        seconds = build_without(cache, header)
        # 2 s of patience, and the start of the transfer process
        assert seconds < 2.0 + 3.0


def test_build_continues_if_no_server_listens(machine, header, key):
    build_without(machine(reader("http://127.0.0.1:1/kernels", key)), header)


def test_all_processes_remember_an_outage_for_a_minute(machine, header, key, tmp_path):
    asked = []

    def count(connection):
        asked.append(path_of(connection.recv(65536)))

    with serving(count) as url:
        build_without(machine(reader(url, key), "here"), header)
        first = len(asked)
        assert first
        another = machine(reader(url, key), "here")
        with pytest.warns(TkjitWarning, match=r"is skipped: it did not answer \d s ago"):
            another.build(OTHER, Builder(header))
        with warnings.catch_warnings(record=True) as caught:  # each process warns once
            another.build(recipe_with_part("flags", "-O1"), Builder(header))
        assert len(asked) == first and caught == []
        (memo,) = (another.root / "v1").glob("unreachable-*")
        os.utime(memo, (time.time() - 61,) * 2)
        build_without(machine(reader(url, key), "here"), header, recipe_with_part("flags", "-O0"))
        assert len(asked) > first


def test_threads_wait_for_an_unreachable_server_once(machine, header, key, threads):
    with serving(silent) as url:
        cache = machine(reader(url, key))
        begun = time.monotonic()
        for flags in ("-O0", "-O1", "-O2", "-O3"):
            threads.start(lambda flags=flags: cache.fetch(recipe_with_part("flags", flags)))
        with pytest.warns(TkjitWarning):
            assert threads.join() == [None] * 4
        assert time.monotonic() - begun < 2.0 + 3.0


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
def test_denied_object_is_a_miss(machine, header, key, status):
    """S3 denies access to a missing key if the user may not list the bucket."""
    asked = []

    def answer(connection):
        asked.append(path_of(connection.recv(65536)))
        connection.sendall(http(status, b""))

    with serving(answer) as url:
        cache = machine(reader(url, key))
        with pytest.warns(TkjitWarning, match="denies access to an object, or does not have it"):
            assert cache.fetch(RECIPE) is None
        assert cache.fetch(OTHER) is None  # asks again, but does not warn again
    assert len(asked) == 2


def test_remote_cache_works_with_many_open_files(machine, header, key, url):
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        cache = machine(writer(url, key))
        cache.build(RECIPE, Builder(header))
        assert cache.remote.finish(60) == 0
        assert machine(reader(url, key)).fetch(RECIPE) is not None
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def test_url_is_not_in_the_process_arguments(machine, key):
    cache = machine(reader("http://somebody:secret@127.0.0.1:1/kernels", key))
    with serving(silent):
        process = cache.remote._reader._started()
        assert b"secret" not in Path(f"/proc/{process.pid}/cmdline").read_bytes()


def test_outage_of_one_server_does_not_affect_another(machine, header, key, url, remote):
    build_without(machine(reader("http://127.0.0.1:1/kernels", key), "here"), header)
    cache = machine(writer(url, key), "here")
    cache.build(OTHER, Builder(header))
    assert cache.remote.finish(60) == 0 and len(statements(remote)) == 1


# ---- interruptions in the middle of an object


@pytest.fixture
def half_way(machine, header, key, url, remote):
    """Serves a remote cache with an entry of 1 MiB, whose object is sent by a given function."""
    cache = machine(writer(url, key))

    def add_more():
        (staging,) = cache.building
        (staging / "more.bin").write_bytes(os.urandom(1 << 20))

    cache.build(RECIPE, Builder(header, during=add_more))
    assert cache.remote.finish(60) == 0

    def serve(send):
        def answer(connection):
            path = path_of(connection.recv(65536))
            body = (remote / path.lstrip("/")).read_bytes()
            if not path.endswith(".z"):
                connection.sendall(http("200 OK", body))
                return
            connection.sendall(http("200 OK", b"", length=len(body)))
            send(connection, body)

        return serving(answer)

    return serve


def in_parts(count, pause_s):
    """Sends an object in parts, with pauses."""

    def send(connection, body):
        for number in range(count):
            connection.sendall(body[len(body) * number // count : len(body) * (number + 1) // count])
            time.sleep(pause_s)

    return send


def stopping(connection, body):
    connection.sendall(body[:-1])
    time.sleep(30)


def test_connection_that_closes_midway(machine, header, key, half_way):
    with half_way(lambda connection, body: connection.sendall(body[: len(body) // 2])) as url:
        cache = machine(reader(url, key))
        build_without(cache, header)
        assert below(cache.root, ".staging*") == []


def test_download_that_stalls(machine, header, key, half_way, monkeypatch):
    monkeypatch.setattr("tkjit.cache.remote.remote.PATIENCE_S", 0.5)
    with half_way(stopping) as url:
        assert build_without(machine(reader(url, key)), header) < 5


def test_slow_download_succeeds(machine, header, key, half_way, monkeypatch):
    """The server counts as answering while the file grows."""
    monkeypatch.setattr("tkjit.cache.remote.remote.PATIENCE_S", 1.0)
    with half_way(in_parts(8, 0.3)) as url:
        assert machine(reader(url, key)).fetch(RECIPE) is not None


def test_too_slow_download_is_abandoned(machine, header, key, half_way, monkeypatch):
    """The file grows all the time, but compiling is faster."""
    monkeypatch.setattr("tkjit.cache.remote.remote.PATIENCE_S", 1.0)
    monkeypatch.setattr("tkjit.cache.remote.remote.LEAST_RATE", 1 << 20)
    with half_way(in_parts(64, 0.3)) as url:
        assert build_without(machine(reader(url, key)), header) < 8


# ---- the transfer process


def test_killed_transfer_process(machine, header, key, monkeypatch):
    script = "import os, sys; sys.stdin.readline(); os.kill(os.getpid(), 9)"
    path = key.with_name("transfer.py")
    path.write_text(script)
    monkeypatch.setattr(transfer, "SCRIPT", path)
    build_without(machine(reader("file:///nowhere", key)), header)


@pytest.mark.parametrize("line", ["no json", "[]", "3"])
def test_unreadable_answer_of_the_transfer_process(machine, header, key, monkeypatch, line):
    path = key.with_name("transfer.py")
    path.write_text(f"import sys; print('{{}}', flush=True); sys.stdin.readline(); print({line!r}, flush=True)")
    monkeypatch.setattr(transfer, "SCRIPT", path)
    build_without(machine(reader("file:///nowhere", key)), header)


def test_fork_while_a_request_is_written(key, monkeypatch, threads):
    """The child must close its end of the pipe, while another thread of the parent is writing to that pipe."""
    path = key.with_name("transfer.py")
    path.write_text("import sys, time; print('{}', flush=True); sys.stdin.readline(); time.sleep(30)")
    monkeypatch.setattr(transfer, "SCRIPT", path)
    asking = transfer.TransferProcess("file:///nowhere")
    threads.start(lambda: asking.send({"text": "x" * (1 << 20)}))
    time.sleep(0.5)
    assert not threads.are_over
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forking a process with threads
        pid = os.fork()
    if pid == 0:
        os._exit(0 if asking._process is None else 1)
    until = time.monotonic() + 10
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
        time.sleep(0.01)
    assert ended == (pid, 0)
    asking._process.kill()
    assert isinstance(threads.join()[0], transfer.UnreachableError)


def test_unwritable_remote_is_reported(machine, header, key, remote, url):
    remote.parent.mkdir(exist_ok=True)
    remote.write_text("a file")
    cache = machine(writer(url, key))
    with pytest.warns(TkjitWarning, match="does not answer|does not accept entries"):
        cache.build(RECIPE, Builder(header))
        cache.remote.finish()
    with pytest.raises(CacheError, match="does not accept entries"):
        cache.remote.push(cache.lookup(RECIPE).directory)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_disk_that_fills_up_during_a_download(machine, header, key, url, monkeypatch, number):
    cache = machine(writer(url, key))
    cache.build(RECIPE, Builder(header))
    assert cache.remote.finish(60) == 0

    def fill(*arguments):
        (staging,) = here.building
        (staging / "manifest.json").write_text("{")
        raise OSError(number, os.strerror(number))

    here = machine(reader(url, key))
    monkeypatch.setattr("tkjit.cache.remote.remote.unpack", fill)
    with pytest.warns(TkjitWarning, match=f"cannot be written here: {os.strerror(number)}"):
        here.build(RECIPE, builder := Builder(header))
    assert builder.calls == 1 and below(here.root, ".staging*") == []
    monkeypatch.setattr("tkjit.cache.remote.remote.unpack", packing.unpack)
    assert machine(reader(url, key)).fetch(RECIPE) is not None


def test_ctrl_c_ends_the_wait_for_a_server(machine, header, key, threads):
    with serving(silent) as url:
        cache = machine(replace(reader(url, key)))
        threads.start(lambda: cache.build(RECIPE, Builder(header)))
        time.sleep(0.5)
        begun = time.monotonic()
        cache.interrupt(lambda: threads.are_over)
        assert time.monotonic() - begun < 1
    assert isinstance(threads.join()[0], KeyboardInterrupt) and below(cache.root, ".staging*") == []
