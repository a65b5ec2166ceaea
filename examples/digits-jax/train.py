"""Train on handwritten digits with jax.distributed: each process has its share of a batch, and one jitted step spans
all.

The peers come from the environment. JAX reads JAX_COORDINATOR_ADDRESS itself; the number and the index of the process
are passed.
"""

import argparse
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

HELD_OUT = 360
BATCH = 32
RATE = 0.3
HIDDEN = 128

Weights = dict[str, jax.Array]

arguments = argparse.ArgumentParser()
arguments.add_argument("--steps", type=int, default=300)
options = arguments.parse_args()


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return all digits, in the same order in all processes."""
    bunch = load_digits()
    order = np.random.default_rng(1).permutation(len(bunch.target))
    return (bunch.data[order] / 16).astype(np.float32), bunch.target[order].astype(np.int32)


def initial() -> Weights:
    first, second = jax.random.split(jax.random.key(0))
    return {
        "first": jax.random.normal(first, (64, HIDDEN)) * 0.2,
        "first bias": jnp.zeros(HIDDEN),
        "second": jax.random.normal(second, (HIDDEN, 10)) * 0.1,
        "second bias": jnp.zeros(10),
    }


def scores(weights: Weights, images: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(images @ weights["first"] + weights["first bias"])
    return hidden @ weights["second"] + weights["second bias"]


def mean_loss(weights: Weights, images: jax.Array, labels: jax.Array) -> jax.Array:
    logarithms = jax.nn.log_softmax(scores(weights, images))
    return -jnp.take_along_axis(logarithms, labels[:, None], axis=1).mean()


@jax.jit
def stepped(weights: Weights, images: jax.Array, labels: jax.Array) -> tuple[Weights, jax.Array]:
    """Return the parameters after one step. The mean spans all processes: XLA inserts the communication."""
    loss, slopes = jax.value_and_grad(mean_loss)(weights, images, labels)
    return jax.tree.map(lambda weight, slope: weight - RATE * slope, weights, slopes), loss


def main() -> None:
    jax.distributed.initialize(
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
        # In a pod JAX would otherwise ask the API server for its peers.
        cluster_detection_method="deactivate",
    )
    process, count = jax.process_index(), jax.process_count()
    mesh = Mesh(jax.devices(), ("batch",))
    shared, everywhere = NamedSharding(mesh, PartitionSpec("batch")), NamedSharding(mesh, PartitionSpec())

    images, labels = digits()
    mine, my_labels = images[HELD_OUT:][process::count], labels[HELD_OUT:][process::count]
    print(f"begins process={process} devices={jax.device_count()} examples={len(mine)}", flush=True)

    weights = jax.device_put(initial(), everywhere)
    loss = jnp.zeros(())
    for step in range(1, options.steps + 1):
        drawn = np.random.default_rng((step, process)).integers(len(mine), size=BATCH)
        batch = jax.make_array_from_process_local_data(shared, mine[drawn])
        answers = jax.make_array_from_process_local_data(shared, my_labels[drawn])
        weights, loss = stepped(weights, batch, answers)
        if process == 0 and (step % 50 == 0 or step == 1):
            print(f"step={step} loss={loss:.4f}", flush=True)

    # Each process has all weights and evaluates the held-out digits by itself.
    own = jax.tree.map(lambda weight: jnp.asarray(weight.addressable_data(0)), weights)
    accuracy = (scores(own, images[:HELD_OUT]).argmax(1) == labels[:HELD_OUT]).mean()
    size = jnp.sqrt(sum(jnp.sum(weight**2) for weight in own.values()))
    print(f"ends process={process} loss={loss:.4f} accuracy={accuracy:.4f} weights={size:.6f}", flush=True)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
