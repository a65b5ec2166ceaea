"""Train with JAX, configured by the variables of Kubeflow's JAXJob."""

import os

import jax
import jax.numpy as jnp
import samples
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def main() -> None:
    jax.distributed.initialize(
        coordinator_address=f"{os.environ['COORDINATOR_ADDRESS']}:{os.environ['COORDINATOR_PORT']}",
        num_processes=int(os.environ["NUM_PROCESSES"]),
        process_id=int(os.environ["PROCESS_ID"]),
        cluster_detection_method="deactivate",
    )
    rank, size = jax.process_index(), jax.process_count()
    mesh = Mesh(jax.devices(), ("batch",))
    shared, everywhere = NamedSharding(mesh, PartitionSpec("batch")), NamedSharding(mesh, PartitionSpec())
    points, classes = samples.load()
    batch = jax.make_array_from_process_local_data(shared, points[rank::size])
    expected = jax.make_array_from_process_local_data(shared, classes[rank::size])

    @jax.jit
    def stepped(weights: jax.Array, points: jax.Array, classes: jax.Array) -> jax.Array:
        def loss(weights: jax.Array) -> jax.Array:
            return -jnp.take_along_axis(jax.nn.log_softmax(points @ weights), classes[:, None], 1).mean()

        return weights - 1.0 * jax.grad(loss)(weights)

    weights = jax.device_put(jnp.zeros((8, 2)), everywhere)
    for _ in range(50):
        weights = stepped(weights, batch, expected)
    own = weights.addressable_data(0)
    accuracy, norm = ((points @ own).argmax(1) == classes).mean(), jnp.linalg.norm(own)
    print(f"ends rank={rank} size={size} accuracy={accuracy:.4f} weights={norm:.6f}\n", end="", flush=True)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
