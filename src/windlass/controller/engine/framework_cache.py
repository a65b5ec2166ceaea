"""The Frameworks that exist, as last read, and the ones that are deleted or cannot be decoded."""

from collections import OrderedDict
from collections.abc import Collection, Iterator

from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.related_objects import is_in_scope, version
from windlass.model.framework import Framework

MAX_TOMBSTONES = 10_000


class FrameworkCache:
    def __init__(self) -> None:
        self._frameworks: dict[FrameworkKey, Framework] = {}
        self._tombstones: OrderedDict[FrameworkKey, int] = OrderedDict()
        """The resourceVersion as of which a Framework of that key was deleted. Older watch events are ignored."""
        self._invalid: dict[FrameworkKey, Framework] = {}
        """Frameworks that exist and cannot be decoded any more, as they were last decoded."""

    def get(self, key: FrameworkKey) -> Framework | None:
        return self._frameworks.get(key)

    def keys(self) -> Iterator[FrameworkKey]:
        return iter(tuple(self._frameworks))

    def __iter__(self) -> Iterator[Framework]:
        return iter(tuple(self._frameworks.values()))

    def put(self, framework: Framework) -> tuple[bool, Framework | None]:
        """Record a Framework unless a newer version is known.

        Return whether it was recorded, and the Framework of the same name with another UID that it replaces.
        """
        key = key_of(framework)
        current = self._frameworks.get(key)
        newest = self._tombstones.get(key, 0)
        if current is not None:
            newest = max(newest, version(current.metadata.resource_version))
        if newest and version(framework.metadata.resource_version) <= newest:
            return False, None
        last = self._invalid.pop(key, None) or current
        self._frameworks[key] = framework
        is_replaced = last is not None and last.uid != framework.uid
        return True, last if is_replaced else None

    def remove(self, framework: Framework, as_of: int) -> Framework | None:
        """Record that a Framework was deleted as of a version. Return it as it was last read, if it was recorded."""
        key = key_of(framework)
        self._tombstones[key] = max(as_of, self._tombstones.get(key, 0))
        self._tombstones.move_to_end(key)
        if len(self._tombstones) > MAX_TOMBSTONES:
            self._tombstones.popitem(last=False)
        current = self._frameworks.get(key)
        if current is None or current.uid != framework.uid:
            return None
        return self._frameworks.pop(key)

    def invalidate(self, key: FrameworkKey) -> None:
        """Record that the Framework exists and cannot be decoded any more."""
        framework = self._frameworks.pop(key, None)
        if framework is not None:
            self._invalid[key] = framework

    def pop_invalid(self, key: FrameworkKey) -> Framework | None:
        return self._invalid.pop(key, None)

    def missing(
        self, listed: Collection[FrameworkKey], resource_version: str, namespace: str, group: str
    ) -> list[Framework]:
        """Return the recorded Frameworks that a list of that version would contain if they existed."""
        return [
            framework
            for key, framework in self._frameworks.items()
            if version(framework.metadata.resource_version) <= version(resource_version)
            and _is_listed(key, namespace, group)
            and key not in listed
        ]

    def missing_invalid(
        self, invalid: Collection[FrameworkKey], namespace: str, group: str
    ) -> list[FrameworkKey]:
        """Return the keys of invalid Frameworks that are not among the invalid ones of a list."""
        return [key for key in self._invalid if _is_listed(key, namespace, group) and key not in invalid]


def _is_listed(key: FrameworkKey, namespace: str, group: str) -> bool:
    """Whether a list of that namespace and group (empty: all) contains the Framework."""
    return is_in_scope(key.namespace, namespace) and group in ("", key.group)
