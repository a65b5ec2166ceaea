"""What every container inherits from the machine. There is no image to say where programs are, so the machine does.

Nothing else of it reaches a pod: what a user's shell knows of clusters, ranks or secrets is not the pod's business.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

_NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM"),
        *("LANG", "TZ"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "CUDA_HOME"),
        *("VIRTUAL_ENV", "XDG_CACHE_HOME", "REQUESTS_CA_BUNDLE"),
        *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    }
)
_PREFIXES = ("LC_", "CONDA_", "SSL_CERT_", "PIP_")
# Where container runtimes look when an image does not say.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def base_environment(environ: Mapping[str, str], programs: str = "") -> dict[str, str]:
    """`programs` is a folder that is looked into before all others: see `own_programs`."""
    kept = {name: value for name, value in environ.items() if name in _NAMES or name.startswith(_PREFIXES)}
    path = kept.get("PATH") or _PATH
    is_first_already = path.split(":")[0] == programs
    return {**kept, "PATH": f"{programs}:{path}" if programs and not is_first_already else path}


def own_programs() -> str:
    """The folder of the virtual environment in which Windlass runs; empty when it runs in none.

    A virtual environment that nobody activated is not in PATH, and still the one in which a user has put things.
    """
    return str(Path(sys.executable).parent) if sys.prefix != sys.base_prefix else ""
