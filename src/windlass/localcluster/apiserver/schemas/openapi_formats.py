"""The string formats that Kubernetes validates in custom resources. It ignores all others.

Each check is as lenient or strict as that of kube-apiserver, which may differ from the specification of the format.
"""

import base64
import datetime
import ipaddress
import re
import unicodedata
from collections.abc import Callable
from email import utils
from urllib import parse

from windlass.localcluster.apiserver.schemas import scalar_types

# Matches hostnames in which letters have been replaced by `a`, digits by `1` and symbols by `+`.
_HOSTNAME = re.compile(r"[a1+](?:-?[a1+]{0,62})?|(?:[a1+](?:[-a1+]{0,61}[a1+])?\.)+a{2,63}")
_MAC = re.compile(
    r"[0-9a-fA-F]{2}([:-])(?:[0-9a-fA-F]{2}\1){4,18}[0-9a-fA-F]{2}|(?:[0-9a-fA-F]{4}\.){2,9}[0-9a-fA-F]{4}"
)
_MAC_BYTES = (6, 8, 20)
_UUID = "[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}"
_GO_DURATION = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_WORDY_DURATION = re.compile(
    r"[0-9]+\s*(?:nano|micro|milli|sec|min|hour|day|week|(?:ns|us|µs|ms|s|m|hr|h|d|wk|w)(?![A-Za-zµ]))",
    re.IGNORECASE,
)
_CREDIT_CARD = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9]{2})[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)
_RGB_PART = r"\s*(?:0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\s*"


def check_of(name: str) -> Callable[[str], bool] | None:
    """Return the check of a format, or None if Kubernetes ignores the format."""
    return _FORMATS.get(name.replace("-", ""))


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


def _accepts(read: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _is_date(text: str) -> bool:
    has_date_form = re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is not None
    return has_date_form and _accepts(datetime.date.fromisoformat)(text)


def _is_uri(text: str) -> bool:
    """Check for an absolute path or a URI with a scheme."""
    if any(character <= " " or character == "\x7f" for character in text):
        return False
    return text.startswith("/") or bool(_accepts(parse.urlsplit)(text) and parse.urlsplit(text).scheme)


def _is_email(text: str) -> bool:
    _, address = utils.parseaddr(text)
    name, at, domain = address.rpartition("@")
    return bool(at and name and domain)


def _is_hostname(text: str) -> bool:
    has_valid_lengths = len(text.encode()) <= 255 and all(
        len(label.encode()) <= 63 for label in text.split(".")
    )
    return (
        has_valid_lengths
        and _HOSTNAME.fullmatch("".join(_character_class(character) for character in text)) is not None
    )


def _character_class(character: str) -> str:
    if character in "0123456789":
        return "1"
    return {"L": "a", "S": "+"}.get(unicodedata.category(character)[0], character)


def _ip_check(version: int) -> Callable[[str], bool]:
    read = {4: ipaddress.IPv4Address, 6: ipaddress.IPv6Address}[version]
    return lambda text: "%" not in text and _accepts(read)(text)


def _is_cidr(text: str) -> bool:
    return bool(re.search("/[0-9]+$", text)) and _accepts(ipaddress.ip_interface)(text)


def _is_mac(text: str) -> bool:
    digits = re.sub("[^0-9a-fA-F]", "", text)
    return _MAC.fullmatch(text) is not None and len(digits) // 2 in _MAC_BYTES


def _is_base64(text: str) -> bool:
    return bool(text) and _accepts(lambda encoded: base64.b64decode(encoded, validate=True))(text)


def _is_duration(text: str) -> bool:
    return _GO_DURATION.fullmatch(text) is not None or _WORDY_DURATION.search(text) is not None


def _is_isbn10(text: str) -> bool:
    digits = re.sub("[ -]", "", text)
    if re.fullmatch("[0-9]{9}[0-9X]", digits) is None:
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum(value * weight for weight, value in enumerate(values, start=1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub("[ -]", "", text)
    if re.fullmatch("[0-9]{13}", digits) is None:
        return False
    return sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    if _CREDIT_CARD.fullmatch(digits) is None:
        return False
    doubled = [int(digit) * (2 if index % 2 else 1) for index, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


_FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches("[0-9a-fA-F]{24}"),
    "byte": _is_base64,
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "datetime": scalar_types.is_date_time,
    "duration": _is_duration,
    "email": _is_email,
    "hexcolor": _matches("#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": _ip_check(4),
    "ipv6": _ip_check(6),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "mac": _is_mac,
    "rgbcolor": _matches(rf"rgb\({_RGB_PART},{_RGB_PART},{_RGB_PART}\)"),
    "ssn": _matches("[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}"),
    "uri": _is_uri,
    "uuid": _matches(_UUID % ("[0-9a-f]", "[0-9a-f]"), re.IGNORECASE),
    "uuid3": _matches(_UUID % ("3", "[0-9a-f]"), re.IGNORECASE),
    "uuid4": _matches(_UUID % ("4", "[89ab]"), re.IGNORECASE),
    "uuid5": _matches(_UUID % ("5", "[89ab]"), re.IGNORECASE),
}
