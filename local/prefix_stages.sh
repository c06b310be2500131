# Stages 11 to 16 and 18, sourced after st_stages.sh: paper D's system (NAIST at IWSLT 2022). Prefix pairs and a boundary
# predictor make an offline Transformer simultaneous. For one language pair. Besides its other options, the recipe sets
#   offline_config, prefix_config   ESPnet's configurations for the offline model and for its fine-tuning
#   tau, prefix_beam                frames of 10 ms by which prefixes grow; beam size for translating prefixes
#   prefix_pieces                   pieces of the shared BPE; 0: the tokens of stage 3
#   prefix_limit, open_end          number of utterances of train (0: all); whether to leave out final full stops
#   ratios, with_whole              values of maxratio, with a model for each; whether to add whole utterances
#   waits, wait_unit, wait_writes   k, unit (ms) and tokens after each unit of wait-k
#   trained_waits, wait_encoders    k of wait-k, with a model trained for each; their encoders
#   wait_config                     ESPnet's configuration for training for wait-k
#   thresholds, units               λ_thre and T (frames) of the boundary predictor
#   predictor_model                 the boundary predictor's size and training
#   full_context_options            model options for the trainings of stages 11 and 13
#   offline_options, prefix_options, wait_options, predictor_options   further options of the four trainings
if runs 11 || runs 12 || runs 13 || runs 14 || runs 15 || runs 16 || runs 18; then
    if [ "$target" = multi ]; then
        echo "error: stages 11 to 16 and 18 are for one pair of languages; give one pair" >&2
        exit 1
    fi
    if [ "$tau" = 0 ] || [ $((tau % 4)) -ne 0 ]; then
        echo "error: --tau $tau: give frames of 10 ms, a multiple of 4 for the boundary predictor" >&2
        exit 1
    fi
    for unit in $units; do
        if ! [[ $unit =~ ^[1-9][0-9]*$ ]] || [ $((unit % 4)) -ne 0 ] || [ "$unit" -gt "$tau" ]; then
            echo "error: --units $unit: give frames of 10 ms, a multiple of 4 and at most --tau, which is $tau" >&2
            exit 1
        fi
    done
    for encoder in $wait_encoders; do
        if [ "$encoder" != bidirectional ] && [ "$encoder" != unidirectional ]; then
            echo "error: --wait-encoders $encoder: give bidirectional, unidirectional, or both" >&2
            exit 1
        fi
    done
    if runs 16 && [ -z "$ratios" ]; then
        echo "error: --ratios '': stage 16 has a table of them; give values of maxratio, or none for all pairs" >&2
        exit 1
    fi
    prefix=$out/prefix
    prefix_tokens=$own/shared_tokens prefix_source_tokens=$own/shared_tokens
    if [ "$prefix_pieces" = 0 ]; then prefix_tokens=$own/tokens prefix_source_tokens=$own/source_tokens; fi
    texts="$corpus --text tc.$target --tokens $prefix_tokens
        --source-text lc.rm.$source --source-tokens $prefix_source_tokens"
    model="--model-option checkpoint=chosen.pth --source-lang $source --target-lang $target"
    # The name of the model that is fine-tuned with maxratio $1.
    name_of() { if [ "$1" = none ]; then echo all; else echo "maxratio$1"; fi; }
    names=
    for ratio in $ratios; do names+=" $(name_of "$ratio")"; done
    wait_names=
    for k in $trained_waits; do
        for encoder in $wait_encoders; do
            wait_names+=" wait$k-$encoder$([ "$wait_writes" = 1 ] || echo "-N$wait_writes")"
        done
    done
    # Takes the name of a model for wait-k apart.
    parse_name() { k=${1#wait} k=${k%%-*} encoder=${1#*-} encoder=${encoder%%-*}; }
fi

if runs 11; then
    echo "== stage 11: offline model"
    check_gpus "$out/offline"
    if [ "$prefix_pieces" != 0 ]; then
        simulst train tokens "$dirs/dump/train/text.tc.$target" "$dirs/dump/train/text.lc.rm.$source" \
            --out "$prefix_tokens" --size "$prefix_pieces" --kind bpe $redo
    fi
    # shellcheck disable=SC2086
    OMP_NUM_THREADS=$(nproc) simulst train espnet --config "$offline_config" $texts --stats "$own/stats" \
        --out "$out/offline" $redo $machines -- $full_context_options $offline_options
    simulst train average "$out/offline" --data "$dirs/dev" --text "tc.$target" --source-lang "$source" \
        --target-lang "$target" --counts "$counts" $redo
fi

if runs 12; then
    for split in train dev; do
        echo "== stage 12: prefix pairs of $split"
        # shellcheck disable=SC2086,SC2046
        OMP_NUM_THREADS=1 simulst prefix extract --data "$dirs/$split" --model "$out/offline" $model \
            --out "$prefix/$split" --tau "$tau" --beam "$prefix_beam" --jobs "$jobs" $($open_end && echo --open-end) \
            --limit "$([ $split = train ] && echo "$prefix_limit" || echo 0)" \
            ${scheduler:+--scheduler "$scheduler"} $($slurm && echo --slurm) $redo
    done
fi

if runs 13; then
    for ratio in $ratios; do
        name=$(name_of "$ratio")
        echo "== stage 13: fine-tuning on prefix pairs, $name"
        check_gpus "$prefix/$name"
        for split in train dev; do
            # shellcheck disable=SC2046
            simulst prefix pairs --data "$dirs/$split" --prefixes "$prefix/$split/prefixes.jsonl" \
                --target-lang "$target" --out "$prefix/pairs/$name/$split" --tokens "$prefix_tokens" \
                $([ "$ratio" = none ] || echo --max-ratio "$ratio") $($with_whole && echo --whole) $redo
            simulst data dump --data "$prefix/pairs/$name/$split" --out "$prefix/pairs/$name/dump/$split" \
                --texts "tc.$target" $redo
        done
        # shellcheck disable=SC2086
        OMP_NUM_THREADS=$(nproc) simulst train espnet --config "$prefix_config" --text "tc.$target" \
            --train "$prefix/pairs/$name/dump/train" --valid "$prefix/pairs/$name/dump/dev" --tokens "$prefix_tokens" \
            --source-tokens "$prefix_source_tokens" --stats "$own/stats" --model "$out/offline/chosen.pth" \
            --out "$prefix/$name" $redo $machines -- $full_context_options $prefix_options
    done
    for name in $wait_names; do
        echo "== stage 13: training for wait-k, $name"
        check_gpus "$prefix/$name"
        parse_name "$name"
        # shellcheck disable=SC2086,SC2046
        OMP_NUM_THREADS=$(nproc) simulst train espnet --config "$wait_config" $texts --wait-k "$k" \
            --unit-ms "$wait_unit" --writes "$wait_writes" \
            $([ "$encoder" = bidirectional ] || echo --unidirectional) --stats "$own/stats" \
            --model "$out/offline/chosen.pth" --out "$prefix/$name" $redo $machines -- $full_context_options $wait_options
    done
fi

if runs 14; then
    echo "== stage 14: boundary predictor"
    # shellcheck disable=SC2086
    train_alone simulst prefix predictor --out "$prefix/predictor" \
        --data "$dirs/train" --prefixes "$prefix/train/prefixes.jsonl" \
        --valid-data "$dirs/dev" --valid-prefixes "$prefix/dev/prefixes.jsonl" $predictor_model $predictor_options $redo
fi

# Prints a sweep of the boundary predictor for the model with the name $1.
boundaries() {
    [ -n "$thresholds" ] || return 0
    for unit in $units; do
        echo "- read:"
        for threshold in $thresholds; do
            echo "    - {type: boundary, threshold: $threshold, frames: $unit, name: $1, predictor: $prefix/predictor/predictor.pth}"
        done
        echo "  commit: {type: all, last_word: true}"
        echo "  search: $prefix_search"
    done
}

if runs 15; then
    if ! [ -d "$prefix" ]; then
        echo "error: $prefix: no such folder; run stages 11 to 14 first" >&2
        exit 1
    fi
    prefix_search="{type: joint_beam, ctc_weight: 0.0, beam: $prefix_beam}"
    {
        echo "- read: {type: offline}"
        echo "  commit: {type: all}"
        echo "  search: $prefix_search"
        if [ -n "$waits" ]; then
            echo "- read:"
            for k in $waits; do echo "    - {type: test_time_wait_k, k: $k, unit_ms: $wait_unit}"; done
            echo "  stop: {type: max_words, n: 1}"
            echo "  commit: {type: all, whole_words: true}"
            echo "  search: $prefix_search"
        fi
        if [ -n "$trained_waits" ]; then # by tokens, as the models that are trained for wait-k
            echo "- read:"
            for k in $trained_waits; do echo "    - {type: test_time_wait_k, k: $k, unit_ms: $wait_unit}"; done
            echo "  stop: {type: max_tokens, n: $wait_writes}"
            echo "  commit: {type: all}"
            echo "  search: $prefix_search"
        fi
        boundaries offline
    } > "$prefix/offline.yaml"
    for name in $names; do
        {
            echo "- read: {type: offline, name: $name}"
            echo "  commit: {type: all}"
            echo "  search: $prefix_search"
            boundaries "$name"
        } > "$prefix/$name.yaml"
    done
    for name in $wait_names; do
        parse_name "$name"
        {
            echo "- read: {type: wait_k, k: $k, unit_ms: $wait_unit, writes: $wait_writes, name: $encoder}"
            echo "  stop: {type: max_tokens, n: $wait_writes}"
            echo "  commit: {type: all}"
            echo "  search: $prefix_search"
        } > "$prefix/$name.yaml"
    done
    for split in $prefix_tests; do
        for name in offline $names $wait_names; do
            echo "== stage 15: decode $split by $name"
            folder=$prefix/$name
            checkpoint=valid.acc.best.pth
            if [ "$name" = offline ]; then folder=$out/offline checkpoint=chosen.pth; fi
            decode "$pairs" "$split" "$folder" "$prefix/$name.yaml" "$prefix/decode/$split" \
                --model-option checkpoint=$checkpoint
        done
    done
fi

if runs 16; then
    echo "== stage 16: scores, curve, tables and findings of prefix alignment"
    name=${variant:+$variant-}$pairs
    first=${prefix_tests%% *}
    for split in $prefix_tests; do simulst runs score --target-lang "$target" "$prefix/decode/$split"; done
    choose_pages PREFIX.md
    write_curve_and_tables "$name-prefix" "$prefix/decode" "$prefix/$pairs-prefix" "$recipe $pairs" \
        "$prefix_tests" "$command --stage 11 --stop-stage 16"
    for page in "${pages[@]}"; do
        python $local/write_prefix_tables.py --page "$page" --section "$name" --command "$command --stage 11 --stop-stage 16" \
            --pairs "$prefix/pairs" --filters "$names" --predictor "$prefix/predictor"
    done
    write_findings "$name-prefix" PREFIX.md "${prefix#"$exp"/}/decode/$first" "$command --stage 11 --stop-stage 16" "$prefix_findings"
fi

if runs 18; then
    echo "== stage 18: the offline model of stage 11 by BWBS, IBWBS and the CTC policy"
    name=${variant:+$variant-}$pairs-full-context
    folder=$out/full-context
    for split in $tests; do
        decode "$pairs" "$split" "$out/offline" ../../conf/decode/sweep_full_context.yaml "$folder/$split" \
            --model-option checkpoint=chosen.pth
        simulst runs score --target-lang "$target" "$folder/$split"
    done
    choose_pages README.md
    write_curve_and_tables "$name" "$folder" "$out/$pairs-full-context" "$recipe $pairs, full context" "$tests" \
        "$command --stage 18 --stop-stage 18"
    # These need no other seeds.
    seeds="" write_findings "$name" README.md "${folder#"$exp"/}/${tests%% *}" \
        "$command --stage 18 --stop-stage 18" "$full_context_findings"
fi
