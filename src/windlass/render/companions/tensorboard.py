"""TensorBoard, on a folder of the job."""

from windlass.model.base import Json
from windlass.model.companions import Companion, TensorBoard
from windlass.model.job import Job
from windlass.render import beside, pods
from windlass.render.companions import servers
from windlass.render.companions.servers import Server
from windlass.render.companions.settled import Settled
from windlass.render.shares import Share

_SCRIPT = f"""\
if ! command -v tensorboard > /dev/null; then
  echo "TensorBoard is not installed here: pip install tensorboard. On a cluster: name an image that has it, as \
tensorboard: {{image: …}}" >&2
  exit 127
fi
{servers.LISTEN}exec tensorboard --host "$host" "$@"
"""
_RELOAD_SECONDS = 5


def objects(
    job: Job, wanted: TensorBoard, settled: Settled, share: Share | None, namespace: str
) -> tuple[Json, ...]:
    return servers.objects(
        Server(
            companion=Companion.TENSORBOARD,
            job=job.name,
            namespace=job.namespace or namespace,
            labels=job.labels,
            name=servers.name_of(job.name, Companion.TENSORBOARD),
            service=settled.tensorboard_service or wanted.name,
            service_type=wanted.service,
            ports={"http": wanted.port},
            container=_container(job, wanted, share),
            pod=servers.pod_spec(job, share),
        )
    )


def _container(job: Job, wanted: TensorBoard, share: Share | None) -> Json:
    arguments = (f"--port={wanted.port}", f"--logdir={wanted.logdir}", f"--reload_interval={_RELOAD_SECONDS}")
    made: Json = {
        **beside.container(job, str(Companion.TENSORBOARD), beside.script(_SCRIPT, arguments), wanted.image),
        "ports": [{"containerPort": wanted.port}],
        "env": [servers.address_variable()],
        "readinessProbe": {"httpGet": {"path": "/", "port": wanted.port}, "periodSeconds": 2},
        "volumeMounts": [{**mount, "readOnly": True} for mount in beside.mounts(job, share)],
    }
    resources = pods.resources_of(wanted.resources)
    return {**made, "resources": resources} if resources else made
