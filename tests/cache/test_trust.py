"""Trust: directories with untrusted writers are rejected, and those with trusted writers work."""

from __future__ import annotations

import grp
import os
import pwd
import types
from pathlib import Path

import pytest
from support.fake_builder import RECIPE, Builder, loader_lookup, recipe_with_part, records_of

from tkjit.cache import fingerprints
from tkjit.errors import CacheError
from tkjit.system import trust

ME, OTHER, MY_GROUP, LAB, WHEEL = 1000, 1001, 1000, 2000, 3000


@pytest.fixture
def machine(monkeypatch):
    """Simulates a machine with users, groups and one directory, and this process as one of the users."""
    monkeypatch.setattr(pwd, "getpwuid", lambda user: named({0: "root", ME: "ada", OTHER: "bob"}, user, "pw_name"))
    names = {0: ("root", []), MY_GROUP: ("ada", []), OTHER: ("bob", ["ada"]), LAB: ("lab", ["ada", "bob"])}
    names[WHEEL] = ("wheel", [])
    monkeypatch.setattr(grp, "getgrgid", lambda group: members(names, group))

    def here(owner: int, mode: int, group: int = MY_GROUP, user: int = ME, container: bool = False, **mounted: int):
        namespace = trust.FIRST_PID_NAMESPACE + container
        found = {"/cache": directory(owner, mode, group), "/": directory(0, 0o755, 0)}
        # /cache resolves to a path below directories of root's, each of which may be a mount point
        found |= {f"/{name}": directory(0, above, 0) for name, above in mounted.items()}
        found["/proc/self/ns/pid"] = types.SimpleNamespace(st_ino=namespace)
        monkeypatch.setattr(trust, "_mount_points", lambda: ["/", "/proc", *(f"/{name}" for name in mounted)])
        real = types.SimpleNamespace(realpath=lambda path: "/mnt/cache", dirname=os.path.dirname)
        monkeypatch.setattr(trust, "os", types.SimpleNamespace(stat=found.__getitem__, geteuid=lambda: user, path=real))

    return here


def directory(owner: int, mode: int, group: int):
    return types.SimpleNamespace(st_uid=owner, st_gid=group, st_mode=0o40000 | mode)


def named(names, number, field):
    return types.SimpleNamespace(**{field: names[number]})


def members(names, group):
    return types.SimpleNamespace(gr_name=names[group][0], gr_mem=names[group][1])


@pytest.mark.parametrize(
    "directory",
    [
        {"owner": ME, "mode": 0o700},
        {"owner": ME, "mode": 0o755},
        {"owner": 0, "mode": 0o755},  # root can do anything already
        {"owner": ME, "mode": 0o775},  # umask 002 with a private group
        {"owner": ME, "mode": 0o775, "group": 0},
        {"owner": 0, "mode": 0o755, "user": 0},
        {"owner": ME, "mode": 0o755, "user": 0, "container": True, "mnt": 0o755},  # mounted into the container
        {"owner": ME, "mode": 0o775, "user": 0, "container": True, "mnt": 0o755},
        {"owner": 4444, "mode": 0o775, "group": 4444, "user": 4444, "container": True},  # a user without a name
    ],
)
def test_trusted_owners_and_groups(machine, directory):
    machine(**directory)
    trust.check("/cache")


@pytest.mark.parametrize(
    "directory, reason",
    [
        ({"owner": OTHER, "mode": 0o755}, "belongs to user bob"),
        ({"owner": 7777, "mode": 0o755}, "belongs to user 7777"),
        ({"owner": ME, "mode": 0o757}, "can be written by everybody"),
        ({"owner": ME, "mode": 0o777}, "can be written by everybody"),
        ({"owner": 0, "mode": 0o1777}, "can be written by everybody"),
        ({"owner": ME, "mode": 0o775, "group": LAB}, "can be written by group lab"),
        (
            {"owner": OTHER, "mode": 0o775, "group": OTHER, "user": 0, "container": True, "mnt": 0o755},
            "can be written by group bob",
        ),
        # directories in the container's own file system, and in a mount in which all users can make directories
        ({"owner": ME, "mode": 0o755, "user": 0, "container": True}, "belongs to user ada"),
        ({"owner": ME, "mode": 0o755, "user": 0, "container": True, "mnt": 0o1777}, "belongs to user ada"),
        ({"owner": ME, "mode": 0o755, "user": 0, "container": True, "data": 0o755}, "belongs to user ada"),
        ({"owner": ME, "mode": 0o755, "user": 0, "mnt": 0o755}, "belongs to user ada"),
        ({"owner": ME, "mode": 0o775, "group": WHEEL}, "can be written by group wheel"),  # any user's primary group
        ({"owner": ME, "mode": 0o775, "group": 7777}, "can be written by group 7777"),
        ({"owner": ME, "mode": 0o755, "user": 0}, "belongs to user ada"),  # root outside of a container
        ({"owner": ME, "mode": 0o777, "user": 0, "container": True, "mnt": 0o755}, "can be written by everybody"),
    ],
)
def test_untrusted_owners_and_writers_are_rejected(machine, directory, reason):
    machine(**directory)
    with pytest.raises(CacheError) as caught:
        trust.check("/cache")
    assert str(caught.value).startswith(f"/cache {reason}, who could have put anything there;")
    assert "chmod" in str(caught.value) and "TKJIT_CACHE_SHARED=1" in str(caught.value)


@pytest.mark.parametrize("directory", [{"owner": OTHER, "mode": 0o755}, {"owner": ME, "mode": 0o775, "user": OTHER}])
def test_owner_of_a_layer_is_trusted(machine, directory):
    machine(**directory)
    trust.check_layer("/cache")


@pytest.mark.parametrize(
    "directory, writers",
    [
        ({"owner": 0, "mode": 0o777}, "everybody"),
        ({"owner": OTHER, "mode": 0o775, "group": LAB}, "group lab"),
        ({"owner": OTHER, "mode": 0o775, "group": OTHER}, "group bob"),  # ada is a member
    ],
)
def test_layer_writable_by_others_than_its_owner_is_rejected(machine, directory, writers):
    machine(**directory)
    with pytest.raises(CacheError, match=rf"/cache \(TKJIT_CACHE_READONLY\) can be written by {writers}; .*chmod go-w"):
        trust.check_layer("/cache")


def test_mount_points_are_parsed_from_mountinfo(monkeypatch, tmp_path):
    table = tmp_path / "mountinfo"
    table.write_text(
        "27 1 254:0 / / rw - ext4 /dev/vda rw\n28 27 0:25 /a /mnt/a\\040b\\134 rw,relatime shared:1 - nfs x rw\n"
    )
    opened = open
    monkeypatch.setattr("builtins.open", lambda path, *rest: opened(table if "mountinfo" in str(path) else path, *rest))
    assert trust._mount_points() == ["/", "/mnt/a b\\"]


def test_missing_directory_is_trusted(tmp_path):
    trust.check(tmp_path / "absent")
    trust.check_layer(tmp_path / "absent")


@pytest.mark.parametrize("container", [True, False])
def test_container_is_recognised(machine, container):
    machine(owner=ME, mode=0o755, container=container)
    assert trust._in_a_container() == container


# ---- in a cache


@pytest.mark.parametrize("place", ["root", "entry"])
@pytest.mark.parametrize("noted", [True, False])
def test_cache_writable_by_strangers_is_neither_read_nor_written(
    entries, open_cache, header, records_at_once, place, noted
):
    built = entries.build(RECIPE, Builder(header))
    if noted:
        assert loader_lookup(entries) == built and records_of(entries) != []
    {"root": entries.root, "entry": built.directory}[place].chmod(0o777)
    with pytest.raises(CacheError, match="can be written by everybody"):
        loader_lookup(open_cache())
    builder = Builder(header)
    with pytest.raises(CacheError, match="can be written by everybody"):
        open_cache().build(RECIPE, builder)
    assert builder.calls == 0
    assert loader_lookup(open_cache(shared=True)) == built


def test_build_in_an_untrusted_cache_is_rejected_before_it_begins(open_cache, header, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    builder = Builder(header)
    with pytest.raises(CacheError, match="can be written by everybody"):
        open_cache().build(RECIPE, builder)
    assert builder.calls == 0 and list((tmp_path / "cache").iterdir()) == []
    assert open_cache(shared=True).build(RECIPE, builder).shared_object.is_file()


def test_new_cache_is_checked_after_its_creation(entries, header, monkeypatch):
    """An untrusted user may have created it first."""
    checked = []
    monkeypatch.setattr(
        trust, "check", lambda directory: checked.append((directory, Path(directory).exists())) or False
    )
    entries.build(RECIPE, Builder(header))
    assert (str(entries.root), True) in checked
    entries.warm_lookup("none")
    assert entries.build(recipe_with_part("flags", "-O0"), Builder(header))
    assert checked.count((str(entries.root), True)) > 1, "a directory that was missing must be checked again"


def test_each_directory_is_checked_once(entries, header, monkeypatch):
    entries.build(RECIPE, Builder(header))
    checked = []
    monkeypatch.setattr(trust, "check", lambda directory: not checked.append(directory))
    for _ in range(3):
        entries.lookup(RECIPE)
    assert len(checked) == len(set(checked)) > 0


def test_layer_writable_by_strangers_is_rejected(open_cache, header, tmp_path, records_at_once):
    layer = open_cache(tmp_path / "layer")
    built = layer.build(RECIPE, Builder(header))
    options = {"root": tmp_path / "own", "layers": [layer.root]}
    assert loader_lookup(open_cache(**options)) == built
    for directory in (built.directory, layer.root):
        directory.chmod(0o777)
        with pytest.raises(CacheError, match="TKJIT_CACHE_READONLY"):
            open_cache(**options).lookup(RECIPE)
        assert open_cache(**options, shared=True).lookup(RECIPE) == built
        directory.chmod(0o755)


@pytest.mark.parametrize("name", ["v1", "v1/cpython-311", "v1/cpython-311/notes", "v1/cpython-311/sm_90a"])
def test_directories_inside_the_cache_are_checked(entries, open_cache, header, name, records_at_once):
    entries.build(RECIPE, Builder(header))
    assert loader_lookup(entries)
    (entries.root / name).chmod(0o777)
    with pytest.raises(CacheError, match="can be written by everybody"):
        loader_lookup(open_cache(entries.root))


@pytest.mark.parametrize("has_valid", [False, True], ids=["alone", "with a valid entry"])
def test_record_that_refers_outside_the_cache_is_rejected(
    entries, open_cache, header, tmp_path, records_at_once, has_valid
):
    entries.build(RECIPE, Builder(header))
    assert loader_lookup(entries)
    (note,) = records_of(entries)
    (subjects, more), lines = fingerprints.read_record(note)
    evil = [str(tmp_path / "evil"), "evil.so", ""]
    fingerprints.write_record(note, [[*subjects, evil] if has_valid else [evil], more], lines)
    with pytest.raises(CacheError, match="which is outside of the cache"):
        loader_lookup(open_cache(entries.root))
