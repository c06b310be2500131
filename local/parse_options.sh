# The recipes source this file after their options. `--some-option value` sets the variable some_option, which must already
# have a default. An option whose default is true or false needs no value. One whose default is a whole number takes such a
# number only, unless it is among those that take several numbers. `--help` prints the head of the recipe and of the files
# *_options.sh that it sources. In these heads, [$name] is replaced by the default of the variable name. If defaults depend on
# other options, a recipe has a function `dependent_defaults`, which calls `default NAME VALUE`. It runs after the options are
# parsed.
#
# This file sets `shown` to the options that were given and that change results. Recipes write them under the results.
known=" $(compgen -v | tr '\n' ' ')"
where_and_how=" stage stop_stage publish force jobs scheduler slurm ngpu num_nodes hosts data exp downloads models seeds b_models "
several=" counts ratios speeds thresholds trained_waits units waits "
given=" "
shown=
default() { [[ $given == *" $1 "* ]] || printf -v "$1" %s "$2"; }

print_help() {
    local file line name
    for file in "${0##*/}" $(sed -n 's/^\. \(.*_options\.sh\)\( .*\)\{0,1\}$/\1/p' "${0##*/}"); do
        [ "$file" != "${BASH_SOURCE[0]}" ] || continue
        sed -n '2,/^[^#]/{/^#/{s/^# \{0,1\}//;p}}' "$file" | while IFS= read -r line; do
            while [[ $line =~ \[\$([a-z_]+)\] ]]; do
                name=${BASH_REMATCH[1]}
                line=${line/"[\$$name]"/"[${!name}]"}
            done
            printf '%s\n' "$line"
        done
    done
}

help=false
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help)
            help=true
            shift
            ;;
        --*)
            name=${1#--}
            name=${name//-/_}
            # In capitals are the environment's, such as PATH.
            if ! [[ $name =~ ^[a-z][a-z0-9_]*$ ]] || [[ $known != *" $name "* ]]; then
                echo "error: unknown option $1; see $0 --help" >&2
                exit 1
            fi
            given+="$name "
            if [ "${!name}" = false ] || [ "${!name}" = true ]; then
                case ${2:-} in
                    true | false) typed=("$1" "$2") ;;
                    *) typed=("$1") ;;
                esac
                printf -v "$name" %s "${typed[1]:-true}"
            else
                if [ $# -lt 2 ]; then
                    echo "error: $1 needs a value" >&2
                    exit 1
                fi
                if [[ ${!name} =~ ^[0-9]+$ && $name != *stage && $several != *" $name "* ]] &&
                    ! [[ $2 =~ ^(0|[1-9][0-9]{0,8})$ ]]; then
                    echo "error: $1 '$2' is not a whole number; see $0 --help" >&2
                    exit 1
                fi
                typed=("$1" "$2")
                printf -v "$name" %s "$2"
            fi
            if [[ $where_and_how != *" $name "* ]]; then
                for word in "${typed[@]}"; do
                    [[ $word =~ ^[A-Za-z0-9_./:,+=-]+$ ]] || word=\"$word\"
                    shown+=" $word"
                done
            fi
            shift ${#typed[@]}
            ;;
        *)
            echo "error: unexpected argument '$1'; see $0 --help" >&2
            exit 1
            ;;
    esac
done
if declare -F dependent_defaults >/dev/null; then dependent_defaults; fi
if $help; then
    print_help
    exit 0
fi

for name in stage stop_stage; do
    if ! [[ ${!name} =~ ^[0-9]{1,3}$ ]]; then
        echo "error: --${name//_/-} '${!name}' is no stage's number; see $0 --help" >&2
        exit 1
    fi
done

# These are parts of longer texts, which are divided at blanks.
for name in $(compgen -v | grep -E '^(data|exp|asr_model|guide|(.*_)?config)$'); do
    if [[ ${!name} == *[[:space:]]* ]]; then
        echo "error: --${name//_/-} '${!name}': give a path without blanks" >&2
        exit 1
    fi
done

# Whether a stage is among those asked for.
ran=false
runs() { [ "$stage" -le "$1" ] && [ "$stop_stage" -ge "$1" ] && ran=true; }

# If none of the recipe's stages was asked for, exit with an error, as silence would look like success.
finish() {
    if [ $? = 0 ] && ! $ran; then
        echo "error: there is no stage from $stage to $stop_stage in this recipe; see $0 --help" >&2
        exit 1
    fi
}
trap finish EXIT
