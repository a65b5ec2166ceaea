"""What every pod's worker uses: the store, the events, the spawner, and what is known of the machine."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.apiserver.options import DeleteOptions
from windlass.localcluster.kubelet.addresses import Addresses
from windlass.localcluster.kubelet.directory_watch import DirectoryWatcher
from windlass.localcluster.kubelet.fault_injection import FaultInjector
from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.kubelet.images import Images
from windlass.localcluster.kubelet.object_lookup import ObjectLookup
from windlass.localcluster.kubelet.pods.events import PodEvents
from windlass.localcluster.kubelet.spawner_client import SpawnerClient
from windlass.localcluster.sandbox.messages import Ready
from windlass.model.base import Json


class MachineFiles(msgspec.Struct, frozen=True):
    """Texts of the machine's own that pods' files are made from."""

    hosts: str
    resolv_conf: str
    hostname: str


class Means:
    def __init__(
        self,
        *,
        cluster: str,
        is_ephemeral: bool,
        folder: Path,
        lifecycle: Lifecycle,
        events: PodEvents,
        spawning: SpawnerClient,
        surroundings: ObjectLookup,
        images: Images,
        addresses: Addresses,
        host: Host,
        host_address: str,
        ready: Ready,
        files: MachineFiles,
        token: str,
        claim_folder: Callable[[Json], Path],
        log_news: DirectoryWatcher,
        interference: FaultInjector,
    ) -> None:
        self.cluster = cluster
        self.is_ephemeral = is_ephemeral
        self.folder = folder
        self.lifecycle = lifecycle
        self.events = events
        self.spawning = spawning
        self.surroundings = surroundings
        self.images = images
        self.addresses = addresses
        self.host = host
        self.host_address = host_address
        self.ready = ready
        self.files = files
        self.token = token
        self.claim_folder = claim_folder
        self.log_news = log_news
        self.interference = interference
        # Set by the kubelet, who knows all pods.
        self.store_has_failed: Callable[[], None] = lambda: None

    def write_status(self, pod: Json, status: Json) -> Json:
        """The pod as it is then. One of the same name that came later is another pod, and is left as it is."""
        meta = pod["metadata"]

        def changed(stored: Json) -> Json:
            return {**stored, "status": status} if stored["metadata"]["uid"] == meta["uid"] else stored

        written = self.lifecycle.amend(self._pods, meta["namespace"], meta["name"], changed)
        found: Json = bodies.decode_stored(written.body)
        return found if found["metadata"]["uid"] == meta["uid"] else pod

    def delete(self, pod: Json) -> None:
        """Its containers have ended: now it may go."""
        meta = pod["metadata"]
        options = DeleteOptions(grace_seconds=0, uid=meta["uid"])
        try:
            self.lifecycle.delete(self._pods, meta["namespace"], meta["name"], options)
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    @property
    def _pods(self) -> Kind:
        kind = self.lifecycle.registry.stored_as("pods")
        assert kind is not None  # noqa: S101 — it stands in the table
        return kind
