"""Everything that an installation consists of, in the order in which it can be created, and as text."""

from collections.abc import Iterable

from windlass.install import access, deployment, plan
from windlass.install.plan import Plan
from windlass.model.base import Json
from windlass.wire.crd import manifests as crd_manifests
from windlass.wire.yaml import dump as yaml_dump


def all_of(wanted: Plan) -> list[Json]:
    return [
        *definitions(),
        *deployment.namespace(wanted),
        *access.manifests(wanted),
        *deployment.workload(wanted),
    ]


def definitions() -> list[Json]:
    """They serve every installation in the cluster, so that they carry the labels of none."""
    return [_labelled(definition) for definition in crd_manifests.definitions()]


def printed(manifests: Iterable[Json]) -> bytes:
    return b"---\n".join(yaml_dump.dump(manifest) for manifest in manifests)


def _labelled(definition: Json) -> Json:
    return {**definition, "metadata": {**definition["metadata"], "labels": dict(plan.OURS)}}
