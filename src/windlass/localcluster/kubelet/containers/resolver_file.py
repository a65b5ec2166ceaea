"""A pod's /etc/resolv.conf, from the host's and what the pod wants of it.

There is no name server of the cluster here: as with a kubelet that knows none, ClusterFirst means Default.
"""

from collections.abc import Iterable

import msgspec

from windlass.model.base import Json

_MOST_NAMESERVERS = 3
_MOST_SEARCHES = 32
_LONGEST_SEARCH_LINE = 2048


class _Resolver(msgspec.Struct, frozen=True):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def resolv_conf(pod: Json, host: str) -> str:
    base = _Resolver() if pod["spec"].get("dnsPolicy") == "None" else _parsed(host)
    wanted = pod["spec"].get("dnsConfig") or {}
    nameservers = _each_once((*base.nameservers, *(wanted.get("nameservers") or ())))[:_MOST_NAMESERVERS]
    searches = _fitting(_each_once((*base.searches, *(wanted.get("searches") or ()))))
    options = _merged(base.options, wanted.get("options") or ())
    lines = [
        f"search {' '.join(searches)}" if searches else "",
        *(f"nameserver {address}" for address in nameservers),
        f"options {' '.join(options)}" if options else "",
    ]
    return "".join(f"{line}\n" for line in lines if line)


def _parsed(text: str) -> _Resolver:
    """Name servers add up; of search and options lines the last one counts."""
    found = _Resolver()
    for line in text.splitlines():
        match line.split():
            case ["nameserver", address, *_]:
                found = msgspec.structs.replace(found, nameservers=(*found.nameservers, address))
            case ["search", *domains]:
                found = msgspec.structs.replace(found, searches=tuple(_without_dot(name) for name in domains))
            case ["options", *options]:
                found = msgspec.structs.replace(found, options=tuple(options))
            case _:
                pass
    return found


def _without_dot(domain: str) -> str:
    return domain.removesuffix(".") or domain


def _each_once(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _fitting(searches: tuple[str, ...]) -> tuple[str, ...]:
    """Resolvers take only so many, and crash over a line that is too long: the last ones are left out."""
    kept = searches[:_MOST_SEARCHES]
    while len(" ".join(kept)) > _LONGEST_SEARCH_LINE:
        kept = kept[:-1]
    return kept


def _merged(options: Iterable[str], wanted: Iterable[Json]) -> tuple[str, ...]:
    values = {option.partition(":")[0]: option.partition(":")[2] for option in options}
    values |= {option["name"]: option.get("value") or "" for option in wanted}
    return tuple(f"{name}:{value}" if value else name for name, value in values.items())
