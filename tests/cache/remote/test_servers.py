"""Entries travel through real servers on loopback: SFTP, nginx, and an S3 endpoint."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.fake_builder import RECIPE, Builder, recipe_with_part, write
from support.remote_caches import reader, statements, writer

from tkjit.errors import CacheError, TkjitWarning

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
OTHER = recipe_with_part("flags", "-O2")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[str], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server, and wait until it listens."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        until = time.monotonic() + 60
        while True:
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def check_that_entries_travel(machine, header, written: str, read: str, key: Path) -> None:
    """Write two entries of one key and one of another through one URL, and read them through a second URL."""
    builder = Builder(header)
    cache = machine(writer(written, key))
    cache.build(RECIPE, builder)
    assert cache.fetch(OTHER) is None  # does not exist yet
    cache.build(OTHER, Builder(header))
    text = header.read_text()
    write(header, "struct gl { int edited; };")
    cache.build(RECIPE, Builder(header))
    assert cache.remote.finish(60) == 0
    for content in (header.read_text(), text):
        write(header, content)
        other = machine(reader(read, key))
        assert other.fetch(RECIPE) is not None
    entry = other.fetch(OTHER)
    assert entry is not None and machine(writer(written, key)).remote.push(entry.directory) is False
    assert other.fetch(recipe_with_part("flags", "-O0")) is None


# ---- SFTP


@pytest.fixture
def sftp(tmp_path, monkeypatch) -> Iterator[tuple[str, subprocess.Popen[bytes], Path]]:
    """Returns the URL of an OpenSSH server, its process, and the served directory."""
    if SSHD is None or not Path("/usr/lib/openssh/sftp-server").exists():
        pytest.skip("needs OpenSSH's server: apt-get install openssh-server")
    directory, port = tmp_path / "sshd", free_port()
    directory.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True)
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": directory / "host",
        "AuthorizedKeysFile": directory / "user.pub",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "yes",
        "Subsystem": "sftp internal-sftp",
    }
    (directory / "config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd requires it when it runs as root
    monkeypatch.setenv("FSSPEC_SFTP_KEY_FILENAME", str(directory / "user"))
    with running([SSHD, "-D", "-e", "-f", str(directory / "config")], port, directory / "log") as process:
        remote = tmp_path / "by-sftp"
        yield f"sftp://{getpass.getuser()}@127.0.0.1:{port}{remote}", process, remote


def test_entries_travel_through_sftp(machine, header, key, sftp):
    url, _, remote = sftp
    check_that_entries_travel(machine, header, url, url, key)
    assert len(statements(remote)) == 3 and list(remote.rglob("*.new-*")) == []


def test_build_works_after_the_sftp_server_was_killed(machine, header, key, sftp):
    url, process, _ = sftp
    cache = machine(writer(url, key))
    assert cache.fetch(RECIPE) is None
    os.killpg(process.pid, signal.SIGKILL)
    for pid in children_of(process.pid):
        os.kill(pid, signal.SIGKILL)  # sshd puts the process of a session in another process group
    with pytest.warns(TkjitWarning, match="does not answer"):
        cache.build(RECIPE, builder := Builder(header))
    assert builder.calls == 1


def children_of(pid: int) -> list[int]:
    listed = subprocess.run(["pgrep", "-f", "sshd: .*notty|sshd-session"], capture_output=True, text=True)
    return [int(line) for line in listed.stdout.split() if int(line) != pid]


# ---- nginx: read-only, without directory listings


def test_entries_travel_through_nginx(machine, header, key, url, remote, tmp_path):
    if NGINX is None:
        pytest.skip("needs nginx: apt-get install nginx-light")
    port, directory = free_port(), tmp_path / "nginx"
    directory.mkdir()
    remote.mkdir()
    os.chmod(tmp_path, 0o755)  # noqa: PTH101
    (directory / "config").write_text(
        f"daemon off; pid {directory}/pid; error_log {directory}/log; events {{}}\n"
        f"{'user root;' if os.getuid() == 0 else ''}"
        f"http {{ access_log off; client_body_temp_path {directory}; proxy_temp_path {directory}; "
        f"fastcgi_temp_path {directory}; uwsgi_temp_path {directory}; scgi_temp_path {directory};\n"
        f"server {{ listen 127.0.0.1:{port}; root {remote}; autoindex off; }} }}\n"
    )
    with running([NGINX, "-c", str(directory / "config"), "-p", str(directory)], port, directory / "out"):
        http = f"http://127.0.0.1:{port}"
        check_that_entries_travel(machine, header, url, http, key)
        with pytest.raises(CacheError, match=r"cannot write to .* an HTTP server is read-only"):
            machine(replace(writer(http, key))).remote.push(tmp_path)


# ---- S3


@pytest.fixture
def s3(tmp_path, monkeypatch) -> Iterator[str]:
    """Returns the URL of a bucket at a moto endpoint."""
    port = free_port()
    monkeypatch.setenv("FSSPEC_S3_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "b"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ):
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running(command, port, tmp_path / "moto.log"):
        make = f"import fsspec; fsspec.filesystem('s3', endpoint_url='http://127.0.0.1:{port}').mkdir('bucket')"
        subprocess.run([sys.executable, "-c", make], check=True)
        yield "s3://bucket/kernels"


def test_entries_travel_through_s3(machine, header, key, s3):
    check_that_entries_travel(machine, header, s3, s3, key)


@pytest.mark.slow
def test_missing_bucket_is_reported(machine, header, key, s3):
    cache = machine(writer("s3://other/kernels", key))
    cache.build(RECIPE, Builder(header))
    with pytest.warns(TkjitWarning, match="does not accept entries: .*bucket does not exist"):
        assert cache.remote.finish(30) == 1
