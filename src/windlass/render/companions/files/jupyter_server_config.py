"""Files of the volumes, as people download them. Volumes are links in the root of the server, which lead out of it."""

from pathlib import Path

from jupyter_server.base.handlers import AuthenticatedFileHandler


class FilesBehindLinks(AuthenticatedFileHandler):
    def validate_absolute_path(self, root, absolute_path):
        """A link in the root is the root of what is behind it: nothing outside of that is served."""
        path, top = Path(absolute_path), Path(root)
        parts = path.relative_to(top).parts if path.is_relative_to(top) else ()
        if not parts or not (top / parts[0]).is_symlink():
            return super().validate_absolute_path(root, absolute_path)
        behind = (top / parts[0]).resolve()
        return super().validate_absolute_path(str(behind), str(behind.joinpath(*parts[1:])))


c = get_config()  # noqa: F821 — Jupyter provides it
c.FileContentsManager.files_handler_class = FilesBehindLinks
