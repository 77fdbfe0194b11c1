"""Document C with a splitting policy: what C01_all_in_one_policy prints when MaxShardSizePolicy(8) shards it.

python C01_split.py 8 >C01_all_in_one_policy.split.txt, in an empty folder
"""
import glob
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf  # noqa: E402

policy = tf.train.experimental.MaxShardSizePolicy(int(sys.argv[1]))
w = tf.Variable([[1., 2., 3.], [4., 5., 6.]])
b = tf.Variable([0.5, -0.5, 0.25])
step = tf.Variable(7, dtype=tf.int64)
ckpt = tf.train.Checkpoint(w=w, b=b, step=step)
path = ckpt.save("path", options=tf.train.CheckpointOptions(experimental_sharding_callback=policy))
print(path)
print(sorted(glob.glob("path*")))
print(tf.train.list_variables(path))
for v in (w, b, step):
  v.assign(tf.zeros_like(v))
ckpt.restore(path).assert_consumed()
print(w.numpy().tolist(), b.numpy().tolist(), step.numpy().item())
print(policy.description)
try:
  tf.train.CheckpointOptions(experimental_sharding_callback="all in one")
except ValueError:
  print("wrong type: refused")
try:
  tf.train.experimental.ShardingCallback()
except TypeError:
  print("no function, no description: refused")
