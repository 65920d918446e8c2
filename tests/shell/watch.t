#!/bin/sh
. ./tap.sh

status 0 "a wait whose time is up" wait --timeout 1 bob
is "$(cat "$place/out")" '' "prints nothing"
spool wait --timeout 150 bob >"$place/woken" &
waiter=$!
if has flock; then
    until [ -n "$(find "$mail/agents/bob/watch" -name '*.lock' 2>/dev/null)" ]; do :; done
    lock=$(find "$mail/agents/bob/watch" -name '*.lock')
    ! flock -ns "$lock" true
    ok $? "while it waits, its file refuses the shared lock: the agent is reachable"
fi
id=$(spool send --from alice --to bob --subject wake)
wait $waiter
is "$?" 0 "an arrival wakes it"
is "$(cat "$place/woken")" "$mail/agents/bob/new/$id.json" "and it prints the path"
is "$(ls "$mail/agents/bob/watch" 2>/dev/null)" '' "the file of the watch is gone"
is "$(spool wait bob)" "$mail/agents/bob/new/$id.json" "what is there already needs no waiting"
${UNDER:-sh} "$tools/spool-wait" --timeout 150 alice &
waiter=$!
if has flock; then until [ -n "$(find "$mail/agents/alice/watch" -name '*.lock' 2>/dev/null)" ]; do :; done; else sleep 1; fi
kill $waiter
wait $waiter 2>/dev/null
is "$?" 143 "a signal ends it at once"
is "$(ls "$mail/agents/alice/watch" 2>/dev/null)" '' "and it leaves nothing behind"
if has flock; then
    mkdir "$place/late"
    printf '#!/bin/sh\n%s "$@"\nsleep 0.3\n' "$(command -v mv)" >"$place/late/mv"
    chmod +x "$place/late/mv"
    PATH=$place/late:$PATH ${UNDER:-sh} "$tools/spool-wait" --timeout 150 alice &
    waiter=$!
    until [ -n "$(find "$mail/agents/alice/watch" -name '*.lock' 2>/dev/null)" ]; do :; done
    kill $waiter
    wait $waiter 2>/dev/null
    is "$(ls "$mail/agents/alice/watch" 2>/dev/null)" '' "nor when it comes between the rename and the next command"
fi
half=$mail/agents/bob/new/01a22f7a-76d6-712e-90c5-88f3ce114101.json
spool ack --as bob "$id" >"$place/out"
until
    ${UNDER:-sh} "$tools/spool-wait" --timeout 150 bob >"$place/slow" 2>"$place/said" &
    waiter=$!
    sleep 2 # so that the file is younger than the last look at the clock
    begun=$(date +%s)
    printf '{"id":"01a22f7a-76d6-712e-90c5-88f3ce114101","sender":"alice","recipient":"bob",' >"$half"
    sleep 1
    printf '"subject":"s","created":"2026-11-30T18:47:12.123Z","body":"slowly"}\n' >>"$half"
    [ $(($(date +%s) - begun)) -le 2 ]
do # this machine wrote it so slowly that it may have been thrown out
    kill $waiter 2>/dev/null
    wait $waiter
    rm -f "$half" "$mail/agents/bob/failed/"*
done
wait $waiter
is "$(cat "$place/slow" "$place/said")" "$half" "what a script is still writing is waited for, not thrown out"
finish
