#!/bin/sh
# What callers name, and who may settle it.
# shellcheck disable=SC2034,SC2154  # the tools use what is set here, and the rest of the library set what is used

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
