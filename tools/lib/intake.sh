#!/bin/sh
# What a file holds: judging it, showing it, adopting what a script dropped, dead letters.
# shellcheck disable=SC2034,SC2154  # the tools use what is set here, and the rest of the library set what is used

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
