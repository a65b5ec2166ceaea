"""The hostname of a pod, its /etc/hosts and its /etc/resolv.conf."""

import ipaddress
from collections.abc import Iterable, Sequence

from windlass.localcluster.kubelet.containers.errors import FAILED_SANDBOX, SetupError
from windlass.localcluster.kubelet.containers.facts import PodFacts
from windlass.model.base import Json

CLUSTER_DOMAIN = "cluster.local"
_MAX_HOSTNAME = 63
_MAX_FQDN = 64
_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_LINE = 2048

Entry = tuple[str, Sequence[str]]
"""An address and its names."""

_LOCALHOST = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
_HOST_NETWORK = "# Kubernetes-managed hosts file (host network).\n"


def hosts_file(pod: Json, facts: PodFacts, entries: Iterable[Entry], node_hosts: str) -> str:
    """Return /etc/hosts as the kubelet writes it, followed by peers and Services, since there is no cluster DNS.

    For a pod on the host network, it begins with the node's own file instead of the pod's names.
    """
    if pod["spec"].get("hostNetwork"):
        text = _HOST_NETWORK + node_hosts
    else:
        text = _LOCALHOST + "".join(f"{ip}\t{_own_names(pod)}\n" for ip in facts.pod_ips)
    aliases = [(alias["ip"], alias.get("hostnames") or ()) for alias in pod["spec"].get("hostAliases") or ()]
    return text + _section("HostAliases", aliases) + _section("the cluster", entries)


def hostname(pod: Json) -> str:
    """Return the hostname of a pod that is not on the host network.

    It is the short name or, with setHostnameAsFQDN and subdomain, the FQDN.
    """
    domain = _domain(pod)
    if not domain or not pod["spec"].get("setHostnameAsFQDN"):
        return short_hostname(pod)
    fqdn = f"{short_hostname(pod)}.{domain}"
    if len(fqdn) > _MAX_FQDN:
        message = (
            "Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, FQDN"
            f" {fqdn} is too long ({_MAX_FQDN} characters is the max, {len(fqdn)} characters requested)"
        )
        raise SetupError(message, FAILED_SANDBOX)
    return fqdn


def short_hostname(pod: Json) -> str:
    name: str = pod["spec"].get("hostname") or pod["metadata"]["name"]
    # A truncated name must not end in a character that is invalid at the end.
    return name if len(name) <= _MAX_HOSTNAME else name[:_MAX_HOSTNAME].rstrip("-.")


def _own_names(pod: Json) -> str:
    short, domain = short_hostname(pod), _domain(pod)
    return f"{short}.{domain}\t{short}" if domain else short


def _domain(pod: Json) -> str:
    subdomain = pod["spec"].get("subdomain")
    return f"{subdomain}.{pod['metadata']['namespace']}.svc.{CLUSTER_DOMAIN}" if subdomain else ""


def _section(origin: str, entries: Iterable[Entry]) -> str:
    lines = "".join("\t".join((ip, *names)) + "\n" for ip, names in entries)
    return f"\n# Entries added by {origin}.\n{lines}" if lines else ""


# /etc/resolv.conf


def resolv_conf(pod: Json, node_resolv_conf: str) -> str:
    """Return the pod's resolv.conf, made from that of the node and from the pod's dnsConfig.

    With dnsPolicy None, that of the node is ignored. ClusterFirst and ClusterFirstWithHostNet are treated as Default,
    as by a kubelet without cluster DNS.
    """
    nameservers, searches, options = _parse(
        "" if pod["spec"].get("dnsPolicy") == "None" else node_resolv_conf
    )
    config = pod["spec"].get("dnsConfig") or {}
    nameservers = _unique((*nameservers, *(config.get("nameservers") or ())))[:_MAX_NAMESERVERS]
    searches = _truncated(_unique((*searches, *(config.get("searches") or ()))))
    options = _merged(options, config.get("options") or ())
    lines = [
        f"search {' '.join(searches)}" if searches else "",
        *(f"nameserver {address}" for address in nameservers),
        f"options {' '.join(options)}" if options else "",
    ]
    return "".join(f"{line}\n" for line in lines if line)


def with_reachable_nameservers(text: str, nameservers: Sequence[str]) -> str:
    """Return a resolv.conf in which `nameservers` replace those on the loopback of the machine.

    They are also added if there is no nameserver at all, since resolvers then query the loopback address.
    """
    lines = text.splitlines()
    kept = [line for line in lines if not _is_loopback(_nameserver(line))]
    is_reachable = len(kept) == len(lines) and any(map(_nameserver, lines))
    return text if is_reachable else "\n".join((*(f"nameserver {one}" for one in nameservers), *kept))


def _nameserver(line: str) -> str:
    words = line.split()
    return words[1] if words[:1] == ["nameserver"] and len(words) > 1 else ""


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _parse(text: str) -> tuple[list[str], list[str], list[str]]:
    """Return the nameservers, search domains and options of a resolv.conf.

    All nameserver lines count, but only the last search line and the last options line.
    """
    nameservers: list[str] = []
    searches: list[str] = []
    options: list[str] = []
    for line in text.splitlines():
        match line.split():
            case ["nameserver", address, *_]:
                nameservers.append(address)
            case ["search", *domains]:
                searches = [name.removesuffix(".") or name for name in domains]
            case ["options", *values]:
                options = values
    return nameservers, searches, options


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _truncated(searches: list[str]) -> list[str]:
    """Drop the last search domains if they are too many or too long: some resolvers crash on a long line."""
    kept = searches[:_MAX_SEARCHES]
    while len(" ".join(kept)) > _MAX_SEARCH_LINE:
        kept = kept[:-1]
    return kept


def _merged(options: Iterable[str], pod_options: Iterable[Json]) -> list[str]:
    values = {option.partition(":")[0]: option.partition(":")[2] for option in options}
    values |= {option["name"]: option.get("value") or "" for option in pod_options}
    return [f"{name}:{value}" if value else name for name, value in values.items()]
