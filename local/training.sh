# What the systems on ESPnet's trainer share: stages 2 to 4, trainings, and the choice of a checkpoint. A recipe's corpus.sh has
# set `pairs`: several pairs give one model, which gets a target-language token such as <2de>.

token_options() {
    option pieces count 4000 "target pieces" more
    option source_pieces count 4000 "source pieces" more
    option speeds text "0.9 1.0 1.1" "factors of speed perturbation" more
}

espnet_options() {
    option model_options text "" "model options for ESPnet in all trainings, such as \"--encoder_conf num_blocks=12\"" more
    option stats_options text "" "options for ESPnet in stage 4" more
    option counts text "1 5 10" "numbers of checkpoints to average; the best one on dev is chosen" more
    option ngpu count 1 "GPUs per machine for training, with one process for each; 0: the CPU"
    option num_nodes count 1 "machines of a Slurm cluster to train on" more
    option hosts text "" "machines to train on through ssh, as in A,B" more where
}

own_audio= # a folder's name, if a system does not read the segmented audio of the recipe's others

# Sets the folders of the system $1 (empty: the recipe's own), and the options of its trainings.
set_places() {
    local system=${1:-}
    set=${pairs// /+}
    if [ "$set" = "$pairs" ]; then target=${pairs#*-}; else target=multi; fi
    if [ -n "${others:-}" ]; then
        check_others
        set+=+others
    fi
    source=${pairs%%-*}
    dirs=$data/$set              # segmented audio
    own=$dirs${system:+/$system} # tokens and statistics
    out=$exp${system:+/$system}/$set
    if [ -n "$own_audio" ]; then own+=/$own_audio dump=$own/dump; else dump=$dirs/dump; fi
    corpus=(--train "$dump/train" --valid "$dump/dev")
    translation=("${corpus[@]}" --text "tc.$target" --tokens "$own/tokens"
        --source-text "lc.rm.$source" --source-tokens "$own/source_tokens")
}

# Ends the script if one of --others has none of the pairs; it need not have all.
check_others() {
    local other pair found
    runs audio || runs train || return 0
    for other in $others; do
        found=
        for pair in $pairs; do if [ -d "$other/$pair/train" ]; then found=true; fi; done
        [ -n "$found" ] || fail "--others $other: no ${pairs// //train or }/train there; paths begin in egs/$recipe"
    done
}

# The name of a section of results: variant and system of the script's model, and the pairs, if the model has several.
section_of() {
    local several=
    if [ "$set" != "$pairs" ]; then several=$set-; fi
    echo "${variant:+$variant-}${system_name:+$system_name-}$several$1-$2"
}

segment_audio() {
    local split folder also
    for split in train dev; do
        step "segment audio of $split"
        if [ "$set" != "$pairs" ]; then
            also=()
            if [ $split = train ]; then for folder in ${others:-}; do also+=(--also "$folder"); done; fi
            python ../../local/prepare_data.py combine --data "$data" --split $split --out "$dirs/$split" "${also[@]}" $redo $pairs
        fi
        python ../../local/prepare_data.py dump --data "$dirs/$split" --out "$dump/$split" --texts "tc.$target lc.rm.$source" $redo \
            --speeds "$([ $split = train ] && echo "$speeds" || echo 1.0)"
    done
}

learn_tokens() { # $1: the kind of the target's tokens; $2: their number
    local symbols=() pair
    if [ "$target" = multi ]; then for pair in $pairs; do symbols+=(--symbol "<2${pair#*-}>"); done; fi
    step "tokens, ${own#"$data"/}"
    simulst train tokens "$dump/train/text.tc.$target" --out "$own/tokens" --size "$2" --kind "$1" "${symbols[@]}" $redo
    simulst train tokens "$dump/train/text.lc.rm.$source" --out "$own/source_tokens" --size "$source_pieces" \
        --kind unigram $redo # not characters: CTC needs more frames than tokens
}

collect_statistics() { # $1: ESPnet's configuration
    step "statistics of features, ${own#"$data"/}"
    simulst train stats --config "$1" "${translation[@]}" --out "$own/stats" $redo -- $stats_options
}

# A training by ESPnet into the folder $1, with the configuration $2. $3...: further options of `simulst train espnet`.
espnet() {
    check_gpus "$1"
    OMP_NUM_THREADS=$(cores) simulst train espnet --config "$2" --stats "$own/stats" --out "$1" $redo --ngpu "$ngpu" \
        --num-nodes "$num_nodes" ${hosts:+--hosts "$hosts"} "${@:3}"
}

drop_recognition() {
    if ! $asr || [ -n "$asr_model" ]; then
        drop_stage pretrain "there is no training for recognition with --asr false or --asr-model"
    fi
}

check_asr_model() {
    if runs train && [ -n "$asr_model" ]; then [ -e "$asr_model" ] || fail "--asr-model $asr_model: no such file"; fi
}

train_recognition() {
    step "recognition, ${out#"$exp"/}/asr"
    espnet "$out/asr" "$asr_config" --task asr "${corpus[@]}" --text "lc.rm.$source" --tokens "$own/source_tokens" \
        -- $model_options $asr_options
}

# $1: weights of the recognition model whose encoder it begins with, may be empty.
train_translation() {
    step "translation, ${out#"$exp"/}/st"
    espnet "$out/st" "$config" "${translation[@]}" ${1:+--encoder "$1"} -- $model_options $train_options
}

choose_checkpoint() { # averages checkpoints of the training in the folder $1, and chooses the best average on dev; $2...: options
    local devs=() pair
    step "checkpoint and weights, ${1#"$exp"/}"
    for pair in $pairs; do devs+=(--data "$data/$pair/dev" --text "tc.${pair#*-}" --target-lang "${pair#*-}"); done
    simulst train average "$1" "${devs[@]}" --source-lang "$source" --counts "$counts" "${@:2}" $redo
}

# Decodes split $2 of the pair $1 by the model $3, whose weights are in its file $4, under $5 into the folder of the runs. $6...:
# further options of `simulst sweep`.
decode_espnet() {
    decode "$data/$1/$2" "$1" "$3" "$5" "$(runs_of "$1" "$2")" --text "tc.${1#*-}" --model-option "checkpoint=$4" "${@:6}"
}

one_pair() {
    [ "$pairs" = "${pairs%% *}" ] || fail "'$pairs': $script is for one pair of languages; give one pair"
}
