# Paper B's models (Nguyen et al. 2021): VGG and BLSTM encoder, LSTM decoder, one for each kind of tokens. All begin with the
# encoder of one recognition model.
. ../../local/training.sh

option tokens text "char bpe400 bpe2000" "tokens of the models: char, or bpe and the number of pieces"
option config path ../../conf/train/paper_b_st.yaml "ESPnet's training configuration"
option specaug text all "tokens of the models that are trained with SpecAugment, or all, or nothing" more
option asr flag true "train a recognition model first, and begin with its encoder"
option asr_config path ../../conf/train/paper_b_asr.yaml "its configuration" more
option asr_model path "" "a recognition model to begin with that is there" more
token_options
option train_options text "" "options for ESPnet in stage 6, such as \"--max_epoch 2\"" more
option asr_options text "" "options for ESPnet in stage 5" more
espnet_options
decoding_options tst-COMMON ../../conf/decode/paper_b.yaml "../../conf/findings/paper_b.yaml ../../conf/findings/paper_b_pieces.yaml"
common_options

stage audio "audio, cut into segments"
stage tokens "tokens, for each model"
stage stats "statistics of features, for each model"
stage pretrain "training for recognition"
stage train "training for translation, of each model"
stage choose "averages of checkpoints, the best of them on dev, for each model"
stage decode "decoding under all configurations, by each model"
stage score "scores, again, from the logs alone"
stage results "curves, tables and findings"

check_options() {
    local name
    for name in $tokens; do
        [[ $name =~ ^(char|bpe[1-9][0-9]*)$ ]] || fail "--tokens '$name': give char, or bpe and the number of pieces, such as bpe400"
    done
    drop_recognition
}

get_ready() {
    set_places b-char
    encoder=$asr_model
    recognised=() # the model beside --tokens whose tokens the recognition model has; the source's are the same in all
    if $asr && [ -z "$asr_model" ]; then
        encoder=$out/asr/valid.acc.best.pth
        if [[ " $tokens " != *" char "* ]]; then recognised=(char); fi
    fi
    check_asr_model
    if runs pretrain; then check_gpus "$out/asr"; fi
    for_each check_training
}

# Calls $1 for each model, with its folders.
for_each() {
    local name
    for name in $tokens; do for_model "$name" "$1"; done
}

for_model() { # $1: the model's tokens; $2: what to call
    local name=$1
    set_places "b-$1"
    system_name=paper_b-$1
    "$2"
}

check_training() { if runs train; then check_gpus "$out/st"; fi; }
learn_its_tokens() { learn_tokens "${name%%[0-9]*}" "$([ "$name" = char ] && echo "$pieces" || echo "${name#bpe}")"; }
collect_its_statistics() { collect_statistics "$config"; }
train_it() { train_options=$(with_specaug "$name" "$train_options") train_translation "$encoder"; }
# The options $2 for the model with the tokens $1.
with_specaug() { [[ " $specaug " =~ " all "|" $1 " ]] && echo "$2" || echo "--specaug none $2"; }
choose_its_checkpoint() { choose_checkpoint "$out/st"; }
decode_it() { for_each_split decode_split; }
score_it() { for_each_split score_split; }
write_its_results() { findings="" for_each_split write_split; } # those of the papers compare models

decode_split() { # the most characters or pieces per encoder frame: 1.6 for Portuguese, 1.0 for others (section 2.2)
    decode_espnet "$1" "$2" "$out/st" chosen.pth "$decodings" --set "ratio=$([ "$target" = pt ] && echo 1.6 || echo null)"
}
runs_of() { echo "$out/decode/$1/$2"; }

stage_audio() { segment_audio; }

stage_tokens() {
    for name in "${recognised[@]}"; do for_model "$name" learn_its_tokens; done
    for_each learn_its_tokens
}

stage_stats() {
    for name in "${recognised[@]}"; do for_model "$name" collect_its_statistics; done
    for_each collect_its_statistics
}

stage_pretrain() { asr_options=$(with_specaug char "$asr_options") for_model char train_recognition; }
stage_train() { for_each train_it; }
stage_choose() { for_each choose_its_checkpoint; }
stage_decode() { for_each decode_it; }
stage_score() { for_each score_it; }

stage_results() {
    local file first second section
    for_each write_its_results
    for file in $findings; do
        case $file in # what they compare
            */paper_b.yaml) first=char second=bpe400 section=paper_b ;;
            */paper_b_pieces.yaml) first=bpe400 second=bpe2000 section=paper_b-pieces ;;
            *) first=${tokens%% *} second=$first section=paper_b-$(basename "$file" .yaml) ;;
        esac
        if [[ " $tokens " == *" $first "* && " $tokens " == *" $second "* ]]; then
            step "findings of $(basename "$file" .yaml)"
            findings=$file test_findings "$exp/b-*/$set"
            write_results "${variant:+$variant-}$section-findings-$set" "${tested[@]}"
        fi
    done
}
