"""Volumes where a container sees them: shared, kept, read-only, in part, and in places that were not there."""

from typing import Any

import pytest
from pods.place import Place
from pods.specs import config_map, container, field, mount, mounted, scratch


def test_two_containers_share_a_volume(place: Place) -> None:
    reader = mounted("until [ -e /in/word ]; do sleep 0.1; done; cat /in/word", at="/in", name="reader")
    writer = mounted("echo hello > /out/new; mv /out/new /out/word", at="/out", name="writer")
    pod = place.start(reader, writer, volumes=scratch())
    assert pod.ended().phase == "Succeeded"
    assert pod.log(container="reader") == "hello\n"


def test_two_pods_do_not_share_an_empty_dir(place: Place) -> None:
    first = place.start(mounted("touch /data/x; ls -A /data"), volumes=scratch())
    second = place.start(mounted("ls -A /data"), volumes=scratch())
    assert (first.output(), second.output()) == (["x"], [])


def test_empty_dir_survives_a_restart(place: Place) -> None:
    script = "echo run >> /data/runs; [ $(wc -l < /data/runs) = 2 ]"
    pod = place.start(mounted(script), volumes=scratch(), restartPolicy="OnFailure")
    seen = pod.ended()
    assert (seen.phase, seen.restarts()) == ("Succeeded", 1)


def test_empty_dir_is_world_writable(place: Place) -> None:
    assert place.start(mounted("stat -c %a /data"), volumes=scratch()).output() == ["777"]


def test_memory_volume_has_a_size_limit(place: Place) -> None:
    script = "stat -f -c %T /data; df -B 1M --output=size /data | tail -n 1; head -c 9000000 /dev/zero 2>&1 > /data/x"
    volumes = scratch(medium="Memory", sizeLimit="8Mi")
    limits = {"limits": {"memory": "512Mi"}}
    pod = place.start(mounted(script, resources=limits), volumes=volumes)
    assert pod.ended().phase == "Failed"
    kind, size, message = pod.log().split("\n", 2)
    assert (kind, size.strip()) == ("tmpfs", "8")
    assert "No space left on device" in message


def test_containers_of_a_pod_share_64_mebibytes_of_memory(place: Place) -> None:
    script = "until [ -e /dev/shm/word ]; do sleep 0.1; done; cat /dev/shm/word"
    script += "; stat -f -c %T /dev/shm; stat -c %a /dev/shm; df -B 1M --output=size /dev/shm | tail -n 1"
    writer = container("echo hello > /dev/shm/new; mv /dev/shm/new /dev/shm/word", name="writer")
    pod = place.start(container(script, name="reader"), writer)
    other = place.start("ls -A /dev/shm")
    assert pod.ended().phase == "Succeeded"
    assert pod.log(container="reader").split() == ["hello", "tmpfs", "1777", "64"]
    assert other.output() == []


def test_volume_replaces_the_shared_memory(place: Place) -> None:
    script = "df -B 1M --output=size /dev/shm | tail -n 1"
    limits = {"limits": {"memory": "512Mi"}}
    volumes = scratch(medium="Memory", sizeLimit="96Mi")
    pod = place.start(mounted(script, at="/dev/shm", resources=limits), volumes=volumes)  # noqa: S108
    assert [line.strip() for line in pod.output()] == ["96"]


READ_ONLY = "touch /data/x 2>&1 && exit 9; cat /data/word"


def test_read_only_mount(place: Place) -> None:
    writer = mounted("echo hello > /data/word", name="writer")
    reader = container(READ_ONLY, volumeMounts=[mount("/data", readOnly=True)])
    pod = place.start(reader, initContainers=[writer], volumes=scratch())
    *said, last = pod.output()
    assert last == "hello"
    assert any("Read-only file system" in line for line in said)


def test_config_map_volume_is_read_only(place: Place) -> None:
    place.create(config_map("words", word="hello"))
    volumes = [{"name": "data", "configMap": {"name": "words"}}]
    assert place.start(mounted(READ_ONLY), volumes=volumes).output()[-1] == "hello"


@pytest.mark.parametrize("path", ["/there/was/none", "/data", "/usr/local/share/new", "/etc/windlass-test/x"])
def test_missing_mount_path_is_created(place: Place, path: str) -> None:
    script = f"echo hello > {path}/x && cat {path}/x"
    assert place.start(mounted(script, at=path), volumes=scratch()).output() == ["hello"]


def test_mount_hides_existing_files(place: Place) -> None:
    assert place.start(mounted("ls -A /opt", at="/opt"), volumes=scratch()).output() == []


def test_nested_mounts(place: Place) -> None:
    place.create(config_map("words", word="hello"))
    volumes = [*scratch(), {"name": "words", "configMap": {"name": "words"}}]
    mounts = [mount("/data/inner/words", "words"), mount("/data")]
    run = "touch /data/x; ls /data; cat /data/inner/words/word"
    pod = place.start(container(run, volumeMounts=mounts), volumes=volumes)
    assert pod.output() == ["inner", "x", "hello"]


def test_one_volume_mounted_twice(place: Place) -> None:
    mounts = [mount("/one"), mount("/two")]
    pod = place.start(container("echo x > /one/a; cat /two/a", volumeMounts=mounts), volumes=scratch())
    assert pod.output() == ["x"]


def test_sub_path(place: Place) -> None:
    first = mounted("mkdir -p /data/a/b; echo deep > /data/a/b/c; echo top > /data/top", name="first")
    mounts = [mount("/dir", subPath="a/b"), mount("/file", subPath="top"), mount("/new", subPath="not/yet")]
    main = container("cat /dir/c /file; ls -A /dir /new | grep -c top; true", volumeMounts=mounts)
    pod = place.start(main, initContainers=[first], volumes=scratch())
    assert pod.output() == ["deep", "top", "0"]


def test_config_map_file_over_an_existing_file(place: Place) -> None:
    place.create(config_map("words", word="hello"))
    volumes = [{"name": "data", "configMap": {"name": "words"}}]
    main = container("cat /etc/issue", volumeMounts=[mount("/etc/issue", subPath="word")])
    assert place.start(main, volumes=volumes).output() == ["hello"]


def test_sub_path_expr(place: Place) -> None:
    env = [field("POD_NAME", "metadata.name")]
    mounts = [mount("/mine", subPathExpr="of-$(POD_NAME)"), mount("/all")]
    run = "touch /mine/x; ls /all; ls /all/*"
    pod = place.start(container(run, env=env, volumeMounts=mounts), volumes=scratch(), name="me")
    assert pod.output() == ["of-me", "x"]


def test_devices_are_available(place: Place) -> None:
    script = "head -c 3 /dev/zero | wc -c; echo x > /dev/null; head -c 5 /dev/urandom | wc -c"
    script += "; [ -d /dev/shm ] && [ -e /proc/self ] && echo both"
    assert place.start(script).output() == ["3", "5", "both"]


def claim(name: str, **spec: Any) -> dict[str, Any]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": wanted}


def test_claim_outlives_its_pods(place: Place, storage: dict[str, Any]) -> None:
    place.create(claim("kept", **storage))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "kept"}}]
    first = place.start(mounted("echo hello > /data/word"), volumes=volumes)
    assert first.output() == []
    first.delete()
    first.wait_until_gone()
    assert place.start(mounted("cat /data/word"), volumes=volumes).output() == ["hello"]


def test_read_only_claim(place: Place, storage: dict[str, Any]) -> None:
    place.create(claim("kept", **storage))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "kept", "readOnly": True}}]
    assert place.start(mounted("touch /data/x 2> /dev/null || echo no"), volumes=volumes).output()[-1] == "no"


def test_pod_waits_for_a_missing_claim(place: Place) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "none"}}]
    pod = place.start(mounted("true"), volumes=volumes)
    message = pod.event("FailedScheduling")["message"]
    assert 'persistentvolumeclaim "none" not found' in message
    assert pod.seen().phase == "Pending"
