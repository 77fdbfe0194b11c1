# SPDX-License-Identifier: Apache-2.0
# Options may stand behind what they are for; a program's own are left to it; "--" ends them.
file=$DATA/digits-test.tfrecord
"$SHEAF" records count "$file" --json | sed "s|$DATA|DATA|"
"$SHEAF" records head "$file" -n 1 --json | wc -l
"$SHEAF" records count -- "$file" | sed "s|$DATA|DATA|"
"$SHEAF" run --worker 1 echo --json -n 1
"$SHEAF" bench start --nope 2>&1
"$SHEAF" bench nothing --data /tmp 2>&1
exit 0
