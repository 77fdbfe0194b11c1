# SPDX-License-Identifier: Apache-2.0
"""TensorFlow saves the arrays of DIR/three.npz as variables on two parameter servers, all in this process.

usage: servers.py DIR

Writes DIR/tf-tasks-1 by ShardByTaskPolicy, DIR/tf-pieces-1 by MaxShardSizePolicy, and DIR/tf-saver with the Saver of
TensorFlow 1, in whose files variables have their names and there are no objects."""

import os
import socket
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

DIR = sys.argv[1]


def path(name):
    return os.path.join(DIR, name)


def free_addresses(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = ["127.0.0.1:%d" % s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return addresses


def on_servers(three):
    addresses = free_addresses(3)
    cluster = tf.train.ClusterSpec({"ps": addresses[:2], "worker": addresses[2:]})
    servers = [tf.distribute.Server(cluster, job, index, protocol="grpc")
               for job, index in (("ps", 0), ("ps", 1), ("worker", 0))]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        variables = {name: tf.Variable(value, name=name) for name, value in three.items()}
    for name, policy in {"tf-tasks": tf.train.experimental.ShardByTaskPolicy(),
                         "tf-pieces": tf.train.experimental.MaxShardSizePolicy(40)}.items():
        options = tf.train.CheckpointOptions(experimental_sharding_callback=policy)
        tf.train.Checkpoint(**variables).save(path(name), options=options)
    return servers


def by_name(three):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = [tf.compat.v1.Variable(value, name=name, use_resource=True) for name, value in three.items()]
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver(variables).save(session, path("tf-saver"), write_meta_graph=False)


with np.load(path("three.npz")) as arrays:
    values = dict(arrays)
by_name(values)
running = on_servers(values)
sys.stdout.flush()
os._exit(0)  # the servers have no way to end
