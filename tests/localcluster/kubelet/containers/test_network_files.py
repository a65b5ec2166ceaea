"""A pod's names, its /etc/hosts and its /etc/resolv.conf."""

import pytest

from windlass.localcluster.kubelet.containers import network_files
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import PodFacts
from windlass.localcluster.kubelet.containers.network_files import resolv_conf
from windlass.model.base import Json

LOCALHOST = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
ALIASES = [{"ip": "192.0.2.9", "hostnames": ["nfs", "nfs.example"]}, {"ip": "192.0.2.8", "hostnames": ["x"]}]
ALIAS_LINES = "\n# Entries added by HostAliases.\n192.0.2.9\tnfs\tnfs.example\n192.0.2.8\tx\n"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, f"{LOCALHOST}10.1.0.7\tdigits-worker-0\nfd00::7\tdigits-worker-0\n"),
        (
            {"hostname": "worker-0", "subdomain": "digits", "hostAliases": ALIASES},
            (
                f"{LOCALHOST}10.1.0.7\tworker-0.digits.train.svc.cluster.local\tworker-0\n"
                f"fd00::7\tworker-0.digits.train.svc.cluster.local\tworker-0\n{ALIAS_LINES}"
            ),
        ),
        (
            {"hostNetwork": True, "hostAliases": ALIASES},
            f"# Kubernetes-managed hosts file (host network).\n127.0.0.1 node\n{ALIAS_LINES}",
        ),
    ],
)
def test_hosts_file(spec: Json, expected: str, pod: Json, facts: PodFacts) -> None:
    pod["spec"] |= spec
    assert network_files.hosts_file(pod, facts, (), "127.0.0.1 node\n") == expected
    peers = [("10.1.0.8", ("worker-1.digits", "worker-1")), ("10.96.0.9", ("ps",))]
    added = "\n# Entries added by the cluster.\n10.1.0.8\tworker-1.digits\tworker-1\n10.96.0.9\tps\n"
    assert network_files.hosts_file(pod, facts, peers, "127.0.0.1 node\n") == expected + added


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        ("worker-0", {}, "worker-0"),
        ("worker-0", {"hostname": "w"}, "w"),
        ("worker-0", {"hostname": "w", "subdomain": "s"}, "w"),
        (
            "worker-0",
            {"hostname": "w", "subdomain": "s", "setHostnameAsFQDN": True},
            "w.s.train.svc.cluster.local",
        ),
        ("worker-0", {"setHostnameAsFQDN": True}, "worker-0"),
        ("x" * 63, {}, "x" * 63),
        ("x" * 64, {}, "x" * 63),
        ("x" * 61 + "-.y", {}, "x" * 61),
        # With the domain 64 characters: as long as the kernel takes.
        (
            "x" * 38,
            {"subdomain": "s", "setHostnameAsFQDN": True},
            "x" * 38 + ".s.train.svc.cluster.local",
        ),
    ],
)
def test_hostname(name: str, spec: Json, expected: str, pod: Json) -> None:
    pod["metadata"]["name"] = name
    pod["spec"] |= spec
    assert network_files.hostname(pod) == expected


def test_too_long_fqdn_is_rejected(pod: Json) -> None:
    pod["metadata"]["name"] = "x" * 39
    pod["spec"] |= {"subdomain": "s", "setHostnameAsFQDN": True}
    with pytest.raises(SetupError) as refused:
        network_files.hostname(pod)
    assert refused.value.reason == "FailedCreatePodSandBox"
    assert refused.value.message == (
        "Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, FQDN"
        f" {'x' * 39}.s.train.svc.cluster.local is too long (64 characters is the max, 65 characters requested)"
    )


HOST = """\
# made by hand
nameserver 192.0.2.53
search old.example
nameserver 192.0.2.54
search corp.example. lab.example
options timeout:2 rotate
"""


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"dnsPolicy": "ClusterFirst"},
            (
                "search corp.example lab.example\nnameserver 192.0.2.53\nnameserver 192.0.2.54\n"
                "options timeout:2 rotate\n"
            ),
        ),
        (
            {
                "dnsPolicy": "Default",
                "dnsConfig": {
                    "nameservers": ["192.0.2.54", "198.51.100.1", "198.51.100.2"],
                    "searches": ["lab.example", "own.example"],
                    "options": [{"name": "timeout", "value": "5"}, {"name": "edns0"}],
                },
            },
            (
                "search corp.example lab.example own.example\n"
                "nameserver 192.0.2.53\nnameserver 192.0.2.54\nnameserver 198.51.100.1\n"
                "options timeout:5 rotate edns0\n"
            ),
        ),
        (
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["198.51.100.1"]}},
            "nameserver 198.51.100.1\n",
        ),
        ({"dnsPolicy": "None"}, ""),
    ],
)
def test_resolv_conf(spec: Json, expected: str, pod: Json) -> None:
    pod["spec"] |= spec
    assert resolv_conf(pod, HOST) == expected


@pytest.mark.parametrize(
    ("searches", "kept"),
    [([f"{number}.example" for number in range(40)], 32), ([f"{number:0>200}" for number in range(11)], 10)],
)
def test_search_domains_are_truncated(searches: list[str], kept: int, pod: Json) -> None:
    pod["spec"] |= {"dnsPolicy": "None", "dnsConfig": {"searches": searches}}
    assert resolv_conf(pod, HOST) == f"search {' '.join(searches[:kept])}\n"
