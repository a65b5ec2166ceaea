#!/bin/sh
# Prints a Secret with a key pair made for this one job: whoever has it may start programs in its pods.
# The workers show the same key as their own, so that the launcher knows whom it speaks to.
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
