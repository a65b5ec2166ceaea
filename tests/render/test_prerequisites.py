"""Prerequisites of a job: their order, namespace and contents."""

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.model.base import Json
from windlass.model.job import CephFs, Job, LoadData, NfsServer, Role, Volume
from windlass.render.framework import builder, pods
from windlass.render.manifest_parts import Part
from windlass.render.prerequisites import objects_of
from windlass.render.storage import servers
from windlass.render.storage.nfs_shares import Direct, Served, Share


def job(**fields: Any) -> Job:
    return Job(**{"name": "digits", "image": "i:1", "command": "x", "roles": {"worker": Role()}, **fields})


CEPH = CephFs(cluster_id="c1", fs_name="fs", path="/p", secret="key")  # noqa: S106 — a name
EVERYTHING = job(
    secrets={"B": "b", "A": "a"},
    code="src",
    nfs_server=NfsServer(),
    volumes={
        "data": Volume(at="/data", share="/data"),
        "models": Volume(at="/models", share="/models/a/b/", sub_path="c"),
        "ceph": Volume(at="/ceph", cephfs=CEPH),
    },
    load_data=(LoadData(to="/data/a", folder="a"),),
    needs=("/data/a/x",),
)


def made_of(
    made: Job, *, share: Share | None = None, archive: bytes | None = None
) -> list[tuple[Part, Json]]:
    objects = objects_of(made, share=share, archive=archive, folders={"a": b"packed"})
    return [(rendered.part, rendered.body) for rendered in objects]


def one(made: list[tuple[Part, Json]], kind: str, part: Part | None = None) -> Json:
    (found,) = (body for of, body in made if body["kind"] == kind and part in (None, of))
    return found


def test_job_without_prerequisites_has_no_objects() -> None:
    assert made_of(job(volumes={"v": Volume(at="/v", host_path="/h")})) == []


SHARES: dict[str, tuple[Share | None, list[str]]] = {
    "a server": (Served("10.0.0.9"), ["PersistentVolumeClaim", "ConfigMap", "Service", "Deployment"]),
    "unknown": (None, ["PersistentVolumeClaim", "ConfigMap", "Service", "Deployment"]),
    "one machine": (Direct("digits-nfs"), ["PersistentVolumeClaim"]),
}


@pytest.mark.parametrize(("share", "of_the_server"), SHARES.values(), ids=SHARES.keys())
def test_prerequisites_are_in_order_of_creation(share: Share | None, of_the_server: list[str]) -> None:
    made = made_of(EVERYTHING, share=share, archive=b"code")
    assert [(part, body["kind"]) for part, body in made] == [
        (Part.SECRETS, "Secret"),
        (Part.VOLUMES, "PersistentVolume"),
        (Part.VOLUMES, "PersistentVolumeClaim"),
        *((Part.NFS, kind) for kind in of_the_server),
        (Part.CODE, "ConfigMap"),
        (Part.LOAD_DATA, "ConfigMap"),
        (Part.LOAD_DATA, "Job"),
        (Part.PREFLIGHT, "Pod"),
    ]


@pytest.mark.parametrize("namespace", ["team", ""])
def test_prerequisites_have_namespace_and_job_label(namespace: str) -> None:
    everything = msgspec.structs.replace(EVERYTHING, namespace=namespace)
    made = made_of(everything, archive=b"code")
    for _, body in made:
        assert body["metadata"]["labels"]["windlass.dev/job"] == "digits"
        in_one = body["kind"] != "PersistentVolume"
        assert body["metadata"].get("namespace") == ((namespace or None) if in_one else None)
    assert one(made, "PersistentVolume")["spec"]["claimRef"]["namespace"] == (namespace or "default")


def test_ceph_volume_and_claim_are_bound_to_each_other() -> None:
    made = made_of(job(namespace="team", volumes={"v": Volume(at="/v", cephfs=CEPH)}))
    volume, claim = one(made, "PersistentVolume"), one(made, "PersistentVolumeClaim")
    assert volume["metadata"]["name"] == claim["spec"]["volumeName"] == "team-digits-v"
    assert volume["spec"]["claimRef"]["name"] == claim["metadata"]["name"] == "digits-v"
    assert volume["spec"]["storageClassName"] == claim["spec"]["storageClassName"] == ""
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["csi"] == {
        "driver": "cephfs.csi.ceph.com",
        "nodeStageSecretRef": {"name": "key", "namespace": "team"},
        "volumeAttributes": {"clusterID": "c1", "fsName": "fs", "rootPath": "/p", "staticVolume": "true"},
        "volumeHandle": "team-digits-v",
    }
    spec = builder.framework(job(volumes={"v": Volume(at="/v", cephfs=CEPH)}))["spec"]
    mounted = spec["taskRoles"][0]["task"]["pod"]["spec"]["volumes"][0]
    assert mounted["persistentVolumeClaim"] == {"claimName": "digits-v"}


def test_nfs_server_exports_every_folder() -> None:
    deployment = one(made_of(EVERYTHING), "Deployment")["spec"]
    (making,) = deployment["template"]["spec"]["initContainers"]
    assert making["command"][-3:] == ["/export/data", "/export/output", "/export/models/a/b"]
    assert deployment["strategy"] == {"type": "Recreate"}
    text = servers.ganesha_configuration(EVERYTHING)
    assert [line.split('"')[1] for line in text.splitlines() if "Pseudo" in line] == [
        "/data",
        "/output",
        "/models",
    ]
    assert len({line for line in text.splitlines() if "Export_Id" in line}) == 3


def test_changed_configuration_replaces_pod() -> None:
    fewer = job(nfs_server=NfsServer())
    first, second = (one(made_of(each), "Deployment")["spec"]["template"] for each in (fewer, EVERYTHING))
    assert first["metadata"]["annotations"] != second["metadata"]["annotations"]
    assert first["metadata"]["labels"] == second["metadata"]["labels"]


def test_nfs_service_selects_only_the_server() -> None:
    made = made_of(EVERYTHING)
    labels = one(made, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert one(made, "Service")["spec"]["selector"] == labels
    assert one(made, "Pod")["metadata"]["labels"].items().isdisjoint(labels.items())


FOUND: dict[str, tuple[Share, Json, Json]] = {
    "a server": (
        Served("10.0.0.9"),
        {"nfs": {"server": "10.0.0.9", "path": "/models/a/b/"}},
        {"subPath": "c"},
    ),
    "one machine": (
        Direct("digits-nfs"),
        {"persistentVolumeClaim": {"claimName": "digits-nfs"}},
        {"subPath": "models/a/b/c"},
    ),
}


@pytest.mark.parametrize(("share", "source", "mount"), FOUND.values(), ids=FOUND.keys())
def test_tasks_and_helper_pods_mount_same_folder(share: Share, source: Json, mount: Json) -> None:
    task = builder.framework(EVERYTHING, None, share)["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
    helper = one(made_of(EVERYTHING, share=share), "Pod")["spec"]
    for spec in (task, helper):
        assert spec["volumes"][1] == {"name": "models", **source}
        assert spec["containers"][0]["volumeMounts"][1] == {"name": "models", "mountPath": "/models", **mount}


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,9}", fullmatch=True), TEXTS, min_size=1, max_size=4))
def test_secret_value_is_only_in_secret(secrets: dict[str, str]) -> None:
    made = job(secrets=secrets, env={"LAST": "1"})
    secret = one(made_of(made), "Secret")
    assert {name: base64.b64decode(value).decode() for name, value in secret["data"].items()} == secrets
    env = builder.framework(made)["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]["env"]
    references = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in env if "valueFrom" in each}
    assert references == {name: {"name": pods.secret_name("digits"), "key": name} for name in secrets}
