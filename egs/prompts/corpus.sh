# The prompts and Whisper base, which this recipe's scripts share.
. ../../local/systems/whisper.sh
option full flag false "decode all test prompts, not only the first of them"
option limit count 40 "es prompts to decode without --full"
option limit_others count 25 "prompts of each other language without --full" more
option max_seconds text 20 "the longest prompt to decode without --full" more
option min_words count 8 "keep prompts of at least so many English words" more
stage data "recordings and transcripts"

downloads=downloads
whisper=models/whisper-base
pictured=es-en
title="Whisper base put online, prompts"

stage_data() {
    step "recordings and transcripts"
    python local/prepare_prompts.py --downloads "$downloads" --out "$data" --min-words "$min_words"
}

# Decodes the test prompts of the pair $1 by the model $2 under $3 into the folder $4. $5...: further options of `simulst sweep`.
decode_prompts() {
    local limits=
    $full || limits="--max-seconds $max_seconds --limit $([ "$1" = es-en ] && echo "$limit" || echo "$limit_others")"
    decode "$data/$1/tst" "$1" "$2" "$3" "$4" "${@:5}"
}

# Joins the prompts of the pair $1 in the split $2 to talks in the folder $3. $4: the pauses between them.
join_prompts() {
    python ../../local/talks.py --data "$data/$1/$2" --out "$3" --source-lang "${1%-*}" --target-lang en --join "$4" $redo
}

# Scores the sentences of the talks in the folder $1, of the runs in $2.
score_talks() { score es-en "$2" --segmentation "$1/talks.yaml" --references "$1/talks.en"; }
