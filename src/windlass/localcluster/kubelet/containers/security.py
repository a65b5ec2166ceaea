"""The restrictions of a container: its securityContext and the pod's, as far as this machine can apply them.

`plan` handles the user and the groups.
"""

from collections.abc import Iterable
from typing import Any

from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.sandbox.messages import Security
from windlass.model.base import Json

# In the order of their numbers.
_CAPABILITIES = """
CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
"""
_ALL = "ALL"
_MASKS = {name: 1 << number for number, name in enumerate(_CAPABILITIES.split())}
_MASKS[_ALL] = sum(_MASKS.values())
# The default of containerd without MKNOD, which gives access to all disks where cgroups do not limit devices.
_DEFAULT_CAPABILITIES = """
AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL NET_BIND_SERVICE NET_RAW SETFCAP SETGID SETPCAP SETUID SYS_CHROOT
"""
_RUNTIME_DEFAULT = "RuntimeDefault"
_UNCONFINED = "Unconfined"


def setting(pod: Json, container: Json, field: str) -> Any:
    """Return a field that container and pod can set. The container takes precedence."""
    own = (container.get("securityContext") or {}).get(field)
    return own if own is not None else (pod["spec"].get("securityContext") or {}).get(field)


def restrictions(pod: Json, container: Json, host: Host) -> Security:
    """Return the requested restrictions that this machine can apply."""
    requested, possible = _requested(pod, container), host.security
    return Security(
        no_new_privileges=requested.no_new_privileges and possible.no_new_privileges,
        read_only_root=requested.read_only_root and possible.read_only_root,
        has_seccomp_filter=requested.has_seccomp_filter and possible.has_seccomp_filter,
        capabilities=None if possible.capabilities is None else requested.capabilities,
    )


def unapplied_fields(pod: Json, container: Json, host: Host) -> list[str]:
    """Return the fields of the securityContext that this machine cannot apply, with their values where useful."""
    own = container.get("securityContext") or {}
    requested, applied = _requested(pod, container), restrictions(pod, container, host)
    profile, app_armor = (
        _profile_type(pod, container, name) for name in ("seccompProfile", "appArmorProfile")
    )
    lacks_filter = requested.has_seccomp_filter and not applied.has_seccomp_filter
    unapplied = {
        "privileged": bool(own.get("privileged")) and not host.security.capabilities,
        "allowPrivilegeEscalation": requested.no_new_privileges and not applied.no_new_privileges,
        "readOnlyRootFilesystem": requested.read_only_root and not applied.read_only_root,
        f"seccompProfile ({profile})": lacks_filter or profile not in ("", _RUNTIME_DEFAULT, _UNCONFINED),
        "appArmorProfile": app_armor not in ("", _UNCONFINED),
        "seLinuxOptions": bool(setting(pod, container, "seLinuxOptions")),
        "sysctls": bool(setting(pod, container, "sysctls")),
    }
    capabilities, possible = own.get("capabilities") or {}, host.security.capabilities
    failing = {
        "add": [
            name for name in _names(capabilities, "add") if not _mask(name) or _mask(name) & ~(possible or 0)
        ],
        "drop": [name for name in _names(capabilities, "drop") if not _mask(name) or possible is None],
    }
    unapplied |= {
        f"capabilities.{field} ({', '.join(names)})": bool(names) for field, names in failing.items()
    }
    return [field for field, is_unapplied in unapplied.items() if is_unapplied]


def _requested(pod: Json, container: Json) -> Security:
    own = container.get("securityContext") or {}
    is_privileged = bool(own.get("privileged"))
    no_new_privileges = own.get("allowPrivilegeEscalation") is False
    read_only_root = bool(own.get("readOnlyRootFilesystem"))
    has_filter = _profile_type(pod, container, "seccompProfile") == _RUNTIME_DEFAULT and not is_privileged
    capabilities = own.get("capabilities") or {}
    # With all capabilities of root, a container could undo the other restrictions.
    is_limited = bool(no_new_privileges or read_only_root or has_filter or capabilities) and not is_privileged
    return Security(
        no_new_privileges=no_new_privileges,
        read_only_root=read_only_root,
        has_seccomp_filter=has_filter,
        capabilities=_capability_mask(capabilities) if is_limited else None,
    )


def _profile_type(pod: Json, container: Json, field: str) -> str:
    profile: Json = setting(pod, container, field) or {}
    return str(profile.get("type", ""))


def _capability_mask(capabilities: Json) -> int:
    """Return the defaults, changed as by containerd: ALL comes first, and a drop takes precedence."""
    added, dropped = _names(capabilities, "add"), _names(capabilities, "drop")
    mask = _union(_DEFAULT_CAPABILITIES.split())
    if _ALL in added:
        mask = _mask(_ALL)
    if _ALL in dropped:
        mask = 0
    return (mask | _union(name for name in added if name != _ALL)) & ~_union(
        name for name in dropped if name != _ALL
    )


def _names(capabilities: Json, field: str) -> list[str]:
    return [name.upper().removeprefix("CAP_") for name in capabilities.get(field) or ()]


def _mask(name: str) -> int:
    """Return the bit of a capability, or 0 for an unknown name."""
    return _MASKS.get(name, 0)


def _union(names: Iterable[str]) -> int:
    mask = 0
    for name in names:
        mask |= _mask(name)
    return mask
