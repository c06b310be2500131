# Whisper on this corpus, which run.sh, cascade.sh and finetune.sh share.
. ../../local/systems/whisper.sh
option models path models "folder for models" more where

stage decode "decoding under all configurations"
stage score "scores, again, from the logs alone"
stage results "curves, tables and findings"

get_ready() {
    called="Whisper base"
    named= # another model has results of its own
    whisper=$models/whisper-base
    if [ -n "$model" ]; then
        whisper=$models/$(basename "$model")
        called=${whisper##*/}
        named=-$called
    fi
    pictured=$pairs
    set_folders
}

section_of() { echo "${system_name:+$system_name-}$1-$2$named$full_name"; }
