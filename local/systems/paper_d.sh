# Paper D's system (NAIST at IWSLT 2022): prefix pairs and a boundary predictor make an offline model simultaneous.
. ../../local/systems/offline.sh

offline_options
option tau count 100 "frames of 10 ms by which prefixes grow"
option prefix_beam count 10 "beam size of the search that translates prefixes"
option prefix_limit count 0 "use only the first N utterances of train; 0: all" more
option open_end flag false "leave out the full stop after a prefix's translation" more
option ratios text "none 80 40 20" "values of maxratio (frames of 10 ms per target word; for zh and ja per token), with a model \
for each; none: all pairs"
option with_whole flag false "fine-tune on whole utterances, too" more
option prefix_config path ../../conf/train/paper_d_prefix.yaml "ESPnet's configuration for fine-tuning" more
option prefix_options text "" "options for ESPnet in fine-tuning" more
option trained_waits text "1 3 5 7 9 11 13 15 17 19" "k of wait-k, with a model trained for each"
option wait_encoders text bidirectional "encoders of these models: bidirectional, as in fairseq, or unidirectional, or both" more
option wait_unit count 280 "unit of wait-k, in ms" more
option wait_writes count 1 "tokens that these models write after each unit" more
option wait_beam count 1 "beam size of the models trained for wait-k: greedy, as in fairseq" more
option wait_config path ../../conf/train/paper_d_st.yaml "ESPnet's configuration for wait-k" more
option wait_options text "" "options for ESPnet in trainings for wait-k" more
option predictor_model text "--mels 80 --embedding 256 --hidden 512" "the boundary predictor's size and training, by options \
of simulst prefix predictor" more
option predictor_options text "" "further options of its training" more
option predictor_tests text tst-COMMON "splits on whose prefix pairs the predictor is scored, too (table 3)" more
option averaged "best|last" best "checkpoints to average: of the offline model the best ones on dev; or of all models the last \
ones" more
decoding_options tst-COMMON ../../conf/decode/paper_d.yaml ../../conf/findings/paper_d.yaml
option prefix_decodings path ../../conf/decode/paper_d_prefix.yaml "decoding configurations of the fine-tuned models" more
option wait_decodings path ../../conf/decode/paper_d_wait.yaml "decoding configurations of the models trained for wait-k" more
common_options

stage audio "audio, cut into segments"
stage tokens "tokens"
stage stats "statistics of features"
stage pretrain "recognition (--asr), the offline model, and the average of its checkpoints"
stage train "prefix pairs, fine-tuning on them, training for wait-k, boundary predictor"
stage decode "decoding under all configurations, by all models"
stage score "scores, again, from the logs alone"
stage results "curve, tables and findings"

check_options() {
    local kind
    one_pair
    if [ "$tau" = 0 ] || [ $((tau % 4)) -ne 0 ]; then
        fail "--tau $tau: give frames of 10 ms, a multiple of 4 for the boundary predictor"
    fi
    for kind in $wait_encoders; do
        [[ $kind =~ ^(bidirectional|unidirectional)$ ]] || fail "--wait-encoders $kind: give bidirectional, unidirectional, or both"
    done
    [ -n "$ratios" ] || fail "--ratios '': give values of maxratio, or none for all pairs"
}

system_name=paper_d

get_ready() {
    local ratio k kind name
    set_shared_tokens
    prefix=$out/prefix
    filters=() # names of the models that are fine-tuned, one for each value of maxratio
    for ratio in $ratios; do filters+=("$(if [ "$ratio" = none ]; then echo all; else echo "maxratio$ratio"; fi)"); done
    waiting=() # names of the models for wait-k
    for k in $trained_waits; do
        for kind in $wait_encoders; do
            waiting+=("wait$k-$kind$([ "$wait_writes" = 1 ] || echo "-N$wait_writes")")
        done
    done
    if runs decode && ! runs train; then need "$prefix/predictor" "./run.sh --recipe $script --stop-stage train"; fi
    if runs pretrain; then
        if $asr; then check_gpus "$out/offline-asr"; fi
        check_gpus "$out/offline"
    fi
    if runs train; then
        for name in "${filters[@]}" "${waiting[@]}"; do
            check_gpus "$prefix/$name"
        done
    fi
}

# Takes the name of a model for wait-k apart.
parse_name() { k=${1#wait} k=${k%%-*} kind=${1#*-} kind=${kind%%-*}; }

stage_pretrain() {
    train_recognition_first
    train_offline
    choose_checkpoint "$out/offline" $([ "$averaged" = best ] || echo --last)
}

stage_train() {
    local name
    extract_pairs train "$prefix_limit"
    extract_pairs dev 0
    for name in "${filters[@]}"; do fine_tune "$name"; done
    for name in "${waiting[@]}"; do train_to_wait "$name"; done
    if [ "$averaged" = last ]; then
        for name in "${filters[@]}" "${waiting[@]}"; do choose_checkpoint "$prefix/$name" --ctc-weight 0 --last; done
    fi
    step "boundary predictor"
    train_alone simulst prefix predictor --out "$prefix/predictor" --data "$dirs/train" \
        --prefixes "$prefix/train/prefixes.jsonl" --valid-data "$dirs/dev" --valid-prefixes "$prefix/dev/prefixes.jsonl" \
        $predictor_model $predictor_options $redo
    for name in $predictor_tests; do # table 3
        extract_pairs "$name" 0 "$data/$pairs/$name"
        simulst prefix score --data "$data/$pairs/$name" --prefixes "$prefix/$name/prefixes.jsonl" \
            --predictor "$prefix/predictor/predictor.pth" --out "$prefix/$name/scores.json"
    done
}

extract_pairs() { # $1: the split; $2: the number of utterances, 0: all; $3: another data directory than that of training
    step "prefix pairs of $1"
    OMP_NUM_THREADS=1 simulst prefix extract --data "${3:-$dirs/$1}" --model "$out/offline" --model-option checkpoint=chosen.pth \
        --source-lang "$source" --target-lang "$target" --out "$prefix/$1" --tau "$tau" --beam "$prefix_beam" --jobs "$jobs" \
        $($open_end && echo --open-end) --limit "$2" ${scheduler:+--scheduler "$scheduler"} $($slurm && echo --slurm) $redo
}

fine_tune() {
    local split ratio=${1#maxratio} pairs_of=$prefix/pairs/$1
    step "fine-tuning on prefix pairs, $1"
    for split in train dev; do
        simulst prefix pairs --data "$dirs/$split" --prefixes "$prefix/$split/prefixes.jsonl" --target-lang "$target" \
            --out "$pairs_of/$split" --tokens "$shared_tokens" $([ "$ratio" = all ] || echo --max-ratio "$ratio") \
            $($with_whole && echo --whole) $redo
        python ../../local/prepare_data.py dump --data "$pairs_of/$split" --out "$pairs_of/dump/$split" --texts "tc.$target" $redo
    done
    espnet "$prefix/$1" "$prefix_config" --text "tc.$target" --train "$pairs_of/dump/train" --valid "$pairs_of/dump/dev" \
        --tokens "$shared_tokens" --source-tokens "$shared_source_tokens" --model "$out/offline/chosen.pth" \
        -- $model_options $prefix_options
}

train_to_wait() { # from the recognition model's encoder, as the offline model, or else from the offline model
    local k kind begin=(--model "$out/offline/chosen.pth")
    parse_name "$1"
    if [ -n "$encoder" ]; then begin=(--encoder "$encoder"); fi
    step "training for wait-k, $1"
    espnet "$prefix/$1" "$wait_config" "${sharing[@]}" --wait-k "$k" --unit-ms "$wait_unit" --writes "$wait_writes" \
        $([ "$kind" = bidirectional ] || echo --unidirectional) "${begin[@]}" \
        -- $model_options $wait_options
}

decode_split() {
    local name k kind values checkpoint ks=
    for k in $trained_waits; do ks+="$k, "; done
    checkpoint=$([ "$averaged" = last ] && echo chosen.pth || echo valid.acc.best.pth) # of all models but the offline one
    values=(--set "beam=$prefix_beam" --set "wait_beam=$wait_beam" --set "unit=$wait_unit" --set "writes=$wait_writes"
        --set "predictor=$prefix/predictor/predictor.pth" --set "trained_waits=[$ks]")
    step "$1 $2 by the offline model"
    decode_espnet "$1" "$2" "$out/offline" chosen.pth "$decodings" "${values[@]}"
    for name in "${filters[@]}"; do
        step "$1 $2 by $name"
        decode_espnet "$1" "$2" "$prefix/$name" $checkpoint "$prefix_decodings" "${values[@]}" --set "name=$name"
    done
    for name in "${waiting[@]}"; do
        parse_name "$name"
        step "$1 $2 by $name"
        decode_espnet "$1" "$2" "$prefix/$name" $checkpoint "$wait_decodings" "${values[@]}" \
            --set "k=$k" --set "name=$kind"
    done
}

runs_of() { echo "$prefix/decode/$2"; }

say_more() { # as the other systems, with the tables of prefix pairs and of the predictor
    local name scored of_pairs=()
    if [ "$2" = "${tests%% *}" ]; then
        test_findings "$(runs_of "$1" "$2")"
        if [ -e "$prefix/$2/scores.json" ]; then scored=$prefix/$2; else scored=$prefix/predictor; fi
        for name in "${filters[@]}"; do of_pairs+=(--pairs "$prefix/pairs/$name"); done
        python ../../local/results.py prefix-tables "${of_pairs[@]}" --predictor "$scored" --out "$prefix/tables.json"
        more+=(--curve "${tested[@]}" --table "$prefix/tables.json")
    fi
}
