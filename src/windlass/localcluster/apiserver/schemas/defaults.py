"""Constant defaults of the built-in types, by the name of the type in `windlass.k8s.types`.

All other defaults, e.g. those that depend on other fields, are in the strategies (`Strategy.default`).
"""

from typing import Any

_DEFAULT_MODE = {"defaultMode": 0o644}
# Go structs that are not pointers: always present, with the defaults of their fields.
_SPEC: dict[str, Any] = {"spec": {}}
# Kubernetes writes these times as null when they are not set.
_PROBE_AND_TRANSITION_TIME: dict[str, Any] = {"lastProbeTime": None, "lastTransitionTime": None}
_TRANSITION_TIME: dict[str, Any] = {"lastTransitionTime": None}

DEFAULTS: dict[str, dict[str, Any]] = {
    "V1Pod": _SPEC,
    "V1PodTemplateSpec": {"metadata": {}, "spec": {}},
    "V1PodSpec": {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    },
    "V1Container": {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    },
    "V1ContainerPort": {"protocol": "TCP"},
    "V1ContainerStatus": {"lastState": {}, "state": {}},
    "V1ContainerStateRunning": {"startedAt": None},
    "V1ContainerStateTerminated": {"finishedAt": None, "startedAt": None},
    "V1PodCondition": _PROBE_AND_TRANSITION_TIME,
    "V1Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "V1HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "V1GRPCAction": {"service": ""},
    "V1ObjectFieldSelector": {"apiVersion": "v1"},
    "V1ResourceFieldSelector": {"divisor": "0"},
    "V1ConfigMapVolumeSource": _DEFAULT_MODE,
    "V1SecretVolumeSource": _DEFAULT_MODE,
    "V1DownwardAPIVolumeSource": _DEFAULT_MODE,
    "V1ProjectedVolumeSource": _DEFAULT_MODE,
    "V1ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "V1HostPathVolumeSource": {"type": ""},
    "V1ISCSIVolumeSource": {"iscsiInterface": "default"},
    "V1RBDVolumeSource": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
    "V1ScaleIOVolumeSource": {"fsType": "xfs", "storageMode": "ThinProvisioned"},
    "V1AzureDiskVolumeSource": {
        "cachingMode": "ReadWrite",
        "fsType": "ext4",
        "kind": "Shared",
        "readOnly": False,
    },
    "V1Service": _SPEC,
    "V1ServiceSpec": {"sessionAffinity": "None", "type": "ClusterIP"},
    "V1ServicePort": {"protocol": "TCP"},
    "CoreV1EndpointPort": {"protocol": "TCP"},
    "V1Secret": {"type": "Opaque"},
    "V1PersistentVolumeClaim": {"spec": {}, "status": {"phase": "Pending"}},
    "V1PersistentVolumeClaimCondition": _PROBE_AND_TRANSITION_TIME,
    "V1PersistentVolumeClaimSpec": {"resources": {}, "volumeMode": "Filesystem"},
    "V1Deployment": _SPEC,
    "V1DeploymentSpec": {
        "progressDeadlineSeconds": 600,
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "strategy": {},
        "template": {},
    },
    "V1DeploymentCondition": {"lastTransitionTime": None, "lastUpdateTime": None},
    "V1ReplicaSet": _SPEC,
    "V1ReplicaSetCondition": _TRANSITION_TIME,
    "V1ReplicaSetSpec": {"replicas": 1, "template": {}},
    "V1StatefulSet": _SPEC,
    "V1StatefulSetCondition": _TRANSITION_TIME,
    "V1StatefulSetSpec": {
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "podManagementPolicy": "OrderedReady",
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "template": {},
        "updateStrategy": {},
    },
    "V1StatefulSetPersistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    "V1RollingUpdateStatefulSetStrategy": {"maxUnavailable": 1, "partition": 0},
    "V1Job": _SPEC,
    "V1JobCondition": _PROBE_AND_TRANSITION_TIME,
    "V1JobSpec": {
        "completionMode": "NonIndexed",
        "manualSelector": False,
        "suspend": False,
        "template": {},
    },
    "V1Lease": _SPEC,
    "V1Namespace": _SPEC,
    "V1NamespaceCondition": _TRANSITION_TIME,
    "V1Node": _SPEC,
    "V1NodeCondition": {"lastHeartbeatTime": None, "lastTransitionTime": None},
    "CoreV1Event": {
        "involvedObject": {},
        "reportingComponent": "",
        "reportingInstance": "",
        "source": {},
    },
    "V1RoleRef": {"apiGroup": "rbac.authorization.k8s.io"},
}
