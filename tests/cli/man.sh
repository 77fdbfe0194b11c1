# SPDX-License-Identifier: Apache-2.0
# The man pages tell of every option and every variable, and of none that is not there. DOCS is the folder docs/man.
options() { grep -oE '^ +(-[a-z], )?--[a-z-]+' | grep -oE -- '--[a-z-]+' | grep -vxE -- '--help|--version' | sort -u; }
page() { grep -oE '^\*(-[a-z]\*, \*)?--[a-z-]+\*' "$DOCS/$1" | grep -oE -- '--[a-z-]+' | grep -vxE -- '--help|--version' | sort -u; }
for c in run records data ckpt bench; do
    case $c in
    records) words="head count verify" ;;
    data) words="explain" ;;
    ckpt) words="list show verify diff convert reshard" ;;
    *) words="" ;;
    esac
    for w in "${words:-}" ; do
        for x in ${w:-""}; do $SHEAF $c $x --help; done
        [ -n "$w" ] || $SHEAF $c --help
    done | options >help.txt
    page "sheaf-$c.1.scd" >page.txt
    diff help.txt page.txt && echo "$c: $(wc -l <page.txt) options"
done
# the first page has every command of a second word
for c in records data ckpt; do
    for w in $($SHEAF $c --help | sed -nE 's/^  ([a-z]+) .*/\1/p'); do
        grep -qE "^\*sheaf\* \*$c\* .*\*$w\*" "$DOCS/sheaf.1.scd" && echo "$c $w"
    done
done
$SHEAF --help | grep -oE '^ +SHEAF_[A-Z_]+' | tr -d ' ' | sort >help.txt
grep -oE '^\*SHEAF_[A-Z_]+\*$' "$DOCS/sheaf.7.scd" | tr -d '*' | sort >page.txt
diff help.txt page.txt && echo "the same variables"
# each default is printed bold in its variable's paragraph
$SHEAF --help | sed -nE 's/^ +(SHEAF_[A-Z_]+) .* \(([^ ()]+)\)$/\1 \2/p' | while read -r name value; do
    sed -n "/^\*$name\*\$/,/^\$/p" "$DOCS/sheaf.7.scd" | grep -qF "*$value*" || echo "$name: default $value is not told"
done
