# SPDX-License-Identifier: Apache-2.0
# safetensors and .npz are listed, printed and verified as checkpoints are.
cp "$GOLDEN/safetensors/single.safetensors" "$GOLDEN/npy/stored.npz" "$GOLDEN/npy/bad-crc.npz" .
cp "$GOLDEN/safetensors/sharded/"* .
for f in single.safetensors model.safetensors.index.json stored.npz; do
    echo "--- $f"
    $SHEAF ckpt list $f
    $SHEAF ckpt show $f
    $SHEAF ckpt verify $f
done
echo --- json
$SHEAF ckpt list --json stored.npz
$SHEAF ckpt show --json stored.npz
$SHEAF ckpt verify --json stored.npz
echo --- values
$SHEAF ckpt show single.safetensors flag half step
$SHEAF ckpt show stored.npz a/b größe
$SHEAF ckpt show stored.npz none 2>&1
$SHEAF ckpt verify bad-crc.npz 2>&1 | sed 's/(.*//'
