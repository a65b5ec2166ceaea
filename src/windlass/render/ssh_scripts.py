"""Shell scripts in the Secret with the SSH key of a job. They need OpenSSH and the usual programs of an image.

The mounted key may belong to another user and be readable by all users of the pod. ssh and sshd reject such a file in
some cases, so the scripts copy it to a file that only their user can read, in a volume that is deleted with the pod.
"""

from windlass.discovery import mpi
from windlass.model import names

FOLDER = "/windlass/ssh"
"""Folder of the Secret."""
STATE_FOLDER = "/windlass/ssh-state"
PRIVILEGE_SEPARATION_FOLDER = "/run/sshd"
"""Folder that sshd of Debian and Ubuntu requires as root."""
KEY = names.SSH_KEY_FILE
AUTHORIZED_KEYS = names.SSH_AUTHORIZED_KEYS_FILE
KNOWN_HOSTS = "known_hosts"
POD_IP_VARIABLE = "WINDLASS_POD_IP"
WAITING_SECONDS = 600
"""How long ssh waits for a task that has not started yet."""

_COPY_KEY = f"""\
key={STATE_FOLDER}/{KEY}
if [ ! -e $key ]; then
  (umask 077 && cat {FOLDER}/{KEY} >$key.$$ && mv $key.$$ $key) || exit 1
fi
"""

SSH = f"""\
#!/bin/sh
# Run ssh. Connect to the tasks of this job with its key, once they have started, and to other hosts as usual.
PATH=$(echo ":$PATH:" | sed -e 's|:{FOLDER}:|:|g' -e 's/^://' -e 's/:$//')
found=$(ssh -F "${mpi.SSH_CONFIG_VARIABLE}" -G "$@" 2>/dev/null)
case $found in
  *"hostkeyalias {mpi.HOST_KEY_ALIAS}"*) ;;
  *) exec ssh "$@" ;;
esac
{_COPY_KEY}
host=$(echo "$found" | sed -n 's/^hostname //p')
waited=0
while command -v getent >/dev/null && ! getent ahosts "$host" >/dev/null && [ $waited -lt {WAITING_SECONDS} ]; do
  sleep 1
  waited=$((waited + 1))
done
exec ssh -F "${mpi.SSH_CONFIG_VARIABLE}" -i $key -o IdentitiesOnly=yes -o BatchMode=yes -o LogLevel=ERROR \\
  -o UserKnownHostsFile={FOLDER}/{KNOWN_HOSTS} -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes \\
  -o ConnectionAttempts={WAITING_SECONDS} -o ConnectTimeout=10 -o ServerAliveInterval=30 "$@"
"""

SSHD = f"""\
#!/bin/sh
# Run sshd, which accepts only the key of this job, at the address that the other tasks know.
sshd=$(command -v sshd || command -v /usr/sbin/sshd) || {{
  echo "windlass: the image has no sshd: install openssh-server" >&2
  exit 127
}}
hosts=$(eval "echo \\$$(echo "$JOB_NAME" | tr a-z A-Z)_HOSTS")
address=$(echo "$hosts" | cut -d, -f$((TASK_INDEX + 1)))
# On the shared network of an embedded cluster, all pods have the interfaces of the machine.
case $address/${POD_IP_VARIABLE} in
  127.0.0.1:*) listen="ListenAddress=$address" ;;
  */127.*) listen="ListenAddress=${POD_IP_VARIABLE}:${{address##*:}}" ;;
  *) listen="Port=${{address##*:}}" ;;
esac
{_COPY_KEY}
# A session starts with the environment of the container.
(umask 077 && export -p >{STATE_FOLDER}/environment) || exit 1
[ "$(id -u)" != 0 ] || chmod 755 {PRIVILEGE_SEPARATION_FOLDER}
exec "$sshd" -D -e -f /dev/null -o "$listen" -o PidFile=none -o LogLevel=ERROR -o HostKey=$key \\
  -o AuthorizedKeysFile={FOLDER}/{AUTHORIZED_KEYS} -o AuthenticationMethods=publickey -o StrictModes=no \\
  -o ForceCommand="/bin/sh {FOLDER}/session"
"""

SESSION = f"""\
# Run the command of an ssh session with the environment of the container.
. {STATE_FOLDER}/environment
cd "$PWD" 2>/dev/null || cd /
exec /bin/sh -c "${{SSH_ORIGINAL_COMMAND:-exec /bin/sh}}"
"""

LAUNCH = f"""\
#!/bin/sh
# Run a command, e.g. mpirun, with the ssh of this job.
PATH={FOLDER}:$PATH
case ${POD_IP_VARIABLE} in
  127.*) export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo HYDRA_IFACE=lo I_MPI_HYDRA_IFACE=lo ;;
esac
# Hydra announces the host name of the launcher, which other pods cannot resolve, unless it has an interface to use.
routes=$(cat /proc/net/route 2>/dev/null)
interface=$(echo "$routes" | sed -n 's/^\\([^[:space:]]*\\)[[:space:]]00000000[[:space:]].*/\\1/p' | head -n 1)
if [ -n "$interface" ]; then
  export HYDRA_IFACE="${{HYDRA_IFACE:-$interface}}" I_MPI_HYDRA_IFACE="${{I_MPI_HYDRA_IFACE:-$interface}}"
fi
exec "$@"
"""

SCRIPTS = {"ssh": SSH, "sshd": SSHD, "session": SESSION, "launch": LAUNCH}
