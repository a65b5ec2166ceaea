"""JupyterHub beside a job: who may log in, and where its users get their servers.

What differs from job to job is in hub.json, beside this file. At the end comes what the job file adds to it.
"""

import asyncio
import json
import os
import secrets
import sys
from pathlib import Path

from jupyterhub.auth import Authenticator
from jupyterhub.spawner import SimpleLocalProcessSpawner
from traitlets import default

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

import hub_proxy  # noqa: E402 — they lie beside this file
import passwords  # noqa: E402
from hub_folders import folder_of  # noqa: E402

c = get_config()  # noqa: F821 — JupyterHub provides it

SETTINGS = json.loads((FOLDER / "hub.json").read_text())
PASSWORDS = Path(os.environ["WINDLASS_PASSWORDS"])
STATE = Path.cwd()
ADDRESS = os.environ["WINDLASS_ADDRESS"]
IS_ON_ANOTHERS_NETWORK = ADDRESS.startswith("127.")
"""Of the loopback addresses there, this one alone is the pod's own."""
EVERYWHERE = "[::]" if ":" in ADDRESS else "0.0.0.0"  # noqa: S104 — everybody may ask for a password
LISTEN = ADDRESS if IS_ON_ANOTHERS_NETWORK else EVERYWHERE
WITHIN = ADDRESS if IS_ON_ANOTHERS_NETWORK else "127.0.0.1"
"""Where the hub speaks to itself, and local servers of users listen."""
ALL_USERS = ""
NOBODYS = passwords.for_hub(secrets.token_urlsafe())
OWN_VARIABLES = ("WINDLASS_PASSWORDS", "WINDLASS_ADDRESS", "HOME")


def read_passwords():
    """The hash of each user's password. Read whenever somebody logs in, since a Secret may change."""
    try:
        found = json.loads(PASSWORDS.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"the passwords of the hub cannot be read: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ValueError("the passwords of the hub cannot be read: expected an object, of users and hashes")
    return {user.lower(): hashed for user, hashed in found.items()}


def notebooks_of(spawner):
    """Empty where a user's notebooks go with the server."""
    return f"{SETTINGS['folder']}/{folder_of(spawner.user.name)}" if SETTINGS["folder"] else ""


# Who may log in


class JobAuthenticator(Authenticator):
    async def authenticate(self, handler, data):  # noqa: ARG002 — as JupyterHub calls it
        """Whoever is refused is refused after the same time, with the same words."""
        user = self.normalize_username(data["username"])
        try:
            hashes = read_passwords()
        except ValueError as unreadable:
            self.log.error("%s", unreadable)
            hashes = {}
        is_known = not SETTINGS["users"] or user in map(str.lower, SETTINGS["users"])
        hashed = hashes.get(user, hashes.get(ALL_USERS)) if is_known else None
        fits = await asyncio.to_thread(passwords.fits_hub, hashed or NOBODYS, data["password"])
        return user if hashed and fits else None


try:
    read_passwords()
except ValueError as unreadable:
    sys.exit(str(unreadable))
c.JupyterHub.authenticator_class = JobAuthenticator
c.Authenticator.allowed_users = set(SETTINGS["users"])
c.Authenticator.allow_all = not SETTINGS["users"]
c.Authenticator.admin_users = set(SETTINGS["admins"])

# How it is reached

hub_proxy.ProxyWithin.hub_address = WITHIN
hub_proxy.ProxyWithin.hub_port = SETTINGS["hubPort"]
c.JupyterHub.proxy_class = hub_proxy.ProxyWithin
c.JupyterHub.bind_url = f"http://{LISTEN}:{SETTINGS['port']}"
# Nobody but the proxy speaks to the hub itself: the servers of users come in by the port that people open.
c.JupyterHub.hub_bind_url = f"http://{WITHIN}:{SETTINGS['hubPort']}"
c.JupyterHub.hub_connect_url = (
    f"http://{WITHIN if SETTINGS['isLocal'] else SETTINGS['name']}:{SETTINGS['port']}"
)

# Where users get their servers

c.Spawner.args = ["--allow-root"]
c.Spawner.default_url = f"/lab/tree/{SETTINGS['notebooks']}"
c.Spawner.environment = {"WINDLASS_NOTEBOOKS": notebooks_of}
# Images are large, and some machines slow.
c.Spawner.start_timeout = 900
c.Spawner.http_timeout = 300

if SETTINGS["isLocal"]:

    class LocalSpawner(SimpleLocalProcessSpawner):
        @default("home_dir")
        def _home_dir(self):
            return str(STATE / "home" / folder_of(self.user.name))

    c.JupyterHub.spawner_class = LocalSpawner
    c.Spawner.cmd = [*SETTINGS["start"], "jupyterhub-singleuser"]
    c.Spawner.ip = WITHIN
    # The variables of the job are those of the hub.
    c.Spawner.env_keep = [name for name in os.environ if name not in OWN_VARIABLES]
    # They end with the hub, however it ends: one that starts again must not take other processes for them.
    c.JupyterHub.db_url = "sqlite:///:memory:"
    c.LocalProcessSpawner.interrupt_timeout = 10
    c.LocalProcessSpawner.term_timeout = 5
else:
    try:
        from kubernetes_asyncio import client as kubernetes
        from kubespawner import KubeSpawner
    except ImportError:
        sys.exit(
            "KubeSpawner is not in the image of the hub: pip install jupyterhub-kubespawner there, or leave "
            "hub: {image: …} out for that of Windlass"
        )

    class PodSpawner(KubeSpawner):
        """Pods as hub.json has them. They go when the hub does."""

        async def get_pod_manifest(self):
            pod = await super().get_pod_manifest()
            pod.metadata.owner_references = [await self._owner()]
            put(pod.spec, SETTINGS["pod"]["spec"])
            container = pod.spec.containers[0]
            own = dict(SETTINGS["pod"]["container"])
            container.env = [*own.pop("env"), *container.env]
            put(container, own)
            return pod

        async def _owner(self):
            apps = kubernetes.AppsV1Api(self.api.api_client)
            hub = await apps.read_namespaced_deployment(SETTINGS["name"], self.namespace)
            return {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": hub.metadata.name,
                "uid": hub.metadata.uid,
                "controller": True,
            }

    def put(model, fields):
        """Fields that are called as Kubernetes calls them."""
        attributes = {name: attribute for attribute, name in model.attribute_map.items()}
        for name, value in fields.items():
            setattr(model, attributes[name], value)

    c.JupyterHub.spawner_class = PodSpawner
    c.KubeSpawner.image = SETTINGS["pod"]["image"]
    c.KubeSpawner.cmd = ["jupyterhub-singleuser"]
    c.KubeSpawner.extra_labels = SETTINGS["pod"]["labels"]
    c.KubeSpawner.pod_name_template = f"{SETTINGS['name']}-{{user_server}}"

# What the job file adds

added = FOLDER / "added_config.py"
if added.exists():
    exec(compile(added.read_text(), "hub.config", "exec"))  # noqa: S102 — of whoever submitted the job
