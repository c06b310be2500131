# What the recipes' scripts share: their options (local/options.sh), where and how they run, decoding, scores and results.
. ../../local/options.sh
recipe=$(basename "$PWD") # a folder of egs/ and of results/
variant=                  # of the corpus, such as talk: begins the names of results
system_name=              # of the model: the next part of these names

# How many processors may be used: OMP_NUM_THREADS, or those of this process, or what its container's quota is worth. Without
# the environment, which --help does not need: all.
cores() { PATH=../../.venv/bin:$PATH command python -c "from simulst.machine.threads import available_cores; print(available_cores())" 2> /dev/null || getconf _NPROCESSORS_ONLN; }

common_options() { # declared after a script's own, as --help shows them in this order
    option data path data "folder for data" where
    option exp path exp "folder for experiments" where
    option publish flag false "also write the results into results/$recipe and the pages, which git tracks" where
    option jobs count "$(unset OMP_NUM_THREADS && cores)" "processes that decode, one for each core" where # that variable is about threads
    option scheduler text "" "address of a running Dask scheduler to decode on instead" more where
    option slurm flag false "decode in --jobs jobs of a Slurm cluster" more where
    option utterances count 2 "best, worst and most delayed utterances in reports" more where
    option metrics text "" "metrics of your own, such as my_module:TER (docs/metrics.md)" more
    option force flag false "run complete stages again" where
}

decoding_options() { # $1: the splits; $2: the sweep; $3: files of findings
    option tests text "$1" "splits to decode"
    option decodings path "$2" "decoding configurations"
    option limits text "" "options that decode only a part of the splits, such as \"--limit 100\""
    option findings text "$3" "files of the papers' findings to test (local/findings/README.md)" more
    option seeds text "" "folders of experiments (--exp) of trainings with other seeds, for findings about training" more
}

# Decodes the data directory $1, of the pair $2, by the model $3 under the configurations $4 into the folder $5. $6...: further
# options of `simulst sweep`.
decode() {
    OMP_NUM_THREADS=1 simulst sweep --data "$1" --source-lang "${2%%-*}" --target-lang "${2#*-}" --model "$3" --decodings "$4" \
        --out "$5" --jobs "$jobs" $redo ${scheduler:+--scheduler "$scheduler"} $($slurm && echo --slurm) ${limits:-} "${@:6}"
}

# Scores the runs in the folder $2 again, from their logs alone. $1: the pair; $3...: further options.
score() {
    local metric own=()
    for metric in ${metrics:-}; do own+=(--metric "$metric"); done
    simulst runs score --target-lang "${1#*-}" "${own[@]}" "${@:3}" "$2"
}

# Writes the section $1 of the results from the runs in the folder $2. $3...: further options of `local/results.py write`.
write_results() {
    python ../../local/results.py write "${@:2}" --recipe "$recipe" --section "$1" --out "$exp" --command "$command" \
        $($publish && echo --publish ../..)
}

# Stages 8 to 10 of all scripts. What sources this file sets `pairs`, and defines
#   decode_split PAIR SPLIT   decodes it, by `decode`
#   runs_of PAIR SPLIT        prints the folder of its runs
#   section_of PAIR SPLIT     prints the name of its section of results
#   title_of PAIR SPLIT       prints the title of its curve
#   say_more PAIR SPLIT       adds to `more` further options of `local/results.py write`, such as a curve and findings
for_each_split() { # calls $1 with each pair and split
    local pair split
    for pair in $pairs; do
        for split in $tests; do
            step "${system_name:+$system_name, }$pair $split"
            "$1" "$pair" "$split"
        done
    done
}

score_split() { score "$1" "$(runs_of "$1" "$2")"; }

write_split() {
    local more=(--title "$(title_of "$1" "$2")")
    say_more "$1" "$2"
    local section runs
    section=$(section_of "$1" "$2") runs=$(runs_of "$1" "$2")
    write_results "$section" "$runs" "${more[@]}"
    simulst report "$runs" --utterances "$utterances" --out "$exp/results/$section.html"
}

stage_decode() { for_each_split decode_split; }
stage_score() { for_each_split score_split; }
stage_results() { for_each_split write_split; }

title_of() { echo "$recipe $1, $2"; }

say_more() { # the first split has a curve, and the findings are tested on it
    if [ "$2" = "${tests%% *}" ]; then
        test_findings "$(runs_of "$1" "$2")"
        more+=(--curve "${tested[@]}")
    fi
}

# Sets `tested` to options that test --findings on the runs in the folder $1, which lies in the folder of experiments, and on
# those of the other --seeds.
test_findings() {
    local folder file
    tested=()
    if [ -z "$findings" ]; then return; fi
    for file in $findings; do tested+=(--findings "$file"); done
    for folder in "$exp" $seeds; do tested+=(--training "$folder/${1#"$exp"/}"); done
}

# Ends the script unless the file $1 exists, which the command $2 makes.
need() { [ -e "$1" ] || fail "$1: missing; $2 makes it"; }

# Runs a training outside ESPnet, which uses a GPU if it sees one. $@: the command.
train_alone() {
    if [ "$ngpu" = 0 ]; then local -x CUDA_VISIBLE_DEVICES=; fi
    OMP_NUM_THREADS=$(cores) "$@"
}

# Ends the script early if there is no GPU for the training in the folder $1. Machines that srun or ssh reach are not looked at,
# and a complete training needs no GPU.
check_gpus() {
    local have
    if [ "$ngpu" = 0 ] || [ "$num_nodes" != 1 ] || [ -n "$hosts" ]; then return; fi
    if [ -z "$redo" ] && grep -qs '"complete": true' "$1/simulst.json"; then return; fi
    have=$(python -c "import torch; print(torch.cuda.device_count())")
    [ "$have" != 0 ] || fail "--ngpu $ngpu: no GPU here; give --ngpu 0 to train on the CPU"
}
