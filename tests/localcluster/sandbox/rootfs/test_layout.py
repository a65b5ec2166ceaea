"""Which operations make the root of a container, on hosts that are only written down."""

import collections
import errno
import posixpath
from collections.abc import Iterable

import pytest

from windlass.localcluster.sandbox.messages import Mount
from windlass.localcluster.sandbox.rootfs import layout
from windlass.localcluster.sandbox.rootfs.layout import (
    Bind,
    Kind,
    MakeFile,
    MakeFolder,
    MakeLink,
    MountTerminals,
)

LOCKED = object()
Tree = dict[str, object]

# A folder is a dict, a link the text in a tuple, anything else a file.
HOST: Tree = {
    "bin": ("usr/bin",),
    "dev": {"null": "", "ptmx": "", "pts": {"0": ""}, "usb": {}},
    "etc": {
        "hosts": "",
        "mtab": ("../proc/self/mounts",),
        "resolv.conf": ("../run/resolve/stub",),
        "ssl": {},
    },
    "notes": "",
    "loop": ("loop",),
    "proc": {"self": {}},
    "root": LOCKED,
    "run": {"resolve": {"stub": ""}},
    "usr": {"bin": {"sh": ""}, "share": {"man": {}}},
    "var": {"run": ("/run",)},
    "vol": {"data": {"sub": {}, "up": ("../etc/ssl",)}, "file": "", "other": {}, "way": ("data",)},
    "images": {},
}
# What is in the way of no test.
REST = {"images", "loop", "notes", "root", "vol"}


class Written:
    """A layout.Host."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.listed: collections.Counter[str] = collections.Counter()

    def kind(self, path: str) -> Kind | None:
        found = self._at(path)
        if isinstance(found, tuple):
            return Kind.LINK
        if found is None:
            return None
        return Kind.FOLDER if isinstance(found, dict) or found is LOCKED else Kind.FILE

    def kind_following_links(self, path: str) -> Kind | None:
        found = self._at(path)
        if isinstance(found, tuple):
            return self.kind_following_links(
                posixpath.normpath(posixpath.join(posixpath.dirname(path), found[0]))
            )
        return self.kind(path)

    def read_link(self, path: str) -> str:
        found = self._at(path)
        return found[0] if isinstance(found, tuple) else ""

    def entries(self, folder: str) -> Iterable[tuple[str, Kind]]:
        self.listed[folder] += 1
        found = self._at(folder)
        if found is LOCKED:
            raise PermissionError(errno.EACCES, "Permission denied", folder)
        assert isinstance(found, dict), folder
        for name in found:
            kind = self.kind(posixpath.join(folder, name))
            assert kind
            yield name, kind

    def _at(self, path: str) -> object:
        found: object = self._tree
        for name in filter(None, path.split("/")):
            found = found.get(name) if isinstance(found, dict) else None
        return found


def with_image(image: Tree) -> Tree:
    return {**HOST, "images": {"one": image}}


def made(tree: Tree, *mounts: Mount, image: str = "", directory: str = "/") -> tuple[layout.Operation, ...]:
    return layout.operations(Written(tree), mounts, image, directory)


def whole(path: str, kind: Kind = Kind.FOLDER) -> list[layout.Operation]:
    """An entry of the host as it is."""
    return [MakeFolder(path) if kind is Kind.FOLDER else MakeFile(path), Bind(path, path, is_required=False)]


def without_the_usual(operations: Iterable[layout.Operation], *opened: str) -> list[layout.Operation]:
    """Less what is bound whole at the top for any container."""
    names = ({"dev", "etc", "run", "usr", "var"} - {path.strip("/") for path in opened}) | REST
    usual: list[layout.Operation] = [MakeLink("/bin", "usr/bin"), MakeLink("/loop", "loop")]
    for name in sorted(names - {"loop"}):
        usual += whole(f"/{name}", Kind.FILE if name == "notes" else Kind.FOLDER)
    found = list(operations)
    for each in usual:
        found.remove(each)
    return found


def test_root_without_mounts_is_the_host_without_proc() -> None:
    found = made({"bin": ("usr/bin",), "notes": "", "proc": {}, "sys": {}, "usr": {"bin": {}}})
    assert found == (
        MakeLink("/bin", "usr/bin"),
        *whole("/notes", Kind.FILE),
        *whole("/sys"),
        *whole("/usr"),
    )


DATA = Bind("/vol/data", "/data")

MOUNTS: dict[str, tuple[list[Mount], list[str], list[layout.Operation]]] = {
    "over a folder that is there": (
        [Mount("/vol/data", "/etc/ssl", read_only=True)],
        [],
        [Bind("/vol/data", "/etc/ssl", read_only=True)],
    ),
    "over a file that is there": ([Mount("/vol/file", "/etc/hosts")], [], [Bind("/vol/file", "/etc/hosts")]),
    "a source that is a link to a folder": (
        [Mount("/vol/way", "/etc/ssl")],
        [],
        [Bind("/vol/way", "/etc/ssl")],
    ),
    "through a link to a file": (
        [Mount("/vol/file", "/etc/resolv.conf")],
        [],
        [Bind("/vol/file", "/run/resolve/stub")],
    ),
    "new at the top": (
        [Mount("/vol/data", "/a/b/")],
        [],
        [MakeFolder("/a"), MakeFolder("/a/b"), Bind("/vol/data", "/a/b")],
    ),
    "a new file at the top": (
        [Mount("/vol/file", "/a/../a/f")],
        [],
        [MakeFolder("/a"), MakeFile("/a/f"), Bind("/vol/file", "/a/f")],
    ),
    "new in a folder, which is opened": (
        [Mount("/vol/data", "/var/lib/x")],
        ["/var"],
        [
            MakeFolder("/var", "/var"),
            MakeLink("/var/run", "/run"),
            MakeFolder("/var/lib"),
            MakeFolder("/var/lib/x"),
            Bind("/vol/data", "/var/lib/x"),
        ],
    ),
    "new in a folder of a folder, and both are opened": (
        [Mount("/vol/file", "/usr/share/f")],
        ["/usr"],
        [
            MakeFolder("/usr", "/usr"),
            *whole("/usr/bin"),
            MakeFolder("/usr/share", "/usr/share"),
            *whole("/usr/share/man"),
            MakeFile("/usr/share/f"),
            Bind("/vol/file", "/usr/share/f"),
        ],
    ),
    "two new ones in one folder": (
        [Mount("/vol/data", "/run/a"), Mount("/vol/other", "/run/b")],
        ["/run"],
        [
            MakeFolder("/run", "/run"),
            *whole("/run/resolve"),
            MakeFolder("/run/a"),
            MakeFolder("/run/b"),
            Bind("/vol/data", "/run/a"),
            Bind("/vol/other", "/run/b"),
        ],
    ),
    "new behind an absolute link": (
        [Mount("/vol/data", "/var/run/secrets")],
        ["/run"],
        [
            MakeFolder("/run", "/run"),
            *whole("/run/resolve"),
            MakeFolder("/run/secrets"),
            Bind("/vol/data", "/run/secrets"),
        ],
    ),
    "new behind a relative link": (
        [Mount("/vol/file", "/bin/tool")],
        ["/usr"],
        [
            MakeFolder("/usr", "/usr"),
            MakeFolder("/usr/bin", "/usr/bin"),
            *whole("/usr/bin/sh", Kind.FILE),
            MakeFile("/usr/bin/tool"),
            *whole("/usr/share"),
            Bind("/vol/file", "/usr/bin/tool"),
        ],
    ),
    "new among the devices, which brings terminals of its own": (
        [Mount("/vol/file", "/dev/termination-log")],
        ["/dev"],
        [
            MakeFolder("/dev", "/dev"),
            *whole("/dev/null", Kind.FILE),
            MakeLink("/dev/ptmx", "pts/ptmx"),
            MakeFolder("/dev/pts"),
            *whole("/dev/usb"),
            MakeFile("/dev/termination-log"),
            MountTerminals("/dev/pts"),
            Bind("/vol/file", "/dev/termination-log"),
        ],
    ),
    "an earlier one in a folder that is opened later": (
        [Mount("/vol/file", "/run/resolve/stub"), Mount("/vol/data", "/run/resolve/new")],
        ["/run"],
        [
            MakeFolder("/run", "/run"),
            MakeFolder("/run/resolve", "/run/resolve"),
            *whole("/run/resolve/stub", Kind.FILE),
            MakeFolder("/run/resolve/new"),
            Bind("/vol/file", "/run/resolve/stub"),
            Bind("/vol/data", "/run/resolve/new"),
        ],
    ),
    "inside another, where there is a place": (
        [Mount("/vol/data", "/data", read_only=True), Mount("/vol/other", "/data/sub")],
        [],
        [MakeFolder("/data"), Bind("/vol/data", "/data", read_only=True), Bind("/vol/other", "/data/sub")],
    ),
    "inside another, where a place is made in the volume": (
        [Mount("/vol/data", "/data"), Mount("/vol/file", "/data/a/f"), Mount("/vol/other", "/data/a/b")],
        [],
        [
            MakeFolder("/data"),
            DATA,
            MakeFolder("/data/a"),
            MakeFile("/data/a/f"),
            Bind("/vol/file", "/data/a/f"),
            MakeFolder("/data/a/b"),
            Bind("/vol/other", "/data/a/b"),
        ],
    ),
    "inside another, behind a link that leads out of it": (
        [Mount("/vol/data", "/data"), Mount("/vol/other", "/data/up")],
        [],
        [MakeFolder("/data"), DATA, Bind("/vol/other", "/etc/ssl")],
    ),
    "over the folder around an earlier one": (
        [
            Mount("/vol/other", "/usr/share/man"),
            Mount("/vol/data", "/usr/share"),
            Mount("/vol/file", "/bin/../share/man"),
        ],
        [],
        [
            Bind("/vol/other", "/usr/share/man"),
            Bind("/vol/data", "/usr/share"),
            MakeFile("/usr/share/man"),
            Bind("/vol/file", "/usr/share/man"),
        ],
    ),
}


@pytest.mark.parametrize(("mounts", "opened", "expected"), MOUNTS.values(), ids=MOUNTS)
def test_mounts(mounts: list[Mount], opened: list[str], expected: list[layout.Operation]) -> None:
    assert without_the_usual(made(HOST, *mounts), *opened) == expected


HIDDEN = Mount("/vol/other", "/vol/data", read_only=True, hides=True)
HIDING = Bind("/vol/other", "/vol/data", read_only=True)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/etc/ssl", [Bind("/usr", "/etc/ssl"), HIDING]),
        ("/vol", [Bind("/usr", "/vol")]),
        # A mount through a link replaces the folder to which the link leads.
        ("/to-vol", [Bind("/usr", "/vol")]),
    ],
)
def test_folder_of_the_host_is_hidden_unless_a_mount_replaces_it(
    target: str, expected: list[layout.Operation]
) -> None:
    tree = {**HOST, "to-vol": ("vol",)}
    found = made(tree, Mount("/usr", target), HIDDEN)
    assert [each for each in found if isinstance(each, Bind) and each.is_required] == expected


def test_missing_folder_is_not_hidden() -> None:
    mount = Mount("/vol/other", "/home/windlass", read_only=True, hides=True)
    assert made(HOST, mount) == made(HOST)


REFUSED = {
    "a folder over a file": (
        [Mount("/vol/data", "/etc/hosts")],
        "mounting /vol/data at /etc/hosts: not a directory: cannot mount a directory on the file /etc/hosts",
    ),
    "a file over a folder": (
        [Mount("/vol/file", "/etc/ssl")],
        "mounting /vol/file at /etc/ssl: not a directory: cannot mount the file /vol/file on the directory /etc/ssl",
    ),
    "inside a file": (
        [Mount("/vol/data", "/etc/hosts/x")],
        "mounting /vol/data at /etc/hosts/x: not a directory: /etc/hosts is a file",
    ),
    "a source that is not there": (
        [Mount("/vol/none", "/data")],
        "mounting /vol/none at /data: /vol/none does not exist",
    ),
    "no place in a volume that is read-only": (
        [Mount("/vol/data", "/data", read_only=True), Mount("/vol/other", "/data/new/x")],
        "mounting /vol/other at /data/new/x: /data is mounted read-only and does not contain new",
    ),
    "in a folder that cannot be read": (
        [Mount("/vol/data", "/root/x")],
        ("mounting /vol/data at /root/x: cannot read /root: Permission denied"),
    ),
    "the whole root": (
        [Mount("/vol/data", "/")],
        "mounting /vol/data at /: cannot mount over /",
    ),
    "processes": (
        [Mount("/vol/data", "/proc/x")],
        "mounting /vol/data at /proc/x: cannot mount in /proc: /proc/x",
    ),
    "processes behind a link": (
        [Mount("/vol/file", "/etc/mtab")],
        "mounting /vol/file at /etc/mtab: cannot mount in /proc: /proc/self/mounts",
    ),
    "a link to itself": (
        [Mount("/vol/file", "/loop/x")],
        "mounting /vol/file at /loop/x: too many levels of symbolic links: /loop/x",
    ),
}


@pytest.mark.parametrize(("mounts", "message"), REFUSED.values(), ids=REFUSED)
def test_impossible_mount_is_rejected(mounts: list[Mount], message: str) -> None:
    with pytest.raises(layout.LayoutError) as caught:
        made(HOST, *mounts)
    assert str(caught.value) == message


ONE = "/images/one"

IMAGES: dict[str, tuple[Tree, list[str], list[layout.Operation]]] = {
    "nothing in it": ({}, [], []),
    "new files and folders at the top": (
        {"get_ips.sh": "", "benchmarks": {"scripts": {}}},
        [],
        [
            MakeFile("/get_ips.sh"),
            Bind(f"{ONE}/get_ips.sh", "/get_ips.sh"),
            MakeFolder("/benchmarks"),
            Bind(f"{ONE}/benchmarks", "/benchmarks"),
        ],
    ),
    "a file that the host has too": (
        {"etc": {"hosts": ""}},
        [],
        [Bind(f"{ONE}/etc/hosts", "/etc/hosts")],
    ),
    "a folder that the host has too": (
        {"usr": {"share": {"doc": {}}}},
        ["/usr"],
        [
            MakeFolder("/usr", "/usr"),
            *whole("/usr/bin"),
            MakeFolder("/usr/share", "/usr/share"),
            *whole("/usr/share/man"),
            MakeFolder("/usr/share/doc"),
            Bind(f"{ONE}/usr/share/doc", "/usr/share/doc"),
        ],
    ),
    "a folder that is a link on the host": ({"bin": {"sh": ""}}, [], [Bind(f"{ONE}/bin/sh", "/usr/bin/sh")]),
    "the same link": ({"bin": ("usr/bin",), "var": {"run": ("/run",)}}, [], []),
    "a file where the host has a link": (
        {"var": {"run": ""}},
        ["/var"],
        [MakeFolder("/var", "/var"), MakeFile("/var/run"), Bind(f"{ONE}/var/run", "/var/run")],
    ),
    "a link where the host has a folder": (
        {"usr": {"share": ("bin",)}},
        ["/usr"],
        [MakeFolder("/usr", "/usr"), *whole("/usr/bin"), MakeLink("/usr/share", "bin")],
    ),
    "a folder where the host has a file": (
        {"etc": {"hosts": {}}},
        ["/etc"],
        [
            MakeFolder("/etc", "/etc"),
            MakeFolder("/etc/hosts"),
            Bind(f"{ONE}/etc/hosts", "/etc/hosts"),
            MakeLink("/etc/mtab", "../proc/self/mounts"),
            MakeLink("/etc/resolv.conf", "../run/resolve/stub"),
            *whole("/etc/ssl"),
        ],
    ),
    "processes of its own": ({"proc": {"1": {}}}, [], []),
}


@pytest.mark.parametrize(("image", "opened", "expected"), IMAGES.values(), ids=IMAGES)
def test_images(image: Tree, opened: list[str], expected: list[layout.Operation]) -> None:
    found = without_the_usual(made(with_image(image), image=ONE), *opened)
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_mount_in_an_image_directory_does_not_change_the_image() -> None:
    tree = with_image({"srv": {"a": {"f": ""}}})
    assert without_the_usual(made(tree, Mount("/vol/data", "/srv/a/new"), image=ONE)) == [
        MakeFolder("/srv", f"{ONE}/srv"),
        MakeFolder("/srv/a", f"{ONE}/srv/a"),
        MakeFile("/srv/a/f"),
        Bind(f"{ONE}/srv/a/f", "/srv/a/f"),
        MakeFolder("/srv/a/new"),
        Bind("/vol/data", "/srv/a/new"),
    ]


def test_mount_hides_files_of_the_image() -> None:
    tree = with_image({"opt": {"app": {"f": ""}}})
    mounts = (Mount("/vol/data", "/opt/app"), Mount("/vol/other", "/opt/app/f"))
    *_, last = made(tree, *mounts, image=ONE)
    assert last == Bind("/vol/other", "/opt/app/f")


def test_read_only_root_protects_host_and_image_but_not_devices_and_mounts() -> None:
    tree = with_image({"srv": {"f": ""}, "etc": {"hosts": ""}})
    mounts = (Mount("/vol/data", "/data"), Mount("/vol/file", "/dev/log"))
    found = layout.operations(Written(tree), mounts, ONE, is_read_only=True)
    writable = [each.target for each in found if isinstance(each, Bind) and not each.read_only]
    assert writable == ["/dev/null", "/dev/usb", "/data", "/dev/log"]


def test_restricted_container_has_listed_devices_and_read_only_sys() -> None:
    listed = {
        "fd": ("/proc/self/fd",),
        "null": "",
        "nvidia0": "",
        "nvidia-caps": {},
        "pts": {},
        "ptmx": "",
        "shm": {},
    }
    tree = {
        "dev": {**listed, "mem": "", "sda": "", "mapper": {"vg": ""}, "loop0": ""},
        "sys": {"fs": {}},
        "usr": {},
    }
    found = layout.operations(Written(tree), (), is_restricted=True)
    links = [each.path for each in found if isinstance(each, MakeLink)]
    assert links == ["/dev/fd", "/dev/ptmx"]
    bound = {each.target: each.read_only for each in found if isinstance(each, Bind)}
    devices = ("/dev/null", "/dev/nvidia-caps", "/dev/nvidia0", "/dev/shm")  # noqa: S108 — in the container
    assert bound == {**dict.fromkeys(devices, False), "/sys": True, "/usr": False}


@pytest.mark.parametrize("is_restricted", [True, False])
def test_hidden_devices_do_not_appear(is_restricted: bool) -> None:
    caps = {"nvidia-cap1": "", "nvidia-cap2": ""}
    tree: Tree = {
        "dev": {"null": "", "nvidia0": "", "nvidia1": "", "nvidiactl": "", "nvidia-caps": caps},
        "usr": {},
    }
    hidden = ("/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap2", "/dev/nvidia7", "/dev/dri/renderD128")
    found = layout.operations(Written(tree), (), is_restricted=is_restricted, hidden_devices=hidden)
    bound = {each.target for each in found if isinstance(each, Bind)}
    devices = {"/dev/null", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-caps/nvidia-cap1"}
    assert bound == devices | {"/usr"}


@pytest.mark.parametrize("image", ["/images/none", "/notes"])
def test_image_without_directory_is_rejected(image: str) -> None:
    with pytest.raises(layout.LayoutError, match=f"local image {image}: no such directory"):
        made(HOST, image=image)


@pytest.mark.parametrize(
    ("directory", "opened", "expected"),
    [
        ("/usr/bin", [], []),
        ("/work/here", [], [MakeFolder("/work"), MakeFolder("/work/here")]),
        ("/var/run/x", ["/run"], [MakeFolder("/run", "/run"), *whole("/run/resolve"), MakeFolder("/run/x")]),
        # The start of the container reports impossible ones.
        ("/etc/hosts", [], []),
        ("/etc/hosts/x", [], []),
        ("/root/x", [], []),
        ("/proc/x", [], []),
    ],
)
def test_working_directories(directory: str, opened: list[str], expected: list[layout.Operation]) -> None:
    assert without_the_usual(made(HOST, directory=directory), *opened) == expected


def test_large_directory_is_read_once() -> None:
    names = [f"f{number}" for number in range(5000)]
    host = Written({"many": dict.fromkeys(names, ""), "vol": {}})
    mounts = [Mount("/vol", f"/many/new{number}") for number in range(100)]
    found = layout.operations(host, mounts)
    assert host.listed == {"/": 1, "/many": 1}
    targets = collections.Counter(each.target for each in found if isinstance(each, Bind))
    assert targets == {"/vol": 1} | {f"/many/{name}": 1 for name in names} | {
        mount.target: 1 for mount in mounts
    }
