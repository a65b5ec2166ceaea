"""Asynchronous training with parameter servers: handwritten digits in TensorFlow's graph mode.

Every task runs this file and reads its role and its peers from TF_CONFIG. The variables are on the ps; each worker
computes gradients on its share of the data and applies them without waiting for others. The number of steps of each
worker is a variable too, so that a restarted worker continues where it was. Worker 0 initializes the variables, from
the latest checkpoint if there is one, and writes checkpoints and summaries.
"""

import argparse
import os
import time
from pathlib import Path

import tensorflow.compat.v1 as tf

BATCH = 64
HIDDEN = 64
LEARNING_RATE = 0.005
CHECKPOINT_EVERY = 50
"""Interval in steps of worker 0."""
# Errors of a session whose ps was lost or restarted without its variables.
PEER_LOST = (tf.errors.AbortedError, tf.errors.UnavailableError, tf.errors.FailedPreconditionError)


class Model:
    """The graph. Under replica_device_setter variables are on the ps, everything else on this worker."""

    def __init__(self, workers: int, index: int) -> None:
        self.images = tf.placeholder(tf.float32, [None, 64])
        self.labels = tf.placeholder(tf.int64, [None])
        hidden = tf.nn.relu(dense(self.images, HIDDEN, "hidden"))
        logits = dense(hidden, 10, "logits")
        self.loss = tf.losses.sparse_softmax_cross_entropy(self.labels, logits)
        self.accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), self.labels), tf.float32))
        optimizer = tf.train.AdamOptimizer(LEARNING_RATE)
        self.taken = tf.get_variable("taken", [workers], tf.int64, tf.zeros_initializer(), trainable=False)
        with tf.control_dependencies([optimizer.minimize(self.loss)]):
            self.train = tf.scatter_add(self.taken, [index], tf.constant([1], tf.int64))
        self.initialise = tf.global_variables_initializer()
        self.uninitialised = tf.report_uninitialized_variables()
        # Not sharded: worker 0 writes the whole checkpoint into its own folder.
        self.saver = tf.train.Saver(max_to_keep=3)


def dense(inputs, units, name):
    with tf.variable_scope(name):
        weights = tf.get_variable(
            "weights", [inputs.shape[1], units], initializer=tf.glorot_uniform_initializer()
        )
        return inputs @ weights + tf.get_variable("bias", [units], initializer=tf.zeros_initializer())


class Worker:
    def __init__(self, server, cluster, index: int, steps: int, output: str) -> None:
        from sklearn import datasets, model_selection  # a ps does not need it

        self.index = index
        self.is_chief = index == 0
        self.workers = cluster.num_tasks("worker")
        self.share = -(-steps // self.workers)
        self.output = output
        self.server = server
        images, labels = datasets.load_digits(return_X_y=True)
        self.data = model_selection.train_test_split(images / 16, labels, test_size=0.25, random_state=0)
        with tf.device(
            tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")
        ):
            self.model = Model(self.workers, index)
        self.events = tf.summary.FileWriter(output) if self.is_chief else None

    def run(self) -> None:
        """Run until the job is done. After the loss of a ps, a new session waits for its return."""
        # A worker connects only to the ps, so that a missing worker does not block it.
        config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{self.index}"])
        while True:
            try:
                with tf.Session(self.server.target, config=config) as session:
                    self.await_variables(session)
                    self.take_share(session)
                    if self.is_chief:
                        self.conclude(session)
                return
            except PEER_LOST as error:
                print(f"a parameter server is lost: {type(error).__name__}", flush=True)
                time.sleep(0.5)

    def await_variables(self, session) -> None:
        """Wait for the variables, which a restarted worker finds on the ps."""
        model = self.model
        while session.run(model.uninitialised).size:
            if not self.is_chief:
                time.sleep(0.05)
                continue
            checkpoint = tf.train.latest_checkpoint(self.output)
            if checkpoint is None:
                session.run(model.initialise)
            else:
                model.saver.restore(session, checkpoint)
                print(f"restored: step={session.run(model.taken).sum()} checkpoint={checkpoint}", flush=True)

    def take_share(self, session) -> None:
        model = self.model
        images, _, labels, _ = self.data
        images, labels = images[self.index :: self.workers], labels[self.index :: self.workers]
        begin = own = session.run(model.taken)[self.index]
        while own < self.share:
            first = own * BATCH % len(images)
            batch = slice(first, first + BATCH)
            loss, taken = session.run(
                [model.loss, model.train], {model.images: images[batch], model.labels: labels[batch]}
            )
            own, step = taken[self.index], taken.sum()
            if own == begin + 1:
                print(f"first step: step={step} loss={loss:.4f} time={time.time():.3f}", flush=True)
            if own % 25 == 0:
                print(f"worker {self.index}: own={own} step={step} loss={loss:.4f}", flush=True)
                self.report(own, loss)
            if self.is_chief:
                self.events.add_summary(
                    tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=loss)]), step
                )
                if own % CHECKPOINT_EVERY == 0:
                    self.save(session, step)
        print(f"done: worker={self.index} own={own} now={own - begin}", flush=True)

    def report(self, own: int, loss: float) -> None:
        """Report the progress, if anybody watches the job."""
        if file := os.environ.get("WINDLASS_PROGRESS"):
            Path(file).write_text(f"{own}/{self.share} loss={loss:.4f}\n")

    def save(self, session, step: int) -> None:
        self.model.saver.save(session, f"{self.output}/model", global_step=step)

    def conclude(self, session) -> None:
        """Finish when every worker has done its share."""
        model = self.model
        while (taken := session.run(model.taken)).min() < self.share:
            time.sleep(0.1)
        self.save(session, taken.sum())
        images, held_out_images, labels, held_out_labels = self.data
        loss = session.run(model.loss, {model.images: images, model.labels: labels})
        accuracy = session.run(model.accuracy, {model.images: held_out_images, model.labels: held_out_labels})
        self.events.close()
        print(f"result: accuracy={accuracy:.4f} loss={loss:.4f} steps={taken.sum()}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300, help="of all workers together")
    parser.add_argument("--output", default=os.environ.get("OUTPUT", "/output"))
    options = parser.parse_args()
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    me = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    # The data set is small: more threads would slow it down.
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    server = tf.distribute.Server(me.cluster_spec(), me.task_type, me.task_id, config=config)
    print(f"{me.task_type} {me.task_id} is at {server.target}", flush=True)
    if me.task_type == "ps":
        server.join()  # never returns
    Worker(server, me.cluster_spec(), me.task_id, options.steps, options.output).run()


if __name__ == "__main__":
    main()
