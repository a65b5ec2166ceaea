"""Commands import little, and start without work that few of them need."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kubeapi.certificates import Authority, server_context
from tests.kubeapi.scripted import Script, run, serving, text


def output_of(program: str, **environment: str) -> Any:
    """Return what a program prints as JSON in its last line."""
    done = subprocess.run(  # noqa: S603 — our own interpreter
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_import_of_aiohttp_does_not_load_authorities() -> None:
    program = (
        "import json, ssl\n"
        "from windlass import startup\n"
        "startup.postpone_loading_authorities()\n"
        "from aiohttp import connector\n"
        "contexts = (connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED)\n"
        "print(json.dumps([each.cert_store_stats()['x509'] for each in contexts]))\n"
    )
    assert output_of(program) == [0, 0]


@pytest.mark.parametrize("is_trusted", [True, False])
def test_authorities_of_the_system_are_loaded_for_a_connection(tmp_path: Path, is_trusted: bool) -> None:
    authority = Authority()
    context = server_context(tmp_path, authority.sign("server", "127.0.0.1"))
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes((authority if is_trusted else Authority()).certificate)
    program = (
        "import asyncio, json, ssl, sys\n"
        "from windlass import startup\n"
        "startup.postpone_loading_authorities()\n"
        "import aiohttp\n"
        "async def get(url):\n"
        "    try:\n"
        "        async with aiohttp.ClientSession() as session, session.get(url) as answer:\n"
        "            return await answer.text()\n"
        "    except aiohttp.ClientConnectorCertificateError:\n"
        "        return 'not trusted'\n"
        "print(json.dumps(asyncio.run(get('{url}'))))\n"
    )

    async def get() -> Any:
        script = Script(text('"hello"'))
        async with serving(script, context):
            return await asyncio.to_thread(
                output_of, program.replace("{url}", script.url), SSL_CERT_FILE=str(trusted), SSL_CERT_DIR=""
            )

    assert run(get()) == ('"hello"' if is_trusted else "not trusted")


def test_no_garbage_is_collected_while_modules_are_imported() -> None:
    program = (
        "import gc, json, sys\n"
        "from windlass import startup\n"
        "startup.postpone_garbage_collection()\n"
        "before = [each['collections'] for each in gc.get_stats()]\n"
        "import windlass.cli.commands.run, windlass.runner.run, windlass.runner.session\n"
        "print(json.dumps([each['collections'] for each in gc.get_stats()] == before))\n"
    )
    assert output_of(program) is True


def test_garbage_is_collected_after_the_start() -> None:
    program = (
        "import gc, json\n"
        "from windlass import startup\n"
        "startup.postpone_garbage_collection()\n"
        "gc.collect()\n"
        "print(json.dumps([gc.get_threshold()[0] <= 10_000, gc.get_freeze_count() > 0, len(gc.callbacks)]))\n"
    )
    assert output_of(program) == [True, True, 0]
