# SPDX-License-Identifier: Apache-2.0
# Each task finds its place, a secret only its owner can read, one run id, its cores, nothing to read, and no descriptor
# besides the three.
export SHEAF_RUN_ID=inherited
outside=$(ls -l /proc/self/fd | grep -c ' -> ')
export outside
$SHEAF run -w 2 -p 1 -e 1 --threads 3 --log-dir logs -- bash -c '
    echo "$TF_CONFIG"
    echo "$SHEAF_RUN_ID"
    stat -c "%a %s" "$SHEAF_SECRET_FILE"
    echo "$SHEAF_SECRET_FILE" >>secrets
    echo "$SHEAF_THREADS"
    cat
    echo $(($(ls -l /proc/self/fd | grep -c " -> ") - outside)) more descriptors
    echo end'
for t in worker-0 worker-1 ps-0 evaluator-0; do
    echo "--- $t"
    sed -E 's/:[0-9]{4,5}"/:PORT"/g; s/^[0-9a-f]{32}$/RUNID/' logs/$t.log
done
echo --- one run id and one secret for all, gone now
for t in logs/*.log; do sed -n 2p "$t"; done | sort -u | wc -l
sort -u secrets | wc -l
ls "$(head -n 1 secrets)"* 2>&- || echo gone
