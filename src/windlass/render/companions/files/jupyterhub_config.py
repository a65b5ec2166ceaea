"""Configure the JupyterHub of a job: authentication, network and spawner.

Settings of the job are in hub.json, in the folder of this file. Configuration from the job file runs last.
"""

import asyncio
import hmac
import json
import os
import secrets
import sys
import time
from pathlib import Path

from jupyterhub.auth import Authenticator
from jupyterhub.spawner import SimpleLocalProcessSpawner
from tornado.web import HTTPError
from traitlets import default

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

import hub_proxy  # noqa: E402 — in the folder of this file
import passwords  # noqa: E402
from hub_support import MAX_NAME_LENGTH, PROXY_FIELD, LoginLimit, folder_of  # noqa: E402

c = get_config()  # noqa: F821 — JupyterHub provides it

SETTINGS = json.loads((FOLDER / "hub.json").read_text())
PASSWORDS = Path(os.environ["WINDLASS_PASSWORDS"])
STATE = Path.cwd()
ADDRESS = os.environ["WINDLASS_ADDRESS"]
IS_NETWORK_SHARED = ADDRESS.startswith("127.")
"""Whether the pod shares the network of its host. Then it owns only this loopback address."""
ANY_ADDRESS = "[::]" if ":" in ADDRESS else "0.0.0.0"  # noqa: S104 — protected by passwords
LISTEN = ADDRESS if IS_NETWORK_SHARED else ANY_ADDRESS
LOOPBACK = ADDRESS if IS_NETWORK_SHARED else "127.0.0.1"
"""Address for connections of the hub to itself, and of local servers of users."""
ALL_USERS = ""
DUMMY_HASH = passwords.hub_hash(secrets.token_urlsafe())
OWN_VARIABLES = ("WINDLASS_PASSWORDS", "WINDLASS_ADDRESS", "HOME")


def read_passwords():
    """Return the password hashes by user. Called for each login, because the Secret may change."""
    try:
        found = json.loads(PASSWORDS.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read the passwords of the hub: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(hashed, str) for hashed in found.values()):
        raise ValueError(
            "cannot read the passwords of the hub: expected a JSON object with a hash for each user"
        )
    return {user.lower(): hashed for user, hashed in found.items()}


def notebooks_of(spawner):
    """Return the folder for a user's notebooks. Empty if they are not kept."""
    return f"{SETTINGS['folder']}/{folder_of(spawner.user.name)}" if SETTINGS["folder"] else ""


# Authentication


class JobAuthenticator(Authenticator):
    limit = LoginLimit()

    async def authenticate(self, handler, data):
        """Return the user, or None. Rejections take the same time for known and unknown users."""
        secret = handler.request.headers.get(PROXY_FIELD, "")
        if not hmac.compare_digest(secret.encode(), hub_proxy.InProcessProxy.secret.encode()):
            # Without the proxy, the address of the client is unknown, so its failed logins could not be limited.
            raise HTTPError(403, "log in at the public address of the hub.")
        name = data.get("username", "")
        if len(name) > MAX_NAME_LENGTH:
            raise HTTPError(400, f"the user name is longer than {MAX_NAME_LENGTH} characters.")
        user = self.normalize_username(name)
        try:
            hashes = read_passwords()
        except ValueError as error:
            self.log.error("%s", error)
            hashes = {}
        is_known = not SETTINGS["users"] or user in map(str.lower, SETTINGS["users"])
        hashed = hashes.get(user, hashes.get(ALL_USERS)) if is_known else None
        # Guesses of a shared password count together, whatever the names.
        account = ALL_USERS if user not in hashes and ALL_USERS in hashes else user
        address = handler.request.remote_ip
        wait = self.limit.start(account, address, time.monotonic(), is_account=account in hashes)
        if wait > 0:
            raise HTTPError(429, f"too many failed logins. Try again in {wait:.0f} s.")
        is_correct = await asyncio.to_thread(
            passwords.verify_hub, hashed or DUMMY_HASH, data.get("password", "")
        )
        if not hashed or not is_correct:
            return None
        self.limit.succeeded(account, address)
        return user


try:
    read_passwords()
except ValueError as error:
    sys.exit(str(error))
c.JupyterHub.authenticator_class = JobAuthenticator
c.Authenticator.allowed_users = set(SETTINGS["users"])
c.Authenticator.allow_all = not SETTINGS["users"]
c.Authenticator.admin_users = set(SETTINGS["admins"])

# Network

hub_proxy.InProcessProxy.hub_address = LOOPBACK
hub_proxy.InProcessProxy.hub_port = SETTINGS["hubPort"]
c.JupyterHub.proxy_class = hub_proxy.InProcessProxy
c.JupyterHub.bind_url = f"http://{LISTEN}:{SETTINGS['port']}"
# Only the proxy connects to the hub directly: users and their servers connect to the proxy.
c.JupyterHub.hub_bind_url = f"http://{LOOPBACK}:{SETTINGS['hubPort']}"
c.JupyterHub.hub_connect_url = (
    f"http://{LOOPBACK if SETTINGS['isLocal'] else SETTINGS['name']}:{SETTINGS['port']}"
)

# Browsers do not send these cookies with requests from forms and scripts of other sites. JupyterHub sets HttpOnly, and
# Secure if public_url is an https address, except for the XSRF token.
c.JupyterHub.tornado_settings = {"cookie_options": {"samesite": "Lax"}}

# Servers of users

c.Spawner.args = ["--allow-root"]
c.Spawner.default_url = f"/lab/tree/{SETTINGS['notebooks']}"
c.Spawner.environment = {"WINDLASS_NOTEBOOKS": notebooks_of}
# Pulling a large image takes minutes.
c.Spawner.start_timeout = 900
c.Spawner.http_timeout = 300

if SETTINGS["isLocal"]:

    class LocalSpawner(SimpleLocalProcessSpawner):
        @default("home_dir")
        def _home_dir(self):
            return str(STATE / "home" / folder_of(self.user.name))

    c.JupyterHub.spawner_class = LocalSpawner
    c.Spawner.cmd = [*SETTINGS["start"], "jupyterhub-singleuser"]
    c.Spawner.ip = LOOPBACK
    # Servers of users inherit the variables of the job from the hub, but not the hub's own variables.
    c.Spawner.env_keep = [name for name in os.environ if name not in OWN_VARIABLES]
    # Servers end with the hub. A restarted hub must not mistake other processes for them.
    c.JupyterHub.db_url = "sqlite:///:memory:"
    c.LocalProcessSpawner.interrupt_timeout = 10
    c.LocalProcessSpawner.term_timeout = 5
else:
    try:
        from kubernetes_asyncio import client as kubernetes
        from kubespawner import KubeSpawner
    except ImportError:
        sys.exit(
            "KubeSpawner is not installed in the image of the hub. Add jupyterhub-kubespawner to the image, or remove "
            "hub: {image: …} to use the default image"
        )

    class PodSpawner(KubeSpawner):
        """Create pods with the fields in hub.json. The Deployment of the hub owns them."""

        async def get_pod_manifest(self):
            pod = await super().get_pod_manifest()
            pod.metadata.owner_references = [await self._owner()]
            set_fields(pod.spec, SETTINGS["pod"]["spec"])
            container = pod.spec.containers[0]
            own = dict(SETTINGS["pod"]["container"])
            container.env = [*own.pop("env"), *container.env]
            set_fields(container, own)
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

    def set_fields(model, fields):
        """Set fields of a model by their names in the Kubernetes API."""
        attributes = {name: attribute for attribute, name in model.attribute_map.items()}
        for name, value in fields.items():
            setattr(model, attributes[name], value)

    c.JupyterHub.spawner_class = PodSpawner
    c.KubeSpawner.image = SETTINGS["pod"]["image"]
    c.KubeSpawner.cmd = ["jupyterhub-singleuser"]
    c.KubeSpawner.extra_labels = SETTINGS["pod"]["labels"]
    c.KubeSpawner.pod_name_template = f"{SETTINGS['name']}-{{user_server}}"

# Configuration from the job file

added = FOLDER / "added_config.py"
if added.exists():
    exec(compile(added.read_text(), "hub.config", "exec"))  # noqa: S102 — written by the user who submitted the job

# JupyterHub does not set Secure for the XSRF token.

if str(c.JupyterHub.get("public_url", "")).startswith("https:"):
    cookies = c.JupyterHub.tornado_settings.get("cookie_options", {})
    c.JupyterHub.tornado_settings.setdefault("xsrf_cookie_kwargs", {**cookies, "secure": True})
