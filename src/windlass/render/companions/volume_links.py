"""Volumes of a job as links in the root of a Jupyter server.

By default, Tornado does not follow links out of that folder.
"""

from importlib import resources

_CONFIGURATION = "jupyter_server_config.py"
_FOLDER = ".windlass"


def _script() -> str:
    written = resources.files(__package__).joinpath("files", _CONFIGURATION).read_text(encoding="utf-8")
    return f"""\
mkdir -p {_FOLDER} && cat > {_FOLDER}/{_CONFIGURATION} << 'END' || exit 1
{written}END
export JUPYTER_CONFIG_PATH="$PWD/{_FOLDER}${{JUPYTER_CONFIG_PATH:+:$JUPYTER_CONFIG_PATH}}"
"""


FOLLOW = _script()
"""Lines of a start script that let the server follow the links."""
