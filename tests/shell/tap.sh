#!/bin/sh
# What the tests beside this file say and do.  Sourced as `. ./tap.sh`; UNDER names the shell that the tools run under.
#
#   spool NAME ARGUMENT...   runs that tool on this test's own spool, which lies in $place and syncs nothing
#   is GOT WANTED NAME       status NUMBER COMMAND... NAME is the last word but the command: see below
# shellcheck disable=SC2034  # the tests use what is set here

set -u
LC_ALL=C
export LC_ALL
tools=${TOOLS:-$(cd ../../tools && pwd)}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
unset AGENT_ID AGENT_MAIL_CLAIM XDG_STATE_HOME
export AGENT_MAIL_SPOOL="$place/the spool" # a path with a blank in it: everywhere
mail=$AGENT_MAIL_SPOOL
count=0
newline='
'

spool() {
    called=$1
    shift
    ${UNDER:-sh} "$tools/spool-$called" "$@"
}
ok() { # STATUS NAME
    count=$((count + 1))
    if [ "$1" = 0 ]; then echo "ok $count - $2"; else echo "not ok $count - $2"; fi
}
is() { # GOT WANTED NAME
    if [ "$1" = "$2" ]; then ok 0 "$3"; else
        ok 1 "$3"
        printf '%s\n' "got:    $1" "wanted: $2" | sed 's/^/# /'
    fi
}
status() { # WANTED NAME TOOL ARGUMENT...: the exit status, and what it said is in $place/said
    wanted=$1 promise=$2
    shift 2
    spool "$@" >"$place/out" 2>"$place/said"
    is "$?" "$wanted" "$promise"
}
code() { sed -n 's/^spool-[a-z]*: \([a-z_]*\): .*/\1/p' "$place/said"; } # of the refusal
has() { command -v "$1" >/dev/null; }
skip() { # NAME REASON
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}
finish() { echo "1..$count"; }
drop() { # AGENT STATE-NAME: standard input becomes a file of that mailbox, two seconds old and more
    cat >"$mail/agents/$1/$2"
    touch -t 202611010000 "$mail/agents/$1/$2"
}
letter() { # ID TO [BODY-JSON]: a message as a script writes it
    printf '{"id":"%s","sender":"cron","recipient":"%s","subject":"dropped","created":"2026-11-30T18:47:12.000Z","body":"%s"}\n' \
        "$1" "$2" "${3:-text}"
}
ID=01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f0
spool init --durability none alice bob || exit 1
