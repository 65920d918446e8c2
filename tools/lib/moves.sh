#!/bin/sh
# What changes a spool: one link or one rename each, and what makes it durable.
# shellcheck disable=SC2034,SC2154  # the tools use what is set here, and the rest of the library set what is used

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
        [ "$up" -lt $deadline ] || die 75 busy "$1 is held by process $(cat "$1")"
        sleep 0.01 2>/dev/null || sleep 1
    done
    printf '%10d\n' $$ 1>&9 2>/dev/null || :
}
unlock() { exec 9>&-; }
