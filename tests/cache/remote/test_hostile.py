"""Data from a remote cache is rejected unless every part of it is covered by a trusted writer's signature."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from support.fake_builder import ABI, RECIPE, Builder, below, forget_leases, recipe_with_part, write
from support.remote_caches import http, objects, path_of, reader, resign, serving, write_key, writer

from tkjit.cache import Cache
from tkjit.cache.remote.signing import Keyring, RefusedError
from tkjit.cache.remote.statement import from_json
from tkjit.errors import CacheError, TkjitWarning

OTHER = recipe_with_part("flags", "-O2")


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    """Returns a directory with a remote cache of two entries, their header, and the key that signed them."""
    root = tmp_path_factory.mktemp("published")
    write(root / "gl.h", "struct gl {};")
    cache = Cache(root / "cache", ABI, remote=writer(f"file://{root / 'remote'}", write_key(root / "key")))
    for recipe in (RECIPE, OTHER):
        cache.build(recipe, Builder(root / "gl.h"))
    assert cache.remote.finish(60) == 0
    forget_leases(cache)
    return root


@pytest.fixture
def key(published) -> Path:
    return published / "key"


@pytest.fixture
def header(published) -> Path:
    return published / "gl.h"


@pytest.fixture
def server(published, remote) -> Path:
    return Path(shutil.copytree(published / "remote", remote))


def place_of(remote: Path, recipe) -> Path:
    (place,) = remote.rglob(f"{recipe.name}-{recipe.build_key[:16]}")
    return place


def check_rejected(cache, match: str) -> None:
    """Try to fetch the entry, and check that a warning gives the reason and that nothing reaches the cache."""
    with pytest.warns(TkjitWarning, match=match):
        assert cache.fetch(RECIPE) is None
    assert cache.lookup(RECIPE) is None and below(cache.root, ".staging*") == []
    assert below(cache.root, "manifest.json") == []


# ---- signatures


def test_unknown_signer_is_rejected(machine, server, url, tmp_path):
    other = write_key(tmp_path / "other")
    check_rejected(
        machine(reader(url, other)), r"is rejected: it is signed by SHA256:\S+, which is not in TKJIT_CACHE_REM"
    )


def test_missing_signature_is_rejected(machine, header, url, key, remote):
    unsigned = replace(writer(url, key), key=None, unsigned=True)
    cache = machine(unsigned)
    cache.build(RECIPE, Builder(header))
    assert cache.remote.finish(60) == 0
    check_rejected(machine(reader(url, key)), "it is not signed")
    assert machine(unsigned).fetch(RECIPE) is not None


@pytest.mark.parametrize("what", ["statement", "signature", "head"])
def test_changed_statement_is_rejected(machine, server, url, key, what):
    (path,) = place_of(server, RECIPE).glob("*[0-9a-f].json")
    head, _, text = path.read_bytes().partition(b"\n")
    header = json.loads(head)
    if what == "signature":
        header["signature"] = header["signature"][::-1]
    if what == "statement":
        text = text.replace(b'"size', b'"Size').replace(b"launcher.so", b"launcher.sp")
    path.write_bytes((b"[" if what == "head" else json.dumps(header).encode()) + b"\n" + text)
    check_rejected(
        machine(reader(url, key)), "is not a statement" if what == "head" else "the signature of SHA256.* is wrong"
    )


@pytest.mark.parametrize("signature", [None, 3, "", "no base64", []])
def test_invalid_signature_is_rejected(server, url, key, signature):
    (path,) = place_of(server, RECIPE).glob("*[0-9a-f].json")
    head, _, text = path.read_bytes().partition(b"\n")
    changed = json.dumps({**json.loads(head), "signature": signature}).encode() + b"\n" + text
    with pytest.raises(RefusedError, match=r"the signature of SHA256:.* is wrong"):
        Keyring(reader(url, key)).checked(changed)


def test_entry_moved_to_another_key_is_rejected(machine, server, url, key):
    (path,) = place_of(server, OTHER).glob("*[0-9a-f].json")
    shutil.rmtree(place_of(server, RECIPE))
    shutil.copytree(path.parent, path.parent.with_name(f"{RECIPE.name}-{RECIPE.build_key[:16]}"))
    check_rejected(machine(reader(url, key)), "it belongs to another entry")


def test_entry_moved_to_another_architecture_is_rejected(machine, header, server, url, key):
    place = place_of(server, RECIPE)
    moved = place.parents[1] / "sm_80" / place.name
    shutil.copytree(place, moved)
    cache = machine(reader(url, key))
    # both architectures have the same key, because the fake recipe's key does not contain the architecture
    with pytest.warns(TkjitWarning, match="it belongs to another entry"):
        assert cache.fetch(replace(RECIPE, arch="sm_80")) is None


def test_entry_under_another_name_is_rejected(machine, server, url, key):
    (path,) = place_of(server, RECIPE).glob("*[0-9a-f].json")
    path.rename(path.with_name("0123456789abcdef.json"))
    check_rejected(machine(reader(url, key)), "it belongs to another entry")


def test_files_of_another_entry_are_rejected(machine, server, url, key):
    (mine,), (other,) = (place_of(server, recipe).glob("*.z") for recipe in (RECIPE, OTHER))
    shutil.copyfile(other, mine)
    check_rejected(machine(reader(url, key)), "does not match the hash in the statement|ends too early|is longer")


# ---- truncated and invalid objects


@pytest.mark.parametrize("left", [0, 1, 0.5, -1])
def test_truncated_files_are_rejected(machine, server, url, key, left):
    (path,) = place_of(server, RECIPE).glob("*.z")
    whole = path.read_bytes()
    path.write_bytes(whole[: left if isinstance(left, int) else len(whole) // 2])
    if left == -1:  # cuts only the stream's checksum; each file still matches its hash
        assert machine(reader(url, key)).fetch(RECIPE) is not None
    else:
        check_rejected(machine(reader(url, key)), "ends too early")


def test_files_that_are_not_a_zlib_stream_are_rejected(machine, server, url, key):
    (path,) = place_of(server, RECIPE).glob("*.z")
    path.write_bytes(b"\x00" * 100)
    check_rejected(machine(reader(url, key)), "cannot be unpacked")


def test_missing_files_are_reported(machine, server, url, key):
    for path in objects(server):
        path.unlink()
    check_rejected(machine(reader(url, key)), r"its files \([0-9a-f]{32}\.z\) are not there")


def test_files_that_unpack_to_more_are_rejected(machine, server, url, key):
    (path,) = place_of(server, RECIPE).glob("*.z")
    path.write_bytes(zlib.compress(zlib.decompress(path.read_bytes()) + b"\0" * (1 << 24)))
    check_rejected(machine(reader(url, key)), "is longer than the statement allows|is larger than")


def test_oversized_files_are_rejected(machine, server, url, key):
    (path,) = place_of(server, RECIPE).glob("*.z")
    path.write_bytes(os.urandom(1 << 20))
    check_rejected(machine(reader(url, key)), r"\.z is larger than \d+ bytes")


@pytest.mark.parametrize("length", [0, 10, 300])
def test_truncated_statement_is_rejected(machine, server, url, key, length):
    (path,) = place_of(server, RECIPE).glob("*[0-9a-f].json")
    path.write_bytes(path.read_bytes()[:length])
    check_rejected(machine(reader(url, key)), "is not a statement|the signature of .* is wrong")


def test_damaged_entry_is_replaced_by_the_next_build(machine, header, server, url, key):
    (path,) = place_of(server, RECIPE).glob("*.z")
    path.write_bytes(b"")
    cache = machine(writer(url, key))
    builder = Builder(header)
    with pytest.warns(TkjitWarning, match="ends too early"):
        cache.build(RECIPE, builder)
    assert builder.calls == 1 and cache.remote.finish(60) == 0
    assert machine(reader(url, key)).fetch(RECIPE) is not None


# ---- malicious statements with a valid signature


def outside(value):
    value["files"][0][0] = "../../escaped"


CHANGES = {
    "a name with ..": outside,
    "an absolute name": lambda value: value["files"][0].__setitem__(0, "/tmp/escaped"),
    "a hidden name": lambda value: value["files"][0].__setitem__(0, ".lock"),
    "a directory": lambda value: value["files"][0].__setitem__(0, "a/b"),
    "no name": lambda value: value["files"][0].__setitem__(0, ""),
    "a name of another type": lambda value: value["files"][0].__setitem__(0, 7),
    "a name twice": lambda value: value["files"].append(value["files"][0]),
    "a negative size": lambda value: value["files"][0].__setitem__(1, -1),
    "a size that is not a number": lambda value: value["files"][0].__setitem__(1, True),
    "a size over the cap": lambda value: value["files"][0].__setitem__(1, 1 << 40),
    "an invalid hash": lambda value: value["files"][0].__setitem__(2, "0" * 63),
    "too many files": lambda value: value["files"].extend([[f"f{n}", 0, "0" * 64, False] for n in range(200)]),
    "files that are not a list": lambda value: value.update(files="launcher.so"),
    "no shared object": lambda value: value.update(shared_object="other.so"),
    "no manifest": lambda value: value.update(files=[one for one in value["files"] if one[0] != "manifest.json"]),
    "another format": lambda value: value.update(format=2),
    "an unknown part": lambda value: value.update(more=1),
    "no dependencies": lambda value: value.update(dependencies={}),
    "dependencies of another type": lambda value: value["dependencies"].update(files={"a": 1}),
    "a search that is not a list": lambda value: value["dependencies"].update(search=3),
    "a shadow of another type": lambda value: value["dependencies"].update(shadows=[{}]),
    "an invalid key": lambda value: value.update(key=[]),
}


@pytest.mark.parametrize("what", CHANGES)
def test_malformed_statement_is_rejected(server, key, what):
    (path,) = place_of(server, RECIPE).glob("*[0-9a-f].json")
    resign(path, key, CHANGES[what])
    with pytest.raises(RefusedError):
        from_json(path.read_bytes().partition(b"\n")[2])


@pytest.mark.parametrize("what", ["a name with ..", "an absolute name", "a size over the cap", "no manifest"])
def test_malformed_statement_adds_nothing_to_the_cache(machine, server, url, key, what):
    (path,) = place_of(server, RECIPE).glob("*[0-9a-f].json")
    resign(path, key, CHANGES[what])
    check_rejected(machine(reader(url, key)), "is rejected: ")
    assert not Path("/tmp/escaped").exists()


@pytest.mark.parametrize("text", [b"", b"[]", b"3", b"null", b"\xff", b"[" * 100_000, b'{"format": 1}'])
def test_statement_with_invalid_json_is_rejected(text):
    with pytest.raises(RefusedError):
        from_json(text)


def test_manifest_of_another_key_is_rejected(machine, server, url, key):
    """A trusted writer signed a statement for one key that lists the files of another key's entry."""
    (mine,), (other,) = (place_of(server, recipe).glob("*[0-9a-f].json") for recipe in (RECIPE, OTHER))
    stolen = json.loads(other.read_bytes().partition(b"\n")[2])["files"]
    resign(mine, key, lambda value: value.update(files=stolen))
    for path in other.parent.glob("*.z"):
        shutil.copyfile(path, mine.parent / path.name)
    check_rejected(machine(reader(url, key)), "built from other inputs than its path states")


# ---- servers


def test_invalid_names_in_an_index_are_ignored(machine, key, server, url):
    asked = []

    def answer(connection):
        asked.append(path_of(connection.recv(65536)))
        names = ["../../../../etc/passwd", "/etc/passwd", "a.json", "..", "0123456789abcdef.json/../x", 7]
        connection.sendall(http("200 OK", json.dumps(names[:-1]).encode()))

    with serving(answer) as http_url:
        assert machine(reader(http_url, key)).fetch(RECIPE) is None
    assert len(asked) == 1 and asked[0].endswith("/index.json")


@pytest.mark.parametrize("body", [b"no json", b'{"a": 1}', b"[1, 2]", b"[" * 100_000])
def test_invalid_index_is_rejected(machine, key, body):
    def answer(connection):
        connection.recv(65536)
        connection.sendall(http("200 OK", body))

    with serving(answer) as http_url, pytest.warns(TkjitWarning, match="does not answer"):
        assert machine(reader(http_url, key)).fetch(RECIPE) is None


def test_endless_statement_is_rejected(machine, key, monkeypatch):
    monkeypatch.setattr("tkjit.cache.remote.remote.MAX_STATEMENT_BYTES", 1 << 20)
    sent = []

    def answer(connection):
        if path_of(connection.recv(65536)).endswith("index.json"):
            connection.sendall(http("200 OK", b'["0123456789abcdef.json"]'))
            return
        connection.sendall(http("200 OK", b"", length=1 << 40))
        while True:
            sent.append(connection.send(b"{" * 65536))

    with serving(answer) as http_url:
        check_rejected(machine(reader(http_url, key)), r"json is larger than \d+ bytes")
    assert sum(sent) < 1 << 26


# ---- settings


def test_reader_without_trusted_keys_is_rejected(machine, header, url, key):
    with pytest.raises(CacheError, match="set TKJIT_CACHE_REMOTE_TRUST to a file of public keys"):
        machine(replace(reader(url, key), trust=None)).build(RECIPE, Builder(header))


@pytest.mark.parametrize("content", [None, b"", b"# nothing\n", b"ssh-rsa AAAA\n", b"key"])
def test_trust_file_without_keys_is_rejected(machine, header, url, tmp_path, key, content):
    path = tmp_path / "trusted"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CacheError, match=f"TKJIT_CACHE_REMOTE_TRUST: .*{path}"):
        machine(replace(reader(url, key), trust=path)).build(RECIPE, Builder(header))


@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN OPENSSH PRIVATE KEY-----\n"])
def test_invalid_signing_key_is_rejected(machine, header, url, tmp_path, content):
    path = tmp_path / "private"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CacheError, match=f"TKJIT_CACHE_REMOTE_KEY: .*{path}"):
        machine(writer(url, path)).build(RECIPE, Builder(header))


def test_an_unknown_protocol_is_rejected(machine, header, url, key):
    cache = machine(replace(writer(url, key), trust=key.with_name("key.pub"), url="gopher://host/x"))
    with pytest.raises(CacheError, match="Protocol not known: gopher"):
        cache.build(RECIPE, Builder(header))


def test_password_is_not_shown(machine, header, key):
    cache = machine(reader("http://somebody:secret@127.0.0.1:1/kernels", key))
    with pytest.warns(TkjitWarning) as caught:
        cache.build(RECIPE, Builder(header))
    assert "secret" not in str(caught[0].message) and "127.0.0.1:1/kernels does not answer" in str(caught[0].message)
