#!/bin/sh
# The spool in POSIX sh.  Sourced by every tool beside this directory; sources the rest of the library, one subject each.
#
# The protocol is spool/README.md; nothing is decided here.  Functions answer in variables, for a subshell costs a fork
# and `$(…)` loses newlines.  A name is taken apart into `id`, `token` and one `st_<letter>` for each stamp.
# shellcheck disable=SC2034  # the tools use what is set here
# shellcheck disable=SC3013,SC3067  # -ef and -O: dash, busybox ash and bash have them, and each saves a fork

set -u
umask 077
LC_ALL=C
export LC_ALL
unset CDPATH
tool=${0##*/} worst=0
newline='
'

# ---- saying no.  The exit statuses are those of agent-mail.

usage() { sed -n '2s/^# //p' "$0"; }
say() { printf '%s: %s\n' "$tool" "$*" >&2; }
lines_on() { IFS=$newline && set -f; } # what is expanded now falls apart at newlines, and stays what it is
lines_off() { unset IFS && set +f; }

die() { # STATUS CODE SENTENCE
    dying=$1 code=$2
    shift 2
    if [ "${sent:-}" ]; then # after its commit a message is sent, whatever fails then
        dying=74 code=durability_unknown
        set -- "message $sent was sent (do not send it again), but $*"
    fi
    say "$code: $*"
    exit "$dying"
}
# Go on with the next one, and remember the worst: the last word of a tool is `exit "$worst"`.
pass() { # STATUS CODE SENTENCE
    [ "$1" -le "$worst" ] || worst=$1
    code=$2
    shift 2
    say "$code: $*"
}
wrong() { die 64 usage "$*; $(usage)"; }
needs() { [ "$1" -ge 2 ] || wrong "$2 needs a value"; }
common() { # OPTION COUNT VALUE: what every tool takes; status 1 if it is none of that
    case $1 in
    -h | --help) usage && exit 0 ;;
    --spool) needs "$2" "$1" && spool_given=$3 ;;
    *) return 1 ;;
    esac
}

tell() { # RECEIPT of what was done: its path, or its id
    { printf '%s\n' "$1"; } 2>/dev/null || pass 74 receipt_lost "$1 was not taken: it was done, so look how it stands before you repeat it"
}

# ---- the spool

locate() { # where agent-mail looks, too
    spool=${spool_given-${AGENT_MAIL_SPOOL:-}}
    case ${XDG_STATE_HOME:-} in
    /*) home=$XDG_STATE_HOME ;;
    *) home=${HOME:-$(awk -F : -v "uid=$(id -u)" '$3 == uid { print $6; exit }' /etc/passwd 2>/dev/null)}/.local/state ;;
    esac
    case $spool in
    *"$newline"*) wrong "a path with a newline in it can't be told a line each" ;;
    '') [ -z "${spool_given+x}" ] || wrong "--spool must be an absolute path" && spool=$home/agent-mail ;;
    /*) ;;
    *) wrong "the spool must be an absolute path, not $spool" ;;
    esac
    while case $spool in ?*/) ;; *) false ;; esac do spool=${spool%/}; done
}

open_spool() { # sets durability, waiting, body_bytes
    locate
    [ ! -e "$spool" ] || [ -O "$spool" ] || die 77 wrong_uid "$spool belongs to another user"
    [ -f "$spool/spool.json" ] || die 73 not_a_spool "$spool is no spool: spool-init makes one"
    format='' durability='' waiting='' body_bytes=''
    while IFS= read -r line; do # as agent-mail writes it
        case $line in
        '  "format": '*) format=${line#*: } format=${format%,} ;;
        '  "durability": "'*) durability=${line#*: \"} durability=${durability%\"*} ;;
        '    "waiting": '*) waiting=${line#*: } waiting=${waiting%,} ;;
        '    "body_bytes": '*) body_bytes=${line#*: } body_bytes=${body_bytes%,} ;;
        esac
    done <"$spool/spool.json"
    [ "$format" ] && [ "$durability" ] && [ "$waiting" ] && [ "$body_bytes" ] || other_hand
    [ "$format" = 1 ] || die 73 newer_format "$spool has format $format, these tools know 1"
    case $waiting$body_bytes in *[!0-9]*) die 73 not_a_spool "the limits in $spool/spool.json are damaged" ;; esac
    case $durability in full | none) ;; *) die 73 not_a_spool "durability $durability is neither full nor none" ;; esac
}

other_hand() { # spool.json, written by another program
    for member in format durability limits.waiting limits.body_bytes; do
        value=$(scan "@.$member" <"$spool/spool.json") || die 73 not_a_spool "$spool/spool.json is damaged"
        case $member in
        format) format=${value:-0} ;;
        durability) durability=${value:-full} ;;
        *waiting) waiting=${value:-100000} ;;
        *) body_bytes=${value:-1048576} ;;
        esac
    done
}

is_agent() {
    case $1 in '' | broadcast | *[!a-z0-9._:-]* | [!a-z0-9]* | *:*:* | *: | *:[!a-z0-9]*) return 1 ;; esac
    [ ${#1} -le 100 ]
}
mailbox() { # AGENT: sets agent and box, which must be there
    agent=$1 box=$spool/agents/$1
    is_agent "$1" || die 64 bad_agent "$1 is no agent name"
}
ready() { # AGENT: the same, made if need be, and what others left there is mended where that can be done.  The claim
    # that the caller was handed is its own: its lease may be over, but nobody frees it for that
    mailbox "$1"
    [ -d "$box/new" ] || make_mailbox "$1"
    collect
    for own in "$box"/claimed/*; do
        seen "$own" claimed && { [ "$id~n$token" = "${AGENT_MAIL_CLAIM:-}" ] || live || (move_by expire) 2>/dev/null; }
    done
}

exists() { [ -e "$1" ] || [ -h "$1" ]; }
is_file() { [ -f "$1" ] && [ ! -h "$1" ]; }
same_file() { [ "$1" -ef "$2" ] && [ ! -h "$1" ] && [ ! -h "$2" ]; }
same_message() { same_file "$1" "$2" || { is_file "$1" && is_file "$2" && cmp -s "$1" "$2"; }; }

# shellcheck source=lib/names.sh
. "${lib:?}/names.sh"
# shellcheck source=lib/moves.sh
. "$lib/moves.sh"
# shellcheck source=lib/intake.sh
. "$lib/intake.sh"
# shellcheck source=lib/publish.sh
. "$lib/publish.sh"
# shellcheck source=lib/settle.sh
. "$lib/settle.sh"
