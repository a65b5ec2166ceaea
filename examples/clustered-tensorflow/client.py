"""Use idle TensorFlow servers from outside: run a graph whose parts are placed on each of them.

It knows them only by PS_HOSTS and WORKER_HOSTS and is not part of their cluster. Variables stay on the ps when it ends:
a second run continues the count of the first.
"""

import os
import time

import tensorflow.compat.v1 as tf

NUMBERS = 1_000_000


def connected(target: str) -> tf.Session:
    """Connect once all servers are available. The session's master is a worker, which waits for the others itself."""
    while True:
        try:
            session = tf.Session(target)
            session.list_devices()
            return session
        except tf.errors.UnavailableError:  # it is still starting
            time.sleep(0.2)


def main() -> None:
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tasks = {job: os.environ[f"{job.upper()}_HOSTS"].split(",") for job in ("ps", "worker")}
    session = connected(f"grpc://{tasks['worker'][0]}")

    for job, hosts in tasks.items():
        for index, address in enumerate(hosts):
            with tf.device(f"/job:{job}/task:{index}"):
                name = tf.io.read_file("/proc/sys/kernel/hostname")
            print(
                f"/job:{job}/task:{index} at {address} runs on {session.run(name).decode().strip()}",
                flush=True,
            )

    # The variables are on the ps, each on one of them; each worker does its part of the computation.
    with tf.device(tf.train.replica_device_setter(ps_tasks=len(tasks["ps"]))):
        runs = tf.get_variable("runs", [], tf.int64, tf.zeros_initializer())
        total = tf.get_variable("total", [], tf.int64, tf.zeros_initializer())
    workers = len(tasks["worker"])
    parts = []
    for index in range(workers):
        with tf.device(f"/job:worker/task:{index}"):
            numbers = tf.range(index, NUMBERS, workers, dtype=tf.int64)
            parts.append(tf.reduce_sum(numbers * numbers))
    for variable in (runs, total):
        if not session.run(tf.is_variable_initialized(variable)):
            session.run(variable.initializer)
    found = session.run(tf.assign(total, tf.add_n(parts)))
    times = session.run(tf.assign_add(runs, 1))
    print(f"total is on {total.device}, runs is on {runs.device}", flush=True)
    print(
        f"the squares of the numbers below {NUMBERS} add up to {found}; runs so far: {times}",
        flush=True,
    )
    session.close()


if __name__ == "__main__":
    main()
