# Stages 21 to 23, sourced after st_stages.sh: paper A's system (CUNI-KIT at IWSLT 2022). An offline model of Hugging
# Face's is fine-tuned, or trained from scratch, on all of $pairs at once, and decoded under the paper's strategies.
# Besides its other options, the recipe sets
#   a_config, a_model       how to train; the model to begin with (empty: the configuration describes a new one)
#   a_decodings, a_tests    decoding configurations; splits to decode
#   a_prefixes              the filter of stage 13 whose prefix pairs are training data, too; may be empty
#   a_findings              files of findings
a_command="$command --stage 21 --stop-stage 23"
a_out=$out/paper_a${a_prefixes:+-$a_prefixes}

if runs 21; then
    echo "== stage 21: offline model of Hugging Face's"
    parts=
    for pair in $pairs; do
        parts+=" --pair $pair --train $data/$pair/train --valid $data/$pair/dev"
        if [ -n "$a_prefixes" ]; then
            folder=${out%/*}/$pair/prefix/pairs/$a_prefixes
            parts+=" --pair $pair --train $folder/train --valid $folder/dev"
        fi
    done
    # shellcheck disable=SC2086
    train_alone simulst train finetune --config "$a_config" ${a_model:+--model "$a_model"} $parts \
        --out "$a_out" $redo
fi

if runs 22; then
    for pair in $pairs; do
        for split in $a_tests; do
            echo "== stage 22: decode $pair $split"
            decode "$pair" "$split" "$a_out/model" "$a_decodings" "$a_out/decode/$pair/$split"
        done
    done
fi

if runs 23; then
    echo "== stage 23: scores, curve, tables and findings of paper A's system"
    choose_pages PAPER_A.md
    for pair in $pairs; do
        name=$(pair_section "$pair")-a${a_prefixes:+-$a_prefixes}
        for split in $a_tests; do simulst runs score --target-lang "${pair#*-}" "$a_out/decode/$pair/$split"; done
        write_curve_and_tables "$name" "$a_out/decode/$pair" "$a_out/$pair" "$recipe $pair" "$a_tests" "$a_command"
        write_findings "$name" PAPER_A.md "${a_out#"$exp"/}/decode/$pair/${a_tests%% *}" "$a_command" "$a_findings"
        # Compare one model of several pairs with a model of this pair alone, if that has been decoded.
        split=${a_tests%% *}
        single=${out%/*}/$pair/${a_out##*/}/decode/$pair/$split/offline
        if [ "$target" = multi ] && [ -f "$single/scores.json" ]; then
            both=$a_out/decode/$pair/$split/offline
            for page in "${pages[@]}"; do
                python $local/write_results.py --page "$page" --section "$name-single-$split" --command "$a_command" \
                    --test "$single" "$both" "$single" "$both"
            done
        fi
    done
fi
