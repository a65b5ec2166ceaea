#!/bin/sh
# Print a Secret with a new key pair for this job. Its owner may start programs in the pods.
# The key is also the host key of the workers, so that the launcher can verify them.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ssh-keygen -q -t ed25519 -N '' -C pi-mpi -f "$folder/key"
cat <<END
apiVersion: v1
kind: Secret
metadata:
  name: pi-mpi-key
stringData:
  key: |
$(sed 's/^/    /' "$folder/key")
  authorized_keys: |
    $(cat "$folder/key.pub")
  known_hosts: |
    * $(cat "$folder/key.pub")
---
END
