"""Events: they live in the namespace of what they are about."""

from collections.abc import Iterator

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import Fault
from windlass.localcluster.apiserver.checks import basics
from windlass.localcluster.apiserver.strategy import Object, Strategy, World

_LONGEST_WORD = 128
_LONGEST_MESSAGE = 1024
_TIMES = ("eventTime", "firstTimestamp", "lastTimestamp")


class EventStrategy(Strategy):
    creates_on_update = True

    def prepare_create(self, new: Object, world: World) -> None:
        _fill(new)

    def prepare_update(self, new: Object, old: Object, world: World) -> None:
        _fill(new)

    def validate(self, new: Object) -> Iterator[Fault]:
        namespace = new["metadata"].get("namespace", "")
        about = (new.get("involvedObject") or {}).get("namespace", "")
        is_of_the_new_sort = bool(new.get("eventTime"))
        if is_of_the_new_sort:
            is_in_place = bool(about) or namespace in ("default", "kube-system")
        else:
            is_in_place = about == namespace if about else namespace in ("", "default")
        if not is_in_place:
            yield api_errors.invalid_value(
                "involvedObject.namespace", about, "does not match event.namespace"
            )
        if is_of_the_new_sort:
            yield from _word_faults(new)


def _fill(new: Object) -> None:
    """A time that is not known is written all the same."""
    for key in _TIMES:
        new.setdefault(key, None)


def _word_faults(new: Object) -> Iterator[Fault]:
    controller = new.get("reportingComponent") or ""
    if not controller:
        yield api_errors.required("reportingComponent")
    yield from basics.each("reportingComponent", controller, formats.qualified_name(controller))
    for key in ("reportingInstance", "action", "reason"):
        word = new.get(key) or ""
        if not word:
            yield api_errors.required(key)
        if len(word.encode()) > _LONGEST_WORD:
            yield api_errors.invalid_value(key, "", f"can have at most {_LONGEST_WORD} characters")
    if len((new.get("message") or "").encode()) > _LONGEST_MESSAGE:
        yield api_errors.invalid_value("message", "", f"can have at most {_LONGEST_MESSAGE} characters")
