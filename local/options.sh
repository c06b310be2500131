# Options and stages of the recipes' scripts. A script sources this file first, in its recipe's folder, declares what it has,
# and ends with `begin "$@"` and `run_stages`:
#
#   option NAME KIND DEFAULT HELP [more] [where]   --name; the variable NAME has its value, in NAME dashes are underscores
#       KIND: flag; count, a whole number; path, without blanks; text; or a choice, such as small|large
#       more: only `--help all` shows it; where: it says where or how to run, and changes no results
#   stage NAME TEXT      the function stage_NAME does one of the ten stages
#   default NAME VALUE   another default. Without such an option, it does nothing: what scripts share may set the defaults of all.
# It may have these functions, which `begin` calls:
#   corpus_defaults, dependent_defaults   once the options are read: they call `default` where defaults depend on other options
#   check_options        before it is known which stages run: `drop_stage NAME SENTENCE` takes one away
#   get_ready            before the first stage
readonly stage_names=(data audio tokens stats pretrain train choose decode score results)
declare -A kind_of help_of marks_of stage_text absent
options=()
given=" "
shown= # the options that were given and that change results; results name them

fail() {
    echo "error: $*" >&2
    exit 1
}

option() {
    options+=("$1")
    kind_of[$1]=$2 help_of[$1]=$4 marks_of[$1]=" ${*:5} "
    printf -v "$1" %s "$3"
}

default() { [[ -z ${kind_of[$1]:-} || $given == *" $1 "* ]] || printf -v "$1" %s "$2"; }

stage() { stage_text[$1]=$2; }
drop_stage() {
    unset "stage_text[$1]"
    absent[$1]=$2
}

# Announces a step of the present stage.
step() { echo "== stage $present: $*"; }

# The script's file in the recipe's folder, and the name by which ./run.sh knows it, such as mini/paper_d.
file=$(basename "$0")
if [[ $0 = */extras/* ]]; then file=extras/$file; fi
script=$(basename "$PWD")/${file%.sh}
script=${script%/run}

option stage text "" "begin with this stage, a number or a name" where
option stop_stage text "" "end with this stage" where
option only text "" "run this stage only, in place of both" where

list_stages() { # the stages of this script, in one line
    local i found=()
    for i in "${!stage_names[@]}"; do
        if [ -n "${stage_text[${stage_names[i]}]:-}" ]; then found+=("$((i + 1)) ${stage_names[i]}"); fi
    done
    printf -v found '%s, ' "${found[@]}"
    echo "${found%, }"
}

print_help() { # $1: all, or nothing
    local name value text i more=
    sed -n '2,/^[^#]/{/^#/{s/^# \{0,1\}//;p}}' "$file"
    printf '\n%s\n' "Stages of ./run.sh --recipe $script:"
    for i in "${!stage_names[@]}"; do
        name=${stage_names[i]}
        if [ -n "${stage_text[$name]:-}" ]; then printf '  %2d %-9s %s\n' $((i + 1)) "$name" "${stage_text[$name]}"; fi
    done
    echo "Options [and their defaults]:"
    for name in "${options[@]}"; do
        if [[ ${marks_of[$name]} == *" more "* && ${1:-} != all ]]; then
            more+=" --${name//_/-}"
            continue
        fi
        value=${!name}
        text=${help_of[$name]}
        if [ -n "$value" ]; then text+=" [$value]"; fi
        case ${kind_of[$name]} in
            flag) value= ;;
            count) value=N ;;
            path) value=PATH ;;
            text) value="..." ;;
            *) value=${kind_of[$name]} ;;
        esac
        printf '  %-31s' "--${name//_/-} $value"
        fold -s -w 88 <<< "$text" | sed '2,$s/^/                                 /; s/ $//'
    done
    if [ -n "$more" ]; then echo "--help all shows $(wc -w <<< "$more") more."; fi
}

read_options() {
    local name typed word
    while [ $# -gt 0 ]; do
        name=${1#--} name=${name//-/_}
        typed=("$1")
        if [[ $1 = -h || $1 = --help ]]; then
            help=usual
            if [ "${2:-}" = all ]; then help=all typed+=(all); fi
        elif [[ $1 != --* ]]; then
            fail "unexpected argument '$1'; see ./run.sh --recipe $script --help"
        elif [[ -z $name || $name = *[^a-z0-9_]* ]]; then
            fail "unknown option $1; see ./run.sh --recipe $script --help all"
        elif [ -z "${kind_of[$name]:-}" ]; then
            fail "unknown option $1; see ./run.sh --recipe $script --help all"
        else
            given+="$name "
            if [ "${kind_of[$name]}" != flag ]; then
                [ $# -ge 2 ] || fail "$1 needs a value"
                typed+=("$2")
            elif [[ ${2:-} =~ ^(true|false)$ ]]; then
                typed+=("$2")
            fi
            printf -v "$name" %s "${typed[1]-true}"
            check_kind "$name"
            if [[ ${marks_of[$name]} != *" where "* ]]; then
                for word in "${typed[@]}"; do
                    [[ $word =~ ^[A-Za-z0-9_./:,+=-]+$ ]] || word=\"$word\"
                    shown+=" $word"
                done
            fi
        fi
        shift ${#typed[@]}
    done
}

check_kind() {
    local value=${!1} kind=${kind_of[$1]} option=--${1//_/-}
    case $kind in
        flag | text) ;;
        count) [[ $value =~ ^(0|[1-9][0-9]{0,8})$ ]] || fail "$option '$value' is not a whole number; see ./run.sh --recipe $script --help" ;;
        path) [[ $value != *[[:space:]]* ]] || fail "$option '$value': give a path without blanks" ;;
        *) [[ -n $value && "|$kind|" == *"|$value|"* ]] || fail "$option '$value': give ${kind//|/ or }" ;;
    esac
}

# Prints the number of the stage $2, which the option $1 names.
number_of() {
    local i
    for i in "${!stage_names[@]}"; do
        if [ "$2" = $((i + 1)) ] || [ "$2" = "${stage_names[i]}" ]; then
            if [ -n "${stage_text[${stage_names[i]}]:-}" ]; then
                echo $((i + 1))
                return
            fi
            fail "$1 $2: ${absent[${stage_names[i]}]:-$script needs no stage $((i + 1)), ${stage_names[i]}; it has $(list_stages)}"
        fi
    done
    fail "$1 '$2': there is no such stage; $script has $(list_stages)"
}

call_if_there() { if declare -F "$1" > /dev/null; then "$1"; fi; }

begin() {
    help=
    read_options "$@"
    call_if_there corpus_defaults
    call_if_there dependent_defaults
    if [ -n "$help" ]; then
        print_help "$help"
        exit 0
    fi
    call_if_there check_options
    local had=() i
    for i in "${!stage_names[@]}"; do
        if [ -n "${stage_text[${stage_names[i]}]:-}" ]; then had+=($((i + 1))); fi
    done
    first_stage=${had[0]} last_stage=${had[-1]}
    if [[ $given == *" only "* ]]; then
        [[ $given != *" stage "* && $given != *" stop_stage "* ]] || fail "--only stands alone, without --stage and --stop-stage"
        first_stage=$(number_of --only "$only") last_stage=$first_stage
    fi
    if [[ $given == *" stage "* ]]; then first_stage=$(number_of --stage "$stage"); fi
    if [[ $given == *" stop_stage "* ]]; then last_stage=$(number_of --stop-stage "$stop_stage"); fi
    [ "$first_stage" -le "$last_stage" ] ||
        fail "--stage ${stage_names[first_stage - 1]} comes after --stop-stage ${stage_names[last_stage - 1]}"
    export PATH=$PWD/../../.venv/bin:$PATH
    command="./run.sh --recipe $script$shown"
    ${force:-false} && redo=--force || redo=
    call_if_there get_ready
}

# Whether the stage named $1 is among those asked for.
runs() {
    local i
    for ((i = first_stage; i <= last_stage; i++)); do
        if [ "$1" = "${stage_names[i - 1]}" ] && [ -n "${stage_text[$1]:-}" ]; then return 0; fi
    done
    return 1
}

# Notes the calls of `simulst` in all stages that will run, and checks them (rehearse.py): options and files of the
# last stage are looked at before the first one. Nothing is written. What a stage does beside calling programs asks `$rehearsing`.
rehearsing=false
rehearse_stages() (
    note() { printf '%s\037' "$present" "$@" >&3 && printf '\036' >&3; }
    simulst() { note simulst "$@"; }
    python() { note python "$@"; }
    mkdir() { :; }
    ln() { :; }
    tee() { :; }
    rehearsing=true
    each_stage 3>&1 > /dev/null
)

run_stages() {
    local calls
    calls=$(rehearse_stages)
    python ../../local/rehearse.py <<< "$calls" > /dev/null
    each_stage
}

each_stage() {
    local number
    for ((number = first_stage; number <= last_stage; number++)); do
        present="$number, ${stage_names[number - 1]}"
        if [ -n "${stage_text[${stage_names[number - 1]}]:-}" ]; then "stage_${stage_names[number - 1]}"; fi
    done
}
