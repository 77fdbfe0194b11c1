# SPDX-License-Identifier: Apache-2.0
# A worker that is killed is named within a second by the others that need it; they end, or go on, within five.
victim() { # job, index: the process of that task of this test's run
    for p in $(pgrep -f "^$DIGITS .*$PWD/out"); do
        tr '\0' '\n' <"/proc/$p/environ" | grep -q "TF_CONFIG.*\"type\":\"$1\",\"index\":$2" && echo "$p"
    done
}
now() { date +%s%3N; }
steps() { for _ in $(seq 200); do grep -q 'epoch 3' log && return; sleep 0.05; done; echo "no steps"; cat log; }
echo --- multi-worker mirrored: the others end
: >log
$SHEAF run -w 2 -- "$DIGITS" --data "$DATA" --out "$PWD/out" --epochs 1000000 >log 2>&1 &
steps
begin=$(now)
kill -9 "$(victim worker 1)"
for _ in $(seq 100); do grep -q 'worker:0: .*was lost' log && break; sleep 0.01; done
[ $(($(now) - begin)) -lt 1000 ] && echo "named within 1 s"
wait $!
echo "exit code $?"
[ $(($(now) - begin)) -lt 5000 ] && echo "ended within 5 s"
grep -oE 'worker:0: .*worker:1.* was lost' log | sed -E 's/127.0.0.1:[0-9]+/ADDRESS/' | head -n 1
echo --- parameter server: the others go on
rm -rf out
: >log
$SHEAF run -w 2 -p 1 -- "$DIGITS" --data "$DATA" --out "$PWD/out" --epochs 300 >log 2>&1 &
steps
kill -9 "$(victim worker 1)"
wait $!
echo "exit code $?"
tail -n 1 log | grep -oE '^accuracy 0\.9'
