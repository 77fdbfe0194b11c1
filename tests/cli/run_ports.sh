# SPDX-License-Identifier: Apache-2.0
# The ports of a run are given to nobody who asks for any port, and a task may bind its own.
cat >task.py <<'P'
import json, os, re, socket
config = json.loads(os.environ["TF_CONFIG"])
ports = {int(a.split(":")[1]) for job in config["cluster"].values() for a in job}
sockets = []
for _ in range(3000):
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    if s.getsockname()[1] in ports:
        print("a port was given away")
    sockets.append(s)
    if len(sockets) == 500:
        sockets = []
own = config["cluster"][config["task"]["type"]][config["task"]["index"]]
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(own.split(":")[1])))
s.listen()
print("bound")
P
$SHEAF run -w 40 -p 1 --log-dir logs python3 task.py
cat logs/*.log | sort | uniq -c
