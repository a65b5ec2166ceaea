"""The store keeps every acknowledged write, has one order of all changes, and rejects conflicts."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.localcluster import store_types
from windlass.localcluster.store import Store
from windlass.localcluster.store_types import Change


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    one = Store(tmp_path / "cluster.db")
    yield one
    one.close()


def thing(name: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "Thing", "metadata": {"name": name, "uid": f"uid-{name}"}, **fields}


def names(bodies: list[bytes]) -> list[str]:
    return [msgspec.json.decode(body)["metadata"]["name"] for body in bodies]


def test_versions_are_one_sequence_over_all_kinds(opened: Store) -> None:
    first = msgspec.json.decode(opened.create("things", "a", thing("a")))
    second = msgspec.json.decode(opened.create("others", "a", thing("b")))
    third = msgspec.json.decode(opened.update("things", "a", first, expected=1))

    assert [one["metadata"]["resourceVersion"] for one in (second, third)] == ["2", "3"]
    assert opened.version == 3


def test_creating_an_existing_key_is_rejected(opened: Store) -> None:
    kept = opened.create("things", "a", thing("a"))

    with pytest.raises(store_types.AlreadyExistsError):
        opened.create("things", "a", thing("a", size=2))

    assert opened.get("things", "a") == kept
    assert opened.version == 1


@pytest.mark.parametrize("write", ["update", "delete"])
def test_write_on_an_old_version_is_rejected(opened: Store, write: str) -> None:
    opened.create("things", "a", thing("a"))
    kept = opened.update("things", "a", thing("a", size=2), expected=1)
    attempts = {
        "update": lambda: opened.update("things", "a", thing("a", size=3), expected=1),
        "delete": lambda: opened.delete("things", "a", expected=1),
    }

    with pytest.raises(store_types.ConflictError):
        attempts[write]()

    assert opened.get("things", "a") == kept


def test_missing_object_cannot_be_changed(opened: Store) -> None:
    with pytest.raises(store_types.NotFoundError):
        opened.update("things", "a", thing("a"), expected=1)
    with pytest.raises(store_types.NotFoundError):
        opened.delete("things", "a", expected=1)


def test_changes_have_the_object_before_and_after(opened: Store) -> None:
    heard: list[Change] = []
    opened.listen(heard.append)
    created = opened.create("things", "ns/a", thing("a"))
    updated = opened.update("things", "ns/a", thing("a", size=2), expected=1)
    deleted = opened.delete("things", "ns/a", expected=2)

    assert heard == [
        Change(1, "things", "ns/a", None, created),
        Change(2, "things", "ns/a", created, updated),
        Change(3, "things", "ns/a", deleted, None),
    ]
    assert deleted == updated
    assert list(opened.changes("things", "", after=0)) == heard
    assert list(opened.changes("things", "ns", after=1)) == heard[1:]
    assert list(opened.changes("things", "other", after=0)) == []


def test_list_ends_with_its_namespace(opened: Store) -> None:
    for place in ("ns/b", "ns-a/a", "ns/a", "nsx/a", "ns0/a"):
        opened.create("things", place, thing(place.replace("/", ".")))

    assert names(opened.page("things", "ns").bodies) == ["ns.a", "ns.b"]
    assert names(opened.page("things").bodies) == ["ns-a.a", "ns.a", "ns.b", "ns0.a", "nsx.a"]
    assert opened.count("things", "ns") == 2


def test_pages_show_the_version_of_the_first_page(opened: Store) -> None:
    for name in "abcdef":
        opened.create("things", name, thing(name))
    first = opened.page("things", limit=2)
    opened.create("things", "bb", thing("bb"))
    opened.delete("things", "c", expected=3)
    opened.update("things", "d", thing("d", size=9), expected=4)
    opened.delete("things", "a", expected=1)
    second = opened.page("things", after=first.last or "", limit=2, version=first.version)
    third = opened.page("things", after=second.last or "", limit=2, version=first.version)

    assert names(first.bodies) == ["a", "b"]
    assert (first.last, first.remaining) == ("b", 4)
    assert names(second.bodies) == ["c", "d"]
    assert b"size" not in second.bodies[1]
    assert (second.last, second.remaining) == ("d", 2)
    assert names(third.bodies) == ["e", "f"]
    assert (third.last, third.remaining) == (None, 0)


@given(
    writes=st.lists(
        st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from("abcd"), st.integers(0, 9)),
        max_size=30,
    ),
    moment=st.integers(0, 30),
)
def test_every_version_in_the_history_can_be_listed(
    writes: list[tuple[str, str, int]], moment: int, tmp_path_factory: Any
) -> None:
    opened = Store(tmp_path_factory.mktemp("store") / "cluster.db")
    moments = [opened.page("things").bodies]
    for what, name, size in writes:
        body = opened.get("things", name)
        expected = int(msgspec.json.decode(body)["metadata"]["resourceVersion"]) if body else 0
        if what == "put" and body:
            opened.update("things", name, thing(name, size=size), expected)
        elif what == "put":
            opened.create("things", name, thing(name, size=size))
        elif body:
            opened.delete("things", name, expected)
        if opened.version == len(moments):
            moments.append(opened.page("things").bodies)
    version = min(moment, opened.version)

    assert opened.page("things", version=version).bodies == moments[version]
    opened.close()


def test_history_is_bounded_in_length(tmp_path: Path) -> None:
    opened = Store(tmp_path / "cluster.db", history_length=20)
    for number in range(100):
        opened.create("things", f"{number:03}", thing(str(number)))
    kept = list(opened.changes("things", "", after=opened.compacted_version))

    assert 18 <= len(kept) <= 20
    assert opened.compacted_version == 100 - len(kept)
    with pytest.raises(store_types.CompactedError):
        opened.changes("things", "", after=opened.compacted_version - 1)
    with pytest.raises(store_types.CompactedError):
        opened.page("things", version=opened.compacted_version - 1)
    opened.close()


def test_history_is_bounded_in_bytes(tmp_path: Path) -> None:
    opened = Store(tmp_path / "cluster.db", history_bytes=100_000)
    for number in range(40):
        opened.create("things", str(number), thing(str(number), text="x" * 10_000))

    assert 1 <= len(list(opened.changes("things", "", after=opened.compacted_version))) <= 10
    opened.close()


def test_everything_survives_a_restart(tmp_path: Path) -> None:
    first = Store(tmp_path / "cluster.db", history_length=5)
    for name in "abcdefgh":
        first.create("things", name, thing(name))
    seen = (
        first.version,
        first.compacted_version,
        list(first.changes("things", "", first.compacted_version)),
    )
    first.close()
    second = Store(tmp_path / "cluster.db", history_length=5)

    assert (
        second.version,
        second.compacted_version,
        list(second.changes("things", "", second.compacted_version)),
    ) == seen
    assert names(second.page("things").bodies) == list("abcdefgh")
    second.close()


def test_owners_are_found_by_uid(opened: Store) -> None:
    owned = thing("a")
    owned["metadata"]["ownerReferences"] = [{"uid": "uid-x"}, {"uid": "uid-y"}]
    opened.create("things", "a", owned)
    assert opened.owned_by("uid-x") == opened.owned_by("uid-y") == opened.all_owned() == [("things", "a")]

    owned["metadata"]["ownerReferences"] = [{"uid": "uid-y"}]
    opened.update("things", "a", owned, expected=1)
    assert opened.owned_by("uid-x") == []

    opened.delete("things", "a", expected=2)
    assert opened.owned_by("uid-y") == opened.all_owned() == []


WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from windlass.localcluster.store import Store

    store = Store(Path(sys.argv[1]), history_length=50)
    number = store.version
    while True:
        number += 1
        name = f"{number:06}"
        store.create("things", name, {"metadata": {"name": name, "uid": name}, "text": "x" * (number % 5000)})
        sys.stdout.write(f"{name}\\n")
        sys.stdout.flush()
    """
)


def test_kill_at_any_time_loses_no_acknowledged_write(tmp_path: Path) -> None:
    path = tmp_path / "cluster.db"
    acknowledged: list[str] = []
    for writes_before_the_kill in (1, 40, 200, 777):
        writer = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _, line in zip(range(writes_before_the_kill), writer.stdout, strict=False):
            acknowledged.append(line.strip())
        writer.kill()
        acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]
        writer.stdout.close()
        assert writer.wait() == -signal.SIGKILL

    opened = Store(path, history_length=50)
    found = names(opened.page("things").bodies)
    # At each kill one write may have been stored without an acknowledgement.
    assert set(acknowledged) <= set(found)
    assert len(found) - len(acknowledged) <= 4
    assert opened.version == len(found)
    opened.close()


def test_second_server_is_rejected(opened: Store, tmp_path: Path) -> None:
    with pytest.raises(store_types.StoreError, match="another server is using it"):
        Store(tmp_path / "cluster.db")
    opened.create("things", "a", thing("a"))


def test_data_of_a_newer_release_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "cluster.db"
    Store(path).close()
    sql = sqlite3.connect(path)
    sql.execute("PRAGMA user_version = 7")
    sql.close()
    before = path.read_bytes()

    with pytest.raises(
        store_types.StoreError, match=r"newer release wrote it \(data version 7, supported: 1\)"
    ):
        Store(path)
    assert path.read_bytes() == before


def test_file_that_is_not_a_database_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "cluster.db"
    path.write_bytes(b"a letter, not a database\n" * 100)

    with pytest.raises(store_types.StoreError, match="it is damaged or not a Windlass database"):
        Store(path)
    assert path.read_bytes() == b"a letter, not a database\n" * 100


@pytest.mark.parametrize("damage", ["overwritten", "truncated"])
def test_damaged_database_is_rejected_with_a_remedy(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "cluster.db"
    opened = Store(path, history_length=5)
    for number in range(200):
        opened.create("things", f"{number:04}", thing(f"{number:04}", text="x" * 1000))
    opened.close()
    with path.open("r+b") as file:
        if damage == "truncated":
            file.truncate(path.stat().st_size // 2)
        else:
            file.seek(path.stat().st_size // 2)
            file.write(bytes(range(256)) * 64)
    before = path.read_bytes()

    with pytest.raises(store_types.StoreError) as rejected:
        Store(path)
    (message,) = str(rejected.value).splitlines()
    assert message.startswith(f"cannot use {path}: it is damaged or not a Windlass database (")
    assert message.endswith(
        f"run `windlass local reset --data-dir {tmp_path}` to delete all data of this cluster."
    )
    assert path.read_bytes() == before


def test_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(store_types.StoreError, match=r"cannot use the data directory .*file"):
        Store(tmp_path / "file" / "cluster.db")


FILLER = textwrap.dedent(
    """
    import resource, signal, sys
    from pathlib import Path
    from windlass.localcluster.store import Store, StoreError

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = Store(Path(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    kept = 0
    try:
        while True:
            name = f"{kept:06}"
            store.create("things", name, {"metadata": {"name": name, "uid": name}, "text": "x" * 20_000})
            kept += 1
    except StoreError as error:
        assert "cannot store the object" in str(error), error
    assert store.version == kept == len(store.page("things").bodies)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.create("things", "room again", {"metadata": {"name": "room again", "uid": "again"}})
    print(kept + 1)
    """
)


def test_full_disk_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cluster.db"
    filled = subprocess.run(  # noqa: S603
        [sys.executable, "-c", FILLER, str(path)], capture_output=True, text=True, check=False, env=os.environ
    )
    assert filled.returncode == 0, filled.stderr

    opened = Store(path)
    assert len(opened.page("things").bodies) == opened.version == int(filled.stdout)
    opened.close()
