# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's ParameterServerStrategy (coordinator) on loopback, one ps and one worker: time of a step."""
import json
import os
import socket
import subprocess
import sys
import time


def start():
    sockets = [socket.socket() for _ in range(3)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    jobs = ("chief", "worker", "ps")
    cluster = {job: ["127.0.0.1:%d" % s.getsockname()[1]] for job, s in zip(jobs, sockets)}
    for s in sockets:
        s.close()
    processes = []
    for job in ("ps", "worker", "chief"):
        config = json.dumps({"cluster": cluster, "task": {"type": job, "index": 0}})
        processes.append(subprocess.Popen([sys.executable, __file__], env=dict(os.environ, TF_CONFIG=config)))
    code = processes[-1].wait()
    for p in processes[:-1]:
        p.kill()
        p.wait()
    sys.exit(code)


def main():
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type != "chief":
        tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=0, protocol="grpc",
                             start=True).join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    for size in (256, 262144, 1 << 22):
        with strategy.scope():
            v = tf.Variable(tf.zeros([size]))

        @tf.function
        def step():
            v.assign_sub(v * 1e-6)

        for _ in range(20):
            coordinator.schedule(step)
        coordinator.join()
        rounds = 200 if size < 1 << 20 else 40
        begin = time.perf_counter()
        for _ in range(rounds):
            coordinator.schedule(step)
        coordinator.join()
        seconds = (time.perf_counter() - begin) / rounds
        print(f"tensorflow\tps pull+push {size * 4}B dense step\t{seconds * 1e6:.0f}\tus", flush=True)
    os._exit(0)


main() if "TF_CONFIG" in os.environ else start()
