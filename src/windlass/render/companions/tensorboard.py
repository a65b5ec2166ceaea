"""Render the objects of TensorBoard for the log directory of a job."""

import msgspec

from windlass.model.base import Json
from windlass.model.companions import Companion, TensorBoard
from windlass.model.job import Job
from windlass.render import helper_pods
from windlass.render.companions import servers
from windlass.render.companions.servers import ResolvedCompanions
from windlass.render.storage.nfs_shares import Share

_SCRIPT = f"""\
without_port_check=$1
shift
if ! command -v tensorboard > /dev/null; then
  echo "TensorBoard is not installed. On this machine: pip install tensorboard. On a cluster: set an image that \
contains it in the job file: tensorboard: {{image: …}}" >&2
  exit 127
fi
{servers.SET_LISTEN_HOST}if [ "$host" = "${servers.ADDRESS_VARIABLE}" ]; then
  program=$(command -v tensorboard)
  read -r first < "$program"
  case $first in
  "#!"*python*) exec ${{first#??}} -c "$without_port_check" "$program" --host "$host" "$@" ;;
  esac
fi
exec tensorboard --host "$host" "$@"
"""
_WITHOUT_PORT_CHECK = """\
import errno, runpy, socket, sys
socket.socket.connect_ex = lambda *_: errno.ECONNREFUSED
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""TensorBoard refuses to start if any program listens on the same port of `localhost`, even if TensorBoard
itself listens on another address. This program disables that check, for a pod with its own loopback address."""
_RELOAD_SECONDS = 5


def objects(
    job: Job, spec: TensorBoard, resolved: ResolvedCompanions, share: Share | None
) -> tuple[Json, ...]:
    server = servers.base_server(job, Companion.TENSORBOARD, spec, resolved, readiness_path="/")
    return servers.objects(
        msgspec.structs.replace(
            server,
            service=resolved.tensorboard_service or spec.name,
            container=_container(job, spec, share),
            pod=servers.pod_spec(job, share),
        )
    )


def _container(job: Job, spec: TensorBoard, share: Share | None) -> Json:
    options = (f"--port={spec.port}", f"--logdir={spec.logdir}", f"--reload_interval={_RELOAD_SECONDS}")
    command = helper_pods.script(_SCRIPT, (_WITHOUT_PORT_CHECK, *options))
    return {
        **helper_pods.container(job, str(Companion.TENSORBOARD), command, spec.image),
        "env": [servers.address_variable()],
        "volumeMounts": [{**mount, "readOnly": True} for mount in helper_pods.mounts(job, share)],
        **servers.resources_field(spec.resources),
    }
