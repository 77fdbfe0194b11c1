# SPDX-License-Identifier: Apache-2.0
# Every command answers --help and --version.
for c in "" run bench records "records head" "records count" "records verify" data "data explain" ckpt "ckpt list" "ckpt show" "ckpt verify" "ckpt diff" "ckpt convert" "ckpt reshard"; do
    $SHEAF $c --help >help.txt || echo "$c --help failed"
    head -n 1 help.txt
    [ "$($SHEAF $c --version)" = "$($SHEAF --version)" ] || echo "$c --version differs"
done

# `help COMMAND` is `COMMAND --help`.
for c in run "data explain"; do
    $SHEAF $c --help >help.txt
    $SHEAF help $c | cmp - help.txt && echo "help $c"
done
$SHEAF help nothing
echo "exit code $?"
