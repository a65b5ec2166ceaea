"""Run a complete one-node Kubernetes on this machine: etcd, control plane, containerd, kubelet, kube-proxy, DNS.

    python tools/kubernetes_cluster.py up       start it if it is not running, and print how to use it
    python tools/kubernetes_cluster.py down     stop it and remove its files

It runs in its own namespaces: the host has one network link to it and is otherwise unchanged. With KUBECONFIG that
cluster is used, and nothing is started or stopped. For tests only: all users of this machine can reach it, and it
trusts its pods more than a real cluster should.
"""

import argparse
import os
import sys
import time

import kubernetes_binaries
import programs
import workshops
from one_node import cluster
from one_node.machine import MachineError


def up() -> None:
    if named := os.environ.get("KUBECONFIG"):
        print(f"export KUBECONFIG={named}  # already set: nothing was started")
        return
    started = time.monotonic()
    found = cluster.up()
    took = time.monotonic() - started
    print(f"export KUBECONFIG={found.kubeconfig}  # up after {took:.0f} s; `make kubernetes-down` ends it")


def down() -> None:
    if named := os.environ.get("KUBECONFIG"):
        print(f"KUBECONFIG is set: the cluster of {named} is not changed.")
        return
    cluster.down()


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a complete one-node Kubernetes on this machine.")
    parser.add_argument("what", choices=("up", "down"))
    command = up if parser.parse_args().what == "up" else down
    return programs.exit_code(
        command, MachineError, kubernetes_binaries.BinariesError, workshops.WorkshopError
    )


if __name__ == "__main__":
    sys.exit(main())
