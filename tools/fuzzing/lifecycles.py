"""Create, change and delete objects with finalizers and owners from several threads."""

import json
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from fuzzing import objects, queries, values, writes
from fuzzing.session import Session
from fuzzing.surface import Place, Resource
from fuzzing.wire import Answer, Headers, Line, Open, Request, connected

_THREADS = 4
_REMEMBERED = 30
_NAMES = ("l1", "l2", "l3", "l4")
_NAMESPACES = ("fuzz", "life-1", "life-2")
_KINDS = (
    "ConfigMap",
    "Secret",
    "Pod",
    "Service",
    "Job",
    "Deployment",
    "PersistentVolumeClaim",
    "Thing",
    "Framework",
)
_JSON = (("Content-Type", "application/json"),)
_MERGE = (("Content-Type", "application/merge-patch+json"),)
_HOLDS = ("fuzz.example/hold", "foregroundDeletion", "orphan")


def run(session: Session, line: Line, dice: Random) -> None:
    """Run the threads, half of them over TLS."""
    session.rediscover(line)
    server, places = session.server, deque[Place](maxlen=_REMEMBERED)
    ways = [(server.local, ()), (server.remote, server.authorization)] * (_THREADS // 2)
    with ThreadPoolExecutor(_THREADS) as pool:
        lives = [
            pool.submit(_live, session, *way, values.generator(dice.getrandbits(64)), places) for way in ways
        ]
    for life in lives:
        life.result()


def _live(session: Session, way: Open, headers: Headers, dice: Random, places: deque[Place]) -> None:
    with connected(way, headers) as line:
        life = Life(session, line, dice, places)
        while session.goes_on():
            life.step()


class Life:
    """The actions of one thread. All threads share the known objects."""

    def __init__(self, session: Session, line: Line, dice: Random, places: deque[Place]) -> None:
        self._session = session
        self._line = line
        self._dice = dice
        self._places = places
        self._owners: list[dict[str, Any]] = []
        self._steps: tuple[Callable[[Place], None], ...] = (
            *(self._create,) * 6,
            *(self._update,) * 4,
            *(self._relabel,) * 3,
            *(self._let_go,) * 4,
            *(self._delete,) * 5,
            *(self._delete_some, self._turn_pages, self._come_and_go),
        )

    def step(self) -> None:
        dice = self._dice
        every = [one for one in self._session.surface.resources if one.kind in _KINDS]
        place = Place(dice.choice(every), dice.choice(_NAMESPACES), dice.choice(_NAMES))
        if self._places and dice.random() < 0.6:
            place = dice.choice(self._places)
        dice.choice(self._steps)(place)
        if dice.random() < 0.02:
            self._watch(place.resource)

    def _ask(self, method: str, target: str, body: Any = None, headers: Headers = _JSON) -> Answer | None:
        sent = b"" if body is None else json.dumps(body).encode()
        return self._session.ask(self._line, Request(method, target, headers, sent))

    def _create(self, place: Place) -> None:
        dice = self._dice
        obj = objects.named(place.resource, place.namespace, place.name, dice)
        meta = obj["metadata"]
        meta["labels"] = {"life": dice.choice(_NAMES)}
        if dice.random() < 0.3:
            meta["finalizers"] = dice.sample(_HOLDS, k=dice.choice((1, 1, 2)))
        if self._owners and dice.random() < 0.6:
            owners = dice.sample(self._owners, k=min(len(self._owners), dice.choice((1, 1, 2))))
            blocks = dice.choice((True, False))
            meta["ownerReferences"] = [{**owner, "blockOwnerDeletion": blocks} for owner in owners]
        answer = self._ask("POST", place.resource.path(place.namespace), obj)
        if answer is not None and answer.code == 201:
            self._places.append(place)
            owner = {
                "apiVersion": place.resource.api_version,
                "kind": place.resource.kind,
                "name": place.name,
            }
            owner["uid"] = json.loads(answer.body)["metadata"]["uid"]
            self._owners = [*self._owners[-_REMEMBERED:], owner]

    def _update(self, place: Place) -> None:
        path, dice = place.path, self._dice
        obj = writes.stored(self._session, self._line, path)
        if obj is None:
            return
        obj["metadata"]["labels"] = {"life": dice.choice(_NAMES)}
        if dice.random() < 0.3:
            obj["metadata"]["finalizers"] = [one for one in _HOLDS if dice.random() < 0.4]
        if dice.random() < 0.1:
            obj["metadata"]["resourceVersion"] = dice.choice(("1", "", "9" * 18))
        below = "/status" if "status" in place.resource.subresources and dice.random() < 0.3 else ""
        self._ask("PUT", path + below, obj)

    def _relabel(self, place: Place) -> None:
        patch = {"metadata": {"labels": {"life": self._dice.choice((*_NAMES, None))}}}
        self._ask("PATCH", place.path, patch, _MERGE)

    def _let_go(self, place: Place) -> None:
        self._ask("PATCH", place.path, {"metadata": {"finalizers": None}}, _MERGE)

    def _delete(self, place: Place) -> None:
        path, dice = place.path, self._dice
        options: dict[str, Any] = {}
        if dice.random() < 0.7:
            options["propagationPolicy"] = dice.choice(("Foreground", "Background", "Orphan"))
        if dice.random() < 0.5:
            options["gracePeriodSeconds"] = dice.choice((0, 0, 1, 30))
        if self._owners and dice.random() < 0.2:
            options["preconditions"] = {"uid": dice.choice(self._owners)["uid"]}
        self._ask("DELETE", path, options if options or dice.random() < 0.5 else None)

    def _delete_some(self, place: Place) -> None:
        query = {"labelSelector": f"life={place.name}", "gracePeriodSeconds": "0"}
        self._ask("DELETE", queries.with_query(place.resource.path(place.namespace), query))

    def _turn_pages(self, place: Place) -> None:
        """Read pages of a list; a token may have expired."""
        query = {"limit": "2"}
        for _ in range(5):
            answer = self._ask("GET", queries.with_query(place.resource.path(), query))
            if answer is None or answer.code != 200:
                return
            token = json.loads(answer.body)["metadata"].get("continue")
            if not token:
                return
            query["continue"] = token

    def _come_and_go(self, _: Place) -> None:
        """Create and delete whole namespaces and definitions."""
        dice = self._dice
        if dice.random() < 0.8:
            space = dice.choice(_NAMESPACES[1:])
            if dice.random() < 0.7:
                self._ask("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
            else:
                self._ask("DELETE", f"/api/v1/namespaces/{space}")
            return
        root, definition = objects.DEFINITIONS, objects.definitions()[-1]
        if dice.random() < 0.7:
            self._ask("POST", root, definition)
        else:
            self._ask("DELETE", f"{root}/{definition['metadata']['name']}")

    def _watch(self, resource: Resource) -> None:
        listed = self._ask("GET", resource.path())
        if listed is None or listed.code != 200:
            return
        now = int(json.loads(listed.body)["metadata"]["resourceVersion"])
        since = {"resourceVersion": str(max(1, now - self._dice.randrange(300)))}
        self._ask(
            "GET", queries.with_query(resource.path(), {"watch": "true", "timeoutSeconds": "1"} | since)
        )
