# Where this corpus is, and how its columns are called (docs/data.md): edit these lines. Scripts of other systems, such as
# egs/must_c/paper_d.sh, work beside this file as they are.
option tables text "train=downloads/train.tsv dev=downloads/dev.tsv test=downloads/test.tsv" \
    "the table of each split: train, dev, and all of --tests"
option audio path downloads "folder that the tables' file names begin in"
option tsv_options text "" "options of simulst data tsv, such as \"--speaker-column client_id\""
stage data "data directories"
pairs={{source}}-{{target}}

corpus_defaults() { default tests "test"; }

stage_data() {
    step "data directories"
    simulst data tsv $tables --pair "$pairs" --audio "$audio" --out "$data" $tsv_options
}
