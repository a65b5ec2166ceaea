"""Lists, whole or in pages. All pages of a list show the state at one resourceVersion."""

import base64
import binascii
from collections.abc import Mapping

import msgspec

from windlass.k8s import api_errors, metadata
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.options import parse_integer, parse_resource_version
from windlass.localcluster.apiserver.selection import SelectableObject, Selection
from windlass.localcluster.store import Store
from windlass.localcluster.store_types import CompactedError, Page, object_key

# Number of objects that are read at a time when a selector filters a list with a limit.
_BATCH = 500


class ListResult(msgspec.Struct, frozen=True):
    """The objects of a list and its metadata."""

    bodies: list[bytes]
    metadata: dict[str, object]


class _Token(msgspec.Struct, frozen=True):
    """A continue token: the key after which the next page starts, and the resourceVersion of the list."""

    version: int
    after: str


def list_objects(
    store: Store, kind: Kind, namespace: str, selection: Selection, query: Mapping[str, str]
) -> ListResult:
    limit = max(parse_integer("limit", query.get("limit") or "0"), 0)
    _check_options(query)
    token = _decode_token(query["continue"]) if query.get("continue") else None
    if token and not token.after.startswith(f"{namespace}/" if namespace else ""):
        raise api_errors.bad_request("invalid continue token: it belongs to another list")
    version = token.version if token else _exact_version(store, query)
    try:
        page = _page(store, kind, namespace, selection, token.after if token else "", limit, version)
    except CompactedError as error:
        parameter = "resourceVersion" if token is None else "continue parameter"
        raise api_errors.expired(
            f"The provided {parameter} is too old to display a consistent list of {kind.plural}:"
            " begin a new list without it."
        ) from error
    list_meta: dict[str, object] = {"resourceVersion": str(page.version)}
    if kind.is_custom:
        list_meta["continue"] = ""
    if page.last is not None:
        token_json = msgspec.json.encode(_Token(page.version, page.last))
        list_meta["continue"] = base64.urlsafe_b64encode(token_json).decode().rstrip("=")
        if selection.is_everything:
            list_meta["remainingItemCount"] = page.remaining
    return ListResult(page.bodies, list_meta)


def _page(
    store: Store,
    kind: Kind,
    namespace: str,
    selection: Selection,
    after: str,
    limit: int,
    version: int | None,
) -> Page:
    if selection.is_everything:
        return store.page(kind.resource, namespace, after=after, limit=limit, version=version)
    if not limit:
        page = store.page(kind.resource, namespace, after=after, version=version)
        return Page([body for body in page.bodies if selection.matches(SelectableObject(body))], page.version)
    version = store.version if version is None else version
    selected: list[bytes] = []
    last: str | None = after
    # One more object than `limit` shows whether another page follows.
    while last is not None and len(selected) <= limit:
        page = store.page(kind.resource, namespace, after=last, limit=_BATCH, version=version)
        selected += [body for body in page.bodies if selection.matches(SelectableObject(body))]
        last = page.last
    if len(selected) <= limit:
        return Page(selected, version)
    meta = metadata.decode_name(selected[limit - 1]).metadata
    return Page(selected[:limit], version, last=object_key(meta.namespace, meta.name))


_MATCHES = ("Exact", "NotOlderThan", "")


def _check_options(query: Mapping[str, str]) -> None:
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    field = "resourceVersionMatch"
    errors = []
    if match and not version:
        errors.append(
            api_errors.forbidden_field(field, f"{field} is forbidden unless resourceVersion is provided")
        )
    if match and query.get("continue"):
        errors.append(api_errors.forbidden_field(field, f"{field} is forbidden when continue is provided"))
    if match not in _MATCHES:
        errors.append(api_errors.not_supported(field, match, _MATCHES))
    if match == "Exact" and version == "0":
        why = f'{field} "exact" is forbidden for resourceVersion "0"'
        errors.append(api_errors.forbidden_field(field, why))
    if errors:
        raise api_errors.invalid("meta.k8s.io", "ListOptions", "", errors)
    if version not in ("", "0") and query.get("continue"):
        raise api_errors.bad_request("specifying resource version is not allowed when using continue")


def _exact_version(store: Store, query: Mapping[str, str]) -> int | None:
    text = query.get("resourceVersion") or "0"
    match = query.get("resourceVersionMatch", "")
    version = parse_resource_version(text)
    if version > store.version:
        message = f"Too large resource version: {version}, current: {store.version}"
        raise api_errors.ApiError(504, "Timeout", f"Timeout: {message}", {"retryAfterSeconds": 1})
    # `Exact` is also the default for a list with a limit and a resourceVersion. Other lists show the newest state.
    is_exact = match == "Exact" or (match == "" and bool(query.get("limit")) and version > 0)
    return version if is_exact else None


def _decode_token(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (binascii.Error, msgspec.DecodeError, ValueError) as error:
        raise api_errors.bad_request(f"invalid continue token: continue key is not valid: {error}") from error
