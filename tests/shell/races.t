#!/bin/sh
. ./tap.sh

together() { # N TOOL ARGUMENT...: that many at once; what they print is in $place/told.  Who shall try again does so
    n=$1
    shift
    : >"$place/told"
    while [ "$n" -gt 0 ]; do
        n=$((n - 1))
        until spool "$@" || [ $? != 75 ]; do :; done >>"$place/told" 2>>"$place/said" &
    done
    wait
}

together 12 send --from alice --to bob --subject plain
is "$(sort -u "$place/told" | wc -l | tr -d ' ')" 12 "twelve senders at once send twelve messages"
is "$(spool ls bob | wc -l | tr -d ' ')" 12 "all of them arrive"
together 12 send --from alice --to bob --subject keyed --dedup-key k
is "$(sort -u "$place/told" | wc -l | tr -d ' ')" 1 "with one key they send one"
is "$(spool ls bob | wc -l | tr -d ' ')" 13 "which arrives once"
together 20 claim bob
is "$(sed 's/.*\/claimed\///; s/~.*//' "$place/told" | sort | uniq -d)" '' "nothing is claimed twice"
is "$(sort -u "$place/told" | wc -l | tr -d ' ')" 13 "and everything once"
claim=$(head -n 1 "$place/told")
together 8 ack "$claim"
is "$(wc -l <"$place/told" | tr -d ' ')" 1 "of eight who acknowledge one claim, one did it"
if has flock; then
    together 6 init carol dave
    is "$(ls -d "$mail/agents/carol" "$mail/agents/dave" | wc -l | tr -d ' ')" 2 "mailboxes are made once"
    for i in 1 2 3 4 5 6; do spool send --from alice --to carol --subject "$i" >/dev/null; done
    together 4 read --json --limit 2 carol
    is "$(sed 's/.*"id":"\([^"]*\)".*/\1/' "$place/told" | sort | uniq -d)" '' "readers at once show nothing twice"
    is "$(spool count carol)" "carol	0	6	0	0" "and leave nothing out"
else
    skip "mailboxes are made once" "no flock"
fi
status 0 "the spool is clean afterwards" check
finish
