# SPDX-License-Identifier: Apache-2.0
# S6, T5, T6, T10: a bad cluster is one clear line and exit code 1, before anything is opened.
try() { TF_CONFIG=$1 "$DIGITS" --data "$DATA" --out out 2>&1; echo "$?"; }
try ''
try 'not json'
try '{}'
try '{"task":{"type":"worker","index":0}}'
try '{"cluster":{},"task":{"type":"worker","index":0}}'
try '{"cluster":{"chief":["a:1"],"ps_hosts":["b:1"],"worker_hosts":["c:1"]},"task":{"type":"worker","index":0}}'
try '{"cluster":{"worker":["a:1"]},"task":{"type":"boss","index":0}}'
try '{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":2}}'
try '{"cluster":{"worker":["a:1"],"ps":["A:1"]},"task":{"type":"ps","index":0}}'
try '{"cluster":{"worker":["a"]},"task":{"type":"worker","index":0}}'
ls
echo --- a port in use
cat >hold.py <<'P'
import socket, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
print(s.getsockname()[1], flush=True)
time.sleep(30)
P
python3 hold.py >port &
while [ ! -s port ]; do sleep 0.05; done
p=$(cat port)
try "{\"cluster\":{\"worker\":[\"127.0.0.1:2\"],\"ps\":[\"127.0.0.1:$p\"]},\"task\":{\"type\":\"ps\",\"index\":0}}" | sed "s/$p/PORT/g"
kill %1
