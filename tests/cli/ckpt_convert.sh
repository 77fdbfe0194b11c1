# SPDX-License-Identifier: Apache-2.0
# Checkpoints, safetensors and .npz turned into each other; what comes back from everywhere is what there was.
cp -r "$GOLDEN/checkpoint/shards" shards
cp -r "$GOLDEN/checkpoint/ps" ps
cp -r "$GOLDEN/checkpoint/manager" m
echo --- convert
$SHEAF ckpt convert m m.safetensors
$SHEAF ckpt convert --deflate m.safetensors m.npz
$SHEAF ckpt convert --json m.npz again
$SHEAF ckpt diff m again
$SHEAF ckpt convert --max-size 40 "$GOLDEN/safetensors/single.safetensors" s.safetensors
ls s.* s-*
$SHEAF ckpt convert s.safetensors.index.json t.safetensors
cmp t.safetensors "$GOLDEN/safetensors/single.safetensors" && echo the same bytes
echo --- reshard
$SHEAF ckpt reshard shards/default.index one
cmp one.data-00000-of-00001 shards/default.data-00000-of-00001 && echo the same bytes
$SHEAF ckpt reshard --max-size 1000 one cut
$SHEAF ckpt show cut
for i in 0 1; do cmp cut.data-0000$i-of-00002 shards/max-1000.data-0000$i-of-00002 && echo the same bytes; done
$SHEAF ckpt reshard --shards 3 ps/sharded-1 three
$SHEAF ckpt show --json three
$SHEAF ckpt verify three
$SHEAF ckpt diff ps/sharded-1 three
echo --- over one that is there, whose data file has the name
$SHEAF ckpt reshard one again
$SHEAF ckpt show again
$SHEAF ckpt show --json again
$SHEAF ckpt verify again
ls again.*
echo --- refused
try() { $SHEAF ckpt "$@" 2>&1; echo "exit $?"; }
try convert "$GOLDEN/checkpoint/dtypes/all" x.safetensors
try convert "$GOLDEN/safetensors/low.safetensors" x.npz
try convert "$GOLDEN/npy/bad-crc.npz" x | sed 's/(.*//'
try convert none x
try convert "$GOLDEN/safetensors/bad-hole.safetensors" x | sed 's/(.*//'
try convert one
try convert --max-size 9 one x
try convert --deflate one x.safetensors
try convert --max-size 0 one x.safetensors
try reshard --shards 0 one x
try reshard --shards 2147483648 one x
try reshard --max-size 9223372036854775808 one x
try reshard --max-size 9 --shards 2 one x
try reshard one x.npz
ls -A x* 2>/dev/null
echo --- nowhere to write
for to in '' none/ m m/../m /dev/null; do
    try convert one "$to"
    try reshard one "$to"
done
try reshard m m/ckpt-5
try reshard m m/ckpt-5.index
try convert m.npz ./m.npz
try convert --max-size 80 s.safetensors.index.json s.safetensors
ls -A none* m_temp m.index 2>/dev/null
