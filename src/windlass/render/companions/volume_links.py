"""The volumes of a job as links in a folder, which is all that a Jupyter server shows.

Tornado serves nothing that lies outside of that folder, also where a link leads there.
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
"""A part of a script, in that folder: from then on the server serves what links there lead to."""
