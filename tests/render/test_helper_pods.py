"""Helper pods: literal commands, and the role whose image and nodes they use."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.localcluster.kubelet.containers import expansion
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job, Role
from windlass.render import helper_pods

NAMES = {"A": "filled in", "": "too"}


@given(st.text(st.sampled_from("$()A x'\"\n\\")) | st.text())
def test_literal_text_is_not_expanded_by_kubernetes(text: str) -> None:
    assert expansion.expand(helper_pods.literal(text), NAMES) == text


def test_leading_role_is_leader_or_first_running_role() -> None:
    roles = {"ps": Role(image="p"), "worker": Role(image="w")}
    job = Job(name="a", runtime=Runtime.TENSORFLOW, command="x", roles=roles)
    assert helper_pods.leading_role(job).image == "w"
    alone = Job(
        name="a", runtime=Runtime.TENSORFLOW, command="x", roles={"none": Role(tasks=0), "ps": roles["ps"]}
    )
    assert helper_pods.leading_role(alone).image == "p", "one that runs, where none leads"
