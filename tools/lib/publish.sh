#!/bin/sh
# A message is written aside, committed and delivered, and whoever comes next completes what a sender left.
# shellcheck disable=SC2034,SC2154  # the tools use what is set here, and the rest of the library set what is used

# ---- before the commit.  What is asked for lies in the variables that spool-send sets: from, to, subject, and so on

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

text() { # the body and a mark: bodies may end in newlines, and reading one may fail
    case $source in
    '') printf '%s' "$body" ;;
    -) cat ;;
    *) cat "$source" ;;
    esac && printf '\001x\n'
}
compose() { # [FILE]: writes the draft; without a file only looks whether it may be sent
    if [ "$source" ]; then text | tr '\000' '\002'; else text; fi |
        M_FILE=${1:-} M_ID=$id M_SENDER=$from M_RECIPIENT=$to M_SUBJECT=$subject M_KIND=$kind M_REPLY_TO=$reply \
            M_THREAD_ID=$thread M_DEDUP_KEY=$key M_DEADLINE='' M_REFS=$refs M_CREATED=$now_iso M_LIMIT=$body_bytes \
            awk -f "$lib/text.awk" -f "$lib/compose.awk" 2>/dev/null
}
refuse() { # what compose said
    case ${said%%"$newline"*} in '' | cannot_write) die 73 cannot_write "the draft could not be written: is the disk full?" ;; cannot_read) worst=1 ;; *) worst=64 ;; esac
    die "$worst" "${said%%"$newline"*}" "${said#*"$newline"}"
}

post() { # 0 sent, 1 the key was another message's, which judge has read
    for _ in 1 2 3 4 5 6 7 8; do
        address
        draft=$spool/agents/$to/tmp/$id.json
        (set -C && true >"$draft") 2>/dev/null || die 73 cannot_write "cannot write $draft"
        said=$(compose "$draft") || { rm -f "$draft" && refuse; }
        flush "$draft" || { rm -f "$draft" && die 73 cannot_write "cannot make $draft durable"; }
        commit "$draft" "${key_file:-$anchor}"
        case $? in
        0) return 0 ;;
        1)
            rm -f "$draft"
            [ "$key" ] || continue # another's id
            judge "$key_file" judge
            [ "$code" != ok ] || return 1
            ! exists "$key_file" || die 1 cannot_read "$key_file is damaged, so whether this was sent before is not known"
            ;;
        esac
        [ "$source" != - ] || die 75 busy "the draft was taken away before it was sent: try again"
    done
    die 75 busy "the draft was taken away before it was sent: is the clock right?"
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
