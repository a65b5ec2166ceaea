"""Roots that are really built: by root, where the tests run as root, and by an ordinary user.

Each is built in a process of its own, which then becomes a shell that looks around in it.
"""

import functools
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import msgspec
import pytest

from windlass.localcluster.sandbox import messages
from windlass.localcluster.sandbox.messages import Mount, Security

pytestmark = pytest.mark.pods

NOBODY = 65534
UNRESTRICTED = Security()

# The user is changed here and not before Python starts, since only its owner may be able to read it. With `masks`, part
# of /proc is hidden, as in another container. A look in Python is evaluated at once. `replaced` is a path that another
# container replaces by a link after the layout was computed.
PROGRAM = """
import ctypes, os, sys
import msgspec
from windlass.localcluster.sandbox import kernel, messages
from windlass.localcluster.sandbox.rootfs import layout, root

plan, scratch, look, user, masks, replaced, link = sys.argv[1:]
user = int(user)
operations = layout.operations

def then_replace(*arguments, **options):
    made = operations(*arguments, **options)
    os.rename(replaced, replaced + "-moved")
    os.symlink(link, replaced)
    return made

if replaced:
    layout.operations = then_replace

def become_user():
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    # Otherwise /proc/self would still be root's.
    PR_SET_DUMPABLE = 4
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)

def enter(flags, own_users):
    kernel.unshare(flags | (kernel.CLONE_NEWUSER if own_users else 0))
    if own_users:
        kernel.map_own_user(user, user_group)

if user != os.getuid():
    become_user()
user_group = os.getgid()
os.umask(0o077)
if masks:
    enter(kernel.CLONE_NEWNS, own_users=user != 0)
    kernel.mount("tmpfs", "/proc/fs", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
enter(kernel.CLONE_NEWNS | kernel.CLONE_NEWPID, own_users=masks or user != 0)
# As systemd has it: what is mounted shows wherever this is shared with.
MS_SHARED = 1 << 20
kernel.mount(None, "/", None, kernel.MS_REC | MS_SHARED)
child = os.fork()
if child == 0:
    try:
        root.build_and_enter(msgspec.json.decode(plan, type=messages.ContainerPlan), scratch)
    except root.RootError as error:
        print(error, flush=True)
        os._exit(1)
    if look.startswith("import "):
        exec(look)
        sys.stdout.flush()
        os._exit(0)
    os.execv("/bin/sh", ["sh", "-c", look])
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Builder:
    """Builds roots as a user, from the directory of a pod with an empty `scratch`."""

    def __init__(self, user: int, pod: pathlib.Path) -> None:
        self.user = user
        self.pod = pod

    def write(self, path: str, text: str = "") -> str:
        """A file in the pod's folder."""
        file = self.pod / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self._hand_over()
        return str(file)

    def folder(self, path: str) -> str:
        (self.pod / path).mkdir(parents=True, exist_ok=True)
        self._hand_over()
        return str(self.pod / path)

    def look(
        self,
        command: str,
        *mounts: Mount,
        image: str = "",
        directory: str = "/",
        masks_proc: bool = False,
        security: Security = UNRESTRICTED,
        replaced: str = "",
        link: str = "",
        hidden_devices: tuple[str, ...] = (),
    ) -> str:
        """Return the output of a shell in the new root, or the error."""
        plan = messages.ContainerPlan(
            *("id", "main", (), {}, directory, mounts, "", image),
            security=security,
            hidden_devices=hidden_devices,
        )
        scratch, masks = f"{self.pod}/scratch", "yes" if masks_proc else ""
        words = (msgspec.json.encode(plan).decode(), scratch, command, str(self.user), masks, replaced, link)
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", PROGRAM, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stdout.strip()

    def _hand_over(self) -> None:
        if self.user != os.getuid():
            for path in (self.pod, *self.pod.rglob("*")):
                os.chown(path, self.user, self.user, follow_symlinks=False)


@functools.cache
def why_not(user: int) -> str:
    """Why the kernel lets this user have no namespaces; empty where it does."""
    with tempfile.TemporaryDirectory(prefix="windlass-root-") as folder:
        *_, last = builder_in(pathlib.Path(folder), user).look("echo works").splitlines()
    return last if "unshare(" in last else ""


def builder_in(pod: pathlib.Path, user: int) -> Builder:
    builder = Builder(user, pod)
    builder.folder("scratch")
    return builder


@pytest.fixture(params=["root", "user"])
def builder(request: pytest.FixtureRequest) -> Iterator[Builder]:
    if request.param == "root" and os.getuid() != 0:
        pytest.skip("not root")
    user = 0 if request.param == "root" else os.getuid() or NOBODY
    if why_not(user):
        pytest.skip(why_not(user))
    before = state_of_host()
    # Not the directory of pytest, which only its owner can enter.
    with tempfile.TemporaryDirectory(prefix="windlass-root-") as pod:
        yield builder_in(pathlib.Path(pod), user)
        assert names_in(pathlib.Path(pod, "scratch")) == []
    assert state_of_host() == before


def names_in(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def state_of_host() -> tuple[list[str], list[str]]:
    """Return its mounts, and the existing paths at which the tests mount something. Network namespaces of other
    processes, which `ip netns` mounts, are not included."""
    places = ("/windlass", "/dev/termination-log", "/usr/bin/windlass-file", "/usr/bin/windlass-tool")
    folders = ("/var/lib/windlass-none", "/root/windlass-none", f"{tempfile.gettempdir()}/windlass-none")
    mounts = pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    return [mount for mount in mounts if not mount.startswith("nsfs ")], [
        path for path in (*places, *folders, "/get_ips.sh", "/benchmarks") if os.path.lexists(path)
    ]


def test_root_contains_the_files_of_the_host(builder: Builder) -> None:
    assert builder.look("ls -A /").split() == names_in(pathlib.Path("/"))
    assert builder.look(f"cat {builder.write('file', 'text')}") == "text"
    assert builder.look("test -c /dev/null && test -d /sys/kernel && echo there") == "there"


def test_hidden_devices_do_not_exist(builder: Builder) -> None:
    """Device files that every machine has stand for those of GPUs."""
    hidden = ("/dev/full", "/dev/pts/ptmx", "/dev/nvidia77")
    found = builder.look("ls /dev; echo text > /dev/null && echo works", hidden_devices=hidden).split()
    assert {"null", "zero", "works"} <= {*found}
    assert "full" not in found


def test_process_is_pid_1_of_its_namespace(builder: Builder) -> None:
    assert builder.look("echo $$; id -u; pwd").split() == [
        "1",
        str(builder.user),
        "/",
    ]


def test_new_root_does_not_contain_itself(builder: Builder) -> None:
    assert builder.look(f"ls -A {builder.pod}/scratch; grep -c {builder.pod} /proc/self/mounts") == "0"
    assert builder.look("grep -c unbindable /proc/self/mountinfo") == "0"


def test_mounts(builder: Builder) -> None:
    file = builder.write("file", "of the pod")
    volume = builder.folder("volume")
    builder.write("volume/inner", "of the volume")
    mounts = (
        Mount(file, "/etc/hosts"),
        Mount(file, "/dev/termination-log"),
        Mount(file, "/usr/bin/windlass-file", read_only=True),
        Mount(volume, "/windlass/a/b"),
        Mount(volume, "/var/lib/windlass-none/x", read_only=True),
    )
    looks = (
        "cat /etc/hosts; echo",
        "cat /windlass/a/b/inner; echo",
        "cat /bin/windlass-file; echo",
        "touch /windlass/a/b/new && echo made",
        "touch /var/lib/windlass-none/x/new 2>/dev/null || echo refused",
        "echo x 2>/dev/null >/usr/bin/windlass-file || echo refused",
        "printf bye >/dev/termination-log",
        "test -c /dev/null && test -d /var/lib/dpkg -o -d /var/cache && echo beside",
    )
    assert builder.look("; ".join(looks), *mounts).splitlines() == [
        "of the pod",
        "of the volume",
        "of the pod",
        "made",
        "refused",
        "refused",
        "beside",
    ]
    assert (builder.pod / "file").read_text() == "bye"
    assert names_in(builder.pod / "volume") == ["inner", "new"]


def test_links_are_resolved_in_the_new_root(builder: Builder) -> None:
    image = builder.folder("image")
    builder.write("image/windlass/kept")
    (builder.pod / "image/absolute").symlink_to("/windlass")
    (builder.pod / "image/relative").symlink_to("windlass/../windlass")
    mounts = (Mount(builder.folder("one"), "/absolute/a"), Mount(builder.folder("two"), "/relative/b"))
    assert builder.look("ls /windlass; readlink /absolute", *mounts, image=image).split() == [
        "a",
        "b",
        "kept",
        "/windlass",
    ]
    assert names_in(builder.pod / "image/windlass") == ["kept"]


def test_nested_mount_point_is_created_in_the_volume(builder: Builder) -> None:
    outer, inner = builder.folder("outer"), builder.folder("inner")
    builder.write("inner/file", "inside")
    mounts = (Mount(outer, "/windlass"), Mount(inner, "/windlass/a/b"), Mount(f"{inner}/file", "/windlass/f"))
    assert builder.look("cat /windlass/a/b/file /windlass/f", *mounts) == "insideinside"
    assert names_in(builder.pod / "outer") == ["a", "f"]


def test_sub_path_that_becomes_a_link_is_not_followed(builder: Builder) -> None:
    """The mounted directory is the one that was checked."""
    builder.write("outside/file", "of the host")
    volume = builder.folder("volume")
    inside = builder.write("volume/s/file", "of the volume")
    mount = Mount(volume, "/windlass", sub_path="s")
    found = builder.look(
        "cat /windlass/file", mount, replaced=str(pathlib.Path(inside).parent), link=f"{builder.pod}/outside"
    )
    assert found == "of the volume"


@pytest.mark.parametrize("source", ["inner", "inner/file"])
def test_mount_point_is_not_created_behind_a_new_link(builder: Builder, source: str) -> None:
    outside, volume = builder.folder("outside"), builder.folder("volume")
    shared = builder.folder("volume/shared")
    builder.write("inner/file")
    mounts = (Mount(volume, "/windlass"), Mount(f"{builder.pod}/{source}", "/windlass/shared/new"))
    said = builder.look("echo started", *mounts, replaced=shared, link=outside)
    assert "Too many levels of symbolic links" in said
    assert names_in(builder.pod / "outside") == []


def test_mount_is_not_attached_behind_a_new_link(builder: Builder) -> None:
    volume, shared = builder.folder("volume"), builder.folder("volume/shared")
    mounts = (Mount(volume, "/windlass"), Mount(builder.folder("inner"), "/windlass/shared"))
    said = builder.look("echo started", *mounts, replaced=shared, link="/etc")
    assert said.endswith("/windlass/shared: Too many levels of symbolic links")


def test_file_of_the_host_that_becomes_a_link_is_left_out(builder: Builder) -> None:
    """The directory around a new mount point is opened, and its entries are mounted one by one."""
    builder.write("outside/file", "of another folder")
    beside = builder.folder("opened/beside")
    mount = Mount(builder.folder("inner"), f"{builder.pod}/opened/new")
    look = f"ls {builder.pod}/opened"
    assert builder.look(look, mount, replaced=beside, link=f"{builder.pod}/outside") == "new"


def test_read_only_mount_keeps_locked_flags(builder: Builder) -> None:
    """A remount that leaves out flags of the mount below is refused in a user namespace."""
    look = "grep ' /windlass ' /proc/self/mounts | cut -d' ' -f4 | cut -d, -f1-4"
    mount = Mount("/proc/fs", "/windlass", read_only=True)
    assert builder.look(look, mount, masks_proc=True) == "ro,nosuid,nodev,noexec"


def test_folder_of_the_host_is_hidden_behind_a_replaced_link(builder: Builder) -> None:
    builder.write("real/data/token")
    builder.folder("links")
    (builder.pod / "links/link").symlink_to("../real")
    volume = Mount(builder.folder("volume"), f"{builder.pod}/links")
    hiding = Mount(builder.folder("none"), f"{builder.pod}/real/data", read_only=True, hides=True)
    assert builder.look(f"ls -A {builder.pod}/real/data {volume.target}", volume, hiding).split() == [
        f"{builder.pod}/links:",
        f"{builder.pod}/real/data:",
    ]
    assert names_in(builder.pod / "volume") == []


def test_restricted_container_sees_no_disks(builder: Builder) -> None:
    look = "find /dev -exec test -b {} ';' -print; for path in /proc/sys/kernel/core_pattern /sys/kernel; do"
    look += " test -w $path && echo $path; done; echo x > /dev/null && echo works"
    assert builder.look(look, security=Security(capabilities=0)) == "works"


def test_image_is_merged_over_the_host(builder: Builder) -> None:
    image = builder.folder("image")
    builder.write("image/get_ips.sh", "echo 10.0.0.1")
    builder.write("image/benchmarks/scripts/run.py", "run")
    builder.write("image/etc/passwd", "of the image\n")
    builder.write("image/usr/bin/windlass-tool", "tool")
    looks = (
        "sh /get_ips.sh",
        "cat /benchmarks/scripts/run.py; echo",
        "cat /etc/passwd",
        "cat /bin/windlass-tool; echo",
        "test -x /usr/bin/env && test -e /etc/group && echo beside",
    )
    expected = ["10.0.0.1", "run", "of the image", "tool", "beside"]
    assert builder.look("; ".join(looks), image=image).splitlines() == expected


def test_missing_working_directory_is_created(builder: Builder) -> None:
    """Any user of the container can enter it, whatever the umask of the daemon."""
    look = "cd /windlass/work && pwd; stat -c %a /windlass/work; umask"
    assert builder.look(look, directory="/windlass/work").split() == ["/windlass/work", "755", "0077"]


def test_terminals_work_in_an_opened_dev(builder: Builder) -> None:
    """The kernel finds no terminals for a device that is bound by itself."""
    command = "import os; print(os.ttyname(os.openpty()[1]))"
    for mounts in ((), (Mount(builder.write("log"), "/dev/termination-log"),)):
        assert builder.look(command, *mounts).startswith("/dev/pts/")


def test_opened_directories_keep_their_mode(builder: Builder) -> None:
    mode = f"{pathlib.Path(tempfile.gettempdir()).stat().st_mode & 0o7777:o}"
    mount = Mount(builder.folder("volume"), f"{tempfile.gettempdir()}/windlass-none")
    assert builder.look(f"stat -c %a {tempfile.gettempdir()}", mount) == mode


def test_proc_of_the_host_is_the_fallback(builder: Builder) -> None:
    """The PID in it is not the one that the process has for itself."""
    look = "test $(readlink /proc/self) != $$ && echo other; test -e /proc/self/mounts && echo there"
    assert builder.look(look, masks_proc=True).split() == ["other", "there"]
    assert builder.look("test $(readlink /proc/self) -lt 10 && echo own") == "own"


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            "folder",
            "/etc/passwd",
            "not a directory: cannot mount a directory on the file /etc/passwd",
        ),
        ("file", "/etc", "not a directory: cannot mount the file {pod}/file on the directory /etc"),
        ("none", "/windlass", "{pod}/none does not exist"),
        (
            "folder",
            "/dev/pts/x",
            "No such file or directory",
        ),
    ],
)
def test_impossible_mount_is_reported(builder: Builder, source: str, target: str, message: str) -> None:
    builder.folder("folder")
    builder.write("file")
    said = builder.look("true", Mount(f"{builder.pod}/{source}", target))
    assert said == f"mounting {builder.pod}/{source} at {target}: {message.format(pod=builder.pod)}"


def test_unreadable_directory_is_not_opened(builder: Builder) -> None:
    if pathlib.Path("/root").stat().st_mode & 0o004:
        pytest.skip("/root is readable for all users on this machine")
    mount = Mount(builder.folder("folder"), "/root/windlass-none")
    refusal = f"mounting {mount.source} at {mount.target}: cannot read /root"
    assert builder.look("echo entered", mount).startswith("entered" if builder.user == 0 else refusal)


def test_directory_of_the_pod_can_be_opened(builder: Builder) -> None:
    mount = Mount(builder.folder("folder"), f"{builder.pod}/new")
    builder.write("beside")
    assert builder.look(f"ls {builder.pod}", mount).split() == ["beside", "folder", "new"]
    assert names_in(builder.pod) == ["beside", "folder", "scratch"]
