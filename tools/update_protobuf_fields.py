"""Write the protobuf fields of Kubernetes' built-in kinds, from the `generated.proto` files of its source.

    python tools/update_protobuf_fields.py SOURCE

SOURCE is the unpacked source of a release, e.g. of Debian's source package `kubernetes`. Field numbers never change.
"""

import json
import re
import sys
from pathlib import Path
from typing import Final

FIELDS: Final = Path(__file__).parents[1] / "src/windlass/localcluster/apiserver/protobuf_fields.json"
FILES: Final = {
    "core.v1": "api/core/v1",
    "apps.v1": "api/apps/v1",
    "batch.v1": "api/batch/v1",
    "coordination.v1": "api/coordination/v1",
    "rbac.v1": "api/rbac/v1",
    "authentication.v1": "api/authentication/v1",
    "authorization.v1": "api/authorization/v1",
    "autoscaling.v1": "api/autoscaling/v1",
    "policy.v1beta1": "api/policy/v1beta1",
    "meta.v1": "apimachinery/pkg/apis/meta/v1",
}
ROOTS: Final = (
    *("core.v1." + kind for kind in ("Binding", "ConfigMap", "Endpoints", "Event", "Namespace", "Node")),
    *("core.v1." + kind for kind in ("PersistentVolumeClaim", "Pod", "Secret", "Service", "ServiceAccount")),
    *("apps.v1.Deployment", "apps.v1.StatefulSet", "batch.v1.Job", "coordination.v1.Lease"),
    *("rbac.v1." + kind for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
    *("authentication.v1." + kind for kind in ("SelfSubjectReview", "TokenRequest", "TokenReview")),
    *("authorization.v1." + kind for kind in ("LocalSubjectAccessReview", "SelfSubjectAccessReview")),
    *("authorization.v1." + kind for kind in ("SelfSubjectRulesReview", "SubjectAccessReview")),
    *("autoscaling.v1.Scale", "policy.v1beta1.Eviction", "meta.v1.DeleteOptions"),
)
_PACKAGE = re.compile(r"^k8s\.io\.(?:api|apimachinery\.pkg\.(?:apis|api|util|runtime))\.")
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (?:(optional|repeated) ([\w.]+)|map<string, ([\w.]+)>) (\w+) = (\d+);", re.MULTILINE)


def short(name: str, package: str) -> str:
    """Return `core.v1.Pod` for a message; scalars stay as they are."""
    known = _PACKAGE.sub("", name.lstrip("."))
    return known if "." in known or known[:1].islower() else f"{package}.{known}"


def messages(source: Path) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for package, folder in FILES.items():
        text = (source / "staging/src/k8s.io" / folder / "generated.proto").read_text()
        for name, body in _MESSAGE.findall(text):
            fields = {}
            for label, plain, of_map, field, number in _FIELD.findall(body):
                fields[number] = [field, label or "map", short(of_map or plain, package)]
            found[f"{package}.{name}"] = fields
    return found


def reachable(every: dict[str, dict[str, list[str]]]) -> dict[str, dict[str, list[str]]]:
    waiting, found = list(ROOTS), {}
    while waiting:
        name = waiting.pop()
        if name in every and name not in found:
            found[name] = every[name]
            waiting.extend(kind for _, _, kind in every[name].values())
    return dict(sorted(found.items()))


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    every = reachable(messages(Path(sys.argv[1])))
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in every.items()]
    FIELDS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
