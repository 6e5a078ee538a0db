#!/bin/sh
# Put the built pages on the branch gh-pages of a repository, as its only commit: a site needs no history.
#
#   sh tools/publish.sh ADDRESS      what `git push` takes, for example the name of a remote or its address
#
# PUBLISH_TOKEN, if it is set, is what the repository is opened with; it is handed to git and stands on no command line.
set -eu

stop() {
    echo "publish: $*" >&2
    exit 1
}

[ $# -eq 1 ] || stop "usage: sh tools/publish.sh ADDRESS"
address=$1
branch=gh-pages
cd "$(dirname "$0")/.."
[ -f _build/html/index.html ] || stop "there are no pages: run \`make test\`, then \`make book STRICT=1\`"
# The name of a remote means something here only.
case $address in
*[:/]*) ;;
*) address=$(git remote get-url "$address") || stop "there is no remote $1" ;;
esac

site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
cp -R _build/html/. "$site"
cd "$site"
# Without this file the host would leave out every folder whose name begins with an underscore.
: >.nojekyll

give() {
    git -c credential.helper= \
        ${PUBLISH_TOKEN:+-c credential.helper='!f() { echo username=x-access-token; echo "password=$PUBLISH_TOKEN"; }; f'} "$@"
}

git init --quiet
# A domain of the site's own stands in a file on that branch, which the host's settings page writes.
if give fetch --quiet --depth 1 "$address" "$branch" 2>/dev/null; then
    git show FETCH_HEAD:CNAME >CNAME 2>/dev/null || rm -f CNAME
fi
git add --all --force
git -c user.name=publish -c user.email=none -c commit.gpgsign=false commit --quiet --no-verify --message "The pages${GITHUB_SHA:+ of $GITHUB_SHA}"
give push --quiet --force "$address" "HEAD:refs/heads/$branch"
echo "publish: $(git ls-files | wc -l | tr -d ' ') files are on the branch $branch"
