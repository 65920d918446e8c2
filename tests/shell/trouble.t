#!/bin/sh
. ./tap.sh
# Programs that fail, another who is faster, a disk that is full, an output that nobody takes: nothing is lost by it, and
# what is said of it is true.

mkdir "$place/bin"
instead_of() { # PROGRAM: standard input is run in its place by `meddled`
    { echo '#!/bin/sh' && cat; } >"$place/bin/$1"
    chmod +x "$place/bin/$1"
}
meddled() {
    (PATH=$place/bin:$PATH && spool "$@")
    answered=$?
    rm -f "$place/bin"/*
    return $answered
}
expired() { # CLAIM: its lease is over; prints its name from then on
    gone=$(echo "$1" | sed 's/~b[^~]*//; s/~x[0-9]*T/~x20200101T/')
    mv "$1" "$gone" && echo "$gone"
}

case ${UNDER:-} in
busybox*) skip "programs that are killed" "busybox runs its own" ;;
*)
    for program in tr awk; do
        letter "${ID}1" bob | drop bob "new/${ID}1.json"
        echo 'kill -9 $$' | instead_of $program
        is "$(meddled claim bob 2>"$place/said")" '' "what can't be read since $program is killed is not given out"
        is "$(find "$mail/agents/bob" -name "${ID}1*")" "$mail/agents/bob/new/${ID}1.json" "nor made a dead letter: $program"
        for verb in "ack --as bob" "claim bob"; do
            echo 'kill -9 $$' | instead_of $program
            # shellcheck disable=SC2086  # words
            meddled $verb "${ID}1" 2>"$place/said"
            is "$? $(code)" "1 cannot_read" "nor said to be moving: $program, $verb"
        done
    done
    spool ack "$(spool claim bob)" >/dev/null
    id=$(spool send --from alice --to bob --subject s --dedup-key killed)
    set_aside=$mail/agents/bob/tmp/$id~gc.json
    mv "$mail/agents/bob/new/$id.json" "$set_aside"
    rm "$mail"/messages/*/"$id.json"
    echo 'kill -9 $$' | instead_of awk
    meddled claim bob >/dev/null 2>&1
    [ -f "$set_aside" ]
    ok $? "a draft that can't be read is not taken for one that nobody committed"
    claim=$(spool claim bob)
    is "${claim%%~*}" "$mail/agents/bob/claimed/$id" "and is delivered by who can read it"
    spool ack "$claim" >/dev/null

    letter "${ID}2" bob | drop bob "new/${ID}2.json"
    instead_of link <<STUB
here="$mail/agents/bob/new/${ID}2.json" there="$mail/messages/2026-11-30"
if [ -f "\$here" ]; then
    ln "\$here" "\$there/${ID}2.json"
    mv "\$here" "$mail/agents/bob/cur/${ID}2~r20261130T190000.000Z.json"
fi
exec $(command -v link) "\$@"
STUB
    claim=$(meddled claim bob)
    is "$(ls "$mail/agents/bob/failed")" '' "what another took while it was adopted leaves no reason in failed/"
    spool ack "$claim" >/dev/null
    ;;
esac

letter "${ID}3" carol | drop bob "new/${ID}3.json"
has timeout && within='timeout 100' || within=''
# shellcheck disable=SC2086  # words
said=$(trap '' XFSZ && ulimit -f 0 && $within ${UNDER:-sh} "$tools/spool-claim" bob 2>&1)
is "$?" 73 "a reason for which there is no room is not tried again for ever"
is "${said%%:*}" spool-claim "but that is said"
is "$(find "$mail/agents/bob" -name "${ID}3*")" "$mail/agents/bob/new/${ID}3.json" "and the file stays, without half a reason"
rm "$mail/agents/bob/new/${ID}3.json"

if [ -e /dev/full ]; then
    spool send --from alice --to bob --subject s >/dev/full 2>"$place/said"
    is "$? $(code)" "74 receipt_lost" "a sender is told that it was not told the id"
    spool claim bob >/dev/full 2>"$place/said"
    is "$? $(code)" "74 receipt_lost" "and a worker that it was not told its claim"
    claim=$(ls "$mail/agents/bob/claimed/"*)
    spool renew "$claim" >/dev/full 2>"$place/said"
    is "$? $(code)" "74 receipt_lost" "nor how it is called now"
    claim=$(ls "$mail/agents/bob/claimed/"*)
    spool ack "$claim" >/dev/full 2>"$place/said"
    is "$? $(code)" "74 receipt_lost" "nor where it is, acknowledged"
fi

as_if_shown() { # SHOWN-AS: a file that went between the look at it and its opening
    ${UNDER:-sh} -c 'lib=$1 as=$2 tty="" && . "$lib/spool.sh" && show "$3"' spool-show "$tools/lib" "$1" "$place/gone" 2>&1 >"$place/out" | grep -c output_lost
    ${UNDER:-sh} -c 'lib=$1 as=$2 tty="" && . "$lib/spool.sh" && { show "$3" && echo shown || echo gone; }' spool-show "$tools/lib" "$1" "$place/gone" 2>/dev/null
}
for as in json body; do is "$(as_if_shown $as)" "0${newline}gone" "what is gone was not shown, nor was the output refused: $as"; done

is "$(${UNDER:-sh} -c '
    lib=$1 && . "$lib/spool.sh" && open_spool && mailbox bob && looks=0
    is_file() { looks=$((looks + 1)) && [ $((looks % 2)) = 0 ] && [ -f "$1" ]; }
    parse "${2##*/}" && held=1 && held_claim && echo "$id"' spool-renew "$tools/lib" "$(spool send --from alice --to bob --subject s >"$place/id" && spool claim bob "$(cat "$place/id")")" 2>&1)" "$(cat "$place/id")" \
    "a claim that every listing misses, and that is seen all the same, is not lost"
(AGENT_MAIL_CLAIM=$(cat "$place/id")~n1 && export AGENT_MAIL_CLAIM && spool ack --as bob "$(cat "$place/id")" >/dev/null)

# ---- after its commit a message is sent, whatever becomes of what it answers
id=$(spool send --from alice --to bob --subject s)
rm -r "$mail/agents/bob/acked"
: >"$mail/agents/bob/acked"
status 74 "a reply whose parent can't be settled is not called unsent" send --from bob --to alice --subject re --reply-to "$id"
is "$(spool show --field reply_to "$(cat "$place/out")")" "$id" "for it is sent"
rm "$mail/agents/bob/acked"
spool ack --as bob "$id" >/dev/null

# ---- an anchor that is damaged
id=$(spool send --from alice --to bob --subject s)
rm "$mail/agents/bob/new/$id.json"
echo '{' >"$(echo "$mail"/messages/*/"$id.json")"
status 66 "who is not told by the anchor is not said to be another" ack --as bob "$id"
before=$(spool ls alice)
status 1 "what can't be read is not answered" send --from bob --to alice --subject re --reply-to "$id"
is "$(spool ls alice)" "$before" "and nothing is sent"
rm "$mail"/messages/*/"$id.json"

# ---- the caller's own claim, whose lease is over
id=$(spool send --from alice --to bob --subject mine)
claim=$(expired "$(spool claim bob)")
(AGENT_MAIL_CLAIM=$id~n1 && export AGENT_MAIL_CLAIM && ! has flock || spool read bob >/dev/null)
is "$(ls "$mail/agents/bob/claimed/"*)" "$claim" "who reads does not free the claim it was handed"
AGENT_MAIL_CLAIM=$id~n1 status 77 "nor takes it from itself" claim bob "$id"
is "$(code)" claimed "by its code"
AGENT_MAIL_CLAIM=$id~n1 status 0 "it still holds it" renew --as bob "$id"
AGENT_MAIL_CLAIM=$id~nx status 64 "a handle that is none settles no claim" ack --as bob "$id"
is "$(code)" bad_id "by its code"
status 0 "the spool is clean afterwards" check
finish
