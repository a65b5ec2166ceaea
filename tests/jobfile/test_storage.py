"""Diagnostics of the storage of a job file."""

import textwrap

import pytest

from windlass.jobfile import reader, volumes
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import parse as yaml_parse

VALID = textwrap.dedent(
    """\
    name: digits
    command: python train.py
    secrets: {TOKEN: "a:b#c"}
    nfsServer: {size: 5Gi}
    volumes:
      data: {share: /data, at: /data}
      home: {hostPath: /srv, at: /home, nodes: [n1, n2]}
      deep: {pvc: claim, at: /data/deep}
      ceph: {cephfs: {clusterID: c, fsName: f, secret: s}, at: /ceph}
      own: {emptyDir: {}, at: /scratch}
      conf: {configMap: c, at: /conf}
    loadData:
    - {to: /data/a, url: "https://example.com/a.tgz"}
    - {to: /data/b, folder: b}
    - {to: /data, command: make data}
    needs: [/data/a/x, /conf/y]
    roles:
      worker: {tasks: 2}
    """
)
SUM = "ab" * 32


def diagnostics_of(text: str) -> list[Diagnostic]:
    (document,) = yaml_parse.parse(text.encode()).documents
    return [*document.diagnostics, *reader.check(document.root, "")]


def replaced(old: str, new: str) -> str:
    assert VALID.count(old) == 1, old
    return VALID.replace(old, new)


def test_valid_storage_has_no_diagnostics() -> None:
    assert diagnostics_of(VALID) == []


SUPERFLUOUS = replaced("share: /data, at", "pvc: x, nodes: [n1], at")
INVALID: dict[str, tuple[str, int, str, str]] = {
    # text, line, path, words of the message
    "a secret that is a number": (replaced('"a:b#c"', "5"), 3, "secrets.TOKEN", "put it in quotes"),
    "a secret that comes from somewhere": (
        replaced('"a:b#c"', "{secretKeyRef: {name: a, key: b}}"),
        3,
        "secrets.TOKEN",
        "found a mapping, expected a string",
    ),
    "more than a Secret holds": (
        replaced('"a:b#c"', "é" * 600_000),
        3,
        "secrets",
        "found 1200000 bytes, but a Secret holds 1048576",
    ),
    "a secret's name": (replaced("TOKEN", "1T"), 3, 'secrets["1T"]', "the name of a variable"),
    "a secret that no Secret has": (replaced("TOKEN", "..T"), 3, 'secrets["..T"]', "invalid key of a Secret"),
    "a secret with a NUL": (replaced("a:b#c", "a\\0b"), 3, "secrets.TOKEN", "found a NUL character"),
    "a secret that is a variable": (
        replaced("command: python", "env: {TOKEN: x}\ncommand: python"),
        2,
        "env.TOKEN",
        "is also defined in secrets",
    ),
    "a secret that is a variable of a role": (
        replaced("tasks: 2", "env: {TOKEN: x}"),
        18,
        "roles.worker.env.TOKEN",
        "is also defined in secrets",
    ),
    "a share without a server": (
        replaced("nfsServer: {size: 5Gi}", "ttl: 5"),
        6,
        "volumes.data.share",
        "add nfsServer: {size: 10Gi}",
    ),
    "a relative share": (
        replaced("share: /data,", "share: data,"),
        6,
        "volumes.data.share",
        "such as /data or",
    ),
    "a share with ..": (
        replaced("share: /data,", "share: /a/../b,"),
        6,
        "volumes.data.share",
        'without ".."',
    ),
    "the whole server": (
        replaced("share: /data,", "share: /,"),
        6,
        "volumes.data.share",
        "a folder of the NFS",
    ),
    "a share with a quote": (
        replaced("share: /data,", "share: '/a\"b',"),
        6,
        "volumes.data.share",
        "letters",
    ),
    "a share and a claim": (
        replaced("share: /data", "share: /data, pvc: x"),
        6,
        "volumes.data",
        "share and pvc",
    ),
    "no size": (replaced("5Gi", "0"), 4, "nfsServer.size", "a size above 0"),
    "no size at all": (replaced("5Gi", "big"), 4, "nfsServer.size", "a size above 0"),
    "a storage class": (
        replaced("5Gi", "5Gi, storageClass: A_b"),
        4,
        "nfsServer.storageClass",
        "of an object",
    ),
    "a server's image": (replaced("5Gi", "5Gi, image: a b"), 4, "nfsServer.image", "without spaces"),
    "nodes of a claim": (SUPERFLUOUS, 6, "volumes.data.nodes", "this volume has none: remove nodes"),
    "a node's name": (replaced("[n1, n2]", "[N1]"), 7, "volumes.home.nodes[0]", "the name of an object"),
    "a node without a name": (replaced("[n1, n2]", "['']"), 7, "volumes.home.nodes[0]", "the name of a node"),
    "no node for all": (
        replaced("deep: {pvc: claim,", "deep: {hostPath: /x, nodes: [n3],"),
        8,
        "volumes.deep.nodes",
        "no node has this folder",
    ),
    "a Ceph cluster without a name": (
        replaced("clusterID: c", "clusterID: ''"),
        9,
        "volumes.ceph.cephfs.clusterID",
        "a name",
    ),
    "a Ceph file system": (
        replaced("fsName: f", "fsName: a b"),
        9,
        "volumes.ceph.cephfs.fsName",
        "without spaces",
    ),
    "no key for Ceph": (
        replaced(", secret: s", ""),
        9,
        "volumes.ceph.cephfs",
        'missing required field "secret"',
    ),
    "a relative folder of Ceph": (
        replaced("fsName: f", "fsName: f, path: x"),
        9,
        "volumes.ceph.cephfs.path",
        'begins with "/"',
    ),
    "a namespace of Ceph's key": (
        replaced("fsName: f", "fsName: f, secretNamespace: A"),
        9,
        "volumes.ceph.cephfs.secretNamespace",
        "a DNS label",
    ),
    "the removed field monitors": (
        replaced("clusterID: c", "monitors: [m]"),
        9,
        "volumes.ceph.cephfs.monitors",
        "clusterID",
    ),
    "a claim's name that is taken": (
        replaced("  ceph:", "  nfs:"),
        9,
        "volumes.nfs",
        "the claim of the NFS server",
    ),
    "a relative need": (replaced("/data/a/x", "data/x"), 16, "needs[0]", 'begins with "/"'),
    "a need with ..": (replaced("/data/a/x", "/data/../etc"), 16, "needs[0]", 'without ".."'),
    "a need outside all volumes": (
        replaced("/data/a/x", "/etc/x"),
        16,
        "needs[0]",
        "in a volume of the job: /data, /home, /data/deep",
    ),
    "a need next to a volume": (
        replaced("/data/a/x", "/database"),
        16,
        "needs[0]",
        "expected a path in a volume",
    ),
    "a need in a task volume": (
        replaced("/data/a/x", "/scratch/x"),
        16,
        "needs[0]",
        "in volume own, which is empty when a task starts",
    ),
    "no source": (replaced(', url: "https://example.com/a.tgz"', ""), 13, "loadData[0]", "found no source"),
    "two sources": (
        replaced("folder: b", "folder: b, command: x"),
        14,
        "loadData[1]",
        "found folder and command",
    ),
    "no target": (replaced("to: /data/b, ", ""), 14, "loadData[1]", 'missing required field "to"'),
    "a target outside all volumes": (
        replaced("to: /data/b", "to: /b"),
        14,
        "loadData[1].to",
        "expected a path in a volume",
    ),
    "a target with ..": (replaced("to: /data/b", "to: /data/.."), 14, "loadData[1].to", 'without ".."'),
    "a target in a task volume": (
        replaced("to: /data/b", "to: /scratch"),
        14,
        "loadData[1].to",
        "in volume own, which is empty when a task starts",
    ),
    "a read-only target": (
        replaced("to: /data/b", "to: /conf"),
        14,
        "loadData[1].to",
        "which is read-only",
    ),
    "a URL of another scheme": (
        replaced("https://example", "file://example"),
        13,
        "loadData[0].url",
        "begins with https://",
    ),
    "a URL without a host": (
        replaced("https://example.com", "https://"),
        13,
        "loadData[0].url",
        "begins with https://",
    ),
    "a URL with an invalid port": (
        replaced("example.com", "example.com:x"),
        13,
        "loadData[0].url",
        "begins with",
    ),
    "a URL with a space": (replaced("a.tgz", "a b.tgz"), 13, "loadData[0].url", "begins with https://"),
    "a URL without a file name": (replaced("/a.tgz", "/a/"), 13, "loadData[0].url", "the URL of a file"),
    "a URL with ..": (
        replaced("/a.tgz", "/a/%2e%2e"),
        13,
        "loadData[0].url",
        "the URL of a file",
    ),
    "a short checksum": (
        replaced('a.tgz"', 'a.tgz", sha256: abc'),
        13,
        "loadData[0].sha256",
        "64 hexadecimal digits",
    ),
    "a checksum of a folder": (
        replaced("folder: b", f"folder: b, sha256: {SUM}"),
        14,
        "loadData[1].sha256",
        "applies only to a url",
    ),
    "an empty command": (replaced("make data", "' '"), 15, "loadData[2].command", "the command is empty"),
    "a loader's image": (
        replaced("folder: b", "folder: b, image: a b"),
        14,
        "loadData[1].image",
        "without spaces",
    ),
    "a long name with a server": (
        replaced("digits", "d" * 60),
        1,
        "name",
        "with nfsServer, a name has at most 59 characters",
    ),
}


@pytest.mark.parametrize(("text", "line", "path", "words"), INVALID.values(), ids=INVALID.keys())
def test_mistake_is_reported_at_its_field(text: str, line: int, path: str, words: str) -> None:
    found = diagnostics_of(text)
    assert any((each.line, each.path) == (line, path) and words in each.message for each in found), found
    assert all(each.is_error for each in found)


def test_misspelt_source_has_one_diagnostic() -> None:
    (found,) = diagnostics_of(replaced("folder: b", "foldr: b"))
    assert (found.line, found.path) == (14, "loadData[1].foldr")


def test_long_name_without_storage_is_valid() -> None:
    assert diagnostics_of(f"name: {'d' * 63}\ncommand: x\nroles: {{worker: {{}}}}") == []


VOLUME_OF_PATH: dict[str, tuple[str, tuple[str, str] | None]] = {
    "the volume itself": ("/data", ("data", "")),
    "below it": ("/data//a/./b/", ("data", "a/b")),
    "in one within another": ("/data/deep/x", ("deep", "x")),
    "beside": ("/database", None),
    "above": ("/", None),
}


@pytest.mark.parametrize(("path", "expected"), VOLUME_OF_PATH.values(), ids=VOLUME_OF_PATH.keys())
def test_volume_of_a_path(path: str, expected: tuple[str, str] | None) -> None:
    assert volumes.volume_at({"data": "/data", "deep": "/data/deep/"}, path) == expected
