# Reads one message strictly, as "The message file" of spool/README.md says, and tells or shows what it is.
#
#   { tr CONTROLS '\001' < FILE && printf '\002'; } | awk -v mode=judge -v id=ID -v box=AGENT -f text.awk -f message.awk
#
# Without that mark at its end the text is not whole, and nothing is said of it but cannot_read.
#
# Any awk will do; it must run in the C locale, where characters are bytes.  The text is taken apart at its quotes
# (RS), so that a body of a mebibyte is a few records.  `mode`:
#   judge   prints a code and a sentence if the file is refused, else "ok"; then one value a line: id, sender,
#           recipient, thread_id, conversation_id, turn, dedup_key, kind (empty for null).  An empty `id` or `box`
#           asks for none in particular.
#   show    prints the message for people; `tty` neutralises the body, too
#   FIELD   prints the text of that field, byte for byte
#   @NAME.NAME  prints the scalar there in any JSON object (spool.json)

BEGIN {
    RS = "\""
    hide = "(\342\200[\213-\217\252-\256])|(\342\201[\240-\257])|(\342\200[\250\251])|(\357\273\277)|(\330\234)|(\341\240\216)"
    mark = "\357\277\275"
    for (i = 0; i < 16; i++) hex[substr("0123456789abcdef", i + 1, 1)] = hex[substr("0123456789ABCDEF", i + 1, 1)] = i
    split("id sender recipient subject kind reply_to thread_id conversation_id turn hops response_deadline dedup_key refs headers created body", order, " ")
}

# ---- tokens: k is the kind, v the text; a string is the pieces v .. e, between which an escaped quote stood

{ whole = substr($0, length($0)) == "\002"; if (whole) $0 = substr($0, 1, length($0) - 1) }
bad { next }
!inside { outside($0); inside = 1; first = pieces + 1; next }
{
    piece[++pieces] = $0
    if ($0 ~ /[\001-\037]/) refuse("not_json", "a control character stands in a string")
    if ($0 ~ /[\200-\377]/ && !utf8($0)) refuse("not_json", "it is not UTF-8")
    for (i = length($0); i > 0 && substr($0, i, 1) == "\\"; i--);
    if ((length($0) - i) % 2) { piece[pieces] = substr($0, 1, length($0) - 1); next }
    k[++n] = "s"; v[n] = first; e[n] = pieces; inside = 0
}

END {
    if (!whole) { bad = "cannot_read"; why = "it can't be read to its end" }
    if (!bad) { pos = 1; size = value(1) }
    if (!bad && pos <= n) refuse("not_json", "something follows the JSON value")
    if (!bad && substr(mode, 1, 1) == "@") { print found; exit 0 }
    if (!bad && k[1] != "{") refuse("not_an_object", "it is not a JSON object")
    if (!bad) check()
    if (bad) { if (mode == "judge") print bad "\n" why; exit 1 }
    if (mode == "judge") {
        print "ok\n"
        split("id sender recipient thread_id conversation_id turn dedup_key kind", told, " ")
        for (i = 1; i in told; i++) print scalar(told[i])
    } else if (mode == "show") show()
    else if (mode in at) { sink = "print"; k[at[mode]] == "s" ? walk(at[mode]) : plain(at[mode]) }
}

function refuse(code, sentence) { if (!bad) { bad = code; why = sentence }; return 0 }

function outside(t,    c) {
    gsub(/[ \t\r\n]+/, " ", t)
    if (length(t) > 60000) return refuse("too_large", "there are too many values in it")
    while (t != "" && !bad) {
        c = substr(t, 1, 1)
        if (c == " ") { t = substr(t, 2); continue }
        if (index("{}[],:", c)) {
            deep += (index("{[", c) > 0) - (index("}]", c) > 0)
            if (deep > 32) return refuse("too_deep", "it is nested deeper than 32")
            k[++n] = c; t = substr(t, 2); continue
        }
        if (match(t, /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/)) k[++n] = "n"
        else if (match(t, /^(true|false|null)/)) k[++n] = "l"
        else return refuse(t ~ /^-?(NaN|Infinity)/ ? "bad_number" : "not_json", "something in it is no JSON value")
        v[n] = substr(t, 1, RLENGTH); t = substr(t, RLENGTH + 1)
        if (k[n] == "n") number(v[n])
    }
}

function number(s,    digits) {
    if (s ~ /[.eE]/) {
        # The first: an awk to which infinity is no number.
        if (s + 0 == 0 && s ~ /^-?[0.]*[1-9].*[eE][+]?[0-9]/ || s + 0 > 1.7976931348623157e308 || s + 0 < -1.7976931348623157e308) refuse("bad_number", "a number is beyond a double")
        return
    }
    digits = s; sub(/^-/, "", digits)
    if (length(digits) > 16 || (length(digits) == 16 && digits "" > "9007199254740992")) refuse("bad_number", "an integer is beyond 2^53")
}

# ---- grammar: answers how many bytes a value takes in the writers' form

function value(depth, path,    c, me, key, len, one) {
    c = k[pos++]
    if (c == "n" || c == "l") { if (path == mode) found = v[pos - 1]; return length(v[pos - 1]) }
    if (c == "s") {
        sink = path == mode ? "keep" : ""; walk(pos - 1)
        if (path == mode) found = text
        return written + 2
    }
    if (c != "{" && c != "[") return refuse("not_json", "a value is missing")
    if (k[pos] == (c == "{" ? "}" : "]")) { pos++; return 2 }
    me = ++objects
    for (len = 1; !bad; ) {
        if (c == "{") {
            if (k[pos] != "s" || k[pos + 1] != ":") return refuse("not_json", "a key is missing")
            sink = "keep"; walk(pos); key = text
            if ((me, key) in seen) return refuse("duplicate_key", "a key stands there twice")
            seen[me, key]; pos += 2; one = written + 3
            if (depth == 1) { at[key] = pos; last = key }
        } else one = 0
        if (c == "[" && depth == 2 && last == "refs") ref[++refs] = pos
        one += value(depth + 1, depth == 1 && substr(mode, 1, 1) == "@" ? "@." key : path "." key)
        if (depth == 1) { bytes[key] = one - length(key) - 3 }
        len += one + 1
        if (depth > 1 && len > 9000 || depth == 1 && n > 20000) return refuse("too_large", "the envelope takes more than 8192 bytes")
        if (k[pos] == (c == "{" ? "}" : "]")) { pos++; return len }
        if (k[pos++] != ",") return refuse("not_json", "it is no JSON, or ends too early")
    }
}

# ---- strings: `text` (sink keep), `length8` in bytes, `written` in the writers' form, `ctl`: 1 only TAB LF CR, 2 others

function walk(t,    i, j, m, part, c, cp, high) {
    text = ""; length8 = written = ctl = 0
    for (i = v[t]; i <= e[t]; i++) {
        if (i > v[t]) emit("\"", 2)
        if (!index(piece[i], "\\")) { literal(piece[i]); continue }
        m = split(piece[i], part, "\\")
        literal(part[1]); high = 0
        for (j = 2; j <= m; j++) {
            c = substr(part[j], 1, 1)
            if (high && part[j] !~ /^u[dD][c-fC-F]/) return refuse("not_json", "half of a surrogate pair")
            if (c == "u") {
                if (part[j] !~ /^u[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F]/) return refuse("not_json", "an escape without its four digits")
                cp = hex[substr(part[j], 2, 1)] * 4096 + hex[substr(part[j], 3, 1)] * 256 + hex[substr(part[j], 4, 1)] * 16 + hex[substr(part[j], 5, 1)]
                if (high) { cp = 65536 + (high - 55296) * 1024 + cp - 56320; high = 0 }
                else if (cp >= 55296 && cp < 56320) {
                    if (length(part[j]) > 5) return refuse("not_json", "half of a surrogate pair")
                    high = cp; continue
                } else if (cp >= 56320 && cp < 57344) return refuse("not_json", "half of a surrogate pair")
                point(cp); part[j] = substr(part[j], 6)
            } else if (c == "" && j < m) { emit("\\", 2); if (part[++j] != "") literal(part[j]); continue }
            else if (c == "") return refuse("not_json", "a string ends in an escape")
            else if (index("bfnrt", c)) { point(substr("08121013 9", index("bfnrt", c) * 2 - 1, 2) + 0); part[j] = substr(part[j], 2) }
            else if (c == "/") ;    # it stands for itself
            else return refuse("not_json", "an escape that JSON has not")
            if (part[j] != "") literal(part[j])
        }
        if (high) return refuse("not_json", "half of a surrogate pair")
    }
}

function point(cp) {
    if (cp < 32 || cp > 126 && cp < 160) ctl = ctl < 2 && (cp == 9 || cp == 10 || cp == 13) ? 1 : 2
    if (cp < 32) emit(cp ? sprintf("%c", cp) : "\377", cp == 8 || cp == 9 || cp == 10 || cp == 12 || cp == 13 ? 2 : 6)
    else if (cp < 128) emit(sprintf("%c", cp), cp == 34 || cp == 92 ? 2 : 1)
    else if (cp < 2048) emit(sprintf("%c%c", 192 + int(cp / 64), 128 + cp % 64), 2)
    else if (cp < 65536) emit(sprintf("%c%c%c", 224 + int(cp / 4096), 128 + int(cp / 64) % 64, 128 + cp % 64), 3)
    else emit(sprintf("%c%c%c%c", 240 + int(cp / 262144), 128 + int(cp / 4096) % 64, 128 + int(cp / 64) % 64, 128 + cp % 64), 4)
}

function literal(s) {
    if (s ~ /[\177\302]/ && (s ~ /\177/ || s ~ /\302[\200-\237]/)) ctl = 2
    emit(s, length(s))
}

function emit(s, w) {
    length8 += length(s); written += w
    if (sink == "print") printf "%s", s
    else if (sink == "safe") { gsub(hide, mark, s); printf "%s", s }
    else if (sink == "keep") text = text s
}

function plain(t) { printf "%s", v[t] }
function string(name) { sink = "keep"; walk(at[name]); return text }
function given(name) { return name in at && !(k[at[name]] == "l" && v[at[name]] == "null") }
function scalar(name) { return !given(name) ? "" : k[at[name]] == "s" ? string(name) : v[at[name]] }

# ---- the rules, in the order of the fields

function check(    i, f, s, total) {
    for (i = 1; i <= 16 && !bad; i++) {
        f = order[i]
        if (!(f in at)) {
            if (f ~ /^(id|sender|recipient|subject|created|body)$/) refuse("missing_field", "there is no " f)
            else bytes[f] = f == "refs" || f == "headers" ? 2 : 4
        } else if (!given(f)) {
            if (f ~ /^(id|sender|recipient|subject|created|body|refs|headers)$/) refuse("bad_type", f " is null")
        } else field(f)
    }
    for (f in bytes) if (f != "body") total += length(f) + bytes[f] + 4
    # The braces and commas: one for each member, and `"body":` behind them.
    if (!bad && total + 8 > 8192) refuse("too_large", "everything but the body takes more than 8192 bytes")
    if (!bad && id != "" && scalar("id") != id) refuse("bad_id", "the file has another id in its name")
    if (!bad && box != "" && scalar("recipient") != "*" && scalar("recipient") != box) refuse("not_yours", "it is addressed to another")
}

function field(f,    kind, s) {
    kind = k[at[f]]
    if (f == "refs") return checkrefs()
    if (f == "headers") return kind != "{" ? refuse("bad_type", "headers is no object") : bytes[f] > 4096 ? refuse("bad_headers", "headers take more than 4096 bytes") : 0
    if (f == "turn" || f == "hops") {
        if (kind != "n" || v[at[f]] ~ /[.eE]/) return refuse("bad_type", f " is no whole number")
        return v[at[f]] + 0 < (f == "turn") ? refuse("bad_number", f " is too small") : 0
    }
    if (kind != "s") return refuse("bad_type", f " is no text")
    if (f == "body") {
        sink = ""; walk(at[f])
        if (length8 > 1048576) return refuse("too_large", "the body has more than 1048576 bytes")
        return ctl > 1 ? refuse("bad_body", "the body has a control character") : 0
    }
    s = string(f)
    if (f == "subject" && (ctl || s == "" || characters(s) > 500 || s ~ /\342\200[\250\251]/)) refuse("bad_subject", "the subject is not one line of 1 to 500 characters")
    if (f == "kind" && (ctl || s == "" || length(s) > 40)) refuse("bad_field", "the kind is not one line of 1 to 40 bytes")
    if (f == "dedup_key" && (ctl || s == "" || characters(s) > 200)) refuse("bad_key", "the dedup_key is not one line of 1 to 200 characters")
    if (f == "created" || f == "response_deadline") if (ctl || !instant(s)) refuse("bad_time", f " is no time")
    if (f == "sender" || f == "recipient") if (!(f == "recipient" && s == "*") && !agent(s)) refuse("bad_agent", f " is no agent name")
    if (f ~ /^(id|reply_to|thread_id|conversation_id)$/ && !uuid(s)) refuse("bad_id", f " is no message id")
}

function checkrefs(    i) {
    if (k[at["refs"]] != "[") return refuse("bad_type", "refs is no list")
    if (refs > 64) return refuse("bad_refs", "there are more than 64 refs")
    for (i = 1; i <= refs && !bad; i++) {
        if (k[ref[i]] != "s") return refuse("bad_type", "a ref is no text")
        sink = ""; walk(ref[i])
        if (ctl || length8 < 1 || length8 > 4096) refuse("bad_refs", "a ref is not one line of 1 to 4096 bytes")
    }
}

function instant(s,    y, m, d) {
    if (length(s) != 24 || s !~ /^[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9][0-9][0-9]Z$/) return 0
    y = substr(s, 1, 4) + 0; m = substr(s, 6, 2) + 0; d = substr(s, 9, 2) + 0
    if (m < 1 || m > 12 || d < 1 || substr(s, 12, 2) + 0 > 23) return 0
    return d <= (m == 2 ? 28 + (y % 4 == 0 && (y % 100 != 0 || y % 400 == 0)) : 30 + (m == 4 || m == 6 || m == 9 || m == 11 ? 0 : 1))
}

# ---- for people: a few lines, an empty one, the body.  What acts on a line's direction is shown as a mark.

function show(    i, s) {
    split("id Id sender From recipient To created Date subject Subject kind Kind reply_to Reply-To conversation_id Conversation", line, " ")
    for (i = 1; i in line; i += 2) if (given(line[i])) {
        s = scalar(line[i]); gsub(hide, mark, s); print line[i + 1] ": " s
    }
    for (i = 1; i <= refs; i++) { sink = "keep"; walk(ref[i]); gsub(hide, mark, text); print "Ref: " text }
    print ""
    sink = tty ? "safe" : "print"; walk(at["body"])
    if (length8) print ""
}
