"""One run: the server, the requests and the findings. Several threads share it."""

import http.client
import re
import threading
import time
from collections import Counter

import msgspec

from fuzzing import verdicts
from fuzzing.server import Server
from fuzzing.surface import discover
from fuzzing.wire import Answer, Line, Request, raw_line

_FRAME = re.compile(r'File "[^"]*?/(windlass/[^"]+)", line (\d+), in (\w+)')
_ENTRY = re.compile(r"^(?=(?:WARNING|ERROR|CRITICAL) )", re.MULTILINE)
_MOST_LOG = 6000
_DIGITS = re.compile(r"\d+")
_MOST_FINDINGS = 40
_LARGEST_BODY = 3 * 1024 * 1024
"""A larger body is rejected before it is read, and the response may be lost with the connection."""

_GLANCE = 0.5
"""Seconds to wait for a response to a possibly incomplete request."""


class Finding(msgspec.Struct):
    """A fault of the server, and the first request that showed it."""

    part: str
    fault: str
    line: str
    """A shell command."""
    answer: str = ""
    log: str = ""
    afterwards: str = ""
    times: int = 1


class Session:
    def __init__(self, server: Server, line: Line) -> None:
        self.server = server
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.findings: dict[str, Finding] = {}
        self.part = ""
        self.slowest = (0.0, "")
        self.surface = discover(line)
        self._end = 0.0
        self._lock = threading.Lock()
        self._read_of_log = 0

    def move_to(self, server: Server) -> None:
        self.server = server
        self._read_of_log = 0

    def begin(self, part: str, seconds: float) -> None:
        self.part = part
        self._end = time.monotonic() + seconds

    def goes_on(self) -> bool:
        """Return whether time is left and the server is alive."""
        return time.monotonic() < self._end and self.server.is_alive and len(self.findings) < _MOST_FINDINGS

    def rediscover(self, line: Line) -> None:
        self.surface = discover(line)

    def ask(self, line: Line, request: Request) -> Answer | None:
        """Send a request and check the response; None without one."""
        began = time.monotonic()
        try:
            answer = line.ask(request)
        except TimeoutError:
            self._count(request.method, "silence")
            self.find("no response in time", request.curl)
            return None
        except (OSError, http.client.HTTPException) as error:
            self._count(request.method, "closed")
            if len(request.body) <= _LARGEST_BODY:
                self.find(f"no response: {type(error).__name__}", request.curl)
            return None
        self._count(request.method, str(answer.code))
        seconds = time.monotonic() - began
        if seconds > self.slowest[0] and not request.may_stream:
            self.slowest = (seconds, request.curl)
        for fault in verdicts.faults(request, answer, self.surface):
            self.find(fault, request.curl, answer, self._object_at(line, request))
        return answer

    def throw(self, line: Line, sent: bytes) -> Answer | None:
        """Send bytes that may be invalid. They must be answered or rejected, without a server error."""
        try:
            answer = line.exchange(sent, "GET", time.monotonic() + _GLANCE, _GLANCE)
        except TimeoutError:
            self._count("raw", "waits")
            return None
        except (OSError, http.client.HTTPException):
            # Closing the connection is a valid reaction to invalid bytes.
            self._count("raw", "closed")
            return None
        self._count("raw", str(answer.code))
        if answer.code >= 500:
            self.find(f"{answer.code} to bytes", raw_line(sent), answer)
        return answer

    def find(
        self, fault: str, line: str, answer: Answer | None = None, afterwards: str = "", log: str = ""
    ) -> None:
        with self._lock:
            log = log or self._news_of_log()
            key = f"{_DIGITS.sub('0', fault)} {_frames(log)[-1:]}"
            if key in self.findings:
                self.findings[key].times += 1
                return
            shown = answer.body[:2000].decode("utf-8", "replace") if answer is not None else ""
            self.findings[key] = Finding(self.part, fault, line, shown, log, afterwards)

    def check_alive(self) -> bool:
        if not self.server.is_alive:
            code = self.server.running.process.returncode
            self.find(f"the server ended with exit code {code}", "(see its log and the last requests)")
        return self.server.is_alive

    def check_log(self) -> None:
        """Check the log for errors outside of requests."""
        with self._lock:
            news = self._news_of_log()
        if news:
            last = news.rstrip().rpartition("\n")[2]
            self.find(f"an exception outside of requests: {last}", "(see the log)", log=news)

    def _count(self, method: str, code: str) -> None:
        with self._lock:
            self.counts[self.part, method, code] += 1

    def _object_at(self, line: Line, request: Request) -> str:
        """Return the object at the path after the request, for the report."""
        place = self.surface.place_of(request.path)
        if place is None or not place.name:
            return ""
        try:
            answer = line.ask(Request("GET", place.path))
        except (OSError, http.client.HTTPException):
            return ""
        return answer.body[:4000].decode("utf-8", "replace")

    def _news_of_log(self) -> str:
        """Return the exceptions of the log that no other finding reported."""
        log = self.server.log
        news, self._read_of_log = log[self._read_of_log :], len(log)
        return "".join(entry for entry in _ENTRY.split(news) if _is_exception(entry))[-_MOST_LOG:]


def _frames(log: str) -> list[str]:
    """Return where in Windlass the exceptions of a log were raised, as file:line in function."""
    return [f"{file}:{number} in {function}" for file, number, function in _FRAME.findall(log)]


def _is_exception(entry: str) -> bool:
    """Return whether a log line is an error, and not a message of aiohttp about an invalid request."""
    return "Traceback" in entry and not entry.startswith("ERROR aiohttp.server: Error handling request")
