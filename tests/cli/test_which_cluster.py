"""Which cluster a command uses: options, KUBECONFIG, ~/.kube/config, and the cluster of `windlass local`."""

import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from in_process_cluster import ClusterNamespace
from operated import jobs

from windlass.cli.main import main

ELSEWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "users": [{"name": "u", "user": {}}],
}


def windlass(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


@pytest.fixture
def local(home: Path, place: ClusterNamespace) -> Path:
    """The kubeconfig that `windlass local up` leaves."""
    data = home / "state" / "windlass" / "local"
    data.mkdir(parents=True, mode=0o700)
    data.parent.chmod(0o700)
    shutil.copy(place.kubeconfig, data / "kubeconfig")
    (data / "daemon.lock").touch(mode=0o600)
    return data / "kubeconfig"


@pytest.fixture
def elsewhere(home: Path) -> Path:
    file = home / "elsewhere.yaml"
    file.write_text(yaml.safe_dump(ELSEWHERE))
    file.chmod(0o600)
    return file


def is_used(place: ClusterNamespace, result: Result) -> bool:
    """Return whether the command reached the cluster of the place, not the one elsewhere."""
    if result.exit_code:
        assert "http://127.0.0.1:1" in result.stderr, result.output
        return False
    return result.stderr == f"no jobs found in the namespace {place.name}\n"


def test_without_any_cluster_the_message_says_how_to_start_one() -> None:
    result = windlass("list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert 'Or start a cluster on this machine: eval "$(windlass local up)".' in result.stderr
    result = windlass("list", "--local")
    message = "windlass: there is no cluster on this machine: start one with `windlass local up`\n"
    assert (result.exit_code, result.stderr) == (1, message)


def test_local_cluster_is_used_if_kubectl_has_none(place: ClusterNamespace, local: Path) -> None:
    assert is_used(place, windlass("list", "-n", place.name))


@pytest.mark.parametrize("source", ["KUBECONFIG", "~/.kube/config", "--kubeconfig"])
def test_configuration_of_kubectl_has_priority(
    source: str,
    place: ClusterNamespace,
    local: Path,
    elsewhere: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = ["-n", place.name]
    match source:
        case "KUBECONFIG":
            monkeypatch.setenv("KUBECONFIG", str(elsewhere))
        case "~/.kube/config":
            (home / ".kube").mkdir()
            shutil.copy(elsewhere, home / ".kube" / "config")
        case _:
            options += ["--kubeconfig", str(elsewhere)]
    assert not is_used(place, windlass("list", *options))
    if source == "--kubeconfig":
        result = windlass("list", *options, "--local")
        assert result.exit_code == 2
        assert "--local and --kubeconfig are mutually exclusive" in result.stderr
    else:
        assert is_used(place, windlass("list", *options, "--local"))


def test_local_use_selects_the_local_cluster(
    place: ClusterNamespace, local: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(elsewhere))
    command = ("list", "-n", place.name)
    assert not is_used(place, windlass(*command))
    used = windlass("local", "use")
    assert used.stdout == (
        f"commands use the cluster in {local.parent}. To use those of kubectl again: windlass local use --off\n"
    )
    assert is_used(place, windlass(*command))
    assert not is_used(place, windlass(*command, "--kubeconfig", str(elsewhere)))
    assert (
        windlass("local", "use", "--off").stdout
        == "commands use the cluster of KUBECONFIG or ~/.kube/config\n"
    )
    assert not is_used(place, windlass(*command))


def test_local_use_requires_a_cluster(home: Path) -> None:
    result = windlass("local", "use")
    assert result.exit_code == 1
    data = home / "state" / "windlass" / "local"
    assert result.stderr == f"windlass: there is no cluster in {data}: start it with `windlass local up`\n"


def test_stopped_local_cluster_is_reported_with_the_command_that_starts_it(
    local: Path, elsewhere: Path
) -> None:
    shutil.copy(elsewhere, local)
    result = windlass("list")
    assert result.exit_code == 124
    assert result.stderr.endswith(
        "Check it with `windlass local status`, and start it with `windlass local up`.\n"
    )


def test_changing_commands_name_the_cluster_once(place: ClusterNamespace, tmp_path: Path) -> None:
    address = yaml.safe_load(place.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    for name in ("digits", "letters"):
        body: dict[str, object] = {"name": name, "image": "x", "command": "x", "roles": {"worker": {}}}
        forever = {"metadata": {"annotations": jobs.FOREVER}}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({**body, "pod": forever}))
    files = (str(tmp_path / "digits.yaml"), str(tmp_path / "letters.yaml"))
    commands: dict[tuple[str, ...], int] = {
        ("submit", *files, "--dry-run"): 0,
        ("submit", *files): 1,
        ("list",): 0,
        ("status", "digits"): 0,
        ("scale", "digits", "worker=2"): 1,
        ("suspend", "digits", "letters"): 1,
        ("resume", "digits"): 1,
        ("stop", "digits"): 1,
        ("delete", "digits", "letters"): 1,
    }
    for words, number in commands.items():
        result = windlass(*words, *place.options)
        assert result.exit_code == 0, result.output
        named = [line for line in result.stderr.splitlines() if line.startswith(f"cluster: {address} of ")]
        assert len(named) == number, (words, result.stderr)
