"""Synchronous training without parameter servers: each worker has all variables, and gradients are averaged.

Every worker runs this file and reads its role and its peers from TF_CONFIG. Workers step together: if one is lost, the
others fail, and the next attempt continues from the last checkpoint. Worker 0 writes checkpoints and summaries; all
workers read the checkpoints from a shared folder.
"""

import argparse
import os
import time

import tensorflow as tf

BATCH = 64
"""Batch size of all workers together."""
HIDDEN = 64
LEARNING_RATE = 0.3
CHECKPOINT_EVERY = 50


class Model(tf.Module):
    """The model, created in the strategy's scope: all workers start with the values of worker 0, and assignments are
    averaged."""

    def __init__(self) -> None:
        super().__init__()
        mean = {"aggregation": tf.VariableAggregation.MEAN}
        self.hidden = tf.Variable(tf.random.normal([64, HIDDEN], stddev=0.1), name="hidden", **mean)
        self.hidden_bias = tf.Variable(tf.zeros([HIDDEN]), name="hidden_bias", **mean)
        self.logits = tf.Variable(tf.random.normal([HIDDEN, 10], stddev=0.1), name="logits", **mean)
        self.logits_bias = tf.Variable(tf.zeros([10]), name="logits_bias", **mean)
        self.step = tf.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            name="step",
        )

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
    from sklearn import datasets, model_selection

    images, labels = datasets.load_digits(return_X_y=True)
    return model_selection.train_test_split(
        images.astype("float32") / 16, labels, test_size=0.25, random_state=0
    )


def train(strategy, me, steps: int, output: str) -> None:
    images, held_out_images, labels, held_out_labels = digits()

    def batches(context):
        data = tf.data.Dataset.from_tensor_slices((images, labels))
        own = data.shard(context.num_input_pipelines, context.input_pipeline_id)
        return own.shuffle(len(images)).repeat().batch(context.get_per_replica_batch_size(BATCH))

    with strategy.scope():
        model = Model()

    def replica_step(images, labels):
        with tf.GradientTape() as tape:
            loss = model.loss(images, labels)
        variables = model.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(LEARNING_RATE * gradient)
        model.step.assign_add(1)
        return loss

    @tf.function
    def train_step(iterator):
        every_loss = strategy.run(replica_step, args=next(iterator))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, every_loss, axis=None)

    checkpoint = tf.train.Checkpoint(model=model)
    manager = tf.train.CheckpointManager(checkpoint, output, max_to_keep=3)
    if manager.restore_or_initialize():
        print(f"restored: step={model.step.numpy()} checkpoint={manager.latest_checkpoint}", flush=True)
    losses = Losses(output) if me.task_id == 0 else None
    iterator = iter(strategy.distribute_datasets_from_function(batches))
    begin = step = model.step.numpy()
    while step < steps:
        loss = train_step(iterator)
        step = model.step.numpy()
        if step == begin + 1:
            print(f"first step: step={step} loss={loss:.4f} time={time.time():.3f}", flush=True)
        if step % CHECKPOINT_EVERY == 0:
            print(f"worker {me.task_id}: step={step} loss={loss:.4f}", flush=True)
        if losses is not None:
            losses.add(step, loss)
            if step % CHECKPOINT_EVERY == 0 or step == steps:
                manager.save(step)
    if losses is not None:
        losses.close()
    print(f"done: worker={me.task_id} step={step} now={step - begin}", flush=True)
    # Each worker has the whole model and gets the same result.
    is_right = tf.argmax(model(held_out_images), 1) == held_out_labels
    accuracy, loss = tf.reduce_mean(tf.cast(is_right, tf.float32)), model.loss(images, labels)
    print(f"result: accuracy={accuracy:.4f} loss={loss:.4f} steps={step}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--output", default=os.environ.get("OUTPUT", "/output"))
    options = parser.parse_args()
    tf.get_logger().setLevel("ERROR")
    # The data set is small: more threads would slow it down.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    # First of all TensorFlow calls, because it starts the server of this worker.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    train(strategy, strategy.cluster_resolver, options.steps, options.output)


if __name__ == "__main__":
    main()
