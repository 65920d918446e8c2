#!/bin/sh
# What the files hold: judging, adopting, dead letters, commit and publish, and what the next caller completes.
# The second half of the library; spool.sh sources it.
# shellcheck disable=SC2034,SC2154  # the tools use what is set here, and spool.sh set what is used

# ---- reading.  No byte below blank but TAB, LF and CR may stand in JSON; as \001 any awk can take it.

controls='\000\001\002\003\004\005\006\007\010\013\014\016\017\020\021\022\023\024\025\026\027\030\031\032\033\034\035\036\037'
ones='\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001'

scan() { # MODE [ID AGENT]: see message.awk.  The mark says that standard input was read to its end
    { tr "$controls" "$ones" && printf '\002'; } |
        awk -v mode="$1" -v id="${2:-}" -v box="${3:-}" -v tty="${tty:-}" -f "$lib/text.awk" -f "$lib/message.awk"
}

size_of() { { wc -c <"$1"; } 2>/dev/null || echo 0; }

judge() { # FILE judge [ID AGENT]: sets code (ok, cannot_read, or why it is refused), sentence, and f_… what it says
    f_id='' f_sender='' f_recipient='' f_thread='' f_conversation='' f_turn='' f_key='' f_kind=''
    [ "$(size_of "$1")" -le 8388608 ] || { code=too_large sentence='the file has more than 8388608 bytes' && return; }
    judged=$({ shift && scan "$@"; } 2>/dev/null <"$1")
    {
        for member in code sentence f_id f_sender f_recipient f_thread f_conversation f_turn f_key f_kind; do
            IFS= read -r "${member?}"
        done
    } <<EOT
${judged:-cannot_read${newline}it could not be read}
EOT
}

age() { # FILE: sets aged, the seconds since it was written; 0 when it is gone
    [ "${wall:-}" ] || now
    written=$(stat -c %Y "$1" 2>/dev/null || stat -f %m "$1" 2>/dev/null) || written=$((wall / 1000))
    [ $((wall / 1000)) -ge "$written" ] || now # it was written since we last looked at the clock
    aged=$((wall / 1000 - written))
    [ $aged -ne -1 ] || aged=0 # a clock that is made from the boot's lies up to a second early
}

admit() { # the name at $path: 0 it is mail (anchored by now), 1 it was passed over and that was said; code tells why
    places
    code=ok
    if ! same_file "$path" "$anchor"; then
        is_file "$path" || return 1
        judge "$path" judge "$id" "$agent"
        [ "$code" != ok ] || adopt
        exists "$path" || return 1 # another was faster, so nothing that was found says anything
        if [ "$code" = cannot_read ]; then
            say "$path can't be read and stays where it is"
            return 1
        elif [ "$code" = not_json ] && age "$path" && [ "$aged" -ge 0 ] && [ "$aged" -le 2 ]; then
            return 1 # somebody may still be writing it
        elif [ "$code" != ok ]; then
            fail "$code" "$sentence"
            return 1
        fi
    fi
    ! folded
}

adopt() { # a script moved it here: from now on it is ordinary mail.  Anchored last, so whoever is anchored is complete
    sentence='another message has this id'
    if exists "$anchor" && ! same_message "$path" "$anchor"; then
        code=id_clash
    else
        join_thread "$path"
        commit "$path" "$anchor" || code=id_clash
    fi
}

folded() { # the name at $path: 0 its message is further on under another name, and this one went
    further='' differs=''
    for other in "$box/cur/$id"* "$box/claimed/$id"* "$box/acked/$day/$minute/$id"* "$box/archive/$day/$minute/$id"*; do
        [ "$other" != "$path" ] && parse "${other##*/}" && is_file "$other" || continue # what is foreign is no message
        case $state/$other in cur/"$box/cur/"* | claimed/"$box/c"*) continue ;; esac
        further=$other
        same_message "$path" "$other" || { exists "$other" && differs=$other; }
    done
    parse "${path##*/}" # after the others
    [ "$further" ] || return 1
    if ! exists "$path"; then
        : # it is on its way
    elif [ -z "$differs" ]; then
        rm -f "$path"
        say "$path was a second name of a message further on"
    elif exists "$differs"; then
        fail id_clash 'another message has this id, further on'
    fi
}

fail() { # CODE SENTENCE: the name at $path becomes a dead letter.  Its reason comes first, and reserves the name
    was=$path st_x='' st_b='' st_w='' st_d=''
    now
    plain "${st_q:-0}"
    attempts=$((token - number))
    make_dir "$box/failed"
    until reserve_reason; do st_d=$((${st_d:-0} + 1)); done
    # Created it is, so what can't be written now finds the disk full.
    until { printf '{"id":"%s","code":"%s","reason":"%s","at":"%s","by":null,"attempts":%d}\n' \
        "$id" "$1" "$2" "$now_iso" "$attempts" >"$reason"; } 2>/dev/null; do
        free_ballast || { rm -f "$reason"; die 73 cannot_write "cannot write $reason"; }
    done
    flush "$reason" || { rm -f "$reason"; die 73 cannot_write "cannot write $reason"; }
    move "$was" "$box/failed/$name" ballast || return 0
    must_flush 74 durability_unknown "$box/failed"
    note failed "\"id\":\"$id\",\"code\":\"$1\""
    say "$1: $was is no message ($2); it was moved to failed/"
}

reserve_reason() { # sets name and reason for the dead letter that the stamps say; 1: one of them is there
    compose_name
    reason=$box/failed/${name%.json}.reason.json
    if ! (set -C && true >"$reason") 2>/dev/null; then
        exists "$reason" || die 73 cannot_write "cannot write $reason"
        return 1
    fi
    ! exists "$box/failed/$name" || { rm -f "$reason" && return 1; }
}

# ---- commit and publish

key_path() { # SENDER KEY: sets key_file.  Two netstrings
    command -v sha256sum >/dev/null || die 75 busy "sha256sum is not installed, and keys need it: agent-mail can"
    key_file=$(printf '%s' "${#1}:$1,${#2}:$2," | sha256sum)
    key_file=${key_file%% *}
    key_file=$spool/dedup/${key_file%"${key_file#??}"}/$key_file.json
}

join_thread() { # NAME of the judged message: the root joins with its first reply
    [ "$f_thread" ] || return 0
    keep=$id id=$f_thread
    places
    commit "$anchor" "$spool/threads/$id/$id.json"
    id=$keep
    places
    commit "$1" "$spool/threads/$f_thread/$id.json"
}

publish() { # DRAFT of the judged message, committed: 0 delivered, 1 another did it
    id=$f_id
    places
    if [ "$f_turn" = 1 ] && [ "$f_conversation" ]; then
        commit "$1" "$spool/conversations/$f_conversation/journal/0000.json" || return 1
        [ -z "$f_key" ] || must_flush 74 durability_unknown "$spool/conversations/$f_conversation/journal"
    elif [ "$f_turn" ] && [ "$f_key" ]; then
        key_path "$f_sender" "$f_key"
        commit "$1" "$key_file"
        [ $? -ne 2 ] || return 1
    fi
    commit "$1" "$anchor"
    case $? in 1) say "id_clash: another message has the id $id" && return 1 ;; 2) return 1 ;; esac
    join_thread "$1"
    [ $? -ne 2 ] || return 1
    move "$1" "$spool/agents/$2/new/$id.json"
}

deliver() { # AGENT: publish the judged message, whichever name its draft has
    publish "$spool/agents/$1/tmp/$f_id.json" "$1" || publish "$spool/agents/$1/tmp/$f_id~gc.json" "$1"
}

committed() { # DRAFT: asked of the names, never of the link count
    judge "$1" judge "$id"
    places
    same_message "$1" "$anchor" && [ "$code" = ok ] && return 0
    [ "$code" = ok ] || return 1
    if [ "$f_turn" ] && [ "$f_conversation" ]; then
        entry=10000
        while exists "$spool/conversations/$f_conversation/journal/${entry#1}.json"; do
            same_message "$1" "$spool/conversations/$f_conversation/journal/${entry#1}.json" && return 0
            entry=$((entry + 1))
        done
    fi
    [ "$f_key" ] && key_path "$f_sender" "$f_key" && same_message "$1" "$key_file"
}

collect() { # what others left for $agent: copies of broadcasts, and drafts whose sender died
    for todo in "$spool"/broadcast/*.todo/"$agent.json"; do
        owed=${todo%".todo/$agent.json"} id=${owed##*/}
        parse "$id.json" && is_file "$todo" && is_file "$owed.json" || continue
        places
        commit "$todo" "$anchor"
        move "$todo" "$box/new/$id.json" && must_flush 74 durability_unknown "$box/new"
        rmdir "$owed.todo" 2>/dev/null
    done
    for draft in "$box"/tmp/*.json; do
        (collect_one "$draft") 2>/dev/null # what can't be mended now holds up nobody
    done
}

collect_one() { # DRAFT
    parse "${1##*/}" && is_file "$1" || return 0
    case ${1##*/} in "$id.json" | "$id~gc.json") ;; *) return 0 ;; esac
    if committed "$1"; then
        [ -z "$f_turn" ] || must_flush 73 cannot_write "$spool/conversations/${f_conversation:-none}/journal"
        [ -z "$f_key" ] || { key_path "$f_sender" "$f_key" && must_flush 73 cannot_write "${key_file%/*}"; }
        publish "$1" "$agent" && must_flush 74 durability_unknown "$box/new"
        [ ! -f "$1" ] || rm -f "$1" # rename between two links of one file does nothing
    elif [ "$code" = cannot_read ]; then
        : # then nobody knows whether it is committed
    elif [ "$unknown" ]; then
        rm -f "$1" # set aside and asked again
    elif age "$1" && [ "$aged" -gt 60 ]; then
        move "$1" "$box/tmp/$id~gc.json" && collect_one "$box/tmp/$id~gc.json"
    fi
}

make_mailbox() { # AGENT, complete, with the last week's broadcasts, and known by one rename.  Leaves id and box alone
    kept_id=${id:-} kept_box=${box:-} box=$spool/agents/$1
    lock "$spool/broadcast.lock" 10000
    building=$spool/agents/.$1
    [ ! -d "$spool/agents/$1/new" ] || building=$spool/agents/$1
    for part in tmp new cur claimed acked archive failed; do make_dir "$building/$part"; done
    if [ "$building" != "$spool/agents/$1" ]; then
        for stale in "$building"/new/*; do [ ! -f "$stale" ] || rm -f "$stale"; done
        now
        for letter in "$spool"/broadcast/*.json "$spool"/broadcast/.*.json; do late_broadcast "$1"; done
        flush "$building/new" || die 73 cannot_write "cannot make $building durable"
        if [ -d "$spool/agents/$1" ]; then # somebody has made a part of it: new/ comes last
            for part in tmp cur claimed acked archive failed; do make_dir "$spool/agents/$1/$part" && rmdir "$building/$part"; done
            move "$building/new" "$spool/agents/$1/new" && flush "$spool/agents/$1" && rmdir "$building"
        else
            move "$building" "$spool/agents/$1"
        fi || die 75 busy "the mailbox of $1 was being made by another"
        flush "$spool/agents" || die 73 cannot_write "cannot make $spool/agents durable"
    fi
    unlock
    id=$kept_id box=$kept_box
}

late_broadcast() { # AGENT: link $letter into the mailbox being built, if it is committed, of this week and another's
    base=${letter##*/}
    parse "${base#.}" && is_file "$letter" || return 0
    half=${id#*-}
    [ $((wall - 0x${id%%-*}${half%%-*})) -lt 604800000 ] || return 0
    judge "$letter" judge "$id"
    [ "$code" = ok ] && [ "$f_sender" != "$1" ] || return 0
    case $base in .*) [ "$f_key" ] && key_path "$f_sender" "$f_key" && same_file "$letter" "$key_file" || return 0 ;; esac
    find_message || link_file "$letter" "$building/new/$sought.json"
    rm -f "$spool/broadcast/$sought.todo/$1.json" # owed to an earlier mailbox of this name
}

# ---- what callers name, and settling it

aim() { # PATH, ID or HANDLE: sets id, held (a claim's token, or empty) and, from a path, the mailbox.  1: it is none
    held='' word=${1##*/} whose=${asked:-}
    case $1 in
    "$spool"/agents/*/*/*)
        whose=${whose:-${1#"$spool/agents/"}} whose=${whose%%/*}
        parse "$word" && case ${1#"$spool"/agents/*/} in claimed/*) held=$token ;; esac
        ;;
    */*) ;;
    *)
        case $word in *"~n"*) held=${word#*"~n"} word=${word%%"~n"*} ;; esac
        case $word in *[A-F]*) word=$(printf %s "$word" | tr A-F a-f) ;; esac
        word=$word.json
        ;;
    esac
    if ! parse "$word" || { [ "$held" ] && ! digits "$held"; }; then
        pass 64 bad_id "$1 is no path, id or handle of a message"
        return 1
    fi
    [ "$held" ] || case ${AGENT_MAIL_CLAIM:-} in "$id~n"*) held=${AGENT_MAIL_CLAIM#"$id~n"} ;; esac
    digits "${held:-0}" || die 64 bad_id "AGENT_MAIL_CLAIM is no handle: $AGENT_MAIL_CLAIM"
    [ -z "$held" ] || { plain "$held" && held=$number; }
    [ -z "${whose:=${AGENT_ID:-}}" ] || mailbox "$whose"
}
whose_box() { [ "$whose" ] || wrong "whose mailbox? --as AGENT, or a path in it"; }

words() { # the arguments, a line each, and '' for an empty one; "-" stands for the lines of standard input
    for word; do
        [ "$word" ] || word="''"
        [ "$word" = - ] && cat || printf '%s\n' "$word"
    done
}

look_again() { # the id: a scan that finds nothing proves nothing while renames run.  1: it is not here, and that was said
    places
    code=gone
    ! is_file "$anchor" || judge "$anchor" judge
    if [ "$code" = cannot_read ] && is_file "$anchor"; then
        pass 1 cannot_read "$anchor can't be read, so whose message $id is is not known"
        return 1
    elif [ "$code" != ok ]; then
        pass 66 unknown_id "$agent has no message $id"
        return 1
    elif [ "$f_recipient" != "$agent" ] && [ "$f_recipient" != '*' ]; then
        pass 77 not_yours "message $id is for $f_recipient, not for $agent"
        return 1
    fi
    looked=$id
    collect
    for pause in 0.01 0.02 0.05; do
        id=$looked
        find_message && return 0
        sleep $pause 2>/dev/null || sleep 1
    done
    if [ "$f_recipient" = '*' ]; then
        pass 66 unknown_id "the broadcast $id is not in the mailbox of $agent"
    else
        pass 75 in_transit "message $id is on its way to $agent: try again in a moment"
    fi
    return 1
}

cannot_read() { pass 1 cannot_read "message $id can't be read"; }

may_settle() { # the name found, by $held: 1 if the caller may not settle it, and that was said
    if [ "$held" ]; then
        case $state in claimed | acked | archive) [ "$token" -ne "$held" ] || return 0 ;; esac
        pass 77 lease_lost "the claim $id~n$held is no longer held: stop working on it"
    elif [ "$state" = failed ]; then
        pass 1 dead_letter "message $id is a dead letter of $agent"
    elif [ "$state" = claimed ] && live; then
        pass 77 claimed "message $id is claimed by ${st_w:-a worker}"
    else
        return 0
    fi
    return 1
}

settle() { # $id of $box, by the claim $held if there is one: 0 acknowledged, 1 it was before, 2 refused and said so
    settled=$id
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        id=$settled
        find_message || look_again && may_settle || return 2
        case $state in
        acked | archive)
            must_flush 74 durability_unknown "${path%/*}"
            return 1
            ;;
        claimed) [ "$held" ] || { move_by expire; continue; } ;;
        *) admit || { [ "$code" = cannot_read ] && cannot_read && return 2; continue; } ;;
        esac
        in_dialogue && return 2
        now
        unread=$st_r
        if move_by ack; then
            must_flush 74 durability_unknown "${path%/*}"
            note acknowledged "\"ids\":[\"$id\"]$([ "$unread" ] || printf ',"unread":["%s"]' "$id")"
            return 0
        fi
    done
    pass 75 in_transit "message $settled keeps moving: try again in a moment"
    return 2
}

held_claim() { # $id and $held: sets path to that claim, as it is called now.  1: it is lost, and that was said
    claim=$id
    for pause in 0 0.01 0.02 0.04; do
        sleep $pause 2>/dev/null || sleep 1
        for here in "$box/claimed/$claim~"*; do
            seen "$here" claimed && [ "$token" -eq "$held" ] && return 0
        done
        id=$claim
        find_message || continue
        [ "$state" = claimed ] && [ "$token" -eq "$held" ] && return 0
        break
    done
    id=$claim
    pass 77 lease_lost "the claim $id~n$held is no longer held: stop working on it"
    return 1
}

lease() { # SECONDS, clamped to 30..3600: sets st_x and st_b
    case $1 in '' | *[!0-9]*) wrong "a lease is a number of seconds" ;; ????????*) set -- 3600 ;; esac
    plain "$1"
    [ "$number" -ge 30 ] || number=30
    [ "$number" -le 3600 ] || number=3600
    now
    boots
    uptime
    civil $((wall + number * 1000))
    st_x=$stamp st_b=$boot-$((up + number * 1000))
}

random() { # sets chance: a UUID of version 4, the kernel's chance in the shape that ids need
    if [ -r /proc/sys/kernel/random/uuid ]; then
        read -r chance </proc/sys/kernel/random/uuid
    else
        chance=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n' | sed 's/\(.\{8\}\)\(....\).\(...\).\(...\)/\1-\2-4\3-a\4-/')
    fi
}

address() { # a new id of this moment; sets anchor, too
    now
    random
    digits=$(printf %012x "$wall")
    id=${digits%????}-${digits#????????}-7${chance#*-*-?}
    anchor=$spool/messages/$day/$id.json
}

fill_ballast() {
    for number in 00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15; do
        file=$spool/ballast/$number
        [ "$(size_of "$file")" -eq 65536 ] && continue
        rm -f "$file"
        make_dir "$spool/ballast"
        (set -C && dd if=/dev/urandom bs=4096 count=16 2>/dev/null >"$file") 2>/dev/null
        [ "$(size_of "$file")" -eq 65536 ] || { rm -f "$file"; die 73 spool_full "no room for $file: nothing was changed"; }
    done
}

gate() { # AGENT: asked before a draft is written, and at no other time.  Counts only a directory that is large
    [ -f "$spool/ballast/15" ] || fill_ballast
    size=$(ls -ldn "$spool/agents/$1/new" 2>/dev/null) || return 0
    # shellcheck disable=SC2086  # the fifth field
    set -- "$1" $size
    [ "$6" -ge $((waiting * 20)) ] || return 0
    set -- "$1" "$spool/agents/$1/new"/*
    exists "$2" || return 0 # the pattern itself: there is none
    [ $# -le "$waiting" ] || die 75 mailbox_full "$1 has $waiting messages waiting"
}

show() { # FILE, opened once, for it may move on: as $as says.  Nothing is taken for shown before it was taken.  1: it is gone
    taken=''
    {
        case $as in
        json) tr '\n\r' '  ' && echo ;;
        *) scan "$as" | cat ;;
        esac && taken=1 || :
    } <"$1" 9>&- || return
    [ "$taken" ] || die 1 output_lost "the output was not taken${unmarked:-}"
}

in_dialogue() { # the message at $path is a turn: settling it may have to be put before a human first
    for dialogue in "$spool"/conversations/*; do
        [ -d "$dialogue" ] || continue
        judge "$path" judge
        [ "$f_turn" ] && [ "$f_conversation" ] || return 1
        pass 77 not_in_flight "message $id is a turn of a conversation: agent-mail ack $agent $id"
        return 0
    done
    return 1
}
