"""One row of the table of kinds: all that the generic path has to know to serve a kind of object."""

import msgspec

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.schemas.schema import Schema
from windlass.localcluster.apiserver.strategy import Strategy

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A printer column of a custom resource: `path` is a JSONPath such as `.status.state`."""

    name: str
    type: str
    path: str
    description: str = ""
    format: str = ""
    priority: int = 0


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of object in one version of its group."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    # Paths below an object: "status", "scale", and for pods "log", "exec", "attach", "portforward", …
    subresources: tuple[str, ...] = ()
    # The name of a built-in kind in `kubernetes_types`; a custom one has none, and a schema of its own instead.
    type_name: str = ""
    schema: Schema
    # The schema as the custom resource's definition states it, for the published OpenAPI; None for a built-in kind.
    published_schema: dict[str, object] | None = None
    columns: tuple[Column, ...] = ()
    # What field selectors may name beside metadata.name and metadata.namespace.
    selectable: tuple[str, ...] = ()
    strategy: Strategy
    # Is the definition of a custom kind being deleted, so that nothing new comes in?
    is_terminating: bool = False
    # A version that is not served has no path, but there may be objects of its kind.
    is_served: bool = True
    # Is it made when it is asked for, and never written or watched?
    is_read_only: bool = False
    # Has the definition changed? Then what is stored may be of an older shape than what is shown.
    reads_through_schema: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Where its objects are stored, whatever the version: `pods`, `jobs.batch`."""
        return api_errors.resource_name(self.group, self.plural)

    @property
    def is_custom(self) -> bool:
        return not self.type_name
