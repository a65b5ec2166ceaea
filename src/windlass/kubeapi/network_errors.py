"""Converts the errors of the network and of HTTP clients into API errors."""

import contextlib
import os
import re
import ssl
from collections.abc import Iterator

import aiohttp
from aiohttp.client_exceptions import UnixClientConnectorError

from windlass.kubeapi.connections import BrokenResponseError, CannotConnectError
from windlass.kubeapi.errors import NotSentError, NotTrustedError, NoValidResponseError
from windlass.kubeapi.requests import Request

_SOURCE_LINE = re.compile(r"\.? \(_ssl\.c:[0-9]+\)")


@contextlib.contextmanager
def converting_errors(request: Request) -> Iterator[None]:
    """Convert errors into an ApiError that names the request."""
    try:
        yield
    except BrokenResponseError as error:
        raise NoValidResponseError(f"{request}: {error}") from error
    except CannotConnectError as error:
        cause = error.cause
        if isinstance(cause, ssl.SSLCertVerificationError):
            message = f"the server's certificate is not trusted: {_reason(cause)}"
            raise NotTrustedError(f"{request}: {message}") from cause
        raise NotSentError(f"{request}: cannot connect to {error.target}: {_reason(cause)}") from cause
    except aiohttp.ClientConnectorCertificateError as error:
        raise NotTrustedError(
            f"{request}: the server's certificate is not trusted: {_reason(error.certificate_error)}"
        ) from error
    except aiohttp.ClientConnectorError as error:
        raise NotSentError(
            f"{request}: cannot connect to {_target(error)}: {_reason(error.os_error)}"
        ) from error
    except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
        raise NoValidResponseError(f"{request}: {error or type(error).__name__}") from error


def _target(error: aiohttp.ClientConnectorError) -> str:
    """Return the address of the failed connection, which may be that of a proxy."""
    if isinstance(error, UnixClientConnectorError):
        return error.path
    return f"[{error.host}]:{error.port}" if ":" in error.host else f"{error.host}:{error.port}"


def _reason(error: Exception) -> str:
    """Return the message of the operating system or of OpenSSL, without source locations."""
    message = getattr(error, "strerror", None) or str(error)
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and (error.errno or 0) > 0:
        message = os.strerror(error.errno or 0)
    return _SOURCE_LINE.sub("", message)
