"""The configuration (statement 51) is passed to the decisions."""

import builders
from builders import NOW

from windlass.decide import initial_status
from windlass.decide.types import Rules
from windlass.model.settings import Settings
from windlass.wire.settings import file as settings_file

CONFIGURED = b"""
objectLocalCacheCreationTimeoutSec: 61
frameworkCompletedRetainSec: 62
frameworkMinRetryDelaySecForTransientConflictFailed: 63
frameworkMaxRetryDelaySecForTransientConflictFailed: 64
podFailureSpec:
  - code: -2000
    phrase: OutOfLuck
    type: {attributes: [Transient]}
    podPatterns: [{containers: [{codeRange: {min: 7, max: 7}}]}]
"""


def code_of_a_pod_that_exits_with(exit_code: int, rules: Rules) -> tuple[int, str]:
    job = builders.framework("job")
    task = initial_status.framework_status(job, NOW).attempt_status.roles[0].task_statuses[0]
    ended = rules.classifier.classify(builders.pod(job, task, phase="Failed", exit_code=exit_code))
    return ended.code, ended.phrase


def test_rules_have_every_setting_that_decisions_read() -> None:
    rules = Rules.from_settings(settings_file.load_settings(CONFIGURED, "config.yaml"))
    assert (rules.cache_creation_timeout_sec, rules.completed_retain_sec) == (61, 62)
    assert (rules.min_conflict_delay_sec, rules.max_conflict_delay_sec) == (63, 64)
    assert code_of_a_pod_that_exits_with(7, rules) == (-2000, "OutOfLuck")
    assert code_of_a_pod_that_exits_with(137, rules) == (137, "ContainerUnrecognizedFailed")


def test_default_rules_are_those_of_the_reference() -> None:
    rules = Rules.from_settings(Settings())
    assert (rules.cache_creation_timeout_sec, rules.completed_retain_sec) == (300, 30 * 24 * 3600)
    assert (rules.min_conflict_delay_sec, rules.max_conflict_delay_sec) == (60, 900)
    assert code_of_a_pod_that_exits_with(137, rules) == (137, "ContainerSigKillReceived")
