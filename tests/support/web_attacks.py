"""Attacks on the login of JupyterLab and JupyterHub."""

import re
from typing import Final
from urllib.parse import urljoin, urlsplit

from notebook_client import Response

OTHER_SITES: Final = (
    "https://evil.example/",
    "//evil.example/",
    "///evil.example/",
    "/\\evil.example/",
    "\\\\evil.example/",
    "http:evil.example/",
)
"""Targets of redirects that browsers read as other sites."""


def check_redirect(response: Response, url: str) -> None:
    """Check that a redirect stays on the server of `url`. Browsers read a backslash as a slash."""
    assert response.code == 302, response
    location = response.location.replace("\\", "/")
    assert urlsplit(urljoin(url, location)).netloc == urlsplit(url).netloc, response


def check_cookies(cookies: list[str], names: set[str], *, is_secure: bool = False) -> None:
    """Check the Set-Cookie headers of a session, which set the cookies with these names.

    Scripts have to read the XSRF token, which grants no access. A header with an empty value deletes a cookie.
    """
    found = {}
    for header in cookies:
        name, _, rest = header.partition("=")
        value, *attributes = (each.strip() for each in rest.lower().split(";"))
        if value.strip('"'):
            found[name] = header
            assert "samesite=lax" in attributes, header
            assert ("httponly" in attributes) is (name != "_xsrf"), header
            assert ("secure" in attributes) is is_secure, header
    assert {re.sub(r"-127-0-0-1.*", "", name) for name in found} == names, sorted(found)
