"""Redirects of an API server: their targets must not get credentials."""

import pytest
from tests.kubeapi.scripted import Script, run, serving, text

from windlass.kubeapi import errors, requests, streams
from windlass.kubeapi.access import Access
from windlass.kubeapi.credentials import ClusterConfig
from windlass.kubeapi.resources import PODS
from windlass.kubeapi.transport import Transport


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(code: int) -> None:
    async def send() -> None:
        target = Script(text("{}"))
        async with serving(target):
            redirect = text("", code, Location=f"{target.url}/")
            script = Script(redirect, redirect, redirect)
            async with serving(script):
                config = ClusterConfig(server=script.url, headers=(("Authorization", "Bearer secret"),))
                async with Transport(Access(config)) as transport:
                    with pytest.raises(errors.NotKubernetesError, match="redirect to"):
                        await transport.send(requests.get(PODS, "t", "a"))
                    with pytest.raises(errors.NotKubernetesError, match="redirect to"):
                        async with transport.stream(requests.watch(PODS)):
                            pass
                    with pytest.raises(errors.NotKubernetesError, match="redirect to"):
                        async with transport.channels(
                            streams.port_forward_request("t", "a", 80), streams.PORT_FORWARD_PROTOCOLS
                        ):
                            pass
        assert target.received == []

    run(send())
