# SPDX-License-Identifier: Apache-2.0
# Ctrl-C and a killed launcher end every task of a running job at once.
run() { $SHEAF run -w 2 -p 2 -e 1 -- "$DIGITS" --data "$DATA" --out "$PWD/out" --epochs 1000000 >>log 2>&1; }
steps() { for _ in $(seq 200); do grep -q 'epoch 3' log && return; sleep 0.05; done; echo "no steps"; }
gone() { for _ in $(seq 50); do pgrep -f "out $PWD/out\|out=$PWD" >/dev/null || { echo "all gone"; return; }; sleep 0.1; done; pgrep -fa "$PWD/out"; }
for signal in INT TERM KILL; do
    rm -rf out log
    : >log
    (run) 2>/dev/null &
    steps
    pkill -$signal -f "^$SHEAF run .*$PWD/out"
    wait $! 2>/dev/null
    echo "$signal $?"
    gone
done
