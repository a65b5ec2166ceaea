"""Run the API server, or with `--pods` a complete cluster, in the foreground until SIGTERM or SIGINT."""

import asyncio  # noqa: F401 — imports ssl, whose contexts are changed before other modules create some
import sys

from windlass import startup

if __name__ == "__main__":
    startup.postpone_garbage_collection()
    startup.postpone_loading_authorities()
    from windlass.localcluster import foreground

    sys.exit(foreground.main())
