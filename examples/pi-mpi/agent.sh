# What mpirun calls to start its daemon on a host: agent.sh worker-1.pi-mpi COMMAND…
# ssh does it. Where and on which port the task listens is in WORKER_HOSTS, at the place of its index.
name=${1%%.*}
shift
address=$(echo "$WORKER_HOSTS" | cut -d, -f$((${name##*-} + 1)))
host=${address%:*}

# The task's name and its sshd may come a moment after its pod.
for _ in $(seq 60); do
    getent ahosts "$host" > /dev/null && break
    sleep 1
done
exec ssh -F /dev/null -p "${address##*:}" -i /key/key \
    -o ConnectionAttempts=60 \
    -o IdentitiesOnly=yes \
    -o UserKnownHostsFile=/key/known_hosts \
    -o LogLevel=ERROR \
    "$host" "$@"
