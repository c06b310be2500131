# Stages 2 to 10 of a speech translation recipe. egs/*/run.sh sources this file after stage 1, which has written the data
# directories $data/<pair>/<split>. Besides its options, the recipe sets
#   pairs       language pairs; several pairs give one model, which gets a target-language token such as <2de>
#   tests       splits to decode
#   limits      options that decode only a part of the test utterances; may be empty
#   recipe      its name, for titles
#   command     the command that is written under the tables of results
#   variant     another name for the results, if a recipe has several models of a pair; may be empty
#   decoded     folder for the runs, below that of the models; decode if it is not set
set="${pairs// /+}"
dirs=$data/$set
out=$exp${system:+/$system}/$set
own=$dirs${system:+/$system}
decoded=${decoded:-decode}
if [ "$set" = "$pairs" ]; then target=${pairs#*-}; else target=multi; fi
source=${pairs%%-*}
texts="tc.$target lc.rm.$source"
local=../../local
if [ -n "$system" ]; then
    variant=${variant:+$variant-}$system
    default findings "" # paper C's are about its own models
    default full_context_findings ""
fi

# What the names of a pair's sections begin with. A model of several pairs has sections of its own.
pair_section() { echo "${variant:+$variant-}$(if [ "$target" = multi ]; then echo "$set-"; fi)$1"; }

# Sets `pages` to the pages named $1 that get the results.
choose_pages() {
    pages=("$exp/$1")
    if $publish; then pages+=("$1"); fi
}

# Decodes split $2 of the pair $1 by the model in $3, under the configurations in $4, into the folder $5. $6...: further
# options of `simulst sweep`.
decode() {
    # shellcheck disable=SC2086,SC2046
    OMP_NUM_THREADS=1 simulst sweep --data "$data/$1/$2" --text "tc.${1#*-}" --source-lang "$source" \
        --target-lang "${1#*-}" --model "$3" --decodings "$4" --out "$5" --jobs "$jobs" $redo \
        ${scheduler:+--scheduler "$scheduler"} $($slurm && echo --slurm) $limits "${@:6}"
}

# Draws the curve of the first split, and writes the curve and a table for each split into `pages`. $1: name of the
# sections; $2: the folder that has a folder of runs for each split; $3: the curve's file, without its suffix; $4: begins
# its title; $5: the splits; $6: the command that made the runs.
write_curve_and_tables() {
    local first=${5%% *} page split picture
    simulst plot "$2/$first" --out "$3.svg" --out "$3.png" --title "$4, $first"
    for page in "${pages[@]}"; do
        cp "$3.svg" "$(dirname "$page")/$1.svg"
        for split in $5; do
            picture=()
            if [ "$split" = "$first" ]; then picture=(--picture "$1.svg"); fi
            python $local/write_results.py --page "$page" --section "$1-$split" --command "$6" "${picture[@]}" "$2/$split"
        done
    done
}

# Tests findings on the runs of trainings with other seeds, too. $1: name of the section; $2: the page that --publish
# changes; $3: the folder of the runs below that of the experiments; may have wildcards; $4: the command that made them;
# $5: files of findings; if there are none, nothing is tested.
write_findings() {
    [ -n "$5" ] || return 0
    local arguments=(--section "$1-findings" --command "$4${seeds:+ --seeds \"$seeds\"}" --out "$exp/FINDINGS.md") folder file
    if $publish; then arguments+=(--out "$2"); fi
    for folder in "$exp" $seeds; do arguments+=(--runs "$folder/$3"); done
    for file in $5; do arguments+=(--findings "$file"); done
    simulst findings "${arguments[@]}"
    if $publish; then python $local/write_verdicts.py --root ../..; fi
}

# Ends the recipe early if there is no GPU for the training in folder $1. Does not check machines that srun or ssh reach.
# A complete training needs no GPU.
check_gpus() {
    local have
    if [ "$ngpu" = 0 ] || [ "$num_nodes" != 1 ] || [ -n "$hosts" ]; then return; fi
    if [ -z "$redo" ] && grep -qs '"complete": true' "$1/simulst.json"; then return; fi
    have=$(python -c "import torch; print(torch.cuda.device_count())")
    if [ "$have" = 0 ]; then
        echo "error: --ngpu $ngpu: no GPU here; give --ngpu 0 to train on the CPU" >&2
        exit 1
    fi
}

# Runs a training outside ESPnet, which uses a GPU if it sees one. $@: the command.
train_alone() {
    if [ "$ngpu" = 0 ]; then local -x CUDA_VISIBLE_DEVICES=; fi
    OMP_NUM_THREADS=$(nproc) "$@"
}

if [ -n "$guide" ] && ! $guided; then
    echo "error: --guide '$guide': stage 8 takes a guide with --guided only; give that, too" >&2
    exit 1
fi
if [ -z "$asr_model" ] && $asr; then encoder_of=$out/asr/valid.acc.best.pth; else encoder_of=$asr_model; fi
if $asr && [ -z "$asr_model" ] && runs 5; then check_gpus "$out/asr"; fi
if runs 6; then check_gpus "$out/st"; fi

if runs 2; then
    echo "== stage 2: segment audio"
    for split in train dev; do
        if [ "$target" = multi ]; then
            # shellcheck disable=SC2086
            simulst data combine --data "$data" --split $split --out "$dirs/$split" $redo $pairs
        fi
        simulst data dump --data "$dirs/$split" --out "$dirs/dump/$split" --texts "$texts" $redo \
            --speeds "$([ $split = train ] && echo "$speeds" || echo 1.0)"
    done
fi

if runs 3; then
    echo "== stage 3: tokens"
    symbols=
    if [ "$target" = multi ]; then for pair in $pairs; do symbols+=" --symbol <2${pair#*-}>"; done; fi
    # shellcheck disable=SC2086
    simulst train tokens "$dirs/dump/train/text.tc.$target" --out "$own/tokens" --size "$pieces" \
        --kind "$token_kind" $symbols $redo
    simulst train tokens "$dirs/dump/train/text.lc.rm.$source" --out "$own/source_tokens" \
        --size "$source_pieces" --kind unigram $redo # not characters: CTC needs more frames than tokens
fi

machines="--ngpu $ngpu --num-nodes $num_nodes ${hosts:+--hosts $hosts}"
corpus="--train $dirs/dump/train --valid $dirs/dump/dev"
asr_training="--task asr --config $asr_config $corpus --text lc.rm.$source --tokens $own/source_tokens"
st_training="--config $config $corpus --text tc.$target --tokens $own/tokens
    --source-text lc.rm.$source --source-tokens $own/source_tokens"

if runs 4; then
    echo "== stage 4: statistics"
    # shellcheck disable=SC2086
    simulst train stats $st_training --out "$own/stats" $redo -- $stats_options
fi

if $asr && [ -z "$asr_model" ] && runs 5; then
    echo "== stage 5: ASR pre-training"
    # shellcheck disable=SC2086
    OMP_NUM_THREADS=$(nproc) simulst train espnet $asr_training --stats "$own/stats" --out "$out/asr" $redo \
        $machines -- $model_options $asr_options
fi

if runs 6; then
    echo "== stage 6: ST training"
    # shellcheck disable=SC2086,SC2046
    OMP_NUM_THREADS=$(nproc) simulst train espnet $st_training --stats "$own/stats" --out "$out/st" $redo \
        ${encoder_of:+--encoder "$encoder_of"} $machines -- \
        $model_options $train_options
fi

if runs 7; then
    echo "== stage 7: averaging"
    devs=
    for pair in $pairs; do devs+=" --data $data/$pair/dev --text tc.${pair#*-} --target-lang ${pair#*-}"; done
    # shellcheck disable=SC2086
    simulst train average "$out/st" $devs --source-lang "$source" --counts "$counts" $redo
fi

if runs 8; then
    chosen="--model-option checkpoint=chosen.pth"
    for pair in $pairs; do
        for split in $tests; do
            echo "== stage 8: decode $pair $split"
            # shellcheck disable=SC2086
            decode "$pair" "$split" "$out/st" "$decodings" "$out/$decoded/$pair/$split" $chosen
            if $guided; then
                echo "== stage 8: decode $pair $split by the offline model of stage 11, guided by CTC"
                guide_text=$(sed 's/[&#\]/\\&/g' <<< "${guide:-$out/st}") # what sed would not take as it is
                sed "s#exp/en-de/st#$guide_text#" ../../conf/decode/sweep_guide.yaml > "$out/guided.yaml"
                # shellcheck disable=SC2086
                decode "$pair" "$split" "$out/offline" "$out/guided.yaml" "$out/$decoded/$pair/$split" $chosen
            fi
        done
    done
fi

if runs 9; then
    echo "== stage 9: score (again, from the logs alone)"
    for pair in $pairs; do
        for split in $tests; do
            simulst runs score --target-lang "${pair#*-}" "$out/$decoded/$pair/$split"
        done
    done
fi

if runs 10; then
    echo "== stage 10: curve, tables and findings"
    choose_pages README.md
    made_by=$command
    if $guided; then # stage 8 decodes the model of stage 11
        printf -v made_by '%s\n' "$command --stop-stage 4" "$command --stage 11 --stop-stage 11" "$command"
    fi
    for pair in $pairs; do
        first=${tests%% *}
        name=$(pair_section "$pair")
        write_curve_and_tables "$name" "$out/$decoded/$pair" "$out/$pair" "$recipe $pair" "$tests" "$made_by"
        write_findings "$name" README.md "${out#"$exp"/}/$decoded/$pair/$first" "$made_by" "$findings"
    done
fi
