"""Sets of completion indexes as the status of a Job writes them: `0,3-5,9`. Pure."""

from collections.abc import Iterable, Iterator

from windlass.localcluster.controllers.workloads import templates
from windlass.localcluster.controllers.workloads.observed import Pod


def written(indexes: Iterable[int]) -> str:
    return ",".join(_runs(sorted(set(indexes))))


def _runs(indexes: list[int]) -> Iterator[str]:
    start = 0
    for position, index in enumerate(indexes):
        is_last = position + 1 == len(indexes) or indexes[position + 1] != index + 1
        if is_last:
            first = indexes[start]
            # Two neighbours are a list, as Kubernetes has it.
            yield {0: f"{first}", 1: f"{first},{index}"}.get(position - start, f"{first}-{index}")
            start = position + 1


def read(text: str, completions: int) -> set[int]:
    """Those below the number of completions: an Indexed Job may have been made smaller."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first) + 1, completions)))
    return found


def of_pod(pod: Pod) -> int | None:
    text = pod.annotations.get(templates.INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else None
