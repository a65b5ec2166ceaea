"""The `pod` settings of a role take precedence over those of the job."""

from windlass.model.job import Job, Role
from windlass.render.framework.builder import framework


def test_pod_of_the_role_overrides_the_pod_of_the_job() -> None:
    pods = {"job": {"spec": {"hostIPC": True, "hostPID": True}}, "role": {"spec": {"hostIPC": False}}}
    job = Job(name="digits", command="python train.py", pod=pods["job"], roles={"a": Role(pod=pods["role"])})
    spec = framework(job)["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
    assert (spec["hostIPC"], spec["hostPID"]) == (False, True)
