"""Shorten the start and the end of processes that mostly import modules: commands and embedded clusters."""

import atexit
import gc
import sys
from types import ModuleType
from typing import Any

_OBJECTS_OF_IMPORTS = 250_000
_OBJECTS_BETWEEN_COLLECTIONS = 10_000
_MARK = "_has_to_load_authorities"


def postpone_garbage_collection() -> None:
    """Do not collect garbage while modules are imported, nor at the exit: objects of modules are never garbage.

    With the default of Python, collections take a fifth of the time of a command.
    """
    gc.set_threshold(_OBJECTS_OF_IMPORTS)
    gc.callbacks.append(_after_first_collection)
    atexit.register(gc.freeze)


def _after_first_collection(phase: str, _: dict[str, int]) -> None:
    if phase == "stop":
        gc.callbacks.remove(_after_first_collection)
        gc.freeze()
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)


def postpone_loading_authorities() -> None:
    """Load the certificate authorities of the operating system only when a TLS connection uses them.

    aiohttp creates two contexts with them when it is imported, and parsing these certificates takes as long as the rest
    of its import. Windlass passes its own contexts, most of which trust only the authority of a cluster.

    This changes the contexts that are created from now on. It has no effect if the module ssl is not available.
    """
    ssl = sys.modules.get("ssl")
    if ssl is not None and not hasattr(ssl.SSLContext, _MARK):
        _change_contexts(ssl)


def _change_contexts(ssl: ModuleType) -> None:
    load_now = ssl.SSLContext.set_default_verify_paths

    def load_later(context: Any) -> None:
        setattr(context, _MARK, True)

    def loading_first(wrap: Any) -> Any:
        def load_and_wrap(context: Any, *arguments: Any, **options: Any) -> Any:
            if getattr(context, _MARK):
                setattr(context, _MARK, False)
                load_now(context)
            return wrap(context, *arguments, **options)

        return load_and_wrap

    setattr(ssl.SSLContext, _MARK, False)
    ssl.SSLContext.set_default_verify_paths = load_later
    # Every connection, including those of asyncio, starts with one of these.
    for name in ("wrap_socket", "wrap_bio"):
        setattr(ssl.SSLContext, name, loading_first(getattr(ssl.SSLContext, name)))
