# The agent with which mpirun starts its daemon on a host: agent.sh worker-1.pi-mpi COMMAND…
# It runs ssh. WORKER_HOSTS contains the address and port of each task, ordered by index.
name=${1%%.*}
shift
address=$(echo "$WORKER_HOSTS" | cut -d, -f$((${name##*-} + 1)))
host=${address%:*}

# The task's name and its sshd may be available a moment after its pod.
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
