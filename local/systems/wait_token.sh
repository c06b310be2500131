# A model that learns when to write: paper C's blockwise model, fine-tuned on chunk-aligned data with wait tokens (docs/learn.md).
option lags text "0 1 2 3" "lags that the model learns, in chunks"
option first_ms count 1680 "first chunk, in ms: what the encoder needs for its first block" more
option chunk_ms count 640 "the other chunks, in ms: a multiple of what a block of the encoder adds" more
option wait_config path ../../conf/train/mini_wait_token.yaml "ESPnet's configuration for fine-tuning"
option wait_options text "" "options for ESPnet in fine-tuning" more
option wait_decodings path ../../conf/decode/wait_token.yaml "decoding configurations of the fine-tuned model; --decodings: of the one before"
option divergence flag false "also train a head that foresees divergence; decode by it, and by entropy"
option divergence_decodings path ../../conf/decode/divergence.yaml "its decoding configurations" more
option reinforce flag false "then train it on lag and quality"
option reinforce_config path ../../conf/train/mini_reinforce.yaml "its configuration" more
. ../../local/systems/paper_c.sh

stage pretrain "recognition (--asr), the model to begin with, and the average of its checkpoints"
stage train "when words are spoken, chunk-aligned data, and fine-tuning on it"

system_name=wait_token
decoded=wait_token/decode

check_options() {
    one_pair
    drop_stage choose "stage pretrain chooses the checkpoint that fine-tuning begins with"
}

get_ready() {
    findings= # paper C's are tested on its own runs
    set_places "$system"
    encoder=$asr_model wait=$out/wait_token
    if [ -z "$asr_model" ] && $asr; then encoder=$out/asr/valid.acc.best.pth; fi
    check_asr_model
    if runs pretrain; then check_gpus "$out/st"; fi
    if runs train; then check_gpus "$wait/model"; fi
}

stage_pretrain() {
    if $asr && [ -z "$asr_model" ]; then train_recognition; fi
    train_translation "$encoder"
    choose_checkpoint "$out/st" $([ "$search_weights" = dev ] || echo "--ctc-weight 0.3")
}

stage_train() {
    local split lag symbols=(--symbol "<wait>")
    if $divergence; then
        step "a head that foresees divergence, ${out#"$exp"/}/st"
        train_alone simulst train divergence "$out/st" --checkpoint chosen.pth --data "$dirs/train" --target-lang "$target" \
            --first-ms "$first_ms" --ms "$chunk_ms" $redo
    fi
    for lag in $lags; do symbols+=(--symbol "<lag$lag>"); done
    for split in train dev; do
        step "chunk-aligned data, $split"
        if [ -n "$redo" ] || [ ! "$wait/$split.ctm" -nt "$out/st/chosen.pth" ]; then
            mkdir -p "$wait"
            simulst prefix times --data "$dirs/$split" --model "$out/st" --model-option checkpoint=chosen.pth \
                --target-lang "$target" --out "$wait/$split.ctm"
        fi
        simulst prefix chunks --data "$dirs/$split" --times "$wait/$split.ctm" --target-lang "$target" \
            --first-ms "$first_ms" --ms "$chunk_ms" --lags "$lags" --out "$wait/$split" $redo
        python ../../local/prepare_data.py dump --data "$wait/$split" --out "$wait/dump/$split" --texts "tc.$target" $redo
    done
    step "tokens"
    simulst train extend "$own/tokens" --model "$out/st/chosen.pth" "${symbols[@]}" --out "$wait/tokens" $redo
    step "fine-tuning, ${wait#"$exp"/}/model"
    espnet "$wait/model" "$wait_config" --first-ms "$first_ms" --chunk-ms "$chunk_ms" --text "tc.$target" \
        --train "$wait/dump/train" --valid "$wait/dump/dev" --tokens "$wait/tokens" --source-tokens "$own/source_tokens" \
        --model "$wait/tokens/begin.pth" -- $model_options $wait_options
    if $reinforce; then
        step "training on lag and quality, ${wait#"$exp"/}/reinforced"
        train_alone simulst train reinforce "$wait/model" --checkpoint valid.acc.best.pth --data "$dirs/train" \
            --config "$reinforce_config" --target-lang "$target" --out "$wait/reinforced" $redo
    fi
}

decode_split() {
    local complete='' values
    if [[ " $lags " == *" 0 "* ]]; then complete=0; fi
    values=(--set "lags=[${lags// /, }]" --set "ms=$chunk_ms" --set "first=$first_ms" --set "complete=[$complete]")
    step "$1 $2 by the model before"
    decode_espnet "$1" "$2" "$out/st" chosen.pth "$decodings"
    if $divergence; then decode_espnet "$1" "$2" "$out/st" chosen.pth "$divergence_decodings"; fi
    step "$1 $2 by the fine-tuned model"
    decode_espnet "$1" "$2" "$wait/model" valid.acc.best.pth "$wait_decodings" "${values[@]}" --set "name=''"
    if $reinforce; then
        step "$1 $2 by the model that is trained on lag and quality"
        decode_espnet "$1" "$2" "$wait/reinforced" chosen.pth "$wait_decodings" "${values[@]}" --set "name=reinforced"
    fi
}
