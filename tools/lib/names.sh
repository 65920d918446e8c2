#!/bin/sh
# What a file name says, and the clocks that it is held against.
# shellcheck disable=SC2034,SC2154  # the tools use what is set here, and the rest of the library set what is used

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
