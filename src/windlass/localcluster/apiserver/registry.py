"""The registry of kinds: the built-in ones and those of custom resource definitions."""

import itertools
from collections.abc import Iterable

from windlass.localcluster.apiserver.kinds.kind import Kind


class Registry:
    """Finds a kind by path, by apiVersion and kind, or by the resource under which objects are stored."""

    def __init__(self, built_in: Iterable[Kind]) -> None:
        self._built_in = tuple(built_in)
        self._custom: dict[str, tuple[Kind, ...]] = {}
        # Increases with every change, to invalidate documents computed from the registry.
        self.revision = 0
        self._index()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The served kinds, one entry per version."""
        return tuple(self._by_path.values())[::-1]

    @property
    def stored_kinds(self) -> tuple[Kind, ...]:
        """All kinds, served or not, one entry per resource under which objects are stored."""
        return tuple(self._by_resource.values())

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_path.get((group, version, plural))

    def find_by_kind(self, api_version: str, kind: str) -> Kind | None:
        return self._by_kind.get((api_version, kind))

    def find_by_resource(self, resource: str) -> Kind | None:
        return self._by_resource.get(resource)

    def built_in(self, resource: str) -> Kind:
        """Return a kind that every cluster has."""
        return self._by_resource[resource]

    def defined(self, definition_name: str) -> tuple[Kind, ...]:
        """Return the kinds of one definition; none if it is not served."""
        return self._custom.get(definition_name, ())

    def define(self, definition_name: str, kinds: tuple[Kind, ...]) -> None:
        """Set the kinds of one definition; an empty tuple removes them."""
        self._custom[definition_name] = kinds
        if not kinds:
            del self._custom[definition_name]
        self.revision += 1
        self._index()

    def _index(self) -> None:
        # Of two kinds with the same key, the first one is found: a custom resource never replaces a built-in kind.
        kinds = [*self._built_in, *itertools.chain.from_iterable(self._custom.values())][::-1]
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in kinds if kind.is_served}
        self._by_kind = {(kind.api_version, kind.kind): kind for kind in kinds if kind.is_served}
        self._by_resource = {kind.resource: kind for kind in kinds}
