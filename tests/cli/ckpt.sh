# SPDX-License-Identifier: Apache-2.0
# Checkpoints that TensorFlow wrote: listed, printed, verified; by prefix, by index file, by directory.
cp -r "$GOLDEN/checkpoint/manager" m
cp -r "$GOLDEN/checkpoint/ps" ps
$SHEAF ckpt list m/ckpt-5
$SHEAF ckpt verify m
echo --- slices
$SHEAF ckpt list ps/sharded-1.index
echo --- json
$SHEAF ckpt list --json ps/sharded-1
echo --- show
$SHEAF ckpt show m/ckpt-5 v/.ATTRIBUTES/VARIABLE_VALUE save_counter/.ATTRIBUTES/VARIABLE_VALUE
$SHEAF ckpt show m/ckpt-5 save_counter
$SHEAF ckpt show --json ps/sharded-1 half/.ATTRIBUTES/VARIABLE_VALUE
echo --- verify
$SHEAF ckpt verify m/ckpt-3 m/ckpt-4 ps/sharded-1
$SHEAF ckpt verify --json m/ckpt-5
echo --- every dtype, in columns
cp "$GOLDEN/checkpoint/dtypes/"all.* .
$SHEAF ckpt list all | grep -E "scalar|^all"
