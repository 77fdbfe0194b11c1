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
echo --- they are counted apart, and their checksums checked
python3 - <<'END'
import io, zipfile
with zipfile.ZipFile('stored.npz') as f:
    arrays = [(name, f.read(name)) for name in ('n.npy', 'w.npy')]
with zipfile.ZipFile('mixed.npz') as f:
    arrays.append(('objects.npy', f.read('objects.npy')))
for kind in ('stored', 'deflated'):
    with zipfile.ZipFile(f'notes-{kind}.npz', 'w', getattr(zipfile, f'ZIP_{kind.upper()}')) as f:
        for name, data in arrays:
            f.writestr(name, data)
        f.writestr('note.txt', b'a note of mine')
    data = bytearray(open(f'notes-{kind}.npz', 'rb').read())
    with zipfile.ZipFile(f'notes-{kind}.npz') as f:
        at = f.getinfo('note.txt').header_offset + 30 + len('note.txt')
    data[at] ^= 0xff
    open(f'bad-{kind}.npz', 'wb').write(data)
END
for f in notes-stored notes-deflated bad-stored bad-deflated; do
    $SHEAF ckpt verify $f.npz 2>&1
    echo $?
done
$SHEAF ckpt verify --json notes-stored.npz
echo --- an array that does not inflate is named once
python3 - <<'END'
import zipfile
data = bytearray(open('notes-deflated.npz', 'rb').read())
with zipfile.ZipFile('notes-deflated.npz') as f:
    at = f.getinfo('w.npy').header_offset + 30 + len('w.npy')
data[at] ^= 0xff
open('head.npz', 'wb').write(data)
END
$SHEAF ckpt list head.npz
echo --- names that would steer a terminal, and that are no UTF-8
python3 - <<'END'
import json, struct
head = json.dumps({'a\x1b[31m\u0085\\\n': {'dtype': 'U8', 'shape': [1], 'data_offsets': [0, 1]}}).encode()
open('names.safetensors', 'wb').write(struct.pack('<Q', len(head)) + head + b'\x07')
END
$SHEAF ckpt list names.safetensors
python3 - <<'END'
data = bytearray(open('notes-stored.npz', 'rb').read())
open('bytes.npz', 'wb').write(bytes(data).replace(b'w.npy', b'\xe9.npy'))
END
$SHEAF ckpt list bytes.npz
$SHEAF ckpt list --json bytes.npz | tail -1
