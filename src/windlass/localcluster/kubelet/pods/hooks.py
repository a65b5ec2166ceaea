"""What a container wants to be done right after its start and right before its end."""

import asyncio

from windlass.localcluster.kubelet.probes import prober
from windlass.localcluster.kubelet.probes.prober import ProbeTarget
from windlass.localcluster.kubelet.probes.schedule import Outcome
from windlass.model.base import Json

POST_START = "postStart"
PRE_STOP = "preStop"
# A hook after the start has no limit of its own.
LONGEST = 24 * 3600.0


def hook(container: Json, name: str) -> Json | None:
    return (container.get("lifecycle") or {}).get(name)


async def run(handler: Json, container: Json, pod: Json, way: ProbeTarget, seconds: float) -> str:
    """What went wrong, in words, or nothing."""
    if "sleep" in handler:
        await asyncio.sleep(min(float(handler["sleep"].get("seconds") or 0), seconds))
        return ""
    outcome, output = await prober.perform({**handler, "timeoutSeconds": seconds}, container, pod, way)
    if outcome is Outcome.SUCCESS:
        return ""
    return output.strip() or "it ended with an exit code other than 0"
