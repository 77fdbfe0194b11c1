# SPDX-License-Identifier: Apache-2.0
# Wrong usage is 2, with one line that says what is wrong.
try() { "$SHEAF" "$@"; echo "$? $*"; }
try
try nonsense
try records
try run
try run --wrker 2 true
try run --worker
try run --worker two true
try run --worker=-1 true
try run --chief 2 true
try run --evaluator 1 true
try run --worker 0 true
try run --ps 1 true
try run --timeout 0 true
try records head
try records head --json=yes x
try records count --compression rar x
try ckpt show
try ckpt diff x
try ckpt convert x
try run -t 999999 true
