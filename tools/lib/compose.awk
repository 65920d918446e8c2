# Writes one message in the writers' form: { body && printf '\001x\n'; } | awk -f text.awk -f compose.awk
#
# The mark at the end tells a body that ends with a newline from one that doesn't, and one that could not be read.  All else comes by the environment,
# which keeps every byte: M_FILE (empty: only look whether it may be sent), M_ID, M_SENDER, M_RECIPIENT, M_SUBJECT,
# M_KIND, M_REPLY_TO, M_THREAD_ID, M_DEDUP_KEY, M_DEADLINE, M_REFS (one a line), M_CREATED, M_LIMIT (bytes of body).
# What is refused is said by its code and a sentence, a line each, and status 1.  A file is read back before it is
# called written, for not every awk notices a full disk.

BEGIN {
    file = ENVIRON["M_FILE"]
    subject = ENVIRON["M_SUBJECT"]
    if (control(subject) || subject == "" || !utf8(subject) || characters(subject) > 500 || subject ~ /\342\200[\250\251]/)
        refuse("bad_subject", "a subject is one line of 1 to 500 characters, without control characters")
    kind = ENVIRON["M_KIND"]
    if (control(kind) || !utf8(kind) || length(kind) > 40) refuse("bad_field", "a kind is one line of 1 to 40 bytes")
    key = ENVIRON["M_DEDUP_KEY"]
    if (control(key) || !utf8(key) || characters(key) > 200) refuse("bad_key", "a dedup key is one line of 1 to 200 characters")
    count = split(ENVIRON["M_REFS"], ref, "\n")
    if (count > 64) refuse("bad_refs", "there are more than 64 refs")
    for (i = 1; i <= count; i++) {
        if (control(ref[i]) || ref[i] == "" || !utf8(ref[i]) || length(ref[i]) > 4096) refuse("bad_refs", "a ref is one line of 1 to 4,096 bytes of UTF-8")
        refs = refs (i > 1 ? "," : "") quote(ref[i])
    }
    head = "{\"id\":" quote(ENVIRON["M_ID"]) ",\"sender\":" quote(ENVIRON["M_SENDER"]) ",\"recipient\":" quote(ENVIRON["M_RECIPIENT"]) \
        ",\"subject\":" quote(subject) ",\"kind\":" maybe(kind) ",\"reply_to\":" maybe(ENVIRON["M_REPLY_TO"]) \
        ",\"thread_id\":" maybe(ENVIRON["M_THREAD_ID"]) ",\"conversation_id\":null,\"turn\":null,\"hops\":null,\"response_deadline\":" \
        maybe(ENVIRON["M_DEADLINE"]) ",\"dedup_key\":" maybe(key) ",\"refs\":[" refs "],\"headers\":{},\"created\":" quote(ENVIRON["M_CREATED"]) ",\"body\":"
    if (length(head) > 8192) refuse("too_large", "everything but the body takes more than 8,192 bytes: fewer or shorter refs")
    write(head "\"")
}

NR > 1 { line(last); write("\\n"); bytes++ }
{ last = $0 }
bytes > limit() { refuse("too_large", "the body has more than " limit() " bytes: put it into a file and name that with --ref") }

END {
    if (refused) exit 1
    if (last !~ /\001x$/) refuse("cannot_read", "the body could not be read to its end")
    line(substr(last, 1, length(last) - 2))
    if (bytes > limit()) refuse("too_large", "the body has more than " limit() " bytes: put it into a file and name that with --ref")
    write("\"}\n")
    if (file == "") exit 0
    close(file)
    while ((getline last < file) > 0) back += length(last) + 1
    if (back != total) refuse("cannot_write", "the draft could not be written whole: is the disk full?")
}

function refuse(code, sentence) { print code "\n" sentence; refused = 1; exit 1 }
function limit() { return ENVIRON["M_LIMIT"] + 0 }
function quote(s) { gsub(/["\\]/, "\\\\&", s); return "\"" s "\"" }
function maybe(s) { return s == "" ? "null" : quote(s) }

function line(s) {
    bytes += length(s)
    if (forbidden(s)) refuse("bad_body", "a body is text: no control characters but TAB, LF and CR")
    if (s ~ /[\200-\377]/ && !utf8(s)) refuse("bad_body", "a body is UTF-8 text")
    gsub(/["\\]/, "\\\\&", s); gsub(/\t/, "\\t", s); gsub(/\r/, "\\r", s)
    write(s)
}

function write(s) { total += length(s); if (file != "") printf "%s", s > file }
