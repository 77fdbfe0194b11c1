# SPDX-License-Identifier: Apache-2.0
# What cannot be written is said in one line, and is a failure; be it at once, or after much has been written.
try() { "$SHEAF" "$@" >/dev/full; echo "$? $1 ${2##*/}" >&3; }
exec 3>&1
try --help -
try --version -
try run --help
try run -w 2 echo result
try run -w 1 -- sh -c 'yes | head -n 100000'
try records head "$DATA/digits-test.tfrecord"
try records head -n 0 "$DATA/digits-test.tfrecord"
try records count "$DATA/digits-test.tfrecord"
try ckpt list "$GOLDEN/checkpoint/manager/ckpt-5"
try ckpt show "$GOLDEN/checkpoint/manager/ckpt-5" v/.ATTRIBUTES/VARIABLE_VALUE
try ckpt verify "$GOLDEN/checkpoint/manager/ckpt-5"
try ckpt diff "$GOLDEN/checkpoint/manager/ckpt-5" "$GOLDEN/checkpoint/manager/ckpt-5"
try ckpt convert "$GOLDEN/checkpoint/manager/ckpt-5" x.npz
try ckpt reshard "$GOLDEN/checkpoint/manager/ckpt-5" x
for command in records "records head" data "data explain" ckpt "ckpt show" bench; do
    try $command --help
    try $command --version
done
try bench ps
"$SHEAF" --version >&-
echo "$? closed"
# The tasks' own failure stays what it was.
"$SHEAF" run -- sh -c 'echo x; exit 7' >/dev/full
echo $?
mkdir log
ln -s /dev/full log/worker-0.log
"$SHEAF" run --log-dir log echo result
echo $?
