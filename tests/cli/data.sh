# SPDX-License-Identifier: Apache-2.0
# data explain runs a program and prints what its input pipelines did. The times are struck out; the first pass alone is
# shown.
mkdir folder
export TMPDIR=$PWD/folder
for i in 0 1 2 3; do cp "$DATA/digits-train-0000$i-of-00004.tfrecord" "ctr-0000$i-of-00004.tfrecord"; done
times() { sed -E 's/^ *[0-9.]+( +-)/     T\1/; s/[0-9]+\.[0-9]{3} s/T s/g' | head -n 4; }
$SHEAF data explain -o pipeline.txt -- $SHEAF bench --data . --work "raw read ctr" input | cut -f 1-2
times <pipeline.txt
echo --- tasks of a cluster
$SHEAF data explain $SHEAF run -w 2 -- sh -c 'echo "$TF_CONFIG" >/dev/null; exec "$0" bench --data . --work "raw read ctr" input >/dev/null' $SHEAF 2>/dev/null | grep -c "^[0-9]* elements in" >count.txt
[ "$(cat count.txt)" -gt 1 ] && echo some passes
echo --- codes
$SHEAF data explain -- sh -c 'exit 7'; echo $?
$SHEAF data explain -- sh -c 'kill -9 $$'; echo $?
$SHEAF data explain -- ./none; echo $?
$SHEAF data explain; echo $?
$SHEAF data explain true; echo $?
$SHEAF data explain -o none/file -- touch ran; echo $?
[ -e ran ] || echo it did not run
ls "$TMPDIR"
