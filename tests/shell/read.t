#!/bin/sh
. ./tap.sh

if ! has flock; then
    spool send --from alice --to bob --subject one >/dev/null
    status 75 "without flock the read lock can't be held, so nothing is read" read bob
    is "$(spool ls bob | wc -l | tr -d ' ')" 1 "and nothing is marked"
    finish && exit
fi
for subject in one two three; do spool send --from alice --to bob --subject $subject >/dev/null; done
is "$(spool read --limit 2 bob | grep Subject)" "Subject: one${newline}Subject: two" "the oldest come first"
is "$(spool count bob)" "bob	1	3	0	0" "what was shown is read, and owed"
is "$(spool ls bob cur | wc -l | tr -d ' ')" 2 "it lies in cur/"
status 64 "a limit is a number" read --limit x bob
if [ -e /dev/full ]; then
    spool read bob >/dev/full 2>/dev/null
    is "$?" 1 "an output that is not taken is a failure"
    is "$(spool ls bob | wc -l | tr -d ' ')" 1 "and marks nothing"
fi
exec 8>"$mail/agents/bob/read.lock"
flock 8
status 75 "a mailbox has one reader at a time" read bob
exec 8>&-
is "$(spool read --json bob | sed 's/.*"subject":"\([^"]*\)".*/\1/')" three "--json prints a message a line"
is "$(spool read bob)" "" "nothing unread prints nothing"
letter "${ID}1" bob 'body' | sed 's/,/,\
/g' | drop bob "new/${ID}1.json"
is "$(spool read --json bob | wc -l | tr -d ' ')" 1 "also one that its writer spread over lines"
printf '{"id":"%s","sender":"cron","recipient":"bob","subject":"a\\u202eb","created":"2026-11-30T18:47:12.000Z","body":"x"}' "${ID}2" | drop bob "new/${ID}2.json"
is "$(spool read bob | grep -c "$(printf '\342\200\256')")" 0 "what turns a line around is not printed"
finish
