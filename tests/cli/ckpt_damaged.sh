# SPDX-License-Identifier: Apache-2.0
# Every fault is reported with file, tensor and offset; the exit code is 1.
cp -r "$GOLDEN/checkpoint-bad" bad
for b in data-flip-0 data-missing data-cut-4 index-block-flip index-empty shards-one-missing; do
    echo "--- $b"
    $SHEAF ckpt verify bad/$b/*.index 2>&1
    echo $?
done
echo --- missing
$SHEAF ckpt list bad/nothing 2>&1
echo $?
$SHEAF ckpt show bad/good/c no/such/key 2>&1
echo $?
$SHEAF ckpt verify --json bad/data-flip-0/c 2>/dev/null
echo $?
mkdir empty
$SHEAF ckpt list empty 2>&1
echo $?
echo --- a member of another name
cp "$GOLDEN/npy/stored.npz" renamed.npz
printf X | dd of=renamed.npz bs=1 seek=30 conv=notrunc status=none
$SHEAF ckpt verify renamed.npz 2>&1
echo $?
