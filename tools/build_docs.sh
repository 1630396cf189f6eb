#!/usr/bin/env bash
# Builds the documentation as a site in build/site. Broken links and anchors are errors.
#   tools/build_docs.sh            installs MkDocs into build/venv-docs if needed, and builds
#   tools/build_docs.sh --serve    also serves the site on http://127.0.0.1:8080
set -euo pipefail
cd "$(dirname "$0")/.."

readonly venv=build/venv-docs
tools/make_venv.sh tools/docs_site/requirements.txt "$venv"
python3 tools/docs_site/stage.py build/site-pages
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --strict --quiet --clean -f tools/docs_site/mkdocs.yml
echo "built build/site: $(find build/site -name '*.html' | wc -l) pages"
if [ "${1:-}" = --serve ]; then exec python3 -m http.server --bind 127.0.0.1 --directory build/site 8080; fi
