#!/usr/bin/env bash
# Build the wheel and the sdist into dist/, twice and to the same bytes, and use the wheel as somebody
# who has nothing else: installed into an empty environment, in an empty folder.
set -euo pipefail
cd "$(dirname "$0")/../.."
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
export SOURCE_DATE_EPOCH
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

python -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet build check-wheel-contents mypy twine
rm -rf dist
"$work/tools/bin/python" -m build --outdir dist
"$work/tools/bin/python" -m build --outdir "$work/again"
diff -r dist "$work/again"
"$work/tools/bin/twine" check --strict dist/*
"$work/tools/bin/check-wheel-contents" dist/*.whl

wheel="$(echo "$PWD"/dist/*.whl)"
python -m venv "$work/alone"
"$work/alone/bin/pip" install --quiet "clusterbook[book] @ file://$wheel"
"$work/tools/bin/mypy" --strict --python-executable "$work/alone/bin/python" \
    .github/scripts/public_types.py
mkdir "$work/empty"
cd "$work/empty"
time "$work/alone/bin/clusterbook" run tell -p epochs 2 -p seeds "" -p ablations "" --output tell.ipynb
time "$work/alone/bin/clusterbook" book --no-execute
test -s tell.ipynb && test -s _build/html/book/intro.html
