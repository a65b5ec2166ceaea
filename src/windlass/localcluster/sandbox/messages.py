"""The messages between daemon, spawner, supervisors and container init processes.

Messages are tagged maps in MessagePack. Tags and names of fields are part of the protocol: a new daemon communicates
with the supervisors of an older one. So a renamed class or field keeps its name in the protocol (`tag`, `rename`).
Paths are those of the host unless stated otherwise. Arguments and variables are bytes, since not all of them are UTF-8.
"""

import msgspec

# The field `run_id` has the name `container` in the protocol.
_RUN_ID = {"run_id": "container"}


class Mount(msgspec.Struct, frozen=True):
    """A bind mount: `source`, a path in the pod's mount namespace, appears at `target` in the container."""

    source: str
    target: str
    read_only: bool = False
    # Path below `source`, created if it is missing.
    sub_path: str = ""
    # Whether the mount only hides files of the host. It is left out if `target` is missing or inside another mount.
    hides: bool = False


class MemoryFolder(msgspec.Struct, frozen=True, tag=True):
    """A tmpfs. Without a size, the kernel limits it to half of the machine's memory."""

    path: str
    size: int | None = None
    mode: int = 0o777


class NfsFolder(msgspec.Struct, frozen=True, tag=True):
    path: str
    server: str
    export: str
    read_only: bool = False


class Link(msgspec.Struct, frozen=True):
    """The pod's interface in the pod network."""

    address: str
    prefix_length: int
    gateway: str


class PodPlan(msgspec.Struct, frozen=True):
    """The properties that all containers of a pod share. The directory `folder` exists already."""

    uid: str
    folder: str
    hostname: str
    # None for a pod on the host network.
    link: Link | None = None
    volumes: tuple[MemoryFolder | NfsFolder, ...] = ()


class User(msgspec.Struct, frozen=True):
    """User and groups of a process. None: the user or group of the daemon."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()


class Limits(msgspec.Struct, frozen=True):
    memory_bytes: int | None = None
    processes: int | None = None
    # In thousandths of a core.
    cpu_milli: int | None = None


class Security(msgspec.Struct, frozen=True):
    """The restrictions of a container; in `Ready`, those that this machine can apply."""

    no_new_privileges: bool = False
    # Volumes, /proc and /dev stay writable.
    read_only_root: bool = False
    has_seccomp_filter: bool = False
    # Capabilities that the processes can have, as a bit mask; None: those of the daemon.
    capabilities: int | None = None


class ContainerPlan(msgspec.Struct, frozen=True):
    """One run of one container. `id` is unique."""

    id: str
    name: str
    argv: tuple[bytes, ...]
    environment: dict[bytes, bytes]
    # Inside the container.
    working_directory: str
    mounts: tuple[Mount, ...]
    log: str
    # Directory of a local image, whose content appears below / in the container; "" for other images.
    image: str = ""
    user: User = User()
    limits: Limits = Limits()
    security: Security = Security()
    has_stdin: bool = False
    # stdinOnce: close stdin after the first attached client has closed it.
    ends_stdin: bool = False
    is_terminal: bool = False
    # Device files of the host that the container may not see, e.g. /dev/nvidia1.
    hidden_devices: tuple[str, ...] = ()


# To the spawner


class Spawn(msgspec.Struct, frozen=True, tag=True):
    """Start a supervisor that listens at `socket` in the pod's directory. Response: Done or Rejected."""

    call: int
    pod: PodPlan


class Listen(msgspec.Struct, frozen=True, tag=True):
    """Listen at the gateway of the pod network. Response: Opened with one descriptor, or Rejected."""

    call: int
    port: int


# To a supervisor


class Start(msgspec.Struct, frozen=True, tag=True):
    """Start a container. Reports: Started and later Ended; only NotStarted or Ended if it did not start."""

    container: ContainerPlan


class Signal(msgspec.Struct, frozen=True, tag=True, rename=_RUN_ID):
    """Send a signal to the main process of a container. SIGKILL kills all its processes."""

    run_id: str
    number: int


class Execute(msgspec.Struct, frozen=True, tag=True, rename=_RUN_ID):
    """Start another process in a container.

    Response: Opened with stdin, stdout and stderr (or one descriptor of a terminal), or Rejected. Exited
    reports the end of the process.
    """

    call: int
    run_id: str
    argv: tuple[bytes, ...]
    is_terminal: bool = False


class Attach(msgspec.Struct, frozen=True, tag=True, rename=_RUN_ID):
    """Attach to a container. Response: Opened with a copy of the output, and with stdin if open, or Rejected."""

    call: int
    run_id: str


class Connect(msgspec.Struct, frozen=True, tag=True):
    """Connect to a port in the pod's network.

    Response: Opened with a socket whose connection may still be in progress, or Rejected.
    """

    call: int
    port: int
    host: str = "127.0.0.1"


class Namespaces(msgspec.Struct, frozen=True, tag=True):
    """Get the namespaces that a new spawner must join to share the pod network.

    Response: Opened with the user namespace and the network namespace of the bridge; Rejected without a pod network.
    """

    call: int


class Abandon(msgspec.Struct, frozen=True, tag=True):
    """Kill the process of an Execute, or end an Attach."""

    call: int


class End(msgspec.Struct, frozen=True, tag=True):
    """Kill all containers and exit. The connection is closed when everything has ended."""


# From a spawner or a supervisor


class Ready(msgspec.Struct, frozen=True, tag=True, rename={"has_namespaces": "isolates"}):
    """The first message of a spawner: the isolation that it provides.

    `notes` are the reasons for missing isolation or a missing uplink.

    With a pod network, the message has descriptors of the user namespace and of the bridge's network namespace (the
    hub), which the next spawner joins.
    """

    # Pods have their own mounts, PIDs and hostname.
    has_namespaces: bool
    # Gateway of the pod network; empty if pods share the host network.
    gateway: str = ""
    prefix_length: int = 0
    nameservers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    security: Security = Security()


class Done(msgspec.Struct, frozen=True, tag=True):
    call: int


class Opened(msgspec.Struct, frozen=True, tag=True):
    """A successful response with descriptors."""

    call: int


class Rejected(msgspec.Struct, frozen=True, tag="Refused"):
    call: int
    message: str


class Exited(msgspec.Struct, frozen=True, tag=True):
    """The end of an executed process. Signal n yields exit code 128 + n."""

    call: int
    exit_code: int


class Started(
    msgspec.Struct, frozen=True, tag=True, rename=_RUN_ID | {"init_pid": "init", "cgroups": "groups"}
):
    run_id: str
    # Seconds since 1970, like all times here.
    at: float
    # Added by the supervisor: the PID of the init process, and the directories of its cgroup.
    init_pid: int = 0
    cgroups: tuple[str, ...] = ()


class NotStarted(msgspec.Struct, frozen=True, tag=True, rename=_RUN_ID):
    """The process could not be started."""

    run_id: str
    message: str
    at: float


class Ended(msgspec.Struct, frozen=True, tag=True, rename=_RUN_ID):
    run_id: str
    at: float
    exit_code: int
    signal: int = 0
    was_out_of_memory: bool = False


class RunReports(msgspec.Struct, frozen=True, rename=_RUN_ID):
    """The reports about one run so far."""

    run_id: str
    started: Started | None = None
    end: Ended | NotStarted | None = None


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The first message of a supervisor to every client: all its runs.

    `problem` is the error if the sandbox could not be set up; then no container can be started.
    """

    runs: tuple[RunReports, ...]
    problem: str = ""


ToSpawner = Spawn | Listen
ToSupervisor = Start | Signal | Execute | Attach | Connect | Namespaces | Abandon | End
FromSpawner = Ready | Done | Opened | Rejected
FromSupervisor = Opened | Rejected | Exited | Started | NotStarted | Ended | Hello
