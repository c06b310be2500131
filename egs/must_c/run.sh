#!/usr/bin/env bash
# Paper C's systems (CUNI-KIT at IWSLT 2023) on MuST-C: blockwise Conformer, joint ST-CTC, ASR pre-training, blockwise search.
#
#   --root DIR           where MuST-C was unpacked: DIR/en-de/data/train/{txt,wav}, ... [$root]
#   --pairs "P ..."      language pairs, such as "en-de" or "en-de en-ja"; several give one multilingual model [$pairs]
#   --version V          1, 2 or 3: stop if the files are of another version (2 and 3 look the same); without it, any
#   --on-error E         drop (and count) or stop at faulty segments [$on_error]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

root=downloads
pairs=en-de
version=
on_error=drop
# shellcheck source=../../local/st_options.sh
. ../../local/st_options.sh
# shellcheck source=../../local/prefix_options.sh
. ../../local/prefix_options.sh
# shellcheck source=../../local/paper_a_options.sh
. ../../local/paper_a_options.sh
# shellcheck source=../../local/parse_options.sh
. ../../local/parse_options.sh

export PATH=$PWD/../../.venv/bin:$PATH
$force && redo=--force || redo=

if runs 1; then
    echo "== stage 1: data directories"
    splits="train dev $tests"
    for name in prefix_tests a_tests; do
        if [[ $given != *" $name "* ]]; then continue; fi
        for split in ${!name}; do
            if [[ " $splits " != *" $split "* ]]; then splits+=" $split"; fi
        done
    done
    # shellcheck disable=SC2086
    simulst data must-c --root "$root" --pairs "$pairs" --splits "$splits" --out "$data" \
        --on-error "$on_error" ${version:+--version "$version"}
fi

recipe=MuST-C
variant=
command="./run.sh --recipe must_c$shown"
# shellcheck source=../../local/st_stages.sh
. ../../local/st_stages.sh
# shellcheck source=../../local/prefix_stages.sh
. ../../local/prefix_stages.sh

# shellcheck source=../../local/paper_a_stages.sh
. ../../local/paper_a_stages.sh
