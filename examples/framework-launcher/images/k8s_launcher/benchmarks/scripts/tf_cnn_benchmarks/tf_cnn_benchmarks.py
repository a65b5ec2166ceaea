"""A small replacement for TensorFlow's tf_cnn_benchmarks, with the flags that the examples use.

It trains a small convolutional network on images in CIFAR-10 format, in graph mode, with variables on the parameter
servers and asynchronous updates by the workers. A worker ends after --num_batches; a parameter server never ends.
"""

import argparse
import os
import pickle
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf  # the original uses graphs and sessions

PIXELS = 32
CLASSES = 10
LEARNING_RATE = 0.005
RULE = "-" * 64


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--model", choices=["alexnet"], default="alexnet")
    parser.add_argument("--local_parameter_device", choices=["cpu"], default="cpu")
    parser.add_argument("--variable_update", choices=["parameter_server"], default="parameter_server")
    parser.add_argument("--ps_hosts", required=True, help="host:port, separated by commas")
    parser.add_argument("--worker_hosts", required=True, help="host:port, separated by commas")
    parser.add_argument("--job_name", choices=["ps", "worker"], required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--data_name", choices=["cifar10"], default="cifar10")
    parser.add_argument("--data_dir", type=Path, help="where data_batch_1, … are; for workers")
    parser.add_argument("--data_format", choices=["NHWC"], default="NHWC")
    parser.add_argument("--num_batches", type=int, default=60)
    parser.add_argument("--num_warmup_batches", type=int, default=5)
    parser.add_argument("--display_every", type=int, default=10)
    flags = parser.parse_args()
    if flags.job_name == "worker" and flags.data_dir is None:
        parser.error("a worker needs --data_dir")
    return flags


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images as (count, height, width, colour) in -1..1, and their labels."""
    files = sorted(folder.glob("data_batch_*"))
    if not files:
        raise SystemExit(f"no data_batch_* in {folder}: is the volume mounted, and does it hold CIFAR-10?")
    # The format is pickle: read only trusted files.
    batches = [pickle.loads(file.read_bytes(), encoding="bytes") for file in files]  # noqa: S301
    pictures = np.concatenate([batch[b"data"] for batch in batches]).reshape(-1, 3, PIXELS, PIXELS)
    labels = np.concatenate([batch[b"labels"] for batch in batches])
    return pictures.transpose(0, 2, 3, 1).astype(np.float32) / 127.5 - 1, labels.astype(np.int64)


def batches(pictures: np.ndarray, labels: np.ndarray, size: int, seed: int) -> Iterator[tuple]:
    """Yield batches forever, for each worker in its own order."""
    order = np.random.default_rng(seed)
    while True:
        chosen = order.integers(len(pictures), size=size)
        yield pictures[chosen], labels[chosen]


def layer(name: str, shape: list[int], values: tf.Tensor, apply: Callable) -> tf.Tensor:
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", shape, initializer=tf.initializers.he_normal())
        bias = tf.get_variable("bias", shape[-1:], initializer=tf.zeros_initializer())
        return apply(values, kernel) + bias


def convolution(values: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    return tf.nn.conv2d(values, kernel, strides=2, padding="SAME")


def alexnet(pictures: tf.Tensor) -> tf.Tensor:
    """A small AlexNet: convolutions, pooling, then dense layers."""
    values = tf.nn.relu(layer("conv1", [5, 5, 3, 16], pictures, convolution))
    values = tf.nn.relu(layer("conv2", [5, 5, 16, 32], values, convolution))
    values = tf.nn.max_pool2d(values, 3, strides=2, padding="SAME")
    values = tf.reshape(values, [-1, 4 * 4 * 32])
    values = tf.nn.relu(layer("affine1", [4 * 4 * 32, 64], values, tf.matmul))
    return layer("affine2", [64, CLASSES], values, tf.matmul)


def train(flags: argparse.Namespace, cluster: tf.train.ClusterSpec, server: tf.train.Server) -> None:
    data = batches(*load(flags.data_dir), flags.batch_size, flags.task_index)
    me = f"/job:worker/task:{flags.task_index}"
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=me)):
        pictures = tf.placeholder(tf.float32, [None, PIXELS, PIXELS, 3])
        labels = tf.placeholder(tf.int64, [None])
        logits = alexnet(pictures)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        optimizer = tf.train.MomentumOptimizer(LEARNING_RATE, 0.9)
        step = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())

    # A worker connects only to the parameter servers, so that it does not depend on other workers.
    config = tf.ConfigProto(device_filters=["/job:ps", me])
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables(), recovery_wait_secs=1)
    if flags.task_index == 0:
        init = tf.global_variables_initializer()
        session = manager.prepare_session(server.target, init_op=init, config=config)
    else:
        session = manager.wait_for_session(server.target, config=config)

    def run() -> float:
        fed = dict(zip((pictures, labels), next(data), strict=True))
        return float(session.run([step, loss], fed)[1])

    with session:
        print("Running warm up", flush=True)
        for _ in range(flags.num_warmup_batches):
            run()
        print("Done warm up\nStep\tImg/sec\ttotal_loss", flush=True)
        measure(flags, run)


def measure(flags: argparse.Namespace, run: Callable[[], float]) -> None:
    speeds: list[float] = []
    began = time.perf_counter()
    for number in range(1, flags.num_batches + 1):
        before = time.perf_counter()
        total_loss = run()
        speeds.append(flags.batch_size / (time.perf_counter() - before))
        if number == 1 or number % flags.display_every == 0:
            mean, middle = statistics.fmean(speeds), statistics.median(speeds)
            uncertainty = statistics.pstdev(speeds) / len(speeds) ** 0.5
            jitter = 1.4826 * statistics.median(abs(speed - middle) for speed in speeds)
            rate = f"images/sec: {mean:.1f} +/- {uncertainty:.1f} (jitter = {jitter:.1f})"
            print(f"{number}\t{rate}\t{total_loss:.3f}", flush=True)
    total = flags.num_batches * flags.batch_size / (time.perf_counter() - began)
    print(f"{RULE}\ntotal images/sec: {total:.2f}\n{RULE}", flush=True)


def main() -> None:
    flags = parse()
    tf.disable_eager_execution()
    hosts = {"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")}
    cluster = tf.train.ClusterSpec(hosts)
    # Many small processes share one machine: more threads would slow them down.
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index, config=config)
    if flags.job_name == "ps":
        print(f"Running parameter server {flags.task_index}", flush=True)
        server.join()
    print(f"TensorFlow:  {tf.__version__}\nModel:       {flags.model}\nDataset:     {flags.data_name}")
    print(
        f"Batch size:  {flags.batch_size}\nNum batches: {flags.num_batches}\nVariables:   {flags.variable_update}"
    )
    print(f"Cluster:     {hosts}", flush=True)
    train(flags, cluster, server)


if __name__ == "__main__":
    main()
