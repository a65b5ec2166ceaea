"""Parameter-server training in TensorFlow 2: one coordinator, here the chief, schedules the steps.

Every task runs this file and reads its role and its peers from TF_CONFIG. Workers and ps are servers that never end.
The chief runs the training loop: it schedules steps on free workers, and reschedules the step of a lost worker. If a ps
is lost, the chief fails; the next attempt continues from the last checkpoint. (Keras no longer supports parameter
servers, so the loop and the optimizer are written here.)
"""

import argparse
import os
import time

import tensorflow as tf

BATCH = 64
HIDDEN = 64
LEARNING_RATE = 0.2
STEPS_PER_ROUND = 50
"""Number of concurrent steps, after which the chief checks the loss and writes a checkpoint."""


class Model(tf.Module):
    """The model. Its variables are on the ps if it is created in the strategy's scope."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = tf.Variable(tf.random.normal([64, HIDDEN], stddev=0.1), name="hidden")
        self.hidden_bias = tf.Variable(tf.zeros([HIDDEN]), name="hidden_bias")
        self.logits = tf.Variable(tf.random.normal([HIDDEN, 10], stddev=0.1), name="logits")
        self.logits_bias = tf.Variable(tf.zeros([10]), name="logits_bias")
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")

    def __call__(self, images):
        hidden = tf.nn.relu(images @ self.hidden + self.hidden_bias)
        return hidden @ self.logits + self.logits_bias

    def loss(self, images, labels):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self(images)))


class Losses:
    """Losses for TensorBoard. tf.summary.scalar would need the TensorBoard package; this needs only TensorFlow."""

    def __init__(self, output: str) -> None:
        with tf.Graph().as_default():
            self._writer = tf.compat.v1.summary.FileWriter(output)

    def add(self, step: int, loss: float) -> None:
        value = tf.compat.v1.Summary.Value(tag="loss", simple_value=loss)
        self._writer.add_summary(tf.compat.v1.Summary(value=[value]), step)

    def close(self) -> None:
        self._writer.close()


def digits():
    """Return images and labels for training, and held-out ones."""
    from sklearn import datasets, model_selection  # servers do not need it

    images, labels = datasets.load_digits(return_X_y=True)
    return model_selection.train_test_split(
        images.astype("float32") / 16, labels, test_size=0.25, random_state=0
    )


def coordinate(cluster, steps: int, output: str) -> None:
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    workers = cluster.cluster_spec().num_tasks("worker")
    images, held_out_images, labels, held_out_labels = digits()

    def batches():
        """Return the batches of one worker, in its own order, with its number."""
        data = tf.data.Dataset.from_tensor_slices((images, labels))
        data = data.shuffle(len(images)).batch(BATCH, drop_remainder=True).repeat()
        number = tf.random.uniform([], maxval=tf.int64.max, dtype=tf.int64)
        return tf.data.Dataset.zip(data, tf.data.Dataset.from_tensors(number).repeat())

    with strategy.scope():
        model = Model()

    @tf.function
    def train_step(iterator):
        (images, labels), worker = next(iterator)
        with tf.GradientTape() as tape:
            loss = model.loss(images, labels)
        variables = model.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(LEARNING_RATE * gradient)
        model.step.assign_add(1)
        return loss, worker

    # The chief reads and writes all of it, so that no ps needs access to the folder.
    here = tf.train.CheckpointOptions(experimental_io_device="/job:chief")
    checkpoint = tf.train.Checkpoint(model=model)
    manager = tf.train.CheckpointManager(checkpoint, output, max_to_keep=3)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint, here)
        print(f"restored: step={model.step.numpy()} checkpoint={manager.latest_checkpoint}", flush=True)
    losses = Losses(output)
    each_worker = iter(coordinator.create_per_worker_dataset(batches))
    seen = set()
    while (left := steps - model.step.numpy()) > 0:
        # One step at a time until every worker has run one: TensorFlow 2.21 may fail if a function is
        # prepared on one worker while it runs on another.
        is_warm = len(seen) >= workers
        begun = [
            coordinator.schedule(train_step, args=(each_worker,))
            for _ in range(min(left, STEPS_PER_ROUND if is_warm else 1))
        ]
        coordinator.join()
        every_loss, took_part = zip(*(each.fetch() for each in begun), strict=True)
        loss, step = sum(every_loss) / len(begun), model.step.numpy()
        if not seen:
            print(f"first step: step={step} loss={loss:.4f} time={time.time():.3f}", flush=True)
        seen.update(took_part)
        losses.add(step, loss)
        if is_warm:
            manager.save(step, options=here)
            print(f"chief: step={step} loss={loss:.4f} workers={len(set(took_part))}", flush=True)
    losses.close()
    is_right = tf.argmax(model(held_out_images), 1) == held_out_labels
    accuracy, loss = tf.reduce_mean(tf.cast(is_right, tf.float32)), model.loss(images, labels)
    print(f"result: accuracy={accuracy:.4f} loss={loss:.4f} steps={model.step.numpy()}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--output", default=os.environ.get("OUTPUT", "/output"))
    options = parser.parse_args()
    tf.get_logger().setLevel("ERROR")
    # The data set is small: more threads would slow it down.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    me = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if me.task_type == "chief":
        coordinate(me, options.steps, options.output)
        return
    server = tf.distribute.Server(me.cluster_spec(), me.task_type, me.task_id, protocol="grpc")
    print(f"{me.task_type} {me.task_id} is at {server.target}", flush=True)
    server.join()  # never returns


if __name__ == "__main__":
    main()
