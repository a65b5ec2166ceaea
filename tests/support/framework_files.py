"""Load files of Frameworks as `windlass run` does, and as the controller decodes them."""

import msgspec

from windlass.client.submit import plan as planner
from windlass.client.submit.plan import Target
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.render import documents
from windlass.wire import codec
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import dump as yaml_dump


class Loaded(msgspec.Struct, frozen=True):
    written: tuple[Json, ...]
    """The objects to submit; empty if there is an error."""
    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(fault for fault in self.diagnostics if fault.is_error)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(fault for fault in self.diagnostics if not fault.is_error)

    @property
    def frameworks(self) -> tuple[Framework, ...]:
        """Return the Frameworks without their statuses."""
        return tuple(
            codec.decode_framework(msgspec.json.encode({**each, "status": None})) for each in self.written
        )


def load(data: bytes, file: str = "f.yaml") -> Loaded:
    found = documents.read(data, file)
    return Loaded(
        tuple(planner.render_framework(each, Target("")) for each in found.submissions), found.diagnostics
    )


def dump(written: Json) -> bytes:
    return yaml_dump.dump(written)
