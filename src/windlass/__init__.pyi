from windlass.client.blocking import Client as Client
from windlass.client.companions.status import CompanionView as CompanionView
from windlass.client.errors import ClientError as ClientError
from windlass.client.sdk import AsyncClient as AsyncClient
from windlass.client.submit.sources import load as load
from windlass.client.views import JobState as JobState
from windlass.client.views import JobView as JobView
from windlass.client.views import TaskState as TaskState
from windlass.client.views import TaskView as TaskView
from windlass.model.companions import Hub as Hub
from windlass.model.companions import Jupyter as Jupyter
from windlass.model.companions import PasswordFrom as PasswordFrom
from windlass.model.companions import TensorBoard as TensorBoard
from windlass.model.feature_annotations import Runtime as Runtime
from windlass.model.job import Elastic as Elastic
from windlass.model.job import Job as Job
from windlass.model.job import Retry as Retry
from windlass.model.job import Role as Role
from windlass.model.job import Volume as Volume
from windlass.model.resources import Gpus as Gpus
from windlass.model.resources import Resources as Resources

__version__: str
