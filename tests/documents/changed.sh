#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whether at most so many lines of code are others in the second program than in the first: changed.sh MOST FIRST SECOND
set -u
code=$(mktemp -d) || exit 1
trap 'rm -rf "$code"' EXIT
for program in "$2" "$3"; do
    grep -v '^/\*\|^$' "$program" >"$code/$(basename "$program")"
done
diff "$code/$(basename "$2")" "$code/$(basename "$3")" >"$code/changes"
cat "$code/changes"
lines=$(grep -c '^>' "$code/changes")
[ "$lines" -ge 1 ] && [ "$lines" -le "$1" ] && [ "$(grep -c '^<' "$code/changes")" -le "$lines" ]
