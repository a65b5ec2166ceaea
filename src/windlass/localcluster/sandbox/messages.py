"""What daemon, spawner, supervisors and the inits of containers say to each other.

A message is a tagged array in MessagePack. File descriptors travel beside a message where its text says so. Paths are
those of the host unless a field says otherwise; words that a process gets are bytes, since not all of them are text.
"""

import msgspec


class Mount(msgspec.Struct, frozen=True):
    """A file or folder of the host (of the pod's mount namespace, to be exact) that appears at `target`."""

    source: str
    target: str
    read_only: bool = False
    # Below the source, where only the pod's own processes see what is in it: it is made if it is missing.
    sub_path: str = ""


class MemoryFolder(msgspec.Struct, frozen=True, tag=True):
    """A tmpfs; without a size, half of the machine's memory is its bound, as the kernel has it."""

    path: str
    size: int | None = None


class NfsFolder(msgspec.Struct, frozen=True, tag=True):
    path: str
    server: str
    export: str
    read_only: bool = False


class Link(msgspec.Struct, frozen=True):
    """The pod's own network: its address and the way out."""

    address: str
    prefix_length: int
    gateway: str


class PodPlan(msgspec.Struct, frozen=True):
    """What all containers of a pod share. `folder` is there already, and is the pod's own."""

    uid: str
    folder: str
    hostname: str
    # None for a pod on the network of the machine.
    link: Link | None = None
    volumes: tuple[MemoryFolder | NfsFolder, ...] = ()


class User(msgspec.Struct, frozen=True):
    """None is whoever runs the daemon."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()


class Limits(msgspec.Struct, frozen=True):
    memory_bytes: int | None = None
    processes: int | None = None
    # In thousandths of a core.
    cpu_milli: int | None = None


class ContainerPlan(msgspec.Struct, frozen=True):
    """One run of one container. `id` is unlike that of any other run."""

    id: str
    name: str
    argv: tuple[bytes, ...]
    environment: dict[bytes, bytes]
    # Inside the container.
    working_directory: str
    mounts: tuple[Mount, ...]
    log: str
    # A folder whose files appear at the same paths, or empty.
    image: str = ""
    user: User = User()
    limits: Limits = Limits()
    has_stdin: bool = False
    # After the first who is attached to it.
    ends_stdin: bool = False
    is_terminal: bool = False


# To the spawner


class Spawn(msgspec.Struct, frozen=True, tag=True):
    """A supervisor, listening at `socket` in the pod's folder. Answered by Done or Refused."""

    call: int
    pod: PodPlan


class Listen(msgspec.Struct, frozen=True, tag=True):
    """A socket that listens at the gateway of the pods' network: Opened with one descriptor, or Refused."""

    call: int
    port: int


# To a supervisor


class Start(msgspec.Struct, frozen=True, tag=True):
    """Told of by Started or NotStarted, later by Ended."""

    container: ContainerPlan


class Signal(msgspec.Struct, frozen=True, tag=True):
    """To the container's first process; SIGKILL ends every process of the container."""

    container: str
    number: int


class Execute(msgspec.Struct, frozen=True, tag=True):
    """One more process in a container: Opened with its stdin, stdout and stderr (one descriptor for all of them with a
    terminal), or Refused. Its end is told by Exited. `environment` is added to that of the container."""

    call: int
    container: str
    argv: tuple[bytes, ...]
    is_terminal: bool = False


class Attach(msgspec.Struct, frozen=True, tag=True):
    """Opened with the read end of a copy of the output, and stdin if the container has one; or Refused."""

    call: int
    container: str


class Connect(msgspec.Struct, frozen=True, tag=True):
    """To a port on the pod's own network: Opened with a connected socket, or Refused."""

    call: int
    port: int
    host: str = "127.0.0.1"


class Namespaces(msgspec.Struct, frozen=True, tag=True):
    """What a new spawner joins, so that its pods and this one see each other: Opened with the user namespace and the
    hub of the pods' network, or Refused where there is no such network."""

    call: int


class Abandon(msgspec.Struct, frozen=True, tag=True):
    """Kill the process of an Execute, or let go of an Attach."""

    call: int


class End(msgspec.Struct, frozen=True, tag=True):
    """Kill what runs, and go. The connection closes when all is gone."""


# From a spawner or a supervisor


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The first thing a spawner says: what this machine lets it give to pods, and in `notes` why not more.

    Where pods have a network of their own, the user namespace and the hub of that network come with it: what the next
    spawner joins.
    """

    # Mounts, processes and a hostname of their own.
    isolates: bool
    # The pods' own network; empty when they share that of the machine.
    gateway: str = ""
    prefix_length: int = 0
    nameservers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Done(msgspec.Struct, frozen=True, tag=True):
    call: int


class Opened(msgspec.Struct, frozen=True, tag=True):
    """Descriptors come with it."""

    call: int


class Refused(msgspec.Struct, frozen=True, tag=True):
    call: int
    message: str


class Exited(msgspec.Struct, frozen=True, tag=True):
    """128 + n for a process that signal n ended."""

    call: int
    exit_code: int


class Started(msgspec.Struct, frozen=True, tag=True):
    container: str
    # Seconds since 1970, as all times here.
    at: float
    # What the supervisor adds: the process of its init, and the folders of its cgroup.
    init: int = 0
    groups: tuple[str, ...] = ()


class NotStarted(msgspec.Struct, frozen=True, tag=True):
    """The process could not be made. `is_command` says that it was its command or working directory that could not be
    run, and not the place that was to be made for it."""

    container: str
    message: str
    at: float
    is_command: bool = False


class Ended(msgspec.Struct, frozen=True, tag=True):
    container: str
    at: float
    exit_code: int
    signal: int = 0
    was_out_of_memory: bool = False


class Run(msgspec.Struct, frozen=True):
    """What has come of one run; None for what has not happened."""

    container: str
    started: Started | None = None
    end: Ended | NotStarted | None = None


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The first thing a supervisor says to whoever connects: every run that it has been told to make.

    With a problem, the pod's place could not be made, and nothing can be started in it.
    """

    runs: tuple[Run, ...]
    problem: str = ""


ToSpawner = Spawn | Listen
ToSupervisor = Start | Signal | Execute | Attach | Connect | Namespaces | Abandon | End
FromSpawner = Ready | Done | Opened | Refused
FromSupervisor = Opened | Refused | Exited | Started | NotStarted | Ended | Hello
