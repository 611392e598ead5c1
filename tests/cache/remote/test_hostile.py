"""What a remote cache sends is refused unless each part of it is what a trusted writer has signed."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from support.fake_builder import RECIPE, Builder, below, recipe_with_part
from support.remote_caches import http, objects, path_of, reader, resign, serving, write_key, writer

from tkjit.cache.remote.signing import RefusedError
from tkjit.cache.remote.statement import from_json
from tkjit.errors import CacheError, TkjitWarning

OTHER = recipe_with_part("flags", "-O2")


@pytest.fixture
def server(machine, header, url, key, remote) -> Path:
    cache = machine(writer(url, key))
    for recipe in (RECIPE, OTHER):
        cache.build(recipe, Builder(header))
    assert cache.remote.finish(60) == 0
    return remote


def place_of(remote: Path, recipe) -> Path:
    (place,) = remote.rglob(f"{recipe.name}-{recipe.build_key[:16]}")
    return place


def fetch_refused(cache, match: str) -> None:
    """Look for the entry, get the reason of its refusal as a warning, and nothing of it in the cache."""
    with pytest.warns(TkjitWarning, match=match):
        assert cache.fetch(RECIPE) is None
    assert cache.lookup(RECIPE) is None and below(cache.root, ".staging*") == []
    assert below(cache.root, "manifest.json") == []


# ---- signatures


def test_an_unknown_signer(machine, server, url, tmp_path):
    other = write_key(tmp_path / "other")
    fetch_refused(
        machine(reader(url, other)), r"is refused: it is signed by SHA256:\S+, which is not in TKJIT_CACHE_REM"
    )


def test_no_signature(machine, header, url, key, remote):
    unsigned = replace(writer(url, key), key=None, unsigned=True)
    cache = machine(unsigned)
    cache.build(RECIPE, Builder(header))
    assert cache.remote.finish(60) == 0
    fetch_refused(machine(reader(url, key)), "it is not signed")
    assert machine(unsigned).fetch(RECIPE) is not None


@pytest.mark.parametrize("what", ["statement", "signature", "head"])
def test_a_changed_byte(machine, server, url, key, what):
    (path,) = place_of(server, RECIPE).glob("*[0-9a-f].json")
    head, _, text = path.read_bytes().partition(b"\n")
    said = json.loads(head)
    if what == "signature":
        said["signature"] = said["signature"][::-1]
    if what == "statement":
        text = text.replace(b'"size', b'"Size').replace(b"launcher.so", b"launcher.sp")
    path.write_bytes((b"[" if what == "head" else json.dumps(said).encode()) + b"\n" + text)
    fetch_refused(
        machine(reader(url, key)), "is no statement" if what == "head" else "the signature of SHA256.* does not"
    )


@pytest.mark.parametrize("signature", [None, 3, "", "no base64", []])
def test_a_signature_that_is_none(machine, server, url, key, signature):
    (path,) = place_of(server, RECIPE).glob("*[0-9a-f].json")
    head, _, text = path.read_bytes().partition(b"\n")
    path.write_bytes(json.dumps({**json.loads(head), "signature": signature}).encode() + b"\n" + text)
    fetch_refused(machine(reader(url, key)), "the signature of SHA256:.* does not fit")


def test_a_valid_entry_in_the_place_of_another(machine, server, url, key):
    (path,) = place_of(server, OTHER).glob("*[0-9a-f].json")
    shutil.rmtree(place_of(server, RECIPE))
    shutil.copytree(path.parent, path.parent.with_name(f"{RECIPE.name}-{RECIPE.build_key[:16]}"))
    fetch_refused(machine(reader(url, key)), "it is the entry of another place")


def test_a_valid_entry_of_another_architecture(machine, header, server, url, key):
    place = place_of(server, RECIPE)
    moved = place.parents[1] / "sm_80" / place.name
    shutil.copytree(place, moved)
    cache = machine(reader(url, key))
    # its key is that of sm_90a too, since the architecture is no part of the fake's
    with pytest.warns(TkjitWarning, match="it is the entry of another place"):
        assert cache.fetch(replace(RECIPE, arch="sm_80")) is None


def test_a_valid_entry_under_another_name(machine, server, url, key):
    (path,) = place_of(server, RECIPE).glob("*[0-9a-f].json")
    path.rename(path.with_name("0123456789abcdef.json"))
    fetch_refused(machine(reader(url, key)), "it is the entry of another place")


def test_the_files_of_another_entry(machine, server, url, key):
    (mine,), (other,) = (place_of(server, recipe).glob("*.z") for recipe in (RECIPE, OTHER))
    shutil.copyfile(other, mine)
    fetch_refused(machine(reader(url, key)), "another hash than its statement says|ends too early|holds more")


# ---- half of an object, and others that are none


@pytest.mark.parametrize("left", [0, 1, 0.5, -1])
def test_half_of_the_files(machine, server, url, key, left):
    (path,) = place_of(server, RECIPE).glob("*.z")
    whole = path.read_bytes()
    path.write_bytes(whole[: left if isinstance(left, int) else len(whole) // 2])
    if left == -1:  # of the stream's checksum; every file has its hash
        assert machine(reader(url, key)).fetch(RECIPE) is not None
    else:
        fetch_refused(machine(reader(url, key)), "ends too early")


def test_files_that_are_no_stream(machine, server, url, key):
    (path,) = place_of(server, RECIPE).glob("*.z")
    path.write_bytes(b"\x00" * 100)
    fetch_refused(machine(reader(url, key)), "cannot be unpacked")


def test_files_that_are_not_there(machine, server, url, key):
    for path in objects(server):
        path.unlink()
    fetch_refused(machine(reader(url, key)), r"its files \([0-9a-f]{32}\.z\) are not there")


def test_files_that_unpack_to_more(machine, server, url, key):
    (path,) = place_of(server, RECIPE).glob("*.z")
    path.write_bytes(zlib.compress(zlib.decompress(path.read_bytes()) + b"\0" * (1 << 24)))
    fetch_refused(machine(reader(url, key)), "holds more than its statement says|is larger than")


def test_files_that_are_larger_than_they_can_be(machine, server, url, key):
    (path,) = place_of(server, RECIPE).glob("*.z")
    path.write_bytes(os.urandom(1 << 20))
    fetch_refused(machine(reader(url, key)), r"\.z is larger than \d+ bytes")


@pytest.mark.parametrize("length", [0, 10, 300])
def test_half_of_a_statement(machine, server, url, key, length):
    (path,) = place_of(server, RECIPE).glob("*[0-9a-f].json")
    path.write_bytes(path.read_bytes()[:length])
    fetch_refused(machine(reader(url, key)), "is no statement|the signature of .* does not fit")


def test_a_damaged_entry_is_replaced_by_the_next_build(machine, header, server, url, key):
    (path,) = place_of(server, RECIPE).glob("*.z")
    path.write_bytes(b"")
    cache = machine(writer(url, key))
    builder = Builder(header)
    with pytest.warns(TkjitWarning, match="ends too early"):
        cache.build(RECIPE, builder)
    assert builder.calls == 1 and cache.remote.finish(60) == 0
    assert machine(reader(url, key)).fetch(RECIPE) is not None


# ---- statements of whoever has the key


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
    "a size that is no number": lambda value: value["files"][0].__setitem__(1, True),
    "a size over the cap": lambda value: value["files"][0].__setitem__(1, 1 << 40),
    "a hash that is none": lambda value: value["files"][0].__setitem__(2, "0" * 63),
    "too many files": lambda value: value["files"].extend([[f"f{n}", 0, "0" * 64, False] for n in range(200)]),
    "files that are no list": lambda value: value.update(files="launcher.so"),
    "no shared object": lambda value: value.update(shared_object="other.so"),
    "no manifest": lambda value: value.update(files=[one for one in value["files"] if one[0] != "manifest.json"]),
    "another format": lambda value: value.update(format=2),
    "an unknown part": lambda value: value.update(more=1),
    "no dependencies": lambda value: value.update(dependencies={}),
    "dependencies of another type": lambda value: value["dependencies"].update(files={"a": 1}),
    "a search that is no list": lambda value: value["dependencies"].update(search=3),
    "a shadow of another type": lambda value: value["dependencies"].update(shadows=[{}]),
    "a key that is none": lambda value: value.update(key=[]),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_statement_that_no_writer_makes(machine, server, url, key, what):
    (path,) = place_of(server, RECIPE).glob("*[0-9a-f].json")
    resign(path, key, CHANGES[what])
    with pytest.raises(RefusedError):
        from_json(path.read_bytes().partition(b"\n")[2])
    fetch_refused(machine(reader(url, key)), "is refused: ")
    assert not Path("/tmp/escaped").exists()


@pytest.mark.parametrize("text", [b"", b"[]", b"3", b"null", b"\xff", b"[" * 100_000, b'{"format": 1}'])
def test_a_statement_that_is_no_json_of_one(text):
    with pytest.raises(RefusedError):
        from_json(text)


def test_a_manifest_of_another_key(machine, server, url, key):
    """A writer's statement says one thing and the entry itself another."""
    (mine,), (other,) = (place_of(server, recipe).glob("*[0-9a-f].json") for recipe in (RECIPE, OTHER))
    stolen = json.loads(other.read_bytes().partition(b"\n")[2])["files"]
    resign(mine, key, lambda value: value.update(files=stolen))
    for path in other.parent.glob("*.z"):
        shutil.copyfile(path, mine.parent / path.name)
    fetch_refused(machine(reader(url, key)), "made from something else than its path says")


# ---- servers


def test_names_that_are_none(machine, key, server, url):
    asked = []

    def answer(connection):
        asked.append(path_of(connection.recv(65536)))
        names = ["../../../../etc/passwd", "/etc/passwd", "a.json", "..", "0123456789abcdef.json/../x", 7]
        connection.sendall(http("200 OK", json.dumps(names[:-1]).encode()))

    with serving(answer) as http_url:
        assert machine(reader(http_url, key)).fetch(RECIPE) is None
    assert len(asked) == 1 and asked[0].endswith("/index.json")


@pytest.mark.parametrize("body", [b"no json", b'{"a": 1}', b"[1, 2]", b"[" * 100_000])
def test_an_index_that_is_none(machine, key, body):
    def answer(connection):
        connection.recv(65536)
        connection.sendall(http("200 OK", body))

    with serving(answer) as http_url, pytest.warns(TkjitWarning, match="does not answer"):
        assert machine(reader(http_url, key)).fetch(RECIPE) is None


def test_a_statement_without_an_end(machine, key, monkeypatch):
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
        fetch_refused(machine(reader(http_url, key)), r"json is larger than \d+ bytes")
    assert sum(sent) < 1 << 26


# ---- settings


def test_nobody_is_trusted(machine, header, url, key):
    with pytest.raises(CacheError, match="set TKJIT_CACHE_REMOTE_TRUST to a file of public keys"):
        machine(replace(reader(url, key), trust=None)).build(RECIPE, Builder(header))


@pytest.mark.parametrize("content", [None, b"", b"# nothing\n", b"ssh-rsa AAAA\n", b"key"])
def test_a_file_of_keys_that_has_none(machine, header, url, tmp_path, key, content):
    path = tmp_path / "trusted"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CacheError, match=f"TKJIT_CACHE_REMOTE_TRUST: .*{path}"):
        machine(replace(reader(url, key), trust=path)).build(RECIPE, Builder(header))


@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN OPENSSH PRIVATE KEY-----\n"])
def test_a_key_to_sign_with_that_is_none(machine, header, url, tmp_path, content):
    path = tmp_path / "private"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CacheError, match=f"TKJIT_CACHE_REMOTE_KEY: .*{path}"):
        machine(writer(url, path)).build(RECIPE, Builder(header))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": "gopher://host/x"}, "Protocol not known: gopher"),
        ({"url": "http://127.0.0.1:1", "mode": "rw"}, "a server of HTTP is read only"),
        ({"mode": "rw", "key": None}, "TKJIT_CACHE_REMOTE_MODE=rw needs TKJIT_CACHE_REMOTE_KEY"),
    ],
)
def test_settings_that_contradict(machine, header, url, key, settings, message):
    cache = machine(replace(writer(url, key), trust=key.with_name("key.pub"), **settings))
    with pytest.raises(CacheError, match=message):
        cache.build(RECIPE, Builder(header))


def test_a_password_is_shown_to_nobody(machine, header, key):
    cache = machine(reader("http://somebody:secret@127.0.0.1:1/kernels", key))
    with pytest.warns(TkjitWarning) as caught:
        cache.build(RECIPE, Builder(header))
    assert "secret" not in str(caught[0].message) and "127.0.0.1:1/kernels does not answer" in str(caught[0].message)
