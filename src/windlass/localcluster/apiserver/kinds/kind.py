"""`Kind` describes a resource in one version. Code that is common to all kinds serves it from this description."""

import msgspec

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.schemas.structural import Schema
from windlass.localcluster.apiserver.strategy import Strategy

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A printer column of a custom resource. `path` is a JSONPath, e.g. `.status.state`."""

    name: str
    type: str
    path: str
    description: str = ""
    format: str = ""
    priority: int = 0


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind in one version of its group."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    # Subresources, e.g. "status", "scale", and for pods "log", "exec", "attach", "portforward".
    subresources: tuple[str, ...] = ()
    # The name of a built-in kind in `windlass.k8s.types`; "" for a custom resource or a computed kind.
    type_name: str = ""
    schema: Schema
    # The openAPIV3Schema of a custom resource, for the published OpenAPI; None for other kinds.
    published_schema: dict[str, object] | None = None
    columns: tuple[Column, ...] = ()
    # Fields that field selectors support besides metadata.name and metadata.namespace.
    selectable_fields: tuple[str, ...] = ()
    strategy: Strategy
    # Whether the definition of a custom resource is being deleted, so that no objects can be created.
    is_terminating: bool = False
    # Whether the API has paths for this version. Objects may be stored in a version that is not served.
    is_served: bool = True
    # The verbs of a kind whose objects are computed on request and not stored; empty for other kinds.
    verbs: tuple[str, ...] = ()
    # Whether the definition has ever changed, so that stored objects have to be pruned and defaulted when read.
    reads_through_schema: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The resource name under which objects of all versions are stored: `pods`, `jobs.batch`."""
        return api_errors.resource_name(self.group, self.plural)

    @property
    def is_custom(self) -> bool:
        """Whether this is a custom resource. A computed kind is treated like one."""
        return not self.type_name
