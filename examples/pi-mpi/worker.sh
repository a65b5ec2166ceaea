# Run an sshd at the address and port of this task, so that mpirun can start its daemon here.
me=$(echo "$WORKER_HOSTS" | cut -d, -f$((TASK_INDEX + 1)))
# As root, sshd requires this folder.
mkdir -p -m 755 /run/sshd
exec /usr/sbin/sshd -D -e -f /dev/null \
    -o ListenAddress="$me" \
    -o PidFile=none \
    -o HostKey=/key/key \
    -o AuthorizedKeysFile=/key/authorized_keys \
    -o AuthenticationMethods=publickey \
    -o StrictModes=no
