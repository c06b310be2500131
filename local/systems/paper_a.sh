# Paper A's system (CUNI-KIT at IWSLT 2022): an offline model of Hugging Face's is fine-tuned, or trained from scratch, on all
# pairs at once, and decoded under the paper's strategies.
. ../../local/training.sh

option config path ../../conf/train/paper_a_st.yaml "how to train"
option model text "" "model to fine-tune, a folder or a name on the hub; empty: the configuration describes a new one"
option prefixes path "" "train on the prefix pairs, too, that a filter of paper_d's stage 6 left, such as all or maxratio30; \
this model and its results get names of their own"
decoding_options tst-COMMON ../../conf/decode/paper_a.yaml ../../conf/findings/paper_a.yaml
option ngpu count 1 "GPUs to train on, with one process for each; 1: a GPU, if there is one; 0: the CPU" where
common_options

stage train "fine-tuning, or training from scratch"
stage decode "decoding under all configurations"
stage score "scores, again, from the logs alone"
stage results "curve, tables and findings"

system=paper_a # of folders and results

get_ready() {
    local pair other
    set_places
    system_name=$system${prefixes:+-$prefixes}
    folder=$out/$system_name
    training=()
    for pair in $pairs; do
        training+=(--pair "$pair" --train "$data/$pair/train" --valid "$data/$pair/dev")
        if [ -n "$prefixes" ]; then
            pairs_of=$exp/$pair/prefix/pairs/$prefixes
            if runs train; then need "$pairs_of/train" "./run.sh --recipe $recipe/paper_d"; fi
            training+=(--pair "$pair" --train "$pairs_of/train" --valid "$pairs_of/dev")
        fi
        for other in ${others:-}; do # a corpus need not have all pairs
            if [ -d "$other/$pair/train" ]; then training+=(--pair "$pair" --train "$other/$pair/train" --valid "$data/$pair/dev"); fi
        done
    done
}

stage_train() {
    step "an offline model of Hugging Face's, ${folder#"$exp"/}"
    train_alone simulst train finetune --config "$config" ${model:+--model "$model"} "${training[@]}" --out "$folder" $redo \
        $([ "$ngpu" -lt 2 ] || echo "--ngpu $ngpu")
}

decode_split() { # the whole sentence stays in the window, also a very long one
    decode "$data/$1/$2" "$1" "$folder/model" "$decodings" "$(runs_of "$1" "$2")" --text "tc.${1#*-}" --model-option window=60
}
runs_of() { echo "$folder/decode/$1/$2"; }

stage_results() {
    local pair split=${tests%% *} single both
    for_each_split write_split
    [ "$target" = multi ] || return 0
    for pair in $pairs; do # one model of several pairs against a model of this pair alone, if that has been decoded
        single=$exp/$pair/$system_name/decode/$pair/$split/offline
        both=$folder/decode/$pair/$split/offline
        if [ -f "$single/scores.json" ]; then
            write_results "$(system_name+=-single section_of "$pair" "$split")" "$single" "$both" --test "$single" "$both"
        fi
    done
}
