"""One more process in a container, over the WebSocket protocol that all clients speak."""

import pytest
from pods import streaming
from pods.place import Place, Pod
from pods.specs import FOREVER, container, mounted, scratch


@pytest.fixture
def pod(place: Place) -> Pod:
    env = [{"name": "COLOUR", "value": "blue"}]
    pod = place.start(mounted(FOREVER, env=env, workingDir="/usr"), volumes=scratch(), hostname="inside")
    pod.running()
    return pod


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_codes(pod: Pod, code: int) -> None:
    done = pod.sh(f"exit {code}")
    assert done.code == code
    if code:
        words = "command terminated with non-zero exit code: "
        assert done.status["reason"] == "NonZeroExitCode"
        assert done.status["message"].startswith(words)


def test_exit_code_of_a_signal(pod: Pod) -> None:
    assert pod.sh("kill -9 $$").code == 137


def test_stdout_and_stderr_are_separate(pod: Pod) -> None:
    done = pod.sh("echo out; echo err >&2")
    assert (done.stdout, done.stderr, done.code) == (b"out\n", b"err\n", 0)


def test_stdin_is_forwarded(pod: Pod) -> None:
    assert pod.execute("head", "-c", "5", stdin=b"hello world").stdout == b"hello"


def test_large_streams(pod: Pod) -> None:
    data = bytes(range(256)) * 4096
    done = pod.execute("head", "-c", str(len(data)), stdin=data)
    assert done.stdout == data


def test_command_runs_inside_of_the_container(pod: Pod) -> None:
    """The command has the files, hostname, environment and working directory of the container."""
    pod.sh("echo hello > /data/word")
    done = pod.sh("cat /data/word; uname -n; echo $COLOUR; pwd")
    assert done.text.split() == ["hello", "inside", "blue", "/usr"]


def test_missing_command_fails(pod: Pod) -> None:
    done = pod.execute("there-is-no-such-command")
    assert done.status["status"] == "Failure"
    assert done.code in (None, 126, 127)
    assert done.code is not None or "there-is-no-such-command" in done.status["message"]


def test_exec_with_a_terminal(pod: Pod) -> None:
    done = pod.sh("test -t 0 && test -t 1 && test -t 2 && echo yes", tty=True)
    assert (done.stdout, done.stderr) == (b"yes\r\n", b"")


def test_terminal_size_is_set(pod: Pod) -> None:
    run = "until [ \"$(stty size)\" = '50 132' ]; do sleep 0.1; done; stty size"
    assert pod.sh(run, tty=True, size=(132, 50)).stdout == b"50 132\r\n"


def test_invalid_terminal_size_is_ignored(pod: Pod) -> None:
    done = pod.sh("read line; echo got $line", tty=True, size=(1_000_000, 1_000_000), stdin=b"word\n")
    assert done.stdout.endswith(b"got word\r\n")
    assert done.code == 0


def test_terminal_echoes_input(pod: Pod) -> None:
    """A terminal echoes its input before the output."""
    done = pod.execute("sh", "-c", "read line; echo got $line", tty=True, stdin=b"word\n")
    assert done.stdout.endswith(b"got word\r\n")


def test_exec_selects_the_container(place: Place) -> None:
    pod = place.start(*(container(FOREVER, name, env=[{"name": "ME", "value": name}]) for name in ("a", "b")))
    pod.running()
    assert [pod.sh("echo $ME", container=name).text for name in ("a", "b")] == ["a\n", "b\n"]
    with pytest.raises(streaming.RefusedError) as refused:
        pod.sh("true", container="c")
    assert refused.value.code == 400


def test_exec_in_an_ended_pod_fails(place: Place) -> None:
    pod = place.start("true")
    pod.ended()
    with pytest.raises(streaming.RefusedError) as refused:
        pod.sh("true")
    assert refused.value.code in (400, 404, 500)


def test_exec_does_not_end_the_container(pod: Pod) -> None:
    pod.sh("exit 3")
    pod.stays("running", lambda seen: seen.running() and seen.restarts() == 0)


def test_exec_ends_with_the_container(place: Place) -> None:
    run = "rm -f /data/go; touch /data/armed; until [ -e /data/go ]; do sleep 0.1; done"
    pod = place.start(mounted(run), volumes=scratch(), restartPolicy="Always")
    pod.running()
    done = pod.sh("until [ -e /data/armed ]; do sleep 0.1; done; touch /data/go; sleep 100000")
    assert (done.status["reason"], done.code) == ("NonZeroExitCode", 137)
    pod.wait("to restart", lambda seen: seen.restarts() >= 1)


def test_background_processes_of_exec_end_with_the_container(pod: Pod) -> None:
    assert pod.sh("sleep 100000 > /dev/null 2>&1 &").code == 0
    pod.delete()
    pod.wait_until_gone()


def test_containers_do_not_share_processes(place: Place) -> None:
    marked = ["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait", "a-peculiar-word"]
    pod = place.start(container(marked, "a"), container(FOREVER, "b"))
    pod.running()
    look = "grep -l a-peculia[r] /proc/[0-9]*/cmdline 2> /dev/null | grep -v self | wc -l"
    assert int(pod.sh(look, container="a").text) >= 1
    assert int(pod.sh(look, container="b").text) == 0


def test_attach_shows_output(place: Place) -> None:
    run = "while true; do echo tick; sleep 0.2; done"
    pod = place.start(run)
    pod.running()
    seen = streaming.execute(place.client.access, f"{pod.path}/attach", until=b"tick\ntick\n")
    assert b"tick\ntick\n" in seen.stdout


def test_attach_forwards_stdin(place: Place) -> None:
    pod = place.start(container("read line; echo got $line", stdin=True, stdinOnce=True))
    pod.running()
    streaming.execute(place.client.access, f"{pod.path}/attach", stdin=b"word\n", until=b"got word\n")
    assert pod.output() == ["got word"]


def test_stdin_once_ends_with_the_first_client(place: Place) -> None:
    pod = place.start(container(["cat"], stdin=True, stdinOnce=True))
    pod.running()
    streaming.execute(place.client.access, f"{pod.path}/attach", stdin=b"word\n", until=b"word\n")
    assert pod.output() == ["word"]


def test_attach_sets_terminal_size(place: Place) -> None:
    run = "until [ \"$(stty size)\" = '50 132' ]; do sleep 0.1; done; echo as wanted; exec cat"
    pod = place.start(container(run, stdin=True, tty=True))
    pod.running()
    seen = streaming.execute(
        place.client.access, f"{pod.path}/attach", tty=True, size=(132, 50), until=b"as wanted\r\n"
    )
    assert seen.stdout.endswith(b"as wanted\r\n")
