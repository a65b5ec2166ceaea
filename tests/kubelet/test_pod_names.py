"""The hostname of a pod and its /etc/hosts."""

from pods.place import Place
from pods.specs import FOREVER, container


def test_hostname_is_the_pod_name(place: Place) -> None:
    assert place.start("uname -n; echo $HOSTNAME", name="some-name").output() == ["some-name", "some-name"]


def test_hostname_can_be_set(place: Place) -> None:
    assert place.start("uname -n", hostname="chosen").output() == ["chosen"]


def test_long_name_is_truncated(place: Place) -> None:
    name = "a" * 60 + "-" + "b" * 10
    assert place.start("uname -n", name=name).output() == ["a" * 60 + "-bb"]


def test_truncated_name_does_not_end_with_a_dash(place: Place) -> None:
    name = "a" * 62 + "-" + "b" * 10
    assert place.start("uname -n", name=name).output() == ["a" * 62]


def lines_of_hosts(place: Place, **spec: object) -> tuple[str, list[list[str]]]:
    """The address of a pod, and the words of its /etc/hosts."""
    pod = place.start(f"cat /etc/hosts; echo '# end'; {FOREVER}", name="me", **spec)
    address = pod.running().address
    lines = pod.says("# end").splitlines()
    return address, [line.split() for line in lines if line and not line.startswith("#")]


def test_hosts_file_begins_with_localhost(place: Place) -> None:
    address, lines = lines_of_hosts(place)
    assert ["127.0.0.1", "localhost"] in lines
    assert ["::1", "localhost", "ip6-localhost", "ip6-loopback"] in lines
    assert [address, "me"] in lines


def test_hosts_file_contains_the_fqdn(place: Place) -> None:
    address, lines = lines_of_hosts(place, hostname="chosen", subdomain="ring")
    assert [address, f"chosen.ring.{place.namespace}.svc.cluster.local", "chosen"] in lines


def test_hosts_file_contains_host_aliases(place: Place) -> None:
    aliases = [{"ip": "192.0.2.1", "hostnames": ["one", "uno"]}, {"ip": "192.0.2.2", "hostnames": ["two"]}]
    _, lines = lines_of_hosts(place, hostAliases=aliases)
    assert ["192.0.2.1", "one", "uno"] in lines
    assert ["192.0.2.2", "two"] in lines


RESOLVE = "import socket, sys; print(*(socket.gethostbyname(name) for name in sys.argv[1:]))"


def test_names_are_resolved_from_the_hosts_file(place: Place) -> None:
    aliases = [{"ip": "192.0.2.1", "hostnames": ["one.example"]}]
    pod = place.start(["python3", "-c", RESOLVE, "one.example", "localhost"], hostAliases=aliases)
    assert pod.output() == ["192.0.2.1 127.0.0.1"]


def test_own_name_is_resolved(place: Place) -> None:
    run = ["python3", "-c", f"{RESOLVE}; import time; sys.stdout.flush(); time.sleep(10000)", "me"]
    pod = place.start(run, name="me")
    assert pod.says("\n").strip() == pod.running().address


def test_containers_share_the_hostname(place: Place) -> None:
    pod = place.start(*(container("uname -n", name) for name in ("a", "b")), hostname="both")
    assert pod.ended().phase == "Succeeded"
    assert [pod.log(container=name) for name in ("a", "b")] == ["both\n", "both\n"]
