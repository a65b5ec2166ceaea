"""The objects that a list or watch selects. Only the parts that the selectors need are decoded."""

import msgspec

from windlass.k8s import label_selectors, metadata
from windlass.k8s.label_selectors import LabelSelector
from windlass.localcluster.apiserver import bodies, field_selectors
from windlass.localcluster.apiserver.field_selectors import FieldSelector
from windlass.localcluster.apiserver.kinds.kind import Kind

_NAMES = frozenset({"metadata.name", "metadata.namespace"})


class Selection(msgspec.Struct, frozen=True):
    """A label selector and a field selector."""

    labels: LabelSelector
    fields: FieldSelector

    @property
    def is_everything(self) -> bool:
        return self.labels.is_everything and not self.fields.requirements

    def matches(self, body: bytes) -> bool:
        if self.is_everything:
            return True
        meta = metadata.decode_labels(body).metadata
        if not self.labels.matches(meta.labels):
            return False
        if not self.fields.requirements:
            return True
        needs_no_more = all(requirement.field in _NAMES for requirement in self.fields.requirements)
        if needs_no_more:
            return self.fields.matches({"metadata": {"name": meta.name, "namespace": meta.namespace}})
        return self.fields.matches(bodies.decode_stored(body))


def parse(labels: str, fields: str, kind: Kind) -> Selection:
    return Selection(
        label_selectors.parse(labels),
        field_selectors.parse(fields, kind.selectable_fields, is_custom=kind.is_custom),
    )
