"""The deletion of a namespace: its objects are deleted kind by kind, and new ones are rejected until it is empty."""

from collections.abc import Callable
from functools import partial
from random import Random

from windlass.simulate.api_server import ApiServer, Propagation
from windlass.simulate.virtual_time import Timeline

MAX_DELAY_SEC = 3.0


class NamespaceController:
    def __init__(self, timeline: Timeline, server: ApiServer, random: Random) -> None:
        self._timeline = timeline
        self._server = server
        self._random = random

    def delete(self, namespace: str) -> None:
        """Delete the namespace. It is created again as soon as it is empty."""
        if namespace in self._server.terminating_namespaces:
            return
        self._server.terminating_namespaces.add(namespace)
        kinds: list[Callable[[str], None]] = [
            self._delete_frameworks,
            self._delete_config_maps,
            self._delete_pods,
        ]
        self._random.shuffle(kinds)
        for delete in kinds:
            self._timeline.after(self._random.uniform(0, MAX_DELAY_SEC), partial(delete, namespace))
        self._timeline.after(MAX_DELAY_SEC, lambda: self._finish_if_empty(namespace))

    def _finish_if_empty(self, namespace: str) -> None:
        server = self._server
        used = {key.namespace for key in server.frameworks}
        used |= {space for space, _ in (*server.pods, *server.config_maps)}
        if namespace in used:
            self._timeline.after(1.0, lambda: self._finish_if_empty(namespace))
        else:
            server.terminating_namespaces.discard(namespace)

    def _delete_frameworks(self, namespace: str) -> None:
        for framework in tuple(self._server.frameworks.values()):
            if framework.namespace == namespace:
                self._server.delete_framework(framework, Propagation.BACKGROUND)

    def _delete_config_maps(self, namespace: str) -> None:
        for config_map in tuple(self._server.config_maps.values()):
            if config_map.metadata.namespace == namespace:
                # It has the foreground finalizer, so its pods are deleted first.
                self._server.delete_config_map(
                    namespace, config_map.name, config_map.uid, Propagation.FOREGROUND
                )

    def _delete_pods(self, namespace: str) -> None:
        for pod in tuple(self._server.pods.values()):
            if pod.metadata.namespace == namespace:
                self._server.delete_pod(namespace, pod.name, pod.uid)
