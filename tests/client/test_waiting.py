"""What pods wait for, from the messages of the scheduler and the kubelet."""

import pytest

from windlass.client import waiting

NODES = "0/{} nodes are available: {}. preemption: 0/1 nodes are available: 1 Preemption is not helpful."
MESSAGES = {
    "one node": (
        ("Unschedulable", NODES.format(1, "1 Insufficient cpu")),
        "no suitable node: the only node has too few free CPUs",
    ),
    "several nodes": (
        (
            "Unschedulable",
            NODES.format(3, "1 Insufficient memory, 2 node(s) had untolerated taint {gpu: yes}"),
        ),
        (
            "no suitable node: 1 of 3 nodes has too little free memory, "
            "2 of 3 nodes have the taint {gpu: yes}, which the task does not tolerate"
        ),
    ),
    "other resource": (
        ("Unschedulable", "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."),
        "no suitable node: 2 of 2 nodes have too few free nvidia.com/gpu",
    ),
    "other cause": (
        ("Unschedulable", "0/2 nodes are available: 2 node(s) were unschedulable."),
        "no suitable node: 2 of 2 nodes were unschedulable",
    ),
    "claim": (
        ("Unschedulable", 'persistentvolumeclaim "data" not found'),
        "the PersistentVolumeClaim data does not exist",
    ),
    "config map": (
        ("CreateContainerConfigError", 'configmap "settings" not found'),
        "the ConfigMap settings does not exist",
    ),
    "mounted secret": (
        ("FailedMount", 'MountVolume.SetUp failed for volume "v" : secret "token" not found'),
        "the Secret token does not exist",
    ),
    "key": (
        ("CreateContainerConfigError", "couldn't find key lr in ConfigMap default/settings"),
        "the ConfigMap settings has no key lr",
    ),
    "image": (
        (
            "ErrImagePull",
            'failed to pull and unpack image "docker.io/library/x:1": failed to resolve reference "x:1": access denied',
        ),
        "the image docker.io/library/x:1 cannot be pulled: access denied",
    ),
    "image again": (
        ("ImagePullBackOff", 'Back-off pulling image "x:1"'),
        "the image x:1 cannot be pulled",
    ),
    "command": (
        ("RunContainerError", 'exec: "trian": executable file not found in $PATH'),
        "cannot start: trian: command not found",
    ),
}


@pytest.mark.parametrize(("given", "text"), MESSAGES.values(), ids=MESSAGES)
def test_cause_is_in_the_words_of_the_user(given: tuple[str, str], text: str) -> None:
    found = waiting.describe(*given)
    assert found.text == text
    assert found.advice


def test_unknown_reason_is_repeated() -> None:
    assert waiting.describe("FailedMount", "no such volume") == ("FailedMount: no such volume", "")
