#!/bin/sh
# The spool in POSIX sh: where it is, what its names mean, and the moves.  Sourced by every tool beside this directory.
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

# ---- clocks, in milliseconds

uptime() { # sets up, the boot clock; 0 where the kernel has none
    up=0
    [ ! -r /proc/uptime ] || IFS=' ' read -r up rest </proc/uptime
    up=${up%.*}${up#*.}
    while case $up in 0?*) ;; *) false ;; esac do up=${up#0}; done
    up=$((up * 10))
}

now() { # sets wall, now_iso and now_stamp
    wall=$(date +%s%3N)
    case $wall in
    *[!0-9]* | ??????????) # a date without milliseconds: since when the machine runs, and for how long
        uptime
        wall=$(sed -n 's/^btime \([0-9]*\)$/\1/p' /proc/stat 2>/dev/null)
        wall=$((${wall:-$(date +%s) - up / 1000} * 1000 + up))
        ;;
    esac
    civil "$wall"
    now_iso=$iso now_stamp=$stamp
}

boots() { # sets boot: this boot and time namespace, as leases name them
    [ -z "${boot:-}" ] || return 0
    boot='' inode=$(ls -Ldi /proc/self/ns/time 2>/dev/null) && read -r boot </proc/sys/kernel/random/boot_id
    inode=${inode%% /*}
    [ "$boot" ] && boot=${boot%%-*}$(printf %08x $((inode & 0xffffffff))) || boot=0000000000000000
}

civil() { # MS: sets day (2026-11-30), minute (1847), iso and stamp, in UTC
    ms=$(($1 % 1000 + 1000)) s=$(($1 / 1000 % 86400))
    z=$(($1 / 86400000 + 719468)) e=$(($1 / 86400000 + 719468))
    e=$((z % 146097)) y=$(((e - e / 1460 + e / 36524 - e / 146096) / 365))
    e=$((e - 365 * y - y / 4 + y / 100)) m=$(((5 * e + 2) / 153))
    # shellcheck disable=SC2017  # whole eras of 400 years
    d=$((101 + e - (153 * m + 2) / 5)) m=$((m < 10 ? m + 3 : m - 9)) y=$((y + z / 146097 * 400))
    [ $m -gt 2 ] || y=$((y + 1))
    m=$((m + 100)) h=$((s / 3600 + 100)) i=$((s / 60 % 60 + 100)) s=$((s % 60 + 100))
    # Four digits, leading zeros too; ids reach into the year 10889.
    [ $y -gt 9999 ] || y=$((y + 10000)) y=${y#1}
    day=$y-${m#1}-${d#1} minute=${h#1}${i#1}
    iso=${day}T${h#1}:${i#1}:${s#1}.${ms#1}Z stamp=$y${m#1}${d#1}T$minute${s#1}.${ms#1}Z
}

instant() { # STAMP: sets wall_end
    y=1${1%????T*} m=1${1#????} d=1${1#??????}
    m=${m%"${m#???}"} d=${d%"${d#???}"} rest=${1#*T} rest=${rest%Z}
    y=$((y - 10000)) m=$((m - 100)) d=$((d - 100))
    [ $m -gt 2 ] || y=$((y - 1)) m=$((m + 12))
    d=$((365 * y + y / 4 - y / 100 + y / 400 + (153 * m - 457) / 5 + d - 719469))
    ms=1${rest#*.} s=1${rest%.*} i=1${rest#??} h=1${rest%????.*}
    s=1${s#?????} i=${i%??.*}
    wall_end=$((((d * 24 + h - 100) * 60 + i - 100) * 60000 + (s - 100) * 1000 + ms - 1000))
}

# ---- names

D='[0-9]' X='[0-9a-f]'
X4="$X$X$X$X" TIME="$D$D$D$D$D$D$D${D}T$D$D$D$D$D$D.$D$D${D}Z"
X8="$X4$X4" ID="$X4$X4-$X4-7$X$X$X-[89ab]$X$X$X-$X4$X4$X4"

digits() { case $1 in '' | *[!0-9]* | ??????????*) return 1 ;; esac; }
plain() { # NUMBER: sets number, without leading zeros
    number=$1
    while case $number in 0?*) ;; *) false ;; esac do number=${number#0}; done
}

parse() { # NAME: sets id, token and the stamps; status 1: no message of ours
    id=${1%"${1#????????????????????????????????????}"} unknown='' st=''
    st_r='' st_n='' st_q='' st_x='' st_b='' st_w='' st_a='' st_z='' st_d='' token=0
    # shellcheck disable=SC2254  # the pattern is meant
    case $id in $ID) rest=${1#"$id"} ;; *) return 1 ;; esac
    case $rest in .json) return 0 ;; *.reason.json) return 1 ;; "~"?*.json) rest=${rest%.json} ;; *) return 1 ;; esac
    [ ${#1} -le 255 ] || return 1
    while [ "$rest" ]; do
        part=${rest#"~"}
        case $part in *"~"*) rest="~${part#*"~"}" part=${part%%"~"*} ;; *) rest='' ;; esac
        value=${part#?}
        case $st in *"${part%"$value"}"*) return 1 ;; esac
        st=$st${part%"$value"}
        # shellcheck disable=SC2254
        case $part in
        r$TIME) st_r=$value ;; x$TIME) st_x=$value ;; a$TIME) st_a=$value ;; z$TIME) st_z=$value ;;
        n*) digits "$value" && st_n=$value || return 1 ;;
        q*) digits "$value" && st_q=$value || return 1 ;;
        d*) digits "$value" && st_d=$value || return 1 ;;
        b$X8$X8-*) case ${value#*-} in '' | *[!0-9]* | ??????????????*) return 1 ;; esac && st_b=$value ;;
        w*) case $value in '' | *[!a-z0-9._-]*) return 1 ;; esac && [ ${#value} -le 48 ] && st_w=$value || return 1 ;;
        [rxazb]* | [!a-z]* | *[!a-z0-9._-]* | '') return 1 ;;
        *) unknown="$unknown~$part" ;;
        esac
    done
    [ ${#unknown} -le 10 ] || return 1
    plain "${st_n:-0}" && token=$number
}

compose_name() { # the stamps, in their order: sets name
    name="$id${st_r:+~r$st_r}${st_n:+~n$st_n}${st_q:+~q$st_q}${st_x:+~x$st_x}${st_b:+~b$st_b}${st_w:+~w$st_w}"
    name="$name${st_a:+~a$st_a}${st_z:+~z$st_z}${st_d:+~d$st_d}$unknown.json"
}

seen() { # PATH STATE: the message there, taken apart; status 1: there is none
    parse "${1##*/}" && is_file "$1" && path=$1 state=$2
}


places() { # the id: sets day and minute, under which it is settled, and anchor
    half=${id#*-}
    civil $((0x${id%%-*}${half%%-*}))
    anchor=$spool/messages/$day/$id.json
}

left() { # the name: sets left, the milliseconds its lease still has; 0 or less: it is over
    left=0
    [ "$st_x" ] && [ "$st_n" ] || return 0
    boots
    uptime
    case ${st_b%-*} in
    "$boot") [ "$boot" = 0000000000000000 ] || { plain "${st_b#*-}" && left=$((number - up)) && return 0; } ;;
    '' | 0000000000000000) ;;
    *) [ "$boot" = 0000000000000000 ] || [ "${st_b%"${st_b#????????}"}" = "${boot%????????}" ] || return 0 ;;
    esac
    [ "${wall:-}" ] || now
    instant "$st_x"
    left=$((wall_end + 5000 - wall))
    [ $left -le 3605000 ] || left=0
}
live() { left && [ "$left" -gt 0 ]; }

find_message() { # the id in $box: sets path, state and the stamps of its furthest name, a live claim first
    sought=$id at='' in=''
    places
    for where in new cur claimed "acked/$day/$minute" "archive/$day/$minute" failed; do
        for here in "$box/$where/$sought"*; do
            seen "$here" "${where%%/*}" || continue
            at=$path in=$state
            [ "$in" != claimed ] || ! live || return 0
        done
    done
    id=$sought
    [ "$at" ] && seen "$at" "$in"
}

# ---- the moves.  Every one starts from the exact name that was seen; whoever finds it gone has lost.

if command -v link >/dev/null; then
    link_file() { link "$1" "$2" 2>/dev/null; }
else
    # ln would put its link into a directory that has the name.
    link_file() { [ ! -d "$2" ] && ln "$1" "$2" 2>/dev/null; }
fi

flush() { # FILE or DIRECTORY.  A sync that takes no names syncs everything, and tells no errors
    [ "$durability" = none ] || sync "$1" 2>/dev/null || { ! sync / 2>/dev/null && sync; }
}
must_flush() { # STATUS CODE DIRECTORY...
    refused=$1 code=$2
    shift 2
    for directory; do
        [ ! -d "$directory" ] || flush "$directory" || die "$refused" "$code" "done, but whether $directory survives a power cut is not known"
    done
}

make_dir() { # DIRECTORY and what is missing above it, each synced in its parent
    [ ! -d "$1" ] || return 0
    [ -d "${1%/*}" ] || make_dir "${1%/*}"
    until mkdir "$1" 2>/dev/null || [ -d "$1" ]; do
        [ "${spend:-}" ] && free_ballast || die 73 cannot_write "cannot make the directory $1"
    done
    flush "${1%/*}" || die 73 cannot_write "cannot make $1 durable"
}

commit() { # DRAFT NAME: 0 it has the name, 1 another message has it, 2 the draft is gone
    for _ in 1 2 3 4 5 6 7 8; do
        link_file "$1" "$2" && return 0
        if exists "$2"; then
            same_message "$1" "$2" && return 0
            exists "$1" && return 1 || return 2
        fi
        exists "$1" || return 2
        make_dir "${2%/*}"
    done
    die 73 cannot_write "cannot link $2"
}

free_ballast() { # a little room on a full disk, for what must not wait.  1: none is left
    for number in 15 14 13 12 11 10 09 08 07 06 05 04 03 02 01 00; do
        [ ! -f "$spool/ballast/$number" ] || { rm -f "$spool/ballast/$number" && return; }
    done
    return 1
}

move() { # SOURCE TARGET [never-refused]: 0 moved, 1 the source is gone.  On a full disk ballast makes room
    spend=${3:-} again=1
    while :; do
        [ ! -d "$2" ] || [ -d "$1" ] || die 73 cannot_write "$2 is in the way: a directory"
        trouble=$(mv -f "$1" "$2" 2>&1) && return 0
        exists "$1" || return 1
        case $trouble in *'No space'* | *quota*) [ "$spend" ] && free_ballast && continue ;; esac
        [ -d "${2%/*}" ] && [ -z "$again" ] && die 73 cannot_write "cannot move $1: ${trouble##*: }"
        make_dir "${2%/*}"
        again='' # once more: the directory may have gone and come back meanwhile
    done
}

move_by() { # VERB: the name at $path, by the table; sets path, state and name.  Status 1: another was faster
    was=$path
    case $1 in claim | renew) ;; *) st_x='' st_b='' st_w='' ;; esac
    case $1 in
    read) st_r=$now_stamp state=cur ;;
    claim | renew) state=claimed ;;
    expire | release) [ "$st_r" ] && state=cur || state=new ;;
    ack) st_r=${st_r:-$now_stamp} st_a=$now_stamp state=acked ;;
    fail) state=failed ;;
    esac
    compose_name
    path=$box/$state/$name
    [ "$state" != acked ] || { places && path=$box/acked/$day/$minute/$name; }
    case $1 in read | claim | renew) move "$was" "$path" ;; *) move "$was" "$path" ballast ;; esac
}

note() { # EVENT JSON-MEMBERS: a line of history, which nothing fails for.  One write
    [ "${now_iso:-}" ] || now
    exists "$box/history.jsonl" && ! is_file "$box/history.jsonl" && return 0
    { printf '{"at":"%s","event":"%s"%s}\n' "$now_iso" "$1" "${2:+,$2}" >>"$box/history.jsonl"; } 2>/dev/null || :
}

lock() { # FILE MS: holds it on descriptor 9.  What a lock serialises is never done without it
    command -v flock >/dev/null || die 75 busy "flock(1) is not installed, and without it $1 can't be held: agent-mail can"
    { true >>"$1"; } 2>/dev/null || die 73 cannot_write "cannot open $1"
    exec 9<>"$1"
    uptime
    deadline=$((up + $2))
    until flock -n 9; do
        uptime
        [ $up -lt $deadline ] || die 75 busy "$1 is held by process $(cat "$1")"
        sleep 0.01 2>/dev/null || sleep 1
    done
    printf '%10d\n' $$ 1>&9 2>/dev/null || :
}
unlock() { exec 9>&-; }

# shellcheck source=lib/mail.sh
. "${lib:?}/mail.sh"
