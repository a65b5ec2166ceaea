"""Write the protobuf fields of Kubernetes' built-in kinds, from the published Go modules k8s.io/api and apimachinery.

    python tools/update_protobuf_fields.py

Names, numbers and types are those of the `generated.proto` files. The `types.go` files show which structs are embedded,
and which values JSON omits. Field numbers never change. Requires Go (go_builds.py).
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

import go_builds  # next to this file
import kubernetes_binaries  # next to this file
import programs  # next to this file
import workshops  # next to this file

FIELDS: Final = Path(__file__).parents[1] / "src/windlass/k8s/protobuf/fields.json"
VERSION: Final = f"v0{kubernetes_binaries.VERSION.removeprefix('1')}"
FOLDERS: Final = {
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
    "runtime": "apimachinery/pkg/runtime",
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
    # Responses: a list of any kind has the fields of a list of pods.
    *("core.v1.PodList", "meta.v1.PartialObjectMetadata", "meta.v1.Status", "meta.v1.WatchEvent"),
    *("runtime.Unknown", "runtime.TypeMeta"),
)
_PACKAGE = re.compile(
    r"^k8s\.io\.(?:api|apimachinery\.pkg(?=\.runtime)|apimachinery\.pkg\.(?:apis|api|util))\."
)
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (?:(optional|repeated) ([\w.]+)|map<string, ([\w.]+)>) (\w+) = (\d+);", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_TAGGED = re.compile(r"^\t(?:(\w+) +)?(\S+) +`([^`]*protobuf:\"\w+,(\d+),[^`]*)`", re.MULTILINE)
_JSON_TAG = re.compile(r'json:"([^"]*)"')

Message = dict[str, list[str]]


class GoField(NamedTuple):
    """A field of a Go struct."""

    is_pointer: bool
    json_name: str
    """Empty for an embedded struct, whose fields are fields of the parent in JSON."""
    options: tuple[str, ...]

    def label(self, field_type: str) -> str:
        """Return `inline`, `omitempty` if JSON omits an empty value, or `optional`. Go never omits a struct because of
        `omitempty`."""
        if not self.json_name:
            return "inline"
        is_scalar = field_type[0].islower() and "." not in field_type
        is_omitted = "omitzero" in self.options or ("omitempty" in self.options and is_scalar)
        return "omitempty" if is_omitted and not self.is_pointer else "optional"


def short(name: str, package: str) -> str:
    """Return `core.v1.Pod` for a message; scalars stay as they are."""
    known = _PACKAGE.sub("", name.lstrip("."))
    return known if "." in known or known[:1].islower() else f"{package}.{known}"


def messages(modules: Path) -> dict[str, Message]:
    """Return the fields of each message by number: name, label and type."""
    found: dict[str, Message] = {}
    for package, folder in FOLDERS.items():
        module, _, path = folder.partition("/")
        files = modules / f"{module}@{VERSION}" / path
        structs = go_structs("".join(file.read_text() for file in sorted(files.glob("*types.go"))))
        for name, body in _MESSAGE.findall((files / "generated.proto").read_text()):
            fields: Message = {}
            for label, plain, of_map, field, number in _FIELD.findall(body):
                field_type = short(of_map or plain, package)
                go = structs.get(name, {}).get(number)
                if label == "optional" and go is not None:
                    label = go.label(field_type)
                fields[number] = [field, label or "map", field_type]
            found[f"{package}.{name}"] = fields
    return found


def go_structs(text: str) -> dict[str, dict[str, GoField]]:
    """Return the fields of each struct in Go source by the number of the protobuf field."""
    found = {}
    for name, body in _STRUCT.findall(text):
        fields = {}
        for field, go_type, tags, number in _TAGGED.findall(body):
            json_tag = _JSON_TAG.search(tags)
            json_name, *options = json_tag[1].split(",") if json_tag else (field,)
            fields[number] = GoField(go_type.startswith("*"), json_name, tuple(options))
        found[name] = fields
    return found


def reachable(every: dict[str, Message]) -> dict[str, Message]:
    waiting, found = list(ROOTS), {}
    while waiting:
        name = waiting.pop()
        if name in every and name not in found:
            found[name] = every[name]
            waiting.extend(kind for _, _, kind in every[name].values())
    return dict(sorted(found.items()))


def generate() -> str:
    """Return the text of the table."""
    go = go_builds.find_go(workshops.cache_root(os.environ))
    folders = [go.module_files(f"k8s.io/{module}", VERSION) for module in ("api", "apimachinery")]
    every = reachable(messages(folders[0].parent))
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in every.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def update() -> None:
    FIELDS.write_text(generate())


def main() -> int:
    return programs.exit_code(update, workshops.WorkshopError)


if __name__ == "__main__":
    sys.exit(main())
