#!/bin/sh
# Prints README.md for the package index, where a relative link or picture leads nowhere:
#
#   tools/release/readme.sh https://github.com/seatrial/seatrial v0.1.0
set -eu
sed -E -e "s#\]\((docs/images/[^):]*)\)#]($1/raw/$2/\1)#g" \
    -e "s#\]\(([A-Za-z][^):]*)\)#]($1/blob/$2/\1)#g" "$(dirname "$0")/../../README.md"
