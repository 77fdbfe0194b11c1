# SPDX-License-Identifier: Apache-2.0
# The committed data: how many, how they look, all intact.
cp "$DATA"/*.tfrecord .
$SHEAF records head digits-test.tfrecord
echo --- json
$SHEAF records head --json -n 2 -v 3 digits-test.tfrecord
$SHEAF records head --json -n 0 digits-test.tfrecord | python3 -c 'import json, sys
print(sum(r["features"]["label"][0] + len(r["features"]["image"]) for r in map(json.loads, sys.stdin)))'
echo --- count
$SHEAF records count *.tfrecord
$SHEAF records count --json digits-test.tfrecord
echo --- verify
$SHEAF records verify digits-test.tfrecord digits-train-00000-of-00004.tfrecord
echo --- compressed
gzip -c digits-test.tfrecord >test.gz
$SHEAF records verify test.gz
$SHEAF records count --compression gzip test.gz
$SHEAF records head -v 1 test.gz
echo --- nothing in it
: >empty
$SHEAF records count empty
$SHEAF records head empty
echo --- no Example
cp "$GOLDEN/tfrecord/two.tfrecord" .
$SHEAF records head -n 0 two.tfrecord
$SHEAF records head --json two.tfrecord
echo --- from a pipe
cat digits-test.tfrecord | $SHEAF records verify -
cat test.gz | $SHEAF records count /dev/stdin
cat digits-test.tfrecord | $SHEAF records head -v 1 -
$SHEAF records count - <digits-test.tfrecord
printf '' | $SHEAF records count -
mkfifo fifo
cat digits-train-*.tfrecord >fifo &
$SHEAF records verify fifo
head -c 300 digits-test.tfrecord | $SHEAF records count - 2>&1
