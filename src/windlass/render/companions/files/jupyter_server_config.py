"""Let users download files of the job's volumes, which are links in the root folder, and protect cookies.

JupyterLab and the servers of a hub's users read this file.
"""

import os
from pathlib import Path

from jupyter_server.base.handlers import AuthenticatedFileHandler


class LinkedFileHandler(AuthenticatedFileHandler):
    def validate_absolute_path(self, root, absolute_path):
        """Treat the target of a link as a root of its own: no file outside it is served."""
        path, top = Path(absolute_path), Path(root)
        parts = path.relative_to(top).parts if path.is_relative_to(top) else ()
        if not parts or not (top / parts[0]).is_symlink():
            return super().validate_absolute_path(root, absolute_path)
        target = (top / parts[0]).resolve()
        return super().validate_absolute_path(str(target), str(target.joinpath(*parts[1:])))


c = get_config()  # noqa: F821 — Jupyter provides it
c.FileContentsManager.files_handler_class = LinkedFileHandler
# Behind TLS, cookies are Secure. With a hub, its public URL decides (https). Without a hub, the header
# X-Forwarded-Proto decides, and the XSRF cookie is never Secure.
# A client that forges this header or X-Forwarded-For changes only its own cookies and the logged address.
c.ServerApp.trust_xheaders = True
is_secure = os.environ.get("JUPYTERHUB_PUBLIC_URL", "").startswith("https:")
# Browsers do not send these cookies with requests from forms and scripts of other sites.
c.IdentityProvider.cookie_options = {"samesite": "Lax"}
c.ServerApp.tornado_settings = {
    "xsrf_cookie_kwargs": {
        "path": os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/"),
        "samesite": "Lax",
        "secure": is_secure,
    }
}
