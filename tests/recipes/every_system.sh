#!/usr/bin/env bash
# All of the papers' systems in whole, by the scripts of egs/must_c and egs/mini, on a corpus of a few sentences and tiny models.
# It takes some minutes, so that no test does it:
#   tests/recipes/every_system.sh FOLDER [SYSTEM...]
# Systems: c c_ja a b d d_ja model_a wavlm, and mini's full_context with its guided runs. Each begins with what is in FOLDER, which may be there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ $# -ge 1 ] || {
    sed -n '2,5s/^# //p' "$0"
    exit 1
}
folder=$(mkdir -p "$1" && cd "$1" && pwd)
systems=${*:2}
systems=${systems:-c c_ja a b d d_ja model_a wavlm full_context}
export OMP_NUM_THREADS=1 PATH=$PWD/.venv/bin:$PATH

sizes="--encoder_conf num_blocks=2 --encoder_conf output_size=32 --encoder_conf linear_units=64 --encoder_conf attention_heads=4"
sizes+=" --decoder_conf linear_units=64 --decoder_conf num_blocks=1 --decoder_conf attention_heads=4"
short="--max_epoch 2 --batch_type numel --batch_bins 1000000 --accum_grad 1 --num_workers 0 --use_matplotlib false"
recurrent="--encoder_conf num_layers=1 --encoder_conf hidden_size=16 --encoder_conf output_size=16 --decoder_conf num_layers=1"
recurrent+=" --decoder_conf hidden_size=16"
common=(--limits "--limit 2" --jobs 1)

if [ ! -d "$folder/corpus/en-ja" ]; then
    (cd egs/mini && python local/make_mini.py --out "$folder/corpus" --pairs "en-de en-ja" --jobs 1 --train 40 --dev 4 \
        --tst-common 3 --tst-he 2)
fi
# A model of Hugging Face's in small: $1, its configuration; $2, the folder of the smaller one.
shrink() {
    python - "$1" "$2" << 'END'
import sys, yaml
conf = yaml.safe_load(open(sys.argv[1]))
conf.update(epochs=1, updates=3, batch_seconds=20, accumulate=1, warmup=1, average=[1], dtype="float32")
conf.pop("settings", None)
encoder = conf["new_model"]["encoder"]
kinds = {"facebook/wav2vec2-large-lv60": "wav2vec2", "microsoft/wavlm-large": "wavlm"}
kind = encoder.get("model_type") or kinds[encoder["name"]]
conf["new_model"] = {
    "encoder": {
        "model_type": kind, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
        "conv_dim": [16] * 7, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
        "feat_extract_norm": "layer", "do_stable_layer_norm": True, "apply_spec_augment": False, "layerdrop": 0.0,
    },
    "decoder": {
        "model_type": "mbart", "d_model": 32, "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 64,
        "max_position_embeddings": 100,
    },
    "pieces": 400,
}
yaml.safe_dump(conf, open(sys.argv[2], "w"))
END
}
must_c() { # $1: the script; $2: pairs; $3...: options
    echo "=== must_c$1, $2"
    "egs/must_c$1" --root "$folder/corpus" --pairs "$2" --data "$folder/data" --exp "$folder/exp" --ngpu 0 "${common[@]}" "${@:3}"
}
mini() { # $1: the script; $2...: options
    echo "=== mini$1"
    "egs/mini$1" --train 40 --dev 4 --test 3 --he 2 --tests tst-COMMON --data "$folder/mini/data" --exp "$folder/mini/exp" \
        "${common[@]}" "${@:2}"
}
espnet=(--pieces 100 --source-pieces 80 --model-options "$sizes")
for system in $systems; do
    case $system in
        c) must_c /run.sh en-de "${espnet[@]}" --train-options "$short" --asr-options "$short" ;;
        c_ja) must_c /run.sh en-ja "${espnet[@]}" --pieces 300 --train-options "$short" --asr-options "$short" ;;
        a)
            shrink conf/train/paper_a_st.yaml "$folder/a.yaml"
            must_c /paper_a.sh "en-de en-ja" --config "$folder/a.yaml" ;;
        b)
            must_c /paper_b.sh en-de --tokens "char bpe100" --source-pieces 80 --model-options "$recurrent" \
                --train-options "$short" --asr-options "$short" ;;
        d | d_ja)
            waits=1 pair=en-de pieces=300
            if [ $system = d_ja ]; then waits=5 pair=en-ja pieces=500; fi
            must_c /paper_d.sh $pair --prefix-pieces $pieces --model-options "$sizes" --asr-options "$short" --offline-options "$short" \
                --prefix-options "$short" --wait-options "$short" --ratios "none 5000" --trained-waits $waits --prefix-beam 2 \
                --predictor-model "--mels 8 --channels 2 --embedding 4 --hidden 4 --max-epochs 1" --pieces 300 --source-pieces 80 ;;
        model_a) must_c /extras/model_a.sh en-de "${espnet[@]}" --train-options "$short" --asr-options "$short" ;;
        wavlm)
            shrink conf/train/paper_c_offline.yaml "$folder/wavlm.yaml"
            must_c /extras/wavlm.sh "en-de en-ja" --config "$folder/wavlm.yaml" ;;
        full_context)
            mini /run.sh "${espnet[@]}" --train-options "$short"
            mini /extras/full_context.sh "${espnet[@]}" --offline-options "$short"
            mini /extras/guided.sh ;;
        *) echo "unknown system $system" >&2 && exit 1 ;;
    esac
done
