#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a document's program bare in an empty folder and compares what it prints: check.sh PROGRAM EXPECTED [ARGUMENTS…]
set -u
program=$(realpath "$1")
expected=$2
shift 2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/empty"
cd "$folder/empty" || exit 1
env -u TF_CONFIG "$program" "$@" >"$folder/out" 2>"$folder/err"
code=$?
if [ $code -ne 0 ]; then
    echo "exit code $code"
    cat "$folder/err"
    exit 1
fi
if grep -q '<any>' "$expected"; then
    # each <any> matches a run of characters that are no blanks; everything else is literal
    sed -e 's/[][\.*^$/]/\\&/g' -e 's/<any>/[^ ]\\{1,\\}/g' -e 's/^/^/' -e 's/$/$/' "$expected" >"$folder/patterns"
    [ "$(wc -l <"$folder/out")" -eq "$(wc -l <"$expected")" ] || { cat "$folder/out"; exit 1; }
    n=0
    while IFS= read -r pattern; do
        n=$((n + 1))
        sed -n "${n}p" "$folder/out" | grep -q -- "$pattern" || { echo "line $n"; cat "$folder/out"; exit 1; }
    done <"$folder/patterns"
    exit 0
fi
diff -u "$expected" "$folder/out" || { cat "$folder/err"; exit 1; }
