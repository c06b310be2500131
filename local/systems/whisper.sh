# A Whisper in CTranslate2 form that is put online. A script sets
#   whisper          the model's folder
#   pictured         pairs that get a curve and tests of findings, both of the first split
#   title            begins the titles of the curves
#   axis             a curve's lag, if it is not LAAL
# and redefines what it does otherwise.
option model text "" "another Whisper in CTranslate2 form: a folder, or a name on the Hugging Face hub"
stage pretrain "the model, which comes trained"

in_huggingface=false # whether its weights are needed in Hugging Face's form, too

stage_pretrain() {
    step "model"
    python ../../local/fetch_whisper.py --downloads "$downloads" --out "$whisper" ${model:+--model "$model"}
    if $in_huggingface; then python ../../local/whisper_to_huggingface.py --model "$whisper" --out "$whisper-hf" $redo; fi
}

section_of() { echo "${system_name:+$system_name-}$1-$2"; }
title_of() { echo "$title, ${1/-/→}"; }

say_more() {
    if [[ " $pictured " == *" $1 "* && $2 = "${tests%% *}" ]]; then
        test_findings "$(runs_of "$1" "$2")"
        more+=(--curve ${axis:+--x "$axis"} "${tested[@]}")
    fi
}
