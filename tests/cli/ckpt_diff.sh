# SPDX-License-Identifier: Apache-2.0
# What two files of tensors differ in; the exit code is that of diff(1).
cp -r "$GOLDEN/checkpoint/manager" m
try() { $SHEAF ckpt diff "$@" 2>&1; echo "exit $?"; }
echo --- equal
try m m/ckpt-5.index
echo --- other values
try m/ckpt-3 m/ckpt-5
try --json m/ckpt-3 m/ckpt-5
echo --- other tensors
try m "$GOLDEN/checkpoint/object/simple-1"
try --json m "$GOLDEN/checkpoint/object/simple-1"
echo --- other dtype and shape
try "$GOLDEN/safetensors/vector.safetensors" "$GOLDEN/safetensors/unaligned.safetensors"
try "$GOLDEN/npy/stored.npz" "$GOLDEN/npy/deflated.npz"
echo --- trouble
try m none
try m
try "$GOLDEN/npy/bad-crc.npz" "$GOLDEN/npy/stored.npz" | sed 's/(.*//'
echo --- the object graph, a string here and bytes there
$SHEAF ckpt convert m m.safetensors
$SHEAF ckpt convert m m.npz
try m m.safetensors
try m.npz m
try "$GOLDEN/checkpoint/object/simple-1" m.npz
try --json m.npz "$GOLDEN/checkpoint/object/simple-1"
