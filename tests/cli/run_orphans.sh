# SPDX-License-Identifier: Apache-2.0
# No child outlives the launcher: killed hard, killed kindly, or ended while a task left something behind.
left() { # waits up to 5 s until no process with the marker is there
    for _ in $(seq 50); do
        pgrep -f "^$1" >/dev/null || { echo "none left"; return; }
        sleep 0.1
    done
    echo "left: $(pgrep -fa "^$1")"
}
started() { # waits until $2 processes with the marker run
    for _ in $(seq 100); do
        [ "$(pgrep -fc "^$1")" -ge "$2" ] && return
        sleep 0.05
    done
    echo "not started"
}
marker=$((RANDOM * 32768 + RANDOM))
echo --- SIGKILL
{
    TMPDIR=$PWD XDG_RUNTIME_DIR= $SHEAF run -w 2 -- sh -c "sleep 1000.1$marker & sleep 1000.1$marker; true" &
    started "sleep 1000.1$marker" 4
    kill -9 $!
    wait $!
} 2>/dev/null
left "sleep 1000.1$marker"
for _ in $(seq 50); do [ -z "$(ls | grep sheaf-run)" ] && break; sleep 0.1; done
ls | grep -c sheaf-run
echo --- SIGKILL at any moment of the start
for i in 1 2 3 4 5 6 7 8; do
    {
        TMPDIR=$PWD XDG_RUNTIME_DIR= $SHEAF run -w 4 -- sh -c "sleep 1000.5$marker & sleep 1000.5$marker; true" &
        sleep "0.00$i"
        kill -9 $!
        wait $!
    } 2>/dev/null
done
left "sleep 1000.5$marker"
for _ in $(seq 50); do [ -z "$(ls | grep sheaf-run)" ] && break; sleep 0.1; done
ls | grep -c sheaf-run
echo --- SIGTERM
$SHEAF run -w 2 -- sleep 1000.2$marker &
started "sleep 1000.2$marker" 2
kill $!
wait $!
echo $?
left "sleep 1000.2$marker"
echo --- a task ends and leaves processes in its group and in another
$SHEAF run -- sh -c "sleep 1000.3$marker & setsid sleep 1000.3$marker & sleep 0.3; exit 5"
echo $?
left "sleep 1000.3$marker"
echo --- asked twice
$SHEAF run -- sh -c "trap '' INT; sleep 1000.4$marker; sleep 1000.4$marker" 2>said &
started "sleep 1000.4$marker" 1
kill -INT $!
for _ in $(seq 100); do grep -q ending said && break; sleep 0.05; done
sleep 0.5 # one that comes at once is taken for the same
kill -INT $!
wait $!
echo $?
cat said >&2
left "sleep 1000.4$marker"
echo --- children that are not its own
cat >own <<'X'
exec 3> >(read -r _; sleep 0.2; echo mine goes on >"$1")
exec $SHEAF run -- sh -c "setsid sleep 1000.6$2 & sleep 0.3; exit 6"
X
SHEAF=$SHEAF bash own mine $marker 2>err
echo $?
cat err >&2
left "sleep 1000.6$marker"
for _ in $(seq 50); do grep -qs on mine && break; sleep 0.1; done
cat mine
