# MuST-C, which this recipe's scripts share.
option root path downloads "where MuST-C was unpacked: DIR/en-de/data/train/{txt,wav}, ..."
option pairs text en-de "language pairs, such as \"en-de\" or \"en-de en-ja\"; several give one multilingual model"
option version "1|2|3|any" any "stop if the files are of another version; 2 and 3 look the same" more
option on_error "drop|stop" drop "what to do at faulty segments; those that are dropped are counted" more
option others text "" "folders of other corpora's data, each with PAIR/train in it, to train on, too (docs/data.md)" more
stage data "data directories"

stage_data() {
    step "data directories"
    python ../../local/prepare_data.py must-c --root "$root" --pairs "$pairs" --splits "train dev $tests" --out "$data" --on-error "$on_error" \
        $([ "$version" = any ] || echo --version "$version")
}
