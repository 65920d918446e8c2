# Needs make and Python 3.11 or newer, nothing else.  Everything else is put into .venv by the first target that
# wants it, and stays there.
#
# One environment, and in it the package as users get it: built as a wheel, installed, byte-compiled.  There is no
# editable install, so what is tested and measured is what is shipped (an editable one would also compile every
# module again at each start where PYTHONDONTWRITEBYTECODE is set).  The wheel is made anew when a file that goes
# into it has changed; `find` names the directories too, so a deleted file counts as a change.
#
# make PYTHON=python3.12 …   uses that interpreter (after `make clean`)

.SUFFIXES:
.DELETE_ON_ERROR:
.PHONY: demo test lint bench dist clean

PYTHON ?= python3.13 python3.12 python3.11 python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
SHIPPED := pyproject.toml README.md LICENSE \
	$(shell find maildir_agents spool systemd -name __pycache__ -prune -o -print)

demo: .venv/package
	@$(BIN)/agent-mail demo

# Arguments for pytest, say `make test T="-k watch -x"`, or one directory of tests/; with -n 0 in one process.
T ?=
test: .venv/dev .venv/package
	@$(BIN)/pytest -q -rs -n logical --maxprocesses 4 --dist loadfile $(T)

lint: .venv/dev .venv/package
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --config pyproject.toml > .venv/lint-imports.log 2>&1 || { cat .venv/lint-imports.log; exit 1; }
	@if command -v shellcheck > /dev/null; then \
	    find .ci tools tests/shell -type f 2> /dev/null | while read -r f; do head -n 1 "$$f" | grep -q '^#!.*sh$$' && echo "$$f"; done | xargs -r shellcheck; \
	else echo 'lint: shellcheck is not installed, shell scripts were not looked at'; fi
	@echo 'lint: ruff, mypy --strict, import contracts: nothing to say'

bench: .venv/dev .venv/package
	@$(BIN)/python tests/bench

dist: .venv/dev
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist . > .venv/build.log 2>&1 || { cat .venv/build.log; exit 1; }
	@ls dist

clean:
	@rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------- the environment; each file is a stamp

.venv/made:
	@found=; \
	for p in $(PYTHON); do \
	    if "$$p" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then found=$$p; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo 'This needs Python 3.11 or newer with its venv module.  Looked at:' >&2; \
	    for p in $(PYTHON); do \
	        if ! command -v "$$p" > /dev/null; then echo "  $$p: not found"; \
	        elif ! "$$p" -c '' 2> /dev/null; then echo "  $$p: does not run"; \
	        elif ! "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then echo "  $$p: older ($$("$$p" -V 2>&1))"; \
	        else echo "  $$p: new enough, but without venv and ensurepip (on Debian and Ubuntu: apt install python3-venv)"; fi; \
	    done >&2; \
	    exit 1; \
	fi; \
	echo "setting up .venv with $$("$$found" -V) (once)"; \
	rm -rf .venv && "$$found" -m venv .venv && touch $@

# Where hatchling is there already, the network is not asked for it again.
.venv/package: .venv/made $(SHIPPED)
	@if [ -e .venv/dev ]; then $(PIP) install --no-build-isolation .; else $(PIP) install .; fi
	@touch $@

# The requirements of the extra alone: installing `.[dev]` would build the package a second time.
.venv/dev: .venv/made pyproject.toml
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["dev"], sep="\n")' > .venv/dev.txt
	@$(PIP) install -r .venv/dev.txt
	@touch $@
