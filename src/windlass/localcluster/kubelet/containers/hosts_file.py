"""A pod's name and its /etc/hosts."""

from collections.abc import Iterable, Sequence

from windlass.localcluster.kubelet.containers.errors import FAILED_SANDBOX, SetupError
from windlass.localcluster.kubelet.containers.facts import Facts
from windlass.model.base import Json

CLUSTER_DOMAIN = "cluster.local"
_LONGEST_HOSTNAME = 63
_LONGEST_FQDN = 64

Entry = tuple[str, Sequence[str]]
"""An address and the names that it has."""

_LOCALHOST = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
_OF_THE_NODE = "# Kubernetes-managed hosts file (host network).\n"


def hosts_file(pod: Json, facts: Facts, entries: Iterable[Entry], node_hosts: str) -> str:
    """As the kubelet writes it, then peers and services: no name server knows them here.

    A pod on the host's network starts from the node's own file.
    """
    if pod["spec"].get("hostNetwork"):
        text = _OF_THE_NODE + node_hosts
    else:
        text = _LOCALHOST + "".join(f"{ip}\t{_own_names(pod)}\n" for ip in facts.pod_ips)
    aliases = [(alias["ip"], alias.get("hostnames") or ()) for alias in pod["spec"].get("hostAliases") or ()]
    return text + _section("HostAliases", aliases) + _section("the cluster", entries)


def hostname(pod: Json) -> str:
    """What `hostname` prints in the pod: the short name, or all of it where the pod asks for that."""
    domain = _domain(pod)
    if not domain or not pod["spec"].get("setHostnameAsFQDN"):
        return short_hostname(pod)
    whole = f"{short_hostname(pod)}.{domain}"
    if len(whole) > _LONGEST_FQDN:
        message = (
            "Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, FQDN"
            f" {whole} is too long ({_LONGEST_FQDN} characters is the max, {len(whole)} characters requested)"
        )
        raise SetupError(message, FAILED_SANDBOX)
    return whole


def short_hostname(pod: Json) -> str:
    name: str = pod["spec"].get("hostname") or pod["metadata"]["name"]
    # Cut, it must not end in what no name may end in.
    return name if len(name) <= _LONGEST_HOSTNAME else name[:_LONGEST_HOSTNAME].rstrip("-.")


def _own_names(pod: Json) -> str:
    short, domain = short_hostname(pod), _domain(pod)
    return f"{short}.{domain}\t{short}" if domain else short


def _domain(pod: Json) -> str:
    subdomain = pod["spec"].get("subdomain")
    return f"{subdomain}.{pod['metadata']['namespace']}.svc.{CLUSTER_DOMAIN}" if subdomain else ""


def _section(origin: str, entries: Iterable[Entry]) -> str:
    lines = "".join("\t".join((ip, *names)) + "\n" for ip, names in entries)
    return f"\n# Entries added by {origin}.\n{lines}" if lines else ""
