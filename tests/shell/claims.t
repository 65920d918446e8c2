#!/bin/sh
. ./tap.sh

for subject in one two; do spool send --from alice --to bob --subject $subject >/dev/null; done
claim=$(spool claim --worker w-1 bob)
is "$(spool show --field subject "$claim")" one "the oldest is claimed, and the path told is the claim"
name=${claim##*/} id=${name%%~*}
case $name in "$id~n1~x"*"~b"*"~ww-1.json") ok 0 "its name carries token, lease and worker" ;; *) ok 1 "its name: $name" ;; esac
is "$(spool count bob)" "bob	1	2	1	0" "it is claimed and owed, and not unread"
status 77 "another may not claim it" claim bob "$id"
is "$(code)" claimed "by its code"
status 77 "nor acknowledge it by its id" ack --as bob "$id"
renewed=$(spool renew --lease 60 "$claim")
is "${renewed%%~x*}" "${claim%%~x*}" "a renewal keeps the token"
released=$(spool release "$claim")
is "$released" "$mail/agents/bob/new/$id~n1.json" "the path from before the renewal still names the claim; released it keeps its token"
status 77 "then the claim is lost" ack "$claim"
is "$(code)" lease_lost "by its code"
status 77 "a lost claim renews nothing" renew "$claim"
claim=$(spool claim bob)
is "$(expr "$claim" : '.*~n\([0-9]*\)~')" 2 "the token only grows"
acked=$(spool ack "${id}~n2" --as bob 2>/dev/null || spool ack --as bob "${id}~n2")
case $acked in "$mail/agents/bob/acked/"*"~n2~a"*.json) ok 0 "the handle acknowledges" ;; *) ok 1 "acked: $acked" ;; esac
status 0 "the same again is no error" ack --as bob "${id}~n2"
is "$(cat "$place/out")" '' "and says nothing"
status 1 "what is settled can't be claimed" claim bob "$id"
status 64 "an id is no handle" release --as bob "$id"
status 66 "an unknown id is unknown" ack --as bob "${ID}7"
status 77 "another's is not mine" ack --as alice "$(spool ls bob | sed 's/.*\///; s/\.json//')"
spool claim bob >/dev/null
status 0 "nothing free is no error" claim bob
is "$(cat "$place/out")" '' "and prints nothing"

# ---- a lease that is over, by each row of the table
over() { # NAME-PART WANTED PROMISE
    id=${ID}$1
    letter "$id" bob | drop bob "claimed/$id~n4$2.json"
    is "$(spool claim bob "$id" 2>&1 | sed 's/.*~\(n[0-9]*\)~.*/\1/; s/^spool-claim: \([a-z]*\):.*/\1/')" "$3" "$4"
}
boot=$(printf '%.8s%08x' "$(cat /proc/sys/kernel/random/boot_id)" "$(stat -Lc %i /proc/self/ns/time)")
up=$(sed 's/\.\([0-9]*\) .*/\10/' /proc/uptime)
past=~x20200101T000000.000Z future=~x20990101T000000.000Z
soon=~x$(date -u -d '+10 minutes' +%Y%m%dT%H%M%S.000Z 2>/dev/null || date -u -D %s -d $(($(date +%s) + 600)) +%Y%m%dT%H%M%S.000Z)
over 0 "$soon~b$boot-$((up - 1000))" n5 "this boot's clock has passed it: over, whatever the wall says"
over 1 "$past~b$boot-$((up + 600000))" claimed "this boot's clock has not: held, whatever the wall says"
over 2 "$soon~bffffffff00000000-9" n5 "another boot: its holder died with it"
over 3 "$soon~b${boot%????????}00000000-9" claimed "another time namespace: the wall clock, not over"
over 4 "$past~b${boot%????????}00000000-9" n5 "another time namespace: the wall clock, over"
over 5 "$soon~b0000000000000000-9" claimed "an unknown boot: the wall clock"
over 6 "$future" n5 "a lease longer than any may be is over: a clock was wrong"
over 7 '' n5 "a name without a lease holds nothing"
status 64 "a lease is a number" claim --lease soon bob
status 64 "a worker is a word" claim --worker 'a b' bob

# ---- the caller's own claim, as a listener hands it on
spool send --from alice --to bob --subject mine >/dev/null
claim=$(spool claim bob "$(spool ls bob | tail -n 1 | sed 's/.*\///; s/\.json//')")
name=${claim##*/} id=${name%%~*}
AGENT_MAIL_CLAIM=$id~n1 spool ack --as bob "$id" >/dev/null
is $? 0 "a bare id of the caller's own claim is its handle"
finish
