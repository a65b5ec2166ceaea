"""Files and folders of the node in a pod, and what has to be at such a path."""

import pytest
from pods.place import Place
from pods.specs import host_path, mounted

REFUSED = {
    "Directory": "is not a directory",
    "File": "is not a file",
    "Socket": "is not a socket file",
    "CharDevice": "is not a character device",
    "BlockDevice": "is not a block device",
}


@pytest.mark.parametrize(("kind", "words"), REFUSED.items(), ids=REFUSED)
def test_pod_waits_for_a_missing_path(
    place: Place, host_folder: str, kind: str, words: str, by_release: str
) -> None:
    pod = place.start(mounted("true"), volumes=host_path(host_folder, kind))
    message = pod.event("FailedMount", words)["message"]
    check = by_release.format(path=host_folder, words=words)
    assert message == f'MountVolume.SetUp failed for volume "data" : {check}'
    assert pod.waiting("ContainerCreating").phase == "Pending"


@pytest.mark.parametrize(
    ("kind", "path"), [("File", "/etc"), ("Directory", "/etc/passwd"), ("Socket", "/etc")]
)
def test_path_of_another_type_is_rejected(place: Place, kind: str, path: str) -> None:
    pod = place.start(mounted("true"), volumes=host_path(path, kind))
    pod.event("FailedMount", f"hostPath type check failed: {path} {REFUSED[kind]}")


@pytest.mark.parametrize(
    ("kind", "path"),
    [("", "/etc"), ("Directory", "/etc"), ("File", "/etc/passwd"), ("CharDevice", "/dev/null")],
)
def test_existing_path_is_mounted(place: Place, kind: str, path: str) -> None:
    pod = place.start(mounted("stat -c %F /at", at="/at"), volumes=host_path(path, kind))
    kinds = {"/etc": "directory", "/etc/passwd": "regular file", "/dev/null": "character special file"}
    assert pod.output() == [kinds[path]]


@pytest.mark.parametrize("kind", ["DirectoryOrCreate", ""])
def test_missing_directory_is_created(place: Place, host_folder: str, kind: str) -> None:
    """Without a type nothing is checked; what is not there is made by the container runtime."""
    first = place.start(mounted("echo hello > /data/word"), volumes=host_path(host_folder, kind))
    assert first.output() == []
    second = place.start(mounted("cat /data/word"), volumes=host_path(host_folder, "Directory"))
    assert second.output() == ["hello"]


def test_created_directory_is_not_world_writable(place: Place, host_folder: str) -> None:
    pod = place.start(mounted("stat -c %a /data"), volumes=host_path(host_folder, "DirectoryOrCreate"))
    assert pod.output() == ["755"]


def test_missing_file_is_created(place: Place, host_folder: str) -> None:
    """The parent directory must exist: it is not created."""
    folder = place.start(mounted("true"), volumes=host_path(host_folder, "DirectoryOrCreate"))
    assert folder.output() == []
    script = "stat -c '%a %s' /file; echo hello >> /file; cat /file"
    pod = place.start(mounted(script, at="/file"), volumes=host_path(f"{host_folder}/f", "FileOrCreate"))
    assert pod.output() == ["644 0", "hello"]


def test_pod_starts_when_the_path_appears(place: Place, host_folder: str) -> None:
    late = place.start(mounted("echo here"), volumes=host_path(host_folder, "Directory"))
    late.event("FailedMount")
    maker = place.start(mounted("true"), volumes=host_path(host_folder, "DirectoryOrCreate"))
    assert maker.output() == []
    assert late.output() == ["here"]


LISTEN = """
import socket, time
with socket.socket(socket.AF_UNIX) as one:
    one.bind("/data/socket")
    one.listen()
    print("listening", flush=True)
    connection, _ = one.accept()
    connection.sendall(b"hello")
"""
CALL = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/at'); print(s.recv(9).decode())"


def test_socket_is_mounted(place: Place, host_folder: str) -> None:
    server = place.start(
        mounted(["python3", "-c", LISTEN]), volumes=host_path(host_folder, "DirectoryOrCreate")
    )
    server.says("listening")
    client = place.start(
        mounted(["python3", "-c", CALL], at="/at"), volumes=host_path(f"{host_folder}/socket", "Socket")
    )
    assert client.output() == ["hello"]
    assert server.ended().phase == "Succeeded"
