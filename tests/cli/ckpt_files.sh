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
echo --- members that are no tensors, strings by what they take in the file
cp "$GOLDEN/npy/mixed.npz" .
$SHEAF ckpt list mixed.npz
$SHEAF ckpt list --json mixed.npz | head -4
$SHEAF ckpt show mixed.npz texts
$SHEAF ckpt show mixed.npz objects 2>&1
$SHEAF ckpt verify mixed.npz 2>&1
echo --- names that would steer a terminal
python3 - <<'END'
import json, struct
head = json.dumps({'a\x1b[31m\u0085\\\n': {'dtype': 'U8', 'shape': [1], 'data_offsets': [0, 1]}}).encode()
open('names.safetensors', 'wb').write(struct.pack('<Q', len(head)) + head + b'\x07')
END
$SHEAF ckpt list names.safetensors
