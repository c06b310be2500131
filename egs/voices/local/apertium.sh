#!/usr/bin/env bash
# Apertium that stays open, and answers each line with a line: local/apertium.sh eng-spa. apertium.py asks it.
# Between its programs, a null byte and a line feed end each text, and a null byte ends each answer. (`apertium -z`
# waits for the next text before it answers.)
set -euo pipefail
mode=/usr/share/apertium/modes/$1.mode
if [ ! -f "$mode" ]; then
    echo "$mode: no such file; install the language pair, such as apertium-eng-spa" >&2
    exit 1
fi
# Apertium's own signs in the text are escaped, and what ends a text is a blank of its kind, after which it flushes.
sed -u 's:[][\\^]: :g; s:[/@<>$]:\\&:g; s:$: []\x0:' |
    bash -c "$(apertium-wblank-mode -z "$mode")" apertium -n |
    sed -uz 's/^\n//; s/\[\]$//; s/\\\(.\)/\1/g; s/\n/ /g' |
    stdbuf -oL tr '\0' '\n'
