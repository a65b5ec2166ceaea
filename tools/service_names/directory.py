"""Update a zone from the Services and Endpoints of the API server."""

import logging
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from service_names import records
from service_names.records import Endpoints, Metadata, Service
from service_names.zone import Zone
from windlass.kubeapi.reflector import Changed, Deleted, Listed, ResourceEvent

log = logging.getLogger(__name__)

T = TypeVar("T", Service, Endpoints)


class Directory:
    def __init__(self, zone: Zone, domain: str) -> None:
        self._zone = zone
        self._domain = domain
        self._services: dict[Metadata, Service] = {}
        self._endpoints: dict[Metadata, Endpoints] = {}

    def on_services(self, news: ResourceEvent) -> None:
        self._refresh(_take_in(self._services, news, Service))

    def on_endpoints(self, news: ResourceEvent) -> None:
        self._refresh(_take_in(self._endpoints, news, Endpoints))

    def _refresh(self, changed: Iterable[Metadata]) -> None:
        for key in changed:
            name, service = records.service_name(key, self._domain), self._services.get(key)
            if service is None:
                self._zone.remove(name)
                continue
            try:
                self._zone.put(name, records.service_records(service, self._endpoints.get(key), self._domain))
            except Exception:
                # An object that the server accepted may still have an invalid name. Other services are not
                # affected.
                log.exception("%s keeps its former records", name)


def _take_in(known: dict[Metadata, T], news: ResourceEvent, kind: type[T]) -> set[Metadata]:
    """Return the services that may have changed."""
    match news:
        case Listed(items, _):
            before = set(known)
            known.clear()
            known.update((each.metadata, each) for each in _read(items, kind))
            return before | set(known)
        case Changed(data):
            changed = {each.metadata: each for each in _read((data,), kind)}
            known.update(changed)
            return set(changed)
        case Deleted(data):
            gone = {each.metadata for each in _read((data,), kind)}
            for key in gone:
                known.pop(key, None)
            return gone


def _read(items: Iterable[msgspec.Raw], kind: type[T]) -> Iterator[T]:
    for data in items:
        try:
            yield msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            log.warning("ignored an object that cannot be decoded: %s", error)
