"""Sessions of viewers, and the one-time codes of login links. They are only in the memory of this process."""

import secrets
from collections.abc import Callable, Iterable

import msgspec

from windlass.web.problems import ProblemError

CODE_SECONDS = 300.0
MAX_SESSION_SECONDS = 8 * 3600.0
MAX_IDLE_SECONDS = 3600.0
MAX_SESSIONS = 10_000
MAX_SESSIONS_OF_VIEWER = 50


class Session(msgspec.Struct):
    """A login. An open stream of events counts as use."""

    identity: str
    """The key of the viewer."""
    csrf_token: str
    created_at: float
    used_at: float
    is_rejected: bool = False
    """The cluster has rejected the viewer's credentials."""

    @property
    def expires_at(self) -> float:
        return self.created_at + MAX_SESSION_SECONDS


class Sessions:
    """`now` returns seconds since 1970, `new_secret` an unpredictable string."""

    def __init__(
        self, now: Callable[[], float], new_secret: Callable[[], str] = lambda: secrets.token_urlsafe(32)
    ) -> None:
        self._now = now
        self._new_secret = new_secret
        self._codes: dict[str, float] = {}
        """Unused codes with the times at which they expire."""
        self._sessions: dict[str, Session] = {}

    def new_code(self) -> str:
        code = self._new_secret()
        self._codes[code] = self._now() + CODE_SECONDS
        return code

    def redeem(self, code: str) -> None:
        """Accept an unused code, once. Raises ProblemError."""
        expires_at = self._codes.pop(code, None)
        if expires_at is None:
            raise ProblemError(
                403,
                "invalid-code",
                "this link is invalid or was already used: a link works once. Run `windlass ui` again for a new one. "
                "If nobody should have used it, stop the running `windlass ui`.",
            )
        if self._now() >= expires_at:
            raise ProblemError(
                403,
                "code-expired",
                f"this link has expired after {CODE_SECONDS / 60:g} minutes. Run `windlass ui` again for a new one.",
            )

    def create(self, identity: str) -> str:
        """Start a session, and return the value of its cookie."""
        self.remove_expired()
        own = [key for key, each in self._sessions.items() if each.identity == identity]
        if len(own) >= MAX_SESSIONS_OF_VIEWER:
            self._end_oldest(own)
        if len(self._sessions) >= MAX_SESSIONS:
            self._end_oldest(self._sessions)
        key, now = self._new_secret(), self._now()
        self._sessions[key] = Session(identity, self._new_secret(), now, now)
        return key

    def find(self, key: str) -> Session | None:
        """Return the session, and mark it as used; None if it does not exist or has expired."""
        found = self._sessions.get(key)
        if found is None or self._is_expired(found):
            self._sessions.pop(key, None)
            return None
        self.touch(found)
        return found

    def touch(self, session: Session) -> bool:
        """Mark the session as used. Return False if it has expired or was rejected."""
        if session.is_rejected or self._is_expired(session):
            return False
        session.used_at = self._now()
        return True

    def end(self, key: str) -> None:
        """End a session. Streams that it has open end with their next message."""
        if (found := self._sessions.pop(key, None)) is not None:
            found.created_at = -MAX_SESSION_SECONDS

    def reject(self, key: str) -> None:
        """End a session, but keep it until it expires, so that every later request learns the reason."""
        if (found := self._sessions.get(key)) is not None:
            found.is_rejected = True

    def _end_oldest(self, keys: Iterable[str]) -> None:
        self.end(min(keys, key=lambda key: self._sessions[key].used_at))

    def remove_expired(self) -> None:
        for key in [key for key, each in self._sessions.items() if self._is_expired(each)]:
            del self._sessions[key]

    def identities(self) -> set[str]:
        return {each.identity for each in self._sessions.values() if not each.is_rejected}

    def _is_expired(self, session: Session) -> bool:
        now = self._now()
        return now >= session.expires_at or now >= session.used_at + MAX_IDLE_SECONDS
