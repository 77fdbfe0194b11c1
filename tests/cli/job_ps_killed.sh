# SPDX-License-Identifier: Apache-2.0
# A parameter server that is killed ends the job within five seconds, named; the next start goes on from the newest
# checkpoint.
victim() {
    for p in $(pgrep -f "^$DIGITS .*$PWD/out"); do
        tr '\0' '\n' <"/proc/$p/environ" | grep -q "TF_CONFIG.*\"type\":\"$1\",\"index\":$2" && echo "$p"
    done
}
now() { date +%s%3N; }
steps() { for _ in $(seq 200); do [ -e out/checkpoint ] && return; sleep 0.05; done; echo "no steps"; cat log; }
job() { $SHEAF run -w 2 -p 2 -e 1 -- "$DIGITS" --data "$DATA" --out "$PWD/out" --epochs "$1"; }
job 1000000 >log 2>&1 &
steps
begin=$(now)
kill -9 "$(victim ps 1)"
wait $!
echo "exit code $?"
[ $(($(now) - begin)) -lt 5000 ] && echo "within 5 s"
grep -E '^(worker|ps):.* ps:1 at .* was lost' log >/dev/null && echo "named"
# the epoch in the newest checkpoint
epoch=$($SHEAF ckpt show out epoch/.ATTRIBUTES/VARIABLE_VALUE | sed -E 's/.*numpy=([0-9]+)>/\1/')
job "$((epoch + 3))" >log2 2>&1 || { echo "exit code $?"; cat log2; }
first=$(sed -nE 's/^worker:0\| epoch ([0-9]+) .*/\1/p' log2 | head -n 1)
[ "$first" -gt "$epoch" ] && echo "went on"
tail -n 1 log2 | grep -oE '^accuracy 0\.9'
