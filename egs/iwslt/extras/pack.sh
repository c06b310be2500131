#!/usr/bin/env bash
# The hand-in: what the recipe chose for each direction and regime, packed into one folder and verified (docs/iwslt.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
option choices path "" "folder whose chosen/*.yaml are packed, at any depth, such as exp/cascade; empty: that of --exp"
option contact text "" "who answers questions, such as \"Ada Byron, ada@example.org\""
option out path "" "folder to make; empty: handin, in that of --exp"
option recordings path "" "the organisers' recordings, for the verification; empty: those of the small folder"
option pack_options text "" "further options of simulst pack, such as \"--licence LICENSE --device cuda\""
common_options
stage decode "the folder, with logs that simulstream makes from it"
stage results "its verification"

get_ready() {
    choices=${choices:-$exp} out=${out:-$exp/handin} recordings=${recordings:-$data/organisers}
}

stage_decode() {
    local chosen
    if [ -z "$redo" ] && [ -e "$out/SHA256SUMS" ]; then
        step "$out is packed already; --force packs again"
        return
    fi
    mapfile -t chosen < <(find "$choices" -path "*/chosen/*.yaml" 2> /dev/null | LC_ALL=C sort)
    if ! $rehearsing; then
        [ ${#chosen[@]} != 0 ] || fail "$choices: has no chosen/*.yaml; ./run.sh --recipe iwslt makes them"
        [ -n "$contact" ] || fail "--contact: say who answers questions, by name and address"
    fi
    step "${#chosen[@]} systems"
    simulst pack "${chosen[@]:-$choices}" --out "$out" --contact "$contact" $pack_options $redo
}

stage_results() {
    step "in an environment of its own"
    simulst verify "$out" "$recordings"
}

begin "$@"
run_stages
