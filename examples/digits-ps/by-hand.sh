#!/bin/bash
# The same four processes without a launcher, for comparison.
#
#     PYTHON=python3 OUTPUT=folder examples/digits-ps/by-hand.sh [--steps=N]
#
# Exits when both workers have ended, and stops the parameter servers.
set -eu
train=$(dirname "$0")/train.py
python=${PYTHON:-python3}
export OUTPUT=${OUTPUT:-$(mktemp -d /tmp/digits-ps.XXXXXX)}
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2}

# All four sockets are open at once, so that the ports differ.
read -r -a ports < <("$python" -c '
import socket
open_sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
print(*(each.getsockname()[1] for each in open_sockets))')
cluster=$(printf '{"ps": ["127.0.0.1:%s", "127.0.0.1:%s"], "worker": ["127.0.0.1:%s", "127.0.0.1:%s"]}' "${ports[@]}")

servers=()
workers=()
trap 'kill "${servers[@]}" "${workers[@]}" 2>/dev/null || true' EXIT

task() {  # role, index, options…
    local role=$1 index=$2
    shift 2
    TF_CONFIG="{\"cluster\": $cluster, \"task\": {\"type\": \"$role\", \"index\": $index}}" exec "$python" "$train" "$@"
}

for index in 0 1; do
    task ps "$index" & servers+=($!)
    task worker "$index" "$@" & workers+=($!)
done
code=0
for worker in "${workers[@]}"; do
    wait "$worker" || code=$?
done
exit $code
