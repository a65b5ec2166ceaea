"""A plain value as YAML. Quotes stand around whatever our reader, that of Kubernetes, would not take for a string."""

from typing import Any

import yaml

from windlass.wire import scalars

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def dump(value: Any) -> bytes:
    written: str = yaml.dump(
        value, Dumper=_KubernetesDumper, sort_keys=False, allow_unicode=True, width=2**16
    )
    return written.encode()


class _KubernetesDumper(_Dumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 — an override
        return True


def _quoted_where_needed(dumper: Any, text: str) -> Any:
    style = None if scalars.means_a_string(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_KubernetesDumper.add_representer(str, _quoted_where_needed)
