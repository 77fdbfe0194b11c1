# SPDX-License-Identifier: Apache-2.0
# Being told to end in the middle: what is not complete is taken away, and the exit code is the signal's.
set -m # or what runs in the background would ignore SIGINT

# sparse FILE ROWS: a tensor of so many rows of 1024 zeros, which take no place on the disk.
sparse() {
    local header='{"t":{"dtype":"F32","shape":['$2',1024],"data_offsets":[0,'$((4096 * $2))']}}'
    while [ $((${#header} % 8)) -ne 0 ]; do header+=' '; done
    printf "\\x$(printf %x ${#header})\0\0\0\0\0\0\0%s" "$header" >"$1"
    truncate -s $((8 + ${#header} + 4096 * $2)) "$1"
}

# stop SIGNAL PATTERN WORD...: sends the signal to the command once there is a file of that kind.
stop() {
    local signal=$1 pattern=$2 pid
    shift 2
    $SHEAF ckpt "$@" 2>&1 &
    pid=$!
    until compgen -G "$pattern" >pattern.txt || ! kill -0 $pid; do sleep 0.01; done
    kill -s "$signal" $pid
    { wait $pid; } 2>pattern.txt # where the shell says that it was killed
    echo "exit $?"
}

sparse large.safetensors 1048576
sparse small.safetensors 20
echo old >x.npz
echo --- one file
stop INT 'x.npz.tmp-*' convert --deflate large.safetensors x.npz
stop TERM 'y.safetensors.tmp-*' convert large.safetensors y.safetensors
stop TERM 'ck_temp/*' convert large.safetensors ck
echo --- thousands of shards
stop INT 'many_temp/part-00010-*' reshard --max-size 4 small.safetensors many
echo --- left
cat x.npz
ls -A

echo --- killed, and once more: what the first one left is gone, what only looks like it stays
echo mine >x.npz.tmp-mine
stop KILL 'x.npz.tmp-*-*' convert --deflate large.safetensors x.npz
stop KILL 'z-*.tmp-*' convert large.safetensors z.safetensors.index.json
ls | sed -n 's/-[0-9]*-[0-9]*$/-PID-N/p'
for to in x.npz z.safetensors.index.json; do $SHEAF ckpt convert small.safetensors $to; done
ls
