#!/bin/sh
# Prints the section of CHANGELOG.md about one version: tools/release/notes.sh 0.1.0
set -eu
notes=$(awk -v heading="## [$1]" '
    index($0, heading) == 1 { inside = 1; next }
    /^## / { inside = 0 }
    inside' "$(dirname "$0")/../../CHANGELOG.md")
[ -n "$notes" ] || { echo "seatrial: CHANGELOG.md has no section about version $1" >&2; exit 1; }
printf '%s\n' "$notes"
