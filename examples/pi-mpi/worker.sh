# Lets mpirun start its daemon here: an sshd, at the address and port by which the others know this task.
me=$(echo "$WORKER_HOSTS" | cut -d, -f$((TASK_INDEX + 1)))
# As root, sshd insists on this folder.
mkdir -p -m 755 /run/sshd
exec /usr/sbin/sshd -D -e -f /dev/null \
    -o ListenAddress="$me" \
    -o PidFile=none \
    -o HostKey=/key/key \
    -o AuthorizedKeysFile=/key/authorized_keys \
    -o AuthenticationMethods=publickey \
    -o StrictModes=no
