# SPDX-License-Identifier: Apache-2.0
# The main job over five processes; started again, it goes on where it ended.
job() { $SHEAF run -w 2 -p 2 -e 1 --timeout 50 -- "$DIGITS" --data "$DATA" --out out "$@"; }
job >log || echo "exit code $?"
tail -n 1 log | grep -E '^accuracy 0\.9[5-9]' >/dev/null || tail -n 3 log
grep -c '^evaluator:0| out/ckpt-[0-9]* accuracy' log | grep -vx 0 >/dev/null || echo "no evaluation"
$SHEAF ckpt verify out | sed -E 's/ckpt-[0-9]+/ckpt-N/'
sed -nE 's/^worker:0\| steps ([0-9]+)$/\1/p' log
job --epochs 21 >log2 || echo "exit code $?"
sed -nE 's/^worker:0\| (epoch [0-9]+) .*/\1/p' log2
$DIGITS --predict --data "$DATA" --out out | tail -n 1 | grep -c accuracy
pgrep -f "$PWD" | wc -l
